// What a fabric promises about the order in which its writes become visible to a CPU
// that polls, and the publication modes that are right under such promises.
#pragma once

#include <cstdint>

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
};

} // namespace storm::wire
