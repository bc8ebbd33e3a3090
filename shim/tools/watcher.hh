// SPDX-License-Identifier: MIT
// What ends a job whose launcher cannot: with no link left to its daemons mpirun waits for
// ever, though a rank has said why the job is over (interpose/links.hh).
#pragma once

namespace storm::tools {

// Starts a process beside this one, which is about to become the launcher, and names its
// socket in the environment of the job. When a rank sends its last words there and the
// launcher has not ended `grace_s` later, it is asked to (SIGTERM), and then ended with the
// processes that it has started here. The watcher ends with the launcher. Without it, if
// the system refuses, all is as before.
constexpr int grace_s = 10;
void start_watcher();

}  // namespace storm::tools
