/* SPDX-License-Identifier: MIT */
// A library that begins and ends MPI for the program that is linked to it:
// init_and_finalize_outside_main.cc.
#include <mpi.h>

__attribute__((constructor)) static void begin(void) {
    MPI_Init(NULL, NULL);
}

__attribute__((destructor)) static void end(void) {
    int finalized = 0, sum = 0, one = 1;
    MPI_Finalized(&finalized);
    if (finalized) return;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
}
