// SPDX-License-Identifier: MIT
// The programs that are explored, and which weakened accesses each of them must find.
#pragma once

#include "explorer.hh"

#include <string>
#include <vector>

namespace storm::explore {

struct Named {
    std::string name;
    Explorer::Program program;
    std::vector<Weakening> finds;
    // what the executions must have shown together; "" when they have
    std::function<std::string()> verdict = nullptr;
};

std::vector<Named> ring_programs();   // ring.hh: records, laps, skips, growth
std::vector<Named> claim_programs();  // backends/shm/slab.hh
std::vector<Named> request_programs(); // request.hh
std::vector<Named> known_programs();  // what is known of the model: it allows and forbids what C++ does

// Memory that programs use: the same places in every execution, zero at its beginning.
struct alignas(64) Line {
    std::byte bytes[64];
};
inline std::byte* zeroed(std::vector<Line>& lines, std::size_t bytes)
{
    lines.assign((bytes + sizeof(Line) - 1) / sizeof(Line), Line{});
    return lines[0].bytes;
}

} // namespace storm::explore
