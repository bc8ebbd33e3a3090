// shim/report: what is printed at the end of a job.
#include "cmocka.hh"

#include "report.hh"

#include <cerrno>
#include <sys/mman.h>
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

void report_goes_to_the_named_file(Report& f)
{
    f.fd = ::memfd_create("report", MFD_CLOEXEC);
    assert_true(f.fd >= 0);
    f.text = "one line\n";
    assert_true(write_report("summary:/proc/self/fd/" + std::to_string(f.fd), f.text));
    f.read.resize(100);
    assert_int_equal(::pread(f.fd, f.read.data(), f.read.size(), 0), 9);
    assert_memory_equal(f.read.data(), "one line\n", 9);
}

void file_that_cannot_be_written_is_an_error_with_its_cause(Report& f)
{
    f.text = "one line\n";
    errno = 0;
    assert_false(write_report("summary:/nowhere/at/all", f.text));
    assert_int_equal(errno, ENOENT);
    errno = 0;
    assert_false(write_report("summary:/dev/full", f.text));
    assert_int_equal(errno, ENOSPC);
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
        UNIT(Report, report_goes_to_the_named_file),
        UNIT(Report, file_that_cannot_be_written_is_an_error_with_its_cause),
    };
    return run_all(tests, argc, argv);
}
