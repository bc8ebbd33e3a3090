// SPDX-License-Identifier: MIT
// What a provider promises about its one-sided writes, as data: a row a fabric. What it
// does not promise the simulated fabric breaks whenever it can.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace storm::sim {

enum class Mode : std::uint8_t { stamped, complete, remote_cq, ordered, fence };
constexpr std::array<const char*, 5> kModeNames = {"stamped", "complete", "remote-cq", "ordered", "fence"};

struct Attributes {
    const char* name = "";
    bool direct = false;            // what the sender stores is what the receiver loads
    bool placement_order = false;   // a later write of a pair is seen after an earlier one
    bool fence_places = false;      // a fenced one is
    bool delivery_complete = false; // completion really waits for the target's memory
    bool remote_cq = false;         // a write may tell its target, after its bytes are placed
    bool overlap_order = false;     // of two writes to one place the later one stays
    bool whole_lines = false;       // a cache line of one write is never seen in part
    bool auto_progress = false;     // writes are placed without a call at the target
    bool at_once = false;           // whole and in order: for models of time, no adversary
};

inline constexpr Attributes kRows[] = {
#define STORM_ROW(name, direct, placement, fence, delivery, remote_cq, overlap, lines, progress)                   \
    {name, direct, placement, fence, delivery, remote_cq, overlap, lines, progress, false},
#include "rows.def"
#undef STORM_ROW
};

inline const Attributes* row_named(std::string_view name)
{
    for (const Attributes& row : kRows)
        if (name == row.name)
            return &row;
    return nullptr;
}

// May the mode be asked for at all, and is it right?
inline bool possible(const Attributes& row, Mode mode)
{
    return row.direct ? mode == Mode::ordered : mode != Mode::remote_cq || row.remote_cq;
}

// The expectation: whoever plays must find the wrong ones wrong, and the right ones right.
inline bool right(const Attributes& row, Mode mode)
{
    switch (mode) {
    case Mode::stamped: return true;
    case Mode::complete: return row.delivery_complete || row.placement_order; // it is no less than ordered
    case Mode::remote_cq: return row.remote_cq;
    case Mode::ordered: return row.placement_order;
    case Mode::fence: return row.fence_places;
    }
    return false;
}

} // namespace storm::sim
