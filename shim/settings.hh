// SPDX-License-Identifier: MIT
// The settings of a job: one table (settings.def) read once from the environment.
#pragma once

#include "base/log.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace storm {

struct SettingInfo {
    const char* name;
    const char* kind;
    const char* fallback; // the default, as text
    std::uint64_t min, max;
    bool agree;
    const char* help;
};

struct Settings {
#define STORM_SETTING(field, type, name, kind, fallback, min, max, scope, help) type field{};
#include "settings.def"
#undef STORM_SETTING

    Settings(); // the defaults

    // Reads STORM_ variables from `environment` (name=value strings, null-ended).
    // Every bad or unknown one adds a sentence to `problems` and keeps its default.
    void read(const char* const* environment, std::vector<std::string>& problems);

    // Text of the values that all ranks must share.
    std::string agreement() const;
    LogLevel log_level() const;

    static const std::vector<SettingInfo>& table();
    std::string value_text(const std::string& name) const;
};

constexpr std::uint64_t kEagerMaxLimit = 64 << 20;

// A number of bytes, K, M and G allowed.
bool parse_bytes(const std::string& text, std::uint64_t& value);

// The known name nearest to `name`, or "" when none is near.
std::string nearest_setting(const std::string& name);

// A set of tags: "all", "none", or a list of numbers and ranges as 1,5-9,20-.
class TagSet {
public:
    // False, with `why`, when the text is not such a list.
    bool parse(const std::string& text, std::string& why);
    bool all() const { return all_; }
    bool has(int tag) const;

private:
    bool all_ = true;
    std::vector<std::pair<int, int>> ranges_;
};

// Names with * and ?; "all" and "none" as for tags.
bool name_selected(const std::string& patterns, const std::string& name);

} // namespace storm
