// SPDX-License-Identifier: MIT
#include "load.hh"

#include <dlfcn.h>
#include <unistd.h>

namespace storm::topology {

bool load(const std::vector<std::string>& places, const std::string& source, Machine& machine,
          std::string& why)
{
    why = "libstorm-topology.so is not installed";
    for (const std::string& place : places) {
        if (::access(place.c_str(), F_OK) != 0)
            continue;
        void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            const char* said = dlerror();
            why = said != nullptr ? said : place + " cannot be loaded";
            continue;
        }
        const auto* plugin = static_cast<const TopologyPlugin*>(dlsym(library, "storm_topology"));
        if (plugin != nullptr && plugin->abi == kTopologyAbi)
            return plugin->read(source == "live" ? "" : source, machine, why);
        why = place + " belongs to another version";
    }
    return false;
}

} // namespace storm::topology
