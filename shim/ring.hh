// SPDX-License-Identifier: MIT
// The ring of one direction of one pair: single producer, single consumer, bytes in
// power-of-two capacity, in-band commit words (record.hh), no shared tail.
//
// Sender: reserve() -> payload pointer or null (full), write it, commit(). Only the
//   sender calls these. Room for one control record (kControlRoom) is kept free for
//   reserve_control(), so that a full ring can still announce its successor.
// Receiver: peek() -> header or null (empty), pop(). Only the receiver calls these.
// Published by the sender: the commit word (release), after the payload, the rest of
//   the header and the zero of the *next* record's commit word. Taken by peek (acquire).
// Published by the receiver: head (release), after it has read what it frees, at the
//   latest when a quarter of the ring is consumed. Taken by reserve (acquire).
// The largest record is a quarter of the ring: with a skip of the same size before it
// and a quarter of freed bytes not yet published it fits once the receiver caught up.
#pragma once

#include "base/access.hh"
#include "base/backend.hh"
#include "base/defects.hh"
#include "copy.hh"
#include "record.hh"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace storm {

constexpr std::uint64_t kControlRoom = 160; // a grow record, and a skip before it

inline std::uint64_t* commit_word(std::byte* at)
{
    return reinterpret_cast<std::uint64_t*>(at);
}

template <class Access>
class RingWriterOver {
public:
    RingWriterOver() = default;
    explicit RingWriterOver(const Lane& lane) : lane_(lane) {}

    const Lane& lane() const { return lane_; }
    Lane& lane() { return lane_; }
    std::uint64_t tail() const { return tail_; }
    std::uint64_t largest_payload() const
    {
        return lane_.bytes / 4 - kControlRoom - sizeof(RecordHeader);
    }
    std::uint64_t high_water() const { return high_water_; }

    std::byte* reserve(std::uint64_t payload)
    {
        return place(payload, STORM_PLANTED(no_room_for_control) ? 0 : kControlRoom);
    }
    std::byte* reserve_control(std::uint64_t payload) { return place(payload, 0); }

    // Publishes the record whose payload reserve() gave room for.
    void commit(Kind kind, std::uint8_t flags, std::uint64_t payload, std::int32_t tag,
                std::uint32_t comm)
    {
        std::byte* at = lane_.base + (tail_ & (lane_.bytes - 1));
        tail_ += record_bytes(payload);
        // The next commit word is cleared before this one is set: whoever sees this
        // record finds either zero or a committed record behind it. (relaxed: ordered
        // by the release below)
        std::byte* next = lane_.base + (tail_ & (lane_.bytes - 1));
        if (!STORM_PLANTED(next_word_not_cleared))
            Access::store(*commit_word(next), 0, std::memory_order_relaxed, Site::clear);
        RecordHeader header{static_cast<std::uint32_t>(payload), kind, flags, turn_++, tag, comm};
        Access::write(at + 8, reinterpret_cast<const std::byte*>(&header) + 8, 8, Site::header);
        std::uint64_t word;
        std::memcpy(&word, &header, 8);
        // release: pairs with the acquire in RingReader::peek
        Access::store(*commit_word(at), word, std::memory_order_release, Site::commit);
    }

    // Takes the lines of the next `payload` bytes back from the receiver's cache, so that
    // the next message of this size finds them here. The line of the next commit word,
    // which the receiver polls, stays where it is. Measured: rate at 4 KiB 1.5 times,
    // at 8 bytes 1.2 times, half round trip at 64 KiB 0.66 times that without.
    void warm(std::uint64_t payload)
    {
        constexpr std::uint64_t kLine = 64;
        const std::uint64_t free = lane_.bytes - (tail_ - head_), most = lane_.bytes / 4;
        const std::uint64_t ahead = std::min(payload + kLine, std::min(free, most));
        for (std::uint64_t i = kLine; i <= ahead; i += kLine)
            fetch_to_write(lane_.base + ((tail_ + i) & (lane_.bytes - 1)));
    }

    // Shows `visit(header, payload)` the records from `position` on, skips left out. Only
    // where the receiver has not read them, and the bytes are the sender's own (a mirror).
    template <class Visit>
    void each_from(std::uint64_t position, Visit visit) const
    {
        while (position < tail_) {
            const std::byte* at = lane_.base + (position & (lane_.bytes - 1));
            RecordHeader header;
            std::memcpy(&header, at, sizeof header);
            if (header.kind == Kind::skip) {
                position += lane_.bytes - (position & (lane_.bytes - 1));
                continue;
            }
            visit(header, at + sizeof header);
            position += record_bytes(header.bytes);
        }
    }

    // Bytes in the ring that the receiver has not freed, by the latest head.
    std::uint64_t used()
    {
        // acquire: pairs with the release in RingReader::pop
        if (!STORM_PLANTED(head_not_seen))
            head_ = Access::load(*lane_.head, std::memory_order_acquire, Site::take_head);
        return tail_ - head_;
    }

private:
    std::byte* place(std::uint64_t payload, std::uint64_t keep_free)
    {
        const std::uint64_t at = tail_ & (lane_.bytes - 1);
        const std::uint64_t need = record_bytes(payload);
        const std::uint64_t to_end = lane_.bytes - at;
        const std::uint64_t skipped = need > to_end + (STORM_PLANTED(wrap_one_late) ? 16 : 0) ? to_end : 0;
        // one header more: the next commit word must be free to be cleared
        const std::uint64_t wanted = skipped + need + sizeof(RecordHeader) + keep_free;
        if (tail_ - head_ + wanted > lane_.bytes + (STORM_PLANTED(full_one_late) ? 1024 : 0)) [[unlikely]] {
            if (used() > high_water_)
                high_water_ = tail_ - head_;
            if (tail_ - head_ + wanted > lane_.bytes)
                return nullptr;
        }
        if (skipped != 0) [[unlikely]]
            skip(at, to_end);
        // a look at the head once a lap keeps the high-water mark honest; more would cost
        if (((tail_ ^ (tail_ + need)) & lane_.bytes) != 0) [[unlikely]]
            high_water_ = used() + need > high_water_ ? tail_ - head_ + need : high_water_;
        return lane_.base + (tail_ & (lane_.bytes - 1)) + sizeof(RecordHeader);
    }

    void skip(std::uint64_t at, std::uint64_t to_end)
    {
        // relaxed: ordered by the release below
        Access::store(*commit_word(lane_.base), 0, std::memory_order_relaxed, Site::clear_first);
        const RecordHeader header{0, Kind::skip, 0, turn_++, 0, 0};
        std::uint64_t word;
        std::memcpy(&word, &header, 8);
        // release: the zero at the ring's beginning comes first, as in commit
        Access::store(*commit_word(lane_.base + at), word, std::memory_order_release, Site::skip);
        if (!STORM_PLANTED(skip_not_counted))
            tail_ += to_end;
    }

    Lane lane_;
    std::uint64_t tail_ = 0;
    std::uint64_t head_ = 0; // as last seen
    std::uint64_t high_water_ = 0;
    std::uint16_t turn_ = 0;
};

inline constinit std::uint64_t no_ring = 0; // a commit word that is never set

template <class Access>
class RingReaderOver {
public:
    RingReaderOver() = default;
    explicit RingReaderOver(const Lane& lane) : lane_(lane), word_(commit_word(lane.base)) {}

    const Lane& lane() const { return lane_; }
    Lane& lane() { return lane_; }
    std::uint16_t turn() const { return turn_; }
    std::uint64_t position() const { return position_; } // of the next record

    // The commit word of the next record: what a poll loads.
    const std::uint64_t* word() const { return word_; }

    // The next record, or null when the ring is empty. `header` is a checked copy of
    // its header; the pointer is its payload, valid until pop.
    const std::byte* peek(RecordHeader& header)
    {
        for (;;) {
            // acquire: pairs with the release in RingWriter::commit and skip
            const std::uint64_t word = Access::load(*word_, std::memory_order_acquire, Site::peek);
            if (word == 0)
                return nullptr;
            std::memcpy(&header, &word, 8);
            Access::read(reinterpret_cast<std::byte*>(&header) + 8,
                         reinterpret_cast<const std::byte*>(word_) + 8, 8, Site::peek_rest);
            if (header.kind != Kind::skip || !sound(header))
                return reinterpret_cast<const std::byte*>(word_ + 2);
            advance(lane_.bytes - (position_ & (lane_.bytes - 1)));
        }
    }

    // False when a header cannot have been written by our sender.
    bool sound(const RecordHeader& header) const
    {
        return header.turn == turn_ && header.kind > Kind::none &&
               header.kind <= Kind::last_kind &&
               record_bytes(header.bytes) <= lane_.bytes - (position_ & (lane_.bytes - 1));
    }

    void pop(const RecordHeader& header) { advance(record_bytes(header.bytes)); }

    // Frees all that was read, also below a quarter of the ring.
    void publish_head()
    {
        published_ = position_;
        // release: what was read comes before it may be overwritten; pairs with used()
        Access::store(*lane_.head, position_ + (STORM_PLANTED(head_too_far) ? 512 : 0), std::memory_order_release,
                      Site::free_head);
    }

private:
    void advance(std::uint64_t bytes)
    {
        position_ += bytes;
        if (!STORM_PLANTED(turn_not_counted) || (position_ & (lane_.bytes - 1)) != 0)
            ++turn_;
        word_ = commit_word(lane_.base + (position_ & (lane_.bytes - 1)));
        if (position_ - published_ >= lane_.bytes / 4 && !STORM_PLANTED(credit_lost))
            publish_head();
    }

    Lane lane_;
    std::uint64_t* word_ = &no_ring;
    std::uint64_t position_ = 0;
    std::uint64_t published_ = 0;
    std::uint16_t turn_ = 0;
};

using RingWriter = RingWriterOver<Hardware>;
using RingReader = RingReaderOver<Hardware>;

} // namespace storm
