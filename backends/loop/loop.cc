// SPDX-License-Identifier: MIT
#include "loop.hh"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace storm::loop {
namespace {

constexpr std::uint64_t kLine = 64;

struct Free {
    void operator()(std::byte* at) const { std::free(at); }
};
using Memory = std::unique_ptr<std::byte, Free>;

// Zeroed, on a cache line; empty when there is none.
Memory memory(std::uint64_t bytes)
{
    auto* at = static_cast<std::byte*>(std::aligned_alloc(kLine, bytes));
    if (at != nullptr)
        std::memset(at, 0, bytes);
    return Memory(at);
}

bool power_of_two(std::uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

// Bytes [from, to) of a lane that are under way.
struct Range {
    std::uint64_t from, to;
    std::uint64_t next;     // the first byte that has not moved
    std::uint64_t checksum; // of the mirror when it was published
    unsigned wait;          // calls of progress() until it moves on
    bool pieces;
};

struct Head {
    std::uint64_t value;
    unsigned wait;
};

// One lane as both sides have it.
struct Ring {
    int from = 0, to = 0;
    std::uint64_t ref = 0, bytes = 0;
    Memory mirror, data;
    std::atomic<std::uint64_t> head_here{0};  // as the sender knows it
    std::atomic<std::uint64_t> head_there{0}; // as the receiver stored it
    std::uint64_t published = 0, head_taken = 0;
    std::deque<Range> ranges;
    std::deque<Head> heads;
    bool dropped = false, opened = false, closed = false, stranded = false;

    std::byte* in_data(std::uint64_t position) { return data.get() + (position & (bytes - 1)); }
    const std::byte* in_mirror(std::uint64_t position) const
    {
        return mirror.get() + (position & (bytes - 1));
    }
    // FNV-1a over words: all of a ring is 8-byte aligned
    std::uint64_t checksum(std::uint64_t begin, std::uint64_t end) const
    {
        std::uint64_t sum = 14695981039346656037u, word;
        for (; begin < end; begin += sizeof word) {
            std::memcpy(&word, in_mirror(begin), sizeof word);
            sum = (sum ^ word) * 1099511628211u;
        }
        return sum;
    }
};

struct Announced { // a claim on its way to the receiver
    Ring* ring;
    unsigned wait;
};

// A ring that was asked for by words.
struct Asked {
    std::uint64_t bytes = 0; // 0: nothing is
    Ring* granted = nullptr;
    std::string refused;
};

// What the loop's words say.
struct Message {
    enum class What : std::uint8_t { ask, grant, refuse } what = What::ask;
    std::uint64_t number = 0; // bytes, or the ring's
};

// One rank's end of the fabric.
struct End {
    bool attached = false;
    std::uint64_t doorbell = 0; // claims that accept() would give
    std::uint64_t taken = 0;    // bytes of inbound rings
    std::deque<Announced> claimed;
    std::map<int, Ring*> towards; // the ring that is written at present
    std::map<int, Asked> asked;
    std::deque<Word> words;
    std::set<int> refuses;        // claims towards these: the fabric has failed
    std::vector<std::pair<int, unsigned>> failures; // to be told, after so many calls of progress()
};

struct Refusal {
    unsigned in = 0; // calls until it comes; 0 when none is planned
    std::string why;

    bool now()
    {
        return in != 0 && --in == 0;
    }
};

} // namespace

class Wire {
public:
    explicit Wire(const Options& options) : options_(options), random_(options.seed) {}
    bool words() const { return options_.words; }

    Status take(int from, int to, std::uint64_t bytes, Ring*& out, std::string& why)
    {
        expect(power_of_two(bytes) && bytes >= kPage, from, "a ring's size is no power of two");
        End& there = ends_[to];
        if (!there.attached) {
            why = "there is no such rank";
            return Status::refused;
        }
        if (!power_of_two(bytes) || there.taken + bytes > options_.memory_max) {
            why = "its memory for rings is used up";
            return Status::refused;
        }
        auto ring = std::make_unique<Ring>();
        ring->from = from;
        ring->to = to;
        ring->bytes = bytes;
        ring->ref = rings_.size() + 1;
        ring->mirror = memory(bytes);
        ring->data = memory(bytes);
        if (ring->mirror == nullptr || ring->data == nullptr) {
            why = "no memory for a ring";
            return Status::refused;
        }
        there.taken += bytes;
        out = ring.get();
        rings_.push_back(std::move(ring));
        return Status::ok;
    }

    // The sender's and the receiver's view of a ring.
    static Lane sending(Ring& r) { return {r.mirror.get(), r.bytes, &r.head_here, r.ref}; }
    static Lane receiving(Ring& r) { return {r.data.get(), r.bytes, &r.head_there, r.ref}; }

    Ring* by_ref(std::uint64_t ref)
    {
        return ref == 0 || ref > rings_.size() ? nullptr : rings_[ref - 1].get();
    }

    void publish(int from, Lane& lane, std::uint64_t begin, std::uint64_t end)
    {
        Ring* r = by_ref(lane.ref);
        if (!expect(r != nullptr && r->from == from && lane.base == r->mirror.get(), from,
                    "publish on a lane that is not the sender's"))
            return;
        expect(!r->dropped, from, "publish on a dropped lane");
        expect(begin == r->published, from, "a range that does not follow the last one");
        // relaxed: one thread moves everything
        const std::uint64_t head = r->head_here.load(std::memory_order_relaxed);
        if (!expect(begin < end && end % 16 == 0 && end + 16 - head <= r->bytes, from,
                    "a range that is empty, not aligned, or larger than what is free"))
            return;
        r->published = end;
        if (lost(r->from, r->to))
            return;
        r->ranges.push_back({begin, end, begin, r->checksum(begin, end), delay(),
                             options_.pieces && random_() % 2 == 0});
        if (options_.holds && random_() % 2 == 0)
            held_.insert(r);
        count(r->from, r->to);
    }

    bool flush(int rank)
    {
        std::erase_if(held_, [&](const Ring* r) { return r->from == rank; });
        return random_() % 4 != 0 || !options_.holds; // sometimes there is no room
    }

    // ---- words

    void say(int from, int to, Message message)
    {
        Word word;
        word.peer = to;
        word.bytes = sizeof message;
        std::memcpy(word.data.data(), &message, sizeof message);
        ends_[from].words.push_back(word);
    }

    // ok, again or refused, for a first ring or a larger one.
    Status by_words(int from, int to, std::uint64_t bytes, Ring*& out, std::string& why)
    {
        Asked& asked = ends_[from].asked[to];
        if (asked.bytes == 0) {
            asked.bytes = bytes;
            say(from, to, {Message::What::ask, bytes});
            return Status::again;
        }
        expect(asked.bytes == bytes, from, "another size than was asked for");
        if (asked.granted == nullptr && asked.refused.empty())
            return Status::again;
        out = asked.granted;
        why = asked.refused;
        asked = {};
        return out != nullptr ? Status::ok : Status::refused;
    }

    void hear(int rank, const Word& word)
    {
        Message said;
        if (!expect(word.bytes == sizeof said, rank, "a word that was not said"))
            return;
        std::memcpy(&said, word.data.data(), sizeof said);
        count(word.peer, rank);
        Asked& asked = ends_[rank].asked[word.peer];
        std::string why;
        Ring* ring = nullptr;
        switch (said.what) {
        case Message::What::ask:
            if (take(word.peer, rank, said.number, ring, why) == Status::ok)
                say(rank, word.peer, {Message::What::grant, ring->ref});
            else
                say(rank, word.peer, {Message::What::refuse, 0});
            break;
        case Message::What::grant: asked.granted = by_ref(said.number); break;
        case Message::What::refuse: asked.refused = "its memory for rings is used up"; break;
        }
    }

    // ---- failures

    void fail_at(std::uint64_t n, Fails what, Told told)
    {
        fail_in_ = n;
        fails_ = what;
        told_ = told;
    }
    std::uint64_t events() const { return events_; }
    bool lost(int from, int to) const { return lost_.contains({from, to}); }

    // An event of the lane from `from` to `to`.
    void count(int from, int to)
    {
        ++events_;
        if (fail_in_ == 0 || --fail_in_ != 0)
            return;
        if (fails_ != Fails::heads)
            lost_.insert({from, to});
        if (fails_ != Fails::data)
            lost_.insert({to, from});
        if (told_ != Told::receiver)
            ends_[from].failures.emplace_back(to, 3 * delay());
        if (told_ != Told::sender)
            ends_[to].failures.emplace_back(from, 3 * delay());
    }

    bool failed(int rank, int& peer)
    {
        auto& failures = ends_[rank].failures;
        const auto due = std::find_if(failures.begin(), failures.end(), [](const auto& f) { return f.second == 0; });
        if (due == failures.end())
            return false;
        peer = due->first;
        failures.erase(due);
        ends_[rank].refuses.insert(peer);
        return true;
    }

    void abandon(int from, int to)
    {
        ends_[from].refuses.insert(to);
        for (auto& ring : rings_)
            if (ring->from == from && ring->to == to) {
                ring->ranges.clear();
                ring->mirror.reset();
                ring->dropped = true;
            }
    }

    // Late writes come, and nobody may look.
    void strand(Ring& r)
    {
        r.closed = r.stranded = true;
        r.ranges.clear();
        r.heads.clear();
        // relaxed: one thread moves everything
        r.head_taken = r.head_there.load(std::memory_order_relaxed);
        std::memset(r.data.get(), 0xab, r.bytes);
    }

    void progress(int rank)
    {
        for (auto& [peer, wait] : ends_[rank].failures)
            if (wait > 0)
                --wait;
        if (options_.holds && random_() % 4 != 0)
            flush(rank);
        for (auto& ring : rings_) {
            if (lost(ring->from, ring->to))
                ring->ranges.clear();
            if (lost(ring->to, ring->from))
                ring->heads.clear();
            if (ring->from == rank && !held_.contains(ring.get()))
                move_ranges(*ring);
            if (ring->to == rank && ring->data != nullptr)
                collect_head(*ring);
            if (ring->to == rank)
                move_heads(*ring);
        }
        for (auto& [to, end] : ends_)
            std::erase_if(end.claimed,
                          [&](const Announced& a) { return a.wait > 0 && lost(a.ring->from, a.ring->to); });
        for (auto& [to, end] : ends_)
            for (Announced& a : end.claimed)
                if (a.ring->from == rank && a.wait > 0 && --a.wait == 0)
                    ring_doorbell(end);
    }

    bool busy() const
    {
        const auto pending = [](const auto& ring) {
            // relaxed: one thread moves everything
            return !ring->ranges.empty() || !ring->heads.empty() ||
                   (!ring->closed && ring->head_there.load(std::memory_order_relaxed) != ring->head_taken);
        };
        const auto to_tell = [](const auto& end) { return !end.second.failures.empty() || !end.second.words.empty(); };
        if (std::any_of(ends_.begin(), ends_.end(), to_tell))
            return true;
        return std::any_of(rings_.begin(), rings_.end(), pending) ||
               std::any_of(ends_.begin(), ends_.end(),
                           [](const auto& end) { return !end.second.claimed.empty(); });
    }

    // All that this rank published, and its claims, can be seen at their targets.
    bool placed(int rank) const
    {
        return std::none_of(rings_.begin(), rings_.end(), [&](const auto& ring) {
                   return ring->from == rank && !ring->ranges.empty();
               }) &&
               std::none_of(ends_.begin(), ends_.end(), [&](const auto& end) {
                   return std::any_of(end.second.claimed.begin(), end.second.claimed.end(),
                                      [&](const Announced& a) { return a.ring->from == rank && a.wait > 0; });
               });
    }

    void announce(Ring& ring) { ends_[ring.to].claimed.push_back({&ring, delay()}); }

    // The first claim that has arrived; claims of different senders may pass each other.
    Ring* accept(int rank)
    {
        End& end = ends_[rank];
        const auto at = std::find_if(end.claimed.begin(), end.claimed.end(),
                                     [](const Announced& a) { return a.wait == 0; });
        if (at == end.claimed.end())
            return nullptr;
        Ring* ring = at->ring;
        end.claimed.erase(at);
        ring_doorbell(end);
        ring->opened = true;
        return ring;
    }

    void drop(Ring& r)
    {
        r.dropped = true;
        end_of_lane(r);
    }
    void close(Ring& r)
    {
        // relaxed: one thread moves everything
        r.head_taken = r.head_there.load(std::memory_order_relaxed);
        r.closed = true;
        r.data.reset();
        r.heads.clear();
        ends_[r.to].taken -= r.bytes;
    }

    bool expect(bool kept, int rank, const char* what)
    {
        if (!kept && broken_.size() < 20)
            broken_.push_back("rank " + std::to_string(rank) + ": " + what);
        return kept;
    }

    End& end(int rank) { return ends_[rank]; }

    Refusal claims, growths;
    std::vector<std::string> broken_;

private:
    unsigned delay() { return 1 + static_cast<unsigned>(random_() % (options_.delay_max + 1)); }

    static void ring_doorbell(End& end)
    {
        const auto arrived = std::count_if(end.claimed.begin(), end.claimed.end(),
                                           [](const Announced& a) { return a.wait == 0; });
        // release: the ring's memory comes first; pairs with the load of who polls
        std::atomic_ref(end.doorbell)
            .store(static_cast<std::uint64_t>(arrived), std::memory_order_release);
    }

    // The oldest range alone moves: a lane keeps the order of its ranges.
    void move_ranges(Ring& r)
    {
        if (r.ranges.empty())
            return;
        Range& range = r.ranges.front();
        if (--range.wait > 0)
            return;
        if (range.next == range.from)
            begin_range(r, range);
        const std::uint64_t stop = range.pieces ? std::min(range.to, (range.next / kLine + 1) * kLine)
                                                : range.to;
        copy(r, range.next, stop);
        range.next = stop;
        if (stop < range.to) {
            range.wait = 1 + static_cast<unsigned>(random_() % 2);
            return;
        }
        std::uint64_t word;
        std::memcpy(&word, r.in_mirror(range.from), sizeof word);
        expect(r.checksum(range.from, range.to) == range.checksum, r.from,
               "bytes changed between publish and arrival");
        if (!r.closed)
            // release: the whole range comes before its first commit word
            std::atomic_ref(*reinterpret_cast<std::uint64_t*>(r.in_data(range.from)))
                .store(word, std::memory_order_release);
        r.ranges.pop_front();
        end_of_lane(r);
    }

    // Nothing stands behind the range yet, and its own first word comes last.
    void begin_range(Ring& r, Range& range)
    {
        if (!r.closed)
            std::memset(r.in_data(range.to), 0, sizeof(std::uint64_t));
        range.next += sizeof(std::uint64_t);
    }

    static void copy(Ring& r, std::uint64_t from, std::uint64_t to)
    {
        while (from < to && !r.closed) {
            const std::uint64_t to_end = r.bytes - (from & (r.bytes - 1));
            const std::uint64_t n = std::min(to - from, to_end);
            std::memcpy(r.in_data(from), r.in_mirror(from), n);
            from += n;
        }
    }

    void collect_head(Ring& r)
    {
        // acquire: what the receiver read comes before the sender writes there again;
        // pairs with the release of its store
        const std::uint64_t head = r.head_there.load(std::memory_order_acquire);
        if (head == r.head_taken)
            return;
        expect(head > r.head_taken && head <= r.published, r.to,
               "a head that goes back, or beyond what was published");
        r.head_taken = head;
        if (lost(r.to, r.from))
            return;
        r.heads.push_back({head, delay()});
        count(r.from, r.to);
    }

    static void move_heads(Ring& r)
    {
        if (r.heads.empty() || --r.heads.front().wait > 0)
            return;
        // release: pairs with the acquire of the sender's load
        r.head_here.store(r.heads.front().value, std::memory_order_release);
        r.heads.pop_front();
    }

    // Both sides are done with it and nothing is under way: the memory goes.
    void end_of_lane(Ring& r)
    {
        if (r.dropped && r.ranges.empty())
            r.mirror.reset();
    }

    const Options options_;
    std::mt19937_64 random_;
    std::map<int, End> ends_;
    std::vector<std::unique_ptr<Ring>> rings_;
    std::set<const Ring*> held_;
    std::set<std::pair<int, int>> lost_; // writes of the first to the second
    std::uint64_t events_ = 0, fail_in_ = 0;
    Fails fails_ = Fails::both;
    Told told_ = Told::both;
};

namespace {

class Loop final : public Backend {
public:
    Loop(Wire& wire, int rank) : wire_(wire), rank_(rank) { wire_.end(rank).attached = true; }
    ~Loop() override { wire_.end(rank_).attached = false; }

    const char* name() const override { return "loop"; }
    std::string address() const override { return "loop:" + std::to_string(rank_); }

    Status claim(int peer, std::string_view address, std::uint64_t bytes, Lane& lane,
                 std::string& why) override
    {
        Ring*& current = wire_.end(rank_).towards[peer];
        wire_.expect(current == nullptr, rank_, "a second claim towards one peer");
        if (address != "loop:" + std::to_string(peer)) {
            why = "its address is not one of this process";
            return Status::refused;
        }
        if (wire_.claims.now()) {
            why = wire_.claims.why;
            return Status::refused;
        }
        if (wire_.end(rank_).refuses.contains(peer)) {
            why = "the fabric has failed";
            return Status::refused;
        }
        Ring* ring = nullptr;
        const Status status = wire_.words() ? wire_.by_words(rank_, peer, bytes, ring, why)
                                            : wire_.take(rank_, peer, bytes, ring, why);
        if (status != Status::ok)
            return status;
        if (!wire_.words())
            wire_.announce(*ring);
        current = ring;
        lane = Wire::sending(*ring);
        return Status::ok;
    }

    Status grow(int peer, std::uint64_t bytes, Lane& lane, std::string& why) override
    {
        Ring*& current = wire_.end(rank_).towards[peer];
        if (!wire_.expect(current != nullptr, rank_, "growth of a ring that was never claimed"))
            return Status::refused;
        wire_.expect(bytes > current->bytes, rank_, "growth to a ring that is not larger");
        if (wire_.growths.now()) {
            why = wire_.growths.why;
            return Status::refused;
        }
        if (wire_.end(rank_).refuses.contains(peer)) {
            why = "the fabric has failed";
            return Status::refused;
        }
        Ring* ring = nullptr;
        const Status status = wire_.words() ? wire_.by_words(rank_, peer, bytes, ring, why)
                                            : wire_.take(rank_, peer, bytes, ring, why);
        if (status != Status::ok)
            return status;
        current = ring;
        lane = Wire::sending(*ring);
        return Status::ok;
    }

    void drop(int peer, Lane& lane) override
    {
        Ring* ring = wire_.by_ref(lane.ref);
        if (wire_.expect(ring != nullptr && ring->from == rank_ && ring->to == peer && !ring->dropped,
                         rank_, "drop of a lane that is not the sender's"))
            wire_.drop(*ring);
        lane = {};
    }

    bool accept(Claim& claim) override
    {
        Ring* ring = wire_.accept(rank_);
        if (ring == nullptr)
            return false;
        claim = {ring->from, Wire::receiving(*ring)};
        return true;
    }

    const std::uint64_t* doorbell() const override { return &wire_.end(rank_).doorbell; }

    Status open(int peer, std::uint64_t ref, std::uint64_t bytes, Lane& lane) override
    {
        Ring* ring = wire_.by_ref(ref);
        if (ring == nullptr || ring->to != rank_ || ring->from != peer || ring->bytes != bytes ||
            ring->opened)
            return Status::refused;
        ring->opened = true;
        lane = Wire::receiving(*ring);
        return Status::ok;
    }

    void close(int peer, Lane& lane) override
    {
        Ring* ring = wire_.by_ref(lane.ref);
        if (wire_.expect(ring != nullptr && ring->to == rank_ && ring->from == peer && ring->opened &&
                             !ring->closed,
                         rank_, "close of a lane that is not the receiver's")) {
            wire_.expect(ring->ranges.empty(), rank_, "close of a lane that is still written");
            wire_.close(*ring);
        }
        lane = {};
    }

    void strand(int peer, Lane& lane) override
    {
        Ring* ring = wire_.by_ref(lane.ref);
        if (wire_.expect(ring != nullptr && ring->to == rank_ && ring->from == peer && ring->opened &&
                             !ring->closed,
                         rank_, "strand of a lane that is not the receiver's"))
            wire_.strand(*ring);
        lane = {};
    }
    void abandon(int peer) override { wire_.abandon(rank_, peer); }
    bool failed(int& peer, std::string& why) override
    {
        why = "the loop was cut";
        return wire_.failed(rank_, peer);
    }
    bool next_word(Word& word) override
    {
        auto& words = wire_.end(rank_).words;
        if (words.empty())
            return false;
        word = words.front();
        words.pop_front();
        return true;
    }
    void take_word(const Word& word) override { wire_.hear(rank_, word); }
    bool flush() override { return wire_.flush(rank_); }

    bool direct() const override { return false; }
    void publish(int, Lane& lane, std::uint64_t from, std::uint64_t to) override
    {
        wire_.publish(rank_, lane, from, to);
    }
    void progress() override { wire_.progress(rank_); }
    bool placed() const override { return wire_.placed(rank_); }

private:
    Wire& wire_;
    const int rank_;
};

} // namespace

Fabric::Fabric(const Options& options) : wire_(std::make_unique<Wire>(options)) {}
Fabric::~Fabric() = default;

std::unique_ptr<Backend> Fabric::attach(int rank)
{
    return std::make_unique<Loop>(*wire_, rank);
}

void Fabric::refuse_claim(unsigned n, std::string why)
{
    wire_->claims = {n, std::move(why)};
}

void Fabric::refuse_growth(unsigned n, std::string why)
{
    wire_->growths = {n, std::move(why)};
}

void Fabric::fail_at(std::uint64_t n, Fails what, Told told)
{
    wire_->fail_at(n, what, told);
}

std::uint64_t Fabric::events() const
{
    return wire_->events();
}

bool Fabric::busy() const
{
    return wire_->busy();
}

const std::vector<std::string>& Fabric::broken() const
{
    return wire_->broken_;
}

} // namespace storm::loop
