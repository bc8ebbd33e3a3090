// SPDX-License-Identifier: MIT
// The Backend contract (shim/base/backend.hh) as tests: one body for every backend and every
// publication mode. A Site is a few ranks with a backend each, in this process; how they are
// made is the only thing that differs.
#pragma once

#include "cmocka.hh"

#include "ring.hh"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace storm::unit {

constexpr std::uint64_t kRingBytes = 8192, kSiteMemory = 1 << 20;

struct Site {
    virtual ~Site() { ends.clear(); }
    Backend& operator[](int rank) { return *ends[static_cast<std::size_t>(rank)]; }

    // Each rank looks once, and words are carried.
    void look();
    // Enough for whatever is under way.
    virtual void settle();
    // Where a caller broke the contract, in words.
    virtual std::string broken() { return {}; }
    // Looks that are certainly enough for anything to happen.
    virtual unsigned patience() const { return 200000; }
    virtual bool reconnects() const { return true; }
    virtual bool drops_first() const { return false; } // an old lane, before its reader closes it

    std::vector<std::unique_ptr<Backend>> ends;
    Log log;
};

// One lane, driven from both of its ends.
struct Link {
    Link(Site& site, int from, int to) : site(site), from(from), to(to) {}

    Status claim(std::uint64_t bytes = kRingBytes); // until it is granted or refused
    bool found();                                   // the receiver has it
    bool put(Kind kind, const void* payload, std::uint64_t bytes);
    bool put(int number) { return put(Kind::eager, &number, sizeof number); }
    int get(); // a number; -1: nothing there; -2: what nobody sent
    int wait(); // for the next number
    bool grow(std::uint64_t bytes);
    bool follow(); // reads the record that names the next lane, and opens it

    Site& site;
    const int from, to;
    Lane lane;
    RingWriter out;
    RingReader in;
    std::uint64_t announced = 0;
    std::vector<Lane> old; // grown out of, not yet dropped
    std::string why;
};

// What one backend, in one mode, is shown. `records`: of the long exchange.
struct Trials {
    std::string name;
    std::function<std::unique_ptr<Site>()> make;
    unsigned records = 20000;
};

// The tests of one set of trials; names and closures live as long as the program.
std::vector<CMUnitTest> conformance(const Trials& trials);

} // namespace storm::unit
