// SPDX-License-Identifier: MIT
// Every message completes exactly one of 10^4 posted wildcard receives, guards
// stay intact, each sender's messages come in its order, nothing is left over.
// run: ranks=2,3,4 timeout=60
#include "check.h"
using namespace check;

// Ranks send with different tags and sizes, so that paths differ by sender.
static int bytes_of(int from, int i) {
    static const int small[] = {0, 8, 100, 1000}, large[] = {5000, 64, 66000, 8};
    return (from % 2 ? small : large)[i % 4];
}

static void receive_all(int each, int tag_wanted) {
    int total = each * (size - 1), window = 500;
    std::vector<int> next(size, 0);
    for (int done = 0; done < total;) {
        int n = std::min(window, total - done);
        std::vector<Guarded> buffers;
        std::vector<MPI_Request> requests(n);
        std::vector<MPI_Status> statuses(n);
        buffers.reserve(n);
        for (int i = 0; i < n; ++i) {
            buffers.emplace_back(66000);
            MPI_Irecv(buffers[i].data(), 66000, MPI_BYTE, MPI_ANY_SOURCE, tag_wanted,
                      MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(n, requests.data(), statuses.data());
        for (int i = 0; i < n; ++i) {
            int from = statuses[i].MPI_SOURCE, k = next[from]++;
            expect(count_of(statuses[i]) == bytes_of(from, k), "message %d of %d has %d bytes", k,
                   from, count_of(statuses[i]));
            expect(same(buffers[i].data(), bytes_of(from, k), from * 100000 + k), "data %d of %d",
                   k, from);
            expect(buffers[i].untouched(bytes_of(from, k)), "guard of %d of %d", k, from);
        }
        done += n;
    }
    for (int from = 1; from < size; ++from) say("%d messages from %d", next[from], from);
    int flag = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    expect(!flag, "a message is left");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void send_all(int each, int tag) {
    for (int i = 0; i < each; ++i) {
        auto data = made(bytes_of(rank, i), rank * 100000 + i);
        MPI_Send(data.data(), bytes_of(rank, i), MPI_BYTE, 0, tag, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int each = 10000 / (size - 1) / 2;
    if (rank == 0) receive_all(each, MPI_ANY_TAG);
    else
        send_all(each, rank);  // an own tag each
    if (rank == 0) receive_all(each, 4);
    else
        send_all(each, 4);
    return finish();
}
