// SPDX-License-Identifier: MIT
// A seeded random exchange between three ranks over everything that Rank offers, judged
// by MPI's own rules, which are checked in the plainest way after the fact:
//
//   each message is received once, whole, with the status that its sender makes;
//   each receive got a message that it asks for;
//   messages of one pair do not overtake: if a receive got the second of two messages
//     and asks for the first as well, then the first was taken by a receive posted
//     earlier;
//   at rest no pending receive asks for a message that is there.
//
// A message's length is its name: no two of one pair and communicator have the same.
// A failure prints the seed; `exchange_test` with STORM_UNIT_SEED=N or N-M runs only those.
#include "job.hh"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <random>

namespace storm::unit {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kRoom = 24000;

struct Sent {
    int from, to, comm, tag;
    std::size_t bytes;
    std::uint64_t number; // of the job, in the order of the calls
    Bytes data;           // the program's buffer
    MPI_Request request = nullptr;
    bool pending = false, freed = false;
};

struct Received {
    int at, comm, source, tag; // what was asked for
    std::uint64_t number;      // of posting
    Bytes buffer;
    MPI_Request request = nullptr;
    bool pending = true, cancelled = false;
    MPI_Status status = {};
    const Sent* got = nullptr;
};

struct Exchange {
    explicit Exchange(std::uint64_t seed) : Exchange(seed, options(seed)) {}
    Exchange(std::uint64_t seed, const JobOptions& how) : random(seed), job(how)
    {
        made = job.duplicate("second");
    }

    static JobOptions options(std::uint64_t seed)
    {
        std::mt19937_64 r(seed * 77 + 1);
        JobOptions o;
        o.ranks = kRanks;
        constexpr Where kPlaces[] = {Where::carried, Where::shm, Where::shm, Where::loop, Where::loop, Where::mixed};
        o.where = kPlaces[r() % 6];
        o.fabric.words = r() % 2 == 0;
        o.fabric.holds = r() % 2 == 0;
        o.seed = seed;
        o.threaded = r() % 4 == 0;
        o.settings.ring_max = std::uint64_t{8192} << r() % 4;
        o.settings.eager_max = r() % 3 == 0 ? 2000 : 12000;
        o.settings.send_buffer = r() % 3 == 0 ? 5000 : 1 << 24;
        o.settings.poll_native = 1 + r() % 4;
        o.settings.tags = r() % 4 == 0 ? "0-1" : "all";
        o.settings.memory_max = o.fabric.memory_max = r() % 4 == 0 ? 60000 : 1 << 22;
        o.fabric.delay_max = static_cast<unsigned>(r() % 12);
        o.mpi.seed = seed;
        o.mpi.delay_max = static_cast<unsigned>(r() % 6);
        o.mpi.eager_max = r() % 2 == 0 ? 4032 : 100;
        o.mpi.tag_max = 32767; // more than there are messages: none is used twice at a time
        return o;
    }

    void problem(const std::string& what)
    {
        if (found.empty())
            found = what;
    }
    std::uint64_t below(std::uint64_t n) { return random() % n; }
    Comm& comm(int rank, int which)
    {
        return which == 0 ? job.comm(rank) : *made[static_cast<std::size_t>(rank)].first;
    }

    static Bytes data_of(const Sent& s)
    {
        return pattern(s.bytes, static_cast<unsigned>(s.from * 31 + s.to * 7 + s.comm) +
                                    static_cast<unsigned>(s.bytes) * 101);
    }

    void send_one()
    {
        Sent s{};
        s.from = static_cast<int>(below(kRanks));
        s.to = static_cast<int>(below(kRanks));
        s.comm = static_cast<int>(below(2));
        s.tag = static_cast<int>(below(4));
        const std::size_t limits[] = {40, 300, 2500, 9000, 20000};
        s.bytes = below(limits[below(5)]);
        const auto used = [&](const Sent& o) {
            return o.from == s.from && o.to == s.to && o.comm == s.comm && o.bytes == s.bytes;
        };
        while (std::any_of(sent.begin(), sent.end(), used))
            ++s.bytes;
        s.number = ++calls;
        s.data = data_of(s);
        sent.push_back(std::move(s));
        Sent& kept = sent.back();
        const Mode modes[] = {Mode::standard, Mode::standard, Mode::synchronous, Mode::buffered};
        const Mode mode = modes[below(4)];
        Rank& rank = job[kept.from];
        const int n = static_cast<int>(kept.bytes);
        if (below(8) == 0) { // a persistent one, started once and given back
            kept.request = rank.send_init(kept.data.data(), n, job.bytes(kept.from), kept.to, kept.tag,
                                          comm(kept.from, kept.comm), mode);
            rank.start(*reinterpret_cast<Request*>(kept.request));
            rank.free_request(&kept.request);
            kept.freed = true;
            return;
        }
        kept.request = rank.isend(kept.data.data(), n, job.bytes(kept.from), kept.to, kept.tag,
                                  comm(kept.from, kept.comm), mode);
        kept.pending = true;
        if (below(10) == 0 && rank.owns(kept.request)) {
            rank.free_request(&kept.request);
            kept.pending = false;
            kept.freed = true;
        }
    }

    Received& ask(int at, int which, int source, int tag)
    {
        Received& r = received.emplace_back();
        r.at = at;
        r.comm = which;
        r.source = source;
        r.tag = tag;
        r.number = ++calls;
        r.buffer.assign(kRoom, std::byte{0xee});
        return r;
    }

    void receive_one(bool anything)
    {
        const int at = static_cast<int>(below(kRanks)), which = static_cast<int>(below(2));
        const bool any_source = anything || below(3) == 0, any_tag = anything || below(3) == 0;
        Received& r = ask(at, which, any_source ? MPI_ANY_SOURCE : static_cast<int>(below(kRanks)),
                          any_tag ? MPI_ANY_TAG : static_cast<int>(below(4)));
        r.request = job[at].irecv(r.buffer.data(), static_cast<int>(kRoom), job.bytes(at), r.source, r.tag,
                                  comm(at, which));
    }

    bool probe_one(int at, int which)
    {
        MPI_Status status;
        const int tag = below(2) == 0 ? MPI_ANY_TAG : static_cast<int>(below(4));
        const bool there = job[at].iprobe(MPI_ANY_SOURCE, tag, comm(at, which), &status);
        if (!there)
            return false;
        MPI_Status matched;
        const MPI_Message message = job[at].improbe(status.MPI_SOURCE, status.MPI_TAG, comm(at, which), &matched);
        if (message == nullptr || matched.MPI_TAG != status.MPI_TAG || matched._ucount != status._ucount) {
            problem("a probe told of a message that is not the next one");
            return true;
        }
        Received& r = ask(at, which, status.MPI_SOURCE, status.MPI_TAG);
        r.request = job[at].imrecv(r.buffer.data(), static_cast<int>(kRoom), job.bytes(at), message);
        return true;
    }

    void end(Received& r)
    {
        r.pending = false;
        r.cancelled = r.status._cancelled != 0;
        if (!r.cancelled)
            judge(r);
    }

    // Some requests are tested, alone or as an array.
    void complete_some()
    {
        const int rank = static_cast<int>(below(kRanks));
        std::vector<Received*> asked;
        std::vector<MPI_Request> requests;
        for (Received& r : received)
            if (r.pending && r.at == rank && below(3) != 0) {
                asked.push_back(&r);
                requests.push_back(r.request);
            }
        if (asked.empty())
            return;
        const int n = static_cast<int>(requests.size());
        std::vector<MPI_Status> statuses(requests.size());
        std::vector<int> indices(requests.size());
        int flag = 0, index = MPI_UNDEFINED, done = 0;
        switch (below(4)) {
        case 0:
            job[rank].test(&requests[0], &flag, &statuses[0]);
            if (flag != 0)
                indices[static_cast<std::size_t>(done++)] = 0;
            break;
        case 1:
            job[rank].testany(n, requests.data(), &index, &flag, &statuses[0]);
            if (flag != 0)
                indices[static_cast<std::size_t>(done++)] = index;
            break;
        case 2:
            job[rank].testall(n, requests.data(), &flag, statuses.data());
            for (int i = 0; flag != 0 && i < n; ++i)
                indices[static_cast<std::size_t>(done++)] = i;
            break;
        default: job[rank].testsome(n, requests.data(), &done, indices.data(), statuses.data()); break;
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(done); ++i) {
            Received& r = *asked[static_cast<std::size_t>(indices[i])];
            r.status = statuses[i];
            end(r);
        }
        for (Sent& s : sent)
            if (s.pending && s.from == rank && below(2) == 0)
                s.pending = !job.done(rank, s.request);
    }

    void cancel_one()
    {
        for (Received& r : received)
            if (r.pending && below(10) == 0) {
                job[r.at].cancel(*reinterpret_cast<Request*>(r.request));
                return;
            }
    }

    // Which message did this receive get, and is it whole?
    void judge(Received& r)
    {
        const std::string where = "receive " + std::to_string(r.number) + ": ";
        for (Sent& s : sent)
            if (s.to == r.at && s.comm == r.comm && s.from == r.status.MPI_SOURCE && s.bytes == r.status._ucount)
                r.got = &s;
        if (r.got == nullptr)
            return problem(where + "no such message was sent");
        if (r.got->tag != r.status.MPI_TAG || !asks(r, *r.got))
            problem(where + "another message was asked for");
        const Bytes data = data_of(*r.got);
        if (!std::equal(data.begin(), data.end(), r.buffer.begin()))
            problem(where + "wrong bytes");
        if (std::any_of(r.buffer.begin() + static_cast<std::ptrdiff_t>(data.size()), r.buffer.end(),
                        [](std::byte b) { return b != std::byte{0xee}; }))
            problem(where + "bytes behind the message were written");
        for (const Received& o : received)
            if (&o != &r && o.got == r.got)
                problem(where + "received twice");
    }

    static bool asks(const Received& r, const Sent& s)
    {
        return r.at == s.to && r.comm == s.comm && (r.source == MPI_ANY_SOURCE || r.source == s.from) &&
               (r.tag == MPI_ANY_TAG || r.tag == s.tag);
    }

    const Received* taker(const Sent& s) const
    {
        for (const Received& r : received)
            if (r.got == &s)
                return &r;
        return nullptr;
    }

    void judge_order()
    {
        for (const Received& second : received)
            for (const Sent& first : sent) {
                if (second.got == nullptr || first.from != second.got->from || first.number >= second.got->number ||
                    !asks(second, first))
                    continue;
                const Received* by = taker(first);
                if (by == nullptr || by->number > second.number)
                    problem("message " + std::to_string(second.got->number) + " overtook message " +
                            std::to_string(first.number));
            }
    }

    void judge_rest()
    {
        for (const Received& r : received)
            for (const Sent& s : sent)
                if (r.pending && taker(s) == nullptr && asks(r, s))
                    problem("receive " + std::to_string(r.number) + " waits for message " + std::to_string(s.number) +
                            ", which is there");
    }

    void take_completed()
    {
        for (Received& r : received)
            if (r.pending && job.done(r.at, r.request, &r.status))
                end(r);
    }

    void run(int steps)
    {
        for (int i = 0; i < steps && found.empty(); ++i) {
            switch (below(16)) {
            case 0: case 1: case 2: case 3: case 4: send_one(); break;
            case 5: case 6: case 7: receive_one(false); break;
            case 8: case 9: complete_some(); break;
            case 10: probe_one(static_cast<int>(below(kRanks)), static_cast<int>(below(2))); break;
            case 11: cancel_one(); break;
            case 12: job[static_cast<int>(below(kRanks))].place_sends(false); break;
            case 13: job[static_cast<int>(below(kRanks))].progress_inside(); break;
            default: job[static_cast<int>(below(kRanks))].poll(); break;
            }
        }
        job.settle();
        take_completed();
        judge_rest();
        // what is left is received by whoever asks for anything
        for (std::size_t i = 0; i < 2 * sent.size() && found.empty(); ++i) {
            for (int at = 0; at < kRanks; ++at)
                for (int which = 0; which < 2; ++which)
                    while (found.empty() && probe_one(at, which)) {
                    }
            job.settle();
            take_completed();
        }
        for (Received& r : received)
            if (r.pending) {
                job[r.at].cancel(*reinterpret_cast<Request*>(r.request));
                if (!job.done(r.at, r.request, &r.status) || r.status._cancelled == 0)
                    problem("a receive for which there is nothing cannot be cancelled");
                r.pending = false;
            }
        for (Sent& s : sent) {
            if (taker(s) == nullptr)
                problem("message " + std::to_string(s.number) + " was lost");
            if (s.pending && !job.done(s.from, s.request))
                problem("send " + std::to_string(s.number) + " does not end");
        }
        judge_order();
        for (int i = 0; i < kRanks; ++i)
            if (RankTest::buffered(job[i]) != 0 || RankTest::waiting(job[i]) || RankTest::transfers(job[i]) != 0)
                problem("rank " + std::to_string(i) + " is not at rest");
        problem_if(job.complaints());
    }
    void problem_if(const std::string& what)
    {
        if (!what.empty())
            problem(what);
    }

    std::mt19937_64 random;
    Job job;
    std::vector<std::pair<Comm*, MPI_Comm>> made;
    std::list<Sent> sent;
    std::list<Received> received;
    std::uint64_t calls = 0;
    std::string found;
};

struct Seeds {
    Seeds()
    {
        if (const char* only = ::secure_getenv("STORM_UNIT_SEED"); only != nullptr) {
            char* rest = nullptr;
            first = last = std::strtoull(only, &rest, 10);
            if (*rest == '-')
                last = std::strtoull(rest + 1, nullptr, 10);
        }
    }
    bool given() const { return ::secure_getenv("STORM_UNIT_SEED") != nullptr; }
    std::uint64_t first = 1, last = 400;
    std::unique_ptr<Exchange> exchange;
    std::string found;
};

void random_exchange_keeps_the_rules_of_mpi(Seeds& f)
{
    for (std::uint64_t seed = f.first; seed <= f.last; ++seed) {
        try {
            f.exchange = std::make_unique<Exchange>(seed);
            f.exchange->run(60 + static_cast<int>(seed % 200));
            f.found = f.exchange->found;
        } catch (const std::exception& e) {
            f.found = e.what();
        }
        expect_that(f.found.empty(), "%s\nagain: STORM_UNIT_SEED=%llu exchange_test", f.found.c_str(),
                    static_cast<unsigned long long>(seed));
        f.exchange.reset();
    }
}

// The fabric fails at each of its events in turn, in each way, while an exchange goes on
// that is the same up to there.
struct Failures : Seeds {
    static constexpr std::uint64_t kKinds = 9;

    // What becomes of one exchange; the number of events if `at` is 0.
    std::uint64_t run(std::uint64_t seed, std::uint64_t at, std::uint64_t kind)
    {
        std::mt19937_64 r(seed * 31 + 5);
        JobOptions o = Exchange::options(seed);
        o.where = r() % 4 == 0 ? Where::mixed : Where::loop;
        o.fabric.words = r() % 2 == 0;
        o.fabric.holds = r() % 2 == 0;
        std::uint64_t events = 0;
        try {
            exchange = std::make_unique<Exchange>(seed, o);
            exchange->job.fabric->fail_at(at, static_cast<loop::Fails>(kind % 3), static_cast<loop::Told>(kind / 3));
            exchange->run(80);
            found = exchange->found;
            events = exchange->job.fabric->events();
            for (int i = 0; i < kRanks; ++i)
                failovers += exchange->job[i].counters().failovers;
        } catch (const std::exception& e) {
            found = e.what();
        }
        if (!found.empty())
            return 0;
        exchange.reset();
        return events;
    }
    std::uint64_t failovers = 0;
};

void failure_at_any_point_loses_and_doubles_nothing(Failures& f)
{
    constexpr std::uint64_t kSeeds = 4;
    const std::uint64_t last = f.given() ? f.last : kSeeds;
    for (std::uint64_t seed = f.first; seed <= last; ++seed) {
        const std::uint64_t events = f.run(seed, 0, 0);
        for (std::uint64_t at = 1; at <= events; ++at)
            for (std::uint64_t kind = 0; kind < Failures::kKinds; ++kind) {
                f.run(seed, at, kind);
                expect_that(f.found.empty(), "failure of kind %llu at event %llu: %s\n"
                            "again: STORM_UNIT_SEED=%llu exchange_test", static_cast<unsigned long long>(kind),
                            static_cast<unsigned long long>(at), f.found.c_str(),
                            static_cast<unsigned long long>(seed));
            }
    }
    assert_true(f.failovers > 0);
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Seeds, random_exchange_keeps_the_rules_of_mpi),
        UNIT(Failures, failure_at_any_point_loses_and_doubles_nothing),
    };
    return run_all(tests, argc, argv);
}
