// SPDX-License-Identifier: MIT
// Random walks of particles with births and deaths, ended by three schemes: rounds of
// an Iallreduce, a ring token, a tree of counts. Created = absorbed on every seed, all
// ranks end in agreement, no message is left.
// run: ranks=2,3,4 timeout=60 long
#include <deque>

#include "check.h"
using namespace check;

enum Scheme { rounds, token, tree };
static const int particle_tag = 1, token_tag = 2, up_tag = 3, down_tag = 4;

struct Walk {
    Scheme scheme;
    Random random;
    MPI_Comm comm;
    std::int64_t created = 0, absorbed = 0, sent = 0, received = 0;
    std::deque<std::uint64_t> work;  // remaining lives
    std::deque<std::pair<std::vector<std::uint64_t>, MPI_Request>> sends;
    std::vector<std::vector<std::uint64_t>> outbox;
    std::uint64_t in[64];
    MPI_Request receive = MPI_REQUEST_NULL;
    bool done = false;

    Walk(Scheme s, int seed, MPI_Comm c)
        : scheme(s), random(seed * 64 + rank + 1), comm(c), outbox(size) {
        int n = random.below(60);
        for (int i = 0; i < n; ++i) work.push_back(random.below(12));
        created = n;
        post();
    }

    void post() { MPI_Irecv(in, 64, MPI_UINT64_T, MPI_ANY_SOURCE, particle_tag, comm, &receive); }

    void flush(int to) {
        if (outbox[to].empty()) return;
        sends.emplace_back(std::move(outbox[to]), MPI_REQUEST_NULL);
        outbox[to].clear();
        auto &[data, request] = sends.back();
        MPI_Isend(data.data(), int(data.size()), MPI_UINT64_T, to, particle_tag, comm, &request);
        sent += std::int64_t(data.size());
    }

    void work_a_little() {
        for (int i = 0; i < 10 && !work.empty(); ++i) {
            std::uint64_t lives = work.front();
            work.pop_front();
            if (lives == 0 || random.once_in(9)) {
                ++absorbed;
                continue;
            }
            if (random.once_in(15)) {  // a birth
                ++created;
                work.push_back(lives / 2);
            }
            int to = random.below(size);
            if (to == rank) work.push_back(lives - 1);
            else
                outbox[to].push_back(lives - 1);
            if (outbox[to].size() == 64) flush(to);
        }
        if (work.empty())
            for (int to = 0; to < size; ++to) flush(to);
    }

    void poll() {
        int flag = 0;
        MPI_Status status;
        MPI_Test(&receive, &flag, &status);
        if (flag) {
            int n = count_of(status, MPI_UINT64_T);
            work.insert(work.end(), in, in + n);
            received += n;
            post();
        }
        while (!sends.empty()) {
            MPI_Test(&sends.front().second, &flag, MPI_STATUS_IGNORE);
            if (!flag) break;
            sends.pop_front();
        }
    }

    // Counts of two successive collections that are equal and balanced end the walk.
    std::int64_t last[2] = {-1, -1};
    bool ends(const std::int64_t now[2]) {
        bool end = now[0] == now[1] && now[0] == last[0] && now[1] == last[1];
        std::copy(now, now + 2, last);
        return end;
    }

    MPI_Request request = MPI_REQUEST_NULL;
    std::int64_t mine[2], all[2];
    bool outstanding = false;

    void by_rounds() {
        int flag = 0;
        if (outstanding) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            if (!flag) return;
            outstanding = false;
            if (ends(all)) done = true;
        }
        if (done || !work.empty()) return;
        mine[0] = sent;
        mine[1] = received;
        MPI_Iallreduce(mine, all, 2, MPI_INT64_T, MPI_SUM, comm, &request);
        outstanding = true;
    }

    // The token carries {sent, received, end}.
    bool holds = rank == 0, started = false;
    std::int64_t carried[3] = {};
    void by_token() {
        int next = (rank + 1) % size, before = (rank + size - 1) % size, flag = 0;
        if (!holds) {
            MPI_Iprobe(before, token_tag, comm, &flag, MPI_STATUS_IGNORE);
            if (!flag) return;
            MPI_Recv(carried, 3, MPI_INT64_T, before, token_tag, comm, MPI_STATUS_IGNORE);
            holds = true;
        }
        if (carried[2]) {
            if (rank != 0) MPI_Send(carried, 3, MPI_INT64_T, next, token_tag, comm);
            done = true;
            return;
        }
        if (!work.empty()) return;
        if (rank == 0) {
            if (started && ends(carried)) carried[2] = 1;
            started = true;
            carried[0] = carried[1] = 0;
        }
        carried[0] += sent;
        carried[1] += received;
        MPI_Send(carried, 3, MPI_INT64_T, next, token_tag, comm);
        holds = false;
    }

    // Children report to parents, the root answers down the tree.
    int reports = 0;
    bool waiting = false;
    std::int64_t sums[2] = {};
    void by_tree() {
        int flag = 0, parent = (rank - 1) / 2,
            children = (2 * rank + 1 < size) + (2 * rank + 2 < size);
        MPI_Status status;
        std::int64_t data[2];
        MPI_Iprobe(MPI_ANY_SOURCE, up_tag, comm, &flag, &status);
        if (flag) {
            MPI_Recv(data, 2, MPI_INT64_T, status.MPI_SOURCE, up_tag, comm, MPI_STATUS_IGNORE);
            sums[0] += data[0];
            sums[1] += data[1];
            ++reports;
        }
        int end = 0;
        if (!waiting && reports == children && work.empty()) {
            std::int64_t now[2] = {sums[0] + sent, sums[1] + received};
            reports = 0;
            sums[0] = sums[1] = 0;
            if (rank == 0) {
                end = ends(now);
                answer(end);
            } else {
                waiting = true;
                MPI_Send(now, 2, MPI_INT64_T, parent, up_tag, comm);
            }
        } else if (waiting) {
            MPI_Iprobe(parent, down_tag, comm, &flag, MPI_STATUS_IGNORE);
            if (!flag) return;
            MPI_Recv(&end, 1, MPI_INT, parent, down_tag, comm, MPI_STATUS_IGNORE);
            waiting = false;
            answer(end);
        }
    }
    void answer(int end) {
        for (int child = 2 * rank + 1; child <= 2 * rank + 2 && child < size; ++child)
            MPI_Send(&end, 1, MPI_INT, child, down_tag, comm);
        if (end) done = true;
    }

    void run() {
        while (!done) {
            work_a_little();
            poll();
            if (scheme == rounds) by_rounds();
            if (scheme == token) by_token();
            if (scheme == tree) by_tree();
        }
        MPI_Cancel(&receive);
        MPI_Status status;
        int cancelled = 0;
        MPI_Wait(&receive, &status);
        MPI_Test_cancelled(&status, &cancelled);
        expect(cancelled && work.empty(), "a particle came after the end");
        for (auto &[data, request] : sends) MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
};

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int seeds = given("long") ? 500 : 60;
    for (Scheme scheme : {rounds, token, tree}) {
        std::int64_t total = 0;
        for (int seed = 1; seed <= seeds; ++seed) {
            Walk walk(scheme, seed, comm);
            walk.run();
            std::int64_t mine[2] = {walk.created, walk.absorbed}, all[2];
            MPI_Allreduce(mine, all, 2, MPI_INT64_T, MPI_SUM, comm);
            expect(all[0] == all[1], "scheme %d seed %d: created %ld, absorbed %ld", scheme, seed,
                   long(all[0]), long(all[1]));
            total += all[0] > 0;
            int flag = -1;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
            expect(!flag, "a message is left");
            MPI_Barrier(comm);
        }
        say("scheme %d: %ld seeds with particles", scheme, long(total));
    }
    MPI_Comm_free(&comm);
    return finish();
}
