// SPDX-License-Identifier: MIT
#include "transport.hh"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

namespace storm::fabrics {
namespace {

using wire::Event;
using wire::Region;
using wire::Write;

constexpr std::uint64_t kInbox = std::uint64_t{1} << 20; // for each peer
constexpr std::uint64_t kGuard = 64;

struct There { // what a peer tells of itself
    char address[160] = "";
    std::uint64_t base = 0, key = 0;
};

std::byte pattern(std::uint64_t seed, std::uint64_t at)
{
    const std::uint64_t x = (seed * 0x9E3779B97F4A7C15u + at) * 0xBF58476D1CE4E5B9u;
    return static_cast<std::byte>((x >> 32) & 0xff);
}

// A word of memory that somebody else writes.
std::uint64_t look(const std::byte* at)
{
    // acquire: what was placed before this word is seen after it
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at)))
        .load(std::memory_order_acquire);
}

class Job {
public:
    Job(wire::Transport& transport, Peers& peers, const Plan& plan)
        : fabric_(transport), peers_(peers), plan_(plan), me_(peers.rank()), size_(peers.size()),
          bytes_((static_cast<std::uint64_t>(size_) + 1) * kInbox),
          memory_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes_)))
    {
        std::memset(memory_, 0, bytes_);
    }
    ~Job()
    {
        if (own_.base != nullptr)
            fabric_.withdraw(own_);
        std::free(memory_);
    }
    Job(const Job&) = delete;

    int run();

private:
    // ---- the means

    [[gnu::format(printf, 3, 4)]] bool expect(bool good, const char* format, ...)
    {
        if (good)
            return true;
        char text[600];
        va_list args;
        va_start(args, format);
        std::vsnprintf(text, sizeof text, format, args);
        va_end(args);
        throw std::runtime_error(text);
    }
    std::byte* inbox(int from) const { return memory_ + static_cast<std::uint64_t>(from) * kInbox; }
    std::byte* outbox() const { return memory_ + static_cast<std::uint64_t>(size_) * kInbox; }
    std::uint64_t there(int peer, std::uint64_t offset) const
    {
        return there_[static_cast<std::size_t>(peer)].base + static_cast<std::uint64_t>(me_) * kInbox + offset;
    }

    void say(int peer, char kind, const void* data, std::size_t bytes)
    {
        std::vector<std::byte> message(bytes + 1);
        message[0] = static_cast<std::byte>(kind);
        if (bytes != 0)
            std::memcpy(message.data() + 1, data, bytes);
        peers_.send(peer, message.data(), message.size());
    }
    void words_beside()
    {
        Word word;
        while (fabric_.next_word(word))
            say(word.peer, 'w', word.data.data(), word.bytes);
        int from = -1;
        std::vector<std::byte> message;
        while (peers_.receive(from, message)) {
            if (message[0] == std::byte{'t'}) {
                heard_[from].emplace_back(message.begin() + 1, message.end());
                continue;
            }
            word.peer = from;
            word.bytes = static_cast<std::uint32_t>(message.size() - 1);
            std::memcpy(word.data.data(), message.data() + 1, word.bytes);
            fabric_.take_word(word);
        }
    }
    void turn()
    {
        words_beside();
        Event event;
        bool any = false;
        while (fabric_.next(event)) {
            any = true;
            if (event.kind == Event::Kind::written)
                ++written_[event.cookie];
            else if (event.kind == Event::Kind::arrived)
                arrived_.push_back(event);
            else
                failed_[event.peer] += 1;
        }
        if (!any)
            ::sched_yield();
    }
    void tell(int peer, const void* data = "", std::size_t bytes = 0) { say(peer, 't', data, bytes); }
    std::vector<std::byte> hear(int peer)
    {
        while (heard_[peer].empty())
            turn();
        auto message = heard_[peer].front();
        heard_[peer].pop_front();
        return message;
    }
    // Nothing of the fabric is called until the peer has spoken.
    void hear_passively(int peer)
    {
        int from = -1;
        std::vector<std::byte> message;
        while (heard_[peer].empty()) {
            if (peers_.receive(from, message))
                heard_[from].emplace_back(message.begin() + 1, message.end());
            else
                ::sched_yield();
        }
        heard_[peer].pop_front();
    }
    void barrier()
    {
        for (int peer = 0; peer < size_; ++peer)
            if (peer != me_)
                tell(peer);
        for (int peer = 0; peer < size_; ++peer)
            if (peer != me_)
                hear(peer);
    }
    void write(int peer, std::uint64_t from, std::uint64_t bytes, std::uint64_t to, unsigned flags = 0,
               std::uint32_t signal = 0)
    {
        Write w;
        w.from = outbox() + from;
        w.source = &own_;
        w.bytes = bytes;
        w.address = there(peer, to);
        w.key = there_[static_cast<std::size_t>(peer)].key;
        w.flags = flags;
        w.signal = signal;
        w.cookie = ++cookie_;
        Status status = Status::again;
        while ((status = fabric_.write(peer, w)) == Status::again)
            turn();
        expect(status == Status::ok, "a write of %llu bytes to rank %d is refused (%s)",
               static_cast<unsigned long long>(bytes), peer, fabric_.why(peer).c_str());
    }
    void wait_written()
    {
        while (written_.size() != cookie_ - cookies_before_)
            turn();
        for (const auto& [cookie, times] : written_)
            expect(times == 1, "write %llu was told as complete %d times",
                   static_cast<unsigned long long>(cookie), times);
        written_.clear();
        cookies_before_ = cookie_;
    }
    void connect_to_all();

    // ---- the cases; each is run by all ranks

    void addresses_are_words();
    void bytes_arrive_whole();
    void delivery_is_delivery();
    void small_sources_are_free_at_once();
    void every_write_is_told_once();
    void order_of(unsigned flags);
    void writes_are_placed_in_order() { order_of(0); }
    void fenced_writes_are_placed_in_order() { order_of(wire::kFenced); }
    void signals_come_after_their_bytes();
    void signals_wait_for_a_slow_target();
    void all_write_to_all();
    void writes_go_on_from_inside_mpi();
    void connections_are_made_again();
    void nonsense_is_refused();
    void dead_peer_is_told();

    void run_case(const char* name, bool applies, void (Job::*body)());

    wire::Transport& fabric_;
    Peers& peers_;
    const Plan plan_;
    const int me_, size_;
    const std::uint64_t bytes_;
    std::byte* const memory_;
    Region own_;
    std::vector<There> there_;
    std::map<int, std::deque<std::vector<std::byte>>> heard_;
    std::map<std::uint64_t, int> written_;
    std::deque<Event> arrived_;
    std::map<int, int> failed_;
    std::uint64_t cookie_ = 0, cookies_before_ = 0;
    int wrong_ = 0;
};

void Job::run_case(const char* name, bool applies, void (Job::*body)())
{
    if (!applies) {
        if (me_ == 0)
            std::printf("skip %s (not promised)\n", name);
        return;
    }
    const auto begin = std::chrono::steady_clock::now();
    try {
        (this->*body)();
        barrier();
    } catch (const std::exception& e) {
        std::printf("FAIL %s, rank %d: %s\n", name, me_, e.what());
        std::fflush(stdout);
        std::_Exit(1); // the others wait for us in vain
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (me_ == 0)
        std::printf("ok   %s (%.1f s)\n", name, took.count());
    std::fflush(stdout);
}

void Job::connect_to_all()
{
    for (int peer = 0; peer < size_; ++peer) {
        std::string why;
        Status status = Status::again;
        while (peer != me_ &&
               (status = fabric_.connect(peer, there_[static_cast<std::size_t>(peer)].address, why)) == Status::again)
            turn();
        expect(peer == me_ || status == Status::ok, "rank %d is not connected (%s)", peer, why.c_str());
    }
}

void Job::addresses_are_words()
{
    const std::string address = fabric_.address();
    expect(!address.empty() && address.size() <= 140, "the address is %zu characters long", address.size());
    for (const char c : address)
        expect(c > ' ' && c < 127, "the address has a character that is not printable");
    std::string why;
    expect(fabric_.expose(memory_, bytes_, own_, why) == Status::ok, "memory is not exposed (%s)", why.c_str());

    There here;
    std::snprintf(here.address, sizeof here.address, "%s", address.c_str());
    here.base = own_.address;
    here.key = own_.key;
    for (int peer = 0; peer < size_; ++peer)
        if (peer != me_)
            tell(peer, &here, sizeof here);
    there_.resize(static_cast<std::size_t>(size_));
    for (int peer = 0; peer < size_; ++peer)
        if (peer != me_)
            std::memcpy(&there_[static_cast<std::size_t>(peer)], hear(peer).data(), sizeof here);
    connect_to_all();
}

// Sizes around limits, at odd places; nothing beside them is touched.
void Job::bytes_arrive_whole()
{
    static constexpr std::uint64_t kSizes[] = {1,   7,    8,    63,   64,    65,    255,    256,
                                               257, 1024, 4095, 4097, 65448, 65536, 1000000};
    for (int writer = 0; writer < size_; ++writer) {
        const int reader = (writer + 1) % size_;
        std::uint64_t seed = 0;
        for (const std::uint64_t bytes : kSizes) {
            ++seed;
            const std::uint64_t to = kGuard + seed * 3;
            if (bytes > fabric_.write_max())
                continue;
            if (me_ == writer) {
                for (std::uint64_t i = 0; i < bytes; ++i)
                    outbox()[i] = pattern(seed, i);
                hear(reader);
                write(reader, 0, bytes, to);
                wait_written();
            } else if (me_ == reader) {
                std::byte* base = inbox(writer);
                std::memset(base, 0xee, to + bytes + kGuard);
                const std::byte last = ~pattern(seed, bytes - 1);
                base[to + bytes - 1] = last;
                tell(writer);
                volatile const std::byte* end = base + to + bytes - 1;
                while (*end == last)
                    turn();
                // no order is promised here: all of it comes in the end
                for (std::uint64_t i = 0; i < bytes; ++i)
                    while (static_cast<volatile std::byte*>(base)[to + i] != pattern(seed, i))
                        turn();
                for (std::uint64_t i = 0; i < kGuard; ++i)
                    expect(base[to - 1 - i] == std::byte{0xee} && base[to + bytes + i] == std::byte{0xee},
                           "a write of %llu bytes touched a byte beside them", static_cast<unsigned long long>(bytes));
            }
        }
        barrier();
    }
}

// When the sender knows of it, the target sees it without doing anything.
void Job::delivery_is_delivery()
{
    for (std::uint64_t round = 1; round <= std::min(plan_.rounds, 300U); ++round) {
        const std::uint64_t bytes = round % 3 == 0 ? 40000 : 8 * (round % 100 + 1);
        const int writer = static_cast<int>(round) % size_, reader = (writer + 1) % size_;
        if (me_ == writer) {
            for (std::uint64_t i = 0; i < bytes; ++i)
                outbox()[i] = pattern(round, i);
            write(reader, 0, bytes, 4096, wire::kDeliveryComplete);
            wait_written();
            tell(reader);
            hear(reader);
        } else if (me_ == reader) {
            if (fabric_.passive_target())
                hear_passively(writer);
            else
                hear(writer);
            for (std::uint64_t i = 0; i < bytes; ++i)
                expect(inbox(writer)[4096 + i] == pattern(round, i),
                       "byte %llu of %llu was told as delivered and is not there, round %llu",
                       static_cast<unsigned long long>(i), static_cast<unsigned long long>(bytes),
                       static_cast<unsigned long long>(round));
            tell(writer);
        }
    }
}

void Job::small_sources_are_free_at_once()
{
    constexpr std::uint64_t kMost = 200;
    const std::uint64_t bytes = std::min<std::uint64_t>(fabric_.inline_max() / 8 * 8, 64);
    const int next = (me_ + 1) % size_, before = (me_ + size_ - 1) % size_;
    std::memset(inbox(before), 0, kMost * 64);
    barrier();
    for (std::uint64_t i = 0; i < kMost; ++i) {
        std::memset(outbox(), static_cast<int>(i + 1), bytes);
        write(next, 0, bytes, i * 64);
        std::memset(outbox(), 0xff, bytes);
    }
    wait_written();
    for (std::uint64_t i = 0; i < kMost; ++i)
        for (std::uint64_t k = 0; k < bytes; k += 8) {
            std::uint64_t seen = 0;
            while ((seen = look(inbox(before) + i * 64 + k)) == 0)
                turn();
            expect(seen == 0x0101010101010101u * (i + 1), "small write %llu carries what came into its source later",
                   static_cast<unsigned long long>(i));
        }
}

void Job::every_write_is_told_once()
{
    const int next = (me_ + 1) % size_;
    static constexpr std::uint64_t kSizes[] = {8, 64, 3000, 16, 200};
    for (unsigned i = 0; i < 3000; ++i)
        write(next, 8 * (i % 50), kSizes[i % 5], 8 * (i % 1000));
    wait_written();
}

// A payload, then a word that says it is there, with nothing between: what ordered and fenced
// publication rest on.
void Job::order_of(unsigned flags)
{
    constexpr std::uint64_t kSlots = 16, kPayload = 1536, kSlot = 2048;
    for (int writer = 0; writer < size_; ++writer) {
        const int reader = (writer + 1) % size_;
        if (me_ == reader)
            std::memset(inbox(writer), 0, kSlots * kSlot);
        barrier();
        if (me_ == writer) {
            for (std::uint64_t i = 0; i < plan_.rounds; ++i) {
                if (i >= kSlots && i % (kSlots / 2) == 0) {
                    hear(reader);
                    wait_written();
                }
                const std::uint64_t at = i % kSlots * kSlot;
                for (std::uint64_t k = 0; k < kPayload; k += 8) {
                    const std::uint64_t value = i * 1000 + k + 1;
                    std::memcpy(outbox() + at + k, &value, 8);
                }
                const std::uint64_t tail = i + 1;
                std::memcpy(outbox() + at + kPayload, &tail, 8);
                write(reader, at, kPayload, at);
                write(reader, at + kPayload, 8, at + kPayload, flags);
            }
            wait_written();
        } else if (me_ == reader) {
            for (std::uint64_t i = 0; i < plan_.rounds; ++i) {
                const std::byte* slot = inbox(writer) + i % kSlots * kSlot;
                while (look(slot + kPayload) != i + 1)
                    turn();
                for (std::uint64_t k = 0; k < kPayload; k += 8) {
                    std::uint64_t value;
                    std::memcpy(&value, slot + k, 8);
                    expect(value == i * 1000 + k + 1, "round %llu: the word came before byte %llu of its payload",
                           static_cast<unsigned long long>(i), static_cast<unsigned long long>(k));
                }
                if ((i + 1) % (kSlots / 2) == 0)
                    tell(writer);
            }
            // acknowledgements that nobody waited for
        }
        if (me_ == writer) {
            const std::uint64_t all = plan_.rounds / (kSlots / 2);
            const std::uint64_t heard = plan_.rounds <= kSlots ? 0 : (plan_.rounds - 1 - kSlots) / (kSlots / 2) + 1;
            for (std::uint64_t i = heard; i < all; ++i)
                hear(reader);
        }
    }
}

void Job::signals_come_after_their_bytes()
{
    constexpr std::uint64_t kBytes = 3000;
    const int next = (me_ + 1) % size_, before = (me_ + size_ - 1) % size_;
    const unsigned rounds = std::min(plan_.rounds, 500U);
    arrived_.clear();
    barrier();
    for (std::uint32_t i = 1; i <= rounds; ++i) {
        const bool empty = i % 5 == 0; // a signal alone
        for (std::uint64_t k = 0; k < kBytes; ++k)
            outbox()[k] = pattern(i, k);
        write(next, 0, empty ? 0 : kBytes, 64, wire::kSignal, i * 7919);
        while (arrived_.empty())
            turn();
        const Event event = arrived_.front();
        arrived_.pop_front();
        expect(event.signal == i * 7919, "signal %u came as %u", i * 7919, event.signal);
        expect(event.peer == before || event.peer == -1, "a signal of rank %d came from %d", before, event.peer);
        for (std::uint64_t k = 0; k < kBytes && !empty; ++k)
            expect(inbox(before)[64 + k] == pattern(i, k), "signal %u came before byte %llu", i,
                   static_cast<unsigned long long>(k));
        wait_written();
        tell(before);
        hear(next);
    }
}

// More than the target has room for while it does nothing: none is lost, none passes another.
void Job::signals_wait_for_a_slow_target()
{
    constexpr std::uint32_t kSignals = 1500;
    for (int writer = 0; writer < size_; ++writer) {
        const int reader = (writer + 1) % size_;
        arrived_.clear();
        barrier();
        if (me_ == writer) {
            for (std::uint32_t i = 0; i < kSignals; ++i)
                write(reader, 0, i % 3 * 8, 0, wire::kSignal, i);
            wait_written();
        } else if (me_ == reader) {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            for (std::uint32_t i = 0; i < kSignals; ++i) {
                while (arrived_.empty())
                    turn();
                expect(arrived_.front().signal == i, "signal %u came as number %u", arrived_.front().signal, i);
                arrived_.pop_front();
            }
        }
    }
    arrived_.clear();
}

void Job::all_write_to_all()
{
    constexpr std::uint64_t kBytes = 4096, kTimes = 200;
    for (int peer = 0; peer < size_; ++peer)
        std::memset(inbox(peer), 0, kTimes * kBytes);
    for (std::uint64_t i = 0; i < kBytes; ++i)
        outbox()[i] = pattern(static_cast<std::uint64_t>(me_) + 100, i) | std::byte{1};
    barrier();
    for (std::uint64_t i = 0; i < kTimes; ++i)
        for (int peer = 0; peer < size_; ++peer)
            if (peer != me_)
                write(peer, 0, kBytes, i * kBytes);
    wait_written();
    for (int peer = 0; peer < size_; ++peer)
        for (std::uint64_t i = 0; peer != me_ && i < kTimes * kBytes; ++i)
            while (static_cast<volatile std::byte*>(inbox(peer))[i] !=
                   (pattern(static_cast<std::uint64_t>(peer) + 100, i % kBytes) | std::byte{1}))
                turn();
}

// A rank that sits in a blocking call of the real MPI still sends and receives, and hears of
// what it wrote before.
void Job::writes_go_on_from_inside_mpi()
{
    write((me_ + 1) % size_, 0, 1000, kInbox / 2); // where nobody looks
    fabric_.inside_mpi(true);
    wait_written();
    bytes_arrive_whole();
    if (fabric_.promises().delivery_complete)
        delivery_is_delivery();
    fabric_.inside_mpi(false);
}

void Job::connections_are_made_again()
{
    for (int times = 0; times < 2; ++times) {
        for (int peer = 0; peer < size_; ++peer)
            if (peer != me_)
                fabric_.disconnect(peer);
        barrier(); // both ends have let go before one asks again
        connect_to_all();
        barrier();
        bytes_arrive_whole();
        failed_.clear(); // what the old connection said of its end
    }
}

void Job::nonsense_is_refused()
{
    Write w;
    w.from = outbox();
    w.source = &own_;
    w.bytes = 8;
    expect(fabric_.write(size_ + 5, w) == Status::refused, "a write to a rank that is not connected is taken");
    std::string why;
    expect(fabric_.connect(size_ + 6, "no/such/address", why) == Status::refused && !why.empty(),
           "an address of another fabric is not refused with a reason");
    fabric_.disconnect(size_ + 6);
    fabric_.disconnect(size_ + 7); // which never was
}

void Job::dead_peer_is_told()
{
    const int dead = size_ - 1;
    if (me_ == dead) {
        hear(0);
        ::_exit(wrong_);
    }
    if (me_ == 0)
        tell(dead);
    std::uint64_t taken = 0;
    while (failed_[dead] == 0) {
        Write w;
        w.from = outbox();
        w.source = &own_;
        w.bytes = 64;
        w.address = there(dead, 0);
        w.key = there_[static_cast<std::size_t>(dead)].key;
        w.cookie = ++taken;
        if (fabric_.write(dead, w) == Status::refused && failed_[dead] == 0)
            turn();
        turn();
    }
    for (int i = 0; i < 1000; ++i)
        turn();
    expect(failed_[dead] == 1, "the end of a peer was told %d times", failed_[dead]);
    expect(!fabric_.why(dead).empty(), "the fabric does not say why the peer is lost");
    std::printf("     told: %s\n", fabric_.why(dead).c_str());
    std::string why;
    const Status anew = fabric_.connect(dead, there_[static_cast<std::size_t>(dead)].address, why);
    expect(anew == Status::refused && !why.empty(), "a lost peer is connected");
    std::printf("ok   dead_peer_is_told\n");
}

int Job::run()
{
    const wire::Promises& p = fabric_.promises();
    if (me_ == 0)
        std::printf("%s: %d ranks, inline %llu, write %llu, delivery %d, signals %d, order %d, passive %d\n",
                    fabric_.name(), size_, static_cast<unsigned long long>(fabric_.inline_max()),
                    static_cast<unsigned long long>(fabric_.write_max()), p.delivery_complete, p.remote_cq,
                    p.placement_order, fabric_.passive_target());
    run_case("addresses_are_words", true, &Job::addresses_are_words);
    run_case("nonsense_is_refused", true, &Job::nonsense_is_refused);
    run_case("bytes_arrive_whole", true, &Job::bytes_arrive_whole);
    run_case("delivery_is_delivery", p.delivery_complete, &Job::delivery_is_delivery);
    run_case("small_sources_are_free_at_once", fabric_.inline_max() >= 8, &Job::small_sources_are_free_at_once);
    run_case("every_write_is_told_once", true, &Job::every_write_is_told_once);
    run_case("writes_are_placed_in_order", p.placement_order, &Job::writes_are_placed_in_order);
    run_case("fenced_writes_are_placed_in_order", p.fenced, &Job::fenced_writes_are_placed_in_order);
    run_case("signals_come_after_their_bytes", p.remote_cq, &Job::signals_come_after_their_bytes);
    run_case("signals_wait_for_a_slow_target", p.remote_cq, &Job::signals_wait_for_a_slow_target);
    run_case("all_write_to_all", true, &Job::all_write_to_all);
    run_case("writes_go_on_from_inside_mpi", fabric_.calls_mpi(), &Job::writes_go_on_from_inside_mpi);
    run_case("connections_are_made_again", true, &Job::connections_are_made_again);
    if (plan_.last_rank_dies) {
        try {
            dead_peer_is_told();
        } catch (const std::exception& e) {
            std::printf("FAIL dead_peer_is_told, rank %d: %s\n", me_, e.what());
            ++wrong_;
        }
    }
    return wrong_;
}

} // namespace

int check_transport(wire::Transport& transport, Peers& peers, const Plan& plan)
{
    return Job(transport, peers, plan).run();
}

} // namespace storm::fabrics
