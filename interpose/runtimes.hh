// SPDX-License-Identifier: MIT
// The GPU runtimes of this process, which tell which memory is a device's: the CUDA
// driver and HIP. They are found when they are loaded, also long after MPI_Init; without
// one a message costs one comparison.
//
// What is remembered: a device's allocation, whole and for long, as its messages are
// right even when the CPU has that memory by now; a page of the CPU's memory for a time
// in which no driver can take it back from the process and map a device there.
#pragma once

#include "base/device_memory.hh"
#include "base/log.hh"

#include <array>
#include <cstddef>
#include <mutex>

struct dl_phdr_info; // <link.h>

namespace storm::interpose {

class Runtimes final : public DeviceMemory {
public:
    // `ticks_per_us`: of the counter that RealClock::counter reads.
    Runtimes(const Log& log, std::uint64_t ticks_per_us);
    bool holds(const void* address) override;
    void look() override;

private:
    // One runtime: 0 for the CPU's memory, else where the device's allocation begins and ends.
    struct Runtime {
        const char* name;
        const char* file; // how the name of its library begins
        bool (*load)(void* library);
        bool (*ask)(std::uintptr_t address, std::uintptr_t& begin, std::uintptr_t& end);
        std::atomic<bool> loaded{false};
    };
    struct Range {
        std::uintptr_t begin, end;
        unsigned asked; // how often it was told of since a runtime told it
    };
    struct Seen;

    bool known(std::uintptr_t address);
    bool ask(std::uintptr_t address);
    bool find_runtimes();
    static int see(dl_phdr_info* info, std::size_t size, void* seen);
    static const std::uint64_t* word_of_loader(std::uint64_t loads);

    const Log& log_;
    const std::uint64_t host_for_; // ticks that a page stays the CPU's
    std::mutex finding_; // never waited for: a library that is being loaded may call MPI
    std::array<Runtime, 2> runtimes_;
    std::atomic<std::uint64_t> counted_{0}; // the loader's count when we last looked
    std::uint64_t own_count_ = 0; // a copy of it, made at turns, where the loader's word is not known
    std::mutex lock_;
    std::array<Range, 64> ranges_{};
    std::size_t next_range_ = 0;
};

} // namespace storm::interpose
