// SPDX-License-Identifier: MIT
// The contract over the backends that need no fabric: loop, shared memory, and the rings of
// wire/ over a fabric that breaks whatever it has not promised, in every mode that its
// promises allow.
#include "conformance.hh"

#include "backends/loop/loop.hh"
#include "backends/wire/adversary.hh"
#include "backends/wire/wire.hh"

#include <stdexcept>

extern "C" {
extern const storm::BackendPlugin storm_backend; // backends/shm/shm.cc, compiled in
}

namespace storm::unit {
namespace {

struct OverLoop : Site {
    OverLoop() : fabric({.seed = 3, .memory_max = kSiteMemory})
    {
        for (int i = 0; i < 3; ++i)
            ends.push_back(fabric.attach(i));
    }
    ~OverLoop() override { ends.clear(); }
    std::string broken() override { return fabric.broken().empty() ? "" : fabric.broken().front(); }
    bool reconnects() const override { return false; }
    bool drops_first() const override { return true; }
    loop::Fabric fabric;
};

struct OverShm : Site {
    OverShm()
    {
        log.set_level(LogLevel::quiet);
        for (int i = 0; i < 3; ++i) {
            std::string why;
            ends.emplace_back(storm_backend.open({i, kSiteMemory, &log}, why));
            if (ends.back() == nullptr)
                throw std::runtime_error(why);
        }
    }
};

struct OverWire : Site {
    OverWire(const wire::AdversaryOptions& options, const BackendSettings& settings) : fabric(options)
    {
        log.set_level(LogLevel::quiet);
        for (int i = 0; i < 3; ++i) {
            BackendSettings own = settings;
            own.world_rank_hint = i;
            own.log = &log;
            std::string why;
            ends.push_back(wire::make("adversary", fabric.attach(i), own, why));
            if (ends.back() == nullptr)
                throw std::runtime_error(why);
        }
    }
    ~OverWire() override { ends.clear(); }
    std::string broken() override { return fabric.broken().empty() ? "" : fabric.broken().front(); }
    wire::Adversary fabric;
};

Trials over_wire(const std::string& ordering, const wire::Promises& promises, bool verify, unsigned records)
{
    BackendSettings settings;
    settings.memory_max = kSiteMemory;
    settings.ordering = ordering;
    settings.verify = verify;
    const wire::AdversaryOptions options{.seed = 11, .declared = promises, .kept = promises};
    std::string name = "wire, " + ordering + (promises.whole_lines ? ", whole lines" : "") +
                       (promises.auto_progress ? ", automatic progress" : "") + (verify ? ", verified" : "");
    return {name, [=] { return std::make_unique<OverWire>(options, settings); }, records};
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    using storm::wire::Promises;
    const char* wanted = secure_getenv("CONFORMANCE_RECORDS");
    const auto records = static_cast<unsigned>(wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 20000);
    std::vector<Trials> all = {{"loop", [] { return std::make_unique<OverLoop>(); }, records},
                               {"shm", [] { return std::make_unique<OverShm>(); }, records}};
    const std::pair<const char*, Promises> fabrics[] = {
        {"stamped", {.provider = "torn"}},
        {"stamped", {.provider = "lines", .whole_lines = true}},
        {"complete", {.provider = "flush", .delivery_complete = true}},
        {"remote-cq", {.provider = "events", .remote_cq = true}},
        {"ordered", {.provider = "order", .placement_order = true}},
        {"fence", {.provider = "fences", .fenced = true}},
    };
    for (const auto& [mode, promises] : fabrics) {
        for (const int how : {0, 1, 2, 3}) {
            Promises these = promises;
            these.auto_progress = (how & 1) != 0;
            all.push_back(over_wire(mode, these, (how & 2) != 0, records / 4));
        }
    }
    std::vector<CMUnitTest> tests;
    for (const Trials& trials : all)
        for (const CMUnitTest& test : conformance(trials))
            tests.push_back(test);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("conformance", tests.data(), tests.size(), nullptr, nullptr);
}
