// SPDX-License-Identifier: MIT
// What exists from the end of MPI_Init on, for backends that move bytes by the real MPI.
#pragma once

#include "real_mpi.hh"

namespace storm {

struct Begin {
    const RealMpi* real = nullptr;
    MPI_Comm comm = nullptr; // of all ranks, the backend's own, errors returned
    int world_rank = 0;
    int world_size = 1;
};

} // namespace storm
