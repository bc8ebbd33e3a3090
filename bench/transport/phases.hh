// SPDX-License-Identifier: MIT
// Where the time of a rank goes, by sampling: the code stores into one word what it is
// about, and a timer's signal counts that word. A store costs less than a nanosecond, a
// signal a few microseconds a thousand times a second, so the split costs about half a
// percent and falls evenly on all phases. The timer runs in wall-clock time; ticks that
// were due while the rank had no core count for the phase in which it lost it.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace transport {

enum class Phase : int { other, track, pack, send, poll, idle, terminate };
constexpr int kPhases = 7;
constexpr std::array<const char*, kPhases> kPhaseNames = {"other", "track",  "pack",     "send",
                                                          "poll",  "idle", "terminate"};

class Phases {
public:
    using Counts = std::array<std::int64_t, kPhases>;

    static void start(int per_second);
    static void stop();
    static Counts counts();

    inline static volatile std::sig_atomic_t now = 0;
};

// In this phase until the end of the scope, then in the former one again.
class In {
public:
    explicit In(Phase phase) : before_(Phases::now) { Phases::now = static_cast<std::sig_atomic_t>(phase); }
    ~In() { Phases::now = before_; }
    In(const In&) = delete;

private:
    std::sig_atomic_t before_;
};

} // namespace transport
