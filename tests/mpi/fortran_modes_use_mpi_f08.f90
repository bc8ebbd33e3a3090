! SPDX-License-Identifier: MIT
! What fortran_modes_body.inc does, through `use mpi_f08`.
! run: ranks=2,3 timeout=60
program fortran_modes_use_mpi_f08
  use mpi_f08
  implicit none
  include 'fortran_modes_declarations.inc'
  type(MPI_Request) requests(8)
  type(MPI_Comm) made(2), part
  type(MPI_Status) status
  type(MPI_Status) statuses(8)
  include 'fortran_modes_body.inc'
contains
  include 'fortran_check.inc'
  integer function source_at(k)
    integer k
    source_at = statuses(k)%MPI_SOURCE
  end function source_at
  integer function tag_at(k)
    integer k
    tag_at = statuses(k)%MPI_TAG
  end function tag_at
  integer function count_at(k, what)
    integer k
    type(MPI_Datatype) what
    call mpi_get_count(statuses(k), what, count_at, ierr)
  end function count_at
  logical function is_null(request)
    type(MPI_Request) request
    is_null = request .eq. MPI_REQUEST_NULL
  end function is_null
  integer function detached()
    use, intrinsic :: iso_c_binding, only: c_ptr
    type(c_ptr) address
    call mpi_buffer_detach(address, detached, ierr)
  end function detached
  integer function sentinels()
    integer, external :: guard_words_of_mpifh
    sentinels = guard_words_of_mpifh()
  end function sentinels
end program fortran_modes_use_mpi_f08
