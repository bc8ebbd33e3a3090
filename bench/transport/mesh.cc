// SPDX-License-Identifier: MIT
#include "mesh.hh"

#include <voro++/voro++.hh>

#define OMPI_SKIP_MPICXX 1 // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cmath>

namespace transport {

// Makes the cells of one rank, one at a time, with voro++'s cell of planes.
class Mesh::Maker {
public:
    Maker(Mesh& mesh, int rank) : mesh_(mesh), rank_(rank) {}

    void make_all()
    {
        const Domains& domains = mesh_.domains_;
        std::vector<char> beside(static_cast<std::size_t>(domains.ranks()), 0);
        for (std::int64_t n = mesh_.first_; n < domains.first(rank_ + 1); ++n) {
            make(n, domains.site(n));
        }
        for (const auto& out : mesh_.outside_) {
            beside[static_cast<std::size_t>(domains.owner(out.cell))] = 1;
        }
        // A face of nearly no area may be seen from one side only: both must know.
        std::vector<char> of_them(beside.size());
        MPI_Alltoall(beside.data(), 1, MPI_CHAR, of_them.data(), 1, MPI_CHAR, MPI_COMM_WORLD);
        std::vector<int> slot(beside.size(), -1);
        for (std::size_t r = 0; r < beside.size(); ++r) {
            if (beside[r] != 0 || of_them[r] != 0) {
                slot[r] = static_cast<int>(mesh_.peers_.size());
                mesh_.peers_.push_back(static_cast<int>(r));
            }
        }
        for (auto& out : mesh_.outside_) {
            out.peer = slot[static_cast<std::size_t>(domains.owner(out.cell))];
        }
    }

private:
    struct Near {
        double distance2;
        Site site;
        Vec to;
    };

    void make(std::int64_t number, const Site& site)
    {
        const Vec g = mesh_.generator(site);
        const Box& box = mesh_.box_;
        voro::voronoicell_neighbor cell;
        cell.init(box.low[0] - g[0], box.high[0] - g[0], box.low[1] - g[1], box.high[1] - g[1],
                  box.low[2] - g[2], box.high[2] - g[2]);
        cut(cell, site, g);
        store(cell, number, g);
    }

    // Shell after shell of the lattice, until no generator further out can cut. voro++
    // keeps corners at twice their distance, so its radius is what a neighbour may have.
    void cut(voro::voronoicell_neighbor& cell, const Site& site, const Vec& g)
    {
        const double spacing = *std::min_element(mesh_.spacing_.begin(), mesh_.spacing_.end());
        sites_.clear();
        for (int shell = 1;; ++shell) {
            const double nearest = (shell - mesh_.box_.jitter) * spacing;
            const int furthest = *std::max_element(mesh_.domains_.extent().begin(), mesh_.domains_.extent().end());
            if (shell >= furthest || (nearest > 0 && nearest * nearest > cell.max_radius_squared())) {
                return;
            }
            gather(site, g, shell);
            for (const Near& n : near_) {
                cell.nplane(n.to[0], n.to[1], n.to[2], n.distance2, static_cast<int>(sites_.size()));
                sites_.push_back(n.site);
            }
        }
    }

    void gather(const Site& site, const Vec& g, int shell)
    {
        near_.clear();
        const Site& extent = mesh_.domains_.extent();
        for (int x = -shell; x <= shell; ++x) {
            for (int y = -shell; y <= shell; ++y) {
                const bool whole = std::abs(x) == shell || std::abs(y) == shell;
                for (int z = -shell; z <= shell; z += whole ? 1 : 2 * shell) {
                    const Site other = {site[0] + x, site[1] + y, site[2] + z};
                    bool in = true;
                    for (std::size_t a = 0; a < 3; ++a) {
                        in = in && other[a] >= 0 && other[a] < extent[a];
                    }
                    if (in) {
                        const Vec to = along(mesh_.generator(other), -1, g);
                        near_.push_back({dot(to, to), other, to});
                    }
                }
            }
        }
        std::stable_sort(near_.begin(), near_.end(),
                         [](const Near& a, const Near& b) { return a.distance2 < b.distance2; });
    }

    void store(voro::voronoicell_neighbor& cell, std::int64_t number, const Vec& g)
    {
        std::vector<int> neighbours, polygons;
        std::vector<double> corners, areas;
        cell.neighbors(neighbours);
        cell.face_areas(areas);
        cell.face_vertices(polygons);
        cell.vertices(g[0], g[1], g[2], corners);
        Cell made{.generator = g, .low = g, .high = g, .volume = cell.volume()};
        for (std::size_t v = 0; v < corners.size(); ++v) {
            made.low[v % 3] = std::min(made.low[v % 3], corners[v]);
            made.high[v % 3] = std::max(made.high[v % 3], corners[v]);
        }
        mesh_.cells_.push_back(made);
        const int here = mesh_.cells() - 1;
        std::size_t at = 0;
        for (std::size_t f = 0; f < neighbours.size(); ++f) {
            const auto length = static_cast<std::size_t>(polygons[at]);
            if (neighbours[f] < 0) {
                wall(here, -1 - neighbours[f], areas[f], corners, polygons.data() + at + 1, length);
            } else {
                between(number, g, sites_[static_cast<std::size_t>(neighbours[f])]);
            }
            at += length + 1;
        }
        mesh_.begin_.push_back(static_cast<int>(mesh_.faces_.size()));
    }

    void wall(int cell, int wall, double area, const std::vector<double>& corners, const int* polygon,
              std::size_t length)
    {
        Face face{.normal = {0, 0, 0}, .offset = 0, .to = -1 - wall};
        const auto axis = static_cast<std::size_t>(wall / 2);
        face.normal[axis] = wall % 2 == 0 ? -1 : 1;
        face.offset = wall % 2 == 0 ? -mesh_.box_.low[axis] : mesh_.box_.high[axis];
        mesh_.faces_.push_back(face);
        WallFace border{.cell = cell, .wall = wall, .area = area, .corners = {}};
        for (std::size_t i = 0; i < length; ++i) {
            const auto v = 3 * static_cast<std::size_t>(polygon[i]);
            border.corners.push_back({corners[v], corners[v + 1], corners[v + 2]});
        }
        mesh_.walls_.push_back(border);
    }

    // The plane halfway, computed alike from both of its sides.
    void between(std::int64_t number, const Vec& g, const Site& site)
    {
        const std::int64_t other = mesh_.domains_.number(site);
        const Vec h = mesh_.generator(site);
        const double sign = number < other ? 1 : -1;
        const Vec& a = number < other ? g : h;
        const Vec& b = number < other ? h : g;
        Vec normal = along(b, -1, a);
        const double length = std::sqrt(dot(normal, normal));
        for (double& n : normal) {
            n /= length;
        }
        const double offset = (dot(normal, a) + dot(normal, b)) / 2;
        Face face{.normal = {sign * normal[0], sign * normal[1], sign * normal[2]}, .offset = sign * offset, .to = 0};
        if (other >= mesh_.first_ && other < mesh_.domains_.first(rank_ + 1)) {
            face.to = static_cast<int>(other - mesh_.first_);
        } else {
            face.to = -1 - kWalls - static_cast<int>(mesh_.outside_.size());
            mesh_.outside_.push_back({.peer = -1, .cell = static_cast<std::uint32_t>(other)});
        }
        mesh_.faces_.push_back(face);
    }

    Mesh& mesh_;
    int rank_;
    std::vector<Near> near_;
    std::vector<Site> sites_; // by the number that voro++ was given
};

Mesh::Mesh(const Domains& domains, const Box& box, int rank)
    : domains_(domains), box_(box), first_(domains.first(rank))
{
    for (std::size_t a = 0; a < 3; ++a) {
        spacing_[a] = (box.high[a] - box.low[a]) / domains.extent()[a];
    }
    Maker(*this, rank).make_all();
}

Vec Mesh::generator(const Site& site) const
{
    Vec g{};
    for (std::size_t a = 0; a < 3; ++a) {
        const double off = box_.jitter * (unit(key_of(box_.seed, site[0], site[1], site[2], a)) - 0.5);
        g[a] = box_.low[a] + spacing_[a] * (site[a] + 0.5 + off);
    }
    return g;
}

bool Mesh::inside(int c, const Vec& x) const
{
    const auto begin = faces_.begin() + begin_[static_cast<std::size_t>(c)];
    const auto end = faces_.begin() + begin_[static_cast<std::size_t>(c) + 1];
    return std::all_of(begin, end, [&](const Face& f) { return dot(f.normal, x) <= f.offset; });
}

void Mesh::place(Particle& p, int c) const
{
    const Cell& here = cell(c);
    do {
        for (std::size_t a = 0; a < 3; ++a) {
            p.position[a] = here.low[a] + p.draw() * (here.high[a] - here.low[a]);
        }
    } while (!inside(c, p.position));
    p.cell = static_cast<std::uint32_t>(first_ + c);
}

// By the triangles of the polygon, each taken as often as its area says.
void Mesh::place(Particle& p, const WallFace& face)
{
    const auto area = [&](std::size_t i) {
        const Vec n = cross(along(face.corners[i], -1, face.corners[0]),
                            along(face.corners[i + 1], -1, face.corners[0]));
        return std::sqrt(dot(n, n)) / 2;
    };
    double left = p.draw() * face.area;
    std::size_t i = 1;
    while (i + 2 < face.corners.size() && left > area(i)) {
        left -= area(i++);
    }
    double u = p.draw();
    double v = p.draw();
    if (u + v > 1) {
        u = 1 - u;
        v = 1 - v;
    }
    p.position = along(along(face.corners[0], u, along(face.corners[i], -1, face.corners[0])), v,
                       along(face.corners[i + 1], -1, face.corners[0]));
}

} // namespace transport
