// SPDX-License-Identifier: MIT
// Virtual ranks as fibers: each has a small stack of its own out of a pool, with a guard
// below it, and runs until it suspends itself. The address sanitizer is told of each switch.
#pragma once

#include <boost/context/fiber.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace storm::sim {

// Thrown in a fiber that is not to go on; it unwinds and ends.
struct Killed {};

// Stacks of one size. A page below each cannot be touched, as far as the system has
// mappings for that; behind these many the lowest words are watched instead.
class Stacks {
public:
    Stacks(std::size_t count, std::size_t bytes);
    ~Stacks();
    Stacks(const Stacks&) = delete;

    std::byte* at(std::size_t i) const; // its lowest byte
    std::size_t bytes() const { return bytes_; }
    bool intact(std::size_t i) const;   // nothing was written below it

private:
    std::size_t slot() const { return bytes_ + guard_; }

    const std::size_t count_, bytes_;
    std::size_t guard_ = 0;
    bool pages_ = false;
    std::byte* base_ = nullptr;
};

class Fiber {
public:
    // `body` runs at the first resume().
    Fiber(const Stacks& stacks, std::size_t number, std::function<void()> body);
    Fiber(const Fiber&) = delete;
    ~Fiber();

    // From outside: goes on until suspend() or the end.
    void resume();
    bool over() const { return over_; }
    // It ends where it stands, as by an exception.
    void kill();
    bool killed() const { return killed_; }

    // From inside.
    void suspend();

private:
    boost::context::fiber run(boost::context::fiber&& outside);

    const Stacks& stacks_;
    const std::size_t number_;
    std::function<void()> body_;
    boost::context::fiber inside_, outside_;
    bool started_ = false, over_ = false, killed_ = false, dying_ = false;
    // of the address sanitizer
    void* fake_outside_ = nullptr;
    void* fake_inside_ = nullptr;
    const void* outside_stack_ = nullptr;
    std::size_t outside_bytes_ = 0;
};

} // namespace storm::sim
