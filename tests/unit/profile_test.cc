// SPDX-License-Identifier: MIT
// shim/profile: what is read from counted calls.
#include "cmocka.hh"

#include "profile.hh"

namespace storm::unit {
namespace {

struct Profile {
    // `n` messages of `bytes` on one exchange, received as `row` says.
    ProfileRow& send(int tag, std::uint64_t n, std::uint64_t bytes, const std::string& comm = "MPI_COMM_WORLD")
    {
        ProfileRow& r = rank.rows[{comm, "MPI_BYTE", tag}];
        r.sent += n;
        r.sent_bytes += n * bytes;
        r.sent_largest = std::max(r.sent_largest, bytes);
        r.sizes[static_cast<std::size_t>(size_bin(bytes))] += n;
        r.to.insert(1);
        r.receives += n;
        r.posted_bytes += n * bytes;
        return r;
    }
    // The judgement of the only exchange, after its way through packing.
    Judgement judge()
    {
        job = JobProfile{};
        RankProfile back;
        assert_true(unpack(packed(rank), back));
        merge(job, back);
        const auto all = judged(job);
        assert_int_equal(all.size(), 1);
        return all[0];
    }

    RankProfile rank;
    JobProfile job;
};

void sizes_fall_into_powers_of_two(Profile&)
{
    assert_int_equal(size_bin(0), 0);
    assert_int_equal(size_bin(1), 1);
    for (int bin = 1; bin < kSizeBins - 1; ++bin) {
        assert_int_equal(size_bin(bin_begin(bin)), bin);
        assert_int_equal(size_bin(bin_begin(bin + 1) - 1), bin);
    }
    assert_int_equal(size_bin(~std::uint64_t{0}), kSizeBins - 1);
}

void polled_messages_of_varying_size_are_particles(Profile& f)
{
    f.rank.elapsed_us = 1'000'000'000;
    ProfileRow& r = f.send(7, 500, 100);
    f.send(7, 500, 5000);
    assert_false(f.judge().particles); // varying sizes alone may be anything
    r.tests = 100'000;
    r.empty_tests = 99'000;
    const Judgement j = f.judge();
    assert_true(j.particles);
    assert_string_equal(j.why.c_str(), "yes: sizes vary (2 powers of two, up to 5000 B); "
                                       "polled (99 % of 100000 tests and probes found nothing)");
    assert_string_equal(settings_for(f.job, {j}).c_str(), "STORM_REPORT=summary");
}

void probes_of_any_tag_count_for_each_tag(Profile& f)
{
    f.rank.elapsed_us = 1'000'000'000;
    f.send(7, 1000, 100);
    ProfileRow& any = f.rank.rows[{"MPI_COMM_WORLD", "", -1}];
    any.probes = 10'000;
    any.empty_probes = 9'000;
    any.any_source = 10'000;
    assert_true(f.judge().particles);
}

void steady_exchanges_are_not_particles(Profile& f)
{
    f.rank.elapsed_us = 1'000'000'000;
    f.send(7, 1000, 4096);
    assert_string_equal(f.judge().why.c_str(), "no: one size, known partners, no polling");
    f.send(7, 9000, 1 << 20);
    assert_string_equal(f.judge().why.c_str(), "no: most messages are larger than 66 KB");
    f.rank.rows.clear();
    f.send(7, 99, 8);
    assert_string_equal(f.judge().why.c_str(), "no: only 99 messages");
}

void tags_are_chosen_where_others_carry_large_messages(Profile& f)
{
    f.rank.elapsed_us = 1'000'000'000;
    for (const int tag : {100, 101, 102, 5}) {
        ProfileRow& r = f.send(tag, 1000, 100);
        f.send(tag, 1000, 3000);
        r.any_source = 2000;
    }
    f.send(8, 1000, 40000);
    merge(f.job, f.rank);
    assert_string_equal(settings_for(f.job, judged(f.job)).c_str(), "STORM_TAGS=5,100-102 STORM_REPORT=summary");
}

void ranks_add_up(Profile& f)
{
    f.rank.elapsed_us = 5;
    f.send(7, 10, 100).to = {1, 2, 3};
    f.rank.calls[0] = {100, 60, 6, 600};
    RankProfile part;
    assert_true(unpack(packed(f.rank), part));
    merge(f.job, part);
    f.rank.rows.begin()->second.to = {0};
    f.rank.elapsed_us = 9;
    RankProfile other;
    assert_true(unpack(packed(f.rank), other));
    merge(f.job, other);
    const ProfileRow& r = f.job.sum.rows.begin()->second;
    assert_int_equal(f.job.ranks, 2);
    assert_int_equal(r.sent, 20);
    assert_int_equal(r.ranks, 2);
    assert_int_equal(r.partners, 4);
    assert_int_equal(r.partners_most, 3);
    assert_int_equal(f.job.sum.elapsed_us, 9);
    assert_int_equal(f.job.sum.calls[0].empty_ns(), 12000);
}

void cut_bytes_are_refused(Profile& f)
{
    f.send(7, 10, 100);
    const std::string bytes = packed(f.rank);
    RankProfile back;
    for (std::size_t n = 0; n < bytes.size(); ++n)
        assert_false(unpack(std::string_view(bytes).substr(0, n), back));
}

void costs_are_read_or_refused(Profile&)
{
    MeasuredCosts costs;
    assert_true(costs.parse("test=20:5,probe=30:10,0=200:100,1000=1200:300"));
    assert_true(costs.test.gain() == 15 && costs.probe.gain() == 20);
    assert_true(costs.message_gain(0) == 100 && costs.message_gain(500) == 500 && costs.message_gain(1000) == 900);
    assert_true(costs.message_gain(1001) == 0); // not measured: nothing is promised
    for (const char* wrong : {"", "test=20:5", "test=20:5,probe=30:10", "test=20:5,probe=3,0=1:1",
                              "test=20:5,probe=30:10,0=1:1x", "test=20:5,probe=30:10,a0=1:1"}) {
        MeasuredCosts other;
        expect_that(!other.parse(wrong), "%s", wrong);
    }
}

void gain_is_what_the_calls_would_save(Profile& f)
{
    f.rank.elapsed_us = 1'000'000;
    f.send(7, 1000, 100).any_source = 1000;
    f.send(7, 1000, 1000);
    f.rank.calls[static_cast<std::size_t>(ProfileKind::test)].empty = 1'000'000;
    merge(f.job, f.rank);
    MeasuredCosts costs;
    assert_true(costs.parse("test=20:5,probe=30:10,0=200:100,100000=200:100"));
    const Advice a = advice(f.job, judged(f.job), costs);
    expect_that(a.polls_s > 0.01499 && a.polls_s < 0.01501, "%g", a.polls_s);
    expect_that(a.messages_s > 0.000199 && a.messages_s < 0.000201, "%g", a.messages_s);
    assert_true(a.total_s == 1.0);
    f.job.measured = "test=20:5,probe=30:10,0=200:100";
    assert_true(profile_text(f.job).find("gained: 0.015 s in polls") != std::string::npos);
    assert_true(profile_json(f.job).find("\"gained_in_polls_s\":0.015") != std::string::npos);
    f.job.measured = "nonsense";
    assert_true(profile_text(f.job).find("No estimate (the measured costs cannot be read: nonsense)") !=
                std::string::npos);
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Profile, sizes_fall_into_powers_of_two),
        UNIT(Profile, polled_messages_of_varying_size_are_particles),
        UNIT(Profile, probes_of_any_tag_count_for_each_tag),
        UNIT(Profile, steady_exchanges_are_not_particles),
        UNIT(Profile, tags_are_chosen_where_others_carry_large_messages),
        UNIT(Profile, ranks_add_up),
        UNIT(Profile, cut_bytes_are_refused),
        UNIT(Profile, costs_are_read_or_refused),
        UNIT(Profile, gain_is_what_the_calls_would_save),
    };
    return run_all(tests, argc, argv);
}
