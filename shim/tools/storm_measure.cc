// SPDX-License-Identifier: MIT
// storm-measure: what calls cost between two ranks, for stormrun --advise. An ordinary
// MPI program: stormrun runs it once on the real MPI and once under the shim.
//
// One line a case, in nanoseconds: "storm-measure test 18.2" for a test and "probe" for
// a probe that find nothing, a number of bytes for half a round trip of such messages.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace {

constexpr std::array<int, 8> kSizes = {0, 64, 256, 1024, 4096, 16384, 32768, 65536};
constexpr std::size_t kRepetitions = 9;
constexpr double kSeconds = 0.01; // of each repetition

// The least of some repetitions of about kSeconds each: what is more was not the call.
template <class Work>
double least_ns(int batch, Work work)
{
    std::array<double, kRepetitions> ns{};
    for (double& one : ns) {
        long calls = 0;
        const double begin = MPI_Wtime();
        double now = begin;
        for (; now - begin < kSeconds; now = MPI_Wtime(), calls += batch)
            for (int i = 0; i < batch; ++i)
                work();
        one = (now - begin) * 1e9 / static_cast<double>(calls);
    }
    return *std::min_element(ns.begin(), ns.end());
}

void tell(const char* name, double ns)
{
    std::printf("storm-measure %s %.1f\n", name, ns);
}

void polls(int rank)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        char byte;
        int flag = 0;
        MPI_Request request;
        tell("probe", least_ns(200, [&] {
                 MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
             }));
        MPI_Irecv(&byte, 1, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &request);
        tell("test", least_ns(200, [&] { MPI_Test(&request, &flag, MPI_STATUS_IGNORE); }));
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else { // outside of MPI meanwhile
        const timespec pause{0, static_cast<long>(2.5e9 * kRepetitions * kSeconds)};
        nanosleep(&pause, nullptr);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// Each buffer is written anew before it is sent, as a code with particles does.
void messages(int rank, int bytes)
{
    std::vector<char> out(static_cast<std::size_t>(bytes) + 1), in(out.size());
    const int rounds = bytes > 4096 ? 200 : 2000;
    std::array<double, kRepetitions> ns{};
    for (std::size_t n = 0; n <= kRepetitions; ++n) { // the first is a rehearsal
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        for (int i = 0; i < rounds; ++i) {
            if (rank == 1)
                MPI_Recv(in.data(), bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            std::memset(out.data(), i, out.size());
            MPI_Send(out.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD);
            if (rank == 0)
                MPI_Recv(in.data(), bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (n > 0)
            ns[n - 1] = (MPI_Wtime() - begin) * 1e9 / rounds / 2;
    }
    if (rank == 0)
        tell(std::to_string(bytes).c_str(), *std::min_element(ns.begin(), ns.end()));
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        if (rank == 0)
            std::fputs("storm-measure: wants two ranks: start it with mpirun -n 2\n", stderr);
        MPI_Finalize();
        return 2;
    }
    for (const int bytes : kSizes)
        messages(rank, bytes);
    polls(rank);
    MPI_Finalize();
    return 0;
}
