// SPDX-License-Identifier: MIT
// MPI_THREAD_MULTIPLE: four threads a rank with own tags, then with own duplicates of
// the world; matched probes from two threads; a receive in one thread while another
// sends to the same rank.
// run: ranks=2 timeout=60
#include <thread>

#include "check.h"
using namespace check;

static const int threads = 4;
static MPI_Comm dups[threads];

template <class Body>
static void in_threads(int n, Body body) {
    std::vector<std::thread> all;
    for (int t = 0; t < n; ++t) all.emplace_back([=] { body(t); });
    for (auto &thread : all) thread.join();
}

static void own_tags(int t, MPI_Comm comm, int tag) {
    for (int i = 0; i < 200; ++i) {
        int bytes = i % 10 == 9 ? 20000 : 8 + i, from = -1;
        auto out = made(bytes, rank * 100000 + t * 1000 + i);
        Guarded in(bytes);
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Irecv(in.data(), bytes, MPI_BYTE, i % 3 ? 1 - rank : MPI_ANY_SOURCE, tag, comm,
                  &requests[0]);
        MPI_Isend(out.data(), bytes, MPI_BYTE, 1 - rank, tag, comm, &requests[1]);
        if (i % 4 == 3) {
            for (int flag = 0; !flag;) {
                MPI_Testall(2, requests, &flag, statuses);
                if (!flag) std::this_thread::yield();
            }
        } else {
            MPI_Waitall(2, requests, statuses);
        }
        from = statuses[0].MPI_SOURCE;
        expect(from == 1 - rank && same(in.data(), bytes, (1 - rank) * 100000 + t * 1000 + i) &&
                   in.intact(),
               "thread %d message %d", t, i);
    }
}

static std::atomic<long> taken{0};
static std::atomic<int> left_to_take{0};

static void matched_probes(int messages) {
    if (rank == 0) {
        for (int i = 0; i < messages; ++i) {
            std::vector<int> out(i % 7 == 6 ? 3000 : 1 + i % 50, i);
            MPI_Send(out.data(), int(out.size()), MPI_INT, 1, 50, MPI_COMM_WORLD);
        }
        return;
    }
    left_to_take = messages;
    in_threads(2, [](int t) {
        while (left_to_take.fetch_sub(1) > 0) {
            MPI_Message message;
            MPI_Status status;
            if (t) {
                MPI_Mprobe(0, 50, MPI_COMM_WORLD, &message, &status);
            } else {
                for (int flag = 0; !flag;)
                    MPI_Improbe(MPI_ANY_SOURCE, 50, MPI_COMM_WORLD, &flag, &message, &status);
            }
            std::vector<int> in(count_of(status, MPI_INT));
            MPI_Mrecv(in.data(), int(in.size()), MPI_INT, &message, &status);
            expect(int(in.size()) == (in[0] % 7 == 6 ? 3000 : 1 + in[0] % 50) && in.back() == in[0],
                   "matched %d", in[0]);
            taken += in[0];
        }
    });
    expect(taken == long(messages) * (messages - 1) / 2, "taken %ld", taken.load());
}

static void receive_while_another_sends() {
    in_threads(2, [](int t) {
        for (int i = 0; i < 300; ++i) {
            int bytes = i % 20 == 19 ? 50000 : 100;
            auto out = made(bytes, i);
            std::vector<unsigned char> in(bytes);
            if (t == 0) MPI_Send(out.data(), bytes, MPI_BYTE, 1 - rank, 60, MPI_COMM_WORLD);
            else
                MPI_Recv(in.data(), bytes, MPI_BYTE, 1 - rank, 60, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            expect(t == 0 || same(in.data(), bytes, i), "received %d beside a sender", i);
        }
    });
    // One waits for what the other has not yet asked the peer to send.
    in_threads(2, [](int t) {
        int value = rank, got = -1;
        if (t == 0) {
            MPI_Recv(&got, 1, MPI_INT, 1 - rank, 61, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(got == 1 - rank, "woken with %d", got);
        } else {
            usleep(100000);
            MPI_Send(&value, 1, MPI_INT, 1 - rank, 61, MPI_COMM_WORLD);
        }
    });
}

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_MULTIPLE);
    for (auto &comm : dups) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    in_threads(threads, [](int t) { own_tags(t, MPI_COMM_WORLD, 10 + t); });
    MPI_Barrier(MPI_COMM_WORLD);
    in_threads(threads, [](int t) { own_tags(t, dups[t], 1); });
    MPI_Barrier(MPI_COMM_WORLD);
    matched_probes(600);
    MPI_Barrier(MPI_COMM_WORLD);
    receive_while_another_sends();
    MPI_Barrier(MPI_COMM_WORLD);
    in_threads(threads, [](int t) {  // communicators made in threads at once
        for (int i = 0; i < 10; ++i) {
            MPI_Comm comm;
            int out = rank * 10 + t, in = -1;
            MPI_Comm_dup(dups[t], &comm);
            MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 2, &in, 1, MPI_INT, 1 - rank, 2, comm,
                         MPI_STATUS_IGNORE);
            expect(in == (1 - rank) * 10 + t, "on a duplicate made by thread %d: %d", t, in);
            MPI_Comm_free(&comm);
        }
    });
    for (auto &comm : dups) MPI_Comm_free(&comm);
    return finish();
}
