// SPDX-License-Identifier: MIT
// One verdict a job: routed, or native on every rank with one reason.
#pragma once

#include "base/real_mpi.hh"
#include "pmix.hh"

#include <string>

namespace storm::interpose {

struct Verdict {
    bool routed = false;
    std::string reason; // why not
    bool speaks = false; // this rank prints the reason
    std::string no_fabric; // why there is none between hosts; "" when all have `fabric`
};

// What a rank puts on the board before the real MPI_Init.
std::string presence(const std::string& agreement, const std::string& address);
// The backends' addresses in a presence.
std::string address_in(const std::string& presence);

// After the real MPI_Init. `own` is this rank's presence, `trouble` why it cannot take
// part ("" when it can), `fabric` the one that it has opened ("" when there is none). The
// ranks form a binary tree: each looks its neighbours in the tree up on the board; those
// that are there combine their words up and down the tree by messages of the real MPI,
// which no rank without the shim ever sees.
Verdict agree(const RealMpi& real, Pmix& board, int rank, int size, const std::string& own,
              const std::string& trouble, const std::string& fabric, int seconds);

constexpr const char* kPresenceKey = "storm.presence";

} // namespace storm::interpose
