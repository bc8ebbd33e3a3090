// SPDX-License-Identifier: MIT
// What is particular to Open MPI beyond the MPI interface itself. Another MPI gets its
// own namespace with these functions.
#pragma once

#include <cstdint>
#include <string>

namespace storm::interpose::open_mpi {

// A function that Open MPI's progress engine calls from within its own blocking calls.
bool register_progress(int (*callback)());
void unregister_progress(int (*callback)());

// After MPI_Init: this build keeps what we rely on where we expect it.
bool known_build(std::string& why);

// The largest message that the real MPI sends without waiting for its receiver, by a
// variable of a transport that it has loaded, and which one that is; 0 when none is known.
std::uint64_t eager_limit(bool one_node, std::string& from);

// What the launcher's environment tells: ranks of this job, those on this node, and which
// of these this one is.
constexpr const char* kWorldSize = "OMPI_COMM_WORLD_SIZE";
constexpr const char* kLocalSize = "OMPI_COMM_WORLD_LOCAL_SIZE";
constexpr const char* kLocalRank = "OMPI_COMM_WORLD_LOCAL_RANK";

} // namespace storm::interpose::open_mpi

namespace storm::interpose {

// A positive number in a variable of the environment, or `fallback`.
int number_from(const char* variable, int fallback);

} // namespace storm::interpose
