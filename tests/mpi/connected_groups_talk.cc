// SPDX-License-Identifier: MIT
// Two halves of a job find each other by MPI_Open_port, accept and connect: their
// intercommunicator is the real MPI's, the communicator that is merged from it carries
// messages beside it; both end, by disconnect too.
// run: ranks=2,4 timeout=60
#include "check.h"
using namespace check;

static void ring(MPI_Comm comm, const char *name) {
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int bytes : {0, 16, 5000, 150000}) {
        auto out = made(bytes, me);
        Guarded in(bytes);
        MPI_Status status;
        MPI_Sendrecv(out.data(), bytes, MPI_BYTE, (me + 1) % n, 3, in.data(), bytes, MPI_BYTE,
                     MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        expect(status.MPI_SOURCE == (me + n - 1) % n && same(in.data(), bytes, (me + n - 1) % n),
               "%s: %d bytes from %d", name, bytes, status.MPI_SOURCE);
    }
    say("%s: rank %d of %d", name, me, n);
}

static void across(MPI_Comm inter, int me) {
    int in = -1, out = rank * 10, flag = 0, remote = 0;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_remote_size(inter, &remote);
    MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 4, inter, &request);
    MPI_Send(&out, 1, MPI_INT, (me + 1) % remote, 4, inter);
    int mixed = -1;  // a request of each kind in one array
    MPI_Request both[2] = {request, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    MPI_Irecv(&mixed, 1, MPI_INT, rank ^ 1, 5, MPI_COMM_WORLD, &both[1]);
    MPI_Send(&rank, 1, MPI_INT, rank ^ 1, 5, MPI_COMM_WORLD);
    MPI_Waitall(2, both, statuses);
    expect(mixed == (rank ^ 1), "beside: %d", mixed);
    say("across: %d from %d", in, statuses[0].MPI_SOURCE);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &flag, &status);
    expect(!flag, "one message too many");
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm half, inter, merged;
    bool server = rank < size / 2;
    int me;
    MPI_Comm_split(MPI_COMM_WORLD, server, rank, &half);
    MPI_Comm_rank(half, &me);
    char port[MPI_MAX_PORT_NAME] = "";
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int round = 0; round < 2; ++round) {
        if (server) MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
        across(inter, me);
        MPI_Intercomm_merge(inter, server ? 0 : 1, &merged);
        ring(merged, "merged");
        ring(half, "half");
        MPI_Comm_free(&merged);
        MPI_Comm_disconnect(&inter);
        expect(inter == MPI_COMM_NULL, "disconnected");
    }
    if (rank == 0) MPI_Close_port(port);
    MPI_Comm_free(&half);
    return finish();
}
