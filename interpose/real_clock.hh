// SPDX-License-Identifier: MIT
// The clock of a real process: the processor's counter, related to time by measuring.
#pragma once

#include "base/clock.hh"

#include <ctime>
#include <sched.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace storm::interpose {

class RealClock final : public Clock {
public:
    std::uint64_t ticks() override { return counter(); }
    std::uint64_t ticks_per_us() const override { return per_us_; }
    void yield() override { sched_yield(); }
    void sleep_us(std::uint32_t us) override
    {
        const timespec pause{0, static_cast<long>(us) * 1000};
        nanosleep(&pause, nullptr);
    }

    static std::uint64_t counter()
    {
#if defined(__x86_64__)
        return __rdtsc();
#elif defined(__aarch64__)
        std::uint64_t value;
        asm volatile("mrs %0, cntvct_el0" : "=r"(value));
        return value;
#else
        return nanoseconds();
#endif
    }

    // Between begin and finish some milliseconds should pass (MPI_Init does).
    void begin()
    {
        first_ns_ = nanoseconds();
        first_ = counter();
    }
    void finish()
    {
        const std::uint64_t ns = nanoseconds() - first_ns_;
        if (ns > 100000)
            per_us_ = (counter() - first_) * 1000 / ns;
        if (per_us_ == 0)
            per_us_ = 1;
    }

private:
    static std::uint64_t nanoseconds()
    {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
    }
    std::uint64_t first_ns_ = 0, first_ = 0, per_us_ = 1000;
};

} // namespace storm::interpose
