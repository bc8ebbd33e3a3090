// SPDX-License-Identifier: MIT
// growth: what a message or a test costs as there is more of something. An ordinary MPI
// program. One line a case:  mode count median unit "best" best, as pingpong prints them.
//
//   posted      N receives posted with N tags, N messages in that order: ns a message
//   reversed    the same, sent in the opposite order
//   unexpected  N messages arrive before their receives, which take them in order
//   test        MPI_Test of one of N posted receives, nothing there
//   neighbours  MPI_Test with N peers that have sent before; wants N + 1 ranks or more
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

constexpr int kBytes = 64;
constexpr int kRepetitions = 7;
constexpr int kTests = 20000;

[[noreturn]] void stop(const std::string& why)
{
    std::fprintf(stderr, "growth: %s\noptions: --mode posted|reversed|unexpected|test|neighbours --counts a,b,c\n",
                 why.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
    std::abort();
}

int rank_here()
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

class Messages {
public:
    explicit Messages(int count) : count_(count), bytes_(static_cast<std::size_t>(count) * kBytes, 'x'),
                                   requests_(static_cast<std::size_t>(count), MPI_REQUEST_NULL)
    {
    }
    void post()
    {
        for (int i = 0; i < count_; ++i) {
            MPI_Irecv(at(i), kBytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests_[static_cast<std::size_t>(i)]);
        }
    }
    void send(bool reversed)
    {
        for (int i = 0; i < count_; ++i) {
            const int n = reversed ? count_ - 1 - i : i;
            MPI_Isend(at(n), kBytes, MPI_BYTE, 0, n, MPI_COMM_WORLD, &requests_[static_cast<std::size_t>(n)]);
        }
    }
    void wait() { MPI_Waitall(count_, requests_.data(), MPI_STATUSES_IGNORE); }
    void receive()
    {
        for (int i = 0; i < count_; ++i) {
            MPI_Recv(at(i), kBytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    void cancel()
    {
        for (MPI_Request& request : requests_) {
            MPI_Cancel(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    MPI_Request& request(int i) { return requests_[static_cast<std::size_t>(i)]; }

private:
    char* at(int i) { return bytes_.data() + static_cast<std::size_t>(i) * kBytes; }

    int count_;
    std::vector<char> bytes_;
    std::vector<MPI_Request> requests_;
};

// Seconds on rank 0. Matching is timed from the first send to the last receipt; what is
// unexpected has arrived before the clock starts.
double once(const std::string& mode, int count)
{
    const int rank = rank_here();
    Messages messages(count);
    if (rank == 0 && (mode == "posted" || mode == "reversed")) {
        messages.post();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (rank == 1) {
        messages.send(mode == "reversed");
    }
    if (mode == "unexpected") {
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        if (rank == 0) {
            messages.receive();
        }
    }
    if (rank <= 1) {
        messages.wait();
    }
    return MPI_Wtime() - begin;
}

// Every other rank sends one message and then stays out of MPI while rank 0 tests.
double tests(int posted, int peers)
{
    const int rank = rank_here();
    char byte = 'x';
    if (rank > 0 && rank <= peers) {
        MPI_Send(&byte, 1, MPI_BYTE, 0, posted, MPI_COMM_WORLD);
    }
    for (int peer = 1; rank == 0 && peer <= peers; ++peer) {
        MPI_Recv(&byte, 1, MPI_BYTE, peer, posted, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Messages messages(posted);
    messages.post();
    const double begin = MPI_Wtime();
    for (int i = 0; i < kTests; ++i) {
        int done = 0;
        MPI_Test(&messages.request(posted - 1), &done, MPI_STATUS_IGNORE);
    }
    const double took = MPI_Wtime() - begin;
    messages.cancel();
    return took;
}

void measure(const std::string& mode, int count)
{
    std::array<double, kRepetitions> ns{};
    for (double& one : ns) {
        const bool testing = mode == "test" || mode == "neighbours";
        const double took = mode == "test"         ? tests(count, 1)
                            : mode == "neighbours" ? tests(1, count)
                                                   : once(mode, count);
        one = took * 1e9 / (testing ? kTests : count);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    std::sort(ns.begin(), ns.end());
    if (rank_here() == 0) {
        std::printf("%s %d %.2f ns best %.2f\n", mode.c_str(), count, ns[kRepetitions / 2], ns[0]);
        std::fflush(stdout);
    }
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::string mode = "posted";
    std::vector<int> counts = {1, 10, 100, 1000};
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        if (name == "--mode") {
            mode = argv[i + 1];
        } else if (name == "--counts") {
            counts.clear();
            for (char* at = argv[i + 1]; *at != '\0'; at += *at == ',' ? 1 : 0) {
                counts.push_back(static_cast<int>(std::strtol(at, &at, 10)));
                if (counts.back() < 1 || (*at != ',' && *at != '\0')) {
                    stop("--counts wants numbers with commas between");
                }
            }
        } else {
            stop("unknown option " + std::string(name));
        }
    }
    if (size < 2 || (mode == "neighbours" && *std::max_element(counts.begin(), counts.end()) >= size)) {
        stop("too few ranks");
    }
    for (const int count : counts) {
        measure(mode, count);
    }
    MPI_Finalize();
    return 0;
}
