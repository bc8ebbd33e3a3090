// SPDX-License-Identifier: MIT
// Request_free of active sends and receives, handles thrown away, copied handles
// waited for twice, and an end of the program right after: everything arrives.
// run: ranks=2 timeout=30
#include "check.h"
using namespace check;

static void copied_handles() {
    for (int bytes : {4, 5000, 300000}) {
        auto out = made(bytes, rank);
        std::vector<unsigned char> in(bytes);
        MPI_Request receive, send, copy;
        int flag = 0;
        MPI_Irecv(in.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &receive);
        copy = receive;
        expect(copy == receive && copy != MPI_REQUEST_NULL, "copy");
        MPI_Isend(out.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &send);
        MPI_Wait(&copy, MPI_STATUS_IGNORE);
        expect(same(in.data(), bytes, 1 - rank), "data of %d bytes", bytes);
        expect(copy == MPI_REQUEST_NULL && receive != MPI_REQUEST_NULL,
               "null in the waited copy only");
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Wait(&copy, MPI_STATUS_IGNORE);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        for (int i = 0; i < 10; ++i) MPI_Test(&copy, &flag, MPI_STATUS_IGNORE);
        expect(flag, "test of null");
        // One copy in an array, null afterwards; the others of it complete.
        MPI_Request array[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        MPI_Irecv(in.data(), bytes, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &array[1]);
        MPI_Isend(out.data(), bytes, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &array[2]);
        MPI_Wait(&array[1], MPI_STATUS_IGNORE);
        MPI_Waitall(3, array, MPI_STATUSES_IGNORE);
        for (auto &request : array) expect(request == MPI_REQUEST_NULL, "array not null");
    }
}

static void freed_receives() {
    for (int bytes : {4, 5000, 100000}) {
        std::vector<unsigned char> in(bytes), out = made(bytes, rank + 5);
        MPI_Request request;
        int value = 0;
        MPI_Irecv(in.data(), bytes, MPI_BYTE, 1 - rank, 3, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        expect(request == MPI_REQUEST_NULL, "freed handle");
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Send(out.data(), bytes, MPI_BYTE, 1 - rank, 3, MPI_COMM_WORLD);
        MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 4, &value, 1, MPI_INT, 1 - rank, 4,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        // A blocking send that returned does not prove the freed receive's end, but
        // calls into MPI must bring it about.
        for (int i = 0; i < 1000000 && !same(in.data(), bytes, 1 - rank + 5); ++i) {
            int flag;
            MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
        expect(same(in.data(), bytes, 1 - rank + 5), "freed receive of %d bytes", bytes);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void freed_sends() {
    const int n = 2000;
    std::vector<int> out(n), in(1);
    if (rank == 0) {
        for (int i = 0; i < n; ++i) {
            MPI_Request request;
            out[i] = i;
            if (i % 3 == 0) {
                MPI_Isend(&out[i], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
            } else if (i % 3 == 1) {
                MPI_Issend(&out[i], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
            } else {
                MPI_Send_init(&out[i], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
                MPI_Start(&request);
                MPI_Request_free(&request);
            }
        }
    } else {
        for (int i = 0; i < n; ++i) {
            MPI_Recv(in.data(), 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(in[0] == i, "freed send %d came as %d", i, in[0]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// The last thing before Finalize; the receiver is late.
static void then_finalize() {
    static std::vector<unsigned char> small[4], large = made(1 << 20, 77);
    if (rank == 0) {
        for (int i = 0; i < 4; ++i) {
            MPI_Request request;
            small[i] = made(1000, i);
            MPI_Isend(small[i].data(), 1000, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &request);
            MPI_Request_free(&request);
        }
        MPI_Request request;
        MPI_Isend(large.data(), 1 << 20, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else {
        std::vector<unsigned char> in(1 << 20);
        usleep(300000);
        for (int i = 0; i < 5; ++i) {
            int bytes = i < 4 ? 1000 : 1 << 20;
            MPI_Recv(in.data(), bytes, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(same(in.data(), bytes, i < 4 ? i : 77), "late message %d", i);
        }
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    copied_handles();
    freed_receives();
    freed_sends();
    then_finalize();
    return finish();
}
