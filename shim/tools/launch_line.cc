// SPDX-License-Identifier: MIT
// The parser of launch lines; the options of each launcher are in launchers.cc.
#include "launch_line.hh"

#include <sys/stat.h>

#include <algorithm>

namespace storm::tools {

namespace {

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
        const std::size_t equals = option.name.find('=');
        if (std::find(names.begin(), names.end(), option.name.substr(0, equals)) == names.end()) continue;
        if (option.count == 2) value = words[option.first + 1];
        else if (kind == Kind::slurm && equals != std::string::npos) value = option.name.substr(equals + 1);
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
        if (kind == Kind::hydra && (option.name == "env" || option.name == "genv") && option.count == 3)
            found.push_back(words[option.first + 1] + "=" + words[option.first + 2]);
        if (kind == Kind::open_mpi && option.name == "x" && option.count == 2)
            found.push_back(words[option.first + 1]);
    }
    if (kind == Kind::slurm) found = split_words(value_of({"export"}).value_or(""), ",");
    return found;
}

Words AppContext::exports_for_all() const {
    Words found;
    for (const auto &option : options) {
        if (kind == Kind::hydra && option.name == "genv" && option.count == 3)
            found.push_back(words[option.first + 1] + "=" + words[option.first + 2]);
    }
    return found;
}

AppContext parse_context(Words words, Kind kind) {
    AppContext context;
    context.kind = kind;
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
        std::optional<unsigned> values = values_of(kind, name, two_dashes);
        if (!values) values = guess_values(context, at);

        const std::size_t taken = std::min<std::size_t>(1 + *values, count - at);
        context.options.push_back({name, at, taken});
        at += taken;
    }
    context.program = at;
    return context;
}

std::vector<AppContext> split_contexts(const Words &words, Kind kind) {
    std::vector<AppContext> contexts;
    Words part;
    const auto finish = [&] {
        if (!part.empty()) contexts.push_back(parse_context(std::move(part), kind));
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
        if (!words.empty()) contexts.push_back(parse_context(std::move(words), Kind::open_mpi));
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
    const std::string base = context.value_of({"wdir", "wd", "chdir", "D"}).value_or("");
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
