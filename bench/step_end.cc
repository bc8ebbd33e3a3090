// SPDX-License-Identifier: MIT
// step_end: how long it takes all ranks to learn that a step is over once all are idle, by
// storm_term of storm.h and by rounds of MPI_Iallreduce, which codes use for it.
//
// One line a way:  mode ranks median unit "best" best
//   end_tree    storm_term_progress until it is over
//   end_rounds  MPI_Iallreduce of sent and arrived until two rounds in a row agree
// and what a step costs by the first: messages that all ranks send.
#define OMPI_SKIP_MPICXX 1 // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <storm.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kRepetitions = 11;
constexpr int kSteps = 20; // between two looks at the clock
long messages = 0;

void by_tree(storm_term* term)
{
    for (int over = 0; over == 0;)
        storm_term_progress(term, 0, 0, 1, &over);
}

void by_rounds(MPI_Comm comm)
{
    std::array<std::int64_t, 2> before{-1, -1}, sum{};
    for (;;) {
        const std::array<std::int64_t, 2> mine{};
        MPI_Request request;
        MPI_Iallreduce(mine.data(), sum.data(), 2, MPI_INT64_T, MPI_SUM, comm, &request);
        for (int done = 0; done == 0;)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (sum == before)
            return;
        before = sum;
    }
}

// The slowest rank counts. All ranks make the same number of steps: the first one decides.
template <class Step>
void measure(const char* mode, double seconds, MPI_Comm comm, Step step)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    std::array<double, kRepetitions> us{};
    step();
    for (double& one : us) {
        long steps = 0;
        MPI_Barrier(comm);
        const double begin = MPI_Wtime();
        for (int more = 1; more != 0;) {
            for (int i = 0; i < kSteps; ++i)
                step();
            steps += kSteps;
            more = MPI_Wtime() - begin < seconds / kRepetitions;
            MPI_Bcast(&more, 1, MPI_INT, 0, comm);
        }
        one = (MPI_Wtime() - begin) * 1e6 / static_cast<double>(steps);
        MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_DOUBLE, MPI_MAX, comm);
    }
    std::sort(us.begin(), us.end());
    if (rank == 0)
        std::printf("%s %d %.2f us best %.2f\n", mode, ranks, us[kRepetitions / 2], us[0]);
}

} // namespace

// Counts what the library that is linked sends.
extern "C" int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                         MPI_Request* request)
{
    ++messages;
    return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    double seconds = 0.5;
    for (int i = 1; i + 1 < argc; i += 2)
        if (std::strcmp(argv[i], "--seconds") == 0)
            seconds = std::atof(argv[i + 1]);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    storm_term* term = nullptr;
    if (storm_term_begin(MPI_COMM_WORLD, &term) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 2);

    constexpr int kCounted = 10;
    const long before = messages;
    for (int i = 0; i < kCounted; ++i)
        by_tree(term);
    long all = messages - before;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("messages a step %g\n", static_cast<double>(all) / kCounted);
    measure("end_tree", seconds, MPI_COMM_WORLD, [term] { by_tree(term); });
    measure("end_rounds", seconds, MPI_COMM_WORLD, [] { by_rounds(MPI_COMM_WORLD); });
    const int rc = storm_term_done(&term);
    MPI_Finalize();
    return rc == MPI_SUCCESS ? 0 : 1;
}
