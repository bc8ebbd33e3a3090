// SPDX-License-Identifier: MIT
// backends/wire/: checksums, cells, the matrix of publication modes, memory, the keepalive,
// what a dead link leaves, and that each mode is caught where its promise is broken.
#include "cmocka.hh"

#include "backends/wire/adversary.hh"
#include "backends/wire/cells.hh"
#include "backends/wire/pulse.hh"
#include "backends/wire/slab.hh"
#include "backends/wire/wire.hh"
#include "tools/ordercheck_selftest.hh"

#include "conformance.hh"

#include <chrono>
#include <random>
#include <thread>

namespace storm::wire {
namespace {

using unit::Nothing;

void crc32c_has_its_known_value(Nothing&)
{
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_by_table(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
}

void table_and_instruction_agree(Nothing&)
{
    std::mt19937_64 random(1);
    std::byte bytes[500];
    for (std::byte& b : bytes)
        b = static_cast<std::byte>(random());
    for (std::size_t at = 0; at < 9; ++at)
        for (std::size_t n = 0; n + at <= sizeof bytes; ++n)
            assert_int_equal(crc32c(7, bytes + at, n), crc32c_by_table(7, bytes + at, n));
}

void every_bit_of_a_cell_is_in_its_checksum(Nothing&)
{
    alignas(64) std::byte cell[1024];
    for (const std::uint16_t used : {std::uint16_t{0}, std::uint16_t{32}, std::uint16_t{400}}) {
        for (std::size_t i = 0; i < sizeof cell; ++i)
            cell[i] = static_cast<std::byte>(i * 7);
        seal_cell(cell, {3, 0, used, kData, kLast, 5}, true);
        CellHead head;
        assert_true(open_cell(cell, 3, sizeof cell, true, head));
        for (std::size_t bit = 0; bit < (sizeof head + used) * 8; ++bit) {
            cell[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
            std::uint32_t lap; // also when the reader expects the lap that now stands there
            std::memcpy(&lap, cell, sizeof lap);
            expect_that(!open_cell(cell, lap, sizeof cell, true, head), "bit %zu of a cell of %u", bit, used);
            cell[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        }
    }
}

void signals_survive_their_number(Nothing&)
{
    const Signal s{2047, 200, true, Signal::kUnitsMax}, t = Signal::of(s.number());
    assert_true(t.slot == s.slot && t.turn == s.turn && t.more && t.units == s.units);
    const Signal u = Signal::of(Signal{1, 0, false, 1}.number());
    assert_true(u.slot == 1 && u.turn == 0 && !u.more && u.units == 1);
}

void each_mode_needs_its_promise(Nothing&)
{
    const Promises kinds[kModes] = {{.provider = "p"},
                                    {.provider = "p", .delivery_complete = true},
                                    {.provider = "p", .remote_cq = true},
                                    {.provider = "p", .placement_order = true},
                                    {.provider = "p", .fenced = true}};
    for (unsigned mode = 0; mode < kModes; ++mode) {
        for (unsigned kind = 0; kind < kModes; ++kind) {
            Mode chosen;
            std::string why;
            const Status status = choose_mode(mode_name(static_cast<Mode>(mode)), kinds[kind], chosen, why);
            assert_true((status == Status::ok) == (mode == 0 || mode == kind));
            if (status == Status::ok)
                continue;
            const bool told = why.find(needed_by(static_cast<Mode>(mode))) != why.npos && why.find(" p,") != why.npos;
            expect_that(told, "%s", why.c_str());
        }
    }
}

void usual_modes_are_allowed_by_their_rows(Nothing&)
{
    const std::pair<const char*, const char*> names[] = {
        {"shm", ""}, {"net", ""}, {"tcp", "ofi_rxm"}, {"sockets", ""}, {"udp", "ofi_rxd"}, {"verbs", "ofi_rxm"},
        {"verbs", ""}, {"verbs-ib", ""}, {"verbs-iwarp", ""}, {"efa", "ofi_rxr"}, {"cxi", ""}, {"psm3", ""}};
    for (const auto& [provider, core] : names) {
        const Promises& p = promises_of(provider, core);
        expect_that(std::string(p.provider) == provider && allowed(p.usual, p), "%s", provider);
    }
    const Promises& unknown = promises_of("something", "else");
    assert_true(unknown.usual == Mode::stamped && !unknown.remote_cq && !unknown.placement_order);
}

struct Memory {
    Memory() : fabric({}), end(fabric.attach(0)), slab(*end, 1 << 20, "STORM_MEMORY_MAX") {}
    Adversary fabric;
    std::unique_ptr<Transport> end;
    Slab slab;
};

void memory_that_is_given_back_is_had_again(Memory& m)
{
    std::string why;
    for (int round = 0; round < 100; ++round) {
        Piece pieces[4];
        for (Piece& piece : pieces) {
            assert_int_equal(m.slab.take(200 << 10, piece, why), Status::ok);
            for (std::uint64_t i = 0; i < piece.bytes; i += 8)
                assert_true(piece.at[i] == std::byte{0});
            piece.at[0] = std::byte{1};
        }
        Piece more;
        assert_int_equal(m.slab.take(300 << 10, more, why), Status::refused);
        expect_that(why.find("STORM_MEMORY_MAX") != why.npos, "%s", why.c_str());
        for (const unsigned i : {2U, 0U, 3U, 1U})
            m.slab.give(pieces[i]);
        assert_int_equal(m.slab.in_use(), 0);
    }
}

void living_peers_answer_and_dead_ones_do_not(Nothing&)
{
    std::string why;
    auto asker = Pulse::open("127.0.0.1", why), alive = Pulse::open("127.0.0.1", why);
    expect_that(asker != nullptr && alive != nullptr, "%s", why.c_str());
    std::string gone;
    {
        const auto dead = Pulse::open("127.0.0.1", why);
        gone = dead->address();
    }
    std::string stranger = alive->address(); // another process at the same port
    stranger.back() = stranger.back() == '0' ? '1' : '0';
    for (int i = 0; i < 2000 && asker->answers(1) == 0; ++i) {
        asker->ask(1, alive->address());
        asker->ask(2, gone);
        asker->ask(3, stranger);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    assert_true(asker->answers(1) != 0);
    assert_int_equal(asker->answers(2), 0);
    assert_int_equal(asker->answers(3), 0);
    asker->ask(1, "no address");
    assert_true(Pulse::open("no host", why) == nullptr);
}

// Two ranks over an adversary whose links can be cut.
struct Cut : unit::Site {
    Cut() : fabric({.seed = 5, .declared = {.provider = "torn"}, .kept = {.provider = "torn"}})
    {
        log.set_level(LogLevel::quiet);
        for (int i = 0; i < 2; ++i) {
            BackendSettings settings;
            settings.world_rank_hint = i;
            settings.memory_max = unit::kSiteMemory;
            settings.log = &log;
            std::string why;
            ends.push_back(make("adversary", fabric.attach(i), settings, why));
        }
    }
    ~Cut() override { ends.clear(); }
    Adversary fabric;
};

void cut_link_is_told_once_and_its_mirror_can_be_read(Cut& s)
{
    unit::Link link(s, 0, 1);
    assert_true(link.claim() == Status::ok && link.found());
    for (int i = 0; i < 20; ++i)
        assert_true(link.put(i));
    s.fabric.cut(0, 1, true);
    s.settle();
    int peer = -1;
    std::string why;
    assert_true(s[0].failed(peer, why));
    assert_int_equal(peer, 1);
    expect_that(why.find("adversary") != why.npos, "%s", why.c_str());
    assert_false(s[0].failed(peer, why));
    assert_true(s[0].placed()); // failed peers do not count
    assert_true(link.put(20));  // into the mirror, and nowhere else
    RingReader mirror(Lane{link.lane.base, link.lane.bytes, link.lane.head, 0});
    RecordHeader header;
    assert_non_null(mirror.peek(header)); // what is to be replayed
    Lane lane;
    assert_int_equal(s[0].claim(1, s[1].address(), unit::kRingBytes, lane, why), Status::refused);
    s[0].abandon(1);
    s[1].strand(0, link.in.lane());
    s.settle();
}

void weak_modes_are_caught_and_right_ones_are_not(Nothing&)
{
    for (unsigned mode = 0; mode < kModes; ++mode) {
        std::uint64_t torn = 0;
        for (std::uint64_t seed = 10; seed < 14; ++seed) {
            const order::Finding kept = order::try_order({static_cast<Mode>(mode), true, false, seed, 1500});
            expect_that(kept.torn == 0 && kept.rounds == 1500 && kept.broken.empty(), "%s: %llu of %llu torn; %s",
                        mode_name(static_cast<Mode>(mode)), static_cast<unsigned long long>(kept.torn),
                        static_cast<unsigned long long>(kept.rounds), kept.broken.c_str());
            torn += order::try_order({static_cast<Mode>(mode), false, false, seed, 1500}).torn;
        }
        expect_that(torn != 0, "%s on a fabric that breaks its promise", mode_name(static_cast<Mode>(mode)));
    }
}

void verification_stops_what_would_be_torn(Nothing&)
{
    for (const Mode mode : {Mode::complete, Mode::remote_cq, Mode::ordered, Mode::fence}) {
        unsigned stopped = 0;
        for (std::uint64_t seed = 20; seed < 24; ++seed) {
            const order::Finding f = order::try_order({mode, false, true, seed, 1500});
            expect_that(f.torn == 0, "%s delivered %llu torn records", mode_name(mode),
                        static_cast<unsigned long long>(f.torn));
            stopped += f.stopped;
        }
        expect_that(stopped != 0, "%s", mode_name(mode));
    }
}

} // namespace
} // namespace storm::wire

int main(int argc, char** argv)
{
    using namespace storm::wire;
    const CMUnitTest tests[] = {
        UNIT(Nothing, crc32c_has_its_known_value),
        UNIT(Nothing, table_and_instruction_agree),
        UNIT(Nothing, every_bit_of_a_cell_is_in_its_checksum),
        UNIT(Nothing, signals_survive_their_number),
        UNIT(Nothing, each_mode_needs_its_promise),
        UNIT(Nothing, usual_modes_are_allowed_by_their_rows),
        UNIT(Memory, memory_that_is_given_back_is_had_again),
        UNIT(Nothing, living_peers_answer_and_dead_ones_do_not),
        UNIT(Cut, cut_link_is_told_once_and_its_mirror_can_be_read),
        UNIT(Nothing, weak_modes_are_caught_and_right_ones_are_not),
        UNIT(Nothing, verification_stops_what_would_be_torn),
    };
    return run_all(tests, argc, argv);
}
