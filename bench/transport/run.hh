// SPDX-License-Identifier: MIT
// What both benchmarks share: options, the mesh of this rank, the loop of a step, and the
// lines that tell where the time went.
#pragma once

#include "command_line.hh"
#include "exchange.hh"
#include "mesh.hh"
#include "phases.hh"

#include <memory>
#include <string>
#include <vector>

namespace transport {

struct Common {
    std::string exchange = "legacy"; // legacy, tuned, direct
    std::string scale = "weak";      // weak, strong, scaled: see README.md
    std::int64_t cells = 5000;       // a rank; with strong of all
    std::int64_t particles = 50000;  // made in a step by a rank; with strong by all
    int steps = 10;
    int batch = 64; // particles a message
    int receives = 1; // posted for each neighbour (legacy)
    int poll = 1;   // particles between two looks
    int work = 0;   // terms of an extra sum at each event: opacities of many groups
    int sample = 1000; // looks a second at what the code is about; 0: none
    std::int64_t seed = 1;

    void add_to(CommandLine& line);
    // cells and particles of the whole job, and what the time step is multiplied by
    std::int64_t all_cells(int ranks) const { return scale == "strong" ? cells : cells * ranks; }
    std::int64_t all_particles(int ranks) const { return scale == "strong" ? particles : particles * ranks; }
    void check() const;
};

// The lattice of about `cells` cells, as near to cubes as can be, in a box of these edges.
Site lattice(std::int64_t cells, const Vec& edges);

inline double extra_work(int terms, double x)
{
    double sum = 0;
    for (int group = 1; group <= terms; ++group) {
        sum += std::exp(-x * group) / group;
    }
    return sum;
}

// One time step: tracks `work` and what arrives until nothing is left anywhere.
template <class Track>
void run_step(Exchange& exchange, std::vector<Particle>& work, int poll_every, Track track)
{
    exchange.begin_step();
    for (;;) {
        {
            const In in(Phase::track);
            for (int n = 0; n < poll_every && !work.empty(); ++n) {
                Particle p = work.back();
                work.pop_back();
                track(p);
            }
        }
        const bool idle = work.empty();
        const In in(idle ? Phase::idle : Phase::poll);
        if (idle) {
            exchange.flush();
        }
        exchange.poll();
        if (!work.empty() && idle) {
            continue; // to the new work first
        }
        const In ending(idle ? Phase::terminate : Phase::poll);
        if (exchange.over(idle)) {
            break;
        }
    }
    const In in(Phase::terminate);
    exchange.end_step();
}

// Wall-clock time of the slowest rank, and the phases of all, from start to report().
class Stopwatch {
public:
    explicit Stopwatch(int sample) : sample_(sample) {}
    void start();
    void stop();
    void report(const Exchange& exchange) const; // collective; rank 0 prints

private:
    int sample_;
    double begin_ = 0, seconds_ = 0;
};

// Sums over all ranks, and a checksum of a tally that does not depend on who owns what.
std::vector<std::int64_t> sum_all(const std::vector<std::int64_t>& here);
std::uint64_t checksum(const Mesh& mesh, const std::vector<std::int64_t>& tally);

} // namespace transport
