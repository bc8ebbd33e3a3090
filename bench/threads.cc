// SPDX-License-Identifier: MIT
// threads: what threads of rank 0 send together, each on a communicator of its own. An
// ordinary MPI program with MPI_THREAD_MULTIPLE.
//
// One line a number of threads:  mode threads median unit "best" best
//   own     thread t sends to rank 1 + t: channels of their own
//   shared  thread t sends to thread t of rank 1: one channel for all
// in million messages of 64 bytes a second of all threads, by windows of 64 MPI_Isend and
// MPI_Irecv with a small answer. More threads and ranks than cores share these.
#define OMPI_SKIP_MPICXX 1 // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kWindow = 64, kBytes = 64, kRepetitions = 9, kTag = 7, kTagAnswer = 8;

void windows(int count, bool sends, int peer, MPI_Comm comm)
{
    std::array<std::array<unsigned char, kBytes>, kWindow> buffers{};
    std::array<MPI_Request, kWindow> requests;
    int answer = 0;
    for (int n = 0; n < count; ++n) {
        for (std::size_t i = 0; i < kWindow; ++i) {
            if (sends) {
                MPI_Isend(buffers[i].data(), kBytes, MPI_BYTE, peer, kTag, comm, &requests[i]);
            } else {
                MPI_Irecv(buffers[i].data(), kBytes, MPI_BYTE, peer, kTag, comm, &requests[i]);
            }
        }
        MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
        if (sends) {
            MPI_Recv(&answer, 1, MPI_INT, peer, kTagAnswer, comm, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(&answer, 1, MPI_INT, peer, kTagAnswer, comm);
        }
    }
}

// All windows of all threads of this rank; seconds.
double together(int threads, int count, int rank, bool own, const std::vector<MPI_Comm>& comms)
{
    const auto at = [&](int t) {
        const int peer = rank != 0 ? 0 : own ? 1 + t : 1;
        windows(count, rank == 0, peer, comms[static_cast<std::size_t>(t)]);
    };
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    if (own && rank != 0) {
        if (rank <= threads) {
            at(rank - 1);
        }
    } else if (rank <= 1) {
        std::vector<std::thread> all;
        for (int t = 0; t < threads; ++t) {
            all.emplace_back(at, t);
        }
        for (std::thread& thread : all) {
            thread.join();
        }
    }
    const double seconds = MPI_Wtime() - begin;
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds;
}

void measure(int threads, int rank, bool own, const std::vector<MPI_Comm>& comms)
{
    constexpr double kSeconds = 0.1;
    int count = 20;
    const double trial = together(threads, count, rank, own, comms);
    count = std::max(20, static_cast<int>(count * kSeconds / trial));
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    std::vector<double> rates;
    for (int i = 0; i < kRepetitions; ++i) {
        const double seconds = together(threads, count, rank, own, comms);
        rates.push_back(1e-6 * threads * count * kWindow / seconds);
    }
    std::sort(rates.begin(), rates.end());
    if (rank == 0) {
        std::printf("%s %d %.3f M/s best %.3f\n", own ? "own" : "shared", threads, rates[rates.size() / 2],
                    rates.back());
    }
}

} // namespace

int main(int argc, char** argv)
{
    int provided = 0, rank = 0, size = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const bool own = argc > 1 && std::string(argv[1]) == "own";
    const int most = argc > 2 ? std::atoi(argv[2]) : 4;
    if (provided < MPI_THREAD_MULTIPLE || most < 1 || most > 64 || size < (own ? 1 + most : 2)) {
        if (rank == 0) {
            std::fprintf(stderr, "threads: own|shared MOST: wants MPI_THREAD_MULTIPLE and %d ranks\n",
                         own ? 1 + most : 2);
        }
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    std::vector<MPI_Comm> comms(static_cast<std::size_t>(most));
    for (MPI_Comm& comm : comms) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    for (int threads = 1; threads <= most; threads *= 2) {
        measure(threads, rank, own, comms);
    }
    for (MPI_Comm& comm : comms) {
        MPI_Comm_free(&comm);
    }
    MPI_Finalize();
    return 0;
}
