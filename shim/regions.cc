// SPDX-License-Identifier: MIT
#include "regions.hh"

#include <algorithm>

namespace storm {

bool Regions::begin(const std::string& name, const Counters& now, std::uint64_t ticks)
{
    auto at = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) { return r.name == name; });
    if (at == regions_.end()) {
        if (regions_.size() == kMax)
            return false;
        regions_.emplace_back().name = name;
        at = regions_.end() - 1;
    }
    ++at->entries;
    if (at->depth++ == 0) {
        at->begin = now;
        at->ticks_begin = ticks;
    }
    return true;
}

void Regions::close(Region& r, const Counters& now, std::uint64_t ticks)
{
#define STORM_COUNTER(field, name, help) r.sum.field += now.field - r.begin.field;
#include "counters.def"
#undef STORM_COUNTER
    r.ticks += ticks - r.ticks_begin;
}

bool Regions::end(const std::string& name, const Counters& now, std::uint64_t ticks)
{
    for (Region& r : regions_)
        if (r.name == name && r.depth > 0) {
            if (--r.depth == 0)
                close(r, now, ticks);
            return true;
        }
    return false;
}

bool Regions::is_open(const std::string& name) const
{
    return std::any_of(regions_.begin(), regions_.end(),
                       [&](const Region& r) { return r.name == name && r.depth > 0; });
}

std::vector<RegionReport> Regions::list(const Counters& now, std::uint64_t ticks, std::uint64_t ticks_per_us) const
{
    std::vector<RegionReport> out;
    for (Region r : regions_) {
        if (r.depth > 0)
            close(r, now, ticks);
        out.push_back({r.name, r.entries, r.ticks / (ticks_per_us > 0 ? ticks_per_us : 1), r.sum});
    }
    return out;
}

} // namespace storm
