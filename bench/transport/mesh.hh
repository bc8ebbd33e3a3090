// SPDX-License-Identifier: MIT
// The Voronoi mesh of one rank's domain. One generator stands in each cube of a lattice,
// off its middle by a random part of `jitter`, so that every rank can make any generator:
// a cell is made from the generators around it, without communication and bit for bit
// the same on any number of ranks. Outside of the box there is nothing: its six walls
// are faces of the cells at its border.
#pragma once

#include "domains.hh"
#include "particle.hh"

#include <cstdint>
#include <limits>
#include <vector>

namespace transport {

struct Box {
    Vec low{0, 0, 0}, high{1, 1, 1};
    double jitter = 0.8; // of the lattice's spacing, 0 to 1
    std::uint64_t seed = 1;
};

constexpr int kWalls = 6; // wall 2a is the low one of axis a, 2a + 1 the high one

class Mesh {
public:
    // Points with normal . x < offset are inside.
    struct Face {
        Vec normal;
        double offset;
        int to; // a cell of this rank; or -1 - wall; or -1 - kWalls - index in `outside`
    };
    struct Outside {
        int peer; // index in `peers`
        std::uint32_t cell;
    };
    // A border face, as the polygon of its corners.
    struct WallFace {
        int cell, wall;
        double area;
        std::vector<Vec> corners;
    };
    struct Cell {
        Vec generator, low, high; // low, high: of the box around it
        double volume;
    };
    struct Exit {
        double path = std::numeric_limits<double>::infinity();
        int face = -1;
    };

    Mesh(const Domains& domains, const Box& box, int rank);

    const Domains& domains() const { return domains_; }
    std::int64_t first() const { return first_; }
    int cells() const { return static_cast<int>(cells_.size()); }
    const Cell& cell(int c) const { return cells_[static_cast<std::size_t>(c)]; }
    const Face& face(int f) const { return faces_[static_cast<std::size_t>(f)]; }
    const Outside& outside(const Face& face) const
    {
        return outside_[static_cast<std::size_t>(-1 - kWalls - face.to)];
    }
    const std::vector<int>& peers() const { return peers_; } // ranks with a cell beside ours
    const std::vector<WallFace>& walls() const { return walls_; }

    // Where a flight from `x` leaves cell `c`.
    Exit exit(int c, const Vec& x, const Vec& direction) const
    {
        Exit found;
        const int end = begin_[static_cast<std::size_t>(c) + 1];
        for (int f = begin_[static_cast<std::size_t>(c)]; f < end; ++f) {
            const Face& face = faces_[static_cast<std::size_t>(f)];
            const double speed = dot(face.normal, direction);
            // without a branch on which half of the faces lies ahead: nobody can predict it
            const double ahead = (face.offset - dot(face.normal, x)) / speed;
            const double path = speed > 0 ? ahead : std::numeric_limits<double>::infinity();
            found.face = path < found.path ? f : found.face;
            found.path = path < found.path ? path : found.path;
        }
        found.path = found.path > 0 ? found.path : 0;
        return found;
    }

    bool inside(int c, const Vec& x) const;
    void place(Particle& p, int c) const;                 // anywhere in the cell
    static void place(Particle& p, const WallFace& face); // anywhere on a wall
    Vec generator(const Site& site) const;

private:
    class Maker;

    const Domains& domains_;
    const Box box_;
    Vec spacing_{};
    std::int64_t first_;
    std::vector<Cell> cells_;
    std::vector<int> begin_{0};
    std::vector<Face> faces_;
    std::vector<Outside> outside_;
    std::vector<int> peers_;
    std::vector<WallFace> walls_;
};

} // namespace transport
