// SPDX-License-Identifier: MIT
// What the two ways of connecting share: the queue pair towards a peer, and the resources
// of the rank that all its queue pairs use.
#pragma once

#include "device.hh"

#include <array>
#include <cstdint>
#include <string>

namespace storm::verbs {

// Operations that one queue pair holds at most; a power of two.
constexpr std::uint32_t kQueueDepth = 128;
// Inline writes in a row that ask for no completion of their own.
constexpr std::uint32_t kUnsignalledMax = 16;
// A peer that does not answer is given up after seven times 4.096 us * 2^18, 7.5 s. One that
// only computes is answered for by its adapter. (Soft-RoCE takes seven retries for no end.)
constexpr std::uint8_t kAnswerTime = 18, kRetries = 6, kForEver = 7;

struct Posted {
    std::uint64_t cookie = 0;
    std::uint64_t taken = 0; // operations of this queue pair up to this write
    bool signalled = false;
};

struct Queue {
    enum class State : std::uint8_t { fresh, asked, ready, failed };

    int peer = -1;
    ibv_qp* pair = nullptr;
    State state = State::fresh;
    bool receives = false;      // our end takes what comes
    std::uint32_t number_there = 0;
    std::string why;

    // writes that are not told as complete: [first, end), counted from the beginning
    std::array<Posted, kQueueDepth> posted;
    std::uint64_t first = 0, end = 0;
    std::uint64_t taken = 0, freed = 0; // operations posted, and known to have left the queue
    std::uint32_t signalled = 0;    // writes under way that have a completion of their own
    std::uint32_t unsignalled_run = 0;
};

struct Resources {
    Device device;
    ibv_pd* domain = nullptr;
    ibv_cq* sent = nullptr;
    ibv_cq* came = nullptr;
    ibv_srq* receives = nullptr;    // null: no completion data
};

// A queue pair with as much room for inline data as the device has; null with errno.
ibv_qp* create_pair(const Resources& resources, std::uint32_t& inline_max);
// One that can be connected; null with the reason.
ibv_qp* make_pair(const Resources& resources, std::uint32_t inline_max, std::string& why);
// What to ask for, `inline_max` bytes of inline data among it.
ibv_qp_init_attr pair_attributes(const Resources& resources, std::uint32_t inline_max);

// What a peer says of its end.
struct End {
    std::uint32_t number = 0;
    std::uint32_t first_packet = 0;
    ibv_gid gid{};
    std::uint16_t lid = 0;
    std::uint8_t mtu = IBV_MTU_1024;
};
// Makes our end take what that one sends, and then send itself.
bool connect_pair(const Resources& resources, ibv_qp* pair, const End& there, std::string& why);
constexpr std::uint32_t kFirstPacket = 1;

} // namespace storm::verbs
