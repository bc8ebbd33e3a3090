// SPDX-License-Identifier: MIT
// photon's clock for the share of its time inside MPI (option --time).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace photon {

inline std::uint64_t ticks()
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(
        std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Adds up the time between entry and return of MPI calls. Reading the clock costs
// about as much as a test that finds nothing, so it is off unless asked for, and
// the cost of the readings is taken out of the share.
class MpiClock {
public:
    void enable()
    {
        on_ = true;
        cost_ = std::numeric_limits<std::uint64_t>::max();
        for (int i = 0; i < 10'000; ++i) {
            const std::uint64_t start = ticks();
            cost_ = std::min(cost_, ticks() - start);
        }
    }

    void start() { start_ = ticks(); }
    void stop() { total_ = ticks() - start_; }

    template <class Call>
    void operator()(Call call)
    {
        if (!on_) {
            call();
            return;
        }
        const std::uint64_t before = ticks();
        call();
        inside_ += ticks() - before;
        ++calls_;
    }

    double share() const
    {
        const auto readings = static_cast<double>(calls_ * cost_);
        return (static_cast<double>(inside_) - readings) /
               (static_cast<double>(total_) - 2 * readings);
    }

private:
    bool on_ = false;
    std::uint64_t cost_ = 0, start_ = 0, total_ = 0, inside_ = 0, calls_ = 0;
};

inline MpiClock in_mpi;

} // namespace photon
