/* SPDX-License-Identifier: MIT */
// A tool for Fortran programs (mpif.h and `use mpi`): counts by the Fortran names of the
// calls, passes them on to the pmpi_ ones, and prints this rank's totals at the end.
#include <mpi.h>
#include <stdio.h>

#define COUNTED(name, params, args)            \
    void pmpi_##name##_ params;                \
    void mpi_##name##_ params;                 \
    static long name##_calls;                  \
    void mpi_##name##_ params {                \
        ++name##_calls;                        \
        pmpi_##name##_ args;                   \
    }

COUNTED(isend,
        (void *data, MPI_Fint *n, MPI_Fint *type, MPI_Fint *to, MPI_Fint *tag, MPI_Fint *comm,
         MPI_Fint *request, MPI_Fint *error),
        (data, n, type, to, tag, comm, request, error))
COUNTED(irecv,
        (void *data, MPI_Fint *n, MPI_Fint *type, MPI_Fint *from, MPI_Fint *tag, MPI_Fint *comm,
         MPI_Fint *request, MPI_Fint *error),
        (data, n, type, from, tag, comm, request, error))
COUNTED(recv,
        (void *data, MPI_Fint *n, MPI_Fint *type, MPI_Fint *from, MPI_Fint *tag, MPI_Fint *comm,
         MPI_Fint *status, MPI_Fint *error),
        (data, n, type, from, tag, comm, status, error))
COUNTED(waitall, (MPI_Fint *n, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *error),
        (n, requests, statuses, error))
COUNTED(startall, (MPI_Fint *n, MPI_Fint *requests, MPI_Fint *error), (n, requests, error))
COUNTED(request_free, (MPI_Fint *request, MPI_Fint *error), (request, error))

void pmpi_finalize_(MPI_Fint *error);
void mpi_finalize_(MPI_Fint *error);
void mpi_finalize_(MPI_Fint *error) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("%d: tool: isend %ld irecv %ld recv %ld waitall %ld startall %ld free %ld\n", rank,
           isend_calls, irecv_calls, recv_calls, waitall_calls, startall_calls, request_free_calls);
    fflush(stdout);
    pmpi_finalize_(error);
}
