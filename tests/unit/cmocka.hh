// SPDX-License-Identifier: MIT
// The only way into cmocka: its header wants others before it and knows no C++, and its macro `fail`
// breaks the C++ streams (and `skip` our ring).
//
// A failing assertion jumps past destructors. So what a test owns stands in a fixture,
// made and destroyed by cmocka's setup and teardown, and a test is a function that is
// handed its fixture:
//
//     static void empty_ring_gives_nothing(Rings& f) { ... }
//     const CMUnitTest tests[] = { UNIT(Rings, empty_ring_gives_nothing) };
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <csetjmp>
#include <exception>
#include <string>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}
#undef fail
#undef skip
#define cmocka_skip() _skip(__FILE__, __LINE__)

namespace storm::unit {

// Fails the running test with a sentence; does not return.
[[gnu::format(printf, 3, 4)]] inline void failed(const char* file, int line, const char* format, ...)
{
    static char text[1000];
    std::va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print_error("%s\n", text);
    _fail(file, line);
}

template <class Fixture>
int make(void** state)
{
    try {
        *state = new Fixture;
        return 0;
    } catch (const std::exception& e) {
        print_error("setup: %s\n", e.what());
        return -1;
    }
}

template <class Fixture>
int drop(void** state)
{
    delete static_cast<Fixture*>(*state);
    return 0;
}

template <class Fixture, void (*test)(Fixture&)>
void run(void** state)
{
    static char thrown[400];
    try {
        return test(*static_cast<Fixture*>(*state));
    } catch (const std::exception& e) {
        std::snprintf(thrown, sizeof thrown, "%s", e.what());
    } catch (...) {
        std::snprintf(thrown, sizeof thrown, "an exception of unknown type");
    }
    failed(__FILE__, __LINE__, "thrown: %s", thrown);
}

// For tests that own nothing.
struct Nothing {};

} // namespace storm::unit

#define UNIT_NAMED(name, Fixture, test)                                                            \
    {                                                                                              \
        name, ::storm::unit::run<Fixture, test>, ::storm::unit::make<Fixture>,                     \
            ::storm::unit::drop<Fixture>, nullptr                                                  \
    }
#define UNIT(Fixture, test) UNIT_NAMED(#test, Fixture, test)

// As assert_true, with a sentence in printf's manner that tells what was seen.
#define expect_that(condition, ...)                                                                \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ::storm::unit::failed(__FILE__, __LINE__, __VA_ARGS__);                                \
    } while (0)

// Runs the tests of one program; a first argument selects by cmocka's pattern.
#define run_all(tests, argc, argv)                                                               \
    ((argc) > 1 ? cmocka_set_test_filter((argv)[1]) : (void)0,                                     \
     cmocka_run_group_tests(tests, nullptr, nullptr))
