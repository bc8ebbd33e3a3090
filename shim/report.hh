// SPDX-License-Identifier: MIT
// What a job did: the data of the report, and its forms. Counters are taken from the
// Rank, carried to rank 0 as bytes, and shown as lines, JSON, or one HTML page.
#pragma once

#include "base/status.hh"
#include "counters.hh"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace storm {

// What one rank sent to one other.
struct PairReport {
    enum class Path : std::uint32_t { none, ring, carried }; // as Channel::Path

    std::int32_t peer = 0;
    Path path = Path::none;
    std::uint64_t ring_messages = 0, ring_bytes = 0;     // payload in the ring
    std::uint64_t native_messages = 0, native_bytes = 0; // payload by the real MPI
    std::uint64_t ring_size = 0;                         // now
    std::uint64_t high_water = 0;                        // bytes
    std::uint64_t growths = 0;
};

// What happened between storm_region_begin and storm_region_end of one name.
struct RegionReport {
    std::string name;
    std::uint64_t entries = 0;
    std::uint64_t time_us = 0;
    Counters counters;
};

struct RankReport {
    std::int32_t rank = 0;
    std::int32_t pid = 0;
    std::string host;
    Counters counters;
    std::uint64_t high_water = 0;
    std::vector<PairReport> pairs;       // by peer
    std::vector<std::string> fallbacks;  // why pairs are carried
    std::vector<RegionReport> regions;
    std::vector<std::string> waits;      // what it waits for, in the middle of a job
};

struct JobReport {
    struct Setting {
        std::string name, value, origin;
    };

    int ranks = 0;
    bool routed = true;
    std::string why;     // the job is not routed
    std::string when = "MPI_Finalize";
    std::string backend;
    std::string backend_why;
    std::vector<std::pair<std::string, std::string>> facts; // of the machine and the real MPI
    std::vector<Setting> settings;                          // of the rank that tells

    Counters sum;                      // over all ranks
    std::uint64_t ring_high_water = 0; // the largest of any ring
    std::int64_t ranks_with_reasons = 0;
    std::string first_reason;          // of the lowest rank that has one

    std::vector<RankReport> each;      // all ranks, or the one that tells, or none
};

// Adds one rank to the sums of the job, and to `each`.
void merge(JobReport& job, RankReport rank);

// One rank's part as bytes, and back; false when they are not such bytes.
std::string packed(const RankReport& rank);
[[nodiscard]] bool unpack(std::string_view bytes, RankReport& rank);

// ---- its forms

// Lines `storm: key value`, one fact a line; `storm: rank N: key value` for a rank alone.
std::string summary(const JobReport& job);
std::string json(const JobReport& job);
std::string html(const JobReport& job); // needs nothing beside it

// ---- where it goes

struct ReportTarget {
    enum class Form { off, summary, json, html, unknown };

    Form form = Form::off;
    std::string file;     // "" for standard error
    bool named = false;   // by the user
};

// Reads "off", "summary[:FILE]", "json[:FILE]" or "html[:FILE]".
ReportTarget report_target(const std::string& setting);

// The file for one rank's report in the middle of a job: its number before the ending.
std::string file_of_rank(const std::string& file, int rank);

std::string report_text(const JobReport& job, ReportTarget::Form form);

// To the file, or to standard error when it is ""; false with errno set, and no part of
// a file is left.
bool write_text(const std::string& file, const std::string& text);

} // namespace storm
