// SPDX-License-Identifier: MIT
// STORM_PROFILE: the job runs by the real MPI, and its calls are counted on the way.
#pragma once

#include "base/clock.hh"
#include "process.hh"
#include "settings.hh"

namespace storm::interpose::profiling {

// After MPI_Init, in a job all of whose ranks do so: from now on process.real counts.
// `clock` is set, both live until `end`.
void begin(const Settings& settings, Clock& clock);

// Before the real MPI ends; collective over `everybody`. Rank 0 writes the profile.
void end(MPI_Comm everybody);

} // namespace storm::interpose::profiling
