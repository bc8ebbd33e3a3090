// SPDX-License-Identifier: MIT
// What a machine may refuse to the shim or to the real MPI, each with its remedy.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace storm::tools {

struct Finding {
    std::string name;
    std::string value;
    bool enough = true;
    std::string advice{};  // what to do when it is too small, or worth knowing; may be empty
    std::string trouble = "too small";  // in a word, when it is not enough
};

// Limits of this process, memory of this machine, and whether another process's
// descriptor can be opened, in this order.
[[nodiscard]] std::vector<Finding> first_aid();

// The launcher that stormrun would start from here, and whether it is of the MPI whose
// library says `mpi_version` ("" when there is none).
[[nodiscard]] Finding launcher_found(const std::string &mpi_version);

// Can a preload of `library` serve this program: static, set-uid, of another MPI, lacking
// its MPI?
[[nodiscard]] Finding program_found(const std::string &program, const std::string &library);

// What `work` returns when a child process runs it, so that libraries it loads and
// crashes of theirs stay away from us; nothing, with the reason, when the child failed.
[[nodiscard]] std::optional<std::string> in_child(const std::function<std::string()> &work, std::string &why);

// 65536 as 64K; numbers that are no multiple of 1024 stay as they are.
[[nodiscard]] std::string size_text(unsigned long long bytes);

}  // namespace storm::tools
