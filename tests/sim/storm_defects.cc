// SPDX-License-Identifier: MIT
// storm-defects: the simulation must find every mistake of base/defects.def. Each is planted
// in a process of its own, which plays seeds until one is violated. A process that a signal
// ends has found its defect too, but not one that is out of time: a hang is found by the
// simulation itself, or not at all.
//
//   storm-defects [--seeds N] [NAME...]     N: seeds that are tried (400); all defects
//
// The last line counts them. Exit: 0 all are found and none where none is planted.
#include "case.hh"

#include "base/defects.hh"

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace storm::sim {
namespace {

constexpr unsigned kSecondsMost = 120; // of one defect: more is a failure of this test

struct Planted {
    Defect defect;
    const char* name;
    const char* what;
};
constexpr Planted kAll[] = {
#define STORM_DEFECT(name, what) {Defect::name, #name, what},
#include "base/defects.def"
#undef STORM_DEFECT
};

// All rows and their right modes in turn.
CaseChoice choice_of(std::uint64_t seed)
{
    CaseChoice c;
    c.seed = seed;
    c.row = &kRows[seed % std::size(kRows)];
    const std::uint64_t turn = seed / std::size(kRows);
    c.half_tags = turn % 2 != 0;
    std::vector<Mode> modes;
    for (std::size_t i = 0; i < kModeNames.size(); ++i)
        if (const auto mode = static_cast<Mode>(i); possible(*c.row, mode) && right(*c.row, mode))
            modes.push_back(mode);
    c.mode = modes[turn / 2 % modes.size()];
    return c;
}

// In the child: status 1 when a violation was found.
[[noreturn]] void search(Defect defect, std::uint64_t seeds)
{
    ::alarm(kSecondsMost);
    planted = defect;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        std::string violation;
        try {
            violation = play(make_case(choice_of(seed))).violation;
        } catch (const std::exception& e) {
            violation = e.what();
        }
        if (violation.empty())
            continue;
        std::printf("seed %" PRIu64 ": %s\n", seed, violation.substr(0, 100).c_str());
        std::fflush(stdout);
        ::_exit(1);
    }
    ::_exit(0);
}

enum class Answer { found, not_found, out_of_time };

Answer answer(Defect defect, std::uint64_t seeds)
{
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0)
        search(defect, seeds);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        std::printf("ended by %s\n", ::strsignal(signal));
        return signal == SIGALRM || signal == SIGKILL || signal == SIGTERM ? Answer::out_of_time : Answer::found;
    }
    if (WEXITSTATUS(status) == 1)
        return Answer::found;
    std::printf("no violation in %" PRIu64 " seeds\n", seeds);
    return Answer::not_found;
}

int run(std::uint64_t seeds, const std::vector<std::string>& names)
{
    int tried = 0, found = 0;
    std::printf("%-26s ", "nothing planted:");
    const bool sound = answer(Defect::none, std::min<std::uint64_t>(seeds, 100)) == Answer::not_found;
    for (const Planted& p : kAll) {
        if (!names.empty() && std::find(names.begin(), names.end(), p.name) == names.end())
            continue;
        ++tried;
        std::printf("%-26s ", p.name);
        const Answer a = answer(p.defect, seeds);
        found += a == Answer::found ? 1 : 0;
        if (a != Answer::found)
            std::printf("  NOT FOUND: %s\n", p.what);
    }
    std::printf("%d defects planted, %d found, %s\n", tried, found,
                sound ? "no violation without" : "and a VIOLATION WITHOUT");
    return sound && found == tried ? 0 : 1;
}

} // namespace
} // namespace storm::sim

int main(int argc, char** argv)
{
    std::uint64_t seeds = 400;
    std::vector<std::string> names;
    for (int i = 1; i < argc; ++i)
        if (std::strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            seeds = std::strtoull(argv[++i], nullptr, 10);
        else
            names.emplace_back(argv[i]);
    return storm::sim::run(seeds, names);
}
