// SPDX-License-Identifier: MIT
// stormrun --advise: what calls cost here, natively and under the shim.
#pragma once

#include <string>

namespace storm::tools {

// Runs storm-measure twice with this launcher. Returns the value of STORM_PROFILE_COSTS,
// or "" with the reason.
[[nodiscard]] std::string measure_costs(const std::string &launcher, const std::string &library, std::string &why);

}  // namespace storm::tools
