// SPDX-License-Identifier: MIT
// photon's options and its two named settings, and how it stops on bad ones.
#pragma once

#define OMPI_SKIP_MPICXX 1 // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace photon {

struct Options {
    std::int64_t particles = 200'000; // emitted over all steps
    int steps = 10;
    int cells = 16;       // along each edge of the box
    double opacity = 1.0; // mean number of collisions a cell length
    int buffer = 64;      // photons a message
    int poll = 4;         // particles between two polls
    std::uint64_t seed = 20240607;
    int work = 0; // terms of the extra sum at each event
    bool derived = false;
    bool time = false;
};

// The two settings that the benchmarks use; the other options still override.
inline bool apply_setting(Options& o, std::string_view name)
{
    if (name == "comm") {
        o.particles = 3'600'000;
        o.steps = 90;
        o.cells = 4;
        o.opacity = 0.05;
        o.buffer = 48;
        o.poll = 1;
        o.work = 0;
    } else if (name == "compute") {
        o.particles = 200'000;
        o.steps = 4;
        o.cells = 24;
        o.opacity = 2.0;
        o.buffer = 64;
        o.poll = 10;
        o.work = 128;
    } else {
        return false;
    }
    return true;
}

[[noreturn]] inline void stop(const std::string& why)
{
    std::fprintf(stderr, "photon: %s\n", why.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
    std::abort();
}

inline constexpr const char* kUsage =
    "options: --setting comm|compute --particles N --steps N --cells N --opacity X\n"
    "         --buffer N --poll N --seed N --work N --derived --time";

inline double number(std::string_view option, const char* text)
{
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0) || value > 9e15) {
        stop(std::string(option) + ": not a number of use: " + text + "\n" + kUsage);
    }
    return value;
}

inline Options parse(int argc, char** argv)
{
    Options o;
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::string_view(argv[i]) == "--setting" && !apply_setting(o, argv[i + 1])) {
            stop(std::string("no such setting: ") + argv[i + 1] + "\n" + kUsage);
        }
    }
    for (int i = 1; i < argc; ++i) {
        const std::string_view name = argv[i];
        if (name == "--time") {
            o.time = true;
            continue;
        }
        if (name == "--derived") {
            o.derived = true;
            continue;
        }
        if (i + 1 == argc) {
            stop("unknown option or no value: " + std::string(name) + "\n" + kUsage);
        }
        const char* value = argv[++i];
        if (name == "--setting") {
            continue;
        } else if (name == "--particles") {
            o.particles = static_cast<std::int64_t>(number(name, value));
        } else if (name == "--steps") {
            o.steps = static_cast<int>(number(name, value));
        } else if (name == "--cells") {
            o.cells = static_cast<int>(number(name, value));
        } else if (name == "--opacity") {
            o.opacity = number(name, value);
        } else if (name == "--buffer") {
            o.buffer = static_cast<int>(number(name, value));
        } else if (name == "--poll") {
            o.poll = static_cast<int>(number(name, value));
        } else if (name == "--seed") {
            o.seed = static_cast<std::uint64_t>(number(name, value));
        } else if (name == "--work") {
            o.work = static_cast<int>(number(name, value));
        } else {
            stop("unknown option: " + std::string(name) + "\n" + kUsage);
        }
    }
    if (o.particles > std::int64_t{1} << 30) {
        stop("more than 2^30 particles: the energy tallies would overflow");
    }
    if (o.steps < 1 || o.cells < 1 || o.cells > 1000 || o.buffer < 1 || o.poll < 1) {
        stop(std::string("steps, cells (at most 1000), buffer, poll: at least 1\n") + kUsage);
    }
    return o;
}

} // namespace photon
