// SPDX-License-Identifier: MIT
// Bsend, Ibsend and Bsend_init complete without a receive, keep their data in the
// attached buffer, and all arrive after a detach and at once a Finalize.
// run: ranks=2 timeout=30
#include "check.h"
using namespace check;

static const int space = 200000;
static std::vector<char> attached(space);

static void attach() { MPI_Buffer_attach(attached.data(), space); }

static void detach() {
    void *address = nullptr;
    int bytes = -1;
    MPI_Buffer_detach(&address, &bytes);
    expect(address == attached.data() && bytes == space, "detached %d bytes", bytes);
}

// All forms; the user's buffer is overwritten at once. Nobody receives before all
// have returned.
static void complete_alone(int bytes) {
    const int n = 8;
    attach();
    std::vector<unsigned char> data(bytes + 1), in(bytes + 1);
    MPI_Request again;
    MPI_Bsend_init(data.data(), bytes, MPI_BYTE, 1 - rank, 4, MPI_COMM_WORLD, &again);
    for (int i = 0; i < n; ++i) {
        fill(data.data(), bytes, rank * 100 + i);
        MPI_Request request = MPI_REQUEST_NULL;
        // Open MPI 4.1 sends wrong data at the second start of a large Bsend_init.
        bool start = i % 3 == 2 && (bytes <= 4000 || i == 2);
        if (i % 3 == 0 || (i % 3 == 2 && !start))
            MPI_Bsend(data.data(), bytes, MPI_BYTE, 1 - rank, 4, MPI_COMM_WORLD);
        if (i % 3 == 1)
            MPI_Ibsend(data.data(), bytes, MPI_BYTE, 1 - rank, 4, MPI_COMM_WORLD, &request);
        if (start) {
            MPI_Start(&again);
            MPI_Wait(&again, MPI_STATUS_IGNORE);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        std::memset(data.data(), 0xEE, bytes);
    }
    MPI_Request_free(&again);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i) {
        MPI_Recv(in.data(), bytes, MPI_BYTE, 1 - rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(same(in.data(), bytes, (1 - rank) * 100 + i), "message %d of %d bytes", i, bytes);
    }
    detach();
}

// The buffer is used again and again; to itself as well.
static void reused() {
    attach();
    std::vector<unsigned char> data(50000), in(50000);
    for (int i = 0; i < 100; ++i) {
        int bytes = i % 2 ? 50000 : 100, to = i % 3 ? 1 - rank : rank;
        fill(data.data(), bytes, i);
        MPI_Bsend(data.data(), bytes, MPI_BYTE, to, 5, MPI_COMM_WORLD);
        MPI_Recv(in.data(), 50000, MPI_BYTE, to, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(same(in.data(), bytes, i), "reuse %d", i);
    }
    detach();
}

// Bsend, detach, Finalize with the receiver late.
static void detached_and_finalized() {
    const int n = 20;
    if (rank == 0) {
        attach();
        for (int i = 0; i < n; ++i) {
            std::vector<int> data(i % 2 ? 10 : 1500, i);
            MPI_Bsend(data.data(), int(data.size()), MPI_INT, 1, i, MPI_COMM_WORLD);
        }
        detach();
        std::memset(attached.data(), 0xEE, space);
    } else {
        usleep(100000);
        std::vector<int> in(1500);
        for (int i = 0; i < n; ++i) {
            MPI_Recv(in.data(), 1500, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(in[0] == i && in[9] == i, "late message %d is %d", i, in[0]);
        }
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int bytes : {0, 4, 4000, 4096, 20000}) complete_alone(bytes);
    reused();
    detached_and_finalized();
    return finish();
}
