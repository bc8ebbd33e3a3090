// SPDX-License-Identifier: MIT
// hohlraum: implicit Monte Carlo of thermal radiation in a cylindrical hohlraum, and the
// two problems with known answers that its physics is tested by. An ordinary MPI program,
// but for --exchange direct. All lines but those that begin with "time:" are the same to
// the last digit for any exchange, any order of arrival and any number of ranks (with
// --scale strong); the profile's sums of doubles are printed with fewer digits than they
// can differ in.
//
//   hohlraum   a bore of 0.65 cm radius and 1.4 cm length, open to a black body of 1 keV
//              at one end, filled with a thin material, with a block of the wall's
//              material in the middle; wall: 300 T^-3 / cm, 0.3 GJ / (cm^3 keV)
//   su-olson   B. Su and G. L. Olson, Ann. Nucl. Energy 24, 1997: a source in the first
//              half mean free path of cold matter with a heat capacity that grows as T^3
//   marshak    a wave into cold matter of 300 T^-3 / cm behind a surface of 1 keV
#include "transport/imc.hh"

#include <cinttypes>
#include <cstdio>

namespace transport {
namespace {

using imc::kLight;
using imc::kRadiation;
using imc::Problem;
using imc::Simulation;
using imc::Wall;

Problem hohlraum(double dt)
{
    constexpr double kBore = 0.65, kLength = 1.6, kHalf = 0.8, kEnd = 1.4;
    Problem p;
    p.box.low = {-kHalf, -kHalf, 0};
    p.box.high = {kHalf, kHalf, kLength};
    p.materials = {{.opacity = 300, .opacity_power = 3, .heat_capacity = 0.3, .temperature = 0.05},
                   {.opacity = 0.2, .opacity_power = 0, .heat_capacity = 0.003, .temperature = 0.05}};
    p.material_at = [](const Vec& x) -> std::size_t {
        const double r2 = x[0] * x[0] + x[1] * x[1];
        const bool block = r2 < 0.3 * 0.3 && x[2] > 0.6 && x[2] < 0.9;
        return r2 < kBore * kBore && x[2] < kEnd && !block ? 1 : 0;
    };
    p.surface = [](int wall, const Vec& x) {
        return wall == 4 && x[0] * x[0] + x[1] * x[1] < kBore * kBore ? 1.0 : 0.0;
    };
    p.dt = dt;
    p.energy_scale = 16;
    return p;
}

// Lengths in mean free paths and times in mean free times: sigma = 1, c dt = dtau.
Problem su_olson(double dt, double length)
{
    Problem p;
    p.box = {.low = {0, 0, 0}, .high = {length, 1, 1}, .jitter = 0, .seed = 1};
    p.cells_like = {1, 1e-9, 1e-9};
    p.walls.fill(Wall::reflecting);
    p.walls[1] = Wall::open;
    p.materials = {{.opacity = 1, .opacity_power = 0, .heat_capacity = 4 * kRadiation, .cubic = true}};
    p.source_power = kRadiation * kLight;
    p.source_ends = 10 / kLight - 1e-9;
    p.source_part = [](const Vec& low, const Vec& high) {
        return high[0] <= 0.5 ? 1.0 : low[0] >= 0.5 ? 0.0 : (0.5 - low[0]) / (high[0] - low[0]);
    };
    p.dt = dt / kLight;
    p.energy_scale = kRadiation * 16;
    return p;
}

Problem marshak(double dt, double length)
{
    Problem p;
    p.box = {.low = {0, 0, 0}, .high = {length, 1, 1}, .jitter = 0, .seed = 1};
    p.cells_like = {1, 1e-9, 1e-9};
    p.walls.fill(Wall::reflecting);
    p.walls[0] = p.walls[1] = Wall::open;
    p.materials = {{.opacity = 300, .opacity_power = 3, .heat_capacity = 0.3, .temperature = 0.01}};
    p.surface = [](int wall, const Vec&) { return wall == 0 ? 1.0 : 0.0; };
    p.dt = dt;
    p.energy_scale = 1024; // the surface emits far more than matter keeps
    return p;
}

// Mean over the cells of each layer of the lattice along an axis.
void print_profile(const Mesh& mesh, const Simulation& sim, std::size_t axis, const Box& box, int rank)
{
    const auto layers = static_cast<std::size_t>(mesh.domains().extent()[axis]);
    const double width = (box.high[axis] - box.low[axis]) / static_cast<double>(layers);
    std::vector<double> here(3 * layers, 0.0), all(3 * layers);
    for (int c = 0; c < mesh.cells(); ++c) {
        const auto layer = static_cast<std::size_t>((mesh.cell(c).generator[axis] - box.low[axis]) / width);
        const double volume = mesh.cell(c).volume;
        here[3 * layer] += volume;
        here[3 * layer + 1] += volume * sim.radiation_density(c);
        here[3 * layer + 2] += volume * sim.temperature(c);
    }
    MPI_Reduce(here.data(), all.data(), static_cast<int>(all.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < layers && rank == 0; ++i) {
        std::printf("profile %.6g radiation %.6g temperature %.6g\n",
                    box.low[axis] + (static_cast<double>(i) + 0.5) * width, all[3 * i + 1] / all[3 * i],
                    all[3 * i + 2] / all[3 * i]);
    }
}

void report(const Simulation& sim, int rank)
{
    const imc::Totals t = sim.totals();
    const std::uint64_t state = sim.state_checksum();
    if (rank != 0) {
        return;
    }
    std::printf("matter %" PRId64 " radiation %" PRId64 " source %" PRId64 " leaked %" PRId64 "\n", t.matter,
                t.radiation, t.source, t.leaked);
    std::printf("packets %" PRId64 " events %" PRId64 " checksum %016" PRIx64 "\n", t.packets, t.events, state);
    std::printf("balance %s\n",
                t.initial + t.source == t.matter + t.radiation + t.leaked ? "exact" : "BROKEN");
}

int main(int argc, char** argv)
{
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Common common;
    std::string name = "hohlraum";
    double dt = 0; // ns; su-olson: mean free times
    double length = 0;
    int census = 0;
    bool profile = false;
    CommandLine line;
    common.add_to(line);
    line.add("problem", &name);
    line.add("dt", &dt);
    line.add("length", &length);
    line.add("census", &census);
    line.add("profile", &profile);
    // Many looks, little to do between them; and the opposite. README.md says how much of
    // the time is spent in MPI.
    line.setting("comm", {"--cells", "256", "--particles", "2000", "--steps", "200", "--dt", "0.0003",
                          "--receives", "16", "--batch", "48", "--poll", "1"});
    line.setting("compute", {"--cells", "2048", "--particles", "20000", "--steps", "4", "--dt", "0.003", "--poll", "10",
                             "--work", "64"});
    line.parse(argc, argv);
    common.check();

    Problem problem = name == "su-olson"  ? su_olson(dt > 0 ? dt : 0.05, length > 0 ? length : 4)
                      : name == "marshak" ? marshak(dt > 0 ? dt : 0.01, length > 0 ? length : 0.2)
                                          : hohlraum(dt > 0 ? dt : 0.001);
    if (name != "hohlraum" && name != "su-olson" && name != "marshak") {
        stop("--problem: hohlraum, su-olson or marshak");
    }
    problem.dt *= common.scale == "scaled" ? std::pow(ranks, -4.0 / 3) : 1;
    problem.census_max = census > 0 ? census : problem.census_max;
    const Domains domains(lattice(common.all_cells(ranks), problem.cells_like), ranks);
    if (domains.cells() < ranks) {
        stop("fewer cells than ranks");
    }
    const Mesh mesh(domains, problem.box, rank);
    const Site& n = domains.extent();
    if (rank == 0) {
        std::printf("%s: scale %s cells %d x %d x %d packets %" PRId64 " a step, steps %d of %g ns\n", name.c_str(),
                    common.scale.c_str(), n[0], n[1], n[2], common.all_particles(ranks), common.steps, problem.dt);
    }
    Simulation sim(common, problem, mesh, common.all_particles(ranks));
    Stopwatch watch(common.sample);
    watch.start();
    for (int step = 0; step < common.steps; ++step) {
        sim.step();
    }
    watch.stop();
    report(sim, rank);
    if (profile) {
        print_profile(mesh, sim, name == "hohlraum" ? 2 : 0, problem.box, rank);
    }
    watch.report(sim.exchange());
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
