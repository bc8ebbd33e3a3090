// SPDX-License-Identifier: MIT
// What a fabric promises about the order in which its writes become visible to a CPU
// that polls, and the publication modes that are right under such promises.
#pragma once

#include "base/status.hh"

#include <cstdint>
#include <string>
#include <string_view>

namespace storm::wire {

enum class Mode : std::uint8_t { stamped, complete, remote_cq, ordered, fence };
constexpr unsigned kModes = 5;

struct Promises {
    const char* provider = "";   // as the fabric names itself
    bool delivery_complete = false; // really waits for the target's memory
    bool remote_cq = false;         // completion data at the target after the bytes are placed
    bool placement_order = false;   // a later write of this pair is seen after an earlier one
    bool fenced = false;            // a fenced one is
    bool whole_lines = false;       // a cache line of one write is never seen in part
    bool auto_progress = false;     // writes are placed without a call at the target
    Mode usual = Mode::stamped;     // taken under STORM_ORDERING=auto
    const char* note = "";          // why
};

// matrix.def, row by row; null behind the last.
struct Row {
    std::string_view provider, core;
    Promises promises;
};
const Row* row(unsigned n);

// The row of matrix.def for a fabric and the provider under it.
const Promises& promises_of(std::string_view provider, std::string_view core);

const char* mode_name(Mode mode);
// The promise that a mode rests on, in words; "" when it needs none.
const char* needed_by(Mode mode);
bool allowed(Mode mode, const Promises& promises);

// The mode that STORM_ORDERING asks for. refused: `why` names provider and missing promise.
Status choose_mode(std::string_view ordering, const Promises& promises, Mode& mode, std::string& why);

} // namespace storm::wire
