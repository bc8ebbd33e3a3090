// SPDX-License-Identifier: MIT
// Implicit Monte Carlo for grey thermal radiation (J. A. Fleck and J. D. Cummings, J. Comp.
// Phys. 8, 1971): in a time step a cell absorbs and emits with the part f of its opacity
// and scatters with the rest, which stands for absorption and emission within the step:
//
//   f = 1 / (1 + beta c sigma dt),  beta = 4 a T^3 / c_v
//
// Units: cm, ns, keV, GJ. Energy of matter, of packets and in tallies is counted in
// integer quanta, so that every sum is exact, whatever its order: energy is conserved to
// the last quantum, and a run gives the same digits with any exchange, any order of
// arrival and any number of ranks.
#pragma once

#include "run.hh"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace transport::imc {

constexpr double kLight = 29.9792458;      // cm / ns
constexpr double kRadiation = 0.013720172; // GJ / (cm^3 keV^4)

struct Material {
    double opacity = 1;         // sigma at 1 keV, 1 / cm
    double opacity_power = 0;   // sigma falls with T to this power
    double heat_capacity = 0.3; // GJ / (cm^3 keV); with `cubic` at 1 keV, growing as T^3
    bool cubic = false;
    double temperature = 0; // at the beginning

    double sigma(double t) const { return opacity_power == 0 ? opacity : opacity * std::pow(t, -opacity_power); }
    double energy(double t) const { return cubic ? heat_capacity / 4 * t * t * t * t : heat_capacity * t; }
    double temperature_of(double energy) const
    {
        return cubic ? std::sqrt(std::sqrt(4 * energy / heat_capacity)) : energy / heat_capacity;
    }
    double heat(double t) const { return cubic ? heat_capacity * t * t * t : heat_capacity; }
};

enum class Wall : std::uint8_t { reflecting, open };

struct Problem {
    Box box;
    Vec cells_like{1, 1, 1}; // edges that the lattice is made for
    std::array<Wall, kWalls> walls{Wall::open, Wall::open, Wall::open, Wall::open, Wall::open, Wall::open};
    std::vector<Material> materials;
    std::function<std::size_t(const Vec&)> material_at = [](const Vec&) { return 0; };
    // black-body surface: the temperature of a wall's point, 0 for none
    std::function<double(int wall, const Vec&)> surface = [](int, const Vec&) { return 0.0; };
    // the part of a cell's volume that is a source, and its power in GJ / (cm^3 ns)
    std::function<double(const Vec& low, const Vec& high)> source_part = [](const Vec&, const Vec&) { return 0.0; };
    double source_power = 0, source_ends = 0;
    double dt = 0.01;
    double energy_scale = 1; // of the whole problem, GJ: what 2^52 quanta are
    int census_max = 100;    // packets of a cell that go on into the next step
};

struct Totals {
    std::int64_t matter, radiation, source, leaked, initial, packets, events;
};

class Simulation {
public:
    Simulation(const Common& common, const Problem& problem, const Mesh& mesh, std::int64_t packets);

    void step();
    double time() const { return step_ * problem_.dt; }
    Totals totals() const; // collective
    std::uint64_t state_checksum() const;
    const Exchange& exchange() const { return *exchange_; }

    // What is shown of a cell.
    double temperature(int c) const;
    double matter_density(int c) const;    // GJ / cm^3
    double radiation_density(int c) const; // mean of the last step

private:
    struct Cell {
        const Material* material;
        std::int64_t energy;    // of matter
        std::int64_t absorbed;  // in this step
        std::int64_t radiation; // of packets, mean over this step
        double absorption, scattering;
        double source_part;
    };

    Cell& cell(int c) { return cells_[static_cast<std::size_t>(c)]; }
    void begin_step();
    void emit();
    void emit_packets(std::int64_t energy, std::int64_t count, int c, int kind, int wall_face);
    void track(Particle& p);
    void absorb(Particle& p, Cell& here, double path);
    void comb_census();
    void comb(std::vector<Particle>& group);

    const Common& common_;
    const Problem& problem_;
    const Mesh& mesh_;
    const std::int64_t packets_; // made in a step by all ranks
    const double quantum_;       // GJ
    std::vector<Cell> cells_;
    std::vector<double> surface_; // by border face
    std::vector<Particle> work_, census_;
    std::unique_ptr<Exchange> exchange_;
    int step_ = 0;
    std::int64_t initial_ = 0, source_ = 0, leaked_ = 0, events_ = 0;
};

} // namespace transport::imc
