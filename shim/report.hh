// What the job did, printed once at MPI_Finalize.
#pragma once

#include "counters.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace storm {

struct JobReport {
    int ranks = 0;
    std::string backend;
    std::string nic; // what rank 0 uses for other hosts and why; "" when none was sought
    Counters sum;                     // over all ranks
    std::uint64_t ring_high_water = 0; // the largest of any ring
    std::int64_t ranks_with_reasons = 0;
    std::string first_reason;         // of the lowest rank that has one
};

// Lines `storm: key value`, one fact a line.
std::string summary(const JobReport& report);

// Writes to stderr, or to the file in "summary:FILE"; false with errno set.
bool write_report(const std::string& setting, const std::string& text);

} // namespace storm
