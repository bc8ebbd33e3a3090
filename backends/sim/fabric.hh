// SPDX-License-Identifier: MIT
// The simulated fabric: registered memory, one-sided writes, their completions and events
// at the target, in virtual time. It is an adversary: a write is placed piece by piece,
// each at a time of its own, and is held up, passed by others and told of early in every
// way that the attributes do not exclude. Bytes are read from the source as late as the
// contract allows, which is when `written` is told.
//
// One object serves all ranks; who acts is an argument.
#pragma once

#include "attributes.hh"
#include "timeline.hh"

#include "base/status.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace storm::sim {

enum WriteFlags : unsigned {
    kFenced = 1,           // not begun before what was written to this peer is complete
    kDeliveryComplete = 2, // `written` only when it can be seen at the target, if that is promised
    kSignal = 4,           // the target is told `signal` after the bytes are placed
    kClearBehind = 8,      // with at_once: the word behind them, in the region as a ring, becomes zero
};

struct Write {
    const std::byte* from = nullptr; // not changed before `written`
    std::uint64_t bytes = 0;
    std::uint64_t key = 0;           // of the region that is written
    std::uint64_t offset = 0;
    unsigned flags = 0;
    std::uint64_t signal = 0;
    std::uint64_t cookie = 0;
};

struct Event {
    enum class Kind : std::uint8_t { written, arrived } kind = Kind::written;
    int peer = -1;
    std::uint64_t signal = 0;
    std::uint64_t cookie = 0;
};

struct FabricOptions {
    std::uint64_t seed = 1;
    Time delay_max = 20 * kMicrosecond;  // of each step of a write
    unsigned stalls_one_in = 40;         // writes that take stall_max longer
    Time stall_max = 2 * kMillisecond;
    unsigned room = 64;                  // writes of one rank under way before it is told `again`
};

class Fabric {
public:
    Fabric(Timeline& time, const Attributes& attributes, const FabricOptions& options);
    ~Fabric();
    Fabric(const Fabric&) = delete;

    const Attributes& attributes() const { return attributes_; }
    Timeline& time() { return time_; }
    Random& random() { return random_; }

    std::uint64_t expose(int rank, std::byte* base, std::uint64_t bytes); // its key
    void withdraw(std::uint64_t key);

    Status write(int from, int to, const Write& write);
    // Moves what this rank must move itself, and tells the next event.
    bool next(int rank, Event& event);
    // All that `from` has written can be seen at its targets, as a flushing read would tell.
    bool flushed(int from) const;
    bool busy() const { return under_way_ != 0; }

    void drop_link(int a, int b, Time until); // what is under way between them waits
    void kill(int rank);                      // its memory is gone, what it wrote may be torn

    // When a write that leaves now is placed, if that is not left to chance.
    std::function<Time(int from, int to, std::uint64_t bytes)> arrival;
    // Called when something may be new for a rank: memory written, an event.
    std::function<void(int rank)> poke;
    std::vector<std::string> broken; // writes that no correct user makes

private:
    struct Op;
    struct Region {
        int owner = -1;
        std::byte* base = nullptr;
        std::uint64_t bytes = 0;
    };
    struct Port {
        std::deque<Event> events;
        std::vector<std::pair<Op*, unsigned>> ready; // pieces that wait for this rank's progress
        unsigned under_way = 0;                      // not yet told `written`
        unsigned unplaced = 0;                       // not placed, or their target not told
        bool dead = false;
    };
    struct Pair {
        std::vector<std::unique_ptr<Op>> ops; // in the order of their writes
        Time down_until = 0;
    };

    Time delay();
    Port& port(int rank);
    Pair& pair(int from, int to);
    void place(Op& op, unsigned chunk);
    void place_whole(Op& op);
    bool may_place(const Op& op, Pair& pair) const;
    void copy_pieces(Op& op, unsigned chunk);
    void written(Op& op);
    void arrived(Op& op);
    void end_if_over(Op& op);
    void again_later(Op& op, std::uint64_t what, Time not_before);

    Timeline& time_;
    const Attributes attributes_;
    const FabricOptions options_;
    Random random_;
    std::unordered_map<std::uint64_t, Region> regions_;
    std::unordered_map<std::uint64_t, Pair> pairs_;
    std::deque<Port> ports_;
    std::uint64_t keys_ = 0, under_way_ = 0;
    std::vector<std::unique_ptr<Op>> lost_; // of dead ranks: events may still name them
};

} // namespace storm::sim
