// SPDX-License-Identifier: MIT
// Writes the page of a report as a large job would make it, to look at it:
//   simulated_report RANKS   a 3-d grid of ranks, 112 a node, all 26 neighbours
#include "report.hh"
#include "settings.hh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

using namespace storm;

PairReport pair_of(int peer, int faces, bool other_node, std::mt19937& random)
{
    PairReport p;
    p.peer = peer;
    p.path = other_node ? PairReport::Path::carried : PairReport::Path::ring;
    const std::uint64_t n = (500 + random() % 1000) << (3 * faces);
    (other_node ? p.native_messages : p.ring_messages) = n;
    (other_node ? p.native_bytes : p.ring_bytes) = n * 700;
    if (!other_node) {
        p.native_messages = n / 50;
        p.native_bytes = p.native_messages * 120000;
        p.ring_size = 262144;
        p.high_water = random() % 200000;
        p.growths = random() % 2;
    }
    return p;
}

RankReport rank_of(int rank, int ranks, int side, std::mt19937& random)
{
    RankReport r;
    r.rank = rank;
    r.pid = 1000 + rank;
    r.host = "node" + std::to_string(rank / 112);
    const int x = rank % side, y = rank / side % side, z = rank / side / side;
    for (int n = 0; n < 27; ++n) {
        const int dx = n % 3 - 1, dy = n / 3 % 3 - 1, dz = n / 9 - 1;
        if (x + dx < 0 || x + dx >= side || y + dy < 0 || y + dy >= side)
            continue;
        const int peer = rank + dx + dy * side + dz * side * side;
        if (peer < 0 || peer >= ranks || peer == rank || z + dz < 0)
            continue;
        const bool other = peer / 112 != rank / 112;
        const PairReport p = pair_of(peer, (dx == 0) + (dy == 0) + (dz == 0), other, random);
        if (other)
            r.fallbacks.push_back("to rank " + std::to_string(peer) +
                                  ": it runs on another host or in another pid namespace");
        r.pairs.push_back(p);
        r.counters.ring_messages += p.ring_messages;
        r.counters.ring_bytes += p.ring_bytes;
        r.counters.native_messages += p.native_messages;
        r.counters.native_bytes += p.native_bytes;
        r.high_water = std::max(r.high_water, p.high_water);
    }
    r.counters.eligible = r.counters.ring_messages + r.counters.native_messages;
    r.counters.eligible_in_ring = r.counters.ring_messages;
    r.counters.empty_tests = random() % 50'000'000;
    r.counters.native_turns = random() % 100'000;
    r.counters.native_turn_us = random() % 3'000'000;
    r.regions = {{"transport of a rather long name", 10, 5'000'000 + random() % 1'000'000, r.counters},
                 {"MPI_Pcontrol", 3, 70, {}}};
    return r;
}

} // namespace

int main(int argc, char** argv)
{
    const int ranks = argc == 2 ? std::atoi(argv[1]) : 0;
    if (ranks < 1) {
        std::fputs("simulated_report RANKS\n", stderr);
        return 2;
    }
    std::mt19937 random(1); // the same page each time
    int side = 1;
    while ((side + 1) * (side + 1) * (side + 1) <= ranks)
        ++side;
    JobReport job;
    job.ranks = ranks;
    job.backend = "shm";
    job.backend_why = "the default";
    job.facts = {{"ordering", "stamped (tcp;ofi_rxm promises no order of placement: each line carries its lap)"},
                 {"nic", "rank 0 of 112 on this node (cpus 0-3) uses mlx5_0:1 at distance 10: the nearest of 8 that "
                         "reach other hosts; left out are mlx5_4 (its port is down), lo (loopback)"},
                 {"real_mpi_eager_limit", "4096 (btl_vader_eager_limit)"}, {"real_mpi", "Open MPI v4.1.4"}};
    for (const SettingInfo& info : Settings::table())
        job.settings.push_back({info.name, info.fallback, "default"});
    job.settings[0].origin = "environment";
    for (int rank = 0; rank < ranks; ++rank)
        merge(job, rank_of(rank, ranks, std::max(side, 2), random));
    const std::string page = html(job);
    return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() ? 0 : 1;
}
