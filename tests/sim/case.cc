// SPDX-License-Identifier: MIT
#include "case.hh"

namespace storm::sim {
namespace {

constexpr int kTags = 4;

Step random_step(Random& r, int ranks, bool deaths)
{
    using Kind = Step::Kind;
    Step s;
    s.rank = static_cast<int>(r.below(static_cast<std::uint64_t>(ranks)));
    s.peer = static_cast<int>(r.below(static_cast<std::uint64_t>(ranks)));
    s.comm = static_cast<int>(r.below(3));
    s.tag = static_cast<int>(r.below(kTags));
    s.which = static_cast<int>(r.below(1000));
    s.typed = r.one_in(6);
    const std::uint64_t limits[] = {40, 300, 2500, 9000, 20000};
    s.bytes = r.below(limits[r.below(5)]);
    const storm::Mode modes[] = {storm::Mode::standard, storm::Mode::standard, storm::Mode::synchronous,
                                 storm::Mode::buffered};
    s.mode = modes[r.below(4)];
    const std::uint64_t kind = r.below(100);
    s.kind = kind < 26   ? Kind::isend
             : kind < 34 ? Kind::send
             : kind < 37 ? Kind::persist
             : kind < 56 ? Kind::irecv
             : kind < 59 ? Kind::restart
             : kind < 65 ? Kind::probe
             : kind < 72 ? Kind::matched
             : kind < 86 ? Kind::complete
             : kind < 89 ? Kind::cancel
             : kind < 96 ? Kind::compute
             : kind < 98 ? Kind::collective
                         : Kind::drop_link;
    if (s.kind == Kind::irecv || s.kind == Kind::restart || s.kind == Kind::probe || s.kind == Kind::matched) {
        if (r.one_in(3))
            s.peer = MPI_ANY_SOURCE;
        if (r.one_in(3))
            s.tag = MPI_ANY_TAG;
    }
    if (s.kind == Kind::send)
        s.bytes %= 4000;
    const Time times[] = {kMicrosecond, 20 * kMicrosecond, kMillisecond, 20 * kMillisecond};
    s.time = r.below(times[r.below(4)]);
    if (deaths && s.kind == Kind::cancel && r.one_in(3))
        s.kind = Kind::die;
    return s;
}

} // namespace

Case make_case(const CaseChoice& choice)
{
    Random r(choice.seed * 77 + 1);
    Case c;
    c.seed = choice.seed;
    WorldOptions& w = c.world;
    w.ranks = 2 + static_cast<int>(r.below(4));
    w.seed = choice.seed;
    w.row = choice.row;
    w.mode = choice.mode;
    w.settings.ring_min = 8192;
    w.settings.ring_max = std::uint64_t{8192} << r.below(4);
    w.settings.eager_max = r.one_in(3) ? 2000 : 12000;
    w.settings.send_buffer = r.one_in(3) ? 5000 : 1 << 24;
    w.settings.poll_native = 1 + r.below(4);
    w.settings.tags = choice.half_tags ? "0-1" : "all";
    w.settings.memory_max = r.one_in(4) ? 60000 : 1 << 22;
    w.fabric.seed = choice.seed;
    const Time delays[] = {400, 5 * kMicrosecond, 50 * kMicrosecond};
    w.fabric.delay_max = delays[r.below(3)];
    w.fabric.stalls_one_in = r.one_in(3) ? 0 : 20;
    w.fabric.room = r.one_in(3) ? 4 : 64;
    w.native.seed = choice.seed;
    w.native.delay_max = delays[r.below(3)];
    w.native.eager_max = r.one_in(2) ? 4032 : 100;
    const std::uint64_t steps = 20 + r.below(180);
    for (std::uint64_t i = 0; i < steps; ++i) {
        Step s = random_step(r, w.ranks, choice.deaths);
        c.steps.push_back(s);
        // a burst
        for (std::uint64_t more = s.kind == Step::Kind::isend && r.one_in(8) ? r.below(40) : 0; more > 0; --more) {
            s.bytes = r.below(200);
            c.steps.push_back(s);
        }
    }
    return c;
}

std::string text_of(const Step& s)
{
    const auto word = [](int n, int any) { return n == any ? std::string("any") : std::to_string(n); };
    static constexpr const char* kNames[] = {"isend", "send", "persist", "irecv", "restart", "probe", "matched",
                                             "complete", "cancel", "compute", "collective", "drop_link", "die"};
    static constexpr const char* kModes[] = {"standard", "synchronous", "ready", "buffered"};
    std::string text = "rank " + std::to_string(s.rank) + " " + kNames[static_cast<int>(s.kind)];
    const bool message = s.kind <= Step::Kind::matched;
    if (message)
        text += " peer " + word(s.peer, MPI_ANY_SOURCE) + " tag " + word(s.tag, MPI_ANY_TAG) + " communicator " +
                std::to_string(s.comm);
    if (s.kind <= Step::Kind::persist)
        text += " bytes " + std::to_string(s.bytes) + " " + kModes[static_cast<int>(s.mode)];
    if (s.kind == Step::Kind::compute || s.kind == Step::Kind::drop_link)
        text += " ns " + std::to_string(s.time);
    if (message && s.typed)
        text += " typed";
    return text;
}

} // namespace storm::sim
