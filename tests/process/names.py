# SPDX-License-Identifier: MIT
"""Names of communicators choose what rides in the rings (STORM_COMMS)."""

from jobs import *  # noqa: F403

# 30 messages on each of four communicators, of which three get names.
NAMED_C = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    const char *names[] = {"particles", "particles of species 2", "fields", NULL};
    MPI_Comm comms[4];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int c = 0; c < 4; ++c) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]);
        if (names[c])
            MPI_Comm_set_name(comms[c], names[c]);
        for (int i = 0; i < 30; ++i) {
            int out[50] = {rank, i}, in[50] = {-1, -1};
            MPI_Sendrecv(out, 50, MPI_INT, 1 - rank, 1, in, 50, MPI_INT, 1 - rank, 1, comms[c], MPI_STATUS_IGNORE);
            if (in[0] != 1 - rank || in[1] != i)
                MPI_Abort(MPI_COMM_WORLD, 9);
        }
    }
    MPI_Comm_set_name(comms[0], "renamed");
    for (int i = 0; i < 7; ++i) {
        int out = i, in = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 2, &in, 1, MPI_INT, 1 - rank, 2, comms[0], MPI_STATUS_IGNORE);
        if (in != i)
            MPI_Abort(MPI_COMM_WORLD, 9);
    }
    if (rank == 0)
        printf("names are right\n");
    MPI_Finalize();
    return 0;
}
"""

NAMED_FORTRAN = """
program named
  use mpi
  implicit none
  integer comm, rank, i, ierr, in
  call mpi_init(ierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
  call mpi_comm_dup(MPI_COMM_WORLD, comm, ierr)
  call mpi_comm_set_name(comm, '  particles   ', ierr)
  do i = 1, 30
    call mpi_sendrecv(i, 1, MPI_INTEGER, 1 - rank, 1, in, 1, MPI_INTEGER, 1 - rank, 1, comm, &
                      MPI_STATUS_IGNORE, ierr)
    if (in /= i) call mpi_abort(MPI_COMM_WORLD, 9, ierr)
    call mpi_sendrecv(i, 1, MPI_INTEGER, 1 - rank, 1, in, 1, MPI_INTEGER, 1 - rank, 1, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
    if (in /= i) call mpi_abort(MPI_COMM_WORLD, 9, ierr)
  end do
  if (rank == 0) print '(a)', 'names are right'
  call mpi_finalize(ierr)
end program named
"""


def counts(bench, program, comms):
    ended = bench.run(*bench.job(2, program, settings={**REPORT, "STORM_COMMS": comms}))
    right(ended, "names are right")
    return tuple(int(ended.counters()[name]) for name in ("ring_messages", "native_messages"))


@test
def names_of_communicators_choose_what_rides(bench):
    source = os.path.join(bench.root, "named.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write(NAMED_C)
    subprocess.run(["mpicc", "-o", os.path.join(bench.root, "named"), source], check=True, env=bench.env)
    for comms, ring in (("all", 127), ("none", 0), ("particles", 30), ("particles*", 60), ("fields,renamed", 37),
                        ("MPI_COMM_WORLD", 0), ("*s,particles of*", 90)):
        found = counts(bench, "named", comms)
        check(found == (2 * ring, 2 * (127 - ring)), f"STORM_COMMS={comms}: {found}")


@test
def names_that_fortran_gives_choose_what_rides(bench):
    if not shutil.which("mpifort"):
        raise Skip("mpifort is not installed")
    source = os.path.join(bench.root, "named_fortran.f90")
    with open(source, "w", encoding="utf-8") as f:
        f.write(NAMED_FORTRAN)
    subprocess.run(["mpifort", "-fallow-argument-mismatch", "-o", os.path.join(bench.root, "named_fortran"), source],
                   check=True, env=bench.env, cwd=bench.root)
    for comms, ring in (("particles", 30), ("MPI_COMM_WORLD", 30), ("particles,MPI_COMM_WORLD", 60)):
        found = counts(bench, "named_fortran", comms)
        check(found == (2 * ring, 2 * (60 - ring)), f"STORM_COMMS={comms}: {found}")
