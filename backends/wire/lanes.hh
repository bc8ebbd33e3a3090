// SPDX-License-Identifier: MIT
// One lane as its sender and as its receiver have it. Positions count bytes from the
// lane's beginning of time, units the cells or signals that were sent in it.
#pragma once

#include "cells.hh"
#include "slab.hh"
#include "words.hh"

#include <array>
#include <cstdlib>
#include <deque>

namespace storm::wire {

struct Shape { // of a lane, the same on both ends
    Mode mode = Mode::stamped;
    bool verify = false;
    bool checked = true; // cells have a checksum
    std::uint64_t bytes = 0;
    std::uint32_t cells = 0;
    std::uint32_t cell_bytes = 0;

    std::uint64_t at(std::uint64_t position) const { return position & (bytes - 1); }
    std::uint64_t to_end(std::uint64_t position) const { return bytes - at(position); }
    std::uint32_t lap(std::uint64_t unit) const { return static_cast<std::uint32_t>(unit / cells) + 1; }
    std::uint64_t cell(std::uint64_t unit) const { return unit % cells * cell_bytes; }
    std::uint32_t cell_room() const { return cell_bytes - static_cast<std::uint32_t>(sizeof(CellHead)); }
    // Behind the ring lies room for the word that a signalled write brings along.
    std::uint64_t landing_offset() const { return bytes + 64; }
    std::uint64_t landing_bytes() const { return std::uint64_t{cells} * cell_bytes; }
};

inline Shape shape_of(Mode mode, bool verify, bool whole_lines, std::uint64_t bytes)
{
    Shape s{mode, verify, true, bytes, 256, kPlaceCell};
    if (mode == Mode::remote_cq && !verify)
        s.cells = 1; // unused
    if (mode != Mode::stamped)
        return s;
    // lines are enough where they are whole; a checksum finds what is torn all the same
    s.checked = !whole_lines || verify;
    s.cell_bytes = s.checked ? kTornCell : kLineCell;
    s.cells = static_cast<std::uint32_t>(std::max<std::uint64_t>(bytes / 2, 1 << 15) / s.cell_bytes);
    return s;
}

struct FreeMemory {
    void operator()(std::byte* at) const { std::free(at); }
};

struct Block { // room for a HeadBlock in memory that the fabric knows; never used again
    std::byte* at = nullptr;
    const Region* region = nullptr;
};

struct Flight { // a write that is under way
    std::uint64_t stage_end, unit_end;
    bool done;
};
constexpr std::uint32_t kFlights = 64;

struct Outbound {
    enum class State : std::uint8_t { asked, granted, refused, dead };

    std::uint64_t id = 0;
    int peer = -1;
    State state = State::asked;
    Shape shape;
    std::string why; // it was refused

    std::unique_ptr<std::byte, FreeMemory> mirror;
    std::atomic<std::uint64_t> head{0}; // what the writer of the ring loads
    Block block;                        // where the receiver writes

    std::uint64_t ref = 0; // the receiver's number
    std::uint32_t slot = 0;
    std::uint64_t ring = 0, landing = 0, key = 0; // addresses there

    std::uint64_t ready = 0;          // published up to here
    std::uint64_t sent = 0;           // batches up to here have left
    std::uint32_t records = 0;        // publishes since the last limit
    std::deque<std::uint64_t> limits; // where full batches end
    bool hot = false;                 // something left since the last look for events

    bool in_batch = false;
    std::uint64_t batch_to = 0, batch_at = 0;
    std::uint64_t batch_word = 0; // the first commit word
    std::uint32_t batch_crc = 0;
    bool whole = false;           // the payload has left, its announcement not

    std::uint64_t unit = 0, seen = 0; // sent, and taken by the receiver
    std::uint64_t asked_at = UINT64_MAX;
    bool ask = false;

    Piece stage; // payload, then cells, as the receiver's landing
    std::uint64_t stage_room = 0;
    std::uint64_t stage_at = 0, stage_floor = 0, unit_floor = 0;
    std::array<Flight, kFlights> flights{};
    std::uint32_t first_flight = 0, next_flight = 0;

    bool dropped = false, told_done = false;

    std::uint32_t under_way() const { return next_flight - first_flight; }
    bool idle() const { return sent == ready && !in_batch; }
    bool placed() const { return idle() && seen == unit; }
    std::byte* cells() const { return stage.at + stage_room; }
    const std::byte* in_mirror(std::uint64_t position) const { return mirror.get() + shape.at(position); }
    // Units that may still be sent before the receiver says more.
    std::uint64_t credit() const
    {
        if (shape.mode == Mode::remote_cq)
            return kSignalWindow - (unit - seen);
        return shape.cells - (unit - std::min(seen, unit_floor));
    }
};

struct Inbound {
    std::uint64_t id = 0;
    int peer = -1;
    std::uint64_t theirs = 0; // the sender's number
    std::uint32_t slot = 0;
    Shape shape;
    Piece memory; // ring, room for a word, landing
    std::atomic<std::uint64_t> head{0}; // stored by the reader of the ring

    std::uint64_t at = 0;    // of the batch that is coming, so far
    std::uint64_t begun = 0; // where it begins: all before can be seen
    std::uint64_t word = 0;  // its first commit word, kept back
    std::uint64_t unit = 0;
    std::array<std::uint32_t, 256> signals{}; // by turn; 0 for none

    std::uint64_t block_address = 0, block_key = 0;
    Block block; // what is written there
    std::uint64_t told_head = 0, told_seen = 0;
    bool telling = false, owes = false;
    std::uint32_t silent = 0; // looks since the last one

    bool opened = false, closed = false, stranded = false;
    bool lost = false; // the fabric brings nothing to the sender any more
    bool done = false;
    std::uint64_t units_in_all = 0;

    std::byte* ring_at(std::uint64_t position) const { return memory.at + shape.at(position); }
    std::uint64_t* word_at(std::uint64_t position) const
    {
        return reinterpret_cast<std::uint64_t*>(ring_at(position));
    }
    std::byte* landing() const { return memory.at + shape.landing_offset(); }
};

} // namespace storm::wire
