// SPDX-License-Identifier: MIT
// Time as the Rank object sees it: injected, so that a simulation can run on
// virtual time. Ticks are cheap and of unknown rate; `ticks_per_us` relates them.
#pragma once

#include <cstdint>

namespace storm {

class Clock {
public:
    virtual ~Clock() = default;
    virtual std::uint64_t ticks() = 0;
    virtual std::uint64_t ticks_per_us() const = 0;
    virtual void yield() = 0;                      // let another process have this core
    virtual void sleep_us(std::uint32_t us) = 0;   // at most this long
};

} // namespace storm
