// SPDX-License-Identifier: MIT
// shim/ring.hh: what a ring promises to its sender and to its receiver.
#include "cmocka.hh"

#include "ring.hh"

#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace storm::unit {
namespace {

struct Rings {
    static constexpr std::uint64_t kBytes = 8192;

    Rings() { open(kBytes); }
    void open(std::uint64_t bytes)
    {
        memory = std::make_unique<Line[]>(bytes / sizeof(Line));
        head = 0;
        const Lane lane{first(), bytes, &head, 1};
        out = RingWriter(lane);
        in = RingReader(lane);
    }

    bool put(std::uint64_t payload, std::byte fill = std::byte{1})
    {
        std::byte* at = out.reserve(payload);
        if (at == nullptr)
            return false;
        std::fill_n(at, payload, fill);
        out.commit(Kind::eager, 0, payload, 7, 3);
        return true;
    }
    bool get(RecordHeader& header)
    {
        const std::byte* at = in.peek(header);
        if (at == nullptr)
            return false;
        sound = sound && in.sound(header);
        in.pop(header);
        return true;
    }

    std::byte* first() { return memory[0].bytes; }

    struct alignas(64) Line {
        std::byte bytes[64] = {};
    };
    std::unique_ptr<Line[]> memory;
    std::atomic<std::uint64_t> head{0};
    RingWriter out;
    RingReader in;
    bool sound = true;
    std::deque<std::vector<std::byte>> expected;
    std::string problem;
    std::thread sender;
};

void empty_ring_gives_nothing(Rings& f)
{
    RecordHeader header;
    assert_null(f.in.peek(header));
    assert_int_equal(*f.in.word(), 0);
}

void record_arrives_as_it_was_committed(Rings& f)
{
    std::byte* at = f.out.reserve(5);
    std::memcpy(at, "hello", 5);
    assert_null([&] { RecordHeader h; return f.in.peek(h); }()); // not before the commit
    f.out.commit(Kind::first, kSynchronous, 5, -3, 42);
    RecordHeader header;
    const std::byte* found = f.in.peek(header);
    assert_non_null(found);
    assert_true(f.in.sound(header));
    assert_int_equal(header.kind, Kind::first);
    assert_int_equal(header.flags, kSynchronous);
    assert_int_equal(header.bytes, 5);
    assert_int_equal(header.tag, -3);
    assert_int_equal(header.comm, 42);
    assert_memory_equal(found, "hello", 5);
    f.in.pop(header);
    assert_null(f.in.peek(header));
}

void full_ring_keeps_room_for_a_control_record(Rings& f)
{
    for (const std::uint64_t payload : {0, 8, 100, 333, 1000}) {
        f.open(Rings::kBytes);
        while (f.put(payload)) {
        }
        assert_null(f.out.reserve(payload));
        std::byte* at = f.out.reserve_control(sizeof(GrowPrefix));
        assert_non_null(at);
        std::memset(at, 0, sizeof(GrowPrefix));
        f.out.commit(Kind::grow, 0, sizeof(GrowPrefix), 0, 0);
        RecordHeader header{};
        while (f.get(header)) {
        }
        assert_true(f.sound);
        assert_int_equal(header.kind, Kind::grow);
    }
}

void full_ring_takes_again_when_some_is_consumed(Rings& f)
{
    while (f.put(496)) {
    }
    RecordHeader header;
    for (int i = 0; i < 8; ++i)
        assert_true(f.get(header));
    assert_true(f.put(496));
}

void record_that_does_not_fit_before_the_end_begins_anew(Rings& f)
{
    RecordHeader header;
    for (int i = 0; i < 7; ++i) {
        assert_true(f.put(1000));
        assert_true(f.get(header));
    }
    assert_true(f.put(1500)); // 7 * 1024 are written: 1024 are left before the end
    const std::byte* found = f.in.peek(header);
    assert_ptr_equal(found, f.first() + sizeof(RecordHeader));
    assert_true(f.in.sound(header));
    assert_int_equal(header.bytes, 1500);
}

void record_may_end_where_the_ring_ends(Rings& f)
{
    RecordHeader header;
    for (int i = 0; i < 24; ++i) {
        assert_true(f.put(1008)); // eight records of 1024 bytes are one lap
        assert_true(f.get(header));
        assert_int_equal(header.bytes, 1008);
    }
    assert_true(f.sound);
    assert_null(f.in.peek(header));
}

void largest_record_fits_once_all_is_consumed(Rings& f)
{
    RecordHeader header;
    for (std::uint64_t before = 0; before < 2 * Rings::kBytes; before += 16) {
        f.open(Rings::kBytes);
        for (std::uint64_t done = 0; done < before; done += 16) {
            assert_true(f.put(0));
            assert_true(f.get(header));
        }
        expect_that(f.put(f.out.largest_payload()), "refused after %d bytes", static_cast<int>(before));
        assert_true(f.get(header));
    }
    assert_true(f.sound);
}

void head_is_published_after_a_quarter_at_the_latest(Rings& f)
{
    RecordHeader header;
    std::uint64_t consumed = 0;
    for (int i = 0; i < 1000; ++i) {
        assert_true(f.put(static_cast<std::uint64_t>(i % 300)));
        assert_true(f.get(header));
        consumed = f.out.tail();
        assert_true(consumed - f.head.load() < Rings::kBytes / 4);
    }
}

void publish_head_frees_all_that_was_read(Rings& f)
{
    RecordHeader header;
    assert_true(f.put(32));
    assert_true(f.get(header));
    assert_int_equal(f.head.load(), 0);
    f.in.publish_head();
    assert_int_equal(f.out.used(), 0);
}

void record_of_a_wrong_turn_is_not_sound(Rings& f)
{
    assert_true(f.put(16));
    assert_true(f.put(16));
    RecordHeader header;
    assert_true(f.get(header));
    auto* second = f.first() + record_bytes(16);
    RecordHeader stale;
    std::memcpy(&stale, second, sizeof stale);
    ++stale.turn;
    std::memcpy(second, &stale, sizeof stale);
    assert_non_null(f.in.peek(header));
    assert_false(f.in.sound(header));
}

void record_longer_than_the_ring_is_not_sound(Rings& f)
{
    assert_true(f.put(16));
    RecordHeader header;
    std::memcpy(&header, f.first(), sizeof header);
    for (const std::uint32_t bytes : {std::uint32_t{Rings::kBytes}, UINT32_MAX}) {
        header.bytes = bytes;
        std::memcpy(f.first(), &header, sizeof header);
        RecordHeader seen;
        assert_non_null(f.in.peek(seen));
        assert_false(f.in.sound(seen));
    }
}

void record_of_unknown_kind_is_not_sound(Rings& f)
{
    assert_true(f.put(16));
    RecordHeader header;
    std::memcpy(&header, f.first(), sizeof header);
    header.kind = static_cast<Kind>(static_cast<int>(Kind::last_kind) + 1);
    std::memcpy(f.first(), &header, sizeof header);
    RecordHeader seen;
    assert_non_null(f.in.peek(seen));
    assert_false(f.in.sound(seen));
}

void high_water_is_the_fullest_that_was_seen(Rings& f)
{
    while (f.put(496)) {
    }
    const std::uint64_t full = f.out.high_water();
    assert_int_equal(full, f.out.tail());
    RecordHeader header;
    while (f.get(header)) {
    }
    assert_true(f.put(496));
    assert_int_equal(f.out.high_water(), full);
}

void every_byte_arrives_in_order(Rings& f)
{
    for (unsigned seed = 1; seed <= 40; ++seed) {
        std::mt19937 random(seed);
        f.open(std::uint64_t{4096} << random() % 4);
        f.expected.clear();
        for (int step = 0; step < 4000; ++step) {
            if (random() % 2 == 0) {
                const std::uint64_t payload = random() % (f.out.largest_payload() + 1);
                if (std::byte* at = f.out.reserve(payload); at != nullptr) {
                    auto& bytes = f.expected.emplace_back(payload);
                    for (auto& b : bytes)
                        b = static_cast<std::byte>(random());
                    std::copy(bytes.begin(), bytes.end(), at);
                    f.out.commit(Kind::eager, 0, payload, step, seed);
                }
                continue;
            }
            RecordHeader header;
            const std::byte* at = f.in.peek(header);
            expect_that((at == nullptr) == f.expected.empty(), "seed %u, step %d", seed, step);
            if (at == nullptr)
                continue;
            expect_that(f.in.sound(header) && header.bytes == f.expected.front().size() &&
                            std::equal(f.expected.front().begin(), f.expected.front().end(), at),
                        "seed %u, step %d", seed, step);
            f.expected.pop_front();
            f.in.pop(header);
        }
    }
}

// One thread writes, this one reads: what a record says is what its bytes are.
void two_threads_see_whole_records(Rings& f)
{
    constexpr std::uint32_t kRecords = 1000000;
    f.open(65536);
    f.sender = std::thread([&f] {
        for (std::uint32_t i = 0; i < kRecords; ++i) {
            const std::uint64_t payload = i % 61 * 8;
            std::byte* at;
            while ((at = f.out.reserve(payload)) == nullptr)
                std::this_thread::yield();
            const std::uint64_t word = i * 0x9e3779b97f4a7c15u;
            for (std::uint64_t b = 0; b < payload; b += 8)
                std::memcpy(at + b, &word, 8);
            f.out.commit(Kind::eager, 0, payload, static_cast<std::int32_t>(i), i);
        }
    });
    for (std::uint32_t i = 0; i < kRecords && f.problem.empty();) {
        RecordHeader header;
        const std::byte* at = f.in.peek(header);
        if (at == nullptr) {
            std::this_thread::yield();
            continue;
        }
        bool right = f.in.sound(header) && header.comm == i && header.bytes == i % 61 * 8;
        for (std::uint64_t b = 0; right && b < header.bytes; b += 8) {
            std::uint64_t word;
            std::memcpy(&word, at + b, 8);
            right = word == i * 0x9e3779b97f4a7c15u;
        }
        if (!right)
            f.problem = "record " + std::to_string(i);
        f.in.pop(header);
        ++i;
    }
    if (!f.problem.empty())
        f.sender.detach(); // it may wait for room that nobody will make
    else
        f.sender.join();
    expect_that(f.problem.empty(), "torn: %s", f.problem.c_str());
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Rings, empty_ring_gives_nothing),
        UNIT(Rings, record_arrives_as_it_was_committed),
        UNIT(Rings, full_ring_keeps_room_for_a_control_record),
        UNIT(Rings, full_ring_takes_again_when_some_is_consumed),
        UNIT(Rings, record_that_does_not_fit_before_the_end_begins_anew),
        UNIT(Rings, record_may_end_where_the_ring_ends),
        UNIT(Rings, largest_record_fits_once_all_is_consumed),
        UNIT(Rings, head_is_published_after_a_quarter_at_the_latest),
        UNIT(Rings, publish_head_frees_all_that_was_read),
        UNIT(Rings, record_of_a_wrong_turn_is_not_sound),
        UNIT(Rings, record_longer_than_the_ring_is_not_sound),
        UNIT(Rings, record_of_unknown_kind_is_not_sound),
        UNIT(Rings, high_water_is_the_fullest_that_was_seen),
        UNIT(Rings, every_byte_arrives_in_order),
        UNIT(Rings, two_threads_see_whole_records),
    };
    return run_all(tests, argc, argv);
}
