// SPDX-License-Identifier: MIT
// The launchers' options as data.
#include "launchers.hh"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

namespace storm::tools {

namespace {

struct KnownOption {
    std::string_view name;
    unsigned values;
};

// From `mpirun --help full` and mpirun(1) of Open MPI 4.1 (it takes one dash or two
// for each of them), then those that other releases have instead.
constexpr auto mpirun_options = std::to_array<KnownOption>({
    {"allow-run-as-root", 0}, {"am", 1}, {"app", 1}, {"bind-to", 1}, {"bind-to-core", 0},
    {"bind-to-socket", 0}, {"bycore", 0}, {"bynode", 0}, {"byslot", 0}, {"c", 1},
    {"cartofile", 1}, {"cf", 1}, {"continuous", 0}, {"cpu-list", 1}, {"cpu-set", 1},
    {"cpus-per-proc", 1}, {"cpus-per-rank", 1}, {"d", 0}, {"debug", 0}, {"debug-daemons", 0},
    {"debug-daemons-file", 0}, {"debug-devel", 0}, {"debugger", 1}, {"default-hostfile", 1},
    {"disable-recovery", 0}, {"display-allocation", 0}, {"display-devel-allocation", 0},
    {"display-devel-map", 0}, {"display-diffable-map", 0}, {"display-map", 0}, {"display-topo", 0},
    {"do-not-launch", 0}, {"do-not-resolve", 0}, {"dvm", 0}, {"enable-instant-on-support", 0},
    {"enable-recovery", 0}, {"fwd-mpirun-port", 0}, {"get-stack-traces", 0}, {"gmca", 2}, {"H", 1},
    {"h", 0}, {"help", 0}, {"hnp", 1}, {"host", 1}, {"hostfile", 1}, {"index-argv-by-rank", 0},
    {"launch-agent", 1}, {"leave-session-attached", 0}, {"machinefile", 1}, {"map-by", 1},
    {"max-restarts", 1}, {"max-vm-size", 1}, {"mca", 2}, {"merge-stderr-to-stdout", 0}, {"N", 1},
    {"n", 1}, {"nolocal", 0}, {"nooversubscribe", 0}, {"noprefix", 0}, {"novm", 0}, {"np", 1},
    {"npernode", 1}, {"npersocket", 1}, {"ompi-server", 1}, {"output-filename", 1},
    {"output-proctable", 0}, {"oversubscribe", 0}, {"path", 1}, {"pernode", 0}, {"personality", 1},
    {"ppr", 1}, {"prefix", 1}, {"preload-binary", 0}, {"preload-files", 1}, {"q", 0}, {"quiet", 0},
    {"rank-by", 1}, {"rankfile", 1}, {"report-bindings", 0}, {"report-child-jobs-separately", 0},
    {"report-events", 1}, {"report-pid", 1}, {"report-state-on-timeout", 0}, {"report-uri", 1},
    {"rf", 1}, {"s", 0}, {"set-cwd-to-session-dir", 0}, {"show-progress", 0}, {"stdin", 1},
    {"tag-output", 0}, {"terminate", 0}, {"timeout", 1}, {"timestamp-output", 0}, {"tune", 1},
    {"tv", 0}, {"use-hwthread-cpus", 0}, {"use-regexp", 0}, {"V", 0}, {"v", 0}, {"verbose", 0},
    {"version", 0}, {"wd", 1}, {"wdir", 1}, {"x", 1}, {"xml", 0}, {"xml-file", 1}, {"xterm", 1},
    // 3.x and 4.0
    {"preload-files-dest-dir", 1}, {"server-wait-time", 1}, {"slot-list", 1}, {"tmpdir", 1},
    {"wait-for-server", 0},
    // 5.x
    {"add-host", 1}, {"add-hostfile", 1}, {"display", 1}, {"gomca", 2}, {"gpmixmca", 2},
    {"gprtemca", 2}, {"omca", 2}, {"output", 1}, {"pmixmca", 2}, {"prtemca", 2}, {"pset", 1},
    {"runtime-options", 1}, {"spawn-timeout", 1}, {"with-ft", 1},
});

// From `mpiexec.hydra --help` of MPICH 4.0, which takes one dash or two, then those that
// Intel MPI has beside them.
constexpr auto hydra_options = std::to_array<KnownOption>({
    {"genv", 2}, {"genvlist", 1}, {"genvnone", 0}, {"genvall", 0}, {"f", 1}, {"hosts", 1}, {"host", 1},
    {"hostfile", 1}, {"machinefile", 1}, {"machine", 1}, {"wdir", 1}, {"path", 1}, {"configfile", 1},
    {"env", 2}, {"envlist", 1}, {"envnone", 0}, {"envall", 0}, {"n", 1}, {"np", 1}, {"launcher", 1},
    {"launcher-exec", 1}, {"bootstrap", 1}, {"bootstrap-exec", 1}, {"enable-x", 0}, {"disable-x", 0},
    {"rmk", 1}, {"topolib", 1}, {"bind-to", 1}, {"map-by", 1}, {"membind", 1}, {"demux", 1}, {"verbose", 0},
    {"v", 0}, {"info", 0}, {"version", 0}, {"V", 0}, {"help", 0}, {"h", 0}, {"print-all-exitcodes", 0},
    {"iface", 1}, {"ppn", 1}, {"profile", 0}, {"prepend-rank", 0}, {"l", 0}, {"prepend-pattern", 1},
    {"outfile-pattern", 1}, {"outfile", 1}, {"errfile-pattern", 1}, {"errfile", 1}, {"nameserver", 1},
    {"disable-auto-cleanup", 0}, {"disable-hostname-propagation", 0}, {"order-nodes", 1}, {"localhost", 1},
    {"usize", 1}, {"pmi-port", 0}, {"skip-launch-node", 0}, {"gpus-per-proc", 1}, {"localroot", 0},
    {"perhost", 1}, {"grr", 1}, {"rr", 0}, {"s", 1}, {"tmpdir", 1}, {"nolocal", 0}, {"cleanup", 0},
});

// From srun(1) of Slurm 22.05. Of the long ones those without a value and those whose
// value can only follow an equals sign; every other one takes a value. Of the letters
// those without a value, then those whose value stands in the same word if at all.
constexpr auto srun_flags = std::to_array<std::string_view>({
    "allow-spread", "bcast", "compress", "contiguous", "disable-status", "exact", "exclusive", "get-user-env",
    "help", "hold", "immediate", "interactive", "kill-on-bad-exit", "label", "multi-prog", "nice", "no-allocate",
    "no-kill", "oom-kill-step", "overcommit", "overlap", "oversubscribe", "preserve-env", "prolog-first",
    "propagate", "pty", "quiet", "quit-on-interrupt", "reboot", "requeue", "resv-ports", "send-libs", "share",
    "spread-job", "treewidth-off", "unbuffered", "usage", "use-min-nodes", "verbose", "version", "wait-all-nodes",
    "whole", "x11",
});
constexpr std::string_view srun_letters_alone = "EhHlOQRsuvVXZ", srun_letters_joined = "IkK";

std::optional<unsigned> among(std::span<const KnownOption> options, std::string_view name) {
    const auto found = std::find_if(options.begin(), options.end(),
                                    [&](const KnownOption &option) { return option.name == name; });
    if (found == options.end()) return std::nullopt;
    return found->values;
}

// "-qv": one-letter options of mpirun in one word, their values after it.
std::optional<unsigned> mpirun_letters(std::string_view letters) {
    unsigned sum = 0;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        const auto values = among(mpirun_options, letters.substr(i, 1));
        if (!values) return std::nullopt;
        sum += *values;
    }
    return sum;
}

// getopt's rules: "-n4", "-n 4", "-lN 2".
unsigned srun_letters(std::string_view letters) {
    for (std::size_t i = 0; i < letters.size(); ++i) {
        if (srun_letters_alone.find(letters[i]) != std::string_view::npos) continue;
        if (srun_letters_joined.find(letters[i]) != std::string_view::npos) return 0;
        return i + 1 == letters.size() ? 1 : 0;
    }
    return 0;
}

}  // namespace

Kind kind_of(const std::string &launcher_path) {
    char *resolved = realpath(launcher_path.c_str(), nullptr);
    const std::string path = resolved != nullptr ? resolved : launcher_path;
    std::free(resolved);
    const std::string name(base_name(path));
    if (name == "srun" || base_name(launcher_path) == "srun") return Kind::slurm;
    if (name.find("hydra") != std::string::npos || name.ends_with(".mpich")) return Kind::hydra;
    // Intel's mpirun is a script beside mpiexec.hydra; so is a plain copy of MPICH's.
    if ((name == "mpirun" || name == "mpiexec") && exists(directory_of(path) + "/mpiexec.hydra")) return Kind::hydra;
    return Kind::open_mpi;
}

const char *title(Kind kind) {
    switch (kind) {
    case Kind::hydra: return "Hydra, the launcher of MPICH and Intel MPI";
    case Kind::slurm: return "Slurm's srun";
    case Kind::open_mpi: break;
    }
    return "Open MPI's mpirun";
}

std::optional<unsigned> values_of(Kind kind, std::string_view name, bool two_dashes) {
    if (kind == Kind::slurm && !two_dashes) return srun_letters(name);
    if (name.find('=') != std::string_view::npos) return 0;
    if (kind == Kind::slurm)
        return std::find(srun_flags.begin(), srun_flags.end(), name) != srun_flags.end() ? 0 : 1;
    if (kind == Kind::hydra) return among(hydra_options, name);
    auto values = among(mpirun_options, name);
    if (!values && !two_dashes) values = mpirun_letters(name);
    return values;
}

Words option_names(Kind kind) {
    Words names;
    const auto add = [&](std::string_view name) {
        names.push_back((name.size() > 1 ? "--" : "-") + std::string(name));
    };
    if (kind == Kind::open_mpi)
        for (const auto &option : mpirun_options) add(option.name);
    else if (kind == Kind::hydra)
        for (const auto &option : hydra_options) names.push_back("-" + std::string(option.name));
    else
        for (const auto &name : srun_flags) add(name);
    return names;
}

}  // namespace storm::tools
