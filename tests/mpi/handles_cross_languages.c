/* SPDX-License-Identifier: MIT */
// Requests and messages made in C and completed in Fortran, and the other way; c2f
// and f2c give back the same handle; null stays null.
// run: ranks=2 timeout=30
#include <mpi.h>
#include <stdio.h>

enum { N = 6, LARGE = 30000 };

void fortran_waitall_(MPI_Fint *n, MPI_Fint *requests, MPI_Fint *sources);
void fortran_waitany_(MPI_Fint *n, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *source);
void fortran_exchange_(MPI_Fint *peer, MPI_Fint *in, MPI_Fint *out, MPI_Fint *requests);
void fortran_mrecv_(MPI_Fint *message, MPI_Fint *value);

static int rank, wrong;

static void expect(int good, const char *what) {
    if (good) return;
    ++wrong;
    printf("%d: WRONG %s\n", rank, what);
}

static void c_to_fortran(int peer) {
    static int in[N][LARGE], out[N][LARGE];
    for (int round = 0; round < 50; ++round) {
        MPI_Request requests[2 * N];
        MPI_Fint handles[2 * N], sources[2 * N], n = 2 * N, index, source;
        for (int i = 0; i < N; ++i) {
            int ints = i == N - 1 ? LARGE : 1 + i;
            out[i][ints - 1] = rank * 1000 + round * 10 + i;
            MPI_Irecv(in[i], ints, MPI_INT, i % 2 ? peer : MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                      &requests[i]);
            MPI_Isend(out[i], ints, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[N + i]);
        }
        for (int i = 0; i < 2 * N; ++i) {
            handles[i] = MPI_Request_c2f(requests[i]);
            expect(MPI_Request_f2c(handles[i]) == requests[i], "f2c of c2f");
            expect(MPI_Request_c2f(requests[i]) == handles[i], "c2f twice");
            for (int k = 0; k < i; ++k)  // complete ones may be one and the same
                expect((handles[k] == handles[i]) == (requests[k] == requests[i]),
                       "two requests with one number");
        }
        if (round % 2) {
            fortran_waitall_(&n, handles, sources);
            for (int i = 0; i < N; ++i) expect(sources[i] == peer, "source in fortran");
        } else {
            for (int k = 0; k < 2 * N; ++k) {
                fortran_waitany_(&n, handles, &index, &source);
                expect(index >= 1 && index <= 2 * N, "index in fortran");
                expect(index > N || source == peer, "source of waitany");
            }
            fortran_waitany_(&n, handles, &index, &source);
            expect(index == MPI_UNDEFINED, "undefined in fortran");
        }
        for (int i = 0; i < N; ++i) {
            int ints = i == N - 1 ? LARGE : 1 + i;
            expect(in[i][ints - 1] == peer * 1000 + round * 10 + i, "data");
            expect(MPI_Request_f2c(handles[i]) == MPI_REQUEST_NULL, "null from fortran");
        }
    }
}

static void fortran_to_c(int peer) {
    for (int round = 0; round < 50; ++round) {
        MPI_Fint in = -1, out = rank * 100 + round, handles[2], to = peer;
        MPI_Request requests[2];
        MPI_Status statuses[2];
        fortran_exchange_(&to, &in, &out, handles);
        for (int i = 0; i < 2; ++i) requests[i] = MPI_Request_f2c(handles[i]);
        MPI_Waitall(2, requests, statuses);
        expect(in == peer * 100 + round && statuses[0].MPI_SOURCE == peer, "fortran's request");
    }
}

static void messages(int peer) {
    for (int i = 0; i < 20; ++i) {
        MPI_Message message;
        MPI_Fint value = -1;
        MPI_Send(&i, 1, MPI_INT, peer, 50, MPI_COMM_WORLD);
        MPI_Mprobe(peer, 50, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Fint handle = MPI_Message_c2f(message);
        fortran_mrecv_(&handle, &value);
        expect(value == i, "message in fortran");
        expect(MPI_Message_f2c(handle) == MPI_MESSAGE_NULL, "null message from fortran");
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    expect(MPI_Request_f2c(MPI_Request_c2f(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL, "null request");
    c_to_fortran(1 - rank);
    fortran_to_c(1 - rank);
    messages(1 - rank);
    if (!wrong) printf("%d: ok\n", rank);
    MPI_Finalize();
    return wrong != 0;
}
