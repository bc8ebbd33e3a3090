// SPDX-License-Identifier: MIT
// The tables of counters and calls as storm-info shows them.
#pragma once

#include "json.hh"

namespace storm::tools {

void print_counters();
void print_calls();
void print_table_sizes();  // how many of each, and how to see them

void write_counters(JsonWriter &out);
void write_calls(JsonWriter &out);

void print_counters_roff();

}  // namespace storm::tools
