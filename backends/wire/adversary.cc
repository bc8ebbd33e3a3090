// SPDX-License-Identifier: MIT
#include "adversary.hh"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>

namespace storm::wire {
namespace {

struct Span {
    std::uint64_t at, bytes;
};

struct Moving {
    int from, to;
    Write write;
    std::byte* target;
    std::vector<std::byte> copy; // once its source may change
    bool copied = false;
    std::vector<Span> rest; // pieces that are not placed
    unsigned wait = 0;
    unsigned written_in = 0; // looks; 0 when it was told
    unsigned signal_in = 0;  // the same

    bool placed() const { return rest.empty(); }
    bool over() const { return placed() && written_in == 0 && signal_in == 0; }
};

struct Exposed {
    int rank;
    std::byte* base;
    std::uint64_t bytes;
    bool live;
};

} // namespace

struct Adversary::State {
    explicit State(const AdversaryOptions& o) : options(o), random(o.seed) {}

    const AdversaryOptions options;
    std::mt19937_64 random;
    std::deque<Moving> moving;
    std::vector<Exposed> regions; // by key
    std::map<int, std::deque<Event>> events;
    std::map<std::pair<int, int>, bool> cut; // and whether it was told
    std::map<int, bool> attached;
    std::vector<std::string> broken;

    bool expect(bool kept, int rank, const char* what)
    {
        if (!kept && broken.size() < 20)
            broken.push_back("rank " + std::to_string(rank) + ": " + what);
        return kept;
    }
    unsigned delay() { return static_cast<unsigned>(random() % (options.delay_max + 1)); }

    Status write(int from, int to, const Write& w);
    void look(int rank);
    bool may_move(std::size_t at) const;
    void place_piece(Moving& m);
    void copy_source(Moving& m);
    void tell(Moving& m);
    std::vector<Span> pieces(const std::byte* target, std::uint64_t bytes);
};

// Whole lines, or pieces of any length; in any order.
std::vector<Span> Adversary::State::pieces(const std::byte* target, std::uint64_t bytes)
{
    constexpr std::uint64_t kLine = 64;
    std::vector<Span> all;
    for (std::uint64_t at = 0; at < bytes;) {
        std::uint64_t n;
        if (options.kept.whole_lines) {
            n = kLine - reinterpret_cast<std::uintptr_t>(target + at) % kLine;
            n += random() % (bytes / 256 + 1) * kLine;
        } else {
            n = 1 + random() % std::max<std::uint64_t>(kLine, bytes / 4);
        }
        n = std::min(n, bytes - at);
        all.push_back({at, n});
        at += n;
    }
    std::shuffle(all.begin(), all.end(), random);
    return all;
}

Status Adversary::State::write(int from, int to, const Write& w)
{
    if (const auto dead = cut.find({from, to}); dead != cut.end() && dead->second)
        return Status::refused;
    const auto under_way = std::count_if(moving.begin(), moving.end(), [&](const Moving& m) { return m.from == from; });
    if (static_cast<unsigned>(under_way) >= options.room)
        return Status::again;
    const bool known = w.bytes == 0 || (w.key < regions.size() && regions[w.key].live && regions[w.key].rank == to);
    if (!expect(known, from, "a write into memory that is not exposed") ||
        !expect(w.bytes != 0 || (w.flags & kSignal) != 0, from, "an empty write without a signal"))
        return Status::refused;
    std::byte* target = nullptr;
    if (w.bytes != 0) {
        const Exposed& there = regions[w.key];
        target = there.base + (w.address - reinterpret_cast<std::uintptr_t>(there.base));
        const bool inside = target >= there.base && target + w.bytes <= there.base + there.bytes;
        const Region* s = w.source;
        if (!expect(inside, from, "a write beyond the target's region") ||
            !expect(s != nullptr && w.from >= s->base && w.from + w.bytes <= s->base + s->bytes, from,
                    "a source that is not exposed") ||
            !expect(w.bytes <= options.write_max, from, "a write that is too long"))
            return Status::refused;
    }
    Moving m{.from = from, .to = to, .write = w, .target = target, .copy = {}, .rest = pieces(target, w.bytes)};
    m.wait = delay();
    m.written_in = 1 + delay();
    m.signal_in = (w.flags & kSignal) != 0 ? 1 + (options.kept.remote_cq ? 0 : delay()) : 0;
    if (w.bytes <= options.inline_max && (w.flags & kDeliveryComplete) == 0) {
        copy_source(m);
        m.written_in = 0;
    }
    moving.push_back(std::move(m));
    return Status::ok;
}

void Adversary::State::copy_source(Moving& m)
{
    if (m.copied || m.write.bytes == 0)
        return;
    m.copy.assign(m.write.from, m.write.from + m.write.bytes);
    m.copied = true;
}

// May a piece of this write be placed now?
bool Adversary::State::may_move(std::size_t at) const
{
    const Moving& m = moving[at];
    for (std::size_t i = 0; i < at; ++i) {
        const Moving& before = moving[i];
        if (before.from != m.from || before.to != m.to || before.placed())
            continue;
        if (options.kept.placement_order)
            return false;
        if (options.kept.fenced && ((m.write.flags | before.write.flags) & kFenced) != 0)
            return false;
    }
    return true;
}

void Adversary::State::place_piece(Moving& m)
{
    const Span span = m.rest.back();
    m.rest.pop_back();
    const auto dead = cut.find({m.from, m.to});
    if (dead != cut.end() || !regions[m.write.key].live)
        return;
    const std::byte* from = m.copied ? m.copy.data() : m.write.from;
    std::memcpy(m.target + span.at, from + span.at, span.bytes);
}

void Adversary::State::tell(Moving& m)
{
    const bool dead = cut.contains({m.from, m.to});
    const bool waits = (m.write.flags & kDeliveryComplete) != 0 && options.kept.delivery_complete && !m.placed();
    if (m.written_in != 0 && !waits && --m.written_in == 0 && !dead) {
        copy_source(m); // free from now on
        events[m.from].push_back({Event::Kind::written, m.to, 0, m.write.cookie});
    }
    if (m.signal_in != 0 && (m.placed() || !options.kept.remote_cq) && --m.signal_in == 0 && !dead)
        events[m.to].push_back({Event::Kind::arrived, m.from, m.write.signal, 0});
}

void Adversary::State::look(int rank)
{
    for (std::size_t i = 0; i < moving.size(); ++i) {
        Moving& m = moving[i];
        if (m.from != rank && m.to != rank)
            continue;
        if (!m.placed() && (options.kept.auto_progress || m.to == rank) && may_move(i)) {
            if (m.wait > 0)
                --m.wait;
            else
                place_piece(m);
            if (random() % 4 == 0)
                m.wait = delay();
        }
        tell(m);
    }
    std::erase_if(moving, [](const Moving& m) { return m.over(); });
}

class AdversaryEnd final : public Transport {
public:
    AdversaryEnd(Adversary::State& fabric, int rank) : fabric_(fabric), rank_(rank)
    {
        fabric_.attached[rank] = true;
    }
    ~AdversaryEnd() override { fabric_.attached[rank_] = false; }

    const char* name() const override { return "adversary"; }
    const Promises& promises() const override { return fabric_.options.declared; }
    std::string address() const override { return "adversary:" + std::to_string(rank_); }

    Status expose(std::byte* base, std::uint64_t bytes, Region& region, std::string& why) override
    {
        if (exposed_ + bytes > fabric_.options.memory_max) {
            why = "no more memory can be registered";
            return Status::refused;
        }
        exposed_ += bytes;
        region = {base, bytes, reinterpret_cast<std::uintptr_t>(base), fabric_.regions.size(), nullptr};
        fabric_.regions.push_back({rank_, base, bytes, true});
        return Status::ok;
    }
    void withdraw(Region& region) override
    {
        exposed_ -= region.bytes;
        fabric_.regions[region.key].live = false;
        // what still reads from there gets what stands there now
        for (Moving& m : fabric_.moving)
            if (m.from == rank_ && m.write.bytes != 0 && m.write.from >= region.base &&
                m.write.from < region.base + region.bytes)
                fabric_.copy_source(m);
        region = {};
    }
    Status connect(int peer, std::string_view address, std::string& why) override
    {
        const auto there = fabric_.attached.find(peer);
        if (address == "adversary:" + std::to_string(peer) && there != fabric_.attached.end() && there->second)
            return ++asked_[peer] % 3 == 0 || connected_[peer] ? (connected_[peer] = true, Status::ok) : Status::again;
        why = "its address is not one of this process";
        return Status::refused;
    }
    void disconnect(int peer) override { connected_[peer] = false; }

    Status write(int peer, const Write& write) override
    {
        fabric_.expect(connected_[peer], rank_, "a write without a connection");
        return fabric_.write(rank_, peer, write);
    }
    std::uint64_t write_max() const override { return fabric_.options.write_max; }
    std::uint64_t inline_max() const override { return fabric_.options.inline_max; }

    bool next(Event& event) override
    {
        auto& events = fabric_.events[rank_];
        if (events.empty() && !looked_) {
            looked_ = true;
            fabric_.look(rank_);
        }
        if (events.empty()) {
            looked_ = false;
            return false;
        }
        const std::size_t any = fabric_.random() % events.size(); // in no order
        event = events[any];
        events.erase(events.begin() + static_cast<std::ptrdiff_t>(any));
        return true;
    }
    bool passive_target() const override { return !fabric_.options.kept.auto_progress; }
    std::string why(int) const override { return "the link is cut"; }

private:
    Adversary::State& fabric_;
    const int rank_;
    std::uint64_t exposed_ = 0;
    bool looked_ = false;
    std::map<int, unsigned> asked_;
    std::map<int, bool> connected_;
};

Adversary::Adversary(const AdversaryOptions& options) : state_(std::make_unique<State>(options)) {}
Adversary::~Adversary() = default;

std::unique_ptr<Transport> Adversary::attach(int rank)
{
    return std::make_unique<AdversaryEnd>(*state_, rank);
}

void Adversary::cut(int from, int to, bool told)
{
    state_->cut[{from, to}] = told;
    if (told)
        state_->events[from].push_back({Event::Kind::failed, to, 0, 0});
}

const std::vector<std::string>& Adversary::broken() const
{
    return state_->broken;
}

bool Adversary::busy() const
{
    return !state_->moving.empty();
}

} // namespace storm::wire
