// SPDX-License-Identifier: MIT
// shim/base/backend.hh: the contract, one body for every backend.
#include "cmocka.hh"

#include "ring.hh"

#include "backends/loop/loop.hh"

#include <memory>
#include <stdexcept>
#include <vector>

extern "C" {
extern const storm::BackendPlugin storm_backend; // backends/shm/shm.cc, compiled in
}

namespace storm::unit {
namespace {

constexpr std::uint64_t kBytes = 8192, kMemory = 1 << 20;

// Three ranks with a backend each; rank 0 sends to rank 1.
struct Ends {
    virtual ~Ends()
    {
        ends.clear();
    }
    Backend& operator[](int rank) { return *ends[static_cast<std::size_t>(rank)]; }

    // Enough calls for whatever is under way.
    void pass()
    {
        for (int i = 0; i < 2000; ++i)
            for (auto& end : ends)
                end->progress();
    }
    void claim(int from = 0, int to = 1)
    {
        Lane lane;
        claimed = (*this)[from].claim(to, (*this)[to].address(), kBytes, lane, why);
        out = RingWriter(lane);
        announced = 0;
    }
    bool accept(int at = 1)
    {
        pass();
        if (*(*this)[at].doorbell() == 0 || !(*this)[at].accept(found))
            return false;
        in = RingReader(found.lane);
        return true;
    }
    bool put(Kind kind, const void* payload, std::uint64_t bytes)
    {
        std::byte* at = kind == Kind::grow ? out.reserve_control(bytes) : out.reserve(bytes);
        if (at == nullptr)
            return false;
        std::memcpy(at, payload, bytes);
        out.commit(kind, 0, bytes, 0, 0);
        (*this)[0].publish(1, out.lane(), announced, out.tail());
        announced = out.tail();
        return true;
    }
    bool put(int number) { return put(Kind::eager, &number, sizeof number); }
    int get()
    {
        RecordHeader header;
        const std::byte* at = in.peek(header);
        if (at == nullptr)
            return -1;
        int number;
        std::memcpy(&number, at, sizeof number);
        const bool sound = in.sound(header) && header.kind == Kind::eager;
        in.pop(header);
        return sound ? number : -2;
    }

    std::vector<std::unique_ptr<Backend>> ends;
    Log log;
    RingWriter out;
    RingReader in;
    std::uint64_t announced = 0;
    Claim found;
    Status claimed = Status::again;
    std::string why;
    int next_in = 0, next_out = 0;
};

struct OverLoop : Ends {
    OverLoop() : fabric({.seed = 3, .memory_max = kMemory})
    {
        for (int i = 0; i < 3; ++i)
            ends.push_back(fabric.attach(i));
    }
    ~OverLoop() override { ends.clear(); }
    loop::Fabric fabric;
};

struct OverShm : Ends {
    OverShm()
    {
        log.set_level(LogLevel::quiet);
        for (int i = 0; i < 3; ++i) {
            ends.emplace_back(storm_backend.open({i, kMemory, &log}, why));
            if (ends.back() == nullptr)
                throw std::runtime_error(why);
        }
    }
};

void address_is_a_short_word(Ends& f)
{
    const std::string address = f[0].address();
    assert_true(!address.empty() && address.size() <= 160);
    for (const char c : address)
        assert_true(c > ' ' && c < 127);
    assert_true(f[1].address() != address);
}

void nobody_has_claimed_at_first(Ends& f)
{
    assert_int_equal(*f[1].doorbell(), 0);
    assert_false(f[1].accept(f.found));
}

void claimed_lane_is_found_by_its_receiver(Ends& f)
{
    f.claim();
    assert_int_equal(f.claimed, Status::ok);
    assert_int_equal(f.out.lane().bytes, kBytes);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(f.out.lane().base) % 16, 0);
    assert_true(f.accept());
    assert_int_equal(f.found.peer, 0);
    assert_int_equal(f.found.lane.bytes, kBytes);
    assert_false(f[1].accept(f.found)); // once
}

void claimed_lane_is_zeroed(Ends& f)
{
    f.claim();
    assert_true(f.accept());
    for (std::uint64_t i = 0; i < kBytes; ++i)
        assert_true(f.found.lane.base[i] == std::byte{0} && f.out.lane().base[i] == std::byte{0});
    assert_int_equal(f.found.lane.head->load(), 0);
}

void claims_of_several_senders_are_told_apart(Ends& f)
{
    f.claim(0, 1);
    f.claim(2, 1);
    assert_true(f.accept());
    const int first = f.found.peer;
    assert_true(f.accept());
    assert_true((first == 0 && f.found.peer == 2) || (first == 2 && f.found.peer == 0));
    assert_false(f.accept());
}

void records_arrive_in_order_over_many_laps(Ends& f)
{
    f.claim();
    assert_true(f.accept());
    while (f.next_in < 3000) {
        while (f.next_out < 3000 && f.put(f.next_out))
            ++f.next_out;
        for (int i = 0; i < 3; ++i)
            for (auto& end : f.ends)
                end->progress();
        for (int number = f.get(); number != -1; number = f.get())
            assert_int_equal(number, f.next_in++);
    }
    f.pass();
    assert_int_equal(f.get(), -1);
}

void written_before_it_is_accepted_is_not_lost(Ends& f)
{
    f.claim();
    assert_true(f.put(41));
    assert_true(f.accept());
    assert_int_equal(f.get(), 41);
}

void larger_lane_takes_over_behind_what_was_sent(Ends& f)
{
    f.claim();
    assert_true(f.accept());
    while (f.put(f.next_out))
        ++f.next_out;
    Lane larger;
    assert_int_equal(f[0].grow(1, 2 * kBytes, larger, f.why), Status::ok);
    const GrowPrefix prefix{larger.ref, larger.bytes};
    assert_true(f.put(Kind::grow, &prefix, sizeof prefix));
    f[0].drop(1, f.out.lane());
    f.out = RingWriter(larger);
    f.announced = 0;
    assert_true(f.put(f.next_out));
    f.pass();
    for (int i = 0; i < f.next_out; ++i)
        assert_int_equal(f.get(), i);
    RecordHeader header;
    GrowPrefix told;
    std::memcpy(&told, f.in.peek(header), sizeof told);
    assert_int_equal(header.kind, Kind::grow);
    Lane next;
    assert_int_equal(f[1].open(0, told.ref, told.bytes, next), Status::ok);
    f[1].close(0, f.in.lane());
    f.in = RingReader(next);
    assert_int_equal(f.get(), f.next_out);
    f.in.publish_head();
    f.pass();
    assert_int_equal(f.out.used(), 0);
}

void ring_that_nobody_named_cannot_be_opened(Ends& f)
{
    f.claim();
    assert_true(f.accept());
    Lane lane;
    for (const std::uint64_t ref : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{1} << 40, UINT64_MAX})
        expect_that(f[1].open(0, ref, kBytes, lane) == Status::refused, "%llx",
                    static_cast<unsigned long long>(ref));
}

void strange_addresses_are_refused_with_a_reason(Ends& f)
{
    Lane lane;
    for (const char* address : {"", "x", "1:2:3:4", "loop:2", "1:2:3:4:host"}) {
        f.why.clear();
        expect_that(f[0].claim(1, address, kBytes, lane, f.why) == Status::refused && !f.why.empty(), "%s",
                    address);
    }
}

void memory_that_is_used_up_is_refused_with_a_reason(Ends& f)
{
    f.claim();
    Lane lane, last = f.out.lane();
    std::uint64_t bytes = 2 * kBytes;
    while (f[0].grow(1, bytes, lane, f.why) == Status::ok) {
        assert_true(bytes <= kMemory);
        bytes *= 2;
    }
    assert_false(f.why.empty());
    assert_true(bytes > 2 * kBytes);
    last.base[0] = std::byte{1}; // the old lane stays valid
}

} // namespace
} // namespace storm::unit

namespace {

using namespace storm::unit;

template <class Over, void (*body)(Ends&)>
void over(Over& fixture)
{
    body(fixture);
    if constexpr (std::is_same_v<Over, OverLoop>)
        expect_that(fixture.fabric.broken().empty(), "%s", fixture.fabric.broken().front().c_str());
}

} // namespace

#define UNIT_OF_BACKENDS(name)                                                                     \
    UNIT_NAMED(#name " over loop", OverLoop, (over<OverLoop, name>)),                              \
        UNIT_NAMED(#name " over shm", OverShm, (over<OverShm, name>))

int main(int argc, char** argv)
{
    const CMUnitTest tests[] = {
        UNIT_OF_BACKENDS(address_is_a_short_word),
        UNIT_OF_BACKENDS(nobody_has_claimed_at_first),
        UNIT_OF_BACKENDS(claimed_lane_is_found_by_its_receiver),
        UNIT_OF_BACKENDS(claimed_lane_is_zeroed),
        UNIT_OF_BACKENDS(claims_of_several_senders_are_told_apart),
        UNIT_OF_BACKENDS(records_arrive_in_order_over_many_laps),
        UNIT_OF_BACKENDS(written_before_it_is_accepted_is_not_lost),
        UNIT_OF_BACKENDS(larger_lane_takes_over_behind_what_was_sent),
        UNIT_OF_BACKENDS(ring_that_nobody_named_cannot_be_opened),
        UNIT_OF_BACKENDS(strange_addresses_are_refused_with_a_reason),
        UNIT_OF_BACKENDS(memory_that_is_used_up_is_refused_with_a_reason),
    };
    return run_all(tests, argc, argv);
}
