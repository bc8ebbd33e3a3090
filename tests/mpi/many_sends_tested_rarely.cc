// SPDX-License-Identifier: MIT
// 10^5 nonblocking sends whose requests are tested rarely, to a rank that polls; the
// memory of this process does not keep what has been delivered.
// run: ranks=2,3 timeout=100 long
#include "check.h"
using namespace check;

static long resident_mib() {
    long pages = 0, resident = 0;
    if (std::FILE *file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
        std::fclose(file);
    }
    return resident * 4 / 1024;
}

static void all_to_next(int messages) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size, got = 0;
    std::vector<std::uint64_t> out(messages * 4), in(4);
    std::vector<MPI_Request> requests(messages, MPI_REQUEST_NULL);
    MPI_Request receive;
    MPI_Irecv(in.data(), 4, MPI_UINT64_T, left, 2, MPI_COMM_WORLD, &receive);
    int first = 0;
    for (int i = 0; i < messages || got < messages; ++i) {
        if (i < messages) {
            out[i * 4] = i;
            MPI_Isend(&out[i * 4], 4, MPI_UINT64_T, right, 2, MPI_COMM_WORLD, &requests[i]);
        }
        int flag = 0;
        if (got < messages) MPI_Test(&receive, &flag, MPI_STATUS_IGNORE);
        if (flag) {
            expect(in[0] == std::uint64_t(got), "message %d is %d", got, int(in[0]));
            if (++got < messages)
                MPI_Irecv(in.data(), 4, MPI_UINT64_T, left, 2, MPI_COMM_WORLD, &receive);
        }
        if (i % 1000 == 0)
            for (flag = 1; flag && first < messages && first < i;) {
                MPI_Test(&requests[first], &flag, MPI_STATUS_IGNORE);
                if (flag) ++first;
            }
    }
    MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int messages = given("long") ? 1000000 : 100000;
    all_to_next(messages);
    long before = resident_mib();
    all_to_next(messages);
    long grown = resident_mib() - before;
    expect(grown < 64, "grown by %ld MiB", grown);
    return finish();
}
