// SPDX-License-Identifier: MIT
// One line a message on stderr: `storm: problem (why): what to do`. Nothing is
// printed below the level that STORM_LOG names, and nothing ever ends the program.
#pragma once

#include <cstdarg>
#include <cstdint>

namespace storm {

enum class LogLevel : std::uint8_t { quiet, error, warn, info, debug };

class Log {
public:
    void set_level(LogLevel level) { level_ = level; }
    void set_rank(int rank) { rank_ = rank; }

    [[gnu::format(printf, 2, 3)]] void error(const char* format, ...) const;
    [[gnu::format(printf, 2, 3)]] void warn(const char* format, ...) const;
    [[gnu::format(printf, 2, 3)]] void info(const char* format, ...) const;
    [[gnu::format(printf, 2, 3)]] void debug(const char* format, ...) const;

private:
    void print(LogLevel level, const char* format, std::va_list args) const;

    LogLevel level_ = LogLevel::warn;
    int rank_ = -1; // world rank, -1 before MPI_Init
};

} // namespace storm
