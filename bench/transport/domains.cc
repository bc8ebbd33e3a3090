// SPDX-License-Identifier: MIT
#include "domains.hh"

#include <algorithm>

namespace transport {
namespace {

using Axes = std::array<std::uint32_t, 3>;

// The two ways between a place on the curve and a site, after J. Skilling,
// "Programming the Hilbert curve", 2004: the curve's bits, spread over the axes, are
// turned level by level.
void undo_level(Axes& x, std::uint32_t level, std::size_t axis)
{
    const std::uint32_t below = level - 1;
    if ((x[axis] & level) != 0) {
        x[0] ^= below;
    } else {
        const std::uint32_t swap = (x[0] ^ x[axis]) & below;
        x[0] ^= swap;
        x[axis] ^= swap;
    }
}

Axes site_at(std::uint64_t place, int bits)
{
    Axes x{};
    for (int b = 0; b < bits; ++b) {
        for (std::size_t axis = 0; axis < 3; ++axis) {
            x[axis] |= static_cast<std::uint32_t>(place >> (3 * b + 2 - static_cast<int>(axis)) & 1U) << b;
        }
    }
    const std::uint32_t last = x[2] >> 1;
    x[2] ^= x[1];
    x[1] ^= x[0];
    x[0] ^= last;
    for (std::uint32_t level = 2; level != 2U << (bits - 1); level <<= 1) {
        for (std::size_t axis = 3; axis-- > 0;) {
            undo_level(x, level, axis);
        }
    }
    return x;
}

std::uint64_t place_of(Axes x, int bits)
{
    const std::uint32_t top = 1U << (bits - 1);
    for (std::uint32_t level = top; level > 1; level >>= 1) {
        for (std::size_t axis = 0; axis < 3; ++axis) {
            undo_level(x, level, axis);
        }
    }
    x[1] ^= x[0];
    x[2] ^= x[1];
    std::uint32_t last = 0;
    for (std::uint32_t level = top; level > 1; level >>= 1) {
        last ^= (x[2] & level) != 0 ? level - 1 : 0;
    }
    std::uint64_t place = 0;
    for (int b = bits; b-- > 0;) {
        for (std::size_t axis = 0; axis < 3; ++axis) {
            place = place << 1 | ((x[axis] ^ last) >> b & 1U);
        }
    }
    return place;
}

} // namespace

Domains::Domains(const Site& extent, int ranks)
    : extent_(extent), ranks_(ranks),
      cells_(std::int64_t{extent[0]} * extent[1] * extent[2])
{
    while (1 << bits_ < *std::max_element(extent.begin(), extent.end())) {
        ++bits_;
    }
}

int Domains::owner(std::int64_t number) const
{
    int rank = static_cast<int>(number * ranks_ / cells_);
    while (first(rank + 1) <= number) {
        ++rank;
    }
    while (first(rank) > number) {
        --rank;
    }
    return rank;
}

// Sites of the lattice in the cube whose places on the curve begin with `prefix`, of
// `levels` levels: the curve visits such a cube whole before it leaves it.
std::int64_t Domains::cells_under(std::uint64_t prefix, int levels) const
{
    const int below = bits_ - levels;
    const Axes inside = site_at(prefix << (3 * below), bits_);
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis < 3; ++axis) {
        const int low = static_cast<int>(inside[axis] >> below << below);
        count *= std::max(0, std::min(low + (1 << below), extent_[axis]) - low);
    }
    return count;
}

std::int64_t Domains::number(const Site& site) const
{
    const std::uint64_t place = place_of({static_cast<std::uint32_t>(site[0]), static_cast<std::uint32_t>(site[1]),
                                          static_cast<std::uint32_t>(site[2])},
                                         bits_);
    std::int64_t before = 0;
    for (int levels = 1; levels <= bits_; ++levels) {
        const std::uint64_t mine = place >> (3 * (bits_ - levels));
        for (std::uint64_t other = mine & ~std::uint64_t{7}; other < mine; ++other) {
            before += cells_under(other, levels);
        }
    }
    return before;
}

Site Domains::site(std::int64_t number) const
{
    std::uint64_t prefix = 0;
    for (int levels = 1; levels <= bits_; ++levels) {
        prefix <<= 3;
        for (std::int64_t here; (here = cells_under(prefix, levels)) <= number; ++prefix) {
            number -= here;
        }
    }
    const Axes x = site_at(prefix, bits_);
    return {static_cast<int>(x[0]), static_cast<int>(x[1]), static_cast<int>(x[2])};
}

} // namespace transport
