// SPDX-License-Identifier: MIT
// What moves bytes between two processes for backends that are not direct: registered
// memory, one-sided writes, their completions. Each fabric (libfabric, verbs, windows or
// messages of the real MPI) is one Transport; the rings over it, their publication and
// their granting are the same code for all (wire.hh).
//
// No call blocks. A failed peer is told by an Event, once; writes towards it that were
// taken before end without another event. All calls come from one thread at a time.
#pragma once

#include "base/backend.hh"
#include "promises.hh"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace storm::wire {

// Memory that the fabric may read, and peers may write when they are told `address`
// and `key`.
struct Region {
    std::byte* base = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t address = 0; // of its beginning, as a peer's write names it
    std::uint64_t key = 0;
    void* handle = nullptr;
};

enum WriteFlags : unsigned {
    kFenced = 1,            // not placed before what was written to this peer earlier
    kDeliveryComplete = 2,  // `written` only when it can be seen at the target
    kSignal = 4,            // the target gets an `arrived` with `signal`, after the bytes are placed
};

struct Write {
    const std::byte* from = nullptr; // in `source`; not changed before `written`
    const Region* source = nullptr;
    std::uint64_t bytes = 0; // 0 only with kSignal
    std::uint64_t address = 0;
    std::uint64_t key = 0;
    unsigned flags = 0;
    std::uint32_t signal = 0;
    std::uint64_t cookie = 0;
};

struct Event {
    enum class Kind : std::uint8_t {
        written, // the write with `cookie` is complete, and its source free
        arrived, // a peer's write with kSignal: `signal` is its number, `peer` -1 if not known
        failed,  // `peer` cannot be reached any more; why() says what the fabric said
    };
    Kind kind = Kind::written;
    int peer = -1;
    std::uint32_t signal = 0;
    std::uint64_t cookie = 0;
};

class Transport {
public:
    virtual ~Transport() = default;

    virtual const char* name() const = 0;             // of the fabric: "tcp;ofi_rxm", "verbs mlx5_0:1"
    virtual const Promises& promises() const = 0;     // what is known of its order (matrix.def)
    virtual std::string address() const = 0;          // printable, no blanks, at most 140 characters
    virtual void begin(const Begin& begin) { static_cast<void>(begin); }
    virtual void end() {}
    virtual bool calls_mpi() const { return false; } // as Backend's
    virtual void inside_mpi(bool inside) { static_cast<void>(inside); }

    // Memory for rings and for what is written from: `refused` with one clause.
    virtual Status expose(std::byte* base, std::uint64_t bytes, Region& region, std::string& why) = 0;
    virtual void withdraw(Region& region) = 0;

    // ok: writes towards the peer may begin; again: under way; refused: one clause.
    virtual Status connect(int peer, std::string_view address, std::string& why) = 0;
    virtual void disconnect(int peer) = 0;
    // What two ends tell each other to be connected, carried as a Backend's words: at most
    // kWordMax bytes, taken after any other call.
    static constexpr std::uint32_t kWordMax = 400;
    virtual bool next_word(Word& word)
    {
        static_cast<void>(word);
        return false;
    }
    virtual void take_word(const Word& word) { static_cast<void>(word); }

    // ok: taken, one `written` will follow. again: no room, after next() there may be.
    // Largest single write: write_max().
    virtual Status write(int peer, const Write& write) = 0;
    virtual std::uint64_t write_max() const = 0;
    // A write of at most so many bytes, unless it is kDeliveryComplete, has its source free
    // when write() returns; a `written` may follow or not.
    virtual std::uint64_t inline_max() const { return 0; }

    // Moves what must be moved by this process, and tells the next event.
    virtual bool next(Event& event) = 0;
    // False when writes are placed here without a call of this process.
    virtual bool passive_target() const = 0;
    virtual std::string why(int peer) const = 0;
    // A descriptor that becomes readable when next() may have something, or -1.
    virtual int descriptor() const { return -1; }

    // For fabrics that are slow to tell of a dead link or host: the IP address of our device,
    // on which a helper thread answers whether this process lives (pulse.hh), and what is
    // wrong with its link, "" when nothing is known to be.
    virtual std::string pulse_host() const { return {}; }
    virtual std::string link_trouble() const { return {}; }
};

} // namespace storm::wire
