/* SPDX-License-Identifier: MIT */
// A library that uses MPI, for a program that does not: loaded_library_uses_mpi.c.
#include <mpi.h>
#include <stdio.h>

int exchange_in_library(int *argc, char ***argv);

int exchange_in_library(int *argc, char ***argv) {
    int rank, size, bad = 0;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 500; ++i) {
        int out[2000] = {rank, i}, in[2000] = {-1, -1}, n = i % 10 ? 2 + i : 2000;
        MPI_Request requests[2];
        MPI_Irecv(in, 2000, MPI_INT, MPI_ANY_SOURCE, i % 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, n, MPI_INT, (rank + 1) % size, i % 5, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        bad += in[0] != (rank + size - 1) % size || in[1] != i;
    }
    printf("%d: %s\n", rank, bad ? "WRONG data" : "ok");
    MPI_Finalize();
    return bad != 0;
}
