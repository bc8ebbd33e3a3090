// SPDX-License-Identifier: MIT
#include "conformance.hh"

#include <cstdlib>
#include <deque>
#include <random>
#include <utility>

namespace storm::unit {

void Site::look()
{
    for (auto& end : ends)
        end->progress();
    for (std::size_t i = 0; i < ends.size(); ++i) {
        Word word;
        while (ends[i]->next_word(word)) {
            const int to = std::exchange(word.peer, static_cast<int>(i));
            ends[static_cast<std::size_t>(to)]->take_word(word);
        }
    }
}

void Site::settle()
{
    for (int i = 0; i < 3000; ++i)
        look();
}

Status Link::claim(std::uint64_t bytes)
{
    announced = 0;
    for (unsigned i = 0; i < site.patience(); ++i) {
        const Status status = site[from].claim(to, site[to].address(), bytes, lane, why);
        if (status != Status::again) {
            out = RingWriter(lane);
            return status;
        }
        site.look();
    }
    return Status::again;
}

bool Link::found()
{
    for (unsigned i = 0; i < site.patience(); ++i) {
        Claim claim;
        if (*site[to].doorbell() != 0 && site[to].accept(claim)) {
            in = RingReader(claim.lane);
            return claim.peer == from;
        }
        Lane there;
        if (lane.ref != 0 && site[to].open(from, lane.ref, lane.bytes, there) == Status::ok) {
            in = RingReader(there);
            return true;
        }
        site.look();
    }
    return false;
}

bool Link::put(Kind kind, const void* payload, std::uint64_t bytes)
{
    std::byte* at = kind == Kind::grow ? out.reserve_control(bytes) : out.reserve(bytes);
    if (at == nullptr)
        return false;
    if (bytes != 0)
        std::memcpy(at, payload, bytes);
    out.commit(kind, 0, bytes, 0, 0);
    if (!site[from].direct())
        site[from].publish(to, out.lane(), announced, out.tail());
    announced = out.tail();
    return true;
}

int Link::get()
{
    RecordHeader header;
    const std::byte* at = in.peek(header);
    if (at == nullptr)
        return -1;
    int number = -2;
    if (in.sound(header) && header.kind == Kind::eager && header.bytes >= sizeof number)
        std::memcpy(&number, at, sizeof number);
    in.pop(header);
    return number;
}

int Link::wait()
{
    int number = get();
    for (unsigned i = 0; number == -1 && i < site.patience(); ++i) {
        site.look();
        number = get();
    }
    return number;
}

bool Link::grow(std::uint64_t bytes)
{
    Lane larger;
    Status status = Status::again;
    for (unsigned i = 0; status == Status::again && i < site.patience(); ++i) {
        status = site[from].grow(to, bytes, larger, why);
        site.look();
    }
    if (status != Status::ok)
        return false;
    const GrowPrefix prefix{larger.ref, larger.bytes};
    if (!put(Kind::grow, &prefix, sizeof prefix))
        return false;
    old.push_back(out.lane());
    lane = larger;
    out = RingWriter(larger);
    announced = 0;
    return true;
}

bool Link::follow()
{
    RecordHeader header;
    const std::byte* at = in.peek(header);
    for (unsigned i = 0; at == nullptr && i < site.patience(); ++i) {
        site.look();
        at = in.peek(header);
    }
    GrowPrefix told;
    if (at == nullptr || header.kind != Kind::grow)
        return false;
    std::memcpy(&told, at, sizeof told);
    Lane next;
    if (site[to].open(from, told.ref, told.bytes, next) != Status::ok)
        return false;
    if (site[from].direct() || site.drops_first())
        site[from].drop(to, old.front());
    site[to].close(from, in.lane());
    in = RingReader(next);
    if (old.front().base != nullptr)
        site[from].drop(to, old.front());
    old.erase(old.begin());
    return true;
}

namespace {

void address_is_a_short_word(Site& s, const Trials&)
{
    const std::string address = s[0].address();
    assert_true(!address.empty() && address.size() <= 160);
    for (const char c : address)
        assert_true(c > ' ' && c < 127);
    assert_true(s[1].address() != address);
}

void nobody_has_claimed_at_first(Site& s, const Trials&)
{
    Claim claim;
    assert_int_equal(*s[1].doorbell(), 0);
    assert_false(s[1].accept(claim));
}

void claimed_lane_is_zeroed_and_aligned(Site& s, const Trials&)
{
    Link link(s, 0, 1);
    expect_that(link.claim() == Status::ok, "%s", link.why.c_str());
    assert_int_equal(link.lane.bytes, kRingBytes);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(link.lane.base) % 16, 0);
    assert_true(link.found());
    for (std::uint64_t i = 0; i < kRingBytes; ++i)
        assert_true(link.in.lane().base[i] == std::byte{0} && link.lane.base[i] == std::byte{0});
    assert_int_equal(link.in.lane().head->load(), 0);
}

void records_arrive_in_order_over_many_laps(Site& s, const Trials&)
{
    Link link(s, 0, 1);
    assert_true(link.claim() == Status::ok && link.found());
    int next_in = 0, next_out = 0;
    while (next_in < 3000) {
        while (next_out < 3000 && link.put(next_out))
            ++next_out;
        int number = link.wait();
        for (; number != -1; number = link.get())
            assert_int_equal(number, next_in++);
        expect_that(next_in == 3000 || next_in > 0, "nothing came");
    }
    s.settle();
    assert_int_equal(link.get(), -1);
}

void full_ring_waits_for_its_reader(Site& s, const Trials&)
{
    Link link(s, 0, 1);
    assert_true(link.claim() == Status::ok && link.found());
    int sent = 0;
    while (link.put(sent))
        ++sent;
    s.settle();
    assert_false(link.put(sent)); // nobody has read
    for (int i = 0; i < sent; ++i)
        assert_int_equal(link.wait(), i);
    bool room = false;
    for (unsigned i = 0; !room && i < s.patience(); ++i) {
        s.look();
        room = link.put(sent);
    }
    assert_true(room);
    assert_int_equal(link.wait(), sent);
}

void written_before_it_is_found_is_not_lost(Site& s, const Trials&)
{
    Link link(s, 0, 1);
    assert_int_equal(link.claim(), Status::ok);
    assert_true(link.put(41));
    assert_true(link.found());
    assert_int_equal(link.wait(), 41);
}

void placed_means_that_it_can_be_seen(Site& s, const Trials&)
{
    Link link(s, 0, 1);
    assert_true(link.claim() == Status::ok && link.found());
    for (int round = 0; round < 50; ++round) {
        for (int i = 0; i < 7; ++i)
            assert_true(link.put(7 * round + i));
        unsigned looks = 0;
        for (; !s[0].placed() && looks < s.patience(); ++looks)
            s.look();
        assert_true(looks < s.patience());
        s[1].progress();
        for (int i = 0; i < 7; ++i)
            assert_int_equal(link.get(), 7 * round + i);
        link.in.publish_head();
        s.settle();
    }
}

void larger_lanes_take_over_behind_what_was_sent(Site& s, const Trials&)
{
    Link link(s, 0, 1);
    assert_true(link.claim() == Status::ok && link.found());
    int sent = 0, got = 0;
    for (std::uint64_t bytes = 2 * kRingBytes; bytes <= 8 * kRingBytes; bytes *= 2) {
        while (link.put(sent))
            ++sent;
        expect_that(link.grow(bytes), "%s", link.why.c_str());
        assert_true(link.put(sent++));
    }
    for (int lane = 0; lane < 4; ++lane) {
        int number;
        RecordHeader header;
        for (unsigned i = 0; i < s.patience() && link.in.peek(header) == nullptr; ++i)
            s.look();
        while (link.in.peek(header) != nullptr && header.kind == Kind::eager) {
            number = link.get();
            assert_int_equal(number, got++);
            for (unsigned i = 0; got < sent && i < s.patience() && link.in.peek(header) == nullptr; ++i)
                s.look();
        }
        assert_true(lane == 3 || link.follow());
    }
    assert_int_equal(got, sent);
    link.in.publish_head();
    s.settle();
    assert_int_equal(link.out.used(), 0);
}

void ring_that_nobody_named_cannot_be_opened(Site& s, const Trials&)
{
    Link link(s, 0, 1);
    assert_true(link.claim() == Status::ok && link.found());
    Lane lane;
    for (const std::uint64_t ref : {std::uint64_t{0}, std::uint64_t{77}, std::uint64_t{1} << 40, UINT64_MAX})
        expect_that(s[1].open(0, ref, kRingBytes, lane) == Status::refused, "%llx",
                    static_cast<unsigned long long>(ref));
}

void strange_addresses_are_refused_with_a_reason(Site& s, const Trials&)
{
    Lane lane;
    for (const char* address : {"", "x", "1:2:3:4", "loop:2", "1:2:3:4:host"}) {
        std::string why;
        expect_that(s[0].claim(1, address, kRingBytes, lane, why) == Status::refused && !why.empty(), "%s", address);
    }
}

void memory_that_is_used_up_is_refused_with_a_reason(Site& s, const Trials&)
{
    Link link(s, 0, 1);
    assert_true(link.claim() == Status::ok && link.found());
    std::uint64_t bytes = 2 * kRingBytes;
    while (bytes <= kSiteMemory && link.grow(bytes))
        bytes *= 2;
    assert_false(link.why.empty());
    assert_true(bytes > 2 * kRingBytes && bytes <= kSiteMemory);
    link.lane.base[0] = std::byte{1}; // the last lane stays valid
    while (!link.old.empty())
        assert_true(link.follow());
}

void several_senders_do_not_meet(Site& s, const Trials&)
{
    std::deque<Link> links;
    for (const auto& [from, to] : {std::pair{0, 1}, {2, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 2}}) {
        Link& link = links.emplace_back(s, from, to);
        assert_true(link.claim() == Status::ok && link.found());
    }
    int sent[6] = {}, got[6] = {};
    for (unsigned looks = 0; looks < s.patience(); ++looks) {
        unsigned over = 0;
        for (unsigned i = 0; i < 6; ++i) {
            for (int n = 0; n < 5 && sent[i] < 500 && links[i].put(static_cast<int>(i) * 1000 + sent[i]); ++n)
                ++sent[i];
            for (int number = links[i].get(); number != -1; number = links[i].get())
                assert_int_equal(number, static_cast<int>(i) * 1000 + got[i]++);
            over += got[i] == 500;
        }
        if (over == 6)
            return;
        s.look();
    }
    assert_true(false);
}

void lane_that_is_over_can_be_claimed_anew(Site& s, const Trials&)
{
    if (!s.reconnects())
        return;
    for (int round = 0; round < 5; ++round) {
        Link link(s, 0, 1);
        expect_that(link.claim() == Status::ok, "%s", link.why.c_str());
        assert_true(link.found());
        for (int i = 0; i < 300; ++i) {
            for (unsigned looks = 0; !link.put(i) && looks < s.patience(); ++looks)
                s.look();
            assert_int_equal(link.wait(), i);
        }
        s[1].close(0, link.in.lane());
        s.look();
        s[0].drop(1, link.out.lane());
        s.settle();
    }
}

// Records of many sizes, checked byte by byte; every size from none to the largest comes.
void every_byte_of_many_records_arrives(Site& s, const Trials& trials)
{
    Link link(s, 0, 1);
    expect_that(link.claim(8 * kRingBytes) == Status::ok && link.found(), "%s", link.why.c_str());
    const std::uint64_t largest = link.out.largest_payload();
    std::mt19937_64 sizes_out(5), sizes_in(5);
    auto next_size = [&](std::mt19937_64& random) {
        const std::uint64_t n = random();
        return n % 50 == 0 ? n / 64 % (largest + 1) : n / 64 % (n % 5 == 0 ? 2000 : 97);
    };
    auto byte_of = [](std::uint64_t record, std::uint64_t at) { return static_cast<std::byte>(record * 31 + at * 7); };
    std::vector<std::byte> payload(largest);
    std::uint64_t sent = 0, got = 0, size_out = next_size(sizes_out);
    unsigned barren = 0;
    while (got < trials.records) {
        for (int burst = 0; burst < 40 && sent < trials.records; ++burst) {
            for (std::uint64_t i = 0; i < size_out; ++i)
                payload[i] = byte_of(sent, i);
            if (!link.put(Kind::eager, payload.data(), size_out))
                break;
            ++sent;
            size_out = next_size(sizes_out);
        }
        RecordHeader header;
        const std::byte* at = link.in.peek(header);
        barren = at == nullptr ? barren + 1 : 0;
        expect_that(barren < s.patience(), "record %llu of %llu does not come", static_cast<unsigned long long>(got),
                    static_cast<unsigned long long>(sent));
        for (; at != nullptr; at = link.in.peek(header)) {
            const std::uint64_t bytes = next_size(sizes_in);
            expect_that(link.in.sound(header) && header.bytes == bytes, "record %llu has %u bytes, not %llu",
                        static_cast<unsigned long long>(got), header.bytes, static_cast<unsigned long long>(bytes));
            for (std::uint64_t i = 0; i < bytes; ++i)
                expect_that(at[i] == byte_of(got, i), "byte %llu of record %llu", static_cast<unsigned long long>(i),
                            static_cast<unsigned long long>(got));
            link.in.pop(header);
            ++got;
        }
        s.look();
    }
}

struct Bound {
    const Trials* trials;
    void (*body)(Site&, const Trials&);
    std::unique_ptr<Site> site;
};

int begin(void** state)
{
    auto& bound = *static_cast<Bound*>(*state);
    try {
        bound.site = bound.trials->make();
    } catch (const std::exception& e) {
        print_error("setup: %s\n", e.what());
        return -1;
    }
    return 0;
}

int end(void** state)
{
    static_cast<Bound*>(*state)->site.reset();
    return 0;
}

void run_bound(void** state)
{
    auto& bound = *static_cast<Bound*>(*state);
    bound.body(*bound.site, *bound.trials);
    const std::string broken = bound.site->broken();
    expect_that(broken.empty(), "%s", broken.c_str());
    for (auto& side : bound.site->ends) {
        int peer;
        std::string why;
        const bool trouble = side->failed(peer, why) || side->torn(peer, why);
        expect_that(!trouble, "%s", why.c_str());
    }
}

} // namespace

std::vector<CMUnitTest> conformance(const Trials& trials)
{
    static std::deque<std::string> names;
    static std::deque<Trials> all;
    static std::deque<Bound> bounds;
    all.push_back(trials);
    std::vector<CMUnitTest> tests;
    auto add = [&](const char* name, void (*body)(Site&, const Trials&)) {
        names.push_back(std::string(name) + " over " + trials.name);
        bounds.push_back({&all.back(), body, nullptr});
        tests.push_back({names.back().c_str(), run_bound, begin, end, &bounds.back()});
    };
#define CONFORMS(body) add(#body, body)
    CONFORMS(address_is_a_short_word);
    CONFORMS(nobody_has_claimed_at_first);
    CONFORMS(claimed_lane_is_zeroed_and_aligned);
    CONFORMS(records_arrive_in_order_over_many_laps);
    CONFORMS(full_ring_waits_for_its_reader);
    CONFORMS(written_before_it_is_found_is_not_lost);
    CONFORMS(placed_means_that_it_can_be_seen);
    CONFORMS(larger_lanes_take_over_behind_what_was_sent);
    CONFORMS(ring_that_nobody_named_cannot_be_opened);
    CONFORMS(strange_addresses_are_refused_with_a_reason);
    CONFORMS(memory_that_is_used_up_is_refused_with_a_reason);
    CONFORMS(several_senders_do_not_meet);
    CONFORMS(lane_that_is_over_can_be_claimed_anew);
    CONFORMS(every_byte_of_many_records_arrives);
#undef CONFORMS
    return tests;
}

} // namespace storm::unit
