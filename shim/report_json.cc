// SPDX-License-Identifier: MIT
// The report as JSON, and as one HTML page around that JSON.
#include "json.hh"
#include "report.hh"

namespace storm {
namespace {

// report_page.html as one string literal, split where the data stand.
constexpr const char* kPageBegin =
#include "report_page_begin.inc"
    ;
constexpr const char* kPageEnd =
#include "report_page_end.inc"
    ;

void put(JsonWriter& out, const char* name, const Counters& counters)
{
    out.key(name).open('{');
#define STORM_COUNTER(field, name, help) out.member(name, counters.field);
#include "counters.def"
#undef STORM_COUNTER
    out.close('}');
}

void put(JsonWriter& out, const char* name, const std::vector<std::string>& lines)
{
    out.key(name).open('[');
    for (const std::string& line : lines)
        out.value(line);
    out.close(']');
}

void put(JsonWriter& out, const RankReport& rank)
{
    static constexpr const char* kPaths[] = {"none", "ring", "carried"};
    out.line();
    out.open('{');
    out.member("rank", rank.rank);
    out.member("host", rank.host);
    out.member("pid", rank.pid);
    put(out, "counters", rank.counters);
    out.member("ring_high_water_bytes", rank.high_water);
    put(out, "fallbacks", rank.fallbacks);
    out.key("pairs").open('[');
    for (const PairReport& p : rank.pairs) { // arrays, not objects: there are many
        out.open('[');
        out.value(p.peer);
        const auto path = static_cast<unsigned>(p.path);
        out.value(kPaths[path < 3 ? path : 0]);
        for (const std::uint64_t n : {p.ring_messages, p.ring_bytes, p.native_messages, p.native_bytes,
                                      p.ring_size, p.high_water, p.growths})
            out.value(n);
        out.close(']');
    }
    out.close(']');
    out.key("regions").open('[');
    for (const RegionReport& r : rank.regions) {
        out.open('{');
        out.member("name", r.name);
        out.member("entries", r.entries);
        out.member("time_us", r.time_us);
        put(out, "counters", r.counters);
        out.close('}');
    }
    out.close(']');
    put(out, "waits", rank.waits);
    out.close('}');
}

} // namespace

std::string json(const JobReport& job)
{
    JsonWriter out;
    out.open('{');
    out.member("storm", STORM_VERSION);
    out.member("when", job.when);
    out.member("ranks", job.ranks);
    out.member("routed", job.routed);
    out.member("why", job.why);
    out.member("backend", job.backend);
    out.member("backend_why", job.backend_why);
    out.key("facts").open('{');
    for (const auto& [key, value] : job.facts)
        out.member(key.c_str(), value);
    out.close('}');
    out.key("settings").open('[');
    for (const JobReport::Setting& s : job.settings) {
        out.open('{');
        out.member("name", s.name);
        out.member("value", s.value);
        out.member("origin", s.origin);
        out.close('}');
    }
    out.close(']');
    put(out, "counters", job.sum);
    out.key("counter_help").open('{');
#define STORM_COUNTER(field, name, help) out.member(name, help);
#define STORM_MARK(name, help) out.member(name, help);
#include "counters.def"
#undef STORM_COUNTER
    out.close('}');
    out.member("ring_high_water_bytes", job.ring_high_water);
    out.member("ranks_with_fallbacks", job.ranks_with_reasons);
    out.member("first_fallback", job.first_reason);
    out.key("pair_fields").open('[');
    for (const char* name : {"to", "path", "ring_messages", "ring_bytes", "native_messages",
                             "native_bytes", "ring_size", "ring_high_water_bytes", "growths"})
        out.value(name);
    out.close(']');
    out.key("each").open('[');
    for (const RankReport& rank : job.each)
        put(out, rank);
    out.close(']');
    out.close('}');
    out.line();
    return out.text();
}

std::string html(const JobReport& job)
{
    return kPageBegin + json(job) + kPageEnd;
}

} // namespace storm
