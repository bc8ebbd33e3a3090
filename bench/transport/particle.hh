// SPDX-License-Identifier: MIT
// What is tracked and sent: a packet of radiation. The record goes over the wire as its
// bytes.
#pragma once

#include "random.hh"

#include <array>
#include <cmath>
#include <cstdint>

namespace transport {

using Vec = std::array<double, 3>;

inline double dot(const Vec& a, const Vec& b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
inline Vec cross(const Vec& a, const Vec& b)
{
    return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
// a + t b
inline Vec along(const Vec& a, double t, const Vec& b)
{
    return {a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]};
}

struct Particle {
    Vec position;
    Vec direction;
    double path_left;    // to the end of the time step
    std::int64_t energy; // in quanta: sums do not depend on their order
    std::int64_t energy_at_birth;
    std::uint64_t key; // names the random stream, unique among all particles
    std::uint32_t drawn;
    std::uint32_t cell; // its number in the whole mesh

    double draw() { return unit(mix(key + std::uint64_t{++drawn} * 0x9e3779b97f4a7c15U)); }

    void turn_anywhere()
    {
        const double mu = 2 * draw() - 1;
        const double r = std::sqrt(std::fmax(0.0, 1 - mu * mu));
        const double phi = 6.283185307179586 * draw();
        direction = {r * std::cos(phi), r * std::sin(phi), mu};
    }
};
static_assert(sizeof(Particle) == 88);

} // namespace transport
