// SPDX-License-Identifier: MIT
// What stands in a ring: 16-byte aligned records, each a header and its payload.
// The first eight bytes of the header are the commit word: zero means nothing is
// there yet; it is stored last, with release, and read first, with acquire.
#pragma once

#include "base/status.hh"

#include <cstddef>
#include <cstdint>

namespace storm {

enum class Kind : std::uint8_t {
    none = 0,
    skip,   // nothing more before the end of the ring: go on at its beginning
    eager,  // a whole message: the payload
    first,  // LongPrefix, then the first piece of a message sent in pieces or synchronously
    more,   // a further piece of the message that the last `first` began
    native, // NativePrefix: the payload travels by the real MPI on the private communicator
    ack,    // AckPrefix: the message with this cookie was matched
    define, // DefinePrefix: from now on `comm` names this communicator in this direction
    retire, // `comm` is freed by the sender and may be defined anew
    grow,   // GrowPrefix: the next record stands in another ring
    last_kind = grow,
    // by the real MPI only, and not part of the order of messages but for `seal`
    word,   // of the fabric's two ends, see Backend::next_word
    seal,   // the fabric has failed, here is what it said: read the ring no more and answer
    sealed, // SealedPrefix, then what the fabric said: nothing behind this place was read
    moved,  // the former ring was read to its end
};

constexpr std::uint8_t kSynchronous = 1; // the sender waits for an ack with its cookie
constexpr std::uint8_t kReplayed = 2;    // it stood in a ring that was sealed; `turn` counts these

struct RecordHeader {
    std::uint32_t bytes; // of payload, prefix included
    Kind kind;
    std::uint8_t flags;
    std::uint16_t turn; // counts the records of this ring: checked against the reader's count
    std::int32_t tag;
    std::uint32_t comm; // the sender's number of the communicator
};
static_assert(sizeof(RecordHeader) == 16 && offsetof(RecordHeader, tag) == 8);

struct LongPrefix {
    std::uint64_t total;  // bytes of the whole message
    std::uint64_t cookie; // names the send in an ack, 0 when none is wanted
};
struct NativePrefix {
    std::uint64_t total;
    std::int32_t native_tag; // on the private communicator
    std::uint32_t flags;     // kSynchronous: not to be received before it is matched
};
struct AckPrefix {
    std::uint64_t cookie;
};
struct DefinePrefix {
    std::uint64_t id;        // the same on all members
    std::int32_t sender_rank; // in that communicator
    std::int32_t unused;
};
struct GrowPrefix {
    std::uint64_t ref;
    std::uint64_t bytes;
};

struct SealedPrefix {
    std::uint64_t ref;      // of the ring, 0 when there was none
    std::uint64_t position; // of the first record that was not read
    std::uint16_t turn;     // and its number
    std::uint16_t unused[3];
};

// Payloads up to this many bytes are copied rather than waited for, when they cannot go
// into a ring: the real MPI's eager limit on a node.
constexpr std::uint64_t kSmall = 4096;

constexpr std::uint64_t record_bytes(std::uint64_t payload)
{
    return sizeof(RecordHeader) + round_up(payload, sizeof(RecordHeader));
}

} // namespace storm
