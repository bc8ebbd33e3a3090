// SPDX-License-Identifier: MIT
// Words, variables and paths.
#include "words.hh"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace storm::tools {

std::vector<std::string> split_words(std::string_view text, std::string_view separators) {
    std::vector<std::string> words;
    std::size_t at = 0;
    while ((at = text.find_first_not_of(separators, at)) != std::string_view::npos) {
        const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
        words.emplace_back(text.substr(at, end - at));
        at = end;
    }
    return words;
}

std::string joined(const Words &words, const char *separator) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += separator;
        text += words[i];
    }
    return text;
}

std::string shell_quoted(const std::string &word) {
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::strchr("_-./:=,+@%^", c) != nullptr;
    };
    if (!word.empty() && std::all_of(word.begin(), word.end(), [&](char c) { return c != 0 && plain(c); }))
        return word;
    std::string quoted = "'";
    for (const char c : word) {
        if (c == '\'') quoted += "'\\''";
        else quoted += c;
    }
    return quoted + "'";
}

std::string roff(const std::string &text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') out += "\\e";
        else if (c == '-') out += "\\-";
        else if (c == '"') out += "\\(dq";
        else out += c;
    }
    return out;
}

std::string name_in(const std::string &assignment) { return assignment.substr(0, assignment.find('=')); }

std::optional<std::string> value_in(const Words &assignments, const std::string &name) {
    std::optional<std::string> value;
    for (const auto &item : assignments) {
        if (name_in(item) != name) continue;
        value = item.size() > name.size() ? item.substr(name.size() + 1)
                                          : environment(name.c_str()).value_or("");
    }
    return value;
}

bool names(const Words &assignments, const std::string &name) {
    return std::any_of(assignments.begin(), assignments.end(),
                       [&](const std::string &item) { return name_in(item) == name; });
}

std::optional<std::string> environment(const char *name) {
    const char *value = secure_getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
}

std::optional<std::string> read_text(const std::string &path) {
    FILE *file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return std::nullopt;
    std::string text;
    char buffer[4096];
    std::size_t got = 0;
    while ((got = std::fread(buffer, 1, sizeof buffer, file)) > 0) text.append(buffer, got);
    const bool failed = std::ferror(file) != 0;
    std::fclose(file);
    if (failed) return std::nullopt;
    return text;
}

bool is_executable_file(const std::string &path) {
    struct stat about {};
    return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string find_executable(const std::string &name, bool (*passed_over)(const std::string &)) {
    const auto taken = [&](const std::string &path) {
        return is_executable_file(path) && (passed_over == nullptr || !passed_over(path));
    };
    if (name.find('/') != std::string::npos) return taken(name) ? name : "";
    for (const auto &directory : split_words(environment("PATH").value_or("/usr/bin:/bin"), ":"))
        if (const std::string path = directory + "/" + name; taken(path)) return path;
    return {};
}

std::string_view base_name(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string directory_of(const std::string &path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

std::string absolute(const std::string &path) {
    char resolved[PATH_MAX];
    if (realpath(directory_of(path).c_str(), resolved) == nullptr) return path;
    std::string full = resolved;
    if (full != "/") full += '/';
    return full.append(base_name(path));
}

bool exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace storm::tools
