// SPDX-License-Identifier: MIT
#include "advise.hh"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "words.hh"

namespace storm::tools {
namespace {

constexpr const char *program_name = "storm-measure";

using Costs = std::map<std::string, std::string>;  // name, nanoseconds

// Beside the backends of an installed tree, or beside stormrun in a build tree.
std::string find_program(const std::string &library, std::string &why) {
    const std::string folder = directory_of(library);
    const Words places = {folder + "/storm/" + program_name, folder + "/../shim/tools/" + program_name};
    const auto place = std::find_if(places.begin(), places.end(), is_executable_file);
    if (place == places.end()) {
        why = std::string(program_name) + " is missing, searched: " + joined(places, ", ");
        return {};
    }
    return *place;
}

// The lines of one run; empty with the reason, which ends with the first words said.
Costs run_once(const std::string &command, std::string &why) {
    Costs costs;
    std::string first;
    FILE *out = popen((command + " 2>&1").c_str(), "re");
    if (out == nullptr) {
        why = std::strerror(errno);
        return costs;
    }
    char line[512];
    while (std::fgets(line, sizeof line, out) != nullptr) {
        char name[32], ns[32];
        if (std::sscanf(line, "storm-measure %31s %31s", name, ns) == 2) costs[name] = ns;
        else if (first.empty() && std::strpbrk(line, "abcdefghijklmnopqrstuvwxyz") != nullptr)
            first.assign(line, std::strcspn(line, "\n"));
    }
    const int status = pclose(out);
    if (status != 0 || costs.empty()) {
        why = "the measurement ended with status " +
              std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)) +
              (first.empty() ? "" : ": " + first);
        costs.clear();
    }
    return costs;
}

}  // namespace

std::string measure_costs(const std::string &launcher, const std::string &library, std::string &why) {
    const std::string program = find_program(library, why);
    if (program.empty()) return {};
    // STORM_ variables are for the program, not for the measurement
    const std::string begin = "for v in $(env | sed -n 's/^\\(STORM_[A-Z_]*\\)=.*/\\1/p'); do unset $v; done; "
                              "timeout 60 " + shell_quoted(launcher) + " --oversubscribe -n 2 ";
    const Costs native = run_once(begin + shell_quoted(program), why);
    if (native.empty()) return {};
    const Costs shim =
        run_once(begin + "-x " + shell_quoted("LD_PRELOAD=" + library) + " " + shell_quoted(program), why);
    std::string text;
    for (const auto &[name, ns] : native) {
        if (const auto other = shim.find(name); other != shim.end())
            text += (text.empty() ? "" : ",") + name + "=" + ns + ":" + other->second;
    }
    return text;
}

}  // namespace storm::tools
