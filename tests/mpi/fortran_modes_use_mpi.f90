! SPDX-License-Identifier: MIT
! What fortran_modes_body.inc does, through `use mpi`.
! run: ranks=2,3 timeout=60
program fortran_modes_use_mpi
  use mpi
  implicit none
  include 'fortran_modes_declarations.inc'
  integer requests(8), made(2), part
  integer status(MPI_STATUS_SIZE)
  integer statuses(MPI_STATUS_SIZE, 8)
  include 'fortran_modes_body.inc'
contains
  include 'fortran_check.inc'
  integer function source_at(k)
    integer k
    source_at = statuses(MPI_SOURCE, k)
  end function source_at
  integer function tag_at(k)
    integer k
    tag_at = statuses(MPI_TAG, k)
  end function tag_at
  integer function count_at(k, what)
    integer k, what
    call mpi_get_count(statuses(:, k), what, count_at, ierr)
  end function count_at
  logical function is_null(request)
    integer request
    is_null = request .eq. MPI_REQUEST_NULL
  end function is_null
  integer function detached()
    call mpi_buffer_detach(space, detached, ierr)
  end function detached
  integer function sentinels()
    sentinels = guard_words(MPI_STATUS_IGNORE) + 3 * guard_words(MPI_STATUSES_IGNORE) + 5 * guard_words(MPI_BOTTOM)
  end function sentinels
end program fortran_modes_use_mpi
