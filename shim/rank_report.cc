// What a rank tells about itself: counters, pairs, regions, and what it waits for.
#include "rank.hh"

#include <algorithm>
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

// The fast path counts in the channels alone.
Counters Rank::sums() const
{
    Counters c = counters_;
    for (const auto& [peer, ch] : channels_) {
        c.ring_messages += ch->at_once + ch->ring_messages;
        c.ring_bytes += ch->ring_bytes;
        c.native_messages += ch->native_messages;
        c.native_bytes += ch->native_bytes;
        c.eligible += ch->at_once;
        c.eligible_in_ring += ch->at_once;
    }
    c.native_turn_us = turns_ticks_ / std::max<std::uint64_t>(setup_.clock->ticks_per_us(), 1);
    c.inside_looks = inside_calls_;
    return c;
}

Counters Rank::counters() const
{
    const Guard guard(*this);
    return sums();
}

RankReport Rank::report(bool waits) const
{
    const Guard guard(*this);
    return report_locked(waits);
}

RankReport Rank::report_locked(bool waits) const
{
    RankReport r;
    r.rank = setup_.world_rank;
    r.pid = ::getpid();
    char host[256] = "";
    if (::gethostname(host, sizeof host - 1) == 0)
        r.host = host;
    r.counters = sums();
    if (!setup_.backend_reason.empty())
        r.fallbacks.push_back(setup_.backend_reason);
    for (const auto& [peer, ch] : channels_) {
        PairReport p;
        p.peer = peer;
        p.path = static_cast<PairReport::Path>(ch->path);
        p.ring_messages = ch->at_once + ch->ring_messages;
        p.ring_bytes = ch->ring_bytes;
        p.native_messages = ch->native_messages;
        p.native_bytes = ch->native_bytes;
        p.ring_size = ch->out.lane().bytes;
        p.high_water = std::max(ch->high_water, ch->out.high_water());
        p.growths = ch->growths;
        r.high_water = std::max(r.high_water, p.high_water);
        if (ch->path != Channel::Path::fresh)
            r.pairs.push_back(p);
    }
    std::sort(r.pairs.begin(), r.pairs.end(), [](const auto& a, const auto& b) { return a.peer < b.peer; });
    for (const auto& [peer, why] : carried_why_)
        r.fallbacks.push_back("to rank " + std::to_string(peer) + ": " + why);
    r.regions = regions_.list(r.counters, setup_.clock->ticks(), setup_.clock->ticks_per_us());
    if (!waits)
        return r;
    {
        Lines lines(r.waits, "posted receives");
        const auto tell = [&](const Comm& comm, const Request* q) {
            for (; q != nullptr; q = List<Request, &Request::posted>::next(q))
                lines.add("a receive from " + peer_text(comm, q->rank, q->tag));
        };
        for (const auto& [identity, comm] : comms_) {
            tell(*comm, comm->posted_any.front());
            comm->each([&, c = comm.get()](const Source& s) { tell(*c, s.posted.front()); });
        }
    }
    {
        Lines lines(r.waits, "full rings");
        for (const Channel* ch : waiting_)
            lines.add("room in the ring to rank " + std::to_string(ch->peer) + ", for " +
                      std::to_string(ch->pending.size()) + " messages");
    }
    if (transfers_ != 0)
        r.waits.push_back(std::to_string(transfers_) + " transfers of the real MPI");
    Lines lines(r.waits, "messages that nobody has received");
    for (const auto& [identity, comm] : comms_)
        for (const Message* m = comm->arrivals.front(); m != nullptr; m = List<Message, &Message::of_comm>::next(m))
            lines.add("nothing: a message of " + std::to_string(m->total) +
                      " bytes has come that nobody has received, from " +
                      peer_text(*comm, m->source->rank, m->tag));
    return r;
}

// relaxed: the store allows the next signal to ask again, and carries no data
void Rank::answer_now()
{
    setup_.asked->store(false, std::memory_order_relaxed);
    if (setup_.answer)
        setup_.answer(report_locked(true));
}

// ---- regions

bool Rank::begin_region(const std::string& name)
{
    const Guard guard(*this);
    return regions_.begin(name, sums(), setup_.clock->ticks());
}

bool Rank::end_region(const std::string& name)
{
    const Guard guard(*this);
    return regions_.end(name, sums(), setup_.clock->ticks());
}

bool Rank::in_region(const std::string& name) const
{
    const Guard guard(*this);
    return regions_.is_open(name);
}

} // namespace storm
