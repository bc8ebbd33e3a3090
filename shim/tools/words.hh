// SPDX-License-Identifier: MIT
// Lists of words, variables named in them, and paths: what stormrun's parts share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace storm::tools {

using Words = std::vector<std::string>;

[[nodiscard]] Words split_words(std::string_view text, std::string_view separators);
[[nodiscard]] std::string joined(const Words &words, const char *separator);
[[nodiscard]] std::string shell_quoted(const std::string &word);
[[nodiscard]] std::string roff(const std::string &text);

// Lists of NAME and NAME=VALUE, as mpirun -x takes them: NAME alone stands for the
// value in our environment, and the last mention counts.
[[nodiscard]] std::string name_in(const std::string &assignment);
[[nodiscard]] bool names(const Words &assignments, const std::string &name);
[[nodiscard]] std::optional<std::string> value_in(const Words &assignments, const std::string &name);

[[nodiscard]] std::optional<std::string> environment(const char *name);
[[nodiscard]] std::optional<std::string> read_text(const std::string &path);

[[nodiscard]] bool exists(const std::string &path);
[[nodiscard]] bool is_executable_file(const std::string &path);
// A name without a slash is sought in PATH; "" when there is no such program. Those that
// `passed_over` is true for are not taken.
[[nodiscard]] std::string find_executable(const std::string &name,
                                          bool (*passed_over)(const std::string &) = nullptr);
[[nodiscard]] std::string_view base_name(std::string_view path);
[[nodiscard]] std::string directory_of(const std::string &path);
// Absolute, its directory free of links and doubled slashes, its last part as it is.
[[nodiscard]] std::string absolute(const std::string &path);

}  // namespace storm::tools
