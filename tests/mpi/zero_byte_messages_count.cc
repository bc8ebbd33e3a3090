// SPDX-License-Identifier: MIT
// Empty messages ("no more particles") interleaved with data are matched, counted,
// probed and synchronise like any other; a null buffer is allowed.
// run: ranks=2,4 timeout=30
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    const int rounds = 500;
    int left = (rank + size - 1) % size, right = (rank + 1) % size, markers = 0, data = 0;
    for (int i = 0; i < rounds; ++i) {
        int n = i % 5;
        std::vector<MPI_Request> requests(n + 1);
        std::vector<double> out(40, i);
        for (int k = 0; k < n; ++k)
            MPI_Isend(out.data(), 10 + k, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[k]);
        MPI_Isend(nullptr, 0, i % 2 ? MPI_INT : MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[n]);
        std::vector<double> in(40);
        for (int k = 0;; ++k) {
            MPI_Status status;
            int flag = 0;
            if (i % 3 == 0) MPI_Probe(left, 1, MPI_COMM_WORLD, &status);
            while (i % 3 == 1 && !flag) MPI_Iprobe(left, 1, MPI_COMM_WORLD, &flag, &status);
            MPI_Recv(in.data(), 40, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &status);
            int count = count_of(status, MPI_DOUBLE);
            if (count == 0) {
                expect(k == n, "round %d: marker after %d of %d", i, k, n);
                ++markers;
                break;
            }
            expect(count == 10 + k && in[0] == i, "round %d, message %d: %d", i, k, count);
            ++data;
        }
        MPI_Waitall(n + 1, requests.data(), MPI_STATUSES_IGNORE);
    }
    say("%d markers, %d data", markers, data);
    // As a synchronisation: an empty Ssend to a null buffer.
    MPI_Request request;
    MPI_Issend(nullptr, 0, MPI_INT, right, 2, MPI_COMM_WORLD, &request);
    int flag = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 1000 && !flag; ++i) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    expect(!flag, "an empty Issend is complete without a receive");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(nullptr, 0, MPI_INT, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return finish();
}
