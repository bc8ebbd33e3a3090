// SPDX-License-Identifier: MIT
// Random numbers that belong to a particle: a counter hashed under the particle's key.
// Whoever tracks it, and in whatever order, it draws the same numbers.
#pragma once

#include <cstdint>

namespace transport {

inline std::uint64_t mix(std::uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

// One key out of several words.
template <class... Words>
std::uint64_t key_of(std::uint64_t first, Words... rest)
{
    std::uint64_t key = mix(first + 0x9e3779b97f4a7c15U);
    ((key = mix(key + static_cast<std::uint64_t>(rest) + 0x9e3779b97f4a7c15U)), ...);
    return key;
}

inline double unit(std::uint64_t bits) // in (0, 1)
{
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

} // namespace transport
