// SPDX-License-Identifier: MIT
// shim/report: what is printed at the end of a job.
#include "cmocka.hh"

#include "regions.hh"
#include "report.hh"

#include <cerrno>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace storm::unit {
namespace {

struct Report {
    ~Report()
    {
        if (fd >= 0)
            ::close(fd);
    }
    bool has(const char* line) const { return text.find(std::string(line) + "\n") != std::string::npos; }

    JobReport job;
    std::string text, read;
    int fd = -1;
};

RankReport rank_of_all_kinds(int rank)
{
    RankReport r;
    r.rank = rank;
    r.pid = 100 + rank;
    r.host = "node";
    r.counters.ring_messages = 5;
    r.high_water = 4000 + static_cast<std::uint64_t>(rank);
    r.pairs = {{1, PairReport::Path::ring, 2, 3, 4, 5, 6, 7, 8}, {9, PairReport::Path::carried, 3, 4, 5, 6, 7, 8, 9}};
    r.fallbacks = {"to rank 9: far \"away\" <here>"};
    r.regions = {{"step", 2, 70 + static_cast<std::uint64_t>(rank), {}}};
    r.regions[0].counters.ring_messages = 3;
    r.waits = {"a receive from any rank"};
    return r;
}

void every_line_is_a_key_and_a_value(Report& f)
{
    f.job.backend = "shm";
    f.text = summary(f.job);
    std::size_t at = 0;
    while (at < f.text.size()) {
        const std::size_t end = f.text.find('\n', at);
        expect_that(end != std::string::npos, "an unfinished line");
        const std::string line = f.text.substr(at, end - at);
        expect_that(line.rfind("storm: ", 0) == 0 && line.find(' ', 7) != std::string::npos, "%s",
                    line.c_str());
        at = end + 1;
    }
}

void every_counter_has_its_line(Report& f)
{
    std::uint64_t next = 100;
#define STORM_COUNTER(field, name, help) f.job.sum.field = next++;
#include "counters.def"
#undef STORM_COUNTER
    f.text = summary(f.job);
    next = 100;
#define STORM_COUNTER(field, name, help)                                                           \
    expect_that(f.has(("storm: " name " " + std::to_string(next++)).c_str()), "%s", name);
#include "counters.def"
#undef STORM_COUNTER
}

void job_is_named(Report& f)
{
    f.job.ranks = 13440;
    f.job.backend = "shm";
    f.job.ring_high_water = 4096;
    f.text = summary(f.job);
    assert_true(f.has("storm: version " STORM_VERSION));
    assert_true(f.has("storm: ranks 13440"));
    assert_true(f.has("storm: backend shm"));
    assert_true(f.has("storm: ring_high_water_bytes 4096"));
}

void shares_are_percent_of_what_was_sent_to_others(Report& f)
{
    f.job.sum.ring_messages = 3;
    f.job.sum.native_messages = 1;
    f.job.sum.self_messages = 50;
    f.job.sum.eligible = 8;
    f.job.sum.eligible_in_ring = 1;
    f.text = summary(f.job);
    assert_true(f.has("storm: in_rings_percent 75.00"));
    assert_true(f.has("storm: eligible_in_ring_percent 12.50"));
}

void nothing_sent_is_all_in_rings(Report& f)
{
    f.text = summary(f.job);
    assert_true(f.has("storm: in_rings_percent 100.00"));
    assert_true(f.has("storm: fallbacks none"));
}

void fallbacks_name_the_first_reason(Report& f)
{
    f.job.ranks_with_reasons = 2;
    f.job.first_reason = "rank 3, to rank 4: no memory for a ring";
    f.text = summary(f.job);
    assert_true(f.has("storm: fallbacks on 2 ranks, the first: rank 3, to rank 4: no memory for a ring"));
}

void reasons_of_ranks_are_counted_and_the_lowest_is_told(Report& f)
{
    f.job.ranks = 3;
    for (int i = 0; i < 3; ++i) {
        RankReport r = rank_of_all_kinds(i);
        if (i == 0)
            r.fallbacks.clear();
        merge(f.job, std::move(r));
    }
    f.text = summary(f.job);
    assert_true(f.has("storm: fallbacks on 2 ranks, the first: rank 1, to rank 9: far \"away\" <here>"));
    assert_int_equal(f.job.ring_high_water, 4002);
    assert_true(f.has("storm: region step: 6 times, at most 72 us, 9 messages in rings, 0 by the real MPI"));
}

void rank_alone_names_itself_in_each_line(Report& f)
{
    f.job.ranks = 8;
    f.job.when = "signal USR1";
    merge(f.job, rank_of_all_kinds(5));
    f.text = summary(f.job);
    assert_true(f.has("storm: rank 5: when signal USR1"));
    assert_true(f.has("storm: rank 5: waits a receive from any rank"));
    for (std::size_t at = 0; at < f.text.size(); at = f.text.find('\n', at) + 1)
        assert_true(f.text.compare(at, 15, "storm: rank 5: ") == 0);
}

void part_of_a_rank_comes_back_as_it_was_packed(Report&)
{
    const RankReport r = rank_of_all_kinds(7);
    const std::string bytes = packed(r);
    RankReport back;
    assert_true(unpack(bytes, back));
    assert_true(packed(back) == bytes);
    assert_int_equal(back.rank, 7);
    assert_int_equal(back.pairs.at(1).growths, 9);
    assert_true(back.pairs.at(1).path == PairReport::Path::carried);
    assert_true(back.regions.at(0).name == "step" && back.regions.at(0).counters.ring_messages == 3);
    assert_true(back.waits == r.waits && back.fallbacks == r.fallbacks && back.host == r.host);
}

void bytes_that_were_cut_are_refused(Report&)
{
    const std::string bytes = packed(rank_of_all_kinds(7));
    RankReport back;
    for (std::size_t n = 0; n < bytes.size(); ++n)
        assert_false(unpack(std::string_view(bytes).substr(0, n), back));
    assert_false(unpack(bytes + "x", back));
}

void job_that_is_not_routed_says_why(Report& f)
{
    f.job.ranks = 2;
    f.job.routed = false;
    f.job.why = "rank 1 runs without it";
    f.text = summary(f.job);
    assert_true(f.has("storm: not_routed rank 1 runs without it"));
    assert_true(f.text.find("ring_messages") == std::string::npos);
}

void json_escapes_what_would_end_a_string_or_a_page(Report& f)
{
    f.job.why = "</script>\"\\\n";
    merge(f.job, rank_of_all_kinds(0));
    f.text = json(f.job);
    assert_true(f.text.find("\\u003c/script>\\\"\\\\\\u000a") != std::string::npos);
    assert_true(f.text.find('<') == std::string::npos);
}

void page_holds_the_data_and_needs_nothing_else(Report& f)
{
    merge(f.job, rank_of_all_kinds(0));
    f.text = html(f.job);
    assert_true(f.text.find(json(f.job)) != std::string::npos);
    for (const char* outside : {"http://", "https://", "src=", "href=", "url(", "@import", "@DATA@"})
        expect_that(f.text.find(outside) == std::string::npos, "the page refers to %s", outside);
}

void targets_are_read(Report&)
{
    using Form = ReportTarget::Form;
    assert_true(report_target("off").form == Form::off);
    assert_true(report_target("summary").form == Form::summary && report_target("summary").file.empty());
    const ReportTarget json = report_target("json"), page = report_target("html:a:b");
    assert_true(json.form == Form::json && json.file == "storm-report.json" && !json.named);
    assert_true(page.form == Form::html && page.file == "a:b" && page.named);
    for (const char* wrong : {"", "on", "summary:", "off:x", "HTML", "html "})
        expect_that(report_target(wrong).form == Form::unknown, "%s", wrong);
}

void rank_stands_before_the_ending_of_a_file(Report&)
{
    assert_string_equal(file_of_rank("a/b.json", 3).c_str(), "a/b.rank3.json");
    assert_string_equal(file_of_rank("a.d/b", 3).c_str(), "a.d/b.rank3");
    assert_string_equal(file_of_rank(".hidden", 0).c_str(), ".hidden.rank0");
}

void report_goes_to_the_named_file(Report& f)
{
    f.fd = ::memfd_create("report", MFD_CLOEXEC);
    assert_true(f.fd >= 0);
    f.text = "one line\n";
    assert_true(write_text("/proc/self/fd/" + std::to_string(f.fd), f.text));
    f.read.resize(100);
    assert_int_equal(::pread(f.fd, f.read.data(), f.read.size(), 0), 9);
    assert_memory_equal(f.read.data(), "one line\n", 9);
}

void file_that_cannot_be_written_is_an_error_with_its_cause(Report& f)
{
    f.text = "one line\n";
    errno = 0;
    assert_false(write_text("/nowhere/at/all", f.text));
    assert_int_equal(errno, ENOENT);
    errno = 0;
    assert_false(write_text("/dev/full", f.text));
    assert_int_equal(errno, ENOSPC);
}

void file_above_the_limit_of_sizes_is_an_error_not_the_end(Report& f)
{
    struct rlimit before {}, small {};
    ::getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1000;
    f.text.assign(2000, 'x');
    const std::string file = "report_test." + std::to_string(::getpid());
    ::setrlimit(RLIMIT_FSIZE, &small);
    errno = 0;
    const bool written = write_text(file, f.text);
    const int error = errno;
    ::setrlimit(RLIMIT_FSIZE, &before);
    assert_false(written);
    assert_int_equal(error, EFBIG);
    assert_int_equal(::access(file.c_str(), F_OK), -1);
}

// ---- regions

Counters counted(std::uint64_t n)
{
    Counters c;
    c.ring_messages = n;
    return c;
}

void region_counts_what_happens_while_it_is_open(Report&)
{
    Regions regions;
    assert_false(regions.end("a", counted(0), 0));
    assert_true(regions.begin("a", counted(10), 1000));
    assert_true(regions.begin("b", counted(15), 2000)); // overlaps
    assert_true(regions.begin("a", counted(16), 2500)); // again, inside
    assert_true(regions.end("a", counted(18), 2600));
    assert_true(regions.is_open("a"));
    assert_true(regions.end("a", counted(20), 4000));
    assert_false(regions.is_open("a"));
    assert_false(regions.end("a", counted(20), 4000));
    const auto list = regions.list(counted(21), 5000, 10);
    assert_int_equal(list.size(), 2);
    assert_int_equal(list[0].entries, 2);
    assert_int_equal(list[0].counters.ring_messages, 10);
    assert_int_equal(list[0].time_us, 300);
    assert_int_equal(list[1].counters.ring_messages, 6); // still open
    assert_int_equal(list[1].time_us, 300);
}

void names_of_regions_have_a_limit(Report&)
{
    Regions regions;
    for (std::size_t i = 0; i < Regions::kMax; ++i)
        assert_true(regions.begin(std::to_string(i), counted(0), 0));
    assert_false(regions.begin("one more", counted(0), 0));
    assert_true(regions.begin("3", counted(0), 0));
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Report, every_line_is_a_key_and_a_value),
        UNIT(Report, every_counter_has_its_line),
        UNIT(Report, job_is_named),
        UNIT(Report, shares_are_percent_of_what_was_sent_to_others),
        UNIT(Report, nothing_sent_is_all_in_rings),
        UNIT(Report, fallbacks_name_the_first_reason),
        UNIT(Report, reasons_of_ranks_are_counted_and_the_lowest_is_told),
        UNIT(Report, rank_alone_names_itself_in_each_line),
        UNIT(Report, part_of_a_rank_comes_back_as_it_was_packed),
        UNIT(Report, bytes_that_were_cut_are_refused),
        UNIT(Report, job_that_is_not_routed_says_why),
        UNIT(Report, json_escapes_what_would_end_a_string_or_a_page),
        UNIT(Report, page_holds_the_data_and_needs_nothing_else),
        UNIT(Report, targets_are_read),
        UNIT(Report, rank_stands_before_the_ending_of_a_file),
        UNIT(Report, region_counts_what_happens_while_it_is_open),
        UNIT(Report, names_of_regions_have_a_limit),
        UNIT(Report, report_goes_to_the_named_file),
        UNIT(Report, file_that_cannot_be_written_is_an_error_with_its_cause),
        UNIT(Report, file_above_the_limit_of_sizes_is_an_error_not_the_end),
    };
    return run_all(tests, argc, argv);
}
