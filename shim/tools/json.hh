// JSON as text: values are already JSON, keys and texts are quoted here.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace storm::tools {

[[nodiscard]] inline std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) {
            out += c;
            continue;
        }
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        out += escaped;
    }
    return out + "\"";
}

[[nodiscard]] inline std::string object(const std::vector<std::pair<std::string, std::string>> &fields) {
    std::string out;
    for (const auto &[key, value] : fields) {
        out += out.empty() ? "{" : ", ";
        out += quoted(key);
        out += ": ";
        out += value;
    }
    return out + "}";
}

template <class Items, class Show>
[[nodiscard]] std::string array(const Items &items, Show show) {
    std::string out;
    for (const auto &item : items) {
        out += out.empty() ? "[\n    " : ",\n    ";
        out += show(item);
    }
    return out.empty() ? "[]" : out + "\n  ]";
}

[[nodiscard]] inline std::string truth(bool value) { return value ? "true" : "false"; }

}  // namespace storm::tools
