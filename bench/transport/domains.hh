// SPDX-License-Identifier: MIT
// Which rank owns which cell. The cells stand on the sites of a lattice, a Hilbert curve
// runs through them, and each rank owns one piece of the curve: a compact domain, equal
// in cells to within one. A cell's number is its place on the curve, so owner and local
// index are arithmetic; nobody holds a table of all cells.
#pragma once

#include <array>
#include <cstdint>

namespace transport {

using Site = std::array<int, 3>;

class Domains {
public:
    Domains(const Site& extent, int ranks);

    const Site& extent() const { return extent_; }
    std::int64_t cells() const { return cells_; }
    int ranks() const { return ranks_; }

    // The first number that `rank` owns; that of `ranks` is the number of cells.
    std::int64_t first(int rank) const { return cells_ * rank / ranks_; }
    int owner(std::int64_t number) const;

    std::int64_t number(const Site& site) const;
    Site site(std::int64_t number) const;

private:
    std::int64_t cells_under(std::uint64_t prefix, int levels) const;

    Site extent_;
    int ranks_;
    int bits_ = 1; // of the smallest power of two that holds the lattice
    std::int64_t cells_;
};

} // namespace transport
