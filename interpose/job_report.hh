// SPDX-License-Identifier: MIT
// The report of a job: gathered on rank 0 in MPI_Finalize, or one rank's own when a
// signal or MPI_Abort asks for it in the middle.
#pragma once

#include "process.hh"
#include "report.hh"

#include <atomic>

namespace storm::interpose {

class Reporter {
public:
    // Of a routed job. Takes STORM_REPORT_SIGNAL, unless the program has it.
    void begin(const Settings& settings, const std::string& backend, const std::string& backend_why);
    void fact(const std::string& key, const std::string& value) { facts_.emplace_back(key, value); }
    // What a backend tells, "key: value" each; the last telling counts.
    void backend_facts(const std::vector<std::string>& facts) { backend_facts_ = facts; }

    // Collective over `everybody`: rank 0's setting says whether and how.
    void at_finalize(Rank& rank, MPI_Comm everybody) const;
    // This rank alone; it calls no MPI.
    void alone(const RankReport& rank, const std::string& when) const;
    // By the one rank that says why the job is not routed, if a file is wanted.
    static void not_routed(const Settings& settings, int ranks, const std::string& why);

    // Set by the signal handler, taken by the Rank.
    std::atomic<bool>& asked() const;
    std::string signal_name() const { return "signal " + settings_->report_signal; }
    bool wanted() const { return report_target(settings_->report).form != ReportTarget::Form::off; }

private:
    JobReport head(int ranks) const;

    const Settings* settings_ = nullptr;
    std::string backend_;
    std::string backend_why_;
    std::vector<std::pair<std::string, std::string>> facts_;
    std::vector<std::string> backend_facts_;
    int ranks_ = 1;
};

} // namespace storm::interpose
