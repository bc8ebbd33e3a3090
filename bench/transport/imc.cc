// SPDX-License-Identifier: MIT
#include "imc.hh"

#include <algorithm>
#include <cmath>

namespace transport::imc {
namespace {

constexpr double kQuanta = 0x1p52;      // of Problem::energy_scale
constexpr int kCutoffShift = 7;         // packets below 1 / 128 of their birth energy end
enum Kind : int { thermal, volume, surface }; // why a packet was emitted

std::int64_t quanta(double energy, double quantum)
{
    return std::llround(energy / quantum);
}

} // namespace

Simulation::Simulation(const Common& common, const Problem& problem, const Mesh& mesh, std::int64_t packets)
    : common_(common), problem_(problem), mesh_(mesh), packets_(packets),
      quantum_(problem.energy_scale / kQuanta),
      exchange_(open_exchange(common.exchange, {mesh.peers(), work_, common.batch, common.receives}))
{
    if (exchange_ == nullptr) {
        stop("--exchange: legacy, tuned or direct");
    }
    for (int c = 0; c < mesh.cells(); ++c) {
        const Mesh::Cell& place = mesh.cell(c);
        const Material& m = problem.materials[problem.material_at(place.generator)];
        const std::int64_t energy = quanta(m.energy(m.temperature) * place.volume, quantum_);
        cells_.push_back({.material = &m, .energy = energy, .absorbed = 0, .radiation = 0, .absorption = 0,
                          .scattering = 0, .source_part = problem.source_part(place.low, place.high)});
        initial_ += energy;
    }
    for (const Mesh::WallFace& face : mesh.walls()) {
        Vec middle{};
        for (const Vec& corner : face.corners) {
            middle = along(middle, 1.0 / static_cast<double>(face.corners.size()), corner);
        }
        surface_.push_back(problem.surface(face.wall, middle));
    }
}

double Simulation::matter_density(int c) const
{
    return static_cast<double>(cells_[static_cast<std::size_t>(c)].energy) * quantum_ / mesh_.cell(c).volume;
}

double Simulation::temperature(int c) const
{
    return cells_[static_cast<std::size_t>(c)].material->temperature_of(matter_density(c));
}

double Simulation::radiation_density(int c) const
{
    return static_cast<double>(cells_[static_cast<std::size_t>(c)].radiation) * quantum_ / mesh_.cell(c).volume;
}

void Simulation::step()
{
    {
        const In in(Phase::track);
        begin_step();
        emit();
    }
    run_step(*exchange_, work_, common_.poll, [this](Particle& p) { track(p); });
    const In in(Phase::track);
    for (Cell& c : cells_) {
        c.energy += c.absorbed;
    }
    comb_census();
    ++step_;
}

// Opacities of the step, from the temperatures at its beginning.
void Simulation::begin_step()
{
    for (int c = 0; c < mesh_.cells(); ++c) {
        Cell& here = cell(c);
        const double t = temperature(c);
        const double sigma = t > 0 || here.material->opacity_power == 0 ? here.material->sigma(t) : 0;
        const double heat = here.material->heat(t);
        // 4 a T^3 / c_v, also where both are 0
        const double beta = here.material->cubic ? 4 * kRadiation / here.material->heat_capacity
                                                 : 4 * kRadiation * t * t * t / heat;
        const double f = 1 / (1 + beta * kLight * sigma * problem_.dt);
        here.absorption = f * sigma;
        here.scattering = (1 - f) * sigma;
        here.absorbed = 0;
        here.radiation = 0;
    }
    work_.swap(census_);
    census_.clear();
    for (Particle& p : work_) {
        p.path_left = kLight * problem_.dt;
    }
}

// Packets in proportion to the energy that is emitted, at least one wherever there is any.
void Simulation::emit()
{
    std::vector<std::int64_t> thermal_energy(cells_.size()), volume_energy(cells_.size());
    std::vector<std::int64_t> surface_energy(surface_.size());
    std::int64_t here = 0;
    const bool source_on = time() < problem_.source_ends;
    for (int c = 0; c < mesh_.cells(); ++c) {
        const auto i = static_cast<std::size_t>(c);
        const double t = temperature(c);
        const double volume_dt = mesh_.cell(c).volume * problem_.dt;
        const double emitted = cell(c).absorption * kLight * kRadiation * t * t * t * t * volume_dt;
        thermal_energy[i] = std::min(quanta(emitted, quantum_), cell(c).energy);
        cell(c).energy -= thermal_energy[i];
        volume_energy[i] =
            source_on ? quanta(problem_.source_power * cell(c).source_part * volume_dt, quantum_) : 0;
        here += thermal_energy[i] + volume_energy[i];
        source_ += volume_energy[i];
    }
    for (std::size_t f = 0; f < surface_.size(); ++f) {
        const double t = surface_[f];
        const double power = kRadiation * kLight / 4 * t * t * t * t * mesh_.walls()[f].area;
        surface_energy[f] = quanta(power * problem_.dt, quantum_);
        here += surface_energy[f];
        source_ += surface_energy[f];
    }
    const double all = static_cast<double>(sum_all({here})[0]);
    const auto count = [&](std::int64_t energy) {
        const double share = static_cast<double>(energy) / all * static_cast<double>(packets_);
        return std::max<std::int64_t>(1, std::llround(share));
    };
    for (int c = 0; c < mesh_.cells(); ++c) {
        const auto i = static_cast<std::size_t>(c);
        emit_packets(thermal_energy[i], count(thermal_energy[i]), c, thermal, -1);
        emit_packets(volume_energy[i], count(volume_energy[i]), c, volume, -1);
    }
    for (std::size_t f = 0; f < surface_.size(); ++f) {
        emit_packets(surface_energy[f], count(surface_energy[f]), mesh_.walls()[f].cell, surface, static_cast<int>(f));
    }
}

// The energy in equal packets; what does not divide goes to the first ones.
void Simulation::emit_packets(std::int64_t energy, std::int64_t count, int c, int kind, int wall_face)
{
    count = std::min(count, energy);
    const int wall = wall_face < 0 ? -1 : mesh_.walls()[static_cast<std::size_t>(wall_face)].wall;
    const std::uint64_t seed = key_of(static_cast<std::uint64_t>(common_.seed), step_, mesh_.first() + c, kind, wall);
    for (std::int64_t n = 0; n < count; ++n) {
        Particle p{};
        p.key = key_of(seed, n);
        p.energy = p.energy_at_birth = energy / count + (n < energy % count ? 1 : 0);
        p.cell = static_cast<std::uint32_t>(mesh_.first() + c);
        if (wall < 0) {
            do {
                mesh_.place(p, c);
            } while (kind == volume && problem_.source_part(p.position, p.position) == 0);
            p.turn_anywhere();
        } else {
            // inwards, as often as the cosine says
            Mesh::place(p, mesh_.walls()[static_cast<std::size_t>(wall_face)]);
            const auto axis = static_cast<std::size_t>(wall / 2);
            const double mu = std::sqrt(p.draw());
            const double phi = 6.283185307179586 * p.draw();
            const double r = std::sqrt(1 - mu * mu);
            p.direction[axis] = wall % 2 == 0 ? mu : -mu;
            p.direction[(axis + 1) % 3] = r * std::cos(phi);
            p.direction[(axis + 2) % 3] = r * std::sin(phi);
        }
        p.path_left = kLight * problem_.dt * p.draw();
        work_.push_back(p);
    }
}

// Along `path` the packet loses energy continuously; the cell sees its mean energy for as
// long as it flies.
void Simulation::absorb(Particle& p, Cell& here, double path)
{
    const double depth = here.absorption * path;
    const double part = -std::expm1(-depth);
    const auto energy = static_cast<double>(p.energy);
    const double mean = depth > 1e-8 ? part / depth : 1;
    here.radiation += std::llround(energy * mean * path / (kLight * problem_.dt));
    const auto lost = std::min(static_cast<std::int64_t>(energy * part), p.energy);
    p.energy -= lost;
    here.absorbed += lost;
}

void Simulation::track(Particle& p)
{
    int c = static_cast<int>(p.cell - mesh_.first());
    for (;;) {
        Cell& here = cell(c);
        ++events_;
        if (common_.work > 0) {
            p.drawn += static_cast<std::uint32_t>(extra_work(common_.work, p.path_left) * 16) & 1U;
        }
        const Mesh::Exit exit = mesh_.exit(c, p.position, p.direction);
        const double to_collision = here.scattering > 0 ? -std::log(p.draw()) / here.scattering
                                                        : std::numeric_limits<double>::infinity();
        const double path = std::min({exit.path, to_collision, p.path_left});
        absorb(p, here, path);
        p.position = along(p.position, path, p.direction);
        p.path_left -= path;
        if (p.energy <= p.energy_at_birth >> kCutoffShift) {
            here.absorbed += p.energy;
            return;
        }
        if (p.path_left <= 0) {
            p.cell = static_cast<std::uint32_t>(mesh_.first() + c);
            census_.push_back(p);
            return;
        }
        if (path == to_collision) {
            p.turn_anywhere();
            continue;
        }
        const Mesh::Face& face = mesh_.face(exit.face);
        if (face.to >= 0) {
            c = face.to;
        } else if (face.to < -kWalls) {
            const Mesh::Outside& out = mesh_.outside(face);
            p.cell = out.cell;
            exchange_->push(out.peer, p);
            return;
        } else if (problem_.walls[static_cast<std::size_t>(-1 - face.to)] == Wall::reflecting) {
            double& axis = p.direction[static_cast<std::size_t>((-1 - face.to) / 2)];
            axis = -axis;
        } else {
            leaked_ += p.energy;
            return;
        }
    }
}

// Cells with too many packets are combed: fewer packets of equal energy, chosen in
// proportion to their energy, with the same sum to the last quantum. The order in which
// they arrived does not matter: they are sorted by their keys.
void Simulation::comb_census()
{
    std::vector<int> in_cell(cells_.size(), 0);
    bool too_many = false;
    for (const Particle& p : census_) {
        too_many = ++in_cell[static_cast<std::size_t>(p.cell - mesh_.first())] > problem_.census_max || too_many;
    }
    if (!too_many) {
        return;
    }
    std::sort(census_.begin(), census_.end(), [](const Particle& a, const Particle& b) {
        return a.cell != b.cell ? a.cell < b.cell : a.key < b.key;
    });
    std::vector<Particle> kept, group;
    kept.reserve(census_.size());
    for (std::size_t begin = 0; begin < census_.size();) {
        std::size_t end = begin;
        while (end < census_.size() && census_[end].cell == census_[begin].cell) {
            ++end;
        }
        group.assign(census_.begin() + static_cast<std::ptrdiff_t>(begin),
                     census_.begin() + static_cast<std::ptrdiff_t>(end));
        if (group.size() > static_cast<std::size_t>(problem_.census_max)) {
            comb(group);
        }
        kept.insert(kept.end(), group.begin(), group.end());
        begin = end;
    }
    census_.swap(kept);
}

void Simulation::comb(std::vector<Particle>& group)
{
    std::int64_t energy = 0;
    for (const Particle& p : group) {
        energy += p.energy;
    }
    const std::int64_t teeth = std::min<std::int64_t>(problem_.census_max, energy);
    const double spacing = static_cast<double>(energy) / static_cast<double>(teeth);
    const double offset = unit(key_of(static_cast<std::uint64_t>(common_.seed), step_, group.front().cell, -1));
    std::vector<Particle> chosen;
    double passed = 0;
    std::int64_t tooth = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
        passed += static_cast<double>(group[i].energy);
        const bool last = i + 1 == group.size();
        for (std::int64_t copy = 0; tooth < teeth && (last || (static_cast<double>(tooth) + offset) * spacing < passed);
             ++copy, ++tooth) {
            Particle p = group[i];
            p.energy = p.energy_at_birth = energy / teeth + (tooth < energy % teeth ? 1 : 0);
            p.key = copy == 0 ? p.key : key_of(p.key, copy, step_);
            chosen.push_back(p);
        }
    }
    group.swap(chosen);
}

Totals Simulation::totals() const
{
    std::int64_t matter = 0, radiation = 0;
    for (const Cell& c : cells_) {
        matter += c.energy;
    }
    for (const Particle& p : census_) {
        radiation += p.energy;
    }
    const auto all = sum_all({matter, radiation, source_, leaked_, initial_,
                              static_cast<std::int64_t>(census_.size()), events_});
    return {all[0], all[1], all[2], all[3], all[4], all[5], all[6]};
}

std::uint64_t Simulation::state_checksum() const
{
    std::vector<std::int64_t> both;
    for (const Cell& c : cells_) {
        both.push_back(static_cast<std::int64_t>(key_of(static_cast<std::uint64_t>(c.energy), c.radiation)));
    }
    return checksum(mesh_, both);
}

} // namespace transport::imc
