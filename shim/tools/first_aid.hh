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
    std::string advice;  // what to do when it is too small, or worth knowing; may be empty
};

// Limits of this process, memory of this machine, and whether another process's
// descriptor can be opened, in this order.
[[nodiscard]] std::vector<Finding> first_aid();

// What `work` returns when a child process runs it, so that libraries it loads and
// crashes of theirs stay away from us; nothing, with the reason, when the child failed.
[[nodiscard]] std::optional<std::string> in_child(const std::function<std::string()> &work, std::string &why);

// 65536 as 64K; numbers that are no multiple of 1024 stay as they are.
[[nodiscard]] std::string size_text(unsigned long long bytes);

}  // namespace storm::tools
