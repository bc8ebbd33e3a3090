#include "plugin.hh"

#include <cstdlib>
#include <dlfcn.h>

namespace storm::interpose {

const BackendPlugin* load_plugin(const std::string& name, std::string& why)
{
    Dl_info here;
    if (dladdr(reinterpret_cast<void*>(&load_plugin), &here) == 0 || here.dli_fname == nullptr) {
        why = "the place of libstorm.so is unknown";
        return nullptr;
    }
    char* resolved = realpath(here.dli_fname, nullptr);
    std::string folder = resolved != nullptr ? resolved : here.dli_fname;
    std::free(resolved);
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
    for (const char* place : {"/storm/", "/../backends/"}) {
        const std::string path = folder + place + "libstorm-" + name + ".so";
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            if (const char* said = dlerror(); said != nullptr)
                why = said;
            continue;
        }
        const auto* plugin = static_cast<const BackendPlugin*>(dlsym(library, "storm_backend"));
        if (plugin != nullptr && plugin->abi == kBackendAbi)
            return plugin;
        why = path + " belongs to another version";
    }
    return nullptr;
}

} // namespace storm::interpose
