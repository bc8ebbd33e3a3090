// SPDX-License-Identifier: MIT
// The Backend contract: where the rings of this rank's neighbours live and how
// bytes reach them. A lane is one direction of one pair: a ring in the *receiver's*
// memory that only the sender writes (records) and only the receiver frees (head).
//
// A direct backend (shm) hands out the receiver's memory itself: what the sender
// stores there is what the receiver loads, and no further call is made per message.
// Any other backend hands out a local mirror of the same layout; the channel
// announces each written range with `publish`, one virtual call a batch.
//
// Where a ring can only be had with the receiver's help, `claim` and `grow` answer
// `again`: the two ends then talk in words, which the rank carries by the real MPI, and
// the pair is carried by it too until the ring is granted.
//
// All calls come from the rank's own thread or under its lock, never concurrently.
#pragma once

#include "base/log.hh"
#include "base/status.hh"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace storm {

struct Begin; // begin.hh

struct Lane {
    std::byte* base = nullptr;                   // data, `bytes` long, 16-byte aligned, zeroed
    std::uint64_t bytes = 0;                     // power of two
    std::atomic<std::uint64_t>* head = nullptr;  // bytes consumed so far, written by the receiver
    std::uint64_t ref = 0;                       // names this ring to the receiver's `open`
};

struct Claim {
    int peer = -1; // world rank of the sender
    Lane lane;
};

// What the backends of a pair tell each other: asking for a ring, granting it, giving
// it back. The rank carries them by the real MPI, in order for each pair.
struct Word {
    int peer = -1;
    std::uint32_t bytes = 0;
    std::array<std::byte, 512> data{};
};

class Backend {
public:
    virtual ~Backend() = default;
    virtual const char* name() const = 0;

    // Our address for peers: printable, without blanks, at most 160 characters.
    // Valid from construction on.
    virtual std::string address() const = 0;

    // Once, on all ranks, when MPI_Init has made what `begin` holds, and before
    // MPI_Finalize takes it away. Backends that need the real MPI are not to be used
    // before and after; these two calls are collective for them, and may block.
    virtual void begin(const Begin& begin) { static_cast<void>(begin); }
    virtual void end() {}

    // True when calls of this backend call the real MPI: its progress engine must not
    // bring them back to this backend on the same thread meanwhile. Calls that come from
    // within that engine stand between inside_mpi(true) and inside_mpi(false): no RMA call
    // and none that blocks is then made to it.
    virtual bool calls_mpi() const { return false; }
    virtual void inside_mpi(bool inside) { static_cast<void>(inside); }

    // Sender: takes a ring of `bytes` towards `peer`, whose address() is given.
    // ok: `lane` may be written at once and the receiver finds it by `accept`, or, when
    //     it was granted by words, by the record that names it (as a grown one).
    // again: asked for; the same call will tell. Until then the pair is carried.
    // refused: `why` holds one clause; the pair is then carried by the real MPI.
    virtual Status claim(int peer, std::string_view address, std::uint64_t bytes, Lane& lane,
                         std::string& why) = 0;

    // Sender: takes a larger ring towards a peer that was claimed before. The old
    // lane stays valid until `drop`. The receiver learns of the new one by a record
    // in the old one that carries `lane.ref` and `lane.bytes`, never by `accept`.
    // again: asked for; the old lane serves on until the same call brings the new one.
    virtual Status grow(int peer, std::uint64_t bytes, Lane& lane, std::string& why) = 0;

    // Sender: the old lane will not be written any more. Its bytes stay readable for
    // the receiver until that one calls `close`. Where lanes are not direct the rank calls
    // it when the receiver has told that it read the lane to its end, so `close` may come
    // first; until then the mirror is kept, for the fabric may fail.
    virtual void drop(int peer, Lane& lane) = 0;

    // Receiver: true with the next newly claimed inbound lane, false when there is
    // none. Called when `*doorbell()` is not zero; where the doorbell stands may
    // change with each call.
    virtual bool accept(Claim& claim) = 0;
    virtual const std::uint64_t* doorbell() const = 0;

    // Receiver: the ring that a grow record named, and the end of a drained one.
    virtual Status open(int peer, std::uint64_t ref, std::uint64_t bytes, Lane& lane) = 0;
    virtual void close(int peer, Lane& lane) = 0;

    // Not direct only. Sender: bytes [from, to) of the lane, counted from its
    // beginning of time (not wrapped), may be sent. The eight bytes at `to`, which are
    // zero, belong to it: they must be placed with the range, and the commit word at
    // `from` become visible after all the rest. `progress` moves what is under way,
    // heads on their way back too; `placed` is true when all that was published can be
    // seen at its target, failed peers not counted. A dropped mirror stays until its
    // ranges have moved. What publish holds back, to send it with what may follow, leaves
    // at `flush` as far as the fabric has room; false when some is left. It is called by
    // the next MPI call at the latest, and costs little when nothing is held back.
    virtual bool direct() const = 0;
    virtual bool placed() const { return true; }
    virtual void publish(int peer, Lane& lane, std::uint64_t from, std::uint64_t to) = 0;
    virtual bool flush() { return true; }
    virtual void progress() = 0;

    // Words towards peers, to be taken after any other call until there is none; and one
    // that came from a peer.
    virtual bool next_word(Word& word)
    {
        static_cast<void>(word);
        return false;
    }
    virtual void take_word(const Word& word) { static_cast<void>(word); }

    // True with a peer towards which the fabric has failed, once for each, and what it
    // said: data or heads cannot be brought there, or nothing comes from there. Nothing
    // published towards it since its head was last seen is certain to have arrived, nor
    // certain not to. The lanes' mirrors stay readable until `abandon`. Later claims
    // towards it are refused; publish and flush do nothing.
    virtual bool failed(int& peer, std::string& why)
    {
        static_cast<void>(peer);
        static_cast<void>(why);
        return false;
    }
    // Sender: all lanes towards the peer are over, and so are its mirrors (in place of
    // `drop`). It may come without `failed` having been told here, when the peer has seen
    // the failure first.
    virtual void abandon(int peer) { static_cast<void>(peer); }
    // Receiver: the same for an inbound lane (in place of `close`). Its memory is not used
    // again, as late writes may come.
    virtual void strand(int peer, Lane& lane) { close(peer, lane); }

    // True when what came from a peer is not what it sent (STORM_VERIFY): `why` names the
    // provider. The rank ends the job. `progress` delivers nothing of it.
    virtual bool torn(int& peer, std::string& why)
    {
        static_cast<void>(peer);
        static_cast<void>(why);
        return false;
    }

    // Facts for the report, as "ordering: stamped (...)": the n-th, "" behind the last.
    virtual std::string fact(unsigned n) const
    {
        static_cast<void>(n);
        return {};
    }
};

// What a plugin lib/storm/libstorm-NAME.so exports under the name `storm_backend`.
struct BackendSettings {
    int world_rank_hint = -1; // from the launcher, -1 when unknown
    std::uint64_t memory_max = 0;
    const Log* log = nullptr;
    std::string nic{}; // device or interface for other hosts; "" for the backend's own choice
    // Of fabrics, as the settings of the same names say (shim/settings.def).
    std::string ordering = "auto";
    bool verify = false;
    unsigned batch = 64;
    bool progress_thread = false;
    unsigned flush_us = 50;
    std::string ofi_provider = "auto";
};
constexpr unsigned kBackendAbi = 3;
struct BackendPlugin {
    unsigned abi;
    const char* name;
    // Opens the backend, or returns nullptr with the reason in words.
    Backend* (*open)(const BackendSettings& settings, std::string& why);
};

} // namespace storm
