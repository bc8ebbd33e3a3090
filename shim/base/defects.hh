// SPDX-License-Identifier: MIT
// Mistakes that the code around a STORM_PLANTED might have had. A test that builds the
// shim with STORM_DEFECTS plants one at a time, and its simulation must find it; in every
// other build STORM_PLANTED is false, and nothing is left of it.
#pragma once

#ifdef STORM_DEFECTS

namespace storm {

enum class Defect {
    none,
#define STORM_DEFECT(name, what) name,
#include "defects.def"
#undef STORM_DEFECT
};
inline Defect planted = Defect::none;

} // namespace storm

#define STORM_PLANTED(name) (::storm::planted == ::storm::Defect::name)
#else
#define STORM_PLANTED(name) false
#endif
