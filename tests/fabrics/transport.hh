// SPDX-License-Identifier: MIT
// The contract of a Transport (backends/wire/transport.hh), one body for each of them, run
// by all processes of a job at once.
#pragma once

#include "backends/wire/transport.hh"

#include <cstddef>
#include <vector>

namespace storm::fabrics {

// How the processes of the test talk beside the fabric: in order for each pair, never
// blocking.
class Peers {
public:
    virtual ~Peers() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual void send(int to, const void* data, std::size_t bytes) = 0;
    virtual bool receive(int& from, std::vector<std::byte>& data) = 0;
};

struct Plan {
    unsigned rounds = 2000;      // of the cases that look at order
    bool last_rank_dies = false; // it ends without a word at the end; others must be told
};

// The number of cases that failed at this rank; each is printed by a line.
int check_transport(wire::Transport& transport, Peers& peers, const Plan& plan);

} // namespace storm::fabrics
