// SPDX-License-Identifier: MIT
#include "base/log.hh"

#include <cerrno>
#include <cstdio>
#include <unistd.h>

namespace storm {

// Formats into one buffer and writes it with one call, so that lines of several
// ranks do not mix and stdio of the program is not touched. errno is kept.
void Log::print(LogLevel level, const char* format, std::va_list args) const
{
    static constexpr const char* kLabel[] = {"", "error: ", "", "info: ", "debug: "};
    if (level > level_)
        return;
    const int saved = errno;
    char line[1024];
    std::size_t at = 0;
    const auto used = [&](int n) {
        if (n > 0)
            at = at + static_cast<std::size_t>(n) < sizeof line - 2 ? at + static_cast<std::size_t>(n)
                                                                    : sizeof line - 2;
    };
    used(std::snprintf(line, sizeof line, "storm: %s", kLabel[static_cast<int>(level)]));
    if (rank_ >= 0)
        used(std::snprintf(line + at, sizeof line - at, "rank %d: ", rank_));
    used(std::vsnprintf(line + at, sizeof line - at, format, args));
    line[at++] = '\n';
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, at);
    errno = saved;
}

#define STORM_LOG_AT(name)                                                                         \
    void Log::name(const char* format, ...) const                                                  \
    {                                                                                              \
        std::va_list args;                                                                         \
        va_start(args, format);                                                                    \
        print(LogLevel::name, format, args);                                                       \
        va_end(args);                                                                              \
    }
STORM_LOG_AT(error)
STORM_LOG_AT(warn)
STORM_LOG_AT(info)
STORM_LOG_AT(debug)
#undef STORM_LOG_AT

} // namespace storm
