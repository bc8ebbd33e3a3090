// SPDX-License-Identifier: MIT
#include "settings.hh"

#include "report.hh"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fnmatch.h>

namespace storm {
namespace {

// Variables of ours that other parts read: known, but not settings of the shim.
constexpr const char* kOthers[] = {"STORM_LAUNCHER"};

enum class Kind { flag, count, bytes, text, choice };

bool parse_flag(const std::string& text, bool& value)
{
    for (const char* yes : {"1", "yes", "on", "true"})
        if (text == yes)
            return value = true;
    for (const char* no : {"0", "no", "off", "false"})
        if (text == no) {
            value = false;
            return true;
        }
    return false;
}

// A number with an optional K, M or G (powers of 1024) when it counts bytes.
bool parse_number(const std::string& text, bool bytes, std::uint64_t& value)
{
    if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0])))
        return false;
    char* end = nullptr;
    errno = 0;
    const unsigned long long n = std::strtoull(text.c_str(), &end, 10);
    if (errno != 0)
        return false;
    unsigned shift = 0;
    if (bytes && *end != '\0') {
        switch (std::toupper(static_cast<unsigned char>(*end))) {
        case 'K': shift = 10; break;
        case 'M': shift = 20; break;
        case 'G': shift = 30; break;
        default: return false;
        }
        ++end;
        if (*end == 'B' || *end == 'b')
            ++end;
    }
    if (*end != '\0' || (n << shift) >> shift != n)
        return false;
    value = n << shift;
    return true;
}

bool among_choices(const std::string& text, const char* help)
{
    const std::string list(help, std::strcspn(help, ":"));
    std::size_t at = 0;
    while (at <= list.size()) {
        const std::size_t bar = std::min(list.find('|', at), list.size());
        if (list.compare(at, bar - at, text) == 0)
            return true;
        at = bar + 1;
    }
    return false;
}

// Stores `text` in one field; false when it is out of range or malformed.
bool store(bool& field, Kind, const std::string& text, const SettingInfo&)
{
    return parse_flag(text, field);
}
bool store(std::uint64_t& field, Kind kind, const std::string& text, const SettingInfo& info)
{
    std::uint64_t n = 0;
    if (!parse_number(text, kind == Kind::bytes, n) || n < info.min || n > info.max)
        return false;
    field = n;
    return true;
}
bool store(std::string& field, Kind kind, const std::string& text, const SettingInfo& info)
{
    if (kind == Kind::choice && !among_choices(text, info.help))
        return false;
    field = text;
    return true;
}

std::string show(bool v) { return v ? "1" : "0"; }
std::string show(std::uint64_t v) { return std::to_string(v); }
std::string show(const std::string& v) { return v; }

std::string range_text(const SettingInfo& info)
{
    if (std::strcmp(info.kind, "flag") == 0)
        return "0 or 1";
    if (std::strcmp(info.kind, "choice") == 0)
        return "one of " + std::string(info.help, std::strcspn(info.help, ":"));
    if (std::strcmp(info.kind, "text") == 0)
        return info.help;
    return std::to_string(info.min) + " to " + std::to_string(info.max) +
           (std::strcmp(info.kind, "bytes") == 0 ? " bytes, K, M and G allowed" : "");
}

std::size_t edit_distance(const std::string& a, const std::string& b)
{
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
        }
    }
    return row[b.size()];
}

} // namespace

bool parse_bytes(const std::string& text, std::uint64_t& value)
{
    return parse_number(text, true, value);
}

const std::vector<SettingInfo>& Settings::table()
{
    static const std::vector<SettingInfo> table = {
#define STORM_SETTING(field, type, name, kind, fallback, min, max, scope, help)                    \
    {name, #kind, fallback, min, max, #scope[0] == 'a', help},
#include "settings.def"
#undef STORM_SETTING
    };
    return table;
}

Settings::Settings()
{
    std::size_t i = 0;
#define STORM_SETTING(field, type, name, kind, fallback, min, max, scope, help)                    \
    store(field, Kind::kind, fallback, table()[i++]);
#include "settings.def"
#undef STORM_SETTING
}

void Settings::read(const char* const* environment, std::vector<std::string>& problems)
{
    bool max_given = false;
    for (; environment != nullptr && *environment != nullptr; ++environment) {
        const char* entry = *environment;
        const char* equals = std::strchr(entry, '=');
        if (std::strncmp(entry, "STORM_", 6) != 0 || equals == nullptr)
            continue;
        const std::string name(entry, equals);
        const std::string text(equals + 1);
        max_given = max_given || name == "STORM_RING_MAX";
        std::size_t i = 0;
        bool known = false, good = true;
#define STORM_SETTING(field, type, setting, kind, fallback, min, max, scope, help)                 \
    if (name == setting) {                                                                         \
        known = true;                                                                              \
        good = store(field, Kind::kind, text, table()[i]);                                         \
    }                                                                                              \
    ++i;
#include "settings.def"
#undef STORM_SETTING
        for (const char* other : kOthers)
            known = known || name == other;
        if (!known) {
            const std::string near = nearest_setting(name);
            problems.push_back(name + " is not a setting of STORM" +
                               (near.empty() ? ": see storm-info for the list"
                                             : ": did you mean " + near + "?"));
        } else if (!good) {
            const auto info = std::find_if(table().begin(), table().end(),
                                           [&](const SettingInfo& s) { return name == s.name; });
            problems.push_back(name + "=" + text + " is not valid (" + range_text(*info) +
                               "): using the default " + info->fallback);
        }
    }
    TagSet set;
    std::string why;
    if (!set.parse(tags, why)) {
        problems.push_back("STORM_TAGS=" + tags + " is not valid (" + why + "): using the default all");
        tags = "all";
    }
    if (ring_max < ring_min && max_given)
        problems.push_back("STORM_RING_MAX=" + std::to_string(ring_max) +
                           " is below STORM_RING_MIN: using " + std::to_string(std::bit_ceil(ring_min)));
    ring_min = std::bit_ceil(ring_min);
    ring_max = std::max(std::bit_floor(ring_max), ring_min);
    const std::string profile_form = profile.substr(0, profile.find(':'));
    const bool profile_file = profile_form.size() < profile.size();
    if ((profile_form != "text" && profile_form != "json" && profile != "off") ||
        (profile_file && profile_form.size() + 1 == profile.size())) {
        problems.push_back("STORM_PROFILE=" + profile +
                           " is not valid (off, or text or json, each with :FILE if wanted): using the default off");
        profile = "off";
    }
    if (report_target(report).form == ReportTarget::Form::unknown) {
        problems.push_back("STORM_REPORT=" + report +
                           " is not valid (off, or summary, json or html, each with :FILE if wanted): "
                           "using the default off");
        report = "off";
    }
}

std::string Settings::agreement() const
{
    std::string text;
#define STORM_SETTING(field, type, name, kind, fallback, min, max, scope, help)                    \
    if (#scope[0] == 'a')                                                                          \
        text += std::string(text.empty() ? "" : ",") + (name + 6) + "=" + show(field);
#include "settings.def"
#undef STORM_SETTING
    return text;
}

std::string Settings::value_text(const std::string& wanted) const
{
#define STORM_SETTING(field, type, name, kind, fallback, min, max, scope, help)                    \
    if (wanted == name)                                                                            \
        return show(field);
#include "settings.def"
#undef STORM_SETTING
    return "";
}

LogLevel Settings::log_level() const
{
    static constexpr const char* kNames[] = {"quiet", "error", "warn", "info", "debug"};
    for (int i = 0; i < 5; ++i)
        if (log == kNames[i])
            return static_cast<LogLevel>(i);
    return LogLevel::warn;
}

std::string nearest_setting(const std::string& name)
{
    std::string best;
    // farther than four edits, or than half of a short name, is no misspelling
    const std::size_t own = name.size() > 6 ? name.size() - 6 : 0;
    std::size_t best_distance = std::min<std::size_t>(5, own / 2 + 1);
    for (const SettingInfo& s : Settings::table()) {
        const std::size_t d = edit_distance(name, s.name);
        if (d < best_distance) {
            best_distance = d;
            best = s.name;
        }
    }
    return best;
}

bool TagSet::parse(const std::string& text, std::string& why)
{
    all_ = text == "all";
    ranges_.clear();
    if (all_ || text == "none")
        return true;
    std::size_t at = 0;
    while (at <= text.size()) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        const std::string item = text.substr(at, comma - at);
        const std::size_t dash = item.find('-');
        std::uint64_t from = 0, to = INT_MAX;
        const bool range = dash != std::string::npos;
        const bool open = range && dash + 1 == item.size();
        if (!parse_number(item.substr(0, dash), false, from) || from > INT_MAX ||
            (range && !open && (!parse_number(item.substr(dash + 1), false, to) || to > INT_MAX))) {
            why = "\"" + item + "\" is not a tag, a range as 5-9, or an open range as 20-";
            return false;
        }
        if (!range)
            to = from;
        if (to < from) {
            why = "the range \"" + item + "\" ends before it begins";
            return false;
        }
        ranges_.emplace_back(static_cast<int>(from), static_cast<int>(to));
        at = comma + 1;
    }
    return true;
}

bool TagSet::has(int tag) const
{
    return all_ || std::any_of(ranges_.begin(), ranges_.end(),
                               [&](const auto& r) { return r.first <= tag && tag <= r.second; });
}

bool name_selected(const std::string& patterns, const std::string& name)
{
    if (patterns == "all")
        return true;
    if (patterns == "none")
        return false;
    std::size_t at = 0;
    while (at <= patterns.size()) {
        const std::size_t comma = std::min(patterns.find(',', at), patterns.size());
        if (fnmatch(patterns.substr(at, comma - at).c_str(), name.c_str(), 0) == 0)
            return true;
        at = comma + 1;
    }
    return false;
}

} // namespace storm
