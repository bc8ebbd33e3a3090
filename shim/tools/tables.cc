// SPDX-License-Identifier: MIT
#include "tables.hh"

#include "words.hh"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace storm::tools {
namespace {

struct Row {
    const char *name;
    const char *text;
    const char *kind;
};

constexpr Row counters[] = {
#define STORM_COUNTER(field, name, help) {name, help, "sum over all ranks"},
#define STORM_MARK(name, help) {name, help, "highest of any rank"},
#include "counters.def"
#undef STORM_COUNTER
};

constexpr Row calls[] = {
#define STORM_CALL(name, handling) {name, handling, ""},
#include "calls.inc"
#undef STORM_CALL
};

template <std::size_t n>
void print_rows(const Row (&rows)[n]) {
    std::size_t width = 0;
    for (const Row &row : rows) width = std::max(width, std::strlen(row.name));
    for (const Row &row : rows) std::printf("  %-*s  %s\n", static_cast<int>(width), row.name, row.text);
}

// What happens to calls, and to how many, in the order of its first call.
std::vector<std::pair<std::string, int>> handlings() {
    std::vector<std::pair<std::string, int>> found;
    for (const Row &call : calls) {
        const auto same = [&](const auto &one) { return one.first == call.text; };
        auto at = std::find_if(found.begin(), found.end(), same);
        if (at == found.end()) at = found.insert(at, {call.text, 0});
        ++at->second;
    }
    return found;
}

}  // namespace

void print_counters() { print_rows(counters); }

void print_calls() { print_rows(calls); }

void print_table_sizes() {
    std::printf("counters: %zu (storm-info --counters names them)\n", std::size(counters));
    std::printf("calls of MPI: %zu (storm-info --calls names them)\n", std::size(calls));
    for (const auto &[handling, number] : handlings()) std::printf("  %3d %s\n", number, handling.c_str());
}

void write_counters(JsonWriter &out) {
    out.key("counters").open('[');
    for (const Row &row : counters) {
        out.open('{');
        out.member("name", row.name);
        out.member("help", row.text);
        out.member("in_the_report", row.kind);
        out.close('}');
        out.line();
    }
    out.close(']');
}

void write_calls(JsonWriter &out) {
    out.key("calls").open('[');
    for (const Row &row : calls) {
        out.open('{');
        out.member("name", row.name);
        out.member("handling", row.text);
        out.close('}');
        out.line();
    }
    out.close(']');
}

void print_counters_roff() {
    for (const Row &row : counters)
        std::printf(".TP\n.B %s\n\\&%s.\n", roff(row.name).c_str(), roff(row.text).c_str());
}

}  // namespace storm::tools
