// SPDX-License-Identifier: MIT
// A request as the program holds it: an object in one reserved address range, so that
// "ours?" is a subtraction and a compare. Open MPI's Fortran bindings read the
// Fortran index straight from the structure that a handle points to, so ours carries
// it at the same offset.
#pragma once

#include "base/access.hh"
#include "list.hh"

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace storm {

class Comm;
struct Source;
struct TypeInfo;
struct Message;

constexpr std::size_t kFortranIndexOffset = 0x68; // Open MPI 4.1

enum class Mode : std::uint8_t { standard, synchronous, ready, buffered };

// The two words of a request by which threads agree who completes it and who ends it.
template <class Access>
struct Completion {
    enum class State : std::uint8_t {
        inactive,
        active,
        abandoned, // active, and the program has given its handle back
        complete,
    };

    // One thing less that it waits for; true with the last one.
    static bool part_done(std::uint8_t& awaits, std::uint8_t part)
    {
        const auto others = static_cast<std::uint8_t>(~part);
        // acq_rel: who clears the last bit has seen what the others did
        return (Access::keep_bits(awaits, others, std::memory_order_acq_rel, Site::awaits) & others) == 0;
    }
    // Nothing is touched afterwards, unless this is true: it was abandoned, and is the
    // caller's to end.
    static bool complete(State& phase)
    {
        // acq_rel: pairs with look(), and with abandon()
        return Access::exchange(phase, State::complete, std::memory_order_acq_rel, Site::complete) ==
               State::abandoned;
    }
    // Its handle is given back. False: it is complete, and the caller's to end.
    static bool abandon(State& phase)
    {
        // acq_rel: pairs with complete()
        return Access::exchange_if(phase, State::active, State::abandoned, std::memory_order_acq_rel,
                                   Site::abandon) == State::active;
    }
    static State look(const State& phase)
    {
        // acquire: pairs with complete() and with the release of a State that is set
        return Access::load(phase, std::memory_order_acquire, Site::look);
    }
};

struct Request {
    enum class What : std::uint8_t { free, send, receive, duplicate };
    using Words = Completion<Hardware>;
    using State = Words::State;
    // What has to happen before a send is complete.
    static constexpr std::uint8_t kCopy = 1; // its payload leaves our hands
    static constexpr std::uint8_t kAck = 2;  // the receiver matches it

    What what = What::free;
    State phase = State::inactive; // by state() and set() only
    Mode mode = Mode::standard;
    bool persistent = false;
    bool cancelled = false;
    std::uint8_t awaits = 0; // of kCopy and kAck
    int error = MPI_SUCCESS;

    // the call's arguments; a receive's rank may be MPI_ANY_SOURCE
    int rank = 0;
    int tag = 0;
    int count = 0;
    std::byte* buffer = nullptr;
    TypeInfo* type = nullptr;
    Comm* comm = nullptr;

    // what the status will say
    int from = 0;
    int from_tag = 0;
    std::uint64_t received = 0;

    std::uint64_t capacity = 0; // bytes that the receive buffer takes
    Link<Request> posted;       // in the queue of a source, or of its communicator
    Source* source = nullptr;   // of a posted specific receive
    std::uint64_t order = 0;    // of posting, to choose between wildcard and specific
    // at a fixed place, see above; the static_assert below keeps it there
    std::int32_t fortran_index = 0;

    bool queued = false;        // in a posted queue
    bool device = false;        // its buffer is a GPU's: only the real MPI touches it
    bool plain = false;         // a receive's buffer takes bytes one behind the other
    MPI_Request native = nullptr; // duplicate: of the real duplication, then of the agreement
    MPI_Comm made = nullptr;      // duplicate: the new handle
    MPI_Comm* made_at = nullptr;  // duplicate: where it will stand, if the call did not give it yet
    bool agreeing = false;        // duplicate: the real one has ended
    std::array<std::int64_t, 3> identity = {}; // world rank of member 0, its counter, nested

    // What completed it, received bytes and status, is seen by whoever sees it complete.
    State state() const { return Words::look(phase); }
    // release: pairs with the acquire of look()
    void set(State state) { std::atomic_ref(phase).store(state, std::memory_order_release); }
    bool active() const { return state() == State::active; }
};
static_assert(offsetof(Request, fortran_index) == kFortranIndexOffset);

// A message that arrived before its receive, or a matched one (MPI_Message).
struct Message {
    int tag = 0;
    bool native = false;      // payload comes by the real MPI under native_tag
    bool matched = false;     // taken by a matched probe
    bool filling = false;     // the real MPI still writes its bytes
    bool whole = false;       // all its bytes are here
    int native_tag = 0;
    std::int32_t fortran_index = -1;
    int error = MPI_SUCCESS;  // of the real MPI while it brought the bytes
    std::uint64_t total = 0;
    std::uint64_t cookie = 0; // an ack is wanted
    std::byte* bytes = nullptr;
    Source* source = nullptr;
    Request* taker = nullptr; // a receive that waits for the rest of it
    Link<Message> of_source;
    Link<Message> of_comm;
};

} // namespace storm
