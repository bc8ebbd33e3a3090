// SPDX-License-Identifier: MIT
// shim/settings: every variable, what it takes, and what is said of a wrong one.
#include "cmocka.hh"

#include "settings.hh"

#include <cstring>
#include <utility>
#include <vector>

namespace storm::unit {
namespace {

struct Environment {
    // Reads these variables into fresh settings.
    void read(std::vector<std::string> variables)
    {
        text = std::move(variables);
        std::vector<const char*> entries;
        for (const std::string& v : text)
            entries.push_back(v.c_str());
        entries.push_back(nullptr);
        settings = Settings();
        problems.clear();
        settings.read(entries.data(), problems);
    }
    bool says(const char* words) const
    {
        for (const std::string& p : problems)
            if (p.find(words) != std::string::npos)
                return true;
        return false;
    }

    std::vector<std::string> text, problems;
    Settings settings;
    std::vector<std::string> valid;
    TagSet tags;
    std::string why, name;
};

void defaults_are_those_of_the_table(Environment& f)
{
    f.read({});
    assert_true(f.problems.empty());
    for (const SettingInfo& s : Settings::table()) {
        f.read({std::string(s.name) + "=" + s.fallback});
        expect_that(f.problems.empty(), "%s=%s is refused", s.name, s.fallback);
        expect_that(f.settings.value_text(s.name) == Settings().value_text(s.name), "%s", s.name);
    }
}

// One value within, and the two ends of the range, for each kind of setting.
void valid_values_are_taken(Environment& f)
{
    for (const SettingInfo& s : Settings::table()) {
        f.valid.clear();
        if (std::strcmp(s.kind, "flag") == 0) {
            f.valid = {"0", "1", "yes", "no", "on", "off", "true", "false"};
        } else if (std::strcmp(s.kind, "count") == 0 || std::strcmp(s.kind, "bytes") == 0) {
            f.valid = {std::to_string(s.min), std::to_string(s.max)};
        } else if (std::strcmp(s.kind, "choice") == 0) {
            const std::string list(s.help, std::strcspn(s.help, ":"));
            for (std::size_t at = 0; at <= list.size();) {
                const std::size_t bar = std::min(list.find('|', at), list.size());
                f.valid.push_back(list.substr(at, bar - at));
                at = bar + 1;
            }
        }
        for (const std::string& v : f.valid) {
            // a small STORM_RING_MIN keeps a small STORM_RING_MAX legal
            f.read({"STORM_RING_MIN=8192", std::string("STORM_RING_MAX=1G"),
                    std::string(s.name) + "=" + v});
            expect_that(f.problems.empty(), "%s=%s: %s", s.name, v.c_str(), f.problems.front().c_str());
        }
    }
}

void values_out_of_range_keep_the_default(Environment& f)
{
    for (const SettingInfo& s : Settings::table()) {
        f.valid.clear();
        if (std::strcmp(s.kind, "flag") == 0)
            f.valid = {"", "2", "maybe", "-1"};
        else if (std::strcmp(s.kind, "choice") == 0)
            f.valid = {"", "x", "shm|none", "warn "};
        else if (std::strcmp(s.kind, "count") == 0 || std::strcmp(s.kind, "bytes") == 0)
            f.valid = {"", "-1", "x", "1x", "0x10", " 1", "1.5", std::to_string(s.max + 1),
                       "99999999999999999999", "18446744073709551615G"};
        if (s.min > 0)
            f.valid.push_back(std::to_string(s.min - 1));
        for (const std::string& v : f.valid) {
            f.read({std::string(s.name) + "=" + v});
            expect_that(f.problems.size() == 1, "%s=%s gives %d problems", s.name, v.c_str(),
                        static_cast<int>(f.problems.size()));
            expect_that(f.says(s.name) && f.says(s.fallback), "%s", f.problems.front().c_str());
            expect_that(f.settings.value_text(s.name) == Settings().value_text(s.name), "%s=%s", s.name,
                        v.c_str());
        }
    }
}

void bytes_take_binary_units(Environment& f)
{
    for (const auto& [text, value] : std::vector<std::pair<const char*, std::uint64_t>>{
             {"STORM_EAGER_MAX=3K", 3072}, {"STORM_EAGER_MAX=3k", 3072}, {"STORM_EAGER_MAX=2KB", 2048},
             {"STORM_EAGER_MAX=1M", 1 << 20}, {"STORM_EAGER_MAX=1mb", 1 << 20}, {"STORM_EAGER_MAX=0", 0}}) {
        f.read({text});
        expect_that(f.problems.empty() && f.settings.eager_max == value, "%s", text);
    }
    f.read({"STORM_MEMORY_MAX=2G"});
    assert_int_equal(f.settings.memory_max, std::uint64_t{2} << 30);
}

void counts_take_no_units(Environment& f)
{
    f.read({"STORM_POLL_NATIVE=1K"});
    assert_int_equal(f.problems.size(), 1);
    assert_int_equal(f.settings.poll_native, 1000);
}

void misspelt_names_are_told_the_nearest(Environment& f)
{
    for (const auto& [wrong, right] : std::vector<std::pair<const char*, const char*>>{
             {"STORM_TAG", "STORM_TAGS"}, {"STORM_EAGERMAX", "STORM_EAGER_MAX"},
             {"STORM_RING_MIM", "STORM_RING_MIN"}, {"STORM_DISABEL", "STORM_DISABLE"},
             {"STORM_VERDICT_TIMOUT", "STORM_VERDICT_TIMEOUT"}, {"STORM_SENDBUFFER", "STORM_SEND_BUFFER"}}) {
        f.read({std::string(wrong) + "=1"});
        assert_int_equal(f.problems.size(), 1);
        expect_that(f.says(wrong) && f.says((std::string("did you mean ") + right + "?").c_str()), "%s",
                    f.problems.front().c_str());
    }
}

void names_near_none_are_told_where_the_list_is(Environment& f)
{
    f.read({"STORM_SOMETHING_ELSE_ALTOGETHER=1"});
    assert_int_equal(f.problems.size(), 1);
    assert_true(f.says("storm-info"));
    assert_string_equal(nearest_setting("STORM_SOMETHING_ELSE_ALTOGETHER").c_str(), "");
}

void variables_of_others_are_left_alone(Environment& f)
{
    f.read({"STORMY=1", "PATH=x", "STORM_LAUNCHER=mpirun", "STORM_WITHOUT_VALUE", "XSTORM_TAGS=1"});
    assert_true(f.problems.empty());
}

void tag_lists_are_checked(Environment& f)
{
    for (const char* good : {"all", "none", "0", "1,5-9,20-", "2147483647", "3-3", "0-"}) {
        f.read({std::string("STORM_TAGS=") + good});
        expect_that(f.problems.empty() && f.settings.tags == good, "%s", good);
    }
    for (const char* bad : {"", ",", "1,", "-3", "9-5", "a", "1-b", "1 2", "2147483648", "1--2", "All"}) {
        f.read({std::string("STORM_TAGS=") + bad});
        expect_that(f.problems.size() == 1 && f.settings.tags == "all", "%s", bad);
    }
}

void tag_lists_select_what_they_name(Environment& f)
{
    assert_true(f.tags.parse("1,5-9,20-", f.why));
    assert_false(f.tags.all());
    for (const int tag : {1, 5, 7, 9, 20, 21, 2147483647})
        assert_true(f.tags.has(tag));
    for (const int tag : {0, 2, 4, 10, 19})
        assert_false(f.tags.has(tag));
    assert_true(f.tags.parse("none", f.why));
    assert_false(f.tags.has(0));
    assert_true(f.tags.parse("all", f.why));
    assert_true(f.tags.has(0) && f.tags.all());
    assert_false(f.tags.parse("9-5", f.why));
    assert_true(f.why.find("9-5") != std::string::npos);
}

void communicators_are_selected_by_pattern(Environment& f)
{
    f.name = "MPI_COMM_WORLD";
    for (const char* yes : {"all", "MPI_COMM_WORLD", "*", "MPI_*", "x,MPI_COMM_?ORLD", "*WORLD,y"})
        expect_that(name_selected(yes, f.name), "%s", yes);
    for (const char* no : {"none", "", "MPI", "world", "?", "x,y", "MPI_COMM_WORLD "})
        expect_that(!name_selected(no, f.name), "%s", no);
    assert_true(name_selected("", ""));
}

void ring_max_below_ring_min_is_raised(Environment& f)
{
    f.read({"STORM_RING_MIN=128K", "STORM_RING_MAX=64K"});
    assert_int_equal(f.problems.size(), 1);
    assert_true(f.says("STORM_RING_MAX=65536"));
    assert_int_equal(f.settings.ring_max, 131072);
    f.read({"STORM_RING_MIN=64K", "STORM_RING_MAX=64K"});
    assert_true(f.problems.empty());
}

void ring_min_alone_takes_ring_max_along(Environment& f)
{
    f.read({"STORM_RING_MIN=8M"});
    assert_true(f.problems.empty());
    assert_int_equal(f.settings.ring_min, 8 << 20);
    assert_int_equal(f.settings.ring_max, 8 << 20);
}

void ring_sizes_become_powers_of_two(Environment& f)
{
    f.read({"STORM_RING_MIN=10000", "STORM_RING_MAX=100000"});
    assert_true(f.problems.empty());
    assert_int_equal(f.settings.ring_min, 16384);
    assert_int_equal(f.settings.ring_max, 65536);
    f.read({"STORM_RING_MIN=10000", "STORM_RING_MAX=10000"});
    assert_int_equal(f.settings.ring_min, 16384);
    assert_int_equal(f.settings.ring_max, 16384);
}

void reports_are_checked(Environment& f)
{
    for (const char* good : {"off", "summary", "summary:out.txt", "json", "html:out.html"}) {
        f.read({std::string("STORM_REPORT=") + good});
        expect_that(f.problems.empty() && f.settings.report == good, "%s", good);
    }
    for (const char* bad : {"", "on", "summaryx", "Summary", "off:file", "html:"}) {
        f.read({std::string("STORM_REPORT=") + bad});
        expect_that(f.problems.size() == 1 && f.settings.report == "off", "%s", bad);
    }
}

void profiles_are_checked(Environment& f)
{
    for (const char* good : {"off", "text", "json", "text:out", "json:out.json"}) {
        f.read({std::string("STORM_PROFILE=") + good});
        expect_that(f.problems.empty() && f.settings.profile == good, "%s", good);
    }
    for (const char* bad : {"", "on", "texts", "off:file", "json:"}) {
        f.read({std::string("STORM_PROFILE=") + bad});
        expect_that(f.problems.size() == 1 && f.settings.profile == "off", "%s", bad);
    }
}

void agreement_holds_what_all_ranks_must_share(Environment& f)
{
    f.read({"STORM_BACKEND=none", "STORM_EAGER_MAX=1K"});
    assert_string_equal(f.settings.agreement().c_str(), "DISABLE=0,PROFILE=off,BACKEND=none");
}

void log_levels_follow_their_names(Environment& f)
{
    int expected = 0;
    for (const char* level : {"quiet", "error", "warn", "info", "debug"}) {
        f.read({std::string("STORM_LOG=") + level});
        assert_int_equal(f.settings.log_level(), expected++);
    }
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Environment, defaults_are_those_of_the_table),
        UNIT(Environment, valid_values_are_taken),
        UNIT(Environment, values_out_of_range_keep_the_default),
        UNIT(Environment, bytes_take_binary_units),
        UNIT(Environment, counts_take_no_units),
        UNIT(Environment, misspelt_names_are_told_the_nearest),
        UNIT(Environment, names_near_none_are_told_where_the_list_is),
        UNIT(Environment, variables_of_others_are_left_alone),
        UNIT(Environment, tag_lists_are_checked),
        UNIT(Environment, tag_lists_select_what_they_name),
        UNIT(Environment, communicators_are_selected_by_pattern),
        UNIT(Environment, ring_max_below_ring_min_is_raised),
        UNIT(Environment, ring_min_alone_takes_ring_max_along),
        UNIT(Environment, ring_sizes_become_powers_of_two),
        UNIT(Environment, reports_are_checked),
        UNIT(Environment, profiles_are_checked),
        UNIT(Environment, agreement_holds_what_all_ranks_must_share),
        UNIT(Environment, log_levels_follow_their_names),
    };
    return run_all(tests, argc, argv);
}
