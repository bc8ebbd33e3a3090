// SPDX-License-Identifier: MIT
// A peer that computes for long without MPI causes no timeout and no message: two
// seconds here, two minutes in the long form.
// run: ranks=2 timeout=30 long
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    int seconds = given("long") ? 120 : 2, value = -1;
    if (rank == 0) {
        sleep(seconds);
        value = 5;
        MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    expect(value == 5, "value %d", value);
    return finish();
}
