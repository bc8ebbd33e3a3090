// SPDX-License-Identifier: MIT
// The real MPI as the shim calls it: one pointer a function, the predefined handles
// (addresses inside libmpi, unknown until it is loaded) and what is particular to
// one MPI. interpose/ fills it; tests put their own functions there. Only this
// object is ever used to call the real MPI.
#pragma once

#include <mpi.h>

#include <cstddef>

namespace storm {

struct RealMpi {
#define STORM_REAL(name) decltype(&PMPI_##name) name = nullptr;
#include "real_calls.inc"
#undef STORM_REAL

    MPI_Comm comm_world = nullptr;
    MPI_Comm comm_self = nullptr;
    MPI_Comm comm_null = nullptr;
    MPI_Request request_null = nullptr;
    MPI_Request request_done = nullptr; // the shared request of a send that is complete at once
    MPI_Message message_null = nullptr;
    MPI_Message message_no_proc = nullptr;
    MPI_Datatype datatype_null = nullptr;
    MPI_Datatype byte = nullptr;
    MPI_Datatype int64 = nullptr;
    MPI_Datatype type_int = nullptr;
    MPI_Datatype type_unsigned_long_long = nullptr;
    MPI_Datatype type_char = nullptr;
    MPI_Op op_max = nullptr;
    MPI_Op op_sum = nullptr;
    MPI_Errhandler errors_return = nullptr;
    MPI_Info info_null = nullptr;

    // One turn of the real MPI's progress engine; it never blocks.
    void (*progress)() = nullptr;

    // MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE are small constants in mpi.h.
};

} // namespace storm
