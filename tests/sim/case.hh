// SPDX-License-Identifier: MIT
// A case: what one seed makes of a job, as data. Any subset of its steps is a case too,
// which is how a failing one is made small.
#pragma once

#include "world.hh"

#include <set>
#include <string>
#include <vector>

namespace storm::sim {

struct Step {
    enum class Kind {
        isend,     // peer, comm, tag, bytes, mode, typed
        send,      // blocking, of what the real MPI takes without a receiver
        persist,   // a persistent send that is started and given back
        irecv,     // peer or any, tag or any, comm, typed
        restart,   // a persistent receive, started
        probe,     // peer or any, tag or any, comm
        matched,   // the same, and received if it found something
        complete,  // some requests, by one of Test, Testany, Testall, Testsome, Wait
        cancel,    // a receive
        compute,   // without MPI, for `time`
        collective,// all ranks
        drop_link, // to the peer, for `time`
        die,       // or call exit
    };
    Kind kind = Kind::compute;
    int rank = 0;
    int peer = 0, comm = 0, tag = 0;
    std::uint64_t bytes = 0;
    storm::Mode mode = storm::Mode::standard;
    bool typed = false;
    int which = 0; // choices of the moment
    Time time = 0;
};

struct Case {
    std::uint64_t seed = 1;
    WorldOptions world;
    std::vector<Step> steps;
    int faults = 0;        // the fault point that fails, from 1; 0: none
    std::string fault_name;
};

struct CaseChoice {
    std::uint64_t seed = 1;
    const Attributes* row = nullptr;
    Mode mode = Mode::stamped;
    bool half_tags = false;
    bool deaths = false;
};

Case make_case(const CaseChoice& choice);
std::string text_of(const Step& step);

struct Outcome {
    std::string violation;      // "" when all is right
    std::string ended;          // "", or how the job ended before its time
    std::uint64_t messages = 0, events = 0;
    int fault_points = 0;       // that were met
    std::string fault_name;     // of the one that failed
    std::uint64_t digest = 0;   // of all that happened: equal for equal cases
};

// Runs those steps whose places are in `keep` (null: all).
Outcome play(const Case& c, const std::vector<std::size_t>* keep = nullptr);

} // namespace storm::sim
