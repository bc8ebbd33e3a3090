// SPDX-License-Identifier: MIT
// Regions of a program that it names itself (storm_region_begin, MPI_Pcontrol): how often
// each was entered, how long it took and what was counted meanwhile. Regions may be
// nested and may overlap; each counts all that happens while it is open.
#pragma once

#include "report.hh"

#include <string>
#include <vector>

namespace storm {

class Regions {
public:
    static constexpr std::size_t kMax = 256; // further names are not taken

    // False when there are too many names.
    bool begin(const std::string& name, const Counters& now, std::uint64_t ticks);
    // False when no region of this name is open.
    bool end(const std::string& name, const Counters& now, std::uint64_t ticks);
    bool is_open(const std::string& name) const;

    // All of them; one that is open counts up to now.
    std::vector<RegionReport> list(const Counters& now, std::uint64_t ticks, std::uint64_t ticks_per_us) const;

private:
    struct Region {
        std::string name;
        int depth = 0; // entered again while open
        std::uint64_t entries = 0;
        std::uint64_t ticks = 0, ticks_begin = 0;
        Counters sum, begin;
    };
    static void close(Region& region, const Counters& now, std::uint64_t ticks);

    std::vector<Region> regions_;
};

} // namespace storm
