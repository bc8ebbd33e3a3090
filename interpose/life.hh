// SPDX-License-Identifier: MIT
// What other parts may know of the process's life, from its first MPI call to its end.
#pragma once

#include "counters.hh"
#include "settings.hh"

#include <cstdint>
#include <string>

namespace storm::interpose {

// The settings that hold, or would hold if MPI_Init came now.
Settings settings_now();
// False when it is too late: MPI_Init has read them, or never reads any.
bool settings_open();
// A value that stands above the environment; false when it is not valid.
bool set_before_init(const std::string& name, const std::string& value);

// Of this rank; zero before routing begins, the last ones after it has ended.
Counters counters_now();
std::uint64_t ring_high_water_now();

} // namespace storm::interpose
