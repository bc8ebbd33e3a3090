// SPDX-License-Identifier: MIT
// The counters of one rank (counters.def), always on.
#pragma once

#include <cstdint>

namespace storm {

struct Counters {
#define STORM_COUNTER(field, name, help) std::uint64_t field = 0;
#include "counters.def"
#undef STORM_COUNTER
};

} // namespace storm
