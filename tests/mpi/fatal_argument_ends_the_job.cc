// SPDX-License-Identifier: MIT
// With the default error handler a wrong rank ends the job.
// run: ranks=2 timeout=30 exit=same stderr=MPI_ERR_RANK output=ignore
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    int value = 0;
    if (rank == 0) MPI_Send(&value, 1, MPI_INT, size, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return finish();
}
