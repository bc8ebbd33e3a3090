// SPDX-License-Identifier: MIT
// What stormrun says, always as "problem (why): what to do", and how it ends early.
#pragma once

#include <string>

namespace storm::tools {

constexpr int exit_usage = 2;
constexpr int exit_no_launcher = 127;

// Carries an exit status to main; the message is already out.
struct Stop {
    int status;
};

extern const char *const usage;

// While one exists, what would be said is kept for it: storm-info asks the same
// questions as stormrun and gives the answers a form of its own.
class Listener {
public:
    Listener();
    ~Listener();
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;
    std::string heard;
};

void say(const std::string &text);
[[noreturn]] void stop(int status, const std::string &text);
[[noreturn]] void stop_usage(const std::string &text);

}  // namespace storm::tools
