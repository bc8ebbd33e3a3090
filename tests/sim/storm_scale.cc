// storm-scale: the exchange at many ranks, what a rank costs, and curves of a machine model.
//
//   storm-scale [P...]          the exchange on P ranks each, 112 per adapter (default: 1344,
//                               13440, 100000): memory, calls and time a rank must stay flat
//   storm-scale --curves FILE [--most P] [--native-test NS] [--shim-test NS] ...
//                               routed against two-sided, as JSON
//
// Exit: 0 all ended, nothing was lost, at most 128 KiB a rank, flat within a quarter.
#include "exchange.hh"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
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

// ---- curves

struct Costs {
    double native_test = 18.0, shim_test = 2.7;    // ns, nothing there: bench/test_cost
    double native_send = 75, shim_send = 40;       // ns a message, of the measured rates
    double native_receive = 75, shim_receive = 40;
};

ExchangeOptions modelled(int ranks, bool routed, const Costs& c)
{
    ExchangeOptions o;
    o.ranks = ranks;
    o.routed = routed;
    o.model = true;
    o.ring_bytes = 8192;
    o.machine.test_ns = routed ? c.shim_test : c.native_test;
    o.machine.send_ns = routed ? c.shim_send : c.native_send;
    o.machine.receive_ns = routed ? c.shim_receive : c.native_receive;
    return o;
}

void curve(std::FILE* out, const char* kind, int ranks, const Costs& costs, bool& first)
{
    for (const bool routed : {true, false}) {
        ExchangeOptions o = modelled(ranks, routed, costs);
        const double more = static_cast<double>(ranks) / o.machine.ranks_a_nic;
        if (std::strcmp(kind, "strong") == 0) // all batches of 1,344 ranks with 24 each, shared out
            o.batches = std::max(24 * 1344 / ranks, 1);
        else if (std::strcmp(kind, "scaled") == 0) // the same cells a rank, a step shorter by P^(4/3)
            o.track_ns *= 0.2 + 0.8 * std::pow(more, -1.0 / 3);
        const ExchangeResult r = run_exchange(o);
        std::fprintf(out, "%s\n  {\"kind\": \"%s\", \"ranks\": %d, \"routed\": %s, \"seconds\": %.9f, \"busy\": %.9f, "
                     "\"messages\": %" PRIu64 "}", first ? "" : ",", kind, ranks, routed ? "true" : "false",
                     r.seconds, r.busy, r.messages);
        first = false;
        std::printf("%s %d %s: %.6f s, busy %.6f s%s\n", kind, ranks, routed ? "routed" : "two-sided", r.seconds,
                    r.busy, r.violation.empty() ? "" : (" " + r.violation).c_str());
        std::fflush(stdout);
    }
}

int curves(const char* path, int most, const Costs& costs)
{
    std::FILE* out = std::fopen(path, "w");
    if (out == nullptr)
        return 2;
    bool first = true;
    std::fprintf(out, "[");
    for (const char* kind : {"weak", "strong", "scaled"})
        for (const int ranks : {112, 224, 448, 1120, 2240, 4480, 6720, 13440, 26880})
            if (ranks <= most)
                curve(out, kind, ranks, costs, first);
    std::fprintf(out, "\n]\n");
    return std::fclose(out) == 0 ? 0 : 2;
}

} // namespace
} // namespace storm::sim

int main(int argc, char** argv)
{
    using namespace storm::sim;
    std::vector<int> sizes;
    const char* path = nullptr;
    int most = 13440;
    Costs costs;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : "0";
        if (word == "--curves")
            path = argv[++i];
        else if (word == "--most")
            most = std::atoi(value), ++i;
        else if (word == "--native-test")
            costs.native_test = std::atof(value), ++i;
        else if (word == "--shim-test")
            costs.shim_test = std::atof(value), ++i;
        else
            sizes.push_back(std::atoi(argv[i]));
    }
    if (path != nullptr)
        return curves(path, most, costs);
    if (sizes.empty())
        sizes = {1344, 13440, 100000};
    return scale(sizes);
}
