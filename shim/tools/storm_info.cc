// SPDX-License-Identifier: MIT
// storm-info: what is installed, what it would do here, and what stands in its way.
#include "fabric_settings.hh"
#include "first_aid.hh"
#include "json.hh"
#include "settings.hh"
#include "tables.hh"
#include "topology_info.hh"
#include "words.hh"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

extern char **environ;

namespace storm::tools {
namespace {

constexpr int exit_usage = 2;
constexpr int ranks_max = 4096;
constexpr const char *library_name = "libstorm.so";

// ---- what is found

struct RealMpiFound {
    std::string version;  // "" when there is none
    std::string path;
    std::string why;
};

struct LibraryFound {
    std::string path;  // "" when there is none
    std::string version;
    std::string why;
};

struct BackendFound {
    std::string name;
    std::string path;
    std::string why;  // "" when it works
    bool chosen = false;
    Words facts;  // what it says of itself, as "ordering: stamped (...)"
};

struct SettingFound {
    const SettingInfo *info;
    std::string value;
    std::string origin;  // default, environment or adjusted
};

struct Found {
    RealMpiFound mpi;
    LibraryFound library;
    std::vector<BackendFound> backends;
    std::vector<SettingFound> settings;
    std::vector<std::string> problems;
    std::vector<Finding> machine;
    TopologyFound topology;
};

std::string path_of(void *handle) {
    link_map *map = nullptr;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? absolute(map->l_name) : "";
}

std::string loader_says() {
    const char *said = dlerror();
    return said != nullptr ? said : "the loader does not say why";
}

// The MPI that a program started from here would use: ours is never linked to one.
RealMpiFound find_mpi() {
    constexpr const char *soname = "libmpi.so.40";
    RealMpiFound found;
    const auto answer = in_child(
        [] {
            void *handle = dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
            if (handle == nullptr) return "\n" + loader_says() + "\n";
            using GetVersion = int (*)(char *, int *);
            const auto get = reinterpret_cast<GetVersion>(dlsym(handle, "MPI_Get_library_version"));
            char text[4096] = "";
            int length = 0;
            if (get == nullptr || get(text, &length) != 0)
                return "\nit does not tell its version\n" + path_of(handle);
            std::string version(text, std::strcspn(text, "\n"));
            return version + "\n\n" + path_of(handle);
        },
        found.why);
    if (!answer) return found;
    const std::size_t first = answer->find('\n');
    const std::size_t second = answer->find('\n', first + 1);
    found.version = answer->substr(0, first);
    found.why = answer->substr(first + 1, second - first - 1);
    found.path = answer->substr(second + 1);
    return found;
}

LibraryFound find_library() {
    LibraryFound found;
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
    if (length <= 0 || length == static_cast<ssize_t>(sizeof self)) {
        found.why = "/proc/self/exe cannot be read";
        return found;
    }
    const std::string here = directory_of(std::string(self, static_cast<std::size_t>(length)));
    const Words places = {here + "/" STORM_LIBDIR_FROM_BINDIR "/" + library_name,
                          here + "/../../interpose/" + library_name};
    const auto place = std::find_if(places.begin(), places.end(), exists);
    if (place == places.end()) {
        found.why = "searched: " + joined(places, ", ");
        return found;
    }
    found.path = absolute(*place);
    const auto version = in_child(
        [&] {
            void *handle = dlopen(found.path.c_str(), RTLD_LAZY | RTLD_LOCAL);
            if (handle == nullptr) return "!" + loader_says();
            using Version = const char *(*)();
            const auto get = reinterpret_cast<Version>(dlsym(handle, "storm_version"));
            return get != nullptr ? std::string(get()) : std::string("!it has no storm_version");
        },
        found.why);
    if (version && version->starts_with("!")) found.why = version->substr(1);
    else if (version) found.version = *version;
    return found;
}

const BackendPlugin *load_plugin(const std::string &path, std::string &why) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        why = loader_says();
        return nullptr;
    }
    const auto *plugin = static_cast<const BackendPlugin *>(dlsym(handle, "storm_backend"));
    if (plugin != nullptr && plugin->abi == kBackendAbi) return plugin;
    why = "it belongs to another version";
    return nullptr;
}

// Two processes do what two ranks do: one opens the backend, the other asks it for a
// ring. The first line of the answer is "" when that works, the others are its facts.
std::string try_backend(const std::string &path, const Settings &settings) {
    std::string why;
    const BackendPlugin *plugin = load_plugin(path, why);
    if (plugin == nullptr) return why;
    Log log;
    log.set_level(LogLevel::quiet);
    BackendSettings wanted{0, settings.memory_max, &log};
    for_fabrics(settings, wanted);
    const std::unique_ptr<Backend> receiver(plugin->open(wanted, why));
    if (receiver == nullptr) return why;
    if (receiver->calls_mpi()) return "";  // it is not asked what needs a job
    const auto answer = in_child(
        [&] {
            std::string refusal;
            wanted.world_rank_hint = 1;
            const std::unique_ptr<Backend> sender(plugin->open(wanted, refusal));
            Lane lane;
            Status got = Status::refused;
            if (sender != nullptr)
                got = sender->claim(0, receiver->address(), std::bit_ceil(settings.ring_min), lane, refusal);
            if (got != Status::refused) return std::string();  // again: a ring was asked for by words
            return refusal.empty() ? std::string("it does not say why") : refusal;
        },
        why);
    std::string said = answer ? *answer : why;
    for (unsigned n = 0; !receiver->fact(n).empty(); ++n) said += "\n" + receiver->fact(n);
    return said;
}

// The backends are the choices of STORM_BACKEND, in that order.
Words backend_names() {
    const auto choice = std::find_if(Settings::table().begin(), Settings::table().end(),
                                     [](const SettingInfo &s) { return std::strcmp(s.name, "STORM_BACKEND") == 0; });
    return split_words(std::string(choice->help, std::strcspn(choice->help, ":")), "|");
}

void probe(BackendFound &backend, const std::string &library, const Settings &settings) {
    if (backend.name == "none" || backend.name == "auto") return;
    if (library.empty()) {
        backend.why = "plugins stand beside libstorm.so, which was not found";
        return;
    }
    const std::string folder = directory_of(library);
    const Words places = {folder + "/storm/libstorm-" + backend.name + ".so",
                          folder + "/../backends/libstorm-" + backend.name + ".so"};
    const auto place = std::find_if(places.begin(), places.end(), exists);
    if (place == places.end()) {
        backend.why = "its plugin is not installed (searched: " + joined(places, ", ") + ")";
        for (const auto &lack : split_words(STORM_NOT_BUILT, ";"))
            if (lack.starts_with(backend.name + ": ")) backend.why = lack.substr(backend.name.size() + 2);
        return;
    }
    backend.path = absolute(*place);
    std::string why;
    const auto answer = in_child([&] { return try_backend(backend.path, settings); }, why);
    Words lines = split_words("-" + answer.value_or(why), "\n");  // so that a first line without a word is one
    backend.why = lines.front().substr(1);
    backend.facts.assign(lines.begin() + 1, lines.end());
}

std::vector<BackendFound> find_backends(const std::string &library, const Settings &settings) {
    std::vector<BackendFound> found;
    for (const auto &name : backend_names()) {
        BackendFound backend;
        backend.name = name;
        backend.chosen = name == settings.backend;
        probe(backend, library, settings);
        found.push_back(backend);
    }
    return found;
}

std::vector<SettingFound> find_settings(const Settings &settings, const std::vector<std::string> &problems) {
    std::vector<SettingFound> found;
    for (const auto &info : Settings::table()) {
        const std::string name = info.name;
        SettingFound setting{&info, settings.value_text(name), "default"};
        const bool refused = std::any_of(problems.begin(), problems.end(),
                                         [&](const std::string &p) { return p.starts_with(name + "="); });
        if (refused && setting.value != Settings().value_text(name)) setting.origin = "adjusted";
        else if (!refused && environment(info.name)) setting.origin = "environment";
        if (std::strcmp(info.kind, "bytes") == 0) setting.value = size_text(std::stoull(setting.value));
        found.push_back(setting);
    }
    return found;
}

Found find_settings_only() {
    Found found;
    Settings settings;
    settings.read(environ, found.problems);
    found.settings = find_settings(settings, found.problems);
    return found;
}

Found find_topology_only(int ranks) {
    Found found;
    Settings settings;
    settings.read(environ, found.problems);
    const LibraryFound library = find_library();
    found.topology = find_topology(library.path.empty() ? "" : directory_of(library.path), settings.topology,
                                   settings.nic, ranks);
    return found;
}

Found find_all(const std::string &program) {
    Found found = find_settings_only();
    Settings settings;
    std::vector<std::string> ignored;
    settings.read(environ, ignored);
    found.mpi = find_mpi();
    found.library = find_library();
    found.backends = find_backends(found.library.path, settings);
    found.machine = first_aid();
    found.machine.push_back(launcher_found(found.mpi.version));
    if (!program.empty()) found.machine.push_back(program_found(program, found.library.path));
    found.topology = find_topology_only(0).topology;
    return found;
}

// ---- words for the table of settings

// The choices stand in the help before a colon.
std::string meaning(const SettingInfo &info) {
    const char *help = info.help;
    if (std::strcmp(info.kind, "choice") == 0) help += std::min(std::strcspn(help, ":") + 2, std::strlen(help));
    return help;
}

std::string range(const SettingInfo &info) {
    const std::string kind = info.kind;
    if (kind == "flag") return "0 or 1";
    if (kind == "choice") {
        return joined(split_words(std::string(info.help, std::strcspn(info.help, ":")), "|"), ", ");
    }
    if (kind == "bytes") return size_text(info.min) + " to " + size_text(info.max) + " bytes";
    if (kind == "count") return std::to_string(info.min) + " to " + std::to_string(info.max);
    return "text";
}

const char *scope(const SettingInfo &info) {
    return info.agree ? "one value for all ranks of a job" : "each rank has its own";
}

// ---- text

void print_settings(const Found &found) {
    std::size_t names = 0, values = 0, origins = 0;
    for (const auto &s : found.settings) {
        names = std::max(names, std::strlen(s.info->name));
        values = std::max(values, s.value.size());
        origins = std::max(origins, s.origin.size());
    }
    for (const auto &s : found.settings)
        std::printf("  %-*s  %-*s  %-*s  %s (%s; default %s; %s)\n", static_cast<int>(names), s.info->name,
                    static_cast<int>(values), s.value.c_str(), static_cast<int>(origins), s.origin.c_str(),
                    meaning(*s.info).c_str(), range(*s.info).c_str(), s.info->fallback, scope(*s.info));
    for (const auto &problem : found.problems) std::printf("  problem: %s\n", problem.c_str());
}

void print_backends(const std::vector<BackendFound> &backends) {
    for (const auto &b : backends) {
        if (b.name == "none") {
            std::printf("backend none: every message goes by the real MPI%s\n", b.chosen ? ", chosen" : "");
            continue;
        }
        if (b.name == "auto") {
            std::printf("backend auto: shm on a node, the best fabric that works between hosts%s\n",
                        b.chosen ? ", chosen" : "");
            continue;
        }
        std::printf("backend %s: %s%s%s\n", b.name.c_str(), (b.path.empty() ? "" : b.path + ": ").c_str(),
                    b.why.empty() ? "ok" : b.why.c_str(), b.chosen ? ", chosen" : "");
        for (const auto &fact : b.facts) std::printf("  %s\n", fact.c_str());
    }
}

void print_text(const Found &found) {
    std::printf("storm %s\n", STORM_VERSION);
    const auto line = [](const char *what, const std::string &text) { std::printf("%s: %s\n", what, text.c_str()); };
    if (found.mpi.version.empty())
        line("real MPI", "none found (" + found.mpi.why +
                             "): load an MPI module, or add its folder to LD_LIBRARY_PATH");
    else
        line("real MPI", found.mpi.version + " (" + found.mpi.path + ")");
    if (found.library.path.empty())
        line("library", std::string(library_name) + " not found (" + found.library.why + "): install it there");
    else if (found.library.version != STORM_VERSION)
        line("library", found.library.path + " is not of this version (" +
                            (found.library.version.empty() ? found.library.why : found.library.version) +
                            "): install both again");
    else
        line("library", found.library.path);
    print_backends(found.backends);
    print_topology(found.topology);
    print_table_sizes();
    std::printf("settings:\n");
    print_settings(found);
    std::printf("first aid, what of this machine stands in the way:\n");
    for (const auto &f : found.machine) {
        std::printf("  %s: %s%s\n", f.name.c_str(), f.value.c_str(), f.enough ? "" : (" (" + f.trouble + ")").c_str());
        if (!f.advice.empty()) std::printf("    %s\n", f.advice.c_str());
    }
}

// ---- JSON

void write_settings(JsonWriter &out, const Found &found) {
    out.key("settings").open('[');
    for (const auto &s : found.settings) {
        out.open('{');
        out.member("name", s.info->name);
        out.member("value", s.value);
        out.member("default", s.info->fallback);
        out.member("kind", s.info->kind);
        out.member("range", range(*s.info));
        out.member("origin", s.origin);
        out.member("scope", scope(*s.info));
        out.member("help", meaning(*s.info));
        out.close('}');
        out.line();
    }
    out.close(']');
}

void write_machine(JsonWriter &out, const Found &found) {
    out.key("real_mpi").open('{');
    out.member("found", !found.mpi.version.empty());
    out.member("version", found.mpi.version);
    out.member("path", found.mpi.path);
    out.member("reason", found.mpi.why);
    out.close('}');
    out.key("library").open('{');
    out.member("found", !found.library.path.empty());
    out.member("path", found.library.path);
    out.member("version", found.library.version);
    out.member("reason", found.library.why);
    out.close('}');
    out.key("backends").open('[');
    for (const auto &b : found.backends) {
        out.open('{');
        out.member("name", b.name);
        out.member("path", b.path);
        out.member("ok", b.why.empty());
        out.member("reason", b.why);
        out.member("chosen", b.chosen);
        out.key("facts").open('[');
        for (const auto &fact : b.facts) out.value(fact);
        out.close(']');
        out.close('}');
    }
    out.close(']');
    out.line();
    out.key("machine").open('[');
    for (const auto &f : found.machine) {
        out.open('{');
        out.member("name", f.name);
        out.member("value", f.value);
        out.member("enough", f.enough);
        out.member("trouble", f.enough ? std::string() : f.trouble);
        out.member("advice", f.advice);
        out.close('}');
        out.line();
    }
    out.close(']');
    write_topology(out.key("topology"), found.topology);
    out.line();
}

void print_json(const Found &found, bool settings_only) {
    JsonWriter out;
    out.open('{');
    out.member("version", STORM_VERSION);
    if (!settings_only) {
        write_machine(out, found);
        write_counters(out);
        write_calls(out);
    }
    write_settings(out, found);
    out.key("problems").open('[');
    for (const auto &problem : found.problems) out.value(problem);
    out.close(']');
    out.close('}');
    out.line();
    std::fputs(out.text().c_str(), stdout);
}

// ---- rows of the man pages

void print_settings_roff() {
    for (const auto &info : Settings::table()) {
        std::printf(".TP\n.B %s\n\\&%s.\n.br\n", roff(info.name).c_str(), roff(meaning(info)).c_str());
        std::printf("Default:\n.BR %s ;\n%s; %s.\n", roff(info.fallback).c_str(), roff(range(info)).c_str(),
                    scope(info));
    }
}

// ---- the command line

constexpr const char *usage =
    "usage: storm-info [--json] [--program FILE | --settings | --counters | --calls |\n"
    "                            --topology [--ranks N]]\n"
    "       storm-info --settings-roff | --counters-roff | --version | --help\n"
    "\n"
    "Prints the version, the real MPI, the library and its backends, all settings with\n"
    "their values, and what of this machine stands in their way.\n"
    "\n"
    "  --json           the same as JSON\n"
    "  --program FILE   also whether a preload can serve this program\n"
    "  --settings       only the settings, and what is wrong with STORM_ variables\n"
    "  --counters       only the counters of the report, and what they count\n"
    "  --calls          only the calls of MPI, each with what happens to it\n"
    "  --topology       only the machine, its network devices, and which one is used for\n"
    "                   other hosts and why\n"
    "  --ranks N        the choices of N ranks that share this machine equally\n"
    "  --settings-roff  the settings as rows of a man page\n"
    "  --counters-roff  the counters of the report as rows of a man page\n";

struct Options {
    bool json = false;
    std::string only;  // the one thing that is asked for, by its option; "" for all
    std::string program;
    int ranks = 0;
};

// Nothing to run, then the status to end with.
std::optional<int> read_options(const Words &words, Options &options) {
    const Words alone = {"--settings", "--counters", "--calls", "--topology", "--settings-roff", "--counters-roff"};
    const auto wrong = [](const std::string &what) {
        std::fprintf(stderr, "storm-info: %s\n", what.c_str());
        return exit_usage;
    };
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string &word = words[i];
        const std::string value = i + 1 < words.size() ? words[i + 1] : "";
        if (word == "--json") options.json = true;
        else if (word == "--version") return std::printf("storm-info %s\n", STORM_VERSION), 0;
        else if (word == "--help") return std::fputs(usage, stdout), 0;
        else if (word == "--program") {
            options.program = value;
            ++i;
            if (value.empty()) return wrong("--program has no value (it names a file): give one");
        } else if (word == "--ranks") {
            options.ranks = std::atoi(value.c_str());
            ++i;
            if (options.ranks < 1 || options.ranks > ranks_max)
                return wrong("--ranks needs a number from 1 to " + std::to_string(ranks_max) + ": give one");
        } else if (std::find(alone.begin(), alone.end(), word) != alone.end()) {
            if (!options.only.empty() && options.only != word)
                return wrong(options.only + " and " + word + " exclude each other: give one of them");
            options.only = word;
        } else {
            return wrong(word + " is not an option: see the list\n" + usage);
        }
    }
    if (options.ranks > 0 && options.only != "--topology")
        return wrong("--ranks tells of network devices: give --topology with it");
    return std::nullopt;
}

// One table alone, as text or as a JSON object with the one member.
void print_table(bool json, void (*print)(), void (*write)(JsonWriter &)) {
    if (!json) return print();
    JsonWriter out;
    out.open('{');
    write(out);
    out.close('}');
    out.line();
    std::fputs(out.text().c_str(), stdout);
}

void print_topology_only(const Options &options) {
    const Found found = find_topology_only(options.ranks);
    JsonWriter out;
    write_topology(out, found.topology);
    if (options.json) std::puts(out.text().c_str());
    else print_topology(found.topology);
}

int run(const Words &words) {
    Options options;
    if (const auto status = read_options(words, options)) return *status;
    if (options.only == "--settings-roff") print_settings_roff();
    else if (options.only == "--counters-roff") print_counters_roff();
    else if (options.only == "--counters") print_table(options.json, print_counters, write_counters);
    else if (options.only == "--calls") print_table(options.json, print_calls, write_calls);
    else if (options.only == "--topology") print_topology_only(options);
    else {
        const bool settings_only = options.only == "--settings";
        const Found found = settings_only ? find_settings_only() : find_all(options.program);
        if (options.json) print_json(found, settings_only);
        else if (settings_only) print_settings(found);
        else print_text(found);
    }
    return 0;
}

}  // namespace
}  // namespace storm::tools

int main(int argc, char **argv) {
    const int status = storm::tools::run({argv + std::min(argc, 1), argv + argc});
    if (std::fflush(stdout) != 0) {
        std::perror("storm-info: standard output");
        return 1;
    }
    return status;
}
