// SPDX-License-Identifier: MIT
// MPI_Comm_create with a group that reaches outside of the parent is wrong, and Open MPI
// does not notice: whatever it answers, the call returns and the messages go on.
// run: ranks=2,3 timeout=30
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm alone, made = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
    MPI_Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
    MPI_Group whole;
    MPI_Comm_group(MPI_COMM_WORLD, &whole);
    int error = MPI_Comm_create(alone, whole, &made);
    say("made: error %d, null %d", error, made == MPI_COMM_NULL);
    int right = (rank + 1) % size, left = (rank + size - 1) % size, got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(got == left, "got %d", got);
    MPI_Group_free(&whole);
    MPI_Comm_free(&alone);
    return finish();
}
