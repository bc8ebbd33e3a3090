// SPDX-License-Identifier: MIT
// Backends are shared objects beside libstorm.so, loaded RTLD_LOCAL when chosen.
#pragma once

#include "base/backend.hh"

#include <string>
#include <vector>

namespace storm::interpose {

// Where the plugin of this name may stand: beside the library that contains this function
// (lib/storm/libstorm-NAME.so), or in a build tree. Empty when that place is unknown.
std::vector<std::string> plugin_places(const std::string& name);

// lib/storm/libstorm-NAME.so beside the library that contains this function, or
// backends/ of a build tree; null with the reason in words.
const BackendPlugin* load_plugin(const std::string& name, std::string& why);

} // namespace storm::interpose
