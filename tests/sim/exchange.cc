// SPDX-License-Identifier: MIT
#include "exchange.hh"

#include "wave.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace storm::sim {
namespace {

constexpr int kNeighbours = 12;
constexpr int kParticleTag = 1, kWaveTag = 2;

double resident_bytes()
{
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    unsigned long whole = 0, resident = 0;
    if (file != nullptr) {
        if (std::fscanf(file, "%lu %lu", &whole, &resident) != 2)
            resident = 0;
        std::fclose(file);
    }
    return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// The lattice: as near to a cube as the number of ranks allows.
struct Lattice {
    explicit Lattice(int ranks)
    {
        int best = ranks * 3;
        for (int x = 1; x * x * x <= ranks; ++x)
            for (int y = x; ranks % x == 0 && y * y <= ranks / x; ++y)
                if (ranks / x % y == 0 && x + y + ranks / x / y < best) {
                    n = {x, y, ranks / x / y};
                    best = x + y + ranks / x / y;
                }
    }
    // The nearest twelve of a face-centred lattice; with few ranks some are the same.
    std::vector<int> neighbours(int rank) const
    {
        std::vector<int> found;
        for (int axis = 0; axis < 3; ++axis)
            for (int sign = 0; sign < 4; ++sign) {
                std::array<int, 3> at = {rank % n[0], rank / n[0] % n[1], rank / n[0] / n[1]};
                const auto a = static_cast<std::size_t>(axis), b = (a + 1) % 3;
                at[a] = (at[a] + (sign % 2 != 0 ? 1 : n[a] - 1)) % n[a];
                at[b] = (at[b] + (sign / 2 != 0 ? 1 : n[b] - 1)) % n[b];
                const int other = (at[2] * n[1] + at[1]) * n[0] + at[0];
                if (other != rank && std::find(found.begin(), found.end(), other) == found.end())
                    found.push_back(other);
            }
        return found;
    }
    std::array<int, 3> n = {1, 1, 1};
};

class Exchange;

// The calls of one rank: of its Rank object, or of the real MPI.
class Port {
public:
    Port(Exchange& job, int rank);
    MPI_Request isend(const void* data, int bytes, int dest, int tag);
    MPI_Request irecv(void* data, int bytes, int source, int tag);
    bool test(MPI_Request& request, MPI_Status* status);

private:
    Exchange& job_;
    const int rank_;
};

class Exchange {
public:
    explicit Exchange(const ExchangeOptions& o)
        : options(o), machine(o.machine, o.ranks), lattice(o.ranks), before_(resident_bytes()), world(world_options(o))
    {
        const auto count = [this](const char*) {
            ++calls;
            return false;
        };
        world.net.faults.fails = count;
        world.native.fails = count;
        if (!o.model)
            return;
        const auto arrival = [this](int from, int to, std::uint64_t bytes) {
            return machine.arrival(from, to, bytes, world.local_time(from));
        };
        world.fabric.arrival = arrival;
        world.native.arrival = arrival;
    }

    static WorldOptions world_options(const ExchangeOptions& o)
    {
        static constexpr Attributes kModel = {"model", false, true, true, true, true, true, true, true, true};
        static constexpr Attributes kDirect = {"memory", true, true, true, true, false, true, true, true, true};
        WorldOptions w;
        w.ranks = o.ranks;
        w.seed = w.fabric.seed = w.native.seed = o.seed;
        w.row = o.direct ? &kDirect : &kModel;
        w.mode = Mode::ordered;
        w.routed = o.routed;
        w.settings.ring_min = o.ring_bytes;
        w.settings.ring_max = std::max<std::uint64_t>(o.ring_bytes, 1 << 16);
        w.settings.memory_max = 1 << 20;
        w.stack_bytes = 32 << 10;
        w.requests_bytes = 1 << 18;
        w.pauses = false;
        w.look_every = o.model ? 50 : 5 * kMicrosecond;
        w.look_most = 2 * kMillisecond;
        return w;
    }

    ExchangeResult run()
    {
        ExchangeResult result;
        result.violation = world.run([this](int rank) { program(rank); });
        if (result.violation.empty())
            result.violation = !found.empty() ? found : world.aborted();
        const auto ranks = static_cast<double>(options.ranks);
        result.seconds = static_cast<double>(last_end - first_begin) * 1e-9;
        result.busy = busy_ns / ranks * 1e-9;
        result.messages = particles_sent;
        result.waves_messages = waves_sent;
        result.events = world.time.fired();
        result.bytes_a_rank = (resident_ - before_) / ranks;
        result.start_ns_a_rank = world.start_ns / ranks;
        result.calls_a_rank = static_cast<double>(calls) / ranks;
        return result;
    }

    const ExchangeOptions options;
    Machine machine;
    const Lattice lattice;
    const double before_;
    World world;
    std::string found;
    Time first_begin = ~Time{0}, last_end = 0;
    double busy_ns = 0;
    std::uint64_t calls = 0, particles_sent = 0, waves_sent = 0;

private:
    struct Batch {
        std::int32_t hops = 0;
    };
    struct State {
        explicit State(Exchange& job, int rank) : port(job, rank), random(job.options.seed * 1000003 + rank) {}
        Port port;
        Random random;
        std::vector<int> neighbours;
        std::vector<Batch> work;
        std::vector<std::byte> in, out;
        MPI_Request receive = nullptr;
        std::vector<MPI_Request> sends;
        std::int64_t sent = 0, arrived = 0;
        storm_wave wave;
        storm_sums wave_in, wave_out;
        MPI_Request wave_receive = nullptr, wave_sends[32] = {};
        int wave_sending = 0;
    };

    void program(int rank);
    void step(State& s);
    void track(State& s);
    void look(State& s);
    bool over(State& s);
    void act(State& s, storm_wave_act what);
    void take_sends(State& s);
    int message_bytes() const { return options.particles * options.bytes + 8; }

    std::int64_t in_flight_ = 0; // batches that anybody still has: nobody may see an end before it is 0
    double resident_ = 0;
};

Port::Port(Exchange& job, int rank) : job_(job), rank_(rank) {}

MPI_Request Port::isend(const void* data, int bytes, int dest, int tag)
{
    World& w = job_.world;
    if (job_.options.model)
        w.spend(static_cast<Time>(job_.machine.options.send_ns + bytes * job_.machine.options.send_byte_ns));
    MPI_Request request = nullptr;
    if (job_.options.routed)
        request = w.rank(rank_).isend(data, bytes, w.bytes(rank_), dest, tag, w.comm_world(rank_),
                                      storm::Mode::standard);
    else
        w.real().Isend(data, bytes, w.real().byte, dest, tag, w.real().comm_world, &request);
    w.poke(dest);
    return request;
}

MPI_Request Port::irecv(void* data, int bytes, int source, int tag)
{
    World& w = job_.world;
    MPI_Request request = nullptr;
    if (job_.options.routed)
        return w.rank(rank_).irecv(data, bytes, w.bytes(rank_), source, tag, w.comm_world(rank_));
    w.real().Irecv(data, bytes, w.real().byte, source, tag, w.real().comm_world, &request);
    return request;
}

bool Port::test(MPI_Request& request, MPI_Status* status)
{
    World& w = job_.world;
    int flag = 0;
    if (job_.options.routed)
        w.rank(rank_).test(&request, &flag, status);
    else
        w.real().Test(&request, &flag, status);
    if (job_.options.model && flag != 0)
        w.spend(static_cast<Time>(job_.machine.options.receive_ns));
    return flag != 0;
}

void Exchange::program(int rank)
{
    auto s = std::make_unique<State>(*this, rank);
    s->neighbours = lattice.neighbours(rank);
    s->in.resize(static_cast<std::size_t>(message_bytes()));
    s->out.resize(s->in.size());
    storm_wave_init(&s->wave, rank, options.ranks);
    s->receive = s->port.irecv(s->in.data(), message_bytes(), MPI_ANY_SOURCE, kParticleTag);
    first_begin = std::min(first_begin, world.time.now());
    for (int i = 0; i < options.steps; ++i)
        step(*s);
    last_end = std::max(last_end, world.local_time(rank));
    if (rank == 0) // all ranks have their rings, nobody has ended
        resident_ = resident_bytes();
    world.doing("the end");
    if (options.routed) {
        Rank& r = world.rank(rank);
        r.cancel(*reinterpret_cast<Request*>(s->receive));
        r.wait(&s->receive, MPI_STATUS_IGNORE);
        r.quiesce();
    } else {
        world.real().Cancel(&s->receive);
        world.real().Wait(&s->receive, MPI_STATUS_IGNORE);
    }
}

void Exchange::step(State& s)
{
    for (int i = 0; i < options.batches; ++i) {
        // a length that varies about its mean, as paths do
        const double share = static_cast<double>(s.random.below(1000)) / 500;
        s.work.push_back({static_cast<std::int32_t>(std::lround(options.hops * share))});
    }
    in_flight_ += options.batches;
    storm_wave_begin(&s.wave);
    for (;;) {
        if (!s.work.empty()) {
            track(s);
            continue;
        }
        look(s);
        take_sends(s);
        if (!s.work.empty())
            continue;
        if (over(s))
            return;
        world.doing("a step");
        world.idle(world.options.look_most);
    }
}

// One batch: its particles move through this rank, with looks in between, and leave.
void Exchange::track(State& s)
{
    const Batch batch = s.work.back();
    s.work.pop_back();
    world.moved();
    const double work = options.particles * options.track_ns;
    busy_ns += work;
    const int looks = std::max(options.particles / options.poll, 1);
    const double tests = options.model ? looks * options.receives * machine.options.test_ns : 0;
    world.sleep(static_cast<Time>(work + tests));
    look(s);
    --in_flight_;
    if (batch.hops > 0) {
        const int dest = s.neighbours[s.random.below(s.neighbours.size())];
        const std::int32_t hops = batch.hops - 1;
        take_sends(s);
        while (s.sends.size() > 64) { // buffers are not endless
            look(s);
            take_sends(s);
            if (s.sends.size() > 64)
                world.idle(world.options.look_most);
        }
        std::memcpy(s.out.data(), &hops, sizeof hops);
        ++in_flight_;
        ++s.sent;
        ++particles_sent;
        const MPI_Request request = s.port.isend(s.out.data(), message_bytes(), dest, kParticleTag);
        if (request != world.real().request_done)
            s.sends.push_back(request);
    }
}

void Exchange::take_sends(State& s)
{
    std::erase_if(s.sends, [&](MPI_Request& r) { return s.port.test(r, MPI_STATUS_IGNORE); });
}

void Exchange::look(State& s)
{
    MPI_Status status;
    while (s.port.test(s.receive, &status)) {
        Batch batch;
        std::memcpy(&batch.hops, s.in.data(), sizeof batch.hops);
        s.work.push_back(batch);
        ++s.arrived;
        s.receive = s.port.irecv(s.in.data(), message_bytes(), MPI_ANY_SOURCE, kParticleTag);
    }
}

void Exchange::act(State& s, storm_wave_act what)
{
    if (what == STORM_WAVE_UP) {
        s.wave_out = s.wave.sums;
        s.wave_sends[s.wave_sending++] =
            s.port.isend(&s.wave_out, sizeof s.wave_out, storm_wave_parent(&s.wave), kWaveTag);
        ++waves_sent;
    } else if (what == STORM_WAVE_DOWN) {
        s.wave_out.sent = s.wave.over;
        for (int i = 0; i < s.wave.children; ++i) {
            s.wave_sends[s.wave_sending++] =
                s.port.isend(&s.wave_out, sizeof s.wave_out, storm_wave_child(&s.wave, i), kWaveTag);
            ++waves_sent;
        }
    }
}

// This rank is idle: its part of the wave. True when the step is over.
bool Exchange::over(State& s)
{
    while (s.wave.running) {
        for (; s.wave_sending > 0; --s.wave_sending)
            if (s.wave_sends[s.wave_sending - 1] != world.real().request_done &&
                !s.port.test(s.wave_sends[s.wave_sending - 1], MPI_STATUS_IGNORE))
                return false;
        if (storm_wave_ready(&s.wave)) {
            act(s, storm_wave_idle(&s.wave, {s.sent, s.arrived}));
            continue;
        }
        const int from = s.wave.asked != 0 ? storm_wave_parent(&s.wave) : MPI_ANY_SOURCE;
        if (s.wave_receive == nullptr)
            s.wave_receive = s.port.irecv(&s.wave_in, sizeof s.wave_in, from, kWaveTag);
        if (!s.port.test(s.wave_receive, MPI_STATUS_IGNORE))
            return false;
        s.wave_receive = nullptr;
        if (s.wave.asked != 0)
            act(s, storm_wave_down(&s.wave, s.wave_in.sent != 0));
        else
            storm_wave_up(&s.wave, s.wave_in);
    }
    if (in_flight_ != 0 && s.wave.rank == 0 && found.empty())
        found = "a step was seen to end while " + std::to_string(in_flight_) + " batches were under way";
    return true;
}

} // namespace

ExchangeResult run_exchange(const ExchangeOptions& options)
{
    return std::make_unique<Exchange>(options)->run();
}

} // namespace storm::sim
