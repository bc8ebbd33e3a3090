// SPDX-License-Identifier: MIT
// storm-sim: plays cases of the simulation, one a seed.
//
//   storm-sim --seed N              one seed, with what it is made of
//   storm-sim --seeds A-B           a range
//   storm-sim --minutes M           from --seeds's first on, for so long
//   storm-sim --matrix N            each row and mode for up to N seeds: wrong ones must fail
//   storm-sim --sweep --seed N      the seed again and again, each fault point failing in turn
//
//   --row NAME|all    the provider whose attributes the fabric has (default: all in turn)
//   --mode NAME|right|wrong   how rings publish: one mode, or the right (wrong) ones of the
//                     row in turn (default: right)
//   --tags all|half|both   which messages ride (default: both in turn)
//   --deaths          ranks die
//   --keep LIST       only these steps of the case, as a failure prints them
//   --no-shrink       a failing case is told as it is
//   --verbose         what each seed did
//
// The last line counts seeds, messages and events. A failure prints the command that
// replays it, made small. Exit: 0 no violation, 1 violations, 2 wrong options.
#include "case.hh"

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unistd.h>

namespace storm::sim {
namespace {

struct Options {
    std::uint64_t first = 1, last = 100;
    double minutes = 0;
    std::string row = "all", mode = "right", tags = "both";
    bool deaths = false, sweep = false, shrink = true, verbose = false;
    int fault = 0;
    std::uint64_t matrix = 0;
    std::optional<std::vector<std::size_t>> keep;
};

[[noreturn]] void wrong(const std::string& why)
{
    std::fprintf(stderr, "storm-sim: %s; tests/sim/README.md has the options\n", why.c_str());
    std::exit(2);
}

// 3,17,20-25
std::vector<std::size_t> parse_list(const char* text)
{
    std::vector<std::size_t> list;
    while (*text != '\0') {
        char* rest = nullptr;
        const std::size_t first = std::strtoull(text, &rest, 10);
        std::size_t last = first;
        if (*rest == '-')
            last = std::strtoull(rest + 1, &rest, 10);
        for (std::size_t i = first; i <= last; ++i)
            list.push_back(i);
        text = *rest == ',' ? rest + 1 : rest;
        if (*text != '\0' && (*text < '0' || *text > '9'))
            wrong("--keep takes numbers and ranges");
    }
    return list;
}

std::string list_text(const std::vector<std::size_t>& list)
{
    std::string text;
    for (std::size_t i = 0; i < list.size(); ++i) {
        std::size_t end = i;
        while (end + 1 < list.size() && list[end + 1] == list[end] + 1)
            ++end;
        text += (text.empty() ? "" : ",") + std::to_string(list[i]);
        if (end != i)
            text += "-" + std::to_string(list[end]);
        i = end;
    }
    return text;
}

Options parse(int argc, char** argv)
{
    Options o;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto value = [&]() -> const char* {
            if (++i == argc)
                wrong(word + " wants a value");
            return argv[i];
        };
        if (word == "--seed") {
            o.first = o.last = std::strtoull(value(), nullptr, 10);
        } else if (word == "--seeds") {
            char* rest = nullptr;
            o.first = std::strtoull(value(), &rest, 10);
            o.last = *rest == '-' ? std::strtoull(rest + 1, nullptr, 10) : o.first;
        } else if (word == "--minutes") {
            o.minutes = std::atof(value());
        } else if (word == "--row") {
            o.row = value();
        } else if (word == "--mode") {
            o.mode = value();
        } else if (word == "--tags") {
            o.tags = value();
        } else if (word == "--fault") {
            o.fault = std::atoi(value());
        } else if (word == "--matrix") {
            o.matrix = std::strtoull(value(), nullptr, 10);
        } else if (word == "--keep") {
            o.keep = parse_list(value());
        } else if (word == "--deaths") {
            o.deaths = true;
        } else if (word == "--sweep") {
            o.sweep = true;
        } else if (word == "--no-shrink") {
            o.shrink = false;
        } else if (word == "--verbose") {
            o.verbose = true;
        } else {
            wrong("unknown option " + word);
        }
    }
    if (o.row != "all" && row_named(o.row) == nullptr)
        wrong("unknown row " + o.row);
    return o;
}

// Which row, mode and tags a seed has: they take turns.
CaseChoice choose(const Options& o, std::uint64_t seed)
{
    CaseChoice c;
    c.seed = seed;
    std::uint64_t turn = seed;
    const std::size_t rows = std::size(kRows);
    c.row = o.row == "all" ? &kRows[turn % rows] : row_named(o.row);
    turn /= o.row == "all" ? rows : 1;
    c.half_tags = o.tags == "half" || (o.tags == "both" && turn % 2 != 0);
    turn /= o.tags == "both" ? 2 : 1;
    std::vector<Mode> modes;
    for (std::size_t i = 0; i < kModeNames.size(); ++i) {
        const auto mode = static_cast<Mode>(i);
        const bool named = o.mode == kModeNames[i];
        if (possible(*c.row, mode) && (named || (o.mode == "right" && right(*c.row, mode)) ||
                                       (o.mode == "wrong" && !right(*c.row, mode))))
            modes.push_back(mode);
    }
    if (modes.empty())
        wrong("the row " + std::string(c.row->name) + " has no mode " + o.mode);
    c.mode = modes[turn % modes.size()];
    c.deaths = o.deaths;
    return c;
}

std::string command(const CaseChoice& c, int fault, const std::vector<std::size_t>* keep)
{
    std::string text = "storm-sim --seed " + std::to_string(c.seed) + " --row '" + c.row->name + "' --mode " +
                       kModeNames[static_cast<std::size_t>(c.mode)] + " --tags " + (c.half_tags ? "half" : "all");
    if (c.deaths)
        text += " --deaths";
    if (fault != 0)
        text += " --fault " + std::to_string(fault);
    if (keep != nullptr)
        text += " --keep " + list_text(*keep);
    return text;
}

// What a signal handler prints: a case that ends the process is a failing one.
char at_work[4000];

extern "C" void crashed(int signal)
{
    constexpr char kWords[] = "storm-sim: a signal ended this case, again:\n  ";
    [[maybe_unused]] auto n = ::write(STDOUT_FILENO, kWords, sizeof kWords - 1);
    n = ::write(STDOUT_FILENO, at_work, std::strlen(at_work));
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void watch_signals()
{
    static char stack[1 << 16];
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    ::sigaltstack(&alternate, nullptr);
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) {
        struct sigaction action = {};
        action.sa_handler = crashed;
        action.sa_flags = SA_ONSTACK;
        ::sigaction(signal, &action, nullptr);
    }
}

Outcome run_one(const CaseChoice& choice, const Case& c, const std::vector<std::size_t>* keep)
{
    std::snprintf(at_work, sizeof at_work, "%s\n", command(choice, c.faults, keep).c_str());
    try {
        return play(c, keep);
    } catch (const std::exception& e) {
        Outcome out;
        out.violation = e.what();
        return out;
    }
}

// Fewer and fewer steps that still fail, for at most a few hundred runs.
std::vector<std::size_t> shrink(const CaseChoice& choice, const Case& c, std::vector<std::size_t> keep)
{
    int runs = 0;
    for (std::size_t part = std::max<std::size_t>(keep.size() / 2, 1); runs < 600;) {
        bool smaller = false;
        for (std::size_t at = 0; at < keep.size() && runs < 600;) {
            std::vector<std::size_t> rest(keep.begin(), keep.begin() + static_cast<std::ptrdiff_t>(at));
            rest.insert(rest.end(), keep.begin() + static_cast<std::ptrdiff_t>(std::min(at + part, keep.size())),
                        keep.end());
            ++runs;
            if (!run_one(choice, c, &rest).violation.empty()) {
                keep = std::move(rest);
                smaller = true;
            } else {
                at += part;
            }
        }
        if (part == 1 && !smaller)
            break;
        part = smaller ? std::max<std::size_t>(std::min(part, keep.size() / 2), 1) : std::max<std::size_t>(part / 2, 1);
    }
    return keep;
}

void tell_failure(const Options& o, const CaseChoice& choice, const Case& c, const Outcome& out)
{
    std::vector<std::size_t> keep;
    for (std::size_t i = 0; i < c.steps.size(); ++i)
        keep.push_back(i);
    if (o.keep)
        keep = *o.keep;
    std::printf("FAIL seed %" PRIu64 ": %s\n  again: %s\n", choice.seed, out.violation.c_str(),
                command(choice, c.faults, o.keep ? &*o.keep : nullptr).c_str());
    if (!o.shrink)
        return;
    const std::size_t all = keep.size();
    keep = shrink(choice, c, std::move(keep));
    const Outcome small = run_one(choice, c, &keep);
    std::printf("  %zu of %zu steps: %s\n  again: %s\n", keep.size(), all, small.violation.c_str(),
                command(choice, c.faults, &keep).c_str());
    for (const std::size_t i : keep)
        std::printf("    %s\n", text_of(c.steps[i]).c_str());
}

struct Totals {
    std::uint64_t seeds = 0, failed = 0, messages = 0, events = 0, faults = 0;
};

bool play_seed(const Options& o, std::uint64_t seed, int fault, Totals& totals, Outcome& out)
{
    const CaseChoice choice = choose(o, seed);
    Case c = make_case(choice);
    c.faults = fault;
    out = run_one(choice, c, o.keep ? &*o.keep : nullptr);
    totals.messages += out.messages;
    totals.events += out.events;
    if (o.verbose)
        std::printf("seed %" PRIu64 " row %s mode %s: %" PRIu64 " messages, %" PRIu64 " events, %d fault points%s%s%s, "
                    "digest %016" PRIx64 "\n",
                    seed, choice.row->name, kModeNames[static_cast<std::size_t>(choice.mode)], out.messages,
                    out.events, out.fault_points, fault != 0 ? ", failed " : "", out.fault_name.c_str(),
                    out.ended.empty() ? "" : (", ended: " + out.ended).c_str(), out.digest);
    if (out.violation.empty())
        return true;
    ++totals.failed;
    tell_failure(o, choice, c, out);
    std::fflush(stdout);
    return false;
}

int run(const Options& o)
{
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const auto minutes = [&] { return std::chrono::duration<double>(Clock::now() - begin).count() / 60; };
    Totals totals;
    for (std::uint64_t seed = o.first; o.minutes > 0 ? minutes() < o.minutes : seed <= o.last; ++seed) {
        Outcome out;
        ++totals.seeds;
        bool right = play_seed(o, seed, o.fault, totals, out);
        for (int point = 1; right && o.sweep && point <= out.fault_points; ++point) {
            Outcome with_fault;
            ++totals.faults;
            right = play_seed(o, seed, point, totals, with_fault);
        }
        if (totals.failed >= 5)
            break;
    }
    std::printf("%" PRIu64 " seeds, %" PRIu64 " fault points, %" PRIu64 " messages, %" PRIu64 " events, %.1f s: "
                "%" PRIu64 " violations\n",
                totals.seeds, totals.faults, totals.messages, totals.events, minutes() * 60, totals.failed);
    return totals.failed == 0 ? 0 : 1;
}

// The first violation of a mode over a fabric, or "".
std::string first_violation(const Options& o, const Attributes& row, Mode mode)
{
    for (std::uint64_t seed = o.first; seed < o.first + o.matrix; ++seed) {
        const CaseChoice choice{seed, &row, mode, seed % 2 != 0, false};
        const Outcome out = run_one(choice, make_case(choice), nullptr);
        if (!out.violation.empty())
            return "seed " + std::to_string(seed) + ": " + out.violation;
    }
    return "";
}

int run_matrix(const Options& o)
{
    int cells = 0, unexpected = 0;
    for (const Attributes& row : kRows)
        for (std::size_t i = 0; i < kModeNames.size(); ++i) {
            const auto mode = static_cast<Mode>(i);
            if (!possible(row, mode))
                continue;
            const std::string found = first_violation(o, row, mode);
            const bool as_expected = found.empty() == right(row, mode);
            ++cells;
            unexpected += as_expected ? 0 : 1;
            std::printf("%-15s %-10s %-6s %s%s\n", row.name, kModeNames[i], found.empty() ? "right" : "wrong",
                        as_expected ? "" : "UNEXPECTED ", found.substr(0, 80).c_str());
        }
    std::printf("%d fabrics and modes, %d not as expected\n", cells, unexpected);
    return unexpected == 0 ? 0 : 1;
}

} // namespace
} // namespace storm::sim

int main(int argc, char** argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    storm::sim::watch_signals();
    const storm::sim::Options options = storm::sim::parse(argc, argv);
    return options.matrix != 0 ? storm::sim::run_matrix(options) : storm::sim::run(options);
}
