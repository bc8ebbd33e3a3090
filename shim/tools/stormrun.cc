// SPDX-License-Identifier: MIT
// stormrun: starts an MPI job with libstorm.so preloaded into its programs, and into
// nothing else.
//
//   stormrun [stormrun options] [launcher arguments] program args [: ...]
//
// It stands before the message path: it checks the programs, adds the preload to the
// command line and becomes the launcher by exec, so that the exit status and every
// signal are the job's own.
//
// How the preload gets there, with Open MPI's mpirun. Each application context gets its own
// `-x LD_PRELOAD=...` as its first option: mpirun gives -x to the processes of that
// context alone, never to itself, to ssh or to orted, and does not carry the -x of one
// context over to the next. Two ways of launching need something else:
//   * `--app FILE`: mpirun ignores -x on its command line then, so the file is read
//     and an edited copy in memory (/proc/self/fd/N) takes its place.
//   * the MCA parameter mca_base_env_list set by anyone, be it in a file: mpirun
//     refuses any -x beside it, so the preload joins that list, which holds for the
//     whole job.
// Hydra (MPICH's mpiexec) takes `-env LD_PRELOAD ...` in each context, Slurm's srun
// `--export=ALL,LD_PRELOAD=...` in each part of the job.
//
// A preload that the user asked for (-x LD_PRELOAD, a tune file, that list, or the
// environment, in mpirun's order) stays, in front of ours: a PMPI tool must be above
// us. An address-sanitizer runtime must be the first of all.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "advise.hh"
#include "elf_file.hh"
#include "job.hh"
#include "launchers.hh"
#include "messages.hh"
#include "program_check.hh"
#include "watcher.hh"
#include "words.hh"

#ifndef STORM_VERSION
#error "STORM_VERSION: the version of the project, a string"
#endif
#ifndef STORM_LIBDIR_FROM_BINDIR
#error "STORM_LIBDIR_FROM_BINDIR: the path from bindir to libdir, a string"
#endif

namespace storm::tools {
namespace {

// Out of the way of the descriptors that a launcher written in shell redirects.
constexpr int app_file_fd_min = 100;
constexpr const char *library_name = "libstorm.so";

// ---- stormrun's own options

struct Settings {
    bool dry_run = false;
    bool off = false;
    bool advise = false;
    std::string profile;  // the value of STORM_PROFILE
    std::string launcher;
    std::string library;
    Words job;  // the launcher's arguments and the programs
};

constexpr const char *help =
    "Starts an MPI job with libstorm.so preloaded into its programs only.\n"
    "\n"
    "  --dry-run        print the command that would run, for a shell, and exit\n"
    "  --off            run the same command without any preload\n"
    "  --profile[=FORM] route nothing: count the calls, and say at the end what to route;\n"
    "                   FORM is text or json, with :FILE if wanted (default: text)\n"
    "  --advise[=FORM]  the same, with an estimate of the gain from calls measured here\n"
    "  --launcher PATH  the launcher (default: $STORM_LAUNCHER, else mpirun, mpiexec or srun)\n"
    "  --lib PATH       preload this library, not the libstorm.so that belongs to stormrun\n"
    "  --list-options   print the launchers' options that stormrun knows, and exit\n"
    "  --version        print the version and exit\n"
    "  --help           print this text and exit\n"
    "\n"
    "These come first; all that follows is the launcher's: Open MPI's mpirun, MPICH's mpiexec\n"
    "or Slurm's srun. More in stormrun(1).\n";

// "--name VALUE" or "--name=VALUE" at words[at]; moves `at` to the last word used.
bool take_value(const Words &words, std::size_t &at, const std::string &name, std::string &value) {
    if (words[at] == name) {
        if (at + 1 >= words.size() || words[at + 1].empty())
            stop_usage("option " + name + " has no value (it names a file): give one");
        value = words[++at];
        return true;
    }
    if (!words[at].starts_with(name + "=")) return false;
    value = words[at].substr(name.size() + 1);
    if (value.empty()) stop_usage("option " + name + " has no value (it names a file): give one");
    return true;
}

// "--profile" or "--advise", with "=FORM" or "=FORM:FILE" if wanted.
bool take_profile(const std::string &word, Settings &settings) {
    const std::string name = word.substr(0, word.find('='));
    if (name != "--profile" && name != "--advise") return false;
    settings.profile = name.size() == word.size() ? "text" : word.substr(name.size() + 1);
    settings.advise = name == "--advise";
    const std::string form = settings.profile.substr(0, settings.profile.find(':'));
    if ((form != "text" && form != "json") || settings.profile.ends_with(":"))
        stop_usage("option " + word + " is not valid (known forms: text, json, text:FILE, json:FILE): choose one");
    return true;
}

Settings read_settings(const Words &words) {
    Settings settings;
    std::size_t at = 0;
    for (; at < words.size(); ++at) {
        const std::string &word = words[at];
        if (word == "--help") {
            std::fputs(usage, stdout);
            std::fputs("\n", stdout);
            std::fputs(help, stdout);
            throw Stop{0};
        }
        if (word == "--version") {
            std::puts("stormrun " STORM_VERSION);
            throw Stop{0};
        }
        if (word == "--list-options") {
            for (const Kind kind : {Kind::open_mpi, Kind::hydra, Kind::slurm})
                for (const auto &name : option_names(kind)) std::printf("%s\n", name.c_str());
            throw Stop{0};
        }
        if (word == "--dry-run") settings.dry_run = true;
        else if (word == "--off") settings.off = true;
        else if (take_profile(word, settings)) continue;
        else if (!take_value(words, at, "--launcher", settings.launcher) &&
                 !take_value(words, at, "--lib", settings.library))
            break;
    }
    if (settings.off && !settings.profile.empty())
        stop_usage("--off and --profile exclude each other (a profile needs the preload): drop one");
    settings.job.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
    return settings;
}

// ---- the launcher

struct Launcher {
    std::string name;  // as it was asked for: mpirun infers --prefix from a full path
    std::string path;
};

bool is_stormrun_itself(const std::string &path) {
    struct stat own {};
    struct stat other {};
    return stat("/proc/self/exe", &own) == 0 && stat(path.c_str(), &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

// Passes over stormrun itself, which may well be installed under the name mpirun.
std::string find_launcher(const std::string &name) { return find_executable(name, is_stormrun_itself); }

Launcher choose_launcher(const Settings &settings) {
    std::string name = settings.launcher;
    std::string source = "--launcher";
    if (name.empty()) {
        name = environment("STORM_LAUNCHER").value_or("");
        source = "STORM_LAUNCHER";
    }
    if (!name.empty()) {
        const std::string path = find_launcher(name);
        if (path.empty())
            stop(exit_no_launcher, "launcher " + name + " cannot be run (named by " + source +
                                       "; it is missing, not executable, or stormrun itself): correct " + source);
        return {name, path};
    }
    for (const char *candidate : {"mpirun", "mpiexec", "srun"}) {
        const std::string path = find_launcher(candidate);
        if (!path.empty()) return {candidate, path};
    }
    stop(exit_no_launcher, "no launcher found (mpirun, mpiexec and srun are not in PATH): load an MPI module, or "
                           "name the launcher with --launcher or STORM_LAUNCHER");
}

// ---- the library

std::string choose_library(const Settings &settings) {
    Words places;
    if (!settings.library.empty()) {
        places.push_back(settings.library);
    } else {
        char self[PATH_MAX];
        const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
        if (length <= 0 || length == static_cast<ssize_t>(sizeof self))
            stop(exit_usage, "cannot tell where stormrun is (/proc/self/exe cannot be read): name the library "
                             "with --lib");
        const std::string here = directory_of(std::string(self, static_cast<std::size_t>(length)));
        places.push_back(here + "/" STORM_LIBDIR_FROM_BINDIR "/" + library_name);
        places.push_back(here + "/../../interpose/" + library_name);
    }
    const auto found = std::find_if(places.begin(), places.end(), exists);
    if (found == places.end())
        stop(exit_usage, std::string(library_name) + " not found (searched: " + joined(places, ", ") +
                             "): install it there, name it with --lib, or use --off");
    std::string library = absolute(*found);
    if (library.find_first_of(" :\t") != std::string::npos)
        stop(exit_usage, library + " cannot be preloaded (a blank or colon in its path ends an entry of "
                                   "LD_PRELOAD): move it, or link to it from another place");
    return library;
}

ElfFile read_library(const std::string &library) {
    ElfFile elf = read_elf(library);
    if (elf.kind != ElfFile::Kind::Elf || elf.type != ET_DYN)
        stop(exit_usage, library + " cannot be preloaded (it is not a readable shared library): name another "
                                   "with --lib, or use --off");
    return elf;
}

// ---- what the user already preloads

bool is_ours(const std::string &entry, const std::string &library) {
    const std::string_view name = base_name(entry);
    return entry == library || name == library_name || name.starts_with("libstorm.so.");
}

// LD_PRELOAD: sanitizer runtimes, then the user's own, then our library (may be empty).
std::string merge_preloads(const std::string &users, const std::string &sanitizer, const std::string &library) {
    Words first;
    Words others;
    if (!sanitizer.empty()) first.push_back(sanitizer);
    for (auto &entry : split_words(users, " :")) {
        if (is_ours(entry, library)) continue;
        if (!is_sanitizer(base_name(entry))) others.push_back(std::move(entry));
        else if (sanitizer.empty() || base_name(entry) != base_name(sanitizer)) first.push_back(std::move(entry));
    }
    first.insert(first.end(), others.begin(), others.end());
    if (!library.empty()) first.push_back(library);
    return joined(first, ":");
}

// ---- the command

struct Command {
    Launcher launcher;
    Words arguments;
    Words app_lines;               // the edited --app file; empty: leave it
    std::size_t app_argument = 0;  // where its name stands in `arguments`
    // The launcher's LD_PRELOAD, where it differs from ours.
    std::optional<std::string> preload;
};

// The STORM_ variables of the environment; mpirun carries them to other machines only
// when they are named.
Words storm_variables() {
    Words found;
    for (char **entry = environ; *entry != nullptr; ++entry) {
        std::string name = name_in(*entry);
        const auto valid = [](char c) {
            return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
        };
        if (name.starts_with("STORM_") && std::all_of(name.begin(), name.end(), valid))
            found.push_back(std::move(name));
    }
    std::sort(found.begin(), found.end());
    return found;
}

// The words of a context with our -x in front and the user's -x LD_PRELOAD gone.
Words with_exports(const Job &job, const AppContext &context, const std::string &preload) {
    Words words = {"-x", "LD_PRELOAD=" + preload};
    const Words given = context.exports();
    for (const auto &name : storm_variables()) {
        if (names(given, name) || names(job.tuned, name)) continue;
        words.emplace_back("-x");
        words.push_back(name);
    }
    std::size_t at = 0;
    const auto keep_until = [&](std::size_t end) {
        for (; at < end; ++at) words.push_back(context.words[at]);
    };
    for (const auto &option : context.options) {
        keep_until(option.first);
        const bool is_preload =
            option.name == "x" && option.count == 2 && name_in(context.words[option.first + 1]) == "LD_PRELOAD";
        if (is_preload) at += option.count;
    }
    keep_until(context.words.size());
    return words;
}

// Hydra passes its whole environment, unless it is told what to pass.
Words with_env(const AppContext &context, const std::string &preload) {
    Words words;
    std::size_t at = 0;
    const auto keep_until = [&](std::size_t end) {
        for (; at < end; ++at) words.push_back(context.words[at]);
    };
    for (const auto &option : context.options) {
        keep_until(option.first);
        if (option.name == "env" && option.count == 3 && context.words[option.first + 1] == "LD_PRELOAD")
            at += option.count;
    }
    keep_until(context.options_end());
    words.insert(words.end(), {"-env", "LD_PRELOAD", preload});
    if (context.has_option({"genvnone", "envnone", "genvlist", "envlist"})) {
        const Words given = context.exports();
        for (const auto &name : storm_variables())
            if (!names(given, name)) words.insert(words.end(), {"-env", name, environment(name.c_str()).value_or("")});
    }
    keep_until(context.words.size());
    return words;
}

// srun takes the last --export that it is given.
Words with_export(const AppContext &context, const std::string &preload) {
    if (preload.find(',') != std::string::npos)
        stop(exit_usage, "LD_PRELOAD cannot be passed to srun (\"" + preload + "\" has a comma, which ends an item of "
                         "--export): move that library, or link to it from another place");
    const auto given = context.value_of({"export"});
    Words items = split_words(given ? *given : environment("SLURM_EXPORT_ENV").value_or("ALL"), ",");
    const auto dropped = [](const std::string &item) {
        return item == "NONE" || item == "NIL" || name_in(item) == "LD_PRELOAD";
    };
    items.erase(std::remove_if(items.begin(), items.end(), dropped), items.end());
    if (std::find(items.begin(), items.end(), "ALL") == items.end())
        for (auto &name : storm_variables())
            if (!names(items, name)) items.push_back(std::move(name));
    items.push_back("LD_PRELOAD=" + preload);
    Words words = context.words;
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(context.options_end()), "--export=" + joined(items, ","));
    return words;
}

Words with_preload(const Job &job, const AppContext &context, const std::string &preload) {
    switch (job.kind) {
    case Kind::hydra: return with_env(context, preload);
    case Kind::slurm: return with_export(context, preload);
    case Kind::open_mpi: break;
    }
    return with_exports(job, context, preload);
}

// A program and a launcher of different MPIs: every process would be a job of its own.
std::string mismatch(const Job &job, const AppContext &context, const Checked &checked) {
    if (job.kind != Kind::hydra || !checked.open_mpi) return {};
    return context.program_name() + " is built for Open MPI, but the launcher is " + title(job.kind) +
           " (each process would be a job of one rank): the job runs native; start it with Open MPI's mpirun "
           "(--launcher)";
}

void append_context(Words &arguments, const Words &words) {
    if (!arguments.empty()) arguments.emplace_back(":");
    arguments.insert(arguments.end(), words.begin(), words.end());
}

// mpirun takes no -x beside mca_base_env_list, and one list for the whole job.
void add_to_env_list(Job &job, const std::string &preload, Command &command) {
    Words items;
    for (auto &item : job.list_items()) {
        if (name_in(item) != "LD_PRELOAD") items.push_back(std::move(item));
    }
    items.push_back("LD_PRELOAD=" + preload);
    for (auto &name : storm_variables()) {
        if (!names(items, name) && !names(job.tuned, name)) items.push_back(std::move(name));
    }
    const std::string list = joined(items, std::string(1, job.env_delimiter).c_str());

    bool placed = false;
    for (auto &context : job.contexts) {
        for (const auto &option : context.options) {
            if (option.count != 3 || context.words[option.first + 1] != "mca_base_env_list") continue;
            context.words[option.first + 2] = list;
            placed = true;
        }
    }
    if (!placed) command.arguments = {"--mca", "mca_base_env_list", list};
    for (std::size_t i = 0; i < job.contexts.size(); ++i) {
        if (i > 0) command.arguments.emplace_back(":");
        const Words &words = job.contexts[i].words;
        command.arguments.insert(command.arguments.end(), words.begin(), words.end());
    }
}

void add_to_app_file(const Job &job, const Words &preloads, Command &command) {
    for (std::size_t i = 0; i < job.lines.size(); ++i) {
        const std::string &preload = preloads[i];
        if (preload.find('#') != std::string::npos || preload.find("//") != std::string::npos)
            stop(exit_usage, "LD_PRELOAD cannot be written into an application file (\"" + preload +
                                 "\" has # or //, which begin a comment there): give the programs on the "
                                 "command line, with : between them");
        command.app_lines.push_back(joined(with_exports(job, job.lines[i], preload), " "));
    }
    for (const auto &option : job.contexts.front().options) {
        if (option.name == "app" && option.count == 2) command.app_argument = option.first + 1;
    }
}

void add_preload(const Settings &settings, Job &job, Command &command) {
    const std::string library = choose_library(settings);
    const ElfFile library_elf = read_library(library);
    Words preloads;
    bool native = false;
    for (const auto &context : job.started()) {
        Checked checked;
        // the word after srun --multi-prog is a file of programs
        if (job.kind != Kind::slurm || !context.has_option({"multi-prog"}))
            checked = check_program(job, command.launcher.name, library_elf, context);
        if (checked.native.empty()) checked.native = mismatch(job, context, checked);
        if (!checked.native.empty() && !native) say(checked.native);
        native = native || !checked.native.empty();
        preloads.push_back(merge_preloads(job.variable(context, "LD_PRELOAD"), checked.sanitizer, library));
    }
    // One program without us makes a job without us, so nobody gets the preload.
    if (native) return;

    if (job.env_list) {
        if (std::any_of(preloads.begin(), preloads.end(), [&](const auto &one) { return one != preloads.front(); }))
            stop(exit_usage, "the programs need different preloads (and mca_base_env_list, which is set, holds "
                             "for all of them): unset it and use -x");
        command.arguments.clear();
        add_to_env_list(job, preloads.front(), command);
    } else if (job.has_app_file()) {
        add_to_app_file(job, preloads, command);
    } else {
        command.arguments.clear();
        for (std::size_t i = 0; i < job.contexts.size(); ++i)
            append_context(command.arguments, with_preload(job, job.contexts[i], preloads[i]));
    }
}

Command make_command(const Settings &settings) {
    Command command;
    if (settings.job.empty()) stop_usage("no program to start (there are no arguments): name one");
    command.launcher = choose_launcher(settings);
    Job job = read_job(settings.job, kind_of(command.launcher.path));
    command.arguments = settings.job;

    // A libstorm.so exported to us by a job script is not for the launcher.
    if (const auto own = environment("LD_PRELOAD")) {
        const Words entries = split_words(*own, " :");
        const auto ours = [&](const std::string &entry) { return is_ours(entry, settings.library); };
        if (std::any_of(entries.begin(), entries.end(), ours)) {
            Words others;
            std::remove_copy_if(entries.begin(), entries.end(), std::back_inserter(others), ours);
            command.preload = joined(others, ":");
        }
    }
    if (settings.off) return command;
    if (!settings.profile.empty()) setenv("STORM_PROFILE", settings.profile.c_str(), 1);
    if (settings.advise && !settings.dry_run) {
        std::string why;
        std::string costs;
        if (const Kind kind = kind_of(command.launcher.path); kind == Kind::open_mpi)
            costs = measure_costs(command.launcher.path, choose_library(settings), why);
        else why = std::string("the measurement starts with Open MPI's mpirun only, not with ") + title(kind);
        if (costs.empty()) say("no estimate of the gain (" + why + "): the profile itself follows");
        else setenv("STORM_PROFILE_COSTS", costs.c_str(), 1);
    }

    read_job_files(job, command.launcher.path);
    add_preload(settings, job, command);
    return command;
}

void print_command(const Command &command) {
    std::string text;
    if (command.preload && command.preload->empty()) text = "env -u LD_PRELOAD ";
    else if (command.preload) text = "env " + shell_quoted("LD_PRELOAD=" + *command.preload) + " ";
    text += shell_quoted(command.launcher.name);
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
        if (!command.app_lines.empty() && i == command.app_argument) {
            text += " <(printf '%s\\n'";  // for bash
            for (const auto &line : command.app_lines) text += " " + shell_quoted(line);
            text += ")";
        } else {
            text += " " + shell_quoted(command.arguments[i]);
        }
    }
    std::puts(text.c_str());
}

// An unlinked file in memory that survives exec; returns the name it can be opened by.
std::string keep_in_memory(const Words &lines) {
    const std::string text = joined(lines, "\n") + "\n";
    const int fd = memfd_create("stormrun-app", MFD_CLOEXEC);
    const int kept = fd < 0 ? -1 : fcntl(fd, F_DUPFD, app_file_fd_min);
    std::size_t done = 0;
    while (kept >= 0 && done < text.size()) {
        const ssize_t wrote = write(kept, text.data() + done, text.size() - done);
        if (wrote < 0 && errno != EINTR) break;
        if (wrote > 0) done += static_cast<std::size_t>(wrote);
    }
    if (kept < 0 || done < text.size())
        stop(exit_usage, std::string("the application file cannot be edited (") + std::strerror(errno) +
                             "): give the programs on the command line, with : between them");
    return "/proc/self/fd/" + std::to_string(kept);
}

[[noreturn]] void run_command(Command command) {
    if (!command.app_lines.empty()) command.arguments[command.app_argument] = keep_in_memory(command.app_lines);
    if (command.preload && command.preload->empty()) unsetenv("LD_PRELOAD");
    else if (command.preload) setenv("LD_PRELOAD", command.preload->c_str(), 1);

    std::vector<char *> argv;
    argv.push_back(command.launcher.name.data());
    for (auto &word : command.arguments) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(command.launcher.path.c_str(), argv.data());
    stop(exit_no_launcher, "launcher " + command.launcher.path + " cannot be run (" + std::strerror(errno) +
                               "): name another with --launcher or STORM_LAUNCHER");
}

}  // namespace
}  // namespace storm::tools

int main(int argc, char **argv) {
    using namespace storm::tools;
    try {
        const Words words(argv + std::min(argc, 1), argv + argc);
        const Settings settings = read_settings(words);
        Command command = make_command(settings);
        if (!settings.dry_run && !settings.off) start_watcher();
        if (!settings.dry_run) run_command(std::move(command));
        print_command(command);
        return 0;
    } catch (const Stop &reason) {
        return reason.status;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "stormrun: cannot go on (%s): free some memory, or call mpirun directly\n", error.what());
        return exit_usage;
    }
}
