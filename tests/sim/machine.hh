// SPDX-License-Identifier: MIT
// A machine as LogGP has it: what a message costs the two ranks, the wire, and the adapter
// that the ranks of a node share. Ranks of one node reach each other through memory.
#pragma once

#include "backends/sim/timeline.hh"

#include <cstdint>
#include <vector>

namespace storm::sim {

struct MachineOptions {
    int ranks_a_nic = 112;
    // the wire
    double latency_ns = 1300, gap_ns = 8, gap_a_byte_ns = 0.08; // 12.5 GB/s, 125 M messages/s
    // memory of a node
    double near_latency_ns = 180, near_gap_a_byte_ns = 0.1;
    // the calls
    double send_ns = 50, receive_ns = 50; // a message that is there
    double test_ns = 2.7;                 // a request that is not
    double send_byte_ns = 0.1;            // copying
};

class Machine {
public:
    Machine(const MachineOptions& options, int ranks)
        : options(options), out_(static_cast<std::size_t>(ranks / options.ranks_a_nic) + 1), in_(out_.size())
    {
    }
    // When bytes that leave now have arrived.
    Time arrival(int from, int to, std::uint64_t bytes, Time now)
    {
        const auto a = static_cast<std::size_t>(from / options.ranks_a_nic);
        const auto b = static_cast<std::size_t>(to / options.ranks_a_nic);
        const auto size = static_cast<double>(bytes);
        if (a == b)
            return now + static_cast<Time>(options.near_latency_ns + size * options.near_gap_a_byte_ns);
        const auto busy = static_cast<Time>(options.gap_ns + size * options.gap_a_byte_ns);
        out_[a] = std::max(out_[a], now) + busy;
        in_[b] = std::max(in_[b], out_[a] + static_cast<Time>(options.latency_ns)) + busy;
        return in_[b];
    }

    const MachineOptions options;

private:
    std::vector<Time> out_, in_; // until when each adapter is busy
};

} // namespace storm::sim
