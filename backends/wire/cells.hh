// SPDX-License-Identifier: MIT
// The landing of a lane: cells in the receiver's memory that the sender writes one after
// the other, lap by lap. A cell has arrived when its lap stands in its header, where payload
// never does, and, where a fabric may show a cache line in part, when its checksum fits: of
// what was written, nothing but the whole can pass. The receiver's progress takes
// cells in their order; how far it came returns to the sender with the ring's head.
//
//   stamped                    payload travels in the cells and is copied into the ring
//   ordered, fence, complete   payload is written in place; a cell says up to where, and
//                              holds the first commit word
//   remote-cq                  no cells; with STORM_VERIFY one a batch, for its CRC
#pragma once

#include "crc32c.hh"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace storm::wire {

struct CellHead {
    std::uint32_t lap;   // from 1 on
    std::uint32_t check; // over all of the cell that was written, this word taken as 0
    std::uint16_t used;  // bytes of payload behind the header
    std::uint8_t kind;
    std::uint8_t flags;
    std::uint32_t crc; // with kLast under STORM_VERIFY: CRC-32C of the batch
};
static_assert(sizeof(CellHead) == 16);

enum CellKind : std::uint8_t { kData = 1, kPlace = 2, kQuestion = 3 };
constexpr std::uint8_t kLast = 1; // the batch ends with this cell

// Payload of kPlace: the batch's length, and its first commit word.
struct Place {
    std::uint64_t bytes;
    std::uint64_t word;
};

constexpr std::uint32_t kTornCell = 1024; // where cells need a checksum
constexpr std::uint32_t kLineCell = 64;   // where lines are whole
constexpr std::uint32_t kPlaceCell = 64;

inline std::uint32_t cell_check(const CellHead& head, const std::byte* payload)
{
    CellHead plain = head;
    plain.check = 0;
    return checksum(crc32c(0, &plain, sizeof plain), payload, plain.used);
}

// Writes the header in front of a payload that stands at `at` + 16.
inline void seal_cell(std::byte* at, CellHead head, bool checked)
{
    head.check = checked ? cell_check(head, at + sizeof head) : 0;
    std::memcpy(at, &head, sizeof head);
}

// True when the cell of this lap is there as a whole; `head` is a copy of its header.
inline bool open_cell(std::byte* at, std::uint32_t lap, std::uint32_t cell_bytes, bool checked, CellHead& head)
{
    // acquire: what the fabric placed before the lap is read after it
    if (std::atomic_ref(*reinterpret_cast<std::uint32_t*>(at)).load(std::memory_order_acquire) != lap)
        return false;
    std::memcpy(&head, at, sizeof head);
    return head.used <= cell_bytes - sizeof head &&
           (!checked || head.check == cell_check(head, at + sizeof head));
}

// How far the receiver is, written by it into the sender's memory.
struct HeadBlock {
    std::uint64_t head;  // bytes that were consumed
    std::uint64_t seen;  // cells or signals that were taken
    std::uint64_t lane;  // the sender's number of the lane
    std::uint64_t check; // of the words above
};
constexpr std::uint64_t kBlockRoom = 64;

inline std::uint64_t block_check(const HeadBlock& block)
{
    return crc32c(0, &block, offsetof(HeadBlock, check)) | std::uint64_t{1} << 32;
}

// The number that comes with a write of remote-cq.
struct Signal {
    std::uint32_t slot;  // the receiver's, of the lane
    std::uint8_t turn;   // counts the lane's signals
    bool more;           // the batch goes on; with no bytes: a question
    std::uint32_t units; // of 16 bytes

    static constexpr std::uint32_t kSlots = 1 << 11, kUnitsMax = (1 << 12) - 1;
    std::uint32_t number() const
    {
        return slot << 21 | static_cast<std::uint32_t>(turn) << 13 | static_cast<std::uint32_t>(more) << 12 | units;
    }
    static Signal of(std::uint32_t number)
    {
        return {number >> 21, static_cast<std::uint8_t>(number >> 13), (number >> 12 & 1) != 0, number & kUnitsMax};
    }
};
constexpr std::uint32_t kSignalWindow = 128; // not yet taken; half of what `turn` tells apart

} // namespace storm::wire
