// SPDX-License-Identifier: MIT
// The end of a job, by wave.h over the private communicator of the real MPI: all ranks
// have come to it, and everything that they sent has arrived.
#pragma once

#include "base/real_mpi.hh"
#include "wave.h"

#include <cstdint>
#include <vector>

namespace storm {

class Termination {
public:
    Termination(const RealMpi& real, MPI_Comm comm, int rank, int ranks);
    Termination(const Termination&) = delete;

    // One look, which never blocks. `own`: what this rank has sent and what has arrived
    // here, if it is idle. True once all ranks were idle and nothing was under way, or when
    // the real MPI refuses to tell (error()); it is not called again then.
    bool step(bool idle, storm_sums own);

    std::uint64_t messages() const { return messages_; } // sent by this rank
    std::uint64_t waves() const { return waves_; }
    int error() const { return error_; }

private:
    bool came();
    bool left();
    void act(storm_wave_act what);
    void post(storm_sums message, int to);

    const RealMpi& real_;
    const MPI_Comm comm_;
    storm_wave wave_;
    storm_sums in_{}, out_{};
    MPI_Request receive_;
    std::vector<MPI_Request> sends_; // of out_
    std::uint64_t messages_ = 0, waves_ = 0;
    int error_ = MPI_SUCCESS;
};

} // namespace storm
