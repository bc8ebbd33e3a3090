// SPDX-License-Identifier: MIT
// The contract over every provider of libfabric that runs here, in every mode that it may
// have; all ranks in this process, on loopback. An argument selects tests by cmocka's pattern.
#include "conformance.hh"

#include "backends/ofi/ofi.hh"
#include "backends/wire/wire.hh"

#include <stdexcept>

namespace storm::unit {
namespace {

struct OverOfi : Site {
    explicit OverOfi(const BackendSettings& settings)
    {
        log.set_level(LogLevel::quiet);
        for (int i = 0; i < 3; ++i) {
            BackendSettings own = settings;
            own.world_rank_hint = i;
            own.log = &log;
            std::string why;
            auto transport = ofi::open_transport(own, why);
            auto end = transport != nullptr ? wire::make("ofi", std::move(transport), own, why) : nullptr;
            if (end == nullptr)
                throw std::runtime_error(why);
            ends.push_back(std::move(end));
        }
    }
};

BackendSettings settings_for(const char* provider, const char* ordering, bool verify)
{
    BackendSettings settings;
    settings.memory_max = kSiteMemory;
    settings.nic = std::string(provider) == "shm" ? "" : "lo";
    settings.ofi_provider = provider;
    settings.ordering = ordering;
    settings.verify = verify;
    return settings;
}

// The modes that this provider is good for; none when it does not run here.
std::vector<std::string> modes_of(const char* provider)
{
    std::string why;
    std::vector<std::string> modes;
    const auto transport = ofi::open_transport(settings_for(provider, "auto", false), why);
    if (transport == nullptr)
        print_message("%s is not tested: %s\n", provider, why.c_str());
    for (unsigned mode = 0; transport != nullptr && mode < wire::kModes; ++mode)
        if (wire::allowed(static_cast<wire::Mode>(mode), transport->promises()))
            modes.push_back(wire::mode_name(static_cast<wire::Mode>(mode)));
    return modes;
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm;
    using namespace storm::unit;
    const char* wanted = secure_getenv("CONFORMANCE_RECORDS");
    const auto records = static_cast<unsigned>(wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 5000);
    std::vector<CMUnitTest> tests;
    BackendSettings threaded = settings_for("net", "auto", false);
    threaded.progress_thread = true;
    for (const CMUnitTest& test :
         conformance({"net, with a thread", [threaded] { return std::make_unique<OverOfi>(threaded); }, records}))
        tests.push_back(test);
    for (const char* provider : {"shm", "net", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd"}) {
        for (const std::string& mode : modes_of(provider)) {
            for (const bool verify : {false, true}) {
                const std::string name = std::string(provider) + ", " + mode + (verify ? ", verified" : "");
                const BackendSettings settings = settings_for(provider, mode.c_str(), verify);
                for (const CMUnitTest& test :
                     conformance({name, [settings] { return std::make_unique<OverOfi>(settings); }, records}))
                    tests.push_back(test);
            }
        }
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("ofi", tests.data(), tests.size(), nullptr, nullptr);
}
