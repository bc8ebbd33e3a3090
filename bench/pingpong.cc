// SPDX-License-Identifier: MIT
// pingpong: half round trip, message rate and two-way rate between two ranks. An
// ordinary MPI program; bare_ring prints the same lines for the floor below MPI.
//
// One line a size:  mode bytes median unit "best" best
//   latency  half round trip of MPI_Send / MPI_Recv, ns
//   rate     windows of 64 MPI_Isend / MPI_Irecv + MPI_Waitall and a small answer,
//            million messages a second
//   waitany  the same, completed one after the other by MPI_Waitany
//   bidir    the same with both ranks sending a window, messages of both counted
// With fresh_ before it the sender writes its buffer anew before each send, as a code
// that packs particles does; otherwise the same bytes are sent again and again.
// Each size is run for a bounded time in several repetitions.
#define OMPI_SKIP_MPICXX 1 // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kWindow = 64;
constexpr int kRepetitions = 11;
constexpr int kTag = 7;
constexpr int kTagAnswer = 8;

struct Options {
    std::string mode = "latency";
    std::vector<int> sizes;
    double seconds_a_size = 0.1;
};

[[noreturn]] void stop(const std::string& why)
{
    std::fprintf(stderr,
                 "pingpong: %s\noptions: --mode [fresh_]latency|rate|waitany|bidir --sizes a,b,c "
                 "--seconds-per-size S\n",
                 why.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
    std::abort();
}

std::vector<int> parse_sizes(const char* text)
{
    std::vector<int> sizes;
    while (*text != '\0') {
        char* end = nullptr;
        const long size = std::strtol(text, &end, 10);
        if (end == text || size < 0 || size > (1 << 28) || (*end != ',' && *end != '\0')) {
            stop("--sizes wants numbers with commas between");
        }
        sizes.push_back(static_cast<int>(size));
        text = *end == ',' ? end + 1 : end;
    }
    return sizes;
}

Options parse(int argc, char** argv)
{
    Options o;
    for (int i = 1; i < argc; ++i) {
        const std::string_view name = argv[i];
        if (i + 1 == argc) {
            stop("no value for " + std::string(name));
        }
        const char* value = argv[++i];
        if (name == "--mode") {
            o.mode = value;
        } else if (name == "--sizes") {
            o.sizes = parse_sizes(value);
        } else if (name == "--seconds-per-size") {
            o.seconds_a_size = std::atof(value);
        } else {
            stop("unknown option " + std::string(name));
        }
    }
    const std::string plain = o.mode.rfind("fresh_", 0) == 0 ? o.mode.substr(6) : o.mode;
    if (plain != "latency" && plain != "rate" && plain != "waitany" && plain != "bidir") {
        stop("unknown mode " + o.mode);
    }
    if (o.sizes.empty()) {
        o.sizes = {8, 64, 256, 1024, 4096, 16384, 65536};
        if (plain != "latency") {
            o.sizes.push_back(1 << 20);
        }
    }
    return o;
}

// A message buffer for each place in the window, a whole number of lines apart.
class Buffers {
public:
    Buffers(int bytes, int places, unsigned char fill)
        : stride_((static_cast<std::size_t>(bytes) + 63) / 64 * 64 + 64),
          memory_(stride_ * static_cast<std::size_t>(places), fill)
    {
    }
    unsigned char* operator[](int place)
    {
        return memory_.data() + stride_ * static_cast<std::size_t>(place);
    }

private:
    std::size_t stride_;
    std::vector<unsigned char> memory_;
};

class Pair {
public:
    Pair(int rank, int bytes, int places, bool fresh)
        : rank_(rank), bytes_(bytes), fresh_(fresh), out_(bytes, places, fill_of(rank)),
          in_(bytes, places, 0)
    {
    }

    void round_trip()
    {
        if (rank_ == 0) {
            MPI_Send(message(0), bytes_, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
            MPI_Recv(in_[0], bytes_, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in_[0], bytes_, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(message(0), bytes_, MPI_BYTE, 0, kTag, MPI_COMM_WORLD);
        }
    }

    void window(bool one_by_one)
    {
        std::array<MPI_Request, kWindow> requests;
        int answer = 0;
        if (rank_ == 0) {
            for (int i = 0; i < kWindow; ++i) {
                MPI_Isend(message(i), bytes_, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, at(requests, i));
            }
        } else {
            for (int i = 0; i < kWindow; ++i) {
                MPI_Irecv(in_[i], bytes_, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, at(requests, i));
            }
        }
        for (int i = 0, index = 0; one_by_one && i < kWindow; ++i) {
            MPI_Waitany(kWindow, requests.data(), &index, MPI_STATUS_IGNORE);
        }
        MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
        if (rank_ == 0) {
            MPI_Recv(&answer, 1, MPI_INT, 1, kTagAnswer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(&answer, 1, MPI_INT, 0, kTagAnswer, MPI_COMM_WORLD);
        }
    }

    void two_windows()
    {
        std::array<MPI_Request, 2 * kWindow> requests;
        const int peer = 1 - rank_;
        for (int i = 0; i < kWindow; ++i) {
            MPI_Irecv(in_[i], bytes_, MPI_BYTE, peer, kTag, MPI_COMM_WORLD, at(requests, i));
        }
        for (int i = 0; i < kWindow; ++i) {
            MPI_Isend(message(i), bytes_, MPI_BYTE, peer, kTag, MPI_COMM_WORLD,
                      at(requests, kWindow + i));
        }
        MPI_Waitall(2 * kWindow, requests.data(), MPI_STATUSES_IGNORE);
    }

    // The first and last byte of what came last are the peer's.
    void check(int places)
    {
        for (int i = 0; i < places && bytes_ > 0; ++i) {
            if (in_[i][0] != fill_of(1 - rank_) || in_[i][bytes_ - 1] != fill_of(1 - rank_)) {
                stop("a message with the wrong bytes");
            }
        }
    }

private:
    // A code packs new particles into its buffer before each send; a buffer that is
    // sent again unchanged is still in the receiver's cache.
    unsigned char* message(int place)
    {
        if (fresh_) {
            std::memset(out_[place], fill_of(rank_), static_cast<std::size_t>(bytes_));
        }
        return out_[place];
    }
    static unsigned char fill_of(int rank) { return static_cast<unsigned char>(0x5a + rank); }

    template <std::size_t N>
    static MPI_Request* at(std::array<MPI_Request, N>& requests, int i)
    {
        return &requests[static_cast<std::size_t>(i)];
    }

    int rank_, bytes_;
    bool fresh_;
    Buffers out_, in_;
};

// Seconds a round on rank 0 for each repetition. The rounds of a repetition are
// doubled until they fill their part of the time; rank 0 decides for both.
template <class Round>
std::vector<double> measure(int rank, double seconds, Round round)
{
    const double part = seconds / (kRepetitions + 2);
    std::vector<double> found;
    std::int64_t rounds = 1;
    while (found.size() < kRepetitions) {
        MPI_Bcast(&rounds, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        for (std::int64_t i = 0; i < rounds; ++i) {
            round();
        }
        double took = MPI_Wtime() - begin;
        MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (!found.empty() || took > part / 2) {
            found.push_back(took / static_cast<double>(rounds));
        } else if (rank == 0) {
            rounds *= 2;
        }
    }
    return found;
}

void run_size(const Options& o, int rank, int bytes)
{
    const bool fresh = o.mode.rfind("fresh_", 0) == 0;
    const std::string mode = fresh ? o.mode.substr(6) : o.mode;
    const int places = mode == "latency" ? 1 : kWindow;
    Pair pair(rank, bytes, places, fresh);
    std::vector<double> seconds;
    if (mode == "latency") {
        seconds = measure(rank, o.seconds_a_size, [&] { pair.round_trip(); });
    } else if (mode == "rate" || mode == "waitany") {
        seconds = measure(rank, o.seconds_a_size, [&] { pair.window(mode == "waitany"); });
    } else {
        seconds = measure(rank, o.seconds_a_size, [&] { pair.two_windows(); });
    }
    if (rank == 1 || mode == "latency" || mode == "bidir") {
        pair.check(places);
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    const double best = seconds.front();
    if (rank != 0) {
        return;
    }
    if (mode == "latency") {
        std::printf("%s %d %.1f ns best %.1f\n", o.mode.c_str(), bytes, median * 0.5e9, best * 0.5e9);
    } else {
        const double messages = mode == "bidir" ? 2 * kWindow : kWindow;
        std::printf("%s %d %.6f M/s best %.6f\n", o.mode.c_str(), bytes,
                    messages * 1e-6 / median, messages * 1e-6 / best);
    }
    std::fflush(stdout);
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
    const Options options = parse(argc, argv);
    for (const int bytes : options.sizes) {
        run_size(options, rank, bytes);
    }
    MPI_Finalize();
    return 0;
}
