// SPDX-License-Identifier: MIT
// The tables of the profile and what is read from them; its forms are in profile_text.cc.
#include "profile.hh"

#include "pack.hh"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

namespace storm {
namespace {

// Below this many messages an exchange is set-up or output.
constexpr std::uint64_t kFew = 100;
// Payloads that rings carry by default.
constexpr std::uint64_t kRides = 64 << 10;

std::uint64_t* const* numbers(ProfileRow& r, std::uint64_t* (&out)[16])
{
    std::uint64_t* list[16] = {&r.sent, &r.sent_bytes, &r.sent_largest, &r.synchronous, &r.receives,
                               &r.posted_bytes, &r.any_source, &r.any_tag, &r.tests, &r.empty_tests,
                               &r.probes, &r.empty_probes, &r.partners, &r.partners_most, &r.ranks, nullptr};
    std::copy(std::begin(list), std::end(list), out);
    return out;
}

void add(ProfileRow& to, const ProfileRow& from)
{
    const std::uint64_t largest = std::max(to.sent_largest, from.sent_largest);
    const std::uint64_t most = std::max(to.partners_most, from.partners_most);
    const std::uint64_t ranks = std::max(to.ranks, from.ranks);
    std::uint64_t *a[16], *b[16];
    numbers(to, a);
    numbers(const_cast<ProfileRow&>(from), b);
    for (int i = 0; a[i] != nullptr; ++i)
        *a[i] += *b[i];
    for (std::size_t i = 0; i < to.sizes.size(); ++i)
        to.sizes[i] += from.sizes[i];
    to.sent_largest = largest;
    to.partners_most = most;
    to.ranks = ranks;
}

std::string sized(std::uint64_t bytes)
{
    char text[40];
    if (bytes < 10000)
        std::snprintf(text, sizeof text, "%llu B", static_cast<unsigned long long>(bytes));
    else if (bytes < 10'000'000)
        std::snprintf(text, sizeof text, "%.0f KB", static_cast<double>(bytes) / 1e3);
    else
        std::snprintf(text, sizeof text, "%.0f MB", static_cast<double>(bytes) / 1e6);
    return text;
}

// The size that `share` of all messages do not exceed, by the end of its bin.
std::uint64_t size_at(const ProfileRow& r, double share)
{
    double sum = 0;
    for (int bin = 0; bin < kSizeBins; ++bin) {
        sum += static_cast<double>(r.sizes[static_cast<std::size_t>(bin)]);
        if (sum >= share * static_cast<double>(r.sent))
            return bin == 0 ? 0 : std::min(r.sent_largest, bin_begin(bin + 1) - 1);
    }
    return r.sent_largest;
}

// What speaks for particle traffic, in words; each is one reason.
std::vector<std::string> signs(const ProfileRow& r, const JobProfile& job)
{
    std::vector<std::string> out;
    const int bins = static_cast<int>(std::count_if(r.sizes.begin(), r.sizes.end(),
                                                    [&](std::uint64_t n) { return n * 50 >= r.sent; }));
    if (bins > 1)
        out.push_back("sizes vary (" + std::to_string(bins) + " powers of two, up to " + sized(r.sent_largest) + ")");
    const std::uint64_t polls = r.tests + r.probes, empty = r.empty_tests + r.empty_probes;
    if (polls > r.sent && empty * 2 > polls)
        out.push_back("polled (" + std::to_string(empty * 100 / polls) + " % of " + std::to_string(polls) +
                      " tests and probes found nothing)");
    if (r.any_source * 2 > r.receives && r.receives > 0)
        out.push_back("receivers do not know the sender (MPI_ANY_SOURCE)");
    if (r.receives > 0 && r.posted_bytes / r.receives > 4 * (r.sent_bytes / r.sent + 1))
        out.push_back("receives are posted for " +
                      std::to_string(r.posted_bytes / r.receives / (r.sent_bytes / r.sent + 1)) +
                      " times what comes");
    const double rate = static_cast<double>(r.sent) * 1e6 /
                        static_cast<double>(std::max<std::uint64_t>(job.sum.elapsed_us, 1)) /
                        static_cast<double>(std::max<std::uint64_t>(r.ranks, 1));
    if (rate > 1000)
        out.push_back(std::to_string(static_cast<int>(rate)) + " messages a second and rank");
    return out;
}

} // namespace

int size_bin(std::uint64_t bytes)
{
    return std::min(static_cast<int>(std::bit_width(bytes)), kSizeBins - 1);
}

std::uint64_t bin_begin(int bin)
{
    return bin == 0 ? 0 : std::uint64_t{1} << (bin - 1);
}

std::string packed(const RankProfile& p)
{
    Packer out;
    out.put(p.elapsed_us);
    out.put(p.null_tests);
    for (const ProfileCalls& c : p.calls)
        for (const std::uint64_t n : {c.calls, c.empty, c.timed, c.ns})
            out.put(n);
    out.put(p.rows.size());
    for (const auto& [key, row] : p.rows) {
        out.put(key.comm);
        out.put(key.type);
        out.put(static_cast<std::uint64_t>(static_cast<std::int64_t>(key.tag)));
        ProfileRow r = row;
        r.partners = r.partners_most = row.to.size();
        r.ranks = 1;
        std::uint64_t* list[16];
        for (auto* const* n = numbers(r, list); *n != nullptr; ++n)
            out.put(**n);
        for (const std::uint64_t n : r.sizes)
            out.put(n);
    }
    return std::move(out.text);
}

bool unpack(std::string_view bytes, RankProfile& p)
{
    Unpacker in(bytes);
    p.elapsed_us = in.number();
    p.null_tests = in.number();
    for (ProfileCalls& c : p.calls)
        for (std::uint64_t* n : {&c.calls, &c.empty, &c.timed, &c.ns})
            *n = in.number();
    for (std::uint64_t rows = in.count(); rows > 0; --rows) {
        ProfileKey key;
        key.comm = in.string();
        key.type = in.string();
        key.tag = static_cast<int>(in.number());
        ProfileRow& r = p.rows[key];
        std::uint64_t* list[16];
        for (auto* const* n = numbers(r, list); *n != nullptr; ++n)
            **n = in.number();
        for (std::uint64_t& n : r.sizes)
            n = in.number();
    }
    return in.ended_well();
}

void merge(JobProfile& job, const RankProfile& rank)
{
    ++job.ranks;
    job.sum.elapsed_us = std::max(job.sum.elapsed_us, rank.elapsed_us);
    job.sum.null_tests += rank.null_tests;
    for (std::size_t i = 0; i < job.sum.calls.size(); ++i) {
        job.sum.calls[i].calls += rank.calls[i].calls;
        job.sum.calls[i].empty += rank.calls[i].empty;
        job.sum.calls[i].timed += rank.calls[i].timed;
        job.sum.calls[i].ns += rank.calls[i].ns;
    }
    for (const auto& [key, row] : rank.rows) {
        ProfileRow& to = job.sum.rows[key];
        const std::uint64_t ranks = to.ranks + row.ranks;
        add(to, row);
        to.ranks = ranks;
    }
}

std::vector<Judgement> judged(const JobProfile& job)
{
    std::vector<Judgement> out;
    for (const auto& [key, row] : job.sum.rows) {
        if (key.tag < 0)
            continue; // receives and probes of any tag are added below
        auto at = std::find_if(out.begin(), out.end(),
                               [&, k = &key](const Judgement& j) { return j.comm == k->comm && j.tag == k->tag; });
        if (at == out.end()) {
            out.push_back({key.comm, key.tag, false, "", {}});
            at = out.end() - 1;
        }
        add(at->row, row);
    }
    for (Judgement& j : out) {
        for (const auto& [key, row] : job.sum.rows)
            if (key.tag < 0 && key.comm == j.comm) { // any tag: may be for this one
                j.row.receives += row.receives;
                j.row.posted_bytes += row.posted_bytes;
                j.row.any_source += row.any_source;
                j.row.tests += row.tests;
                j.row.empty_tests += row.empty_tests;
                j.row.probes += row.probes;
                j.row.empty_probes += row.empty_probes;
            }
        if (j.row.sent < kFew) {
            j.why = "no: only " + std::to_string(j.row.sent) + " messages";
            continue;
        }
        if (size_at(j.row, 0.5) > kRides) {
            j.why = "no: most messages are larger than " + sized(kRides);
            continue;
        }
        const std::vector<std::string> found = signs(j.row, job);
        j.particles = found.size() >= 2;
        for (const std::string& sign : found)
            j.why += (j.why.empty() ? (j.particles ? "yes: " : "no, only: ") : "; ") + sign;
        if (found.empty())
            j.why = "no: one size, known partners, no polling";
    }
    std::sort(out.begin(), out.end(), [](const Judgement& a, const Judgement& b) { return a.row.sent > b.row.sent; });
    return out;
}

std::string settings_for(const JobProfile&, const std::vector<Judgement>& judgements)
{
    std::vector<int> tags;
    bool others_large = false;
    for (const Judgement& j : judgements) {
        if (j.particles)
            tags.push_back(j.tag);
        // there the real MPI's single copy can be the faster way
        else if (j.row.sent >= kFew && j.row.sent_bytes / j.row.sent >= 16 << 10)
            others_large = true;
    }
    if (tags.empty())
        return "";
    std::string words;
    if (others_large) {
        std::sort(tags.begin(), tags.end());
        tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
        for (std::size_t i = 0; i < tags.size();) {
            std::size_t end = i;
            while (end + 1 < tags.size() && tags[end + 1] == tags[end] + 1)
                ++end;
            words += (words.empty() ? "STORM_TAGS=" : ",") + std::to_string(tags[i]);
            if (end > i)
                words += "-" + std::to_string(tags[end]);
            i = end + 1;
        }
        words += " ";
    }
    return words + "STORM_REPORT=summary";
}

bool MeasuredCosts::parse(const std::string& text)
{
    std::size_t at = 0;
    bool tested = false, probed = false;
    while (at < text.size()) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        const std::string item = text.substr(at, comma - at);
        at = comma + 1;
        char key[16] = "";
        Cost cost;
        int end = 0;
        if (std::sscanf(item.c_str(), "%15[a-z0-9]=%lf:%lf%n", key, &cost.native, &cost.shim, &end) != 3 ||
            static_cast<std::size_t>(end) != item.size())
            return false;
        const std::string name = key;
        if (name == "test") {
            test = cost;
            tested = true;
        } else if (name == "probe") {
            probe = cost;
            probed = true;
        } else if (name.find_first_not_of("0123456789") == std::string::npos) {
            half_round_trip[std::strtoull(key, nullptr, 10)] = cost;
        } else {
            return false;
        }
    }
    return tested && probed && !half_round_trip.empty();
}

double MeasuredCosts::message_gain(std::uint64_t bytes) const
{
    if (half_round_trip.empty() || bytes > half_round_trip.rbegin()->first)
        return 0; // goes by the real MPI, or was not measured
    const auto above = half_round_trip.lower_bound(bytes);
    if (above == half_round_trip.begin() || above->first == bytes)
        return above->second.gain();
    const auto below = std::prev(above);
    const double part = static_cast<double>(bytes - below->first) / static_cast<double>(above->first - below->first);
    return below->second.gain() + part * (above->second.gain() - below->second.gain());
}

Advice advice(const JobProfile& job, const std::vector<Judgement>& judgements, const MeasuredCosts& costs)
{
    Advice a;
    a.total_s = static_cast<double>(job.sum.elapsed_us) * job.ranks / 1e6;
    const auto empty = [&](ProfileKind kind) {
        return static_cast<double>(job.sum.calls[static_cast<std::size_t>(kind)].empty);
    };
    a.polls_s = 1e-9 * ((empty(ProfileKind::test) + empty(ProfileKind::testany)) * costs.test.gain() +
                        empty(ProfileKind::probe) * costs.probe.gain());
    const bool chosen = settings_for(job, judgements).find("STORM_TAGS") != std::string::npos;
    for (const Judgement& j : judgements)
        for (int bin = 0; bin < kSizeBins && (j.particles || !chosen); ++bin) {
            // the middle of the bin; all of the largest are at most the largest
            const std::uint64_t middle = std::min(bin_begin(bin) + bin_begin(bin) / 2, j.row.sent_largest);
            a.messages_s += 1e-9 * static_cast<double>(j.row.sizes[static_cast<std::size_t>(bin)]) *
                            costs.message_gain(middle);
        }
    return a;
}

} // namespace storm
