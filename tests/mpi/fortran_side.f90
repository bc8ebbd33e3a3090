! SPDX-License-Identifier: MIT
! The Fortran half of handles_cross_languages.c.
subroutine fortran_waitall(n, requests, sources)
  use mpi
  implicit none
  integer n, requests(n), sources(n), statuses(MPI_STATUS_SIZE, n), ierr
  call mpi_waitall(n, requests, statuses, ierr)
  sources = statuses(MPI_SOURCE, :)
end subroutine fortran_waitall

subroutine fortran_waitany(n, requests, index, source)
  use mpi
  implicit none
  integer n, requests(n), index, source, status(MPI_STATUS_SIZE), ierr
  call mpi_waitany(n, requests, index, status, ierr)
  source = status(MPI_SOURCE)
end subroutine fortran_waitany

subroutine fortran_exchange(peer, in, out, requests)
  use mpi
  implicit none
  integer peer, in, out, requests(2), ierr
  call mpi_irecv(in, 1, MPI_INTEGER, peer, 40, MPI_COMM_WORLD, requests(1), ierr)
  call mpi_issend(out, 1, MPI_INTEGER, peer, 40, MPI_COMM_WORLD, requests(2), ierr)
end subroutine fortran_exchange

subroutine fortran_mrecv(message, value)
  use mpi
  implicit none
  integer message, value, ierr
  call mpi_mrecv(value, 1, MPI_INTEGER, message, MPI_STATUS_IGNORE, ierr)
end subroutine fortran_mrecv
