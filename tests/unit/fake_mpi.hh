// SPDX-License-Identifier: MIT
// A real MPI that lives in memory: what RealMpi points to in the unit tests. It serves
// all ranks of one process; who calls follows from the communicator handle, of which
// each rank has its own.
//
// Time passes by calls: every test and every turn of the progress engine is one tick,
// and a message travels for a seeded number of ticks, never passing another one of its
// pair. Messages of up to eager_max bytes are complete when they are sent, larger and
// synchronous ones when they are matched; their bytes are read then, not before.
//
// It is a judge too: `returned` lists the calls that returned an error, in order.
#pragma once

#include "base/real_mpi.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace storm::unit {

// Thrown by the fake MPI_Abort.
struct Aborted : std::exception {
    const char* what() const noexcept override { return "MPI_Abort"; }
};

struct FakeType {
    std::vector<std::ptrdiff_t> bytes; // where each byte of one element stands, in order
    MPI_Aint lb = 0, extent = 0;
    bool committed = true, predefined = false;
    bool used_after_free = false, freed = false;
};

struct FakeComm {
    int context = 0;
    int rank = -1;
    std::vector<int> members; // world ranks
    std::string name;
};

struct FakeRequest {
    enum class What { send, receive, barrier } what = What::send;
    bool complete = false, cancelled = false;
    int error = MPI_SUCCESS;
    int source = 0, tag = 0;    // a receive: wanted first, then what came
    std::uint64_t count = 0;    // bytes that came
    FakeComm* comm = nullptr;
    void* buffer = nullptr;
    int elements = 0;
    FakeType type;              // a copy: the program may free its handle
    int round = 0;              // of a barrier
    std::uint64_t posted = 0;
};

struct FakeMessage {
    int context = 0, from = 0, to = 0; // ranks in the communicator
    int tag = 0;
    std::uint64_t size = 0;
    std::vector<std::byte> bytes;      // when it was eager
    FakeRequest* sender = nullptr;     // else whose buffer is read when it is matched
    std::uint64_t due = 0;
};

class FakeMpi {
public:
    struct Options {
        std::uint64_t seed = 1;
        unsigned delay_max = 3;       // ticks
        std::uint64_t eager_max = 4032;
        int tag_max = 32767;
    };
    FakeMpi(int ranks, const Options& options);
    ~FakeMpi();
    FakeMpi(const FakeMpi&) = delete;

    // What rank `rank` calls; its handles are in it. Valid as long as this object.
    const RealMpi& real(int rank) const { return real_[static_cast<std::size_t>(rank)]; }
    MPI_Comm private_comm(int rank) const;
    // A new communicator of these world ranks: a handle for each, in their order.
    std::vector<MPI_Comm> make_comm(const std::vector<int>& members, const std::string& name = "");
    // A type with its bytes at these places; it counts as committed.
    MPI_Datatype make_type(std::vector<std::ptrdiff_t> bytes, MPI_Aint lb, MPI_Aint extent,
                           bool committed = true, bool predefined = false);
    void free_type(MPI_Datatype handle);

    void tick();
    bool busy() const; // messages under way or not matched, sends not complete
    std::size_t live_types() const { return types_.size(); }
    std::size_t live_groups() const { return groups_.size(); }

    std::vector<std::string> returned;    // "MPI_Wait", ...: calls that returned an error
    std::function<void()> while_blocked;  // what others do while a call blocks
    std::function<void(bool)> touches;    // before (true) and after it touches a buffer of a message
    unsigned progress_calls = 0;
    bool type_misused = false;            // a freed type was packed, unpacked or asked about

private:
    friend struct FakeCalls;

    FakeRequest* new_request(FakeRequest::What what, FakeComm* comm);
    void send(const void* buffer, int count, MPI_Datatype type, int dest, int tag, FakeComm* comm,
              bool synchronous, MPI_Request* request);
    void receive(void* buffer, int count, MPI_Datatype type, int source, int tag, FakeComm* comm,
                 MPI_Request* request);
    void arrive(FakeMessage&& message);
    void meet(FakeMessage& message, FakeRequest& receive);
    bool done(MPI_Request request);
    int finish(MPI_Request* request, MPI_Status* status, bool with_error);
    int report(const char* call, int error);
    void wait(MPI_Request request);

    const Options options_;
    std::mt19937_64 random_;
    std::vector<RealMpi> real_;
    std::vector<std::unique_ptr<FakeComm>> comms_;
    std::vector<MPI_Comm> private_;
    std::map<void*, std::unique_ptr<FakeType>> types_;
    std::vector<std::unique_ptr<FakeType>> graveyard_;
    std::map<void*, std::unique_ptr<std::vector<int>>> groups_;
    std::map<FakeRequest*, std::unique_ptr<FakeRequest>> requests_;
    std::map<FakeMessage*, std::unique_ptr<FakeMessage>> matched_;
    std::deque<FakeMessage> under_way_, arrived_;
    std::deque<FakeRequest*> posted_;
    std::map<std::pair<int, int>, int> barrier_entered_; // (context, round) -> ranks
    std::map<std::pair<int, int>, int> barrier_round_;   // (context, rank) -> its next round
    std::map<std::pair<int, int>, std::vector<std::int64_t>> reduced_; // (context, round) -> maxima
    std::uint64_t now_ = 0;
    int contexts_ = 0;
    int tag_max_;
    FakeRequest null_, done_;
    FakeType no_type_;
    FakeMessage no_message_, no_proc_;
};

std::uint64_t packed_size(const FakeType& type, int count);

} // namespace storm::unit
