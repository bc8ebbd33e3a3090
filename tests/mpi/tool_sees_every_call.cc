// SPDX-License-Identifier: MIT
// A counting PMPI tool, preloaded before or after the shim, linked to the program
// before or after MPI, or compiled into it, counts what it counts natively; also
// one that goes on to the next MPI_X.
// run: ranks=2,3 timeout=30 preload=libtool_counting_calls.so
// run: ranks=2,3 timeout=30 preload=libtool_counting_calls.so order=shim-first
// run: ranks=2 timeout=30 program=tool_linked_before_mpi
// run: ranks=2 timeout=30 program=tool_linked_after_mpi
// run: ranks=2 timeout=30 program=tool_within_program
// run: ranks=2 timeout=30 preload=libtool_by_next_symbol.so
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int bytes : {4, 5000, 100000})
        for (int i = 0; i < 10; ++i) {
            auto out = made(bytes, rank + i);
            std::vector<unsigned char> in(bytes);
            MPI_Request requests[2];
            MPI_Irecv(in.data(), bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
            if (i % 3 == 0) MPI_Send(out.data(), bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
            if (i % 3 == 1) MPI_Ssend(out.data(), bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
            if (i % 3 == 2) {
                MPI_Isend(out.data(), bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else {
                MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            }
            expect(same(in.data(), bytes, left + i), "data of %d", bytes);
            MPI_Sendrecv(out.data(), bytes, MPI_BYTE, right, 2, in.data(), bytes, MPI_BYTE, left, 2,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    int value = rank;
    MPI_Request persistent;
    MPI_Send_init(&value, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &persistent);
    for (int i = 0; i < 5; ++i) {
        MPI_Status status;
        int in = -1;
        MPI_Start(&persistent);
        MPI_Probe(left, 3, MPI_COMM_WORLD, &status);
        MPI_Recv(&in, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &status);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        expect(in == left, "persistent %d", in);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Request_free(&persistent);
    return finish();
}
