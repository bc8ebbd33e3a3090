/* SPDX-License-Identifier: MIT */
// A PMPI tool: counts the calls it sees and prints their totals in MPI_Finalize; it
// talks to its other copies itself, through PMPI. Built with -DBY_NEXT_SYMBOL it hands
// some calls on to the next MPI_X instead, as tools do that chain.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#ifdef BY_NEXT_SYMBOL
static void find(void *function, const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(function, &symbol, sizeof symbol);
}
#define ON(result, name, types, args)                \
    do {                                             \
        static int (*next) types;                    \
        if (!next) find(&next, "MPI_" #name);        \
        result next args;                            \
    } while (0)
#else
#define ON(result, name, types, args) result PMPI_##name args
#endif

enum { SEND, ISEND, SSEND, RECV, IRECV, SENDRECV, WAIT, WAITALL, PROBE, START, BARRIER, CALLS };
static long count[CALLS];

int MPI_Send(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    ++count[SEND];
    ON(return, Send, (const void *, int, MPI_Datatype, int, int, MPI_Comm),
       (data, n, type, to, tag, comm));
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    ++count[ISEND];
    return PMPI_Isend(data, n, type, to, tag, comm, request);
}

int MPI_Ssend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    ++count[SSEND];
    return PMPI_Ssend(data, n, type, to, tag, comm);
}

int MPI_Recv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status) {
    ++count[RECV];
    return PMPI_Recv(data, n, type, from, tag, comm, status);
}

int MPI_Irecv(void *data, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    ++count[IRECV];
    return PMPI_Irecv(data, n, type, from, tag, comm, request);
}

int MPI_Sendrecv(const void *out, int n, MPI_Datatype type, int to, int tag, void *in, int m,
                 MPI_Datatype type_in, int from, int tag_in, MPI_Comm comm, MPI_Status *status) {
    ++count[SENDRECV];
    return PMPI_Sendrecv(out, n, type, to, tag, in, m, type_in, from, tag_in, comm, status);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    ++count[WAIT];
    ON(return, Wait, (MPI_Request *, MPI_Status *), (request, status));
}

int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[]) {
    ++count[WAITALL];
    return PMPI_Waitall(n, requests, statuses);
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status) {
    ++count[PROBE];
    return PMPI_Probe(from, tag, comm, status);
}

int MPI_Start(MPI_Request *request) {
    ++count[START];
    return PMPI_Start(request);
}

int MPI_Barrier(MPI_Comm comm) {
    ++count[BARRIER];
    ON(return, Barrier, (MPI_Comm), (comm));
}

int MPI_Finalize(void) {
    static const char *names[] = {"send", "isend",   "ssend", "recv",  "irecv",  "sendrecv",
                                  "wait", "waitall", "probe", "start", "barrier"};
    long all[CALLS], other[CALLS];
    int rank, size;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < CALLS; ++i) all[i] = count[i];
    if (rank) PMPI_Send(all, CALLS, MPI_LONG, 0, 32000, MPI_COMM_WORLD);
    for (int from = 1; rank == 0 && from < size; ++from) {
        PMPI_Recv(other, CALLS, MPI_LONG, MPI_ANY_SOURCE, 32000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < CALLS; ++i) all[i] += other[i];
    }
    for (int i = 0; rank == 0 && i < CALLS; ++i) printf("tool: %s %ld\n", names[i], all[i]);
    fflush(stdout);
    ON(return, Finalize, (void), ());
}
