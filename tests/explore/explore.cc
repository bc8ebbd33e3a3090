// SPDX-License-Identifier: MIT
// Runs each program as it is, to the end, and then once for each weakened access that it
// must find.
//
//   explore [--verbose] [WORD]     the programs whose names hold WORD
#include "programs.hh"

#include <chrono>
#include <cstdio>
#include <set>
#include <string_view>

namespace storm::explore {
namespace {

int passed = 0, failed = 0;
bool verbose = false;

bool verdict(bool good, const std::string& what, const std::string& why)
{
    ++(good ? passed : failed);
    std::printf("%s %s%s%s\n", good ? "ok  " : "FAIL", what.c_str(), why.empty() ? "" : ": ", why.c_str());
    return good;
}

std::string first_line(const std::string& text)
{
    return text.substr(0, text.find('\n'));
}

void run_as_it_is(const Named& one)
{
    const Explorer::Result result = Explorer::run(one.program, {}, {});
    std::string why = result.failure;
    if (why.empty() && !result.exhaustive)
        why = "more executions than the bound";
    if (why.empty() && one.verdict)
        why = one.verdict();
    const std::string size = std::to_string(result.executions) + " executions, " + std::to_string(result.pruned) +
                             " given up as redundant";
    verdict(why.empty(), one.name, why.empty() ? size : why);
}

void run_weakened(const Named& one, Weakening weakening)
{
    const Explorer::Result result = Explorer::run(one.program, weakening, {});
    const std::string what = one.name + ", " + name_of(weakening.site) + " " + name_of(weakening.how);
    const std::string found = verbose ? result.failure : first_line(result.failure);
    verdict(result.failed(), what, result.failed() ? found : "is not caught");
}

// Sites at which nothing can be weakened, and why.
const std::set<Site> kNothingToWeaken = {
    Site::directory_hint, // relaxed, and decides nothing
    Site::hint,           // relaxed, and a load with acquire follows
    Site::peek_rest,      // plain reads behind an acquire that is weakened
    Site::accept_entry,
};

void every_site_is_weakened(const std::vector<Named>& programs)
{
    std::set<Site> met = kNothingToWeaken;
    for (const Named& one : programs)
        for (const Weakening& weakening : one.finds)
            met.insert(weakening.site);
    for (int i = 0; i <= static_cast<int>(Site::last_site); ++i)
        if (!met.contains(static_cast<Site>(i)))
            verdict(false, name_of(static_cast<Site>(i)), "is weakened by no program");
}

int run(const char* wanted)
{
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Named> programs = known_programs();
    const std::size_t known = programs.size();
    for (const auto& made : {ring_programs(), claim_programs(), request_programs()})
        programs.insert(programs.end(), made.begin(), made.end());
    for (const Named& one : programs) {
        if (one.name.find(wanted) == std::string::npos)
            continue;
        run_as_it_is(one);
        for (const Weakening& weakening : one.finds)
            run_weakened(one, weakening);
    }
    every_site_is_weakened({programs.begin() + static_cast<std::ptrdiff_t>(known), programs.end()});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.1f s\n%d passed, %d failed, 0 skipped\n", took.count(), passed, failed);
    return failed == 0 ? 0 : 1;
}

} // namespace
} // namespace storm::explore

int main(int argc, char** argv)
{
    const char* wanted = "";
    for (int i = 1; i < argc; ++i) {
        if (std::string_view(argv[i]) == "--verbose")
            storm::explore::verbose = true;
        else
            wanted = argv[i];
    }
    return storm::explore::run(wanted);
}
