! SPDX-License-Identifier: MIT
! The legacy exchange in Fortran, through `use mpi_f08`: what a transport code in that
! language does, and nothing else. Particles walk on a ring of ranks, a step to the left
! or right at a time, until their lives are used up. Each carries its random stream, so
! the last line is the same for any order of arrival; exchange_mpifh.f prints it too.
program exchange_f08
  use mpi_f08
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  integer, parameter :: batch = 64, at_start = 20000, left = 1, right = 2
  type(MPI_Request) :: sends(2), receives(2), reduction
  type(MPI_Status) :: status
  integer(int64), asynchronous :: in(2, batch, 2), busy(2, batch, 2), given(2), sums(2)
  integer(int64) :: out(2, batch, 2) ! being filled; `busy` is on its way
  integer(int64) :: counts(2), before(2), total(2), mine(2), p(2)
  integer(int64), allocatable :: work(:, :)
  integer :: filled(2), neighbour(2), rank, ranks, n, side, length, i
  logical :: done, over

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  neighbour(left) = mod(rank + ranks - 1, ranks)
  neighbour(right) = mod(rank + 1, ranks)
  allocate (work(2, at_start*ranks + batch))
  do n = 1, at_start
    work(:, n) = [int(mod(n, 50) + 1, int64), int(rank, int64)*at_start + n]
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
    if (n > 0) then ! one particle, then look at all requests
      p = work(:, n)
      n = n - 1
      call walk(p)
    else
      do side = left, right
        call flush_side(side)
      end do
    end if
    call poll()
    if (n == 0 .and. reduction == MPI_REQUEST_NULL) then
      given = counts
      call MPI_Iallreduce(given, sums, 2, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, reduction)
    end if
    if (reduction /= MPI_REQUEST_NULL) then
      call MPI_Test(reduction, done, status)
      if (done) then ! twice the same, and all that was sent has come: nothing moves any more
        over = all(sums == before) .and. sums(1) == sums(2)
        before = sums
      end if
    end if
  end do

  call MPI_Waitall(2, sends, MPI_STATUSES_IGNORE)
  do side = left, right
    call MPI_Cancel(receives(side))
    call MPI_Wait(receives(side), status)
  end do
  call MPI_Reduce(mine, total, 2, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD)
  if (rank == 0) print '(a,i0,a,i0,a,i0)', 'ended ', total(1), ' where ', total(2), ' sent ', sums(1)
  call MPI_Finalize()

contains

  subroutine post(side) ! a message to the left is tagged left, and comes from the right
    integer, intent(in) :: side
    call MPI_Irecv(in(:, :, side), 2*batch, MPI_INTEGER8, neighbour(3 - side), side, MPI_COMM_WORLD, receives(side))
  end subroutine post

  subroutine walk(p)
    integer(int64), intent(inout) :: p(2)
    integer :: to
    if (p(1) == 0) then
      mine = mine + [1_int64, int(rank + 1, int64)]
      return
    end if
    p(1) = p(1) - 1
    p(2) = mod(p(2)*16807_int64, 2147483647_int64)
    to = merge(left, right, mod(p(2)/64, 2_int64) == 0)
    filled(to) = filled(to) + 1
    out(:, filled(to), to) = p
    if (filled(to) == batch) call flush_side(to)
  end subroutine walk

  subroutine flush_side(side) ! does nothing while the buffer is still on its way
    integer, intent(in) :: side
    do while (filled(side) == batch .and. sends(side) /= MPI_REQUEST_NULL)
      call poll()
    end do
    if (filled(side) == 0 .or. sends(side) /= MPI_REQUEST_NULL) return
    busy(:, :filled(side), side) = out(:, :filled(side), side)
    counts(1) = counts(1) + filled(side)
    call MPI_Isend(busy(:, :, side), 2*filled(side), MPI_INTEGER8, neighbour(side), side, MPI_COMM_WORLD, sends(side))
    filled(side) = 0
  end subroutine flush_side

  subroutine poll()
    integer :: s
    do s = left, right
      call MPI_Test(sends(s), done, status)
      call MPI_Test(receives(s), done, status)
      if (done) then
        call MPI_Get_count(status, MPI_INTEGER8, length)
        do i = 1, length/2
          n = n + 1
          work(:, n) = in(:, i, s)
        end do
        counts(2) = counts(2) + length/2
        call post(s)
      end if
    end do
  end subroutine poll
end program exchange_f08
