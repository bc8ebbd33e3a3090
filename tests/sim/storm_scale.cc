// SPDX-License-Identifier: MIT
// storm-scale: the exchange at many ranks, and what a rank costs.
//
//   storm-scale [P...]          the exchange on P ranks each (default: 1344, 13440): memory and
//                               calls a rank must stay flat
//
// Exit: 0 all ended, nothing was lost, at most 128 KiB a rank, flat within a quarter.
#include "exchange.hh"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace storm::sim {
namespace {

constexpr double kBytesMost = 128 << 10;

struct Line {
    double bytes, start_ns, calls;
    bool right;
};

// In a process of its own: memory that one job leaves behind would count for the next.
Line in_child(int ranks)
{
    int ends[2];
    if (::pipe(ends) != 0)
        return {};
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
        ExchangeOptions o;
        o.ranks = ranks;
        o.direct = true;
        const auto begin = std::chrono::steady_clock::now();
        const ExchangeResult r = run_exchange(o);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        std::printf("%7d ranks: %s, %.1f KiB a rank, %.1f calls a rank, %.0f us to start one, %.1f messages a rank, "
                    "%.2f of waves, %" PRIu64 " events, %.0f s\n",
                    ranks, r.violation.empty() ? "ended" : r.violation.c_str(), r.bytes_a_rank / 1024, r.calls_a_rank,
                    r.start_ns_a_rank / 1000, static_cast<double>(r.messages) / ranks,
                    static_cast<double>(r.waves_messages) / ranks, r.events, seconds);
        std::fflush(stdout);
        const Line line = {r.bytes_a_rank, r.start_ns_a_rank, r.calls_a_rank, r.violation.empty()};
        [[maybe_unused]] const auto n = ::write(ends[1], &line, sizeof line);
        ::_exit(0);
    }
    ::close(ends[1]);
    Line line = {};
    if (::read(ends[0], &line, sizeof line) != static_cast<ssize_t>(sizeof line))
        std::printf("%7d ranks: the process ended before its time\n", ranks);
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return line;
}

int scale(const std::vector<int>& sizes)
{
    bool right = true;
    std::vector<Line> lines;
    for (const int ranks : sizes) {
        lines.push_back(in_child(ranks));
        right = right && lines.back().right && lines.back().bytes <= kBytesMost;
    }
    const auto flat = [&](double Line::*what) {
        const auto [low, high] = std::minmax_element(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
            return a.*what < b.*what;
        });
        return (*high).*what <= 1.25 * (*low).*what;
    };
    const bool all_flat = flat(&Line::bytes) && flat(&Line::calls);
    std::printf("%s: %s 128 KiB a rank, memory and calls a rank %s in P\n", right && all_flat ? "ok" : "FAIL",
                right ? "at most" : "NOT at most", all_flat ? "flat" : "NOT flat");
    return right && all_flat ? 0 : 1;
}

} // namespace
} // namespace storm::sim

int main(int argc, char** argv)
{
    std::vector<int> sizes;
    for (int i = 1; i < argc; ++i)
        sizes.push_back(std::atoi(argv[i]));
    if (sizes.empty())
        sizes = {1344, 13440};
    return storm::sim::scale(sizes);
}
