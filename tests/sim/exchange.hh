// SPDX-License-Identifier: MIT
// An exchange shaped like uniform emission: ranks on a periodic lattice, each with twelve
// neighbours, track batches of particles; what leaves goes to a neighbour as a message, and
// the step is over when no particle moves any more, which the shipped waves (wave.h) find.
// Routed, by Rank objects; or two-sided, by the simulated real MPI alone.
#pragma once

#include "machine.hh"
#include "world.hh"

#include <string>

namespace storm::sim {

struct ExchangeOptions {
    int ranks = 112;
    std::uint64_t seed = 1;
    int steps = 2;
    int batches = 6;              // that a rank makes in a step
    double hops = 2;              // ranks that a batch still visits, on average
    int particles = 16, bytes = 56;
    double track_ns = 2000;       // of one particle in one rank
    int poll = 8;                 // particles between two looks
    int receives = 12;            // requests that a look tests
    bool routed = true, direct = false;
    std::uint64_t ring_bytes = 4096;
    bool model = false;           // costs and times of `machine`; else any delays
    MachineOptions machine;
};

struct ExchangeResult {
    std::string violation;
    double seconds = 0;           // of virtual time, all steps
    double busy = 0;              // of it, tracked, on average
    std::uint64_t messages = 0, waves_messages = 0, events = 0;
    double bytes_a_rank = 0;      // resident, at the end of the steps
    double calls_a_rank = 0;      // of the real MPI and the backend that may fail
    double start_ns_a_rank = 0;   // of this processor, to make a Rank object
};

ExchangeResult run_exchange(const ExchangeOptions& options);

} // namespace storm::sim
