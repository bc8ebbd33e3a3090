// SPDX-License-Identifier: MIT
// The channel of one pair of processes: our ring (or the real MPI) towards the peer,
// and the ring that the peer writes here. Channels belong to processes, not to
// communicators: each direction has one order, whatever communicator a message is on.
#pragma once

#include "communicator.hh"
#include "ring.hh"

#include <cstdint>
#include <deque>
#include <type_traits>
#include <vector>

namespace storm {

// A record, or a message in pieces, that waits for room.
struct Outgoing {
    Kind kind = Kind::eager; // eager: a message, in pieces when it must be; else a control record
    std::uint8_t flags = 0;
    std::int32_t tag = 0;
    std::uint32_t comm = 0;
    const std::byte* data = nullptr;
    std::uint64_t total = 0;
    std::uint64_t sent = 0;
    std::uint64_t cookie = 0;
    bool begun = false;
    bool owned = false;         // data is our copy
    Request* request = nullptr; // told when the last byte has left; null when nobody waits
    std::byte prefix[sizeof(DefinePrefix)] = {}; // payload of a control record
    std::uint32_t prefix_bytes = 0;
};

class Channel {
public:
    enum class Path : std::uint8_t {
        fresh,   // nothing sent yet
        ring,    // records in the peer's memory
        carried, // records by the real MPI, for a peer whose memory cannot be had
        sealing, // the fabric has failed: nothing leaves until the peer tells what it has read
    };

    explicit Channel(int world_rank) : peer(world_rank) {}

    const int peer;

    // ---- towards the peer, under out_lock
    Lock out_lock;
    Path path = Path::fresh;
    bool placing = false; // rings may grow past STORM_RING_MAX rather than make us wait
    bool grow_refused = false;
    bool over_fabric = false; // the ring is a mirror: what is written must be published
    bool given_up = false;    // the fabric has failed towards the peer: no ring is asked for
    bool asking = false;      // in the rank's list of channels whose ring is being granted
    bool waiting = false; // in the rank's list of channels with pending records (a leaf's)
    RingWriter out;
    // Under out_lock; a report from inside the real MPI may look at it without.
    template <class Number>
    static void count(Number& number, std::type_identity_t<Number> by = 1)
    {
        set_word(number, number + by);
    }
    // What was sent to the peer; the fast path counts in the first two only.
    std::uint64_t at_once = 0; // messages of the fast path
    std::uint64_t ring_bytes = 0;
    std::uint64_t ring_messages = 0; // other than those
    std::uint64_t native_messages = 0, native_bytes = 0;
    std::uint64_t announced = 0; // tail of the last publish over a fabric
    std::uint64_t wanted = 0;    // bytes of the ring that is being granted
    std::vector<RingWriter> former; // mirrors that the peer may not have read to their end
    std::deque<Outgoing> pending;
    std::uint32_t next_native_tag = 0; // modulo the tags that the real MPI has

    // What has left in this direction, in bytes of rings and records that the real MPI
    // carries; the peer's arrived_so_far() of this direction is equal once all has arrived.
    // Both only grow. What a peer will never read of a ring that it gave up may be taken
    // off the first one before what replaces it is sent, while the rank is not idle.
    std::uint64_t sent_so_far() const { return glance_at(sent_elsewhere) + out.tail(); }
    std::uint64_t sent_elsewhere = 0; // than in this ring

    std::uint32_t growths = 0;
    std::uint64_t high_water = 0; // of the rings before this one

    // ---- from the peer, under in_lock
    Lock in_lock;
    RingReader in;
    bool has_in = false;
    std::uint64_t arrived_so_far() const { return glance_at(arrived_elsewhere) + in.position(); }
    std::uint64_t arrived_elsewhere = 0; // than in this ring
    bool in_fabric = false; // it lies with the fabric
    bool stopped = false;   // the fabric has failed: no ring of the peer is read any more
    std::uint16_t replayed = 0; // records that came again from its mirror

    // The sender's numbers of communicators, in this direction.
    struct Entry {
        Comm* comm = nullptr;
        Source* source = nullptr;
    };
    std::vector<Entry> entries;

    // The message whose further pieces are still to come.
    Request* assembling = nullptr; // its receive, when the pieces go straight there
    Message* gathering = nullptr;  // else the message that keeps them
    std::uint64_t gathered = 0;
    std::uint64_t expected = 0;
};

} // namespace storm
