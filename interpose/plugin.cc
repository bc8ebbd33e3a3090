// SPDX-License-Identifier: MIT
#include "plugin.hh"

#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace storm::interpose {

std::vector<std::string> plugin_places(const std::string& name)
{
    Dl_info here;
    if (dladdr(reinterpret_cast<void*>(&plugin_places), &here) == 0 || here.dli_fname == nullptr)
        return {};
    char* resolved = realpath(here.dli_fname, nullptr);
    std::string folder = resolved != nullptr ? resolved : here.dli_fname;
    std::free(resolved);
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
    const std::string file = "/libstorm-" + name + ".so";
    return {folder + "/storm" + file, folder + "/../backends" + file, folder + "/../topology" + file};
}

const BackendPlugin* load_plugin(const std::string& name, std::string& why)
{
    why = "the place of libstorm.so is unknown";
    for (const std::string& path : plugin_places(name)) {
        if (::access(path.c_str(), F_OK) != 0) {
            why = path + " is not there";
            continue;
        }
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            const char* said = dlerror();
            why = said != nullptr ? said : path + " cannot be loaded";
            return nullptr;
        }
        const auto* plugin = static_cast<const BackendPlugin*>(dlsym(library, "storm_backend"));
        if (plugin != nullptr && plugin->abi == kBackendAbi)
            return plugin;
        why = path + " belongs to another version";
        return nullptr;
    }
    return nullptr;
}

} // namespace storm::interpose
