// SPDX-License-Identifier: MIT
#include "phases.hh"

#include <sys/syscall.h>
#include <unistd.h>

namespace transport {
namespace {

// Written by the handler, read when the timer has been stopped.
volatile std::int64_t ticks[kPhases];
timer_t timer;
bool running = false;

void on_tick(int)
{
    const int missed = timer_getoverrun(timer);
    ticks[Phases::now] = ticks[Phases::now] + 1 + (missed > 0 ? missed : 0);
}

} // namespace

void Phases::start(int per_second)
{
    if (per_second <= 0) {
        return;
    }
    struct sigaction action{};
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID; // this thread, whatever threads MPI has
    event.sigev_signo = SIGPROF;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    running = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    if (running) {
        const long ns = 1'000'000'000L / per_second;
        const itimerspec every{.it_interval = {0, ns}, .it_value = {0, ns}};
        timer_settime(timer, 0, &every, nullptr);
    }
}

void Phases::stop()
{
    if (running) {
        timer_delete(timer);
        running = false;
    }
}

Phases::Counts Phases::counts()
{
    Counts found{};
    for (std::size_t i = 0; i < found.size(); ++i) {
        found[i] = ticks[i];
    }
    return found;
}

} // namespace transport
