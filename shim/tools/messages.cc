// SPDX-License-Identifier: MIT
// stormrun's messages, on standard error.
#include "messages.hh"

#include <cstdio>

namespace storm::tools {

const char *const usage =
    "usage: stormrun [--dry-run] [--off | --profile[=FORM] | --advise[=FORM]]\n"
    "                [--launcher PATH] [--lib PATH]\n"
    "                [launcher arguments] program args [: launcher arguments program args ...]\n"
    "       stormrun --help | --version\n";

namespace {
Listener *listener = nullptr;
}

Listener::Listener() { listener = this; }
Listener::~Listener() { listener = nullptr; }

void say(const std::string &text) {
    if (listener != nullptr) listener->heard = text;
    else std::fprintf(stderr, "stormrun: %s\n", text.c_str());
}

void stop(int status, const std::string &text) {
    say(text);
    throw Stop{status};
}

void stop_usage(const std::string &text) {
    say(text);
    std::fputs(usage, stderr);
    throw Stop{exit_usage};
}

}  // namespace storm::tools
