// SPDX-License-Identifier: MIT
// A job of virtual ranks in one thread: fibers, virtual time, the simulated fabric and the
// simulated real MPI, and in each rank the shipped Rank object. All follows from one seed.
//
// A program is a function that runs in a rank's fiber; whatever it waits for, it waits in
// the shim, in the real MPI, or in sleep() and idle() here. A job that nothing can move any
// more is found out: nothing is under way, and every rank that is not over looks in vain.
#pragma once

#include "fibers.hh"
#include "native.hh"

#include "backends/sim/rings.hh"

#include "rank.hh"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace storm::sim {

struct WorldOptions {
    int ranks = 4;
    std::uint64_t seed = 1;
    const Attributes* row = &kRows[0];
    Mode mode = Mode::ordered;
    bool routed = true; // false: programs call the real MPI alone
    Settings settings;
    FabricOptions fabric;
    NativeOptions native;
    std::size_t stack_bytes = std::size_t{64} << 10;
    std::size_t requests_bytes = 0;     // as in RankSetup
    Time look_every = 2 * kMicrosecond; // of a rank that waits, at first
    Time look_most = 64 * kMicrosecond; // and when it has waited in vain
    bool pauses = true;                 // calls of the fabric and the real MPI may take long
    Time time_most = 100000 * kMillisecond;
};

// Thrown by what finds that the run has failed.
struct Violation : std::exception {
    explicit Violation(std::string text) : what_(std::move(text)) {}
    const char* what() const noexcept override { return what_.c_str(); }

private:
    std::string what_;
};

class World final {
public:
    explicit World(const WorldOptions& options);
    ~World();
    World(const World&) = delete;

    using Program = std::function<void(int rank)>;
    // Until all programs are over. Empty, or what was violated.
    std::string run(const Program& program);

    Rank& rank(int r) { return *ranks_[static_cast<std::size_t>(r)].rank; }
    const RealMpi& real() const { return native.real(); }
    Comm& comm_world(int r) { return *rank(r).find(real().comm_world); }
    TypeInfo& bytes(int r) { return *rank(r).type_of(real().byte); }
    int size() const { return static_cast<int>(ranks_.size()); }

    // ---- inside of a fiber
    int current() const { return current_; }
    void sleep(Time time);       // computes; calls no MPI
    void idle(Time most);        // until poked, or for so long
    void spend(Time time);       // work that is done before the next wait ends
    void pause();                // a call takes its time, sometimes long
    void moved() { barren_ = 0; } // the job is not stuck
    void doing(const char* what) { ranks_[static_cast<std::size_t>(current_)].doing = what; }
    [[noreturn]] void abort(const std::string& why); // MPI_Abort: the job is over

    // ---- from anywhere
    void poke(int rank);
    void kill(int rank);         // dies where it stands
    bool dead(int rank) const { return ranks_[static_cast<std::size_t>(rank)].dead; }
    const std::string& aborted() const { return aborted_; }
    Time local_time(int rank) const { return time.now() + ranks_[static_cast<std::size_t>(rank)].ahead; }

    double start_ns = 0; // of this processor, to make all Rank objects

    Timeline time;
    Random random;
    Fabric fabric;
    Net net;
    Native native;
    const WorldOptions options;

private:
    class RankClock;
    struct Virtual final : Actor {
        void fire(std::uint64_t generation) override { world->wake(*this, generation); }
        World* world = nullptr;
        int number = 0;
        std::unique_ptr<Fiber> fiber;
        std::unique_ptr<Backend> backend;
        std::unique_ptr<Clock> clock;
        std::unique_ptr<Rank> rank;
        std::uint64_t generation = 0; // of its waits: older wakes are void
        Time ahead = 0;
        Time look = 0;                // of the present wait
        bool idle = false, poked = false, dead = false;
        const char* doing = "";
    };
    void wake(Virtual& v, std::uint64_t generation);
    void make_rank(Virtual& v);
    void wait(Virtual& v, Time until, bool idle);
    std::string stuck() const;

    Log log_;
    Stacks stacks_;
    std::deque<Virtual> ranks_;
    int current_ = -1;
    int running_ = 0;           // programs that are not over
    int sleeping_ = 0;          // ranks that compute
    std::size_t wakes_ = 0;     // entries of the timeline that only wake somebody who waits
    std::uint64_t barren_ = 0;  // looks in vain since anything moved
    std::string aborted_, failed_;
};

} // namespace storm::sim
