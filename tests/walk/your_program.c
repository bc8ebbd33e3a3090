/* SPDX-License-Identifier: MIT */
// What a newcomer brings: particles that wander from rank to rank until each has made
// its steps. Exchanged as such codes do it: posted receives, MPI_Test, a sum at the end.
#include <mpi.h>

#include <stdio.h>

enum { kParticles = 20000, kSteps = 20, kTag = 7 };

struct particle {
    unsigned id;
    int steps;
};

static int next_rank(struct particle p, int size)
{
    return (int)(((p.id * 2654435761u + (unsigned)p.steps * 40503u) >> 7) % (unsigned)size);
}

int main(int argc, char **argv)
{
    int rank, size, arrived = 0;
    long done = 0, check = 0, all[2], mine[2];
    struct particle in, out;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Request request, sum = MPI_REQUEST_NULL;
    MPI_Irecv(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &request);
    unsigned born = (unsigned)rank;
    for (int ended = 0; !ended;) {
        int have = 0;
        MPI_Test(&request, &arrived, MPI_STATUS_IGNORE);
        if (arrived) {
            out = in;
            have = 1;
            MPI_Irecv(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &request);
        } else if (born < kParticles) {
            out = (struct particle){born, 0};
            have = 1;
            born += (unsigned)size;
        }
        while (have && out.steps < kSteps) {
            ++out.steps;
            const int to = next_rank(out, size);
            if (to != rank) {
                MPI_Send(&out, sizeof out, MPI_BYTE, to, kTag, MPI_COMM_WORLD);
                have = 0;
            }
        }
        if (have) {
            ++done;
            check += out.id;
        }
        if (sum == MPI_REQUEST_NULL && !have && !arrived && born >= kParticles) {
            mine[0] = done;
            mine[1] = check;
            MPI_Iallreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &sum);
        } else if (sum != MPI_REQUEST_NULL) {
            int agreed;
            MPI_Test(&sum, &agreed, MPI_STATUS_IGNORE);
            ended = agreed && all[0] == kParticles;
        }
    }
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0)
        printf("%ld particles ended, sum of their numbers %ld\n", all[0], all[1]);
    MPI_Finalize();
    return 0;
}
