// SPDX-License-Identifier: MIT
// Ssend, Issend and Ssend_init complete only after the receive has been matched:
// shown by flags and by messages, not by time.
// run: ranks=2 timeout=30
#include "check.h"
using namespace check;

static const int sizes[] = {0, 4, 4000, 70000};

// The sender tests many times before it lets the receiver post: never complete.
static void not_before(int bytes, bool persistent, bool matched_probe) {
    std::vector<unsigned char> data = made(bytes, bytes), in(bytes + 1);
    int word = 0;
    if (rank == 0) {
        MPI_Request request;
        int flag = 0;
        if (persistent) {
            MPI_Ssend_init(data.data(), bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
            MPI_Start(&request);
        } else {
            MPI_Issend(data.data(), bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        }
        for (int i = 0; i < 20000 && !flag; ++i) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        expect(!flag, "complete without a receive, %d bytes", bytes);
        MPI_Send(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        expect(test_until_done(&request), "never complete, %d bytes", bytes);
        if (persistent) MPI_Request_free(&request);
    } else {
        // In MPI all the time, so that the message does arrive here.
        MPI_Recv(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (matched_probe) {
            MPI_Message message;
            MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(in.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in.data(), bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        expect(same(in.data(), bytes, bytes), "data of %d bytes", bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// A probe is no match.
static void a_probe_is_no_match() {
    int value = 5, flag = 0;
    if (rank == 0) {
        MPI_Request request;
        MPI_Issend(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Recv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // it has probed
        for (int i = 0; i < 20000 && !flag; ++i) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        expect(!flag, "a probe completed the send");
        MPI_Send(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(value == 5, "value %d", value);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// After a blocking Ssend the receive has begun: its poster wrote down a number
// before it posted, in memory that both see.
static void blocking_form() {
    int *shared = nullptr;
    MPI_Win window;
    MPI_Win_allocate_shared(rank == 0 ? 64 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(window, 0, &bytes, &unit, &shared);
    auto *written = reinterpret_cast<std::atomic<int> *>(shared);
    if (rank == 0) written->store(0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i <= 2000; ++i) {
        int size_now = i % 10 ? 4 : 70000;
        std::vector<char> data(size_now);
        if (rank == 0) {
            MPI_Ssend(data.data(), size_now, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            expect(written->load() >= i, "Ssend %d returned early", i);
        } else {
            if (i % 100 == 0) usleep(500);
            written->store(i);
            MPI_Recv(data.data(), size_now, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    MPI_Win_free(&window);
}

// A posted receive lets it complete while the receiver sits elsewhere in MPI.
static void posted_before() {
    for (int bytes : sizes) {
        std::vector<char> data(bytes + 1);
        MPI_Request request;
        if (rank == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Ssend(data.data(), bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Barrier(MPI_COMM_WORLD);
        } else {
            MPI_Irecv(data.data(), bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int bytes : sizes)
        for (bool persistent : {false, true})
            for (bool matched : {false, true}) not_before(bytes, persistent, matched);
    a_probe_is_no_match();
    blocking_form();
    posted_before();
    return finish();
}
