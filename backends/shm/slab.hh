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

struct Mapping {
    std::byte* at = nullptr;
    std::uint64_t bytes = 0;
};

// Maps [offset, offset + bytes) of the memfd, shared; null with errno on failure.
Mapping map(int fd, std::uint64_t offset, std::uint64_t bytes);
void unmap(Mapping& mapping);

} // namespace storm::shm
