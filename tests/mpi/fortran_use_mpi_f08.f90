! SPDX-License-Identifier: MIT
! The exchange of fortran_body.inc through `use mpi_f08`, with its handle types.
! run: ranks=2,3 timeout=60
! run: ranks=2 timeout=60 preload=libtool_counting_calls.so
program fortran_use_mpi_f08
  use mpi_f08
  implicit none
  include 'fortran_declarations.inc'
  type(MPI_Request) requests(6), persistent(2)
  type(MPI_Message) message
  type(MPI_Datatype) type, types(2)
  type(MPI_Status) status
  type(MPI_Status), target :: statuses(6)
  type(MPI_Status), pointer :: statuses_1
  statuses_1 => statuses(1)
  include 'fortran_body.inc'
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
  ! The sentinels of this binding are protected or opaque: those of mpif.h are checked.
  integer function sentinels()
    integer, external :: guard_words_of_mpifh
    sentinels = guard_words_of_mpifh()
  end function sentinels
end program fortran_use_mpi_f08
