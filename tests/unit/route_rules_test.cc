// SPDX-License-Identifier: MIT
// shim/route_rules: the rules of STORM_ROUTE_FILE.
#include "cmocka.hh"

#include "route_rules.hh"

#include <sys/mman.h>
#include <unistd.h>

namespace storm::unit {
namespace {

struct Rules {
    ~Rules()
    {
        if (fd >= 0)
            ::close(fd);
    }
    // What is said about a text that is not right.
    const std::string& refusal(const std::string& text)
    {
        why.clear();
        if (rules.parse(text, "file", why))
            why = "(taken)";
        return why;
    }

    RouteRules rules;
    std::string why;
    int fd = -1;
};

void first_rule_that_fits_holds(Rules& f)
{
    assert_true(f.rules.parse("# particles\n\ncomm particles* tags=1,5-9 eager=16K # these\n"
                              "comm \"ghost cells\" ride=no\r\ncomm par*\tride=no\n", "file", f.why));
    assert_int_equal(f.rules.size(), 3);
    const RouteRule* particles = f.rules.find("particles 2");
    assert_non_null(particles);
    assert_true(particles->ride && particles->tags->has(6) && !particles->tags->has(2));
    assert_int_equal(*particles->eager_max, 16384);
    const RouteRule* ghosts = f.rules.find("ghost cells");
    assert_non_null(ghosts);
    assert_true(!ghosts->ride && !ghosts->tags && !ghosts->eager_max);
    assert_false(f.rules.find("party")->ride);
    assert_null(f.rules.find("MPI_COMM_WORLD"));
}

void wrong_lines_are_named(Rules& f)
{
    assert_string_equal(f.refusal("comm a\n\nroute b\n").c_str(), "file:3: a rule begins with: comm PATTERN");
    assert_string_equal(f.refusal("comm").c_str(), "file:1: a rule begins with: comm PATTERN");
    assert_string_equal(f.refusal("comm a tgas=1").c_str(),
                        "file:1: \"tgas=1\" is not known (known: ride=yes|no, tags=LIST, eager=BYTES)");
    assert_string_equal(f.refusal("comm a ride=maybe").c_str(), "file:1: ride=maybe is neither yes nor no");
    assert_string_equal(f.refusal("comm a tags=9-5").c_str(),
                        "file:1: tags=9-5: the range \"9-5\" ends before it begins");
    for (const char* eager : {"", "-1", "65M", "1T", "18446744073709551616"})
        expect_that(f.refusal("comm a eager=" + std::string(eager)).find("file:1: eager=") == 0, "%s", eager);
    assert_string_equal(f.refusal("comm \"a").c_str(), "file:1: a \" has no end");
    assert_int_equal(f.rules.size(), 0); // a wrong file has no rules at all
}

void file_that_cannot_be_read_is_named(Rules& f)
{
    assert_false(f.rules.read("/nowhere/rules", f.why));
    assert_string_equal(f.why.c_str(), "/nowhere/rules: No such file or directory");
    assert_false(f.rules.read("/", f.why));
    assert_string_equal(f.why.c_str(), "/: it is not a file");
}

void file_is_read_to_its_end(Rules& f)
{
    f.fd = ::memfd_create("rules", MFD_CLOEXEC);
    std::string text;
    for (int i = 0; i < 1000; ++i)
        text += "comm number" + std::to_string(i) + " ride=no\n";
    assert_int_equal(::write(f.fd, text.data(), text.size()), text.size());
    assert_true(f.rules.read("/proc/self/fd/" + std::to_string(f.fd), f.why));
    assert_int_equal(f.rules.size(), 1000);
    assert_non_null(f.rules.find("number999"));
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Rules, first_rule_that_fits_holds),
        UNIT(Rules, wrong_lines_are_named),
        UNIT(Rules, file_that_cannot_be_read_is_named),
        UNIT(Rules, file_is_read_to_its_end),
    };
    return run_all(tests, argc, argv);
}
