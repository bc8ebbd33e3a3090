// SPDX-License-Identifier: MIT
// The simulated real MPI: what RealMpi points to for each virtual rank. Messages travel in
// virtual time and never pass another one of their pair and communicator; small ones are
// complete when they are sent, larger and synchronous ones by a rendezvous. A rank's
// messages move in its own calls only, as the real MPI's do.
//
// Every fallible call has a fault point: `faults.fails` may make it return an error.
#pragma once

#include "backends/sim/timeline.hh"

#include "base/real_mpi.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace storm::sim {

class World;

struct NativeOptions {
    std::uint64_t seed = 1;
    Time delay_min = 300;
    Time delay_max = 10 * kMicrosecond;
    std::uint64_t eager_max = 4032;
    int tag_max = 32767;
};

class Native {
public:
    Native(World& world, int ranks, const NativeOptions& options);
    ~Native();
    Native(const Native&) = delete;

    // One table and one set of handles for all: who calls is who runs.
    const RealMpi& real() const { return real_; }
    MPI_Comm private_comm() const { return private_; }
    MPI_Comm make_comm(std::vector<int> members); // of these world ranks
    // A type of blocks of bytes: {place, length}; its extent.
    MPI_Datatype make_type(std::vector<std::pair<std::ptrdiff_t, std::size_t>> blocks, MPI_Aint extent);
    // What the engine calls back in each of its turns.
    void set_inside(int rank, void (*call)(void*), void* with);
    void kill(int rank);

    // When bytes that leave now arrive, if that is not left to chance.
    std::function<Time(int from, int to, std::uint64_t bytes)> arrival;
    std::function<bool(const char* call)> fails; // a fault point
    std::vector<std::string> broken;             // calls that no correct shim makes
    std::uint64_t messages = 0, turns = 0;

private:
    friend struct NativeCalls;
    struct Type;
    struct Comm;
    struct Request;
    struct Packet;
    struct Side;

    Side& side(int rank);
    bool fault(const char* call);
    void progress(int rank);
    void send(const void* buffer, int count, const Type& type, int dest, int tag, Comm& comm, bool synchronous,
              MPI_Request* request);
    void receive(void* buffer, int count, const Type& type, int source, int tag, Comm& comm, MPI_Request* request);
    void post(Packet&& packet);
    void handle(int rank, Packet& packet);
    void meet(int rank, Packet& packet, Request& receive);
    void fill(Request& receive, const Packet& packet);
    int finish(MPI_Request* handle, MPI_Status* status, bool with_error);
    MPI_Request enter(Comm& comm, std::int64_t* values, int count);
    Request* new_request(int rank);
    void wait_until(const std::function<bool()>& over);
    void set_calls();

    static Native* live; // whom the calls mean: one at a time
    World& world_;
    const NativeOptions options_;
    Random random_;
    RealMpi real_;
    MPI_Comm private_ = nullptr;
    int size_;
    int tag_max_;
    int contexts_ = 2;
    std::deque<Side> sides_;
    std::deque<Comm> comms_;
    std::deque<std::unique_ptr<Type>> types_;
    struct Round { // of a collective
        int entered = 0;
        std::vector<Request*> waiting;
        std::vector<std::int64_t> most;
    };
    std::map<std::pair<int, std::uint64_t>, Round> rounds_; // by context and number
    std::vector<Packet> flight_;
    std::vector<std::size_t> free_flight_;
};

} // namespace storm::sim
