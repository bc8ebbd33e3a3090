// SPDX-License-Identifier: MIT
// Options of the transport programs: `--name value`, known by a table, and named settings
// that stand for several of them and go before all others.
#pragma once

#include "exchange.hh"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace transport {

class CommandLine {
public:
    using Target = std::variant<int*, std::int64_t*, double*, std::string*, bool*>;

    void add(const std::string& name, Target target) { targets_[name] = target; }
    void setting(const std::string& name, std::vector<std::string> words) { settings_[name] = std::move(words); }

    void parse(int argc, char** argv)
    {
        const std::vector<std::string> words(argv + 1, argv + argc);
        for (std::size_t i = 0; i + 1 < words.size(); ++i) {
            if (words[i] == "--setting") {
                const auto found = settings_.find(words[i + 1]);
                if (found == settings_.end()) {
                    refuse("no such setting: " + words[i + 1]);
                }
                apply(found->second);
            }
        }
        apply(words);
    }

private:
    void apply(const std::vector<std::string>& words)
    {
        for (std::size_t i = 0; i < words.size(); ++i) {
            const std::string name = words[i].substr(0, 2) == "--" ? words[i].substr(2) : "";
            const auto found = targets_.find(name);
            if (found == targets_.end() && name != "setting") {
                refuse("unknown option: " + words[i]);
            }
            if (name != "setting" && std::holds_alternative<bool*>(found->second)) {
                *std::get<bool*>(found->second) = true;
                continue;
            }
            if (++i == words.size()) {
                refuse("no value for --" + name);
            }
            if (name != "setting") {
                std::visit([&](auto* target) { set(name, words[i], *target); }, found->second);
            }
        }
    }

    template <class Value>
    void set(const std::string& name, const std::string& word, Value& value)
    {
        if constexpr (std::is_same_v<Value, std::string>) {
            value = word;
        } else {
            char* end = nullptr;
            const double number = std::strtod(word.c_str(), &end);
            if (end == word.c_str() || *end != '\0' || !(number >= 0) || number > 9e15) {
                refuse("--" + name + ": not a number of use: " + word);
            }
            value = static_cast<Value>(number);
        }
    }

    [[noreturn]] void refuse(const std::string& why)
    {
        std::string text = why + "\noptions:";
        for (const auto& [name, target] : targets_) {
            text += " --" + name;
        }
        text += "\nsettings:";
        for (const auto& [name, words] : settings_) {
            text += " " + name;
        }
        stop(text.c_str());
    }

    std::map<std::string, Target> targets_;
    std::map<std::string, std::vector<std::string>> settings_;
};

} // namespace transport
