// SPDX-License-Identifier: MIT
// Mrecv of MPI_MESSAGE_NULL ends the job, whatever the handler of the communicators.
// run: ranks=2 timeout=30 exit=same stderr=MPI_ERR_REQUEST output=ignore
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int value = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    return finish();
}
