// SPDX-License-Identifier: MIT
// How particles go to the ranks next door: one small interface, three implementations.
//
//   legacy  as many codes do it: a buffer a neighbour sent by MPI_Isend, one MPI_Irecv or
//           several posted a neighbour, MPI_Test on every open request at each look,
//           receives cancelled and a barrier at the end of a step
//   tuned   what two-sided MPI allows at its best: persistent receives from any source of
//           which only the oldest is tested, sends looked at only when a buffer is
//           needed, looks that become rarer while nothing comes
//   direct  a channel of storm.h
//
// A step ends by MPI_Iallreduce over particles sent and received, in all three.
#pragma once

#define OMPI_SKIP_MPICXX 1 // only the C interface is used
#define MPICH_SKIP_MPICXX 1
#include "particle.hh"

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace transport {

struct ExchangeSetup {
    const std::vector<int>& peers; // ranks; `push` takes an index into it
    std::vector<Particle>& work;   // where arrivals go
    int batch;                     // particles a message
    int receives = 1;              // posted a neighbour (legacy)
};

struct ExchangeCounts {
    std::int64_t sent = 0, received = 0; // particles
    std::int64_t messages = 0, looks = 0;
};

class Exchange {
public:
    virtual ~Exchange() = default;

    virtual void begin_step() = 0;
    // May send, and receive meanwhile when no buffer is free.
    virtual void push(int peer, const Particle& p) = 0;
    // What was pushed is on its way.
    virtual void flush() = 0;
    virtual void poll() = 0;
    // Asked at each turn of the loop; `idle`: this rank has no work. Becomes true on all
    // ranks, when all are idle and nothing is under way.
    virtual bool over(bool idle) = 0;
    virtual void end_step() = 0;

    const ExchangeCounts& counts() const { return counts_; }

protected:
    ExchangeCounts counts_;
};

// Null for an unknown name.
std::unique_ptr<Exchange> open_exchange(std::string_view name, const ExchangeSetup& setup);
std::unique_ptr<Exchange> open_legacy(const ExchangeSetup& setup);
std::unique_ptr<Exchange> open_tuned(const ExchangeSetup& setup);
std::unique_ptr<Exchange> open_direct(const ExchangeSetup& setup);

[[noreturn]] void stop(const char* why);

// The end of a step: rounds of an MPI_Iallreduce over what was sent and received, which
// a rank joins when it is idle. Two rounds in a row with the same sums, and as much
// received as sent, mean that nothing moved between them, and nothing can move again.
class Termination {
public:
    bool over(bool idle, const ExchangeCounts& counts)
    {
        if (request_ == MPI_REQUEST_NULL) {
            if (!idle) {
                return false;
            }
            mine_ = {counts.sent, counts.received};
            MPI_Iallreduce(mine_.data(), sum_.data(), 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &request_);
        }
        int done = 0;
        MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
        if (done == 0) {
            return false;
        }
        const bool ended = sum_ == before_ && sum_[0] == sum_[1];
        before_ = sum_;
        if (ended) {
            before_.fill(-1);
        }
        return ended;
    }

private:
    using Counts = std::array<std::int64_t, 2>;
    Counts mine_{}, sum_{}, before_{-1, -1};
    MPI_Request request_ = MPI_REQUEST_NULL;
};

} // namespace transport
