// SPDX-License-Identifier: MIT
// The report as lines, and where a report goes. JSON and HTML: report_json.cc.
#include "report.hh"

#include "pack.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace storm {
namespace {

double percent(std::uint64_t part, std::uint64_t whole)
{
    return whole == 0 ? 100.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// By name: entries and counts of all ranks, the longest time of any.
std::vector<RegionReport> regions_of(const JobReport& job)
{
    std::vector<RegionReport> out;
    for (const RankReport& rank : job.each)
        for (const RegionReport& r : rank.regions) {
            auto at = std::find_if(out.begin(), out.end(), [&](const auto& o) { return o.name == r.name; });
            if (at == out.end()) {
                out.push_back(r);
                continue;
            }
            at->entries += r.entries;
            at->time_us = std::max(at->time_us, r.time_us);
#define STORM_COUNTER(field, name, help) at->counters.field += r.counters.field;
#include "counters.def"
#undef STORM_COUNTER
        }
    return out;
}

} // namespace

void merge(JobReport& job, RankReport rank)
{
#define STORM_COUNTER(field, name, help) job.sum.field += rank.counters.field;
#include "counters.def"
#undef STORM_COUNTER
    job.ring_high_water = std::max(job.ring_high_water, rank.high_water);
    if (!rank.fallbacks.empty() && job.ranks_with_reasons++ == 0)
        job.first_reason = "rank " + std::to_string(rank.rank) + ", " + rank.fallbacks.front();
    job.each.push_back(std::move(rank));
}

std::string packed(const RankReport& r)
{
    Packer out;
    out.put(static_cast<std::uint64_t>(r.rank));
    out.put(static_cast<std::uint64_t>(r.pid));
    out.put(r.host);
    out.put(r.counters);
    out.put(r.high_water);
    out.put(r.pairs.size());
    for (const PairReport& p : r.pairs)
        for (const std::uint64_t n :
             {static_cast<std::uint64_t>(p.peer), static_cast<std::uint64_t>(p.path), p.ring_messages,
              p.ring_bytes, p.native_messages, p.native_bytes, p.ring_size, p.high_water, p.growths})
            out.put(n);
    for (const auto* lines : {&r.fallbacks, &r.waits}) {
        out.put(lines->size());
        for (const std::string& line : *lines)
            out.put(line);
    }
    out.put(r.regions.size());
    for (const RegionReport& region : r.regions) {
        out.put(region.name);
        out.put(region.entries);
        out.put(region.time_us);
        out.put(region.counters);
    }
    return std::move(out.text);
}

bool unpack(std::string_view bytes, RankReport& r)
{
    Unpacker in(bytes);
    r.rank = static_cast<std::int32_t>(in.number());
    r.pid = static_cast<std::int32_t>(in.number());
    r.host = in.string();
    in.counters(r.counters);
    r.high_water = in.number();
    r.pairs.resize(in.count());
    for (PairReport& p : r.pairs) {
        p.peer = static_cast<std::int32_t>(in.number());
        p.path = static_cast<PairReport::Path>(in.number());
        for (std::uint64_t* n : {&p.ring_messages, &p.ring_bytes, &p.native_messages, &p.native_bytes,
                                 &p.ring_size, &p.high_water, &p.growths})
            *n = in.number();
    }
    for (auto* lines : {&r.fallbacks, &r.waits}) {
        lines->resize(in.count());
        for (std::string& line : *lines)
            line = in.string();
    }
    r.regions.resize(in.count());
    for (RegionReport& region : r.regions) {
        region.name = in.string();
        region.entries = in.number();
        region.time_us = in.number();
        in.counters(region.counters);
    }
    return in.ended_well();
}

std::string summary(const JobReport& job)
{
    std::string text;
    const bool alone = job.each.size() == 1 && job.ranks != 1;
    const std::string begin =
        alone ? "storm: rank " + std::to_string(job.each.front().rank) + ": " : "storm: ";
    const auto add = [&](const char* key, const std::string& value) {
        text += begin + key + " " + value + "\n";
    };
    const auto add_percent = [&](const char* key, double value) {
        char number[40];
        std::snprintf(number, sizeof number, "%.2f", value);
        add(key, number);
    };
    add("version", STORM_VERSION);
    add("ranks", std::to_string(job.ranks));
    if (!job.routed) {
        add("not_routed", job.why);
        return text;
    }
    if (job.when != "MPI_Finalize")
        add("when", job.when);
    add("backend", job.backend + (job.backend_why.empty() ? "" : " (" + job.backend_why + ")"));
#define STORM_COUNTER(field, name, help) add(name, std::to_string(job.sum.field));
#include "counters.def"
#undef STORM_COUNTER
    const Counters& c = job.sum;
    add_percent("in_rings_percent", percent(c.ring_messages, c.ring_messages + c.native_messages));
    add_percent("eligible_in_ring_percent", percent(c.eligible_in_ring, c.eligible));
    add("ring_high_water_bytes", std::to_string(job.ring_high_water));
    for (const auto& [key, value] : job.facts)
        add(key.c_str(), value);
    if (job.ranks_with_reasons == 0)
        add("fallbacks", "none");
    else
        add("fallbacks", "on " + std::to_string(job.ranks_with_reasons) +
                             " ranks, the first: " + job.first_reason);
    for (const RegionReport& r : regions_of(job))
        add("region", r.name + ": " + std::to_string(r.entries) + " times, at most " + std::to_string(r.time_us) +
                          " us, " + std::to_string(r.counters.ring_messages) + " messages in rings, " +
                          std::to_string(r.counters.native_messages) + " by the real MPI");
    for (const RankReport& rank : job.each)
        for (const std::string& line : rank.waits)
            add("waits", line);
    return text;
}

ReportTarget report_target(const std::string& setting)
{
    const std::size_t colon = setting.find(':');
    const std::string form = setting.substr(0, colon);
    ReportTarget target;
    target.form = form == "off"       ? ReportTarget::Form::off
                  : form == "summary" ? ReportTarget::Form::summary
                  : form == "json"    ? ReportTarget::Form::json
                  : form == "html"    ? ReportTarget::Form::html
                                      : ReportTarget::Form::unknown;
    target.named = colon != std::string::npos;
    if (target.named)
        target.file = setting.substr(colon + 1);
    else if (target.form == ReportTarget::Form::json || target.form == ReportTarget::Form::html)
        target.file = "storm-report." + form;
    if (target.named && (target.file.empty() || target.form == ReportTarget::Form::off))
        target.form = ReportTarget::Form::unknown;
    return target;
}

std::string file_of_rank(const std::string& file, int rank)
{
    const std::size_t slash = file.rfind('/');
    const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
    const std::size_t dot = file.rfind('.');
    const std::size_t at = dot == std::string::npos || dot <= name ? file.size() : dot;
    return file.substr(0, at) + ".rank" + std::to_string(rank) + file.substr(at);
}

std::string report_text(const JobReport& job, ReportTarget::Form form)
{
    switch (form) {
    case ReportTarget::Form::json: return json(job);
    case ReportTarget::Form::html: return html(job);
    default: return summary(job);
    }
}

bool write_text(const std::string& file, const std::string& text)
{
    int fd = STDERR_FILENO;
    if (!file.empty())
        fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    struct stat info {};
    const bool plain = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    struct rlimit most {};
    std::size_t at = 0;
    int error = 0;
    // a write past the limit (ulimit -f) would end the process by SIGXFSZ
    if (plain && !file.empty() && ::getrlimit(RLIMIT_FSIZE, &most) == 0 && text.size() > most.rlim_cur)
        error = EFBIG;
    while (at < text.size() && error == 0) {
        const auto n = ::write(fd, text.data() + at, text.size() - at);
        if (n > 0)
            at += static_cast<std::size_t>(n);
        else if (n == 0 || errno != EINTR)
            error = n == 0 ? EIO : errno;
    }
    if (file.empty()) {
        errno = error;
        return error == 0;
    }
    if (::close(fd) != 0 && error == 0)
        error = errno;
    if (error != 0 && plain)
        ::unlink(file.c_str()); // half a report is none
    errno = error;
    return error == 0;
}

} // namespace storm
