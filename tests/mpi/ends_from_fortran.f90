! SPDX-License-Identifier: MIT
! The end of an epoch of storm.h by iso_c_binding: the interfaces are those of the man page.
! Each rank passes on what it gets until nothing is left; two epochs.
! run: ranks=1,2,3 timeout=60
program ends_from_fortran
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_int) function storm_term_begin_fortran(comm, term) bind(c)
      import
      integer(c_int), value :: comm
      type(c_ptr) :: term
    end function
    integer(c_int) function storm_term_progress(term, sent, arrived, idle, over) bind(c)
      import
      type(c_ptr), value :: term
      integer(c_int64_t), value :: sent, arrived
      integer(c_int), value :: idle
      integer(c_int) :: over
    end function
    integer(c_int) function storm_term_done(term) bind(c)
      import
      type(c_ptr) :: term
    end function
  end interface
  type(c_ptr) :: term
  type(MPI_Comm) :: comm
  type(MPI_Status) :: status
  integer(c_int64_t) :: sent, arrived, all(2)
  integer(c_int) :: over
  integer :: rank, ranks, epoch, hops, wrong
  logical :: there

  call MPI_Init()
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_rank(comm, rank)
  call MPI_Comm_size(comm, ranks)
  wrong = storm_term_begin_fortran(MPI_COMM_WORLD%MPI_VAL, term)
  sent = 0
  arrived = 0
  do epoch = 1, 2
    if (rank == 0) then
      call MPI_Send(100 * epoch, 1, MPI_INTEGER, mod(1, ranks), epoch, comm)
      sent = sent + 1
    end if
    over = 0
    do while (over == 0)
      call MPI_Iprobe(MPI_ANY_SOURCE, epoch, comm, there, status)
      if (there) then
        call MPI_Recv(hops, 1, MPI_INTEGER, MPI_ANY_SOURCE, epoch, comm, MPI_STATUS_IGNORE)
        arrived = arrived + 1
        if (hops > 0) then
          call MPI_Send(hops - 1, 1, MPI_INTEGER, mod(rank + 1, ranks), epoch, comm)
          sent = sent + 1
        end if
      end if
      wrong = wrong + storm_term_progress(term, sent, arrived, merge(0, 1, there), over)
    end do
  end do
  call MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, there, status)
  if (there) wrong = wrong + 1
  wrong = wrong + storm_term_done(term)
  call MPI_Allreduce([sent, arrived], all, 2, MPI_INTEGER8, MPI_SUM, comm)
  if (all(1) /= 302 .or. all(2) /= 302) wrong = wrong + 1
  print '(i0,a,i0,a,l1)', rank, ': hops ', all(1), ' done ', .not. c_associated(term)
  if (wrong /= 0) then
    print '(i0,a,i0)', rank, ': WRONG ', wrong
    stop 1
  end if
  print '(i0,a)', rank, ': ok'
  call MPI_Finalize()
end program ends_from_fortran
