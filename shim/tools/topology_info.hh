// SPDX-License-Identifier: MIT
// What storm-info tells of the machine: its NUMA nodes and network devices, and which of
// these each rank would use for other hosts, and why.
#pragma once

#include <string>
#include <vector>

#include "../../topology/choice.hh"
#include "json.hh"

namespace storm::tools {

struct TopologyFound {
    std::string why;  // "" when the machine could be read
    topology::Machine machine;
    std::vector<topology::Place> places;  // of the ranks below
    std::vector<topology::Choice> choices;
};

// With `ranks` 0 the one rank is this process, where the launcher put it; else that many
// share the usable cpus. `folder` is that of libstorm.so; `source` and `nic` are settings.
[[nodiscard]] TopologyFound find_topology(const std::string &folder, const std::string &source,
                                          const std::string &nic, int ranks);

void print_topology(const TopologyFound &found);
void write_topology(JsonWriter &out, const TopologyFound &found);

}  // namespace storm::tools
