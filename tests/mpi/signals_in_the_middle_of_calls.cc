// SPDX-License-Identifier: MIT
// A timer interrupts every kind of call some thousands of times a second: handlers
// that return are harmless, with and without SA_RESTART; a handler may use errno.
// run: ranks=2,3 timeout=90
// run: ranks=2 timeout=90 args=restart
// run: ranks=2 timeout=90 args=threads
#include <cerrno>
#include <csignal>
#include <sys/time.h>
#include <thread>

#include "check.h"
using namespace check;

static volatile std::sig_atomic_t ticks;

static void on_tick(int) {
    errno = ERANGE;
    ticks = ticks + 1;
}

static void start_timer() {
    struct sigaction action = {};
    action.sa_handler = on_tick;
    action.sa_flags = given("restart") ? SA_RESTART : 0;
    sigaction(SIGALRM, &action, nullptr);
    itimerval every = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &every, nullptr);
}

static void wait_for_ticks(int n) {
    for (int until = ticks + n; ticks < until;) usleep(100);
}

static void blocking(int round, int tag) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    int bytes = round % 7 == 6 ? 200000 : round * 37 % 6000;
    auto out = made(bytes, rank * 1000 + round);
    Guarded in(bytes);
    MPI_Status status;
    if (round % 3 == 0) {
        MPI_Sendrecv(out.data(), bytes, MPI_BYTE, right, tag, in.data(), bytes, MPI_BYTE, left, tag,
                     MPI_COMM_WORLD, &status);
    } else {
        MPI_Request request;
        if (round % 3 == 1) MPI_Isend(out.data(), bytes, MPI_BYTE, right, tag, MPI_COMM_WORLD, &request);
        else
            MPI_Issend(out.data(), bytes, MPI_BYTE, right, tag, MPI_COMM_WORLD, &request);
        if (round % 2) {
            MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
            expect(count_of(status) == bytes, "probed %d, not %d", count_of(status), bytes);
        }
        MPI_Recv(in.data(), bytes, MPI_BYTE, left, tag, MPI_COMM_WORLD, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    expect(same(in.data(), bytes, left * 1000 + round) && in.intact(), "round %d", round);
}

// One is late, the others wait long enough to sleep.
static void late(int round) {
    if (round % size == rank) wait_for_ticks(100);
    blocking(round, 2);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    arg_count = argc, arg_list = argv;
    begin(argc, argv, given("threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    start_timer();  // Open MPI's own MPI_Init and MPI_Finalize do not always survive it
    for (int round = 0; round < 1500; ++round) blocking(round, 1);
    for (int round = 0; round < 20; ++round) late(round);
    if (given("threads")) {
        std::vector<std::thread> all;
        for (int t = 0; t < 3; ++t)
            all.emplace_back([t] {
                for (int round = 0; round < 300; ++round) blocking(round, 10 + t);
            });
        for (auto &thread : all) thread.join();
    }
    int sum = 0, one = 1;
    MPI_Request request;
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    expect(test_until_done(&request) && sum == size, "sum %d", sum);
    expect(ticks > 100, "only %d ticks", int(ticks));
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    return finish();
}
