// SPDX-License-Identifier: MIT
// Virtual time and chance: all that happens in a simulation, in one order that follows
// from one seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace storm::sim {

using Time = std::uint64_t; // nanoseconds

constexpr Time kMicrosecond = 1000;
constexpr Time kMillisecond = 1000 * kMicrosecond;

// A stream of numbers (splitmix64).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}
    std::uint64_t operator()()
    {
        std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        return x ^ (x >> 31);
    }
    std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : (*this)() % n; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }

private:
    std::uint64_t state_;
};

// Whom an event is for.
class Actor {
public:
    virtual void fire(std::uint64_t what) = 0;

protected:
    ~Actor() = default;
};

class Timeline {
public:
    Time now() const { return now_; }
    std::uint64_t fired() const { return fired_; }
    bool empty() const { return heap_.empty(); }
    std::size_t pending() const { return heap_.size(); }

    void at(Time time, Actor& actor, std::uint64_t what)
    {
        heap_.push_back({std::max(time, now_), order_++, &actor, what});
        std::push_heap(heap_.begin(), heap_.end(), later);
    }

    // The next event happens; false when there is none.
    bool step()
    {
        if (heap_.empty())
            return false;
        std::pop_heap(heap_.begin(), heap_.end(), later);
        const Entry next = heap_.back();
        heap_.pop_back();
        now_ = next.time;
        ++fired_;
        next.actor->fire(next.what);
        return true;
    }

private:
    struct Entry {
        Time time;
        std::uint64_t order; // of two at one time the one that was asked for first
        Actor* actor;
        std::uint64_t what;
    };
    static bool later(const Entry& a, const Entry& b)
    {
        return a.time != b.time ? a.time > b.time : a.order > b.order;
    }

    std::vector<Entry> heap_;
    Time now_ = 0;
    std::uint64_t order_ = 0, fired_ = 0;
};

} // namespace storm::sim
