// SPDX-License-Identifier: MIT
// When a fabric and the real MPI have both failed: what this host's links say, and whom
// to tell that the job cannot go on.
#pragma once

#include <string>

namespace storm::interpose {

// True, with one clause, when no network device of this host but the loopback is up and
// has a carrier, though there are such devices.
bool no_link_is_up(std::string& why);

// To stormrun, if it waits for such a line: mpirun may not end by itself when it cannot
// reach its daemons. Name of a datagram socket that it listens on.
constexpr const char* kWatcherVariable = "STORMRUN_WATCHER";
void tell_watcher(const char* line);

} // namespace storm::interpose
