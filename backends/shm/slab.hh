// SPDX-License-Identifier: MIT
// One rank's inbound rings in shared memory: a memfd that only its user can open.
//
//   page 0      Header: what a peer checks, where the next ring is taken from
//   page 1...   directory: one entry a claimed ring, in the order of claiming
//   then        rings: a control page (the head) and the data
//
// Senders take rings one-sidedly: an entry by fetch_add, room by fetch_add, memory by
// fallocate before anybody touches it (so that no access can end in SIGBUS), and the
// entry's second word last, with release. The receiver finds it by a load.
#pragma once

#include "base/access.hh"
#include "base/backend.hh"

#include <atomic>
#include <cstdint>

namespace storm::shm {

constexpr std::uint64_t kMagic = 0x53544f524d534c42; // "STORMSLB"
constexpr std::uint32_t kLayout = 1;
constexpr std::uint32_t kEntries = 1024; // processes of one node that may send here

struct Entry {
    std::uint64_t offset; // of the control page
    std::uint64_t claim;  // 0 until the rest is valid: sender's rank + 1 << 8 | log2 of the bytes
};

struct Header {
    std::uint64_t magic;
    std::uint32_t layout;
    std::int32_t owner;   // world rank
    std::uint64_t nonce[2];
    std::uint64_t limit;  // bytes of all rings at once, STORM_MEMORY_MAX
    alignas(64) std::atomic<std::uint64_t> next_offset; // only grows: places are not used again
    std::atomic<std::uint64_t> in_use;                  // bytes, given back when a ring is closed
    alignas(64) std::atomic<std::uint32_t> next_entry;
};
static_assert(sizeof(Header) <= kPage);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::uint64_t kDirectory = kPage;
constexpr std::uint64_t kFirstRing = kDirectory + round_up(kEntries * sizeof(Entry), kPage);

// The claim protocol on these words. `whole` is a ring's bytes with its control page.
template <class Access>
struct Claims {
    // Sender: room that is its alone, at `offset`. False: over the budget, nothing is taken.
    static bool take_room(Header& header, std::uint64_t whole, std::uint64_t& offset)
    {
        // relaxed: a budget, and a range that no two may have; no data goes with either
        if (Access::add(header.in_use, whole, std::memory_order_relaxed, Site::budget) + whole > header.limit) {
            give_back(header, whole);
            return false;
        }
        // relaxed: as above
        offset = Access::add(header.next_offset, whole, std::memory_order_relaxed, Site::range);
        return true;
    }

    // Whoever took room and has no use for it, or the receiver when a ring is closed.
    static void give_back(Header& header, std::uint64_t whole)
    {
        // relaxed: a sum
        Access::add(header.in_use, std::uint64_t{0} - whole, std::memory_order_relaxed, Site::give_back);
    }

    // Sender: the directory is full. A hint only: announce() decides.
    static bool full(const Header& header)
    {
        // relaxed: a hint
        return Access::load(header.next_entry, std::memory_order_relaxed, Site::directory_hint) >= kEntries;
    }

    // Sender: the ring at `offset`, whose memory is there, is the receiver's to find. False:
    // the directory is full.
    static bool announce(Header& header, Entry* directory, std::uint64_t offset, int rank, unsigned log2_bytes)
    {
        // relaxed: only the number must be unique; the entry is published below
        const std::uint32_t slot = Access::add(header.next_entry, 1, std::memory_order_relaxed, Site::slot);
        if (slot >= kEntries)
            return false;
        Entry& entry = directory[slot];
        Access::write(reinterpret_cast<std::byte*>(&entry.offset), &offset, sizeof offset, Site::entry);
        const std::uint64_t word = (static_cast<std::uint64_t>(rank) + 1) << 8 | log2_bytes;
        // release: the offset and the ring's memory come first; pairs with find
        Access::store(entry.claim, word, std::memory_order_release, Site::claim);
        return true;
    }

    // Receiver: false while nobody has announced a ring in this entry.
    static bool find(const Entry& entry, std::uint64_t& offset, int& rank, std::uint64_t& bytes)
    {
        // acquire: pairs with the release in announce
        const std::uint64_t word = Access::load(entry.claim, std::memory_order_acquire, Site::accept);
        if (word == 0)
            return false;
        rank = static_cast<int>((word >> 8) - 1);
        bytes = std::uint64_t{1} << (word & 63);
        Access::read(&offset, reinterpret_cast<const std::byte*>(&entry.offset), sizeof offset, Site::accept_entry);
        return true;
    }
};

struct Mapping {
    std::byte* at = nullptr;
    std::uint64_t bytes = 0;
};

// Maps [offset, offset + bytes) of the memfd, shared; null with errno on failure.
Mapping map(int fd, std::uint64_t offset, std::uint64_t bytes);
void unmap(Mapping& mapping);

} // namespace storm::shm
