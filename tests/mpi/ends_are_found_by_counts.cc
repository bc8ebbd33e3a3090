// SPDX-License-Identifier: MIT
// storm_term of storm.h: an epoch ends on all ranks together, once all are idle and all
// that was sent has arrived, on a duplicate of the world and on parts of it, for ranks
// that work, that compute without a call, and that have nothing; epoch follows epoch; a
// message that is read late, at whatever look, is waited for.
// run: ranks=1,2,3,5 timeout=90 long
#include <deque>

#include "check.h"

#include "storm.h"
using namespace check;

struct Walk {
    MPI_Comm comm;
    int me = 0, ranks = 0;
    Random random;
    storm_term *term = nullptr;
    std::int64_t sent = 0, arrived = 0, born = 0, ended = 0, epoch = 0;
    std::deque<std::int64_t> work;                   // lives that are left
    std::vector<std::vector<std::int64_t>> early;    // of the next epoch
    std::deque<std::pair<std::vector<std::int64_t>, MPI_Request>> sends;

    Walk(MPI_Comm c, int seed) : comm(c), random(std::uint64_t(seed) * 100 + std::uint64_t(rank) + 1) {
        MPI_Comm_rank(comm, &me);
        MPI_Comm_size(comm, &ranks);
        const int rc = storm_term_begin(comm, &term);
        expect(rc == MPI_SUCCESS && term != nullptr, "begin: %s", error_class(rc).c_str());
    }

    // Small ones, and some that the real MPI brings in its own way.
    void send(int to, std::int64_t lives) {
        std::vector<std::int64_t> data(random.once_in(10) ? 6000 : 2, lives);
        data[0] = epoch;
        sends.emplace_back(std::move(data), MPI_REQUEST_NULL);
        auto &[kept, request] = sends.back();
        MPI_Isend(kept.data(), int(kept.size()), MPI_INT64_T, to, 7, comm, &request);
        ++sent;
    }

    void take(const std::vector<std::int64_t> &data) {
        work.push_back(data[1]);
        ++arrived;
    }

    void receive() {
        int flag = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, 7, comm, &flag, &status);
        if (!flag) return;
        std::vector<std::int64_t> data(std::size_t(count_of(status, MPI_INT64_T)));
        MPI_Recv(data.data(), int(data.size()), MPI_INT64_T, status.MPI_SOURCE, 7, comm, MPI_STATUS_IGNORE);
        expect(data[0] == epoch || data[0] == epoch + 1, "a message of epoch %ld in epoch %ld", long(data[0]),
               long(epoch));
        if (data[0] == epoch) take(data);
        else
            early.push_back(std::move(data));
    }

    void work_a_little() {
        for (int n = 0; n < 4 && !work.empty(); ++n) {
            const std::int64_t lives = work.front();
            work.pop_front();
            if (lives == 0) ++ended;
            else
                send(random.below(ranks), lives - 1);
        }
        if (random.once_in(40)) usleep(400); // computes without a call
        for (int flag = 1; !sends.empty() && flag;) {
            MPI_Test(&sends.front().second, &flag, MPI_STATUS_IGNORE);
            if (flag) sends.pop_front();
        }
    }

    void run_epoch(int particles) {
        for (const auto &data : early) take(data);
        early.clear();
        for (int i = 0; i < particles; ++i) work.push_back(random.below(12));
        born += particles;
        for (int over = 0; !over;) {
            work_a_little();
            if (!random.once_in(3)) receive();
            const int rc = storm_term_progress(term, sent, arrived, work.empty(), &over);
            if (!expect(rc == MPI_SUCCESS, "progress: %s", error_class(rc).c_str())) break;
        }
        expect(work.empty(), "the epoch ended with %zu left", work.size());
        ++epoch;
    }

    void finish() {
        for (auto &[data, request] : sends) MPI_Wait(&request, MPI_STATUS_IGNORE);
        std::int64_t mine[4] = {born, ended, sent, arrived}, all[4];
        MPI_Allreduce(mine, all, 4, MPI_INT64_T, MPI_SUM, comm);
        expect(all[0] == all[1] && all[2] == all[3], "%ld born, %ld ended, %ld sent, %ld arrived", long(all[0]),
               long(all[1]), long(all[2]), long(all[3]));
        int flag = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, 7, comm, &flag, MPI_STATUS_IGNORE);
        expect(!flag, "a message is left");
        const int rc = storm_term_done(&term);
        expect(rc == MPI_SUCCESS && term == nullptr, "done: %s", error_class(rc).c_str());
    }
};

static void walks(MPI_Comm comm, const char *name, int seeds) {
    for (int seed = 1; seed <= seeds; ++seed) {
        Walk walk(comm, seed);
        for (int epoch = 0; epoch < 6; ++epoch)
            // a part of the ranks begins with nothing, and once nobody has anything
            walk.run_epoch(epoch == 3 || (walk.me + epoch) % 3 == 0 ? 0 : 1 + walk.random.below(20));
        walk.finish();
    }
    say("%s: %d walks of 6 epochs", name, seeds);
}

// The last rank takes rank 0's message, and then the first takes its answer, only after so
// many looks: there is one in flight at each of them.
static void late_readers(MPI_Comm comm) {
    int me, ranks;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &ranks);
    storm_term *term = nullptr;
    storm_term_begin(comm, &term);
    std::int64_t sent = 0, arrived = 0;
    for (int looks = 0; looks < 40; ++looks) {
        std::int64_t value = looks, got = -1;
        int seen = 0, over = 0, taken = 0;
        MPI_Request request = MPI_REQUEST_NULL;
        const int from = me == 0 ? ranks - 1 : 0, to = from;
        const bool first = me == 0, last = me == ranks - 1;
        if (first) {
            MPI_Isend(&value, 1, MPI_INT64_T, to, 8, comm, &request);
            ++sent;
        }
        while (!over) {
            int flag = 0;
            if ((first || last) && taken < 1 && seen >= looks)
                MPI_Iprobe(from, 8, comm, &flag, MPI_STATUS_IGNORE);
            if (flag) {
                MPI_Recv(&got, 1, MPI_INT64_T, from, 8, comm, MPI_STATUS_IGNORE);
                expect(got == looks, "%ld in place of %d", long(got), looks);
                ++taken;
                ++arrived;
                if (last && !first) {
                    MPI_Isend(&value, 1, MPI_INT64_T, to, 8, comm, &request);
                    ++sent;
                }
            }
            storm_term_progress(term, sent, arrived, 1, &over);
            ++seen;
        }
        expect(taken == (first || last ? 1 : 0), "the end came with a message in flight, %d looks", looks);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    expect(storm_term_done(&term) == MPI_SUCCESS, "done");
    say("late readers: ok");
}

static void refusals() {
    expect(storm_term_begin(MPI_COMM_WORLD, nullptr) != MPI_SUCCESS, "nowhere to put it");
    storm_term *term = nullptr;
    storm_term_begin(MPI_COMM_WORLD, &term);
    int over = 1;
    storm_term_progress(term, 0, 0, 0, &over);
    expect(!over, "the end of busy ranks");
    storm_term_progress(term, rank == 0 ? 1 : 0, 0, 1, &over); // one is under way
    expect(!over && storm_term_done(&term) == MPI_ERR_PENDING && term != nullptr, "done in the middle of an epoch");
    while (!over) storm_term_progress(term, rank == 0 ? 1 : 0, rank == size - 1 ? 1 : 0, 1, &over);
    expect(storm_term_done(&term) == MPI_SUCCESS && term == nullptr, "done");
    // one that was never used
    storm_term_begin(MPI_COMM_WORLD, &term);
    expect(storm_term_done(&term) == MPI_SUCCESS && term == nullptr, "done at once");
}

int main(int argc, char **argv) {
    begin(argc, argv);
    refusals();
    const int seeds = given("long") ? 40 : 6;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    walks(comm, "all", seeds);
    late_readers(comm);
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm); // parts, and in the other order
    walks(comm, "parts", seeds);
    late_readers(comm);
    // of two at once, one on a part
    storm_term *whole = nullptr;
    storm_term_begin(MPI_COMM_WORLD, &whole);
    Walk part(comm, 99);
    part.run_epoch(5);
    int over = 0;
    while (!over) storm_term_progress(whole, part.sent, part.arrived, 1, &over);
    expect(storm_term_done(&whole) == MPI_SUCCESS, "done of the whole");
    part.finish();
    MPI_Comm_free(&comm);
    return finish();
}
