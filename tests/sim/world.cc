// SPDX-License-Identifier: MIT
#include "world.hh"

#include <algorithm>
#include <chrono>

namespace storm::sim {

// The time that a rank sees. A yield is a wait: until something comes, or for a while.
class World::RankClock final : public Clock {
public:
    RankClock(World& world, Virtual& rank) : world_(world), rank_(rank) {}
    std::uint64_t ticks() override { return world_.time.now() + (rank_.ahead += 5); }
    std::uint64_t ticks_per_us() const override { return kMicrosecond; }
    void yield() override
    {
        rank_.look = std::clamp(rank_.look * 2, world_.options.look_every, world_.options.look_most);
        world_.idle(rank_.look);
    }
    void sleep_us(std::uint32_t) override { yield(); }

private:
    World& world_;
    Virtual& rank_;
};

World::World(const WorldOptions& o)
    : random(o.seed), fabric(time, *o.row, o.fabric), net(fabric, o.mode, o.settings.memory_max),
      native(*this, o.ranks, o.native), options(o), stacks_(static_cast<std::size_t>(o.ranks), o.stack_bytes)
{
    log_.set_level(LogLevel::quiet);
    fabric.poke = [this](int r) {
        moved();
        poke(r);
    };
    for (int i = 0; i < o.ranks; ++i) {
        Virtual& v = ranks_.emplace_back();
        v.world = this;
        v.number = i;
    }
    if (!o.routed)
        return;
    for (Virtual& v : ranks_)
        v.backend = net.attach(v.number);
}

void World::make_rank(Virtual& v)
{
    const auto begin = std::chrono::steady_clock::now();
    v.clock = std::make_unique<RankClock>(*this, v);
    RankSetup setup;
    setup.real = &native.real();
    setup.clock = v.clock.get();
    setup.log = &log_;
    setup.settings = &options.settings;
    setup.backend = v.backend.get();
    setup.world_rank = v.number;
    setup.world_size = options.ranks;
    setup.spin_limit = 0;
    setup.requests_bytes = options.requests_bytes;
    setup.private_comm = native.private_comm();
    setup.address_of = [](int peer, std::string&) { return "sim:" + std::to_string(peer); };
    v.rank = std::make_unique<Rank>(setup);
    start_ns += std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    native.set_inside(v.number, [](void* rank) { static_cast<Rank*>(rank)->progress_inside(); }, v.rank.get());
}

World::~World()
{
    for (Virtual& v : ranks_)
        if (v.fiber != nullptr && !v.fiber->over()) {
            current_ = v.number;
            v.fiber->kill();
        }
    current_ = -1;
    for (Virtual& v : ranks_)
        v.rank.reset();
    for (Virtual& v : ranks_)
        v.backend.reset();
}

std::string World::run(const Program& program)
{
    for (Virtual& v : ranks_) {
        v.fiber = std::make_unique<Fiber>(stacks_, static_cast<std::size_t>(v.number), [this, &v, &program] {
            try {
                if (options.routed)
                    make_rank(v);
                program(v.number);
            } catch (const std::exception& e) {
                if (failed_.empty())
                    failed_ = "rank " + std::to_string(v.number) + ": " + e.what();
            }
        });
        ++running_;
        ++sleeping_;
        time.at(random.below(5 * kMicrosecond), v, ++v.generation);
        ++wakes_;
    }
    while (running_ > 0 && failed_.empty() && aborted_.empty()) {
        if (!time.step())
            return stuck();
        if (barren_ > 300u * static_cast<unsigned>(size()) && sleeping_ == 0 &&
            time.pending() == wakes_)
            return stuck();
        if (time.now() > options.time_most)
            return "the job does not end: " + stuck();
        if (!fabric.broken.empty())
            return fabric.broken.front();
        if (!net.broken.empty())
            return net.broken.front();
    }
    return failed_;
}

std::string World::stuck() const
{
    std::string text = "nothing moves any more:";
    int told = 0;
    for (const Virtual& v : ranks_)
        if (v.fiber != nullptr && !v.fiber->over() && !v.dead && ++told <= 4)
            text += " rank " + std::to_string(v.number) + " in " + v.doing + ";";
    return text;
}

void World::wake(Virtual& v, std::uint64_t generation)
{
    --wakes_;
    if (generation != v.generation || v.dead || v.fiber->over())
        return;
    if (!v.idle)
        --sleeping_;
    if (v.idle && !v.poked)
        ++barren_;
    else
        moved();
    if (v.poked)
        v.look = 0;
    v.poked = v.idle = false;
    v.ahead = 0;
    current_ = v.number;
    v.fiber->resume();
    current_ = -1;
    if (v.fiber->over() && !v.dead)
        --running_;
}

void World::wait(Virtual& v, Time until, bool idle)
{
    v.idle = idle;
    if (!idle)
        ++sleeping_;
    time.at(until, v, ++v.generation);
    ++wakes_;
    v.fiber->suspend();
}

void World::sleep(Time duration)
{
    Virtual& v = ranks_[static_cast<std::size_t>(current_)];
    wait(v, time.now() + v.ahead + duration, false);
}

void World::idle(Time most)
{
    Virtual& v = ranks_[static_cast<std::size_t>(current_)];
    if (v.poked) { // while it was at work
        v.poked = false;
        v.look = 0;
        wait(v, time.now() + v.ahead + 1, false);
        return;
    }
    wait(v, time.now() + v.ahead + most, true);
}

void World::spend(Time duration)
{
    ranks_[static_cast<std::size_t>(current_)].ahead += duration;
}

void World::pause()
{
    if (current_ < 0 || !options.pauses || !random.one_in(8))
        return;
    sleep(random.one_in(8) ? random.below(100 * kMicrosecond) : random.below(2 * kMicrosecond));
}

void World::poke(int rank)
{
    Virtual& v = ranks_[static_cast<std::size_t>(rank)];
    if (v.poked)
        return;
    v.poked = true;
    if (!v.idle)
        return;
    time.at(time.now() + 1 + random.below(options.look_every), v, ++v.generation);
    ++wakes_;
}

void World::kill(int rank)
{
    Virtual& v = ranks_[static_cast<std::size_t>(rank)];
    if (v.dead || v.fiber == nullptr || v.fiber->over())
        return;
    v.dead = true;
    --running_;
    if (rank != current_ && !v.idle)
        --sleeping_;
    fabric.kill(rank);
    native.kill(rank);
}

void World::abort(const std::string& why)
{
    if (aborted_.empty())
        aborted_ = why;
    ranks_[static_cast<std::size_t>(current_)].fiber->suspend();
    throw Violation("a rank goes on after MPI_Abort");
}

} // namespace storm::sim
