// SPDX-License-Identifier: MIT
// uniform_emission: photons emitted uniformly and isotropically in a transparent medium
// between reflecting walls, tracked from cell to cell of a Voronoi mesh and handed over
// where the domains of two ranks meet. An ordinary MPI program, but for --exchange direct.
//
// The answer is known: while there is emission the energy density is its rate times t,
// everywhere, and then stays; each wall is hit by a quarter of it times the speed of
// light, at a mean cosine of two thirds. Tallies are integers and every photon carries its own random
// stream, so all lines but those that begin with "time:" are the same to the last digit
// for any exchange, any order of arrival and any number of ranks (with --scale strong;
// the other scales change the problem with the ranks).
#include "transport/run.hh"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace transport {
namespace {

constexpr std::int64_t kEnergy = 1 << 20; // of a photon, in quanta
constexpr double kPathUnits = 0x1p20;     // path tallies are in 1 / this of a spacing

class Emission {
public:
    Emission(const Common& common, const Mesh& mesh, double path, std::int64_t particles, int emitting)
        : common_(common), mesh_(mesh), path_(path), particles_(particles), emitting_(emitting),
          exchange_(open_exchange(common.exchange, {mesh.peers(), work_, common.batch, common.receives})),
          tally_(static_cast<std::size_t>(mesh.cells()), 0)
    {
        if (exchange_ == nullptr) {
            stop("--exchange: legacy, tuned or direct");
        }
        const Site& n = mesh.domains().extent();
        volume_ = static_cast<double>(n[0]) * n[1] * n[2];
    }

    void run()
    {
        for (int step = 0; step < common_.steps; ++step) {
            work_.swap(census_);
            census_.clear();
            for (Particle& p : work_) {
                p.path_left = path_;
            }
            if (step < emitting_) {
                emit(step);
            }
            run_step(*exchange_, work_, common_.poll, [this](Particle& p) { track(p); });
        }
    }

    void report(int rank);
    const Exchange& exchange() const { return *exchange_; }

private:
    // As many in a cell as its volume says; the fraction decides by a hash of the cell.
    void emit(int step)
    {
        const In in(Phase::track);
        for (int c = 0; c < mesh_.cells(); ++c) {
            const std::uint64_t seed = key_of(static_cast<std::uint64_t>(common_.seed), step, mesh_.first() + c);
            const double wanted = static_cast<double>(particles_) * mesh_.cell(c).volume / volume_;
            const auto count = static_cast<std::int64_t>(wanted + unit(seed));
            for (std::int64_t n = 0; n < count; ++n) {
                Particle p{};
                p.key = key_of(seed, n);
                p.energy = p.energy_at_birth = kEnergy;
                mesh_.place(p, c);
                p.turn_anywhere();
                p.path_left = path_ * p.draw(); // emitted at any time of the step
                work_.push_back(p);
            }
            emitted_ += count;
        }
    }

    void track(Particle& p)
    {
        int c = static_cast<int>(p.cell - mesh_.first());
        for (;;) {
            ++events_;
            if (common_.work > 0) {
                p.drawn += static_cast<std::uint32_t>(extra_work(common_.work, p.path_left) * 16) & 1U;
            }
            const Mesh::Exit exit = mesh_.exit(c, p.position, p.direction);
            const double path = std::min(exit.path, p.path_left);
            tally_[static_cast<std::size_t>(c)] += std::llround(path * kPathUnits);
            p.position = along(p.position, path, p.direction);
            p.path_left -= path;
            if (p.path_left <= 0) {
                p.cell = static_cast<std::uint32_t>(mesh_.first() + c);
                census_.push_back(p);
                return;
            }
            const Mesh::Face& face = mesh_.face(exit.face);
            if (face.to >= 0) {
                c = face.to;
            } else if (face.to >= -kWalls) {
                reflect(p, -1 - face.to);
            } else {
                const Mesh::Outside& out = mesh_.outside(face);
                p.cell = out.cell;
                exchange_->push(out.peer, p);
                return;
            }
        }
    }

    void reflect(Particle& p, int wall)
    {
        double& along_axis = p.direction[static_cast<std::size_t>(wall / 2)];
        ++hits_[static_cast<std::size_t>(wall)];
        cosines_ += std::llround(std::fabs(along_axis) * kPathUnits);
        along_axis = -along_axis;
    }

    void report_physics(int rank, const std::vector<std::int64_t>& hits, double cosines, double emitted) const;

    const Common& common_;
    const Mesh& mesh_;
    const double path_;
    const std::int64_t particles_;
    const int emitting_; // steps with emission
    double volume_ = 0;
    std::vector<Particle> work_, census_;
    std::unique_ptr<Exchange> exchange_;
    std::vector<std::int64_t> tally_;
    std::array<std::int64_t, kWalls> hits_{};
    std::int64_t cosines_ = 0, emitted_ = 0, events_ = 0;
};

void Emission::report(int rank)
{
    std::int64_t energy = 0;
    std::uint64_t histories = 0;
    for (const Particle& p : census_) {
        energy += p.energy;
        histories += key_of(p.key, p.drawn, p.cell, std::llround(p.position[0] * kPathUnits));
    }
    std::vector<std::int64_t> sums = {emitted_, static_cast<std::int64_t>(census_.size()), emitted_ * kEnergy, energy,
                                      events_, cosines_, static_cast<std::int64_t>(histories)};
    sums.insert(sums.end(), hits_.begin(), hits_.end());
    sums = sum_all(sums);
    const std::uint64_t tally = checksum(mesh_, tally_);
    if (rank == 0) {
        std::printf("emitted %" PRId64 " census %" PRId64 " energy %" PRId64 " %" PRId64 "\n", sums[0], sums[1],
                    sums[2], sums[3]);
        std::printf("events %" PRId64 " cosines %" PRId64 "\n", sums[4], sums[5]);
        std::printf("checksum tally %016" PRIx64 " history %016" PRIx64 "\n", tally,
                    static_cast<std::uint64_t>(sums[6]));
        std::printf("balance %s\n", sums[0] == sums[1] && sums[2] == sums[3] ? "exact" : "BROKEN");
    }
    report_physics(rank, {sums.begin() + 7, sums.end()}, static_cast<double>(sums[5]), static_cast<double>(sums[0]));
}

// Against the known answer: in step s of those with emission the density is (s + 1/2) of
// what a step emits, on average over its time. These lines are sums of doubles in the order of ranks: with
// another number of ranks their last digits may differ, and are not printed.
void Emission::report_physics(int rank, const std::vector<std::int64_t>& hits, double cosines, double emitted) const
{
    const double steps = 0.5 * emitting_ * emitting_ + static_cast<double>(emitting_) * (common_.steps - emitting_);
    const double density = emitted / emitting_ / volume_ * steps * path_; // path in a unit of volume
    double square = 0;
    for (int c = 0; c < mesh_.cells(); ++c) {
        const double expected = density * mesh_.cell(c).volume;
        const double off = static_cast<double>(tally_[static_cast<std::size_t>(c)]) / kPathUnits / expected - 1;
        square += off * off;
    }
    double all = 0;
    MPI_Reduce(&square, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank != 0) {
        return;
    }
    std::printf("density deviates by %.4f rms over %" PRId64 " cells\n",
                std::sqrt(all / static_cast<double>(mesh_.domains().cells())), mesh_.domains().cells());
    double count = 0;
    for (std::size_t w = 0; w < kWalls; ++w) {
        const double area = volume_ / mesh_.domains().extent()[w / 2];
        std::printf("wall %zu flux over expected %.4f\n", w, static_cast<double>(hits[w]) / (density * area / 4));
        count += static_cast<double>(hits[w]);
    }
    std::printf("mean cosine at walls %.4f expected 0.6667\n", cosines / kPathUnits / std::max(count, 1.0));
}

int main(int argc, char** argv)
{
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Common common;
    double path = 4; // of a step, in lattice spacings
    double jitter = 0.8;
    int emitting = 1 << 30;
    CommandLine line;
    common.add_to(line);
    line.add("path", &path);
    line.add("jitter", &jitter);
    line.add("emit-steps", &emitting);
    // Many looks, little to do between them; and the opposite. README.md says how much of
    // the time is spent in MPI.
    line.setting("comm", {"--cells", "256", "--particles", "4000", "--emit-steps", "1", "--steps", "300", "--path",
                          "0.5", "--receives", "8", "--poll", "1"});
    line.setting("compute", {"--particles", "20000", "--steps", "2", "--path", "8", "--poll", "10", "--work", "64"});
    line.parse(argc, argv);
    common.check();

    const Site n = lattice(common.all_cells(ranks), {1, 1, 1});
    // scaled: the box keeps its size, so P times as many cells make spacings shorter by
    // P^(1/3), and the time step is shorter by P^(4/3).
    path *= common.scale == "scaled" ? 1.0 / ranks : 1;
    const Domains domains(n, ranks);
    if (domains.cells() < ranks) {
        stop("fewer cells than ranks");
    }
    const Box box{.low = {0, 0, 0}, .high = {1.0 * n[0], 1.0 * n[1], 1.0 * n[2]}, .jitter = jitter,
                  .seed = static_cast<std::uint64_t>(common.seed)};
    const Mesh mesh(domains, box, rank);
    Emission emission(common, mesh, path, common.all_particles(ranks),
                      std::clamp(emitting, 1, common.steps));
    if (rank == 0) {
        std::printf("uniform_emission: scale %s cells %d x %d x %d particles %" PRId64 " a step, steps %d path %g\n",
                    common.scale.c_str(), n[0], n[1], n[2], common.all_particles(ranks), common.steps, path);
    }
    Stopwatch watch(common.sample);
    watch.start();
    emission.run();
    watch.stop();
    emission.report(rank);
    watch.report(emission.exchange());
    return 0;
}

} // namespace
} // namespace transport

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    const int status = transport::main(argc, argv);
    MPI_Finalize();
    return status;
}
