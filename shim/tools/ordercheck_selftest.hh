// SPDX-License-Identifier: MIT
// Is the checker itself to be trusted? On a fabric in memory that breaks what it claims, each
// mode that rests on the broken promise must be found torn; on one that keeps it, none.
#pragma once

#include "backends/wire/promises.hh"

#include <cstdint>
#include <string>

namespace storm::order {

struct Trial {
    wire::Mode mode;
    bool keeps = true;  // does the fabric keep what the mode rests on?
    bool verify = false;
    std::uint64_t seed = 1;
    std::uint64_t rounds = 3000;
};

struct Finding {
    std::uint64_t rounds = 0; // that were checked
    std::uint64_t torn = 0;   // that the checker found
    bool stopped = false;     // STORM_VERIFY stopped it before
    std::string broken;       // a caller broke the contract
};

Finding try_order(const Trial& trial);

// All of them, a line each; false when one does not come out as it must.
bool selftest();

} // namespace storm::order
