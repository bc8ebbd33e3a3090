// SPDX-License-Identifier: MIT
// Where the rings of this process live: shared memory for its node, a fabric for other
// hosts. Which, follows from STORM_BACKEND, from where the ranks are, and from what opens.
#pragma once

#include "base/backend.hh"
#include "base/real_mpi.hh"
#include "job_report.hh"
#include "pmix.hh"
#include "settings.hh"

#include <memory>
#include <string>

namespace storm::interpose {

class Backends {
public:
    // Before MPI_Init. False, with the reason, when what was named cannot be opened.
    bool open(const Settings& settings, const Pmix& board, Reporter& reporter, std::string& why);
    // For the others to find us, one word each, and what a peer of theirs is called.
    std::string addresses() const;
    std::string near_address(const std::string& theirs, std::string& why) const;
    std::string fabric_address(const std::string& theirs, std::string& why) const;
    // What all ranks must have to have a fabric; "" when this one has none.
    std::string fabric_name() const { return fabric_ != nullptr ? fabric_->name() : ""; }
    void close_fabric(const std::string& why);
    void close();

    // After MPI_Init and before MPI_Finalize, on all ranks alike.
    void begin(const RealMpi& real, int rank, int size);
    void end(const RealMpi& real);

    Backend* near() const { return near_.get(); }
    Backend* fabric() const { return fabric_.get(); }
    const std::string& fabric_reason() const { return fabric_reason_; }
    std::string names() const;
    std::vector<std::string> facts() const; // of the fabric, "key: value" each

private:
    std::unique_ptr<Backend> open_one(const std::string& name, const Settings& settings, const Pmix& board,
                                      Reporter& reporter, std::string& why) const;

    std::unique_ptr<Backend> near_, fabric_;
    std::string fabric_reason_;
    MPI_Comm comm_ = nullptr; // the fabric's
};

} // namespace storm::interpose
