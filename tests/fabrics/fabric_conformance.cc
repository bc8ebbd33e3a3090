// SPDX-License-Identifier: MIT
// The Backend contract over a plugin and its device: the same body as over loop and shared
// memory (tests/unit/conformance.cc), in every publication mode that the fabric allows.
//   fabric_conformance PLUGIN [DEVICE [PROVIDER [RECORDS]]]
#include "../unit/conformance.hh"

#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>

namespace storm::unit {
namespace {

const BackendPlugin* plugin;
BackendSettings settings;

struct OverFabric : Site {
    explicit OverFabric(const char* mode)
    {
        log.set_level(LogLevel::quiet);
        for (int i = 0; i < 3; ++i) {
            BackendSettings own = settings;
            own.world_rank_hint = i;
            own.memory_max = kSiteMemory;
            own.log = &log;
            own.ordering = mode;
            std::string why;
            ends.emplace_back(plugin->open(own, why));
            if (ends.back() == nullptr)
                throw std::runtime_error(why);
        }
    }
    void settle() override
    {
        for (int i = 0; i < 300; ++i)
            look();
    }
};

bool allowed(const char* mode)
{
    try {
        OverFabric site(mode);
        for (unsigned n = 0; !site[0].fact(n).empty(); ++n)
            std::printf("%s: %s\n", mode, site[0].fact(n).c_str());
        return true;
    } catch (const std::exception& e) {
        std::printf("skip %s: %s\n", mode, e.what());
        return false;
    }
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    if (argc < 2) {
        std::fprintf(stderr, "usage: fabric_conformance PLUGIN [DEVICE [PROVIDER [RECORDS]]]\n");
        return 2;
    }
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    plugin = library != nullptr ? static_cast<const storm::BackendPlugin*>(dlsym(library, "storm_backend")) : nullptr;
    if (plugin == nullptr || plugin->abi != storm::kBackendAbi) {
        const char* said = dlerror();
        std::fprintf(stderr, "%s is no plugin of this version (%s)\n", argv[1], said != nullptr ? said : "abi");
        return 2;
    }
    settings.nic = argc > 2 ? argv[2] : "";
    settings.ofi_provider = argc > 3 ? argv[3] : "auto";
    const unsigned records = argc > 4 ? static_cast<unsigned>(std::atoi(argv[4])) : 3000;

    std::vector<CMUnitTest> tests;
    unsigned modes = 0;
    for (const char* mode : {"stamped", "complete", "remote-cq", "ordered", "fence"}) {
        if (!allowed(mode))
            continue;
        ++modes;
        Trials trials;
        trials.name = mode;
        trials.make = [mode] { return std::make_unique<OverFabric>(mode); };
        trials.records = records;
        for (const CMUnitTest& test : conformance(trials))
            tests.push_back(test);
    }
    const int wrong = _cmocka_run_group_tests(argv[1], tests.data(), tests.size(), nullptr, nullptr);
    return wrong != 0 || modes == 0 ? 1 : 0;
}
