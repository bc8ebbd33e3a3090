// SPDX-License-Identifier: MIT
// Memory that the CPU must not touch (a GPU's), as its runtimes in this process tell of
// it. Whoever asks may be told `true` of memory that the CPU could touch: its messages go
// by the real MPI, which is right for any memory. It is never told `false` of memory
// that it could not.
#pragma once

#include <atomic>
#include <cstdint>

namespace storm {

class DeviceMemory {
public:
    DeviceMemory(const DeviceMemory&) = delete;

    // One comparison: false while nothing was loaded that could hand out such memory.
    bool possible() const
    {
        // relaxed: a program has seen its library loaded before it has memory of it
        return loads_now() != without_.load(std::memory_order_relaxed);
    }
    // To be asked when it is possible; from any thread, also with a channel's lock held.
    virtual bool holds(const void*) { return false; }
    // At a turn of the real MPI: what was loaded that `possible` does not see?
    virtual void look() {}

protected:
    constexpr DeviceMemory() = default;
    ~DeviceMemory() = default; // not virtual: the one of a process without devices ends with it

    std::uint64_t loads_now() const
    {
        const std::uint64_t* word = loads_.load(std::memory_order_relaxed); // relaxed: either word will do
        // relaxed: as in possible()
        return std::atomic_ref(const_cast<std::uint64_t&>(*word)).load(std::memory_order_relaxed);
    }

    static constexpr std::uint64_t kNothingLoads = 0;
    std::atomic<const std::uint64_t*> loads_{&kNothingLoads}; // it changes when a library is loaded
    std::atomic<std::uint64_t> without_{0};       // its value when there was no runtime
};

} // namespace storm
