// Backends are shared objects beside libstorm.so, loaded RTLD_LOCAL when chosen.
#pragma once

#include "base/backend.hh"

#include <string>

namespace storm::interpose {

// lib/storm/libstorm-NAME.so beside the library that contains this function, or
// backends/ of a build tree; null with the reason in words.
const BackendPlugin* load_plugin(const std::string& name, std::string& why);

} // namespace storm::interpose
