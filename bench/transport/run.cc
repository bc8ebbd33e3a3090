// SPDX-License-Identifier: MIT
#include "run.hh"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

namespace transport {

void Common::add_to(CommandLine& line)
{
    line.add("exchange", &exchange);
    line.add("scale", &scale);
    line.add("cells", &cells);
    line.add("particles", &particles);
    line.add("steps", &steps);
    line.add("batch", &batch);
    line.add("receives", &receives);
    line.add("poll", &poll);
    line.add("work", &work);
    line.add("sample", &sample);
    line.add("seed", &seed);
}

void Common::check() const
{
    if (scale != "weak" && scale != "strong" && scale != "scaled") {
        stop("--scale: weak, strong or scaled");
    }
    if (cells < 1 || particles < 1 || steps < 1 || batch < 1 || receives < 1 || poll < 1 || sample > 10000) {
        stop("--cells, --particles, --steps, --batch, --receives, --poll: at least 1; --sample: at most 10000");
    }
}

Site lattice(std::int64_t cells, const Vec& edges)
{
    const auto all = static_cast<double>(cells);
    const auto near = [all](double x) { return static_cast<int>(std::lround(std::clamp(x, 1.0, all))); };
    Site n{};
    n[0] = near(std::cbrt(all * edges[0] * edges[0] / (edges[1] * edges[2])));
    n[1] = near(std::sqrt(all / n[0] * edges[1] / edges[2]));
    n[2] = near(all / n[0] / n[1]);
    return n;
}

void Stopwatch::start()
{
    MPI_Barrier(MPI_COMM_WORLD);
    begin_ = MPI_Wtime();
    Phases::start(sample_);
}

void Stopwatch::stop()
{
    Phases::stop();
    seconds_ = MPI_Wtime() - begin_;
}

void Stopwatch::report(const Exchange& exchange) const
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double seconds = 0;
    MPI_Reduce(&seconds_, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    const Phases::Counts here = Phases::counts();
    std::vector<std::int64_t> numbers(here.begin(), here.end());
    const ExchangeCounts& c = exchange.counts();
    numbers.insert(numbers.end(), {c.sent, c.messages, c.looks});
    numbers = sum_all(numbers);
    if (rank != 0) {
        return;
    }
    std::int64_t ticks = 0;
    for (int i = 0; i < kPhases; ++i) {
        ticks += numbers[static_cast<std::size_t>(i)];
    }
    std::printf("time: %.4f s\n", seconds);
    if (ticks > 0) {
        std::printf("time: phases");
        for (std::size_t i = 0; i < kPhases; ++i) {
            const double percent = 100.0 * static_cast<double>(numbers[i]) / static_cast<double>(ticks);
            std::printf(" %s %.2f", kPhaseNames[i], percent);
        }
        std::printf(" percent of %" PRId64 " samples\n", ticks);
    }
    const std::int64_t messages = std::max<std::int64_t>(numbers[kPhases + 1], 1);
    const double bytes = static_cast<double>(numbers[kPhases]) * sizeof(Particle) / static_cast<double>(messages);
    std::printf("time: sent %" PRId64 " particles in %" PRId64 " messages of %.0f bytes on average, %" PRId64
                " looks\n",
                numbers[kPhases], numbers[kPhases + 1], bytes, numbers[kPhases + 2]);
}

std::vector<std::int64_t> sum_all(const std::vector<std::int64_t>& here)
{
    std::vector<std::int64_t> all(here.size());
    MPI_Allreduce(here.data(), all.data(), static_cast<int>(here.size()), MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

std::uint64_t checksum(const Mesh& mesh, const std::vector<std::int64_t>& tally)
{
    std::uint64_t here = 0;
    for (std::size_t c = 0; c < tally.size(); ++c) {
        here += key_of(static_cast<std::uint64_t>(mesh.first()) + c, tally[c]);
    }
    std::uint64_t all = 0;
    MPI_Allreduce(&here, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

} // namespace transport
