// SPDX-License-Identifier: MIT
// MPI_THREAD_MULTIPLE: several threads of two ranks in one process, over shared memory
// and carried by the (fake) real MPI; the loop's fabric belongs to one thread. Threads
// record what is wrong, the test asserts. The thread sanitizer runs this program (`tests/run --long`).
#include "cmocka.hh"
#include "fake_mpi.hh"

#include "rank.hh"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

extern "C" {
extern const storm::BackendPlugin storm_backend; // backends/shm/shm.cc, compiled in
}

namespace storm::unit {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 150;

class RealClock final : public Clock {
public:
    std::uint64_t ticks() override
    {
        return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    }
    std::uint64_t ticks_per_us() const override { return 1000; }
    void yield() override { std::this_thread::yield(); }
    void sleep_us(std::uint32_t us) override { std::this_thread::sleep_for(std::chrono::microseconds(us)); }
};

enum class Over { shm, carried };

template <Over over>
struct Threads {
    Threads() : mpi(2, {})
    {
        log.set_level(LogLevel::quiet);
        settings.ring_min = 8192; // small: full rings, growth and waiting sends are common
        settings.ring_max = 16384;
        settings.eager_max = 8000;
        settings.poll_native = 20;
        for (int i = 0; i < 2; ++i) {
            std::string why;
            if (over == Over::shm)
                backends[i].reset(storm_backend.open({i, settings.memory_max, &log}, why));
        }
        for (int i = 0; i < 2; ++i) {
            RankSetup setup;
            setup.real = &mpi.real(i);
            setup.clock = &clock;
            setup.log = &log;
            setup.settings = &settings;
            setup.backend = backends[i].get();
            setup.world_rank = i;
            setup.world_size = 2;
            setup.spin_limit = 10;
            setup.threaded = true;
            setup.private_comm = mpi.private_comm(i);
            setup.address_of = [this](int peer, std::string&) { return backends[peer]->address(); };
            setup.asked = &asked[i];
            setup.answer = [this](const RankReport&) { ++answers; };
            ranks[i] = std::make_unique<Rank>(setup);
            world[i] = ranks[i]->find(mpi.real(i).comm_world);
        }
    }
    ~Threads()
    {
        for (auto& rank : ranks)
            rank.reset();
    }

    // Runs `body(rank, thread)` in kThreads threads of each rank, which go on with progress
    // until all have ended, as in MPI_Finalize; then looks at the result.
    template <class Body>
    void run(Body body)
    {
        ended = 0;
        std::vector<std::thread> all;
        for (int i = 0; i < 2; ++i)
            for (int t = 0; t < kThreads; ++t)
                all.emplace_back([=, this] {
                    body(i, t);
                    for (++ended; ended < 2 * kThreads; std::this_thread::yield())
                        ranks[i]->poll();
                });
        for (std::thread& thread : all)
            thread.join();
        expect_that(wrong == 0, "%d wrong, the first: %s", wrong.load(), first);
    }
    void expect(bool good, const char* what)
    {
        if (!good && wrong++ == 0)
            std::snprintf(first, sizeof first, "%s", what);
    }
    TypeInfo& bytes(int i) { return *ranks[i]->type_of(mpi.real(i).byte); }

    MPI_Request isend(int i, const std::vector<unsigned>& data, int tag, Comm& comm, Mode mode = Mode::standard)
    {
        return ranks[i]->isend(data.data(), static_cast<int>(data.size() * 4), bytes(i), 1 - i, tag, comm, mode);
    }
    MPI_Request irecv(int i, std::vector<unsigned>& data, int source, int tag, Comm& comm)
    {
        return ranks[i]->irecv(data.data(), static_cast<int>(data.size() * 4), bytes(i), source, tag, comm);
    }

    Log log;
    Settings settings;
    RealClock clock;
    FakeMpi mpi;
    std::unique_ptr<Backend> backends[2];
    std::unique_ptr<Rank> ranks[2];
    Comm* world[2] = {};
    std::atomic<bool> asked[2] = {};
    std::atomic<int> wrong{0}, ended{0}, answers{0};
    char first[100] = "";
};

// Sizes from nothing to beyond the eager limit.
std::size_t words_of(int round)
{
    constexpr std::size_t kSizes[] = {1, 3, 60, 300, 1200, 1999, 2, 2600};
    return kSizes[static_cast<std::size_t>(round) % 8];
}

template <Over over>
void threads_with_own_tags_do_not_meet(Threads<over>& f)
{
    f.run([&f](int i, int t) {
        for (int round = 0; round < kRounds; ++round) {
            const std::size_t n = words_of(round + t);
            const auto mine = static_cast<unsigned>((i * 16 + t) * 65536 + round);
            const auto theirs = static_cast<unsigned>(((1 - i) * 16 + t) * 65536 + round);
            const Mode mode = round % 7 == 3 ? Mode::synchronous : Mode::standard;
            std::vector<unsigned> out(n, mine), in(n, 0);
            MPI_Request requests[2] = {f.irecv(i, in, round % 3 == 0 ? MPI_ANY_SOURCE : 1 - i, t, *f.world[i]),
                                       f.isend(i, out, t, *f.world[i], mode)};
            MPI_Status statuses[2];
            f.expect(f.ranks[i]->waitall(2, requests, statuses) == MPI_SUCCESS, "waitall fails");
            f.expect(in == std::vector<unsigned>(n, theirs), "another thread's bytes");
            f.expect(statuses[0].MPI_TAG == t && statuses[0]._ucount == n * 4, "another thread's status");
        }
    });
}

// All threads of both ranks send and receive under one tag: each message arrives once.
template <Over over>
void threads_under_one_tag_lose_nothing(Threads<over>& f)
{
    std::vector<std::atomic<int>> seen(2 * kThreads * kRounds);
    f.run([&](int i, int t) {
        for (int round = 0; round < kRounds; ++round) {
            const int name = (i * kThreads + t) * kRounds + round;
            std::vector<unsigned> out(words_of(round), static_cast<unsigned>(name)), in(2600, 0);
            MPI_Request receive = f.irecv(i, in, 1 - i, 5, *f.world[i]);
            MPI_Request sent = f.isend(i, out, 5, *f.world[i]);
            MPI_Status status;
            f.ranks[i]->wait(&receive, &status);
            f.ranks[i]->wait(&sent, MPI_STATUS_IGNORE);
            const std::size_t words = status._ucount / 4;
            f.expect(in[0] == in[words - 1], "bytes of two messages");
            if (in[0] < seen.size())
                ++seen[in[0]];
        }
    });
    for (const auto& times : seen)
        assert_int_equal(times.load(), 1);
}

template <Over over>
void matched_message_belongs_to_one_thread(Threads<over>& f)
{
    std::atomic<int> left[2] = {kThreads * kRounds, kThreads * kRounds};
    std::vector<std::atomic<int>> seen(2 * kThreads * kRounds);
    f.run([&](int i, int t) {
        std::vector<std::vector<unsigned>> out(kRounds);
        std::vector<MPI_Request> requests; // large sends end only when they are received
        while (requests.size() < out.size() || left[i] > 0) {
            if (const std::size_t n = requests.size(); n < out.size()) {
                const int name = (i * kThreads + t) * kRounds + static_cast<int>(n);
                out[n].assign(words_of(static_cast<int>(n)), static_cast<unsigned>(name));
                requests.push_back(f.isend(i, out[n], 6, *f.world[i]));
            }
            MPI_Status status;
            MPI_Message message = f.ranks[i]->improbe(MPI_ANY_SOURCE, 6, *f.world[i], &status);
            if (message == nullptr)
                continue;
            std::vector<unsigned> in(status._ucount / 4, ~0u);
            f.expect(f.ranks[i]->owns_message(message), "a matched message is unknown");
            f.ranks[i]->mrecv(in.data(), static_cast<int>(status._ucount), f.bytes(i), message, &status);
            f.expect(in.front() == in.back() && in.front() < seen.size(), "bytes of two messages");
            if (in.front() < seen.size())
                ++seen[in.front()];
            --left[i];
        }
        f.ranks[i]->waitall(kRounds, requests.data(), MPI_STATUSES_IGNORE);
    });
    for (const auto& times : seen)
        assert_int_equal(times.load(), 1);
}

// Every message is delivered to a receive that was not cancelled, or fetched afterwards.
template <Over over>
void cancelled_receives_take_no_message(Threads<over>& f)
{
    std::atomic<int> got[2] = {0, 0};
    f.run([&](int i, int t) {
        const std::vector<unsigned> out(3, 7);
        for (int round = 0; round < kRounds; ++round) {
            std::vector<unsigned> in(3, 0);
            MPI_Request receive = f.irecv(i, in, 1 - i, 8, *f.world[i]);
            MPI_Request sent = f.isend(i, out, 8, *f.world[i]);
            f.ranks[i]->wait(&sent, MPI_STATUS_IGNORE);
            if ((round + t) % 2 == 0)
                f.ranks[i]->poll();
            f.ranks[i]->cancel(*reinterpret_cast<Request*>(receive));
            MPI_Status status;
            f.ranks[i]->wait(&receive, &status);
            f.expect((status._cancelled != 0) != (in[0] == 7), "cancelled and delivered, or neither");
            got[i] += status._cancelled == 0 ? 1 : 0;
        }
    });
    for (int i = 0; i < 2; ++i)
        for (std::vector<unsigned> in(3, 0); got[i] < kThreads * kRounds; ++got[i]) {
            MPI_Request receive = f.irecv(i, in, 1 - i, 8, *f.world[i]);
            for (int flag = 0; flag == 0;) {
                f.ranks[1 - i]->poll();
                f.ranks[i]->test(&receive, &flag, MPI_STATUS_IGNORE);
            }
        }
    MPI_Status status;
    for (int i = 0; i < 2; ++i)
        assert_false(f.ranks[i]->iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *f.world[i], &status));
}

// Each pair of threads makes, uses and frees communicators of its own, with messages
// under way when they are freed.
template <Over over>
void communicators_come_and_go_in_threads(Threads<over>& f)
{
    std::vector<std::vector<MPI_Comm>> handles;
    for (int n = 0; n < kThreads * 20; ++n)
        handles.push_back(f.mpi.make_comm({0, 1}));
    f.run([&](int i, int t) {
        for (int n = 0; n < 20; ++n) {
            const auto at = static_cast<std::size_t>(t * 20 + n);
            const MPI_Comm handle = handles[at][static_cast<std::size_t>(i)];
            Comm& comm = *f.ranks[i]->adopt(handle, 1000 + at);
            f.expect(f.ranks[i]->find(handle) == &comm, "a communicator is not found");
            std::vector<unsigned> out(40, static_cast<unsigned>(at)), in(40, 0);
            MPI_Request receive = f.irecv(i, in, 1 - i, 1, comm), sent = f.isend(i, out, 1, comm);
            f.ranks[i]->free_comm(comm, handle);
            f.ranks[i]->wait(&sent, MPI_STATUS_IGNORE);
            f.ranks[i]->wait(&receive, MPI_STATUS_IGNORE);
            f.expect(in == out, "another communicator's bytes");
        }
    });
}

// One thread waits, the others do the work and free requests that are active.
template <Over over>
void freed_requests_end_by_themselves(Threads<over>& f)
{
    f.run([&](int i, int t) {
        std::vector<std::vector<unsigned>> out, in;
        for (int round = 0; round < kRounds; ++round) {
            out.emplace_back(words_of(round), 3u);
            in.emplace_back(words_of(round), 0u);
        }
        for (std::size_t round = 0; round < out.size(); ++round) {
            MPI_Request receive = f.irecv(i, in[round], 1 - i, 20 + t, *f.world[i]);
            MPI_Request sent = f.isend(i, out[round], 20 + t, *f.world[i], round % 5 == 0 ? Mode::synchronous
                                                                                        : Mode::standard);
            if (f.ranks[i]->owns(sent))
                f.ranks[i]->free_request(&sent);
            if (round + 1 < out.size())
                f.ranks[i]->free_request(&receive);
            else
                f.ranks[i]->wait(&receive, MPI_STATUS_IGNORE);
        }
        std::vector<unsigned> done(1, 0);
        MPI_Request last = f.irecv(i, done, 1 - i, 40 + t, *f.world[i]);
        MPI_Request told = f.isend(i, done, 40 + t, *f.world[i]);
        f.ranks[i]->wait(&last, MPI_STATUS_IGNORE);
        f.ranks[i]->wait(&told, MPI_STATUS_IGNORE);
    });
}

// Reports, regions, names and answers to signals, while messages move.
template <Over over>
void what_is_told_meanwhile_loses_no_message(Threads<over>& f)
{
    f.run([&f](int i, int t) {
        Rank& rank = *f.ranks[i];
        for (int round = 0; round < kRounds; ++round) {
            const std::size_t n = words_of(round + t);
            std::vector<unsigned> out(n, static_cast<unsigned>(round)), in(n, 0);
            MPI_Request requests[2] = {f.irecv(i, in, 1 - i, t, *f.world[i]), f.isend(i, out, t, *f.world[i])};
            if (round % 5 == 0 && t == 0)
                f.expect(rank.report(true).rank == i, "another rank's report");
            if (round % 5 == 1 && t == 1)
                f.expect(rank.begin_region("five") && rank.in_region("five"), "the region does not begin");
            if (round % 5 == 4 && t == 1)
                f.expect(rank.end_region("five"), "the region does not end");
            if (round % 5 == 2 && t == 2)
                rank.rename(*f.world[i], round % 2 == 0 ? "even" : "a longer name of an odd round");
            if (round % 5 == 3 && t == 3)
                f.asked[i] = true;
            f.expect(rank.waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && in == out, "other bytes");
        }
    });
    for (auto& rank : f.ranks) {
        const RankReport told = rank->report(true);
        assert_int_equal(told.counters.ring_messages + told.counters.native_messages, kThreads * kRounds);
        assert_int_equal(told.pairs.front().ring_messages, told.counters.ring_messages);
        assert_int_equal(told.regions.front().entries, kRounds / 5);
        assert_true(told.waits.empty());
    }
    assert_true(f.answers > 0);
}

} // namespace
} // namespace storm::unit

#define IN_THREADS(name)                                                                           \
    UNIT_NAMED(#name " over shm", Threads<Over::shm>, name<Over::shm>),                            \
        UNIT_NAMED(#name " carried", Threads<Over::carried>, name<Over::carried>)

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        IN_THREADS(threads_with_own_tags_do_not_meet),
        IN_THREADS(threads_under_one_tag_lose_nothing),
        IN_THREADS(matched_message_belongs_to_one_thread),
        IN_THREADS(cancelled_receives_take_no_message),
        IN_THREADS(communicators_come_and_go_in_threads),
        IN_THREADS(freed_requests_end_by_themselves),
        IN_THREADS(what_is_told_meanwhile_loses_no_message),
    };
    return run_all(tests, argc, argv);
}
