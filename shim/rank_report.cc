// SPDX-License-Identifier: MIT
// What a rank tells about itself: counters, pairs, regions, and what it waits for.
#include "rank.hh"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unistd.h>

namespace storm {
namespace {

constexpr std::size_t kWaitsMax = 20; // lines of each kind

std::string peer_text(const Comm& comm, int rank, int tag)
{
    return (rank == MPI_ANY_SOURCE ? "any rank" : "rank " + std::to_string(rank)) +
           (tag == MPI_ANY_TAG ? ", any tag" : ", tag " + std::to_string(tag)) + ", on " +
           (comm.name.empty() ? "a communicator without a name" : comm.name);
}

// Lines of one kind, the first of them.
class Lines {
public:
    Lines(std::vector<std::string>& out, const char* more) : out_(out), more_(more) {}
    ~Lines()
    {
        if (n_ > kWaitsMax)
            out_.push_back("... and " + std::to_string(n_ - kWaitsMax) + " more " + more_);
    }
    Lines(const Lines&) = delete;
    void add(const std::string& line)
    {
        if (++n_ <= kWaitsMax)
            out_.push_back(line);
    }

private:
    std::vector<std::string>& out_;
    const char* more_;
    std::size_t n_ = 0;
};

} // namespace

// What was sent to one peer. The fast path counts in the channels alone.
struct Rank::Sent {
    PairReport pair;
    std::uint64_t at_once = 0;
};

// A channel while it is looked at. From inside the real MPI its lock is only tried, as
// another thread may hold it over a call that waits for us; a holder that writes records
// is gone soon.
class Rank::OnChannel {
public:
    OnChannel(Channel& channel, bool threaded, Busy busy) : lock_(channel.out_lock, std::defer_lock)
    {
        constexpr int kTries = 1000;
        if (threaded && busy == Busy::wait)
            lock_.lock();
        for (int n = 0; threaded && busy == Busy::glance && !lock_.try_lock() && ++n < kTries;)
            ;
        ours_ = !threaded || lock_.owns_lock();
    }
    explicit operator bool() const { return ours_; }

private:
    std::unique_lock<Lock> lock_;
    bool ours_;
};

// They live as long as the rank.
std::vector<Channel*> Rank::channels_now() const
{
    std::shared_lock shared(registry_, std::defer_lock);
    if (threaded_)
        shared.lock();
    std::vector<Channel*> all;
    for (const auto& [peer, ch] : channels_)
        all.push_back(ch.get());
    return all;
}

std::vector<Rank::Sent> Rank::all_sent(Busy busy) const
{
    std::vector<Sent> all;
    for (Channel* ch : channels_now()) {
        const OnChannel held(*ch, threaded_, busy);
        Sent s;
        PairReport& p = s.pair;
        s.at_once = glance_at(ch->at_once);
        p.peer = ch->peer;
        const Channel::Path path = glance_at(ch->path);
        p.path = path == Channel::Path::sealing ? PairReport::Path::carried : static_cast<PairReport::Path>(path);
        p.ring_messages = s.at_once + glance_at(ch->ring_messages);
        p.ring_bytes = glance_at(ch->ring_bytes);
        p.native_messages = glance_at(ch->native_messages);
        p.native_bytes = glance_at(ch->native_bytes);
        p.growths = glance_at(ch->growths);
        p.high_water = glance_at(ch->high_water);
        if (held) {
            p.ring_size = ch->out.lane().bytes;
            p.high_water = std::max(p.high_water, ch->out.high_water());
        }
        all.push_back(s);
    }
    return all;
}

Counters Rank::sums(const std::vector<Sent>& all) const
{
    Counters c;
#define STORM_COUNTER(field, name, help) c.field = glance_at(counters_.field);
#include "counters.def"
#undef STORM_COUNTER
    for (const Sent& s : all) {
        c.ring_messages += s.pair.ring_messages;
        c.ring_bytes += s.pair.ring_bytes;
        c.native_messages += s.pair.native_messages;
        c.native_bytes += s.pair.native_bytes;
        c.eligible += s.at_once;
        c.eligible_in_ring += s.at_once;
    }
    c.native_turn_us = glance_at(turns_ticks_) / std::max<std::uint64_t>(setup_.clock->ticks_per_us(), 1);
    c.inside_looks = glance_at(inside_calls_);
    return c;
}

Counters Rank::counters() const
{
    return sums(all_sent(Busy::wait));
}

RankReport Rank::report(bool waits)
{
    return told(waits, Busy::wait);
}

RankReport Rank::told(bool waits, Busy busy)
{
    RankReport r;
    r.rank = setup_.world_rank;
    r.pid = ::getpid();
    char host[256] = "";
    if (::gethostname(host, sizeof host - 1) == 0)
        r.host = host;
    const std::vector<Sent> all = all_sent(busy);
    r.counters = sums(all);
    for (const Sent& s : all) {
        r.high_water = std::max(r.high_water, s.pair.high_water);
        if (s.pair.path != PairReport::Path::none)
            r.pairs.push_back(s.pair);
    }
    std::sort(r.pairs.begin(), r.pairs.end(), [](const auto& a, const auto& b) { return a.peer < b.peer; });
    if (!setup_.backend_reason.empty())
        r.fallbacks.push_back(setup_.backend_reason);
    if (!setup_.fabric_reason.empty())
        r.fallbacks.push_back("no fabric: " + setup_.fabric_reason);
    {
        const Hold tables(tables_, threaded_);
        for (const auto& [peer, why] : carried_why_)
            r.fallbacks.push_back("to rank " + std::to_string(peer) + ": " + why);
        r.regions = regions_.list(r.counters, setup_.clock->ticks(), setup_.clock->ticks_per_us());
    }
    if (waits)
        tell_waits(r, busy);
    return r;
}

void Rank::tell_waits(RankReport& r, Busy busy)
{
    std::vector<Comm*> comms; // held, so that none ends meanwhile
    {
        const auto lock = registry();
        for (const auto& [identity, comm] : comms_) {
            adjust(comm->users, 1, threaded_);
            comms.push_back(comm.get());
        }
    }
    {
        Lines lines(r.waits, "posted receives");
        const auto tell = [&](const Comm& comm, const Request* q) {
            for (; q != nullptr; q = List<Request, &Request::posted>::next(q))
                lines.add("a receive from " + peer_text(comm, q->rank, q->tag));
        };
        for (Comm* comm : comms) {
            const Hold queues(comm->lock, threaded_);
            tell(*comm, comm->posted_any.front());
            comm->each([&](const Source& s) { tell(*comm, s.posted.front()); });
        }
    }
    std::vector<Channel*> full;
    {
        const Hold tables(tables_, threaded_);
        full = waiting_;
    }
    {
        Lines lines(r.waits, "full rings");
        for (Channel* ch : full) {
            const std::string to = "room in the ring to rank " + std::to_string(ch->peer);
            if (const OnChannel held(*ch, threaded_, busy); held)
                lines.add(to + ", for " + std::to_string(ch->pending.size()) + " messages");
            else
                lines.add(to);
        }
    }
    if (const std::size_t transfers = glance_at(transfers_); transfers != 0)
        r.waits.push_back(std::to_string(transfers) + " transfers of the real MPI");
    {
        Lines lines(r.waits, "messages that nobody has received");
        for (Comm* comm : comms) {
            const Hold queues(comm->lock, threaded_);
            for (const Message* m = comm->arrivals.front(); m != nullptr;
                 m = List<Message, &Message::of_comm>::next(m))
                lines.add("nothing: a message of " + std::to_string(m->total) +
                          " bytes has come that nobody has received, from " +
                          peer_text(*comm, m->source->rank, m->tag));
        }
    }
    for (Comm* comm : comms)
        drop(*comm);
}

// relaxed: the exchange lets one thread answer, and allows the next signal to ask again
void Rank::answer_now()
{
    if (setup_.asked->exchange(false, std::memory_order_relaxed) && setup_.answer)
        setup_.answer(told(true, Busy::glance));
}

// ---- regions

bool Rank::begin_region(const std::string& name)
{
    const Counters now = counters();
    const Hold tables(tables_, threaded_);
    return regions_.begin(name, now, setup_.clock->ticks());
}

bool Rank::end_region(const std::string& name)
{
    const Counters now = counters();
    const Hold tables(tables_, threaded_);
    return regions_.end(name, now, setup_.clock->ticks());
}

bool Rank::in_region(const std::string& name) const
{
    const Hold tables(tables_, threaded_);
    return regions_.is_open(name);
}

} // namespace storm
