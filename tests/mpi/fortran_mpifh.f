! SPDX-License-Identifier: MIT
! The exchange of fortran_body.inc through mpif.h, in fixed form.
! run: ranks=2,3 timeout=60
! run: ranks=2 timeout=60 preload=libtool_counting_calls.so
! run: ranks=2 timeout=60 preload=libtool_counting_fortran_calls.so
! run: ranks=2 timeout=60 preload=libtool_counting_fortran_calls.so order=shim-first
      program fortran_mpifh
      implicit none
      include 'mpif.h'
      include 'fortran_declarations.inc'
      integer requests(6), persistent(2), message, type, types(2)
      integer status(MPI_STATUS_SIZE)
      integer statuses(MPI_STATUS_SIZE, 6)
      integer statuses_1(MPI_STATUS_SIZE)
      equivalence (statuses_1(1), statuses(1, 1))
      include 'fortran_body.inc'
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
      call mpi_get_count(statuses(1, k), what, count_at, ierr)
      end function count_at
      logical function is_null(request)
      integer request
      is_null = request .eq. MPI_REQUEST_NULL
      end function is_null
      integer function sentinels()
      sentinels = guard_words(MPI_STATUS_IGNORE)
     &  + 3 * guard_words(MPI_STATUSES_IGNORE)
     &  + 5 * guard_words(MPI_BOTTOM)
      end function sentinels
      end program fortran_mpifh
