// SPDX-License-Identifier: MIT
// With the default error handler a truncated receive ends the job.
// run: ranks=2 timeout=30 exit=same stderr=MPI_ERR_TRUNCATE output=ignore
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    char data[100] = {};
    if (rank == 0) {
        MPI_Send(data, 100, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(data, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // never sent
    } else {
        MPI_Recv(data, 10, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return finish();
}
