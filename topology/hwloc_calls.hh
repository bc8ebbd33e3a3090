// SPDX-License-Identifier: MIT
// The functions of hwloc that we call, taken from the library by name.
//
// Nothing is linked to hwloc: a program may bring another version of it, even inside
// itself, and a link would bind our calls to that one. From the library's own handle we
// get its own functions. With RTLD_DEEPBIND its calls to itself stay its own too; only
// sanitizers forbid that flag, and end the process that uses it.
#pragma once

#include <hwloc.h>
#include <hwloc/distances.h>

#include <dlfcn.h>
#include <string>

namespace storm::topology {

struct HwlocCalls {
#define STORM_HWLOC_CALLS(CALL)                                                                    \
    CALL(get_api_version)                                                                          \
    CALL(topology_init)                                                                            \
    CALL(topology_set_xml)                                                                         \
    CALL(topology_set_flags)                                                                       \
    CALL(topology_set_io_types_filter)                                                             \
    CALL(topology_load)                                                                            \
    CALL(topology_destroy)                                                                         \
    CALL(topology_is_thissystem)                                                                   \
    CALL(topology_get_allowed_cpuset)                                                              \
    CALL(get_type_depth)                                                                           \
    CALL(get_nbobjs_by_depth)                                                                      \
    CALL(get_obj_by_depth)                                                                         \
    CALL(obj_type_is_io)                                                                           \
    CALL(distances_get)                                                                            \
    CALL(distances_release)                                                                        \
    CALL(bitmap_next)                                                                              \
    CALL(bitmap_isset)
#define STORM_MEMBER(name) decltype(&::hwloc_##name) name = nullptr;
    STORM_HWLOC_CALLS(STORM_MEMBER)
#undef STORM_MEMBER

    // False with the reason when this machine has no hwloc of the version we know.
    bool open(std::string& why)
    {
        constexpr const char* kLibrary = "libhwloc.so.15";
        const bool sanitized = dlsym(RTLD_DEFAULT, "__asan_init") != nullptr ||
                               dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr ||
                               dlsym(RTLD_DEFAULT, "__msan_init") != nullptr;
        void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | (sanitized ? 0 : RTLD_DEEPBIND));
        if (library == nullptr) {
            why = std::string(kLibrary) + " cannot be loaded: install hwloc 2";
            return false;
        }
#define STORM_LOOK_UP(name)                                                                        \
    name = reinterpret_cast<decltype(name)>(dlsym(library, "hwloc_" #name));                       \
    if (name == nullptr) {                                                                         \
        why = std::string(kLibrary) + " lacks hwloc_" #name;                                       \
        return false;                                                                              \
    }
        STORM_HWLOC_CALLS(STORM_LOOK_UP)
#undef STORM_LOOK_UP
        if (get_api_version() >> 16 != HWLOC_API_VERSION >> 16) {
            why = std::string(kLibrary) + " is of another version";
            return false;
        }
        return true;
    }
};
#undef STORM_HWLOC_CALLS

} // namespace storm::topology
