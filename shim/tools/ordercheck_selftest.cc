// SPDX-License-Identifier: MIT
#include "ordercheck_selftest.hh"

#include "order_rounds.hh"

#include "backends/wire/adversary.hh"
#include "backends/wire/wire.hh"

#include <cstdio>
#include <vector>

namespace storm::order {
namespace {

// The promise that a mode rests on, alone.
wire::Promises promise_of(wire::Mode mode)
{
    wire::Promises p{.provider = "adversary"};
    switch (mode) {
    case wire::Mode::stamped:
        p.whole_lines = true; // what spares it the checksums
        break;
    case wire::Mode::complete:
        p.delivery_complete = true;
        break;
    case wire::Mode::remote_cq:
        p.remote_cq = true;
        break;
    case wire::Mode::ordered:
        p.placement_order = true;
        break;
    case wire::Mode::fence:
        p.fenced = true;
        break;
    }
    return p;
}

void look(std::vector<std::unique_ptr<Backend>>& ends)
{
    for (auto& end : ends)
        end->progress();
    for (int i = 0; i < 2; ++i) {
        Word word;
        while (ends[static_cast<std::size_t>(i)]->next_word(word)) {
            word.peer = i;
            ends[static_cast<std::size_t>(1 - i)]->take_word(word);
        }
    }
}

} // namespace

Finding try_order(const Trial& trial)
{
    constexpr std::uint64_t kRing = 16384;
    wire::Promises kept = trial.keeps ? promise_of(trial.mode) : wire::Promises{};
    wire::Promises declared = promise_of(trial.mode);
    kept.auto_progress = declared.auto_progress = trial.seed % 2 == 0;
    wire::Adversary fabric({.seed = trial.seed, .declared = declared, .kept = kept});
    Log log;
    log.set_level(LogLevel::quiet);
    std::vector<std::unique_ptr<Backend>> ends;
    Finding finding;
    for (int i = 0; i < 2; ++i) {
        BackendSettings settings;
        settings.world_rank_hint = i;
        settings.memory_max = 1 << 20;
        settings.log = &log;
        settings.ordering = wire::mode_name(trial.mode);
        settings.verify = trial.verify;
        std::string why;
        ends.push_back(wire::make("adversary", fabric.attach(i), settings, why, {.trust = true}));
    }
    Lane out, in;
    std::string why;
    while (ends[0]->claim(1, ends[1]->address(), kRing, out, why) == Status::again)
        look(ends);
    if (ends[1]->open(0, out.ref, kRing, in) != Status::ok) {
        finding.broken = "no ring: " + why;
        return finding;
    }
    const Plan plan{.payload_max = kRing / 8};
    Producer producer(*ends[0], 1, out, plan);
    Consumer consumer(in, plan);
    constexpr unsigned kPatience = 20000;
    for (unsigned barren = 0; barren < kPatience && !consumer.lost() && consumer.rounds() < trial.rounds; ++barren) {
        for (int i = 0; i < 5 && producer.rounds() < trial.rounds && producer.step(); ++i) {
        }
        look(ends);
        if (consumer.step())
            barren = 0;
        int peer;
        finding.stopped = finding.stopped || ends[1]->torn(peer, why) || ends[0]->torn(peer, why);
        if (finding.stopped)
            break;
    }
    finding.rounds = consumer.rounds();
    // what stands still was sent and never announced: the commit word was lost
    finding.torn = consumer.torn() + (finding.stopped || consumer.rounds() == trial.rounds || consumer.lost() ? 0 : 1);
    finding.broken = fabric.broken().empty() ? "" : fabric.broken().front();
    return finding;
}

bool selftest()
{
    bool all = true;
    for (unsigned mode = 0; mode < wire::kModes; ++mode) {
        for (const bool keeps : {true, false}) {
            for (const bool verify : {false, true}) {
                std::uint64_t torn = 0, stopped = 0, broken = 0, rounds = 0;
                for (std::uint64_t seed = 1; seed <= 4; ++seed) {
                    const Finding f = try_order({static_cast<wire::Mode>(mode), keeps, verify, seed});
                    torn += f.torn;
                    stopped += f.stopped;
                    broken += !f.broken.empty();
                    rounds += f.rounds;
                }
                // a promise that is broken is seen by the checker, or by STORM_VERIFY before it;
                // stamped cells that are verified have checksums and need no promise
                const bool spared = verify && static_cast<wire::Mode>(mode) == wire::Mode::stamped;
                const bool must_tear = !keeps && !spared;
                const bool right = broken == 0 && (must_tear ? (verify ? torn == 0 && stopped != 0 : torn != 0)
                                                             : torn == 0 && stopped == 0);
                std::printf("%-9s  promise %s%s: %llu rounds, %llu torn%s  %s\n",
                            wire::mode_name(static_cast<wire::Mode>(mode)), keeps ? "kept  " : "broken",
                            verify ? ", verified" : "          ", static_cast<unsigned long long>(rounds),
                            static_cast<unsigned long long>(torn), stopped != 0 ? ", stopped" : "",
                            right ? "as it must be" : "WRONG");
                all = all && right;
            }
        }
    }
    std::printf("%s\n", all ? "the checker finds every broken promise and nothing else"
                            : "THE CHECKER IS NOT TO BE TRUSTED");
    return all;
}

} // namespace storm::order
