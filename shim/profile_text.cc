// SPDX-License-Identifier: MIT
// The profile as text and as JSON.
#include "json.hh"
#include "profile.hh"

#include <algorithm>
#include <cstdarg>

namespace storm {
namespace {

constexpr std::size_t kRowsMax = 20; // shown as text; JSON has all

class Page {
public:
    [[gnu::format(printf, 2, 3)]] void line(const char* format, ...)
    {
        char text[1000];
        std::va_list args;
        va_start(args, format);
        std::vsnprintf(text, sizeof text, format, args);
        va_end(args);
        out += text;
        out += '\n';
    }
    std::string out;
};

std::string amount(double n)
{
    char text[40];
    static constexpr std::pair<double, const char*> kUnits[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (const auto& [unit, name] : kUnits)
        if (n >= 10 * unit) {
            std::snprintf(text, sizeof text, "%.0f%s", n / unit, name);
            return text;
        }
    std::snprintf(text, sizeof text, "%.0f", n);
    return text;
}
std::string amount(std::uint64_t n) { return amount(static_cast<double>(n)); }

std::string percent(std::uint64_t part, std::uint64_t whole)
{
    return whole == 0 ? "-" : std::to_string(part * 100 / whole) + "%";
}

std::string tag_text(int tag) { return tag < 0 ? "any" : std::to_string(tag); }

double per_call(const ProfileCalls& c)
{
    return c.timed == 0 ? 0 : static_cast<double>(c.ns) / static_cast<double>(c.timed);
}

// "64-127: 30%" for each bin that holds at least one in a hundred.
std::string histogram(const ProfileRow& r)
{
    std::string text;
    for (int bin = 0; bin < kSizeBins; ++bin) {
        const std::uint64_t n = r.sizes[static_cast<std::size_t>(bin)];
        if (n == 0 || n * 100 < r.sent)
            continue;
        text += text.empty() ? "" : ", ";
        text += std::to_string(bin_begin(bin));
        if (bin > 1)
            text += "-" + std::to_string(bin_begin(bin + 1) - 1);
        text += ": " + percent(n, r.sent);
    }
    return text;
}

using Entry = std::pair<const ProfileKey, ProfileRow>;

std::vector<const Entry*> by_weight(const JobProfile& job)
{
    std::vector<const Entry*> rows;
    for (const Entry& entry : job.sum.rows)
        rows.push_back(&entry);
    const auto weight = [](const Entry* e) { return e->second.sent + e->second.tests + e->second.probes; };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const Entry* a, const Entry* b) { return weight(a) > weight(b); });
    return rows;
}

void put_calls(Page& page, const JobProfile& job)
{
    page.line("\nCalls                              number   nothing found   each       in all");
    for (std::size_t i = 0; i < job.sum.calls.size(); ++i) {
        const ProfileCalls& c = job.sum.calls[i];
        if (c.calls == 0)
            continue;
        const bool polls = i <= static_cast<std::size_t>(ProfileKind::probe);
        const double all = polls ? static_cast<double>(c.empty_ns()) : static_cast<double>(c.ns);
        page.line("  %-32s %7s   %-13s  %6.0f ns   %8.3f s", kProfileKinds[i], amount(c.calls).c_str(),
                  polls ? percent(c.empty, c.calls).c_str() : "", per_call(c), all / 1e9);
    }
    if (job.sum.null_tests != 0)
        page.line("  %s tests of requests that had ended", amount(job.sum.null_tests).c_str());
}

void put_rows(Page& page, const JobProfile& job)
{
    page.line("\nExchanges (all ranks)");
    page.line("  %-24s %6s  %-16s %8s %8s %9s  %8s %8s %7s %9s %6s", "communicator", "tag", "datatype", "messages",
              "bytes", "partners", "receives", "any src", "tests", "probes", "empty");
    const auto rows = by_weight(job);
    for (std::size_t i = 0; i < rows.size() && i < kRowsMax; ++i) {
        const auto& [key, r] = *rows[i];
        page.line("  %-24s %6s  %-16s %8s %8s %9s  %8s %8s %7s %9s %6s", key.comm.c_str(), tag_text(key.tag).c_str(),
                  key.type.c_str(), amount(r.sent).c_str(), amount(r.sent_bytes).c_str(),
                  r.sent == 0 ? "" : (std::to_string(r.partners_most) + " a rank").c_str(), amount(r.receives).c_str(),
                  percent(r.any_source, r.receives).c_str(), amount(r.tests).c_str(), amount(r.probes).c_str(),
                  percent(r.empty_tests + r.empty_probes, r.tests + r.probes).c_str());
        if (r.sent != 0)
            page.line("      sizes in bytes: %s", histogram(r).c_str());
    }
    if (rows.size() > kRowsMax)
        page.line("  ... and %zu more: as JSON all are shown", rows.size() - kRowsMax);
}

void put_advice(Page& page, const JobProfile& job, const std::vector<Judgement>& judgements)
{
    MeasuredCosts costs;
    if (job.measured.empty())
        return;
    if (!costs.parse(job.measured)) {
        page.line("\nNo estimate (the measured costs cannot be read: %s)", job.measured.c_str());
        return;
    }
    const Advice a = advice(job, judgements, costs);
    page.line("\nEstimate, from calls measured on this machine between two ranks (real MPI / under the shim):");
    page.line("  a test that finds nothing %.1f / %.1f ns, a probe %.1f / %.1f ns", costs.test.native, costs.test.shim,
              costs.probe.native, costs.probe.shim);
    for (const auto& [bytes, cost] : costs.half_round_trip)
        page.line("  a message of %llu bytes %.0f / %.0f ns", static_cast<unsigned long long>(bytes), cost.native,
                  cost.shim);
    page.line("  gained: %.3f s in polls, %.3f s in messages, of %.3f s of all ranks together: %.1f %%", a.polls_s,
              a.messages_s, a.total_s, a.total_s > 0 ? 100 * (a.polls_s + a.messages_s) / a.total_s : 0.0);
    page.line("  It takes each poll and each message as time of the program, also where it only waits:");
    page.line("  a guide, not a promise.");
    if (a.polls_s + a.messages_s < 0.01 * a.total_s)
        page.line("  Less than one percent: this program would hardly notice.");
}

void put(JsonWriter& out, const ProfileRow& r)
{
    const std::pair<const char*, std::uint64_t> members[] = {
        {"messages", r.sent}, {"bytes", r.sent_bytes}, {"largest", r.sent_largest},
        {"synchronous", r.synchronous}, {"pairs", r.partners}, {"partners_most", r.partners_most},
        {"ranks", r.ranks}, {"receives", r.receives}, {"posted_bytes", r.posted_bytes},
        {"any_source", r.any_source}, {"any_tag", r.any_tag}, {"tests", r.tests},
        {"empty_tests", r.empty_tests}, {"probes", r.probes}, {"empty_probes", r.empty_probes}};
    for (const auto& [name, value] : members)
        out.member(name, value);
    out.key("sizes").open('[');
    for (int bin = 0; bin < kSizeBins; ++bin)
        if (const std::uint64_t n = r.sizes[static_cast<std::size_t>(bin)]; n != 0) {
            out.open('[');
            out.value(bin_begin(bin));
            out.value(n);
            out.close(']');
        }
    out.close(']');
}

} // namespace

std::string profile_text(const JobProfile& job)
{
    Page page;
    page.line("storm profile of %s: %d ranks, %.3f s from MPI_Init to MPI_Finalize; nothing was routed",
              job.command.c_str(), job.ranks, static_cast<double>(job.sum.elapsed_us) / 1e6);
    put_calls(page, job);
    put_rows(page, job);
    const std::vector<Judgement> judgements = judged(job);
    page.line("\nDoes it look like particle traffic?");
    for (std::size_t i = 0; i < judgements.size() && i < kRowsMax; ++i)
        page.line("  %s, tag %d: %s", judgements[i].comm.c_str(), judgements[i].tag, judgements[i].why.c_str());
    if (judgements.size() > kRowsMax)
        page.line("  ... and %zu more", judgements.size() - kRowsMax);
    put_advice(page, job, judgements);
    const std::string words = settings_for(job, judgements);
    if (words.empty())
        page.line("\nNothing here looks like particle traffic: the shim would change little.");
    else
        page.line("\nTry:  %s stormrun -n %d %s", words.c_str(), job.ranks, job.command.c_str());
    return page.out;
}

std::string profile_json(const JobProfile& job)
{
    JsonWriter out;
    out.open('{');
    out.member("storm_profile", STORM_VERSION);
    out.member("command", job.command);
    out.member("ranks", job.ranks);
    out.member("elapsed_us", job.sum.elapsed_us);
    out.member("null_tests", job.sum.null_tests);
    out.key("calls").open('[');
    for (std::size_t i = 0; i < job.sum.calls.size(); ++i) {
        const ProfileCalls& c = job.sum.calls[i];
        out.open('{');
        out.member("kind", kProfileKinds[i]);
        out.member("calls", c.calls);
        out.member("empty", c.empty);
        out.member("ns_each", per_call(c));
        out.close('}');
    }
    out.close(']');
    out.key("exchanges").open('[');
    for (const auto* entry : by_weight(job)) {
        out.line();
        out.open('{');
        out.member("communicator", entry->first.comm);
        out.member("tag", entry->first.tag);
        out.member("datatype", entry->first.type);
        put(out, entry->second);
        out.close('}');
    }
    out.close(']');
    const std::vector<Judgement> judgements = judged(job);
    out.key("judgements").open('[');
    for (const Judgement& j : judgements) {
        out.line();
        out.open('{');
        out.member("communicator", j.comm);
        out.member("tag", j.tag);
        out.member("particles", j.particles);
        out.member("why", j.why);
        out.close('}');
    }
    out.close(']');
    out.member("settings", settings_for(job, judgements));
    MeasuredCosts costs;
    if (!job.measured.empty() && costs.parse(job.measured)) {
        const Advice a = advice(job, judgements, costs);
        out.key("advice").open('{');
        out.member("measured", job.measured);
        out.member("gained_in_polls_s", a.polls_s);
        out.member("gained_in_messages_s", a.messages_s);
        out.member("all_ranks_s", a.total_s);
        out.close('}');
    }
    out.close('}');
    out.line();
    return out.text();
}

} // namespace storm
