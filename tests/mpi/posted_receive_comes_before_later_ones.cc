// SPDX-License-Identifier: MIT
// A posted wildcard receive gets the first message, a later blocking receive the
// second: for every combination of small and large, of tags, and with a probe
// between them that must only see the second.
// run: ranks=2 timeout=60
#include "check.h"
using namespace check;

static const int sizes[] = {4, 5000, 300000};

static void repeat(int first, int second, int tag, bool probe, int times) {
    std::vector<unsigned char> a(first), b(second), in_a(300000), in_b(300000);
    for (int i = 0; i < times; ++i) {
        if (rank == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            a[0] = 1;
            b[0] = 2;
            MPI_Request requests[2];
            MPI_Isend(a.data(), first, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(b.data(), second, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        } else {
            MPI_Request request;
            MPI_Status got_a, got_b;
            MPI_Irecv(in_a.data(), 300000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                      &request);
            MPI_Barrier(MPI_COMM_WORLD);
            if (probe) {
                MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &got_b);
                expect(count_of(got_b) == second, "probe saw %d bytes, not %d", count_of(got_b),
                       second);
            }
            MPI_Recv(in_b.data(), 300000, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &got_b);
            MPI_Wait(&request, &got_a);
            expect(in_a[0] == 1 && in_b[0] == 2, "got %d and %d", in_a[0], in_b[0]);
            expect(count_of(got_a) == first && count_of(got_b) == second, "sizes %d %d",
                   count_of(got_a), count_of(got_b));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int tag : {7, 8})
        for (int first : sizes)
            for (int second : sizes)
                for (bool probe : {false, true}) repeat(first, second, tag, probe, 100);
    repeat(4, 4, 7, false, 1000);
    return finish();
}
