// SPDX-License-Identifier: MIT
// Bsend and Ibsend without a buffer or with one that is too small: the same error
// classes and handler calls. (In Open MPI 4.1 small ones need no buffer, and after a
// refusal a detach, a Finalize and the next message to that rank never end: so the
// refusals come last.)
// run: ranks=2 timeout=20 exit=same
#include "check.h"
using namespace check;

static int handled;

static void handle(MPI_Comm *, int *, ...) { ++handled; }

static void both(const char *what, int bytes, int peer) {
    std::vector<unsigned char> data = made(bytes, bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    int error = MPI_Bsend(data.data(), bytes, MPI_BYTE, peer, 9, MPI_COMM_WORLD);
    say("%s, bsend of %d: %s, %d handled", what, bytes, error_class(error).c_str(), handled);
    error = MPI_Ibsend(data.data(), bytes, MPI_BYTE, peer, 9, MPI_COMM_WORLD, &request);
    say("%s, ibsend of %d: %s, %d handled", what, bytes, error_class(error).c_str(), handled);
    if (error == MPI_SUCCESS) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    const int space = 10000 + MPI_BSEND_OVERHEAD;
    static std::vector<char> attached(space);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    void *address;
    int bytes, peer = 1 - rank;
    say("detach of none: %s", error_class(MPI_Buffer_detach(&address, &bytes)).c_str());
    both("none attached", 4, peer);
    both("none attached, to itself", 4, rank);
    MPI_Buffer_attach(attached.data(), space);
    say("attach of a second: %s", error_class(MPI_Buffer_attach(attached.data(), space)).c_str());
    both("attached", 100, peer);
    both("attached", 4000, peer);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from : {peer, rank})
        for (int i = 0; i < (from == rank ? 2 : 6); ++i) {
            MPI_Status status;
            std::vector<char> in(4000);
            MPI_Recv(in.data(), 4000, MPI_BYTE, from, 9, MPI_COMM_WORLD, &status);
            say("%s: %d bytes", from == rank ? "itself" : "peer", count_of(status));
        }
    MPI_Barrier(MPI_COMM_WORLD);
    both("too large", 100000, peer);
    both("too large, to itself", 100000, rank);
    usleep(300000);  // an exit without Finalize ends the other rank too
    _exit(verdict());
}
