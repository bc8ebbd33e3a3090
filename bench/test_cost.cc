// SPDX-License-Identifier: MIT
// test_cost: what a call costs that finds nothing, which polling codes make by the
// hundred thousand. Two ranks; an ordinary MPI program.
//
// Both ranks first exchange messages in both directions, so that every channel
// between them stands. Then rank 1 sleeps outside of MPI while rank 0 measures.
// One line a case:  mode count median unit "best" best   (count: requests tested)
//   test        MPI_Test on a posted receive
//   test_null   MPI_Test on a null request
//   testany     MPI_Testany over 16 posted receives
//   iprobe      MPI_Iprobe of one source and tag
//   iprobe_any  MPI_Iprobe of any source and any tag
#define OMPI_SKIP_MPICXX 1 // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr int kPosted = 16;
constexpr int kRepetitions = 11;
constexpr int kCases = 5;
constexpr int kTagWarm = 1;
constexpr int kTagPosted = 100; // and the following ones

[[noreturn]] void stop(const std::string& why)
{
    std::fprintf(stderr, "test_cost: %s\noptions: --seconds-per-size S (of each case)\n",
                 why.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
    std::abort();
}

// Messages of both the small and the large kind, both ways.
void open_channel(int rank)
{
    std::vector<char> out(16384, 'x');
    std::vector<char> in(out.size());
    for (int i = 0; i < 200; ++i) {
        const int bytes = i % 4 == 0 ? 16384 : 64;
        MPI_Sendrecv(out.data(), bytes, MPI_BYTE, 1 - rank, kTagWarm, in.data(), bytes,
                     MPI_BYTE, 1 - rank, kTagWarm, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

// Times `call`, which returns whether it found something, for about `seconds`.
template <class Call>
void measure(const char* mode, int count, double seconds, Call call)
{
    constexpr int kBatch = 1000;
    const double part = seconds / (kRepetitions + 1);
    bool found = false;
    for (int i = 0; i < kBatch; ++i) {
        found |= call();
    }
    std::array<double, kRepetitions> ns{};
    for (double& one : ns) {
        long calls = 0;
        const double begin = MPI_Wtime();
        double now = begin;
        while (now - begin < part) {
            for (int i = 0; i < kBatch; ++i) {
                found |= call();
            }
            calls += kBatch;
            now = MPI_Wtime();
        }
        one = (now - begin) * 1e9 / static_cast<double>(calls);
    }
    if (found) {
        stop(std::string(mode) + ": found a message where none was sent");
    }
    std::sort(ns.begin(), ns.end());
    std::printf("%s %d %.2f ns best %.2f\n", mode, count, ns[kRepetitions / 2], ns[0]);
    std::fflush(stdout);
}

void measure_all(double seconds)
{
    int flag = 0;
    measure("iprobe_any", 0, seconds, [&] {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        return flag != 0;
    });
    measure("iprobe", 0, seconds, [&] {
        MPI_Iprobe(1, kTagPosted, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        return flag != 0;
    });

    std::array<std::array<char, 4096>, kPosted> arrived;
    std::array<MPI_Request, kPosted> requests;
    for (int i = 0; i < kPosted; ++i) {
        const auto n = static_cast<std::size_t>(i);
        MPI_Irecv(arrived[n].data(), static_cast<int>(arrived[n].size()), MPI_BYTE, 1,
                  kTagPosted + i, MPI_COMM_WORLD, &requests[n]);
    }
    measure("testany", kPosted, seconds, [&] {
        int index = 0;
        MPI_Testany(kPosted, requests.data(), &index, &flag, MPI_STATUS_IGNORE);
        return flag != 0;
    });
    for (std::size_t i = 1; i < kPosted; ++i) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    measure("test", 1, seconds, [&] {
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        return flag != 0;
    });
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    measure("test_null", 0, seconds, [&] {
        MPI_Request null = MPI_REQUEST_NULL;
        MPI_Test(&null, &flag, MPI_STATUS_IGNORE);
        return flag == 0; // a null request is always done
    });
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        stop("wants exactly two ranks");
    }
    double seconds = 0.1;
    if (argc == 3 && std::string_view(argv[1]) == "--seconds-per-size") {
        seconds = std::atof(argv[2]);
    } else if (argc != 1) {
        stop("unknown option");
    }

    open_channel(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        // The first moments still see rank 1 leaving the barrier.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        measure_all(seconds);
    } else {
        std::this_thread::sleep_for(std::chrono::duration<double>(kCases * seconds + 0.2));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
