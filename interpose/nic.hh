// SPDX-License-Identifier: MIT
// The network device of this rank for its peers on other hosts: hwloc is asked only by
// a rank that has such peers and a backend that goes there.
#pragma once

#include "pmix.hh"
#include "settings.hh"

#include "../topology/choice.hh"

namespace storm::interpose {

// The job has ranks on other hosts, as the launcher told.
bool has_remote_peers();

// This rank's choice; nic -1 with the reason as its sentence when there is none. What is
// wrong with a setting stands in `problem`.
topology::Choice choose_nic(const Settings& settings, const Pmix& board, topology::Need need);

} // namespace storm::interpose
