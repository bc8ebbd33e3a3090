! SPDX-License-Identifier: MIT
! The legacy exchange in Fortran, through mpif.h in fixed form; exchange_f08.f90 says what
! it does. Both print the same last line.
      program exchange_mpifh
      implicit none
      include 'mpif.h'
      integer batch, at_start, most, left, right
      parameter (batch = 64, at_start = 20000, most = 400000)
      parameter (left = 1, right = 2)
      integer sends(2), receives(2), reduction
      integer status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
!     out is being filled, busy is on its way
      integer*8 out(2, batch, 2), busy(2, batch, 2), in(2, batch, 2)
      integer*8 work(2, most), p(2), counts(2), given(2), sums(2)
      integer*8 before(2), mine(2), total(2)
      integer filled(2), neighbour(2), rank, ranks, n, side, ierr
      logical over, done

      call MPI_Init(ierr)
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
      call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
      neighbour(left) = mod(rank + ranks - 1, ranks)
      neighbour(right) = mod(rank + 1, ranks)
      do n = 1, at_start
        work(1, n) = mod(n, 50) + 1
        work(2, n) = rank*at_start + n
      end do
      n = at_start
      filled = 0
      counts = 0
      mine = 0
      before = -1
      over = .false.
      sends = MPI_REQUEST_NULL
      reduction = MPI_REQUEST_NULL
      do side = left, right
        call post(side)
      end do

      do while (.not. over)
!       one particle, then look at all requests
        if (n .gt. 0) then
          p = work(:, n)
          n = n - 1
          call walk()
        else
          do side = left, right
            call flush_side(side)
          end do
        end if
        call poll()
        if (n .eq. 0 .and. reduction .eq. MPI_REQUEST_NULL) then
          given = counts
          call MPI_Iallreduce(given, sums, 2, MPI_INTEGER8, MPI_SUM,
     &                        MPI_COMM_WORLD, reduction, ierr)
        end if
        if (reduction .ne. MPI_REQUEST_NULL) then
          call MPI_Test(reduction, done, status, ierr)
!         twice the same, and all that was sent has come: the end
          if (done) then
            over = all(sums .eq. before) .and. sums(1) .eq. sums(2)
            before = sums
          end if
        end if
      end do

      call MPI_Waitall(2, sends, statuses, ierr)
      do side = left, right
        call MPI_Cancel(receives(side), ierr)
        call MPI_Wait(receives(side), status, ierr)
      end do
      call MPI_Reduce(mine, total, 2, MPI_INTEGER8, MPI_SUM, 0,
     &                MPI_COMM_WORLD, ierr)
      if (rank .eq. 0) then
        print '(a,i0,a,i0,a,i0)', 'ended ', total(1), ' where ',
     &        total(2), ' sent ', sums(1)
      end if
      call MPI_Finalize(ierr)

      contains

!     a message to the left is tagged left, and comes from the right
      subroutine post(s)
      integer s
      call MPI_Irecv(in(1, 1, s), 2*batch, MPI_INTEGER8,
     &               neighbour(3 - s), s, MPI_COMM_WORLD, receives(s),
     &               ierr)
      end subroutine post

      subroutine walk()
      integer to
      if (p(1) .eq. 0) then
        mine(1) = mine(1) + 1
        mine(2) = mine(2) + rank + 1
        return
      end if
      p(1) = p(1) - 1
      p(2) = mod(p(2)*16807, 2147483647_8)
      to = right
      if (mod(p(2)/64, 2_8) .eq. 0) to = left
      filled(to) = filled(to) + 1
      out(:, filled(to), to) = p
      if (filled(to) .eq. batch) call flush_side(to)
      end subroutine walk

!     does nothing while the other buffer is still on its way
      subroutine flush_side(s)
      integer s
      do while (filled(s) .eq. batch .and.
     &          sends(s) .ne. MPI_REQUEST_NULL)
        call poll()
      end do
      if (filled(s) .eq. 0) return
      if (sends(s) .ne. MPI_REQUEST_NULL) return
      busy(:, 1:filled(s), s) = out(:, 1:filled(s), s)
      counts(1) = counts(1) + filled(s)
      call MPI_Isend(busy(1, 1, s), 2*filled(s), MPI_INTEGER8,
     &               neighbour(s), s, MPI_COMM_WORLD, sends(s), ierr)
      filled(s) = 0
      end subroutine flush_side

      subroutine poll()
      integer s, i, length
      logical here
      do s = left, right
        call MPI_Test(sends(s), here, status, ierr)
        call MPI_Test(receives(s), here, status, ierr)
        if (here) then
          call MPI_Get_count(status, MPI_INTEGER8, length, ierr)
          do i = 1, length/2
            n = n + 1
            work(:, n) = in(:, i, s)
          end do
          counts(2) = counts(2) + length/2
          call post(s)
        end if
      end do
      end subroutine poll
      end program exchange_mpifh
