// SPDX-License-Identifier: MIT
#include "job.hh"

#include "base/clock.hh"

extern "C" {
extern const storm::BackendPlugin storm_backend; // backends/shm/shm.cc, compiled in
}

namespace storm::unit {
namespace {

// Virtual time: a tick a look. A yield is where other ranks go on.
class FakeClock final : public Clock {
public:
    std::uint64_t ticks() override { return ++now_; }
    std::uint64_t ticks_per_us() const override { return 1; }
    void yield() override
    {
        if (++yields_ > 200000)
            throw std::runtime_error("a rank waits for ever");
        if (others)
            others();
    }
    void sleep_us(std::uint32_t us) override
    {
        now_ += us;
        yield();
    }
    void forget_yields() { yields_ = 0; }

    std::function<void()> others;

private:
    std::uint64_t now_ = 0, yields_ = 0;
};

} // namespace

struct Job::End {
    FakeClock clock;
    std::unique_ptr<Backend> backend, fabric;
    std::unique_ptr<Rank> rank;
    Comm* world = nullptr;
    Comm* comm = nullptr;
};

Bytes pattern(std::size_t n, unsigned seed)
{
    Bytes data(n);
    std::uint32_t x = seed * 2654435761u + 12345u;
    for (std::byte& b : data) {
        x = x * 1664525u + 1013904223u;
        b = static_cast<std::byte>(x >> 24);
    }
    return data;
}

Job::Job(const JobOptions& o)
    : mpi(o.ranks, o.mpi), on_yield(static_cast<std::size_t>(o.ranks)), options(o)
{
    log_.set_level(LogLevel::quiet);
    if (o.where == Where::loop || o.where == Where::mixed) {
        loop::Options fabric_options = o.fabric;
        fabric_options.seed = o.seed;
        fabric = std::make_unique<loop::Fabric>(fabric_options);
    }
    for (int i = 0; i < o.ranks; ++i) {
        ends_.push_back(std::make_unique<End>());
        End& end = *ends_.back();
        std::string why;
        if (o.where == Where::loop)
            end.backend = fabric->attach(i);
        else if (o.where != Where::carried)
            end.backend.reset(storm_backend.open({i, options.settings.memory_max, &log_}, why));
        if (o.where != Where::carried && end.backend == nullptr)
            throw std::runtime_error("the backend does not open: " + why);
        if (o.where == Where::mixed)
            end.fabric = fabric->attach(i);
        end.clock.others = [this, i] {
            if (on_yield[static_cast<std::size_t>(i)])
                on_yield[static_cast<std::size_t>(i)]();
            for (int other = 0; other < ranks(); ++other)
                if (other != i)
                    (*this)[other].poll();
        };
    }
    for (int i = 0; i < o.ranks; ++i) {
        End& end = *ends_[static_cast<std::size_t>(i)];
        RankSetup setup;
        setup.real = &mpi.real(i);
        setup.clock = &end.clock;
        setup.log = &log_;
        setup.settings = &options.settings;
        setup.backend = end.backend.get();
        setup.backend_reason = end.backend == nullptr ? "there is no backend" : "";
        setup.world_rank = i;
        setup.world_size = o.ranks;
        setup.spin_limit = 0;
        setup.threaded = o.threaded;
        setup.devices = o.devices;
        setup.private_comm = mpi.private_comm(i);
        setup.fabric = end.fabric.get();
        setup.fabric_address_of = [this](int peer, std::string&) {
            return ends_[static_cast<std::size_t>(peer)]->fabric->address();
        };
        setup.address_of = [this, i](int peer, std::string& why) {
            if (options.where == Where::mixed && (i - peer) % 2 != 0)
                why = "another host";
            else if (!unreachable_.contains(peer))
                return ends_[static_cast<std::size_t>(peer)]->backend->address();
            else
                why = "nobody knows its address";
            return std::string();
        };
        end.rank = std::make_unique<Rank>(setup);
        end.world = end.comm = end.rank->find(mpi.real(i).comm_world);
    }
}

// What is under way ends first; Rank objects end before their backends, and these before
// the fabric.
Job::~Job()
{
    try {
        settle();
    } catch (...) {
        // the test has failed already
    }
    for (auto& end : ends_)
        end->rank.reset();
    for (auto& end : ends_) {
        end->fabric.reset();
        end->backend.reset();
    }
}

Rank& Job::operator[](int rank)
{
    return *ends_[static_cast<std::size_t>(rank)]->rank;
}

Comm& Job::comm(int rank)
{
    return *ends_[static_cast<std::size_t>(rank)]->comm;
}

int Job::ranks() const
{
    return static_cast<int>(ends_.size());
}

std::vector<std::pair<Comm*, MPI_Comm>> Job::duplicate(const std::string& name)
{
    std::vector<int> all;
    for (int i = 0; i < ranks(); ++i)
        all.push_back(i);
    const auto handles = mpi.make_comm(all, name);
    const std::uint64_t identity = (*this)[0].next_identity();
    std::vector<std::pair<Comm*, MPI_Comm>> made;
    for (int i = 0; i < ranks(); ++i) {
        const MPI_Comm handle = handles[static_cast<std::size_t>(i)];
        made.emplace_back((*this)[i].adopt(handle, identity), handle);
    }
    return made;
}

void Job::use(const std::vector<std::pair<Comm*, MPI_Comm>>& made)
{
    for (int i = 0; i < ranks(); ++i)
        ends_[static_cast<std::size_t>(i)]->comm = made[static_cast<std::size_t>(i)].first;
}

void Job::use_world()
{
    for (auto& end : ends_)
        end->comm = end->world;
}

void Job::free(const std::vector<std::pair<Comm*, MPI_Comm>>& made)
{
    for (int i = 0; i < ranks(); ++i) {
        const auto& [comm, handle] = made[static_cast<std::size_t>(i)];
        (*this)[i].free_comm(*comm, handle);
    }
}

MPI_Request Job::isend(int from, const Bytes& data, int to, int tag, Mode mode)
{
    return (*this)[from].isend(data.data(), static_cast<int>(data.size()), bytes(from), to, tag,
                               comm(from), mode);
}

MPI_Request Job::irecv(int at, Bytes& data, int source, int tag)
{
    return (*this)[at].irecv(data.data(), static_cast<int>(data.size()), bytes(at), source, tag, comm(at));
}

int Job::send(int from, const Bytes& data, int to, int tag, Mode mode)
{
    ends_[static_cast<std::size_t>(from)]->clock.forget_yields();
    return (*this)[from].send(data.data(), static_cast<int>(data.size()), bytes(from), to, tag,
                              comm(from), mode);
}

int Job::recv(int at, Bytes& data, int source, int tag, MPI_Status* status)
{
    ends_[static_cast<std::size_t>(at)]->clock.forget_yields();
    return (*this)[at].recv(data.data(), static_cast<int>(data.size()), bytes(at), source, tag,
                            comm(at), status);
}

bool Job::done(int rank, MPI_Request& request, MPI_Status* status)
{
    int flag = 0;
    (*this)[rank].test(&request, &flag, status);
    return flag != 0;
}

bool Job::poll_once()
{
    bool moved = false;
    for (int i = 0; i < ranks(); ++i)
        moved = (*this)[i].poll() || moved;
    return moved;
}

void Job::settle()
{
    int quiet = 0;
    for (int rounds = 0; quiet < 40; ++rounds) {
        if (rounds > 200000)
            throw std::runtime_error("the job does not come to rest");
        const bool under_way = fabric != nullptr && fabric->busy();
        quiet = poll_once() || under_way ? 0 : quiet + 1;
    }
}

std::string Job::complaints() const
{
    std::string all;
    if (fabric != nullptr)
        for (const std::string& line : fabric->broken())
            all += line + "; ";
    if (mpi.type_misused)
        all += "a freed datatype was used; ";
    return all;
}

} // namespace storm::unit
