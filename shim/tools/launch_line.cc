// mpirun's options as data, and the parser that needs them.
#include "launch_line.hh"

#include <sys/stat.h>

#include <algorithm>
#include <array>

namespace storm::tools {

namespace {

struct KnownOption {
    std::string_view name;
    unsigned values;
};

// From `mpirun --help full` and mpirun(1) of Open MPI 4.1 (it takes one dash or two
// for each of them), then those that other releases have instead.
constexpr auto known_options = std::to_array<KnownOption>({
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

std::optional<unsigned> values_of(std::string_view name) {
    const auto *found = std::find_if(known_options.begin(), known_options.end(),
                                     [&](const KnownOption &option) { return option.name == name; });
    if (found == known_options.end()) return std::nullopt;
    return found->values;
}

// "-qv": one-letter options in one word, their values after it.
std::optional<unsigned> values_of_letters(std::string_view letters) {
    unsigned sum = 0;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        const auto values = values_of(letters.substr(i, 1));
        if (!values) return std::nullopt;
        sum += *values;
    }
    return sum;
}

// An option that no release we know has: it takes the next word, unless that is an
// option or a program, or nothing would be left to be the program.
unsigned guess_values(const AppContext &context, std::size_t at) {
    const auto &words = context.words;
    if (at + 2 >= words.size() || words[at + 1].starts_with('-')) return 0;
    return find_program(context, words[at + 1], environment("PATH").value_or("")).path.empty() ? 1 : 0;
}

std::string joined(const std::string &directory, const std::string &name) {
    if (name.starts_with('/') || directory.empty()) return name;
    return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

bool is_regular(const std::string &path) {
    struct stat about {};
    return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

// Words as a tune file writes them: blanks separate, quotes hold together.
Words quoted_words(const std::string &text) {
    Words words;
    std::string word;
    bool inside = false;
    char quote = 0;
    for (const char c : text) {
        if (quote != 0) {
            if (c == quote) quote = 0;
            else word += c;
        } else if (c == '"' || c == '\'') {
            quote = c;
            inside = true;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            if (inside) words.push_back(std::move(word));
            word.clear();
            inside = false;
        } else {
            word += c;
            inside = true;
        }
    }
    if (inside) words.push_back(std::move(word));
    return words;
}

std::string trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

}  // namespace

bool AppContext::has_option(std::initializer_list<std::string_view> names) const {
    return std::any_of(options.begin(), options.end(), [&](const Option &option) {
        return std::find(names.begin(), names.end(), option.name) != names.end();
    });
}

std::optional<std::string> AppContext::value_of(std::initializer_list<std::string_view> names) const {
    std::optional<std::string> value;
    for (const auto &option : options) {
        if (option.count == 2 && std::find(names.begin(), names.end(), option.name) != names.end())
            value = words[option.first + 1];
    }
    return value;
}

std::optional<std::string> AppContext::mca_value(std::string_view parameter) const {
    std::optional<std::string> value;
    for (const auto &option : options) {
        if (option.count == 3 && (option.name == "mca" || option.name == "gmca") &&
            words[option.first + 1] == parameter)
            value = words[option.first + 2];
    }
    return value;
}

Words AppContext::exports() const {
    Words found;
    for (const auto &option : options) {
        if (option.name == "x" && option.count == 2) found.push_back(words[option.first + 1]);
    }
    return found;
}

AppContext parse_context(Words words) {
    AppContext context;
    context.words = std::move(words);
    const std::size_t count = context.words.size();
    std::size_t at = 0;
    while (at < count) {
        const std::string &word = context.words[at];
        if (word == "--") {
            ++at;
            break;
        }
        if (!word.starts_with('-') || word == "-") break;

        const bool two_dashes = word.starts_with("--");
        const std::string name = word.substr(two_dashes ? 2 : 1);
        std::optional<unsigned> values = values_of(name);
        if (!values && name.find('=') != std::string::npos) values = 0;
        if (!values && !two_dashes) values = values_of_letters(name);
        if (!values) values = guess_values(context, at);

        const std::size_t taken = std::min<std::size_t>(1 + *values, count - at);
        context.options.push_back({name, at, taken});
        at += taken;
    }
    context.program = at;
    return context;
}

std::vector<AppContext> split_contexts(const Words &words) {
    std::vector<AppContext> contexts;
    Words part;
    const auto finish = [&] {
        if (!part.empty()) contexts.push_back(parse_context(std::move(part)));
        part.clear();
    };
    for (const auto &word : words) {
        if (word == ":") finish();
        else part.push_back(word);
    }
    finish();
    return contexts;
}

std::vector<AppContext> read_app_file(const std::string &text) {
    std::vector<AppContext> contexts;
    for (const auto &line : split_words(text, "\n")) {
        const std::size_t comment = std::min(line.find('#'), line.find("//"));
        auto words = split_words(std::string_view(line).substr(0, comment), " ");
        if (!words.empty()) contexts.push_back(parse_context(std::move(words)));
    }
    return contexts;
}

EnvironmentFile read_tune_file(const std::string &text) {
    EnvironmentFile found;
    const auto words = quoted_words(text);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        if (words[i] == "-x" || words[i] == "--x") found.exports.push_back(words[++i]);
        else if ((words[i] == "-mca" || words[i] == "--mca") && words[i + 1] == "mca_base_env_list" &&
                 i + 2 < words.size())
            found.env_list = words[i + 2];
    }
    return found;
}

EnvironmentFile read_parameter_file(const std::string &text) {
    EnvironmentFile found;
    for (const auto &line : split_words(text, "\n")) {
        const std::size_t equals = line.find('=');
        if (equals == std::string::npos) continue;
        if (trimmed(std::string_view(line).substr(0, equals)) == "mca_base_env_list")
            found.env_list = trimmed(std::string_view(line).substr(equals + 1));
    }
    return found;
}

FoundProgram find_program(const AppContext &context, const std::string &name,
                          const std::string &search_path) {
    const std::string base = context.value_of({"wdir", "wd"}).value_or("");
    Words candidates;
    if (name.find('/') != std::string::npos) {
        candidates.push_back(joined(base, name));
    } else {
        Words directories = split_words(context.value_of({"path"}).value_or(""), ":");
        for (auto &directory : split_words(search_path, ":")) directories.push_back(std::move(directory));
        directories.emplace_back(".");
        for (const auto &directory : directories) candidates.push_back(joined(joined(base, directory), name));
    }

    FoundProgram found;
    for (const auto &candidate : candidates) {
        if (is_executable_file(candidate)) {
            found.path = candidate;
            return found;
        }
        if (is_regular(candidate)) found.exists_unexecutable = true;
    }
    return found;
}

}  // namespace storm::tools
