// SPDX-License-Identifier: MIT
// A plain exchange, run in the surroundings that jobs meet: as it is, through a shell
// and a pipe, with few descriptors and locked pages, with a tiny /dev/shm, twice at once.
// run: ranks=1,2,4 timeout=30
// run: ranks=2 timeout=30 wrap="bash -c '\"$@\" | tee copy.$OMPI_COMM_WORLD_RANK; exit ${PIPESTATUS[0]}' bash"
// run: ranks=2,4 timeout=30 wrap="sh -c 'ulimit -l 64; ulimit -n 40; exec \"$@\"' sh"
// run: ranks=2,4 timeout=60 within=small-shm
// run: ranks=2,4 timeout=60 jobs=2
// run: ranks=2 timeout=30 mpirun="--bind-to none --mca mpi_yield_when_idle 1"
// run: ranks=2 timeout=30 mpirun="--mca btl self,tcp"
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    std::uint64_t sum = 0;
    for (int round = 0; round < 200; ++round)
        for (int bytes : {0, 8, 304, 4000, 9000, 82000}) {
            auto out = made(bytes, rank * 1000 + round);
            Guarded in(bytes + 5);
            MPI_Request requests[2];
            MPI_Status statuses[2];
            MPI_Irecv(in.data(), bytes + 5, MPI_BYTE, left, round % 20, MPI_COMM_WORLD,
                      &requests[0]);
            MPI_Isend(out.data(), bytes, MPI_BYTE, right, round % 20, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, statuses);
            expect(count_of(statuses[0]) == bytes && same(in.data(), bytes, left * 1000 + round) &&
                       in.untouched(bytes),
                   "round %d, %d bytes", round, bytes);
            for (int i = 0; i < bytes; i += 7) sum += in.data()[i];
        }
    say("sum %llu", static_cast<unsigned long long>(sum));
    return finish();
}
