// SPDX-License-Identifier: MIT
// Several MPI_Comm_idup of one communicator are pending at once, every rank does something
// else meanwhile, and their requests end in any order and by any call.
// run: ranks=2,4 timeout=60
#include "check.h"
using namespace check;

static void ring_on(MPI_Comm comm, int tag) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size, got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, right, tag, &got, 1, MPI_INT, left, tag, comm, MPI_STATUS_IGNORE);
    expect(got == left, "tag %d brought %d", tag, got);
}

// A rank that waits for a message, or tests, moves the duplications of all others.
static void one_at_a_time(int round) {
    MPI_Comm made;
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
    if (rank == round % size) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < size; ++i)
            if (i != rank) MPI_Send(&round, 1, MPI_INT, i, 7, MPI_COMM_WORLD);
    } else {
        int told = -1;
        MPI_Recv(&told, 1, MPI_INT, round % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(told == round, "told %d in round %d", told, round);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    ring_on(made, round);
    MPI_Comm_free(&made);
}

static void several(int round) {
    enum { Most = 5 };
    MPI_Comm made[Most];
    MPI_Request requests[Most];
    for (int i = 0; i < Most; ++i) MPI_Comm_idup(MPI_COMM_WORLD, &made[i], &requests[i]);
    if ((round + rank) % 3 == 0) {
        MPI_Waitall(Most, requests, MPI_STATUSES_IGNORE);
    } else if ((round + rank) % 3 == 1) {
        for (int i = 0, at; i < Most; ++i) {
            MPI_Waitany(Most, requests, &at, MPI_STATUS_IGNORE);
            expect(at >= 0 && at < Most, "waitany %d", at);
        }
    } else {
        for (int flag = 0; !flag;) MPI_Testall(Most, requests, &flag, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < Most; ++i) ring_on(made[i], 100 + i);
    for (int i = 0; i < Most; ++i) MPI_Comm_free(&made[i]);
}

// The barrier of the last rank is what moves it there.
static void beside_a_collective() {
    MPI_Comm made;
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
    if (rank + 1 < size) MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ring_on(made, 300);
    MPI_Comm_free(&made);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int i = 0; i < 20; ++i) one_at_a_time(i);
    for (int i = 0; i < 20; ++i) several(i);
    for (int i = 0; i < 20; ++i) beside_a_collective();
    return finish();
}
