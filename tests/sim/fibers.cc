// SPDX-License-Identifier: MIT
#include "fibers.hh"

#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define STORM_START_SWITCH(save, stack, bytes) __sanitizer_start_switch_fiber(save, stack, bytes)
#define STORM_FINISH_SWITCH(save, stack, bytes) __sanitizer_finish_switch_fiber(save, stack, bytes)
#else
#define STORM_START_SWITCH(save, stack, bytes) static_cast<void>(stack)
#define STORM_FINISH_SWITCH(save, stack, bytes) static_cast<void>(save)
#endif

namespace storm::sim {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMostGuardPages = 15000; // the system has 65,530 mappings a process
constexpr std::size_t kCanaries = 8;

// Stands in for an allocator: the pool owns the memory.
struct Lent {
    boost::context::stack_context allocate() const { return {}; }
    void deallocate(boost::context::stack_context&) const {}
};

} // namespace

Stacks::Stacks(std::size_t count, std::size_t bytes) : count_(count), bytes_(bytes)
{
    pages_ = count <= kMostGuardPages;
    guard_ = pages_ ? kPageBytes : 0;
    void* at = ::mmap(nullptr, count * slot(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        throw std::bad_alloc();
    base_ = static_cast<std::byte*>(at);
    ::madvise(at, count * slot(), MADV_NOHUGEPAGE);
    for (std::size_t i = 0; pages_ && i < count; ++i)
        if (::mprotect(base_ + i * slot(), kPageBytes, PROT_NONE) != 0)
            throw std::bad_alloc();
}

Stacks::~Stacks()
{
    ::munmap(base_, count_ * slot());
}

std::byte* Stacks::at(std::size_t i) const
{
    return base_ + i * slot() + guard_;
}

// The lowest page of a stack is touched by a fiber that has nearly used it up only, so
// that looking at it costs no memory: what was never written is zero.
bool Stacks::intact(std::size_t i) const
{
    if (pages_)
        return true;
    std::uint64_t words[kCanaries];
    std::memcpy(words, at(i), sizeof words);
    for (const std::uint64_t word : words)
        if (word != 0)
            return false;
    return true;
}

Fiber::Fiber(const Stacks& stacks, std::size_t number, std::function<void()> body)
    : stacks_(stacks), number_(number), body_(std::move(body))
{
}

Fiber::~Fiber() = default;

boost::context::fiber Fiber::run(boost::context::fiber&& outside)
{
    outside_ = std::move(outside);
    STORM_FINISH_SWITCH(nullptr, &outside_stack_, &outside_bytes_);
    try {
        if (!killed_)
            body_();
    } catch (const Killed&) {
        // as asked
    }
    over_ = true;
    STORM_START_SWITCH(nullptr, outside_stack_, outside_bytes_); // its fake stack goes
    return std::move(outside_);
}

void Fiber::resume()
{
    if (!started_) {
        started_ = true;
        boost::context::stack_context context;
        context.size = stacks_.bytes();
        context.sp = stacks_.at(number_) + stacks_.bytes();
        inside_ = boost::context::fiber(
            std::allocator_arg, boost::context::preallocated(context.sp, context.size, context), Lent(),
            [this](boost::context::fiber&& outside) { return run(std::move(outside)); });
    }
    STORM_START_SWITCH(&fake_outside_, stacks_.at(number_), stacks_.bytes());
    inside_ = std::move(inside_).resume();
    STORM_FINISH_SWITCH(fake_outside_, nullptr, nullptr);
    if (!stacks_.intact(number_))
        throw std::runtime_error("a fiber has used up its stack");
}

void Fiber::suspend()
{
    if (dying_)
        return; // destructors on the way out do not wait
    STORM_START_SWITCH(&fake_inside_, outside_stack_, outside_bytes_);
    outside_ = std::move(outside_).resume();
    STORM_FINISH_SWITCH(fake_inside_, &outside_stack_, &outside_bytes_);
    if (killed_) {
        dying_ = true;
        throw Killed();
    }
}

void Fiber::kill()
{
    killed_ = true;
    if (started_ && !over_)
        resume();
    over_ = true;
}

} // namespace storm::sim
