// SPDX-License-Identifier: MIT
// Programs that rely on buffering and end natively end under the shim: head-to-head
// blocking sends, floods from both sides before any receive, a receiver that sleeps.
// run: ranks=2,4 timeout=100 long
#include "check.h"
using namespace check;

static void head_to_head() {
    for (int bytes : {0, 1, 8, 100, 1000, 2000, 3000, 4000, 4031, 4032})
        for (int i = 0; i < 20; ++i) {
            auto out = made(bytes, rank + i);
            Guarded in(bytes);
            MPI_Send(out.data(), bytes, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in.data(), bytes, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(same(in.data(), bytes, (rank ^ 1) + i) && in.intact(), "head to head, %d bytes",
                   bytes);
        }
}

static void flood(int messages, int bytes, int way) {
    std::vector<unsigned char> out(bytes), in(bytes);
    std::vector<MPI_Request> requests;
    std::vector<std::vector<unsigned char>> kept;
    for (int i = 0; i < messages; ++i) {
        fill(out.data(), bytes, rank * 3 + i);
        if (way == 0) {
            MPI_Send(out.data(), bytes, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD);
        } else {
            kept.push_back(out);
            MPI_Isend(kept.back().data(), bytes, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD,
                      &requests.emplace_back());
        }
    }
    for (int i = 0; i < messages; ++i) {
        MPI_Recv(in.data(), bytes, MPI_BYTE, way == 1 ? MPI_ANY_SOURCE : rank ^ 1, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(same(in.data(), bytes, (rank ^ 1) * 3 + i), "flood of %d: message %d", bytes, i);
    }
    MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

// A hundred small blocking sends to a rank outside MPI may wait, but not for ever:
// any MPI call there lets them end, a barrier on another communicator too.
static void receiver_outside_mpi() {
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int way = 0; way < 2; ++way) {
        if (rank % 2) {
            usleep(way ? 200000 : 1000000);
            if (way) MPI_Barrier(other);
            for (int i = 0; i < 100; ++i) {
                int in = -1;
                MPI_Recv(&in, 1, MPI_INT, rank - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                expect(in == i, "late message %d is %d", i, in);
            }
        } else {
            for (int i = 0; i < 100; ++i) MPI_Send(&i, 1, MPI_INT, rank + 1, 2, MPI_COMM_WORLD);
            if (way) MPI_Barrier(other);
        }
    }
    MPI_Comm_free(&other);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    bool all = given("long");
    head_to_head();
    for (int way = 0; way < 2; ++way) {
        flood(all ? 100000 : 20000 / size * 2, 100, way);
        flood(all ? 20000 : 4000 / size * 2, 2000, way);
    }
    receiver_outside_mpi();
    return finish();
}
