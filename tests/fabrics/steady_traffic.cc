// SPDX-License-Identifier: MIT
// Traffic of every kind between all ranks, each byte checked, for as many rounds as it is
// told: what a fabric is taken away from. Rank 0 prints "round N" now and then; at the end
// each rank prints a sum of what it received, which only the messages decide.
//
//   steady_traffic ROUNDS [SECONDS]   SECONDS: rank 1 computes so long in the middle
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kSizes[] = {0, 1, 40, 700, 3000, 9000, 40000};
constexpr int kPerRound = 7;

std::uint8_t byte_of(int from, int to, int round, int number, int at)
{
    const std::uint32_t x = static_cast<std::uint32_t>(from * 7919 + to * 104729 + round * 31 + number) * 2654435761u +
                            static_cast<std::uint32_t>(at) * 40503u;
    return static_cast<std::uint8_t>(x >> 13);
}

int size_of(int from, int round, int number)
{
    return kSizes[(from + round + number) % 7];
}

void fail(const char* what, int from, int round)
{
    std::printf("WRONG: %s from rank %d in round %d\n", what, from, round);
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
    const int pause = argc > 2 ? std::atoi(argv[2]) : 0;
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::uint64_t sum = 0;
    std::vector<std::vector<std::uint8_t>> out(static_cast<std::size_t>(size * kPerRound)), in = out;
    for (int round = 0; round < rounds; ++round) {
        std::vector<MPI_Request> requests;
        for (int peer = 0; peer < size; ++peer)
            for (int n = 0; peer != rank && n < kPerRound; ++n) {
                auto& to = out[static_cast<std::size_t>(peer * kPerRound + n)];
                to.resize(static_cast<std::size_t>(size_of(rank, round, n)));
                for (std::size_t i = 0; i < to.size(); ++i)
                    to[i] = byte_of(rank, peer, round, n, static_cast<int>(i));
                auto& from = in[static_cast<std::size_t>(peer * kPerRound + n)];
                from.assign(40000, 0);
                requests.emplace_back();
                MPI_Irecv(from.data(), 40000, MPI_BYTE, peer, 5, MPI_COMM_WORLD, &requests.back());
                requests.emplace_back();
                const auto send = n == 3 ? MPI_Issend : MPI_Isend;
                send(to.data(), static_cast<int>(to.size()), MPI_BYTE, peer, 5, MPI_COMM_WORLD, &requests.back());
            }
        if (pause != 0 && round == rounds / 2 && rank == 1)
            std::this_thread::sleep_for(std::chrono::seconds(pause));
        std::vector<MPI_Status> statuses(requests.size());
        if (round % 2 == 0)
            MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data());
        else
            for (int done = 0; done == 0; std::this_thread::yield())
                MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, statuses.data());
        std::size_t at = 0;
        for (int peer = 0; peer < size; ++peer)
            for (int n = 0; peer != rank && n < kPerRound; ++n, at += 2) {
                int count = 0;
                MPI_Get_count(&statuses[at], MPI_BYTE, &count);
                const auto& from = in[static_cast<std::size_t>(peer * kPerRound + n)];
                if (count != size_of(peer, round, n))
                    fail("a length", peer, round);
                for (int i = 0; i < count; ++i) {
                    if (from[static_cast<std::size_t>(i)] != byte_of(peer, rank, round, n, i))
                        fail("a byte", peer, round);
                    sum = sum * 31 + from[static_cast<std::size_t>(i)];
                }
            }
        if (round % 50 == 49)
            MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0 && round % 50 == 49) {
            std::printf("round %d\n", round + 1);
            std::fflush(stdout);
        }
    }
    std::printf("rank %d of %d: sum %016llx\n", rank, size, static_cast<unsigned long long>(sum));
    MPI_Finalize();
}
