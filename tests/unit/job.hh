// SPDX-License-Identifier: MIT
// A job of several Rank objects in one thread: the fixture of the tests of Rank. Their
// rings live in a backend (loop or shm), or all is carried by the real MPI, which is a
// fake one. A wait of one rank lets the others poll, through the clock's yield().
#pragma once

#include "cmocka.hh"
#include "fake_mpi.hh"

#include "rank.hh"

#include "backends/loop/loop.hh"

#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace storm {

// A look inside a Rank.
struct RankTest {
    static Channel& channel(Rank& rank, int peer) { return rank.channel(peer); }
    static std::size_t communicators(const Rank& rank) { return rank.comms_.size(); }
    static std::uint64_t buffered(const Rank& rank) { return rank.buffered_; }
    static std::size_t transfers(const Rank& rank) { return rank.transfers_; }
    static storm_sums moved(const Rank& rank) { return rank.moved_so_far(); }
    static bool waiting(const Rank& rank) { return !rank.waiting_.empty(); }
    static bool at_rest(Rank& rank) { return rank.at_rest(); }
    static std::uint32_t users(const Comm& comm) { return comm.users - 1; } // the handle is one
};

namespace unit {

// mixed: shm between ranks of the same parity, loop between the others
enum class Where { loop, shm, carried, mixed };

using Bytes = std::vector<std::byte>;

// `n` bytes that tell messages apart.
Bytes pattern(std::size_t n, unsigned seed);

struct JobOptions {
    int ranks = 2;
    Where where = Where::loop;
    std::uint64_t seed = 1;
    Settings settings;
    loop::Options fabric;
    FakeMpi::Options mpi;
    bool threaded = false;
    DeviceMemory* devices = nullptr;

    JobOptions()
    {
        settings.ring_min = 8192;
        settings.ring_max = 8192;
        settings.eager_max = 32768;
        settings.poll_native = 1;
    }
};

class Job {
public:
    explicit Job(const JobOptions& options);
    ~Job();
    Job(const Job&) = delete;

    Rank& operator[](int rank);
    int ranks() const;

    // The communicator that all calls below are on: MPI_COMM_WORLD, until `use` is called.
    Comm& comm(int rank);
    // Makes a communicator of all ranks on every rank, as a constructor would.
    std::vector<std::pair<Comm*, MPI_Comm>> duplicate(const std::string& name = "");
    void use(const std::vector<std::pair<Comm*, MPI_Comm>>& made);
    void use_world();
    void free(const std::vector<std::pair<Comm*, MPI_Comm>>& made);

    TypeInfo& bytes(int rank) { return *(*this)[rank].type_of(mpi.real(rank).byte); }

    MPI_Request isend(int from, const Bytes& data, int to, int tag, Mode mode = Mode::standard);
    MPI_Request irecv(int at, Bytes& data, int source, int tag);
    int send(int from, const Bytes& data, int to, int tag, Mode mode = Mode::standard);
    int recv(int at, Bytes& data, int source, int tag, MPI_Status* status = MPI_STATUS_IGNORE);
    bool done(int rank, MPI_Request& request, MPI_Status* status = MPI_STATUS_IGNORE);

    // One look of every rank; then until nothing moves any more.
    bool poll_once();
    void settle();

    // From now on nobody knows the address of this rank: pairs towards it get no ring.
    void refuse_claim_towards(int peer) { unreachable_.insert(peer); }

    // Contract violations and whatever else must not have happened.
    std::string complaints() const;

    FakeMpi mpi;
    std::unique_ptr<loop::Fabric> fabric;         // of loop and mixed
    std::vector<std::function<void()>> on_yield;  // a rank's own, instead of the others' polls
    const JobOptions options;

private:
    struct End;
    std::vector<std::unique_ptr<End>> ends_;
    std::set<int> unreachable_;
    Log log_;
};

// Two ranks, in each place: one body runs for all of them.
template <Where where>
struct Pair : Job {
    static JobOptions two()
    {
        JobOptions o;
        o.where = where;
        return o;
    }
    Pair() : Job(two()) {}
};

// What UNIT_EVERYWHERE(name) makes of `void name(Job&)`: a test for each place.
template <class Fixture, void (*body)(Job&)>
void on(Fixture& fixture)
{
    body(fixture);
    const std::string complaints = fixture.complaints();
    expect_that(complaints.empty(), "%s", complaints.c_str());
}

} // namespace unit
} // namespace storm

#define UNIT_OVER(name, Fixture, label)                                                            \
    UNIT_NAMED(#name label, Fixture, (::storm::unit::on<Fixture, name>))
#define UNIT_IN_RINGS(name)                                                                        \
    UNIT_OVER(name, ::storm::unit::Pair<::storm::unit::Where::loop>, " over loop"),                \
        UNIT_OVER(name, ::storm::unit::Pair<::storm::unit::Where::shm>, " over shm")
#define UNIT_EVERYWHERE(name)                                                                      \
    UNIT_IN_RINGS(name),                                                                           \
        UNIT_OVER(name, ::storm::unit::Pair<::storm::unit::Where::carried>, " carried")
