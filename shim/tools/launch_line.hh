// SPDX-License-Identifier: MIT
// The command line of a launcher, understood as far as stormrun needs it:
// where each application context ends, which words are options and how many
// values they take, and so which word is the program.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launchers.hh"
#include "words.hh"

namespace storm::tools {

// One of the parts that `:` separates, or one line of an application file.
struct AppContext {
    struct Option {
        std::string name;   // without its dashes
        std::size_t first;  // index of the word that names it
        std::size_t count;  // words it takes, its own included
    };

    Kind kind = Kind::open_mpi;
    Words words;
    std::vector<Option> options;
    std::size_t program = 0;  // index into words; words.size() if there is none

    [[nodiscard]] bool has_program() const { return program < words.size(); }
    [[nodiscard]] const std::string &program_name() const { return words[program]; }
    // Where one more option can stand: before the program, and before a "--".
    [[nodiscard]] std::size_t options_end() const {
        return options.empty() ? 0 : options.back().first + options.back().count;
    }
    [[nodiscard]] bool has_option(std::initializer_list<std::string_view> names) const;
    // The last value given for any of these options.
    [[nodiscard]] std::optional<std::string> value_of(std::initializer_list<std::string_view> names) const;
    // The last value of an MCA parameter given by --mca or --gmca.
    [[nodiscard]] std::optional<std::string> mca_value(std::string_view parameter) const;
    // What the options set for the programs: NAME or NAME=VALUE.
    [[nodiscard]] Words exports() const;
    // Those of them that hold for every context (Hydra's -genv).
    [[nodiscard]] Words exports_for_all() const;
};

// Splits at the words ":" as mpirun does, wherever they stand; empty parts vanish.
[[nodiscard]] std::vector<AppContext> split_contexts(const Words &words, Kind kind);

// An application file (mpirun --app), one context a line, by mpirun's rules: words
// are separated by blanks only, nothing is quoted, # and // begin a comment.
[[nodiscard]] std::vector<AppContext> read_app_file(const std::string &text);

[[nodiscard]] AppContext parse_context(Words words, Kind kind);

// What -tune files and MCA parameter files say, where it concerns the environment
// of the programs: -x arguments, and the parameter mca_base_env_list.
struct EnvironmentFile {
    Words exports;
    std::optional<std::string> env_list;
};
[[nodiscard]] EnvironmentFile read_tune_file(const std::string &text);
[[nodiscard]] EnvironmentFile read_parameter_file(const std::string &text);

// The program as mpirun will find it: a name with a slash from the working
// directory of its context, another one through --path, PATH and that directory.
// `search_path` is the PATH the program will see. Empty if it is not found.
struct FoundProgram {
    std::string path;
    bool exists_unexecutable = false;
};
[[nodiscard]] FoundProgram find_program(const AppContext &context, const std::string &name,
                                        const std::string &search_path);

}  // namespace storm::tools
