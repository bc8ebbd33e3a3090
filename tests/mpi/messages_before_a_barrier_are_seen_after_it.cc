// SPDX-License-Identifier: MIT
// A message sent before a collective shows in a probe after it, and headers and
// payload on one tag are kept apart by barriers alone.
// run: ranks=2,4 timeout=30
#include "check.h"
using namespace check;

// Natively a few calls may be needed; real codes bound the loop by a count.
static bool probed(int from, int tag, MPI_Status *status) {
    int flag = 0;
    for (int i = 0; i < 1000 && !flag; ++i) MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, status);
    return flag;
}

static void collective(int kind) {
    int out = 1, sum = 0;
    std::vector<int> in(size), from(size);
    MPI_Request request;
    MPI_Comm comm;
    switch (kind) {
        case 0: MPI_Barrier(MPI_COMM_WORLD); break;
        case 1: MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
        case 2: MPI_Alltoall(from.data(), 1, MPI_INT, in.data(), 1, MPI_INT, MPI_COMM_WORLD); break;
        case 3:
            MPI_Ibarrier(MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
        case 4:
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            MPI_Barrier(comm);
            MPI_Comm_free(&comm);
            break;
    }
}

static void seen(int bytes, int kind) {
    auto out = made(bytes, rank);
    std::vector<unsigned char> in(bytes + 1);
    MPI_Request request;
    MPI_Status status;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Isend(out.data(), bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &request);
    collective(kind);
    expect(probed(kind % 2 ? left : MPI_ANY_SOURCE, 1, &status),
           "not seen after collective %d, %d bytes", kind, bytes);
    expect(count_of(status) == bytes && status.MPI_SOURCE == left, "%d bytes probed",
           count_of(status));
    MPI_Recv(in.data(), bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(same(in.data(), bytes, left), "data of %d", bytes);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

// All neighbours' headers with wildcards, a barrier, then payload on the same tag.
static void headers_then_payload(int round) {
    int peer = rank ^ 1, header = (round * 37 + rank * 11) % 9000, expected = -1;
    MPI_Status status;
    std::vector<MPI_Request> sends(2);
    MPI_Isend(&header, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &sends[0]);
    MPI_Recv(&expected, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
    expect(count_of(status) == 4 && expected == (round * 37 + peer * 11) % 9000, "header %d",
           expected);
    MPI_Barrier(MPI_COMM_WORLD);
    auto payload = made(header, header);
    MPI_Isend(payload.data(), header, MPI_BYTE, peer, 5, MPI_COMM_WORLD, &sends[1]);
    std::vector<unsigned char> in(expected + 1);
    MPI_Recv(in.data(), expected, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    expect(count_of(status) == expected && same(in.data(), expected, expected), "payload %d",
           expected);
    MPI_Waitall(2, sends.data(), MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int kind = 0; kind < 5; ++kind)
        for (int bytes : {0, 8, 4000, 5000, 100000})
            for (int i = 0; i < 20; ++i) seen(bytes, kind);
    for (int i = 0; i < 300; ++i) headers_then_payload(i);
    return finish();
}
