// SPDX-License-Identifier: MIT
// The exported MPI_X and PMPI_X, generated from calls.tbl.
#include "process.hh"

namespace storm::interpose {
#include "wrappers.inc"
} // namespace storm::interpose
