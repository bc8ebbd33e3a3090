// SPDX-License-Identifier: MIT
// Communicators freed with messages in flight and receives pending, many cycles of
// dup and free, and no mix-up between an old and a new one.
// run: ranks=2,3 timeout=60
#include "check.h"
using namespace check;

static void with_receives_pending(int bytes) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    auto out = made(bytes, rank);
    Guarded in(bytes);
    MPI_Request requests[2];
    MPI_Irecv(in.data(), bytes, MPI_BYTE, left, 1, comm, &requests[0]);
    MPI_Barrier(comm);
    MPI_Isend(out.data(), bytes, MPI_BYTE, right, 1, comm, &requests[1]);
    MPI_Comm_free(&comm);
    expect(comm == MPI_COMM_NULL, "freed handle");
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(same(in.data(), bytes, left) && in.intact(), "data of %d bytes", bytes);
}

// The sender frees while the receiver has not yet asked for the message.
static void with_messages_unexpected(int bytes) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    auto out = made(bytes, rank);
    Guarded in(bytes);
    MPI_Request requests[2];
    MPI_Isend(out.data(), bytes, MPI_BYTE, right, 1, comm, &requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Irecv(in.data(), bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[1]);
    MPI_Comm_free(&comm);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(same(in.data(), bytes, left), "unexpected data of %d bytes", bytes);
}

static void persistent_on_a_freed_one() {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int left = (rank + size - 1) % size, right = (rank + 1) % size, in = -1, out = 0;
    MPI_Request requests[2];
    MPI_Recv_init(&in, 1, MPI_INT, left, 1, comm, &requests[0]);
    MPI_Send_init(&out, 1, MPI_INT, right, 1, comm, &requests[1]);
    MPI_Comm_free(&comm);
    for (int i = 0; i < 100; ++i) {
        out = rank * 1000 + i;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(in == left * 1000 + i, "restart %d: %d", i, in);
    }
    for (auto &request : requests) MPI_Request_free(&request);
}

static void cycles() {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < 1000; ++i) {
        MPI_Comm comm;
        if (i % 3 == 0) MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
        else
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        int in = -1, out = rank * 1000 + i;
        MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, MPI_ANY_TAG, comm,
                     MPI_STATUS_IGNORE);
        expect(in == left * 1000 + i, "cycle %d: %d", i, in);
        MPI_Comm_free(&comm);
    }
}

// A receive left over on a disconnected one is the program's error; a message left
// over on a freed one is not: the next communicator does not see it.
static void left_over_messages_do_not_show() {
    for (int i = 0; i < 50; ++i) {
        MPI_Comm comm;
        int flag = -1, out = i, in = -1;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Send(&out, 1, MPI_INT, (rank + 1) % size, 3, comm);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, MPI_STATUS_IGNORE);
        MPI_Comm_free(&comm);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int k = 0; k < 20; ++k) {
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
            expect(!flag && in == i, "an old message on a new communicator");
        }
        MPI_Comm_disconnect(&comm);
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int bytes : {4, 4000, 6000, 500000}) {
        for (int i = 0; i < 20; ++i) with_receives_pending(bytes);
        for (int i = 0; i < 20; ++i) with_messages_unexpected(bytes);
    }
    persistent_on_a_freed_one();
    cycles();
    left_over_messages_do_not_show();
    return finish();
}
