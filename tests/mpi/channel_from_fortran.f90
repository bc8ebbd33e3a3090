! SPDX-License-Identifier: MIT
! A channel of storm.h by iso_c_binding: the interfaces are those of the man page.
! run: ranks=1,2,3 timeout=60
program channel_from_fortran
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_int) function storm_channel_open_fortran(comm, record_bytes, batch, channel) bind(c)
      import
      integer(c_int), value :: comm, batch
      integer(c_size_t), value :: record_bytes
      type(c_ptr) :: channel
    end function
    integer(c_int) function storm_channel_push(channel, rank, record) bind(c)
      import
      type(c_ptr), value :: channel, record
      integer(c_int), value :: rank
    end function
    integer(c_int) function storm_channel_poll(channel, records, count, source) bind(c)
      import
      type(c_ptr), value :: channel
      type(c_ptr) :: records
      integer(c_int) :: count, source
    end function
    integer(c_int) function storm_channel_terminate(channel, idle, over) bind(c)
      import
      type(c_ptr), value :: channel
      integer(c_int), value :: idle
      integer(c_int) :: over
    end function
    integer(c_int) function storm_channel_close(channel) bind(c)
      import
      type(c_ptr) :: channel
    end function
  end interface
  type(c_ptr) :: channel, records
  integer(c_int64_t), target :: record(3)
  integer(c_int64_t), pointer :: arrived(:, :)
  integer(c_int64_t) :: total
  integer(c_int) :: over, count, source
  integer :: rank, ranks, i, wrong

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  wrong = storm_channel_open_fortran(MPI_COMM_WORLD%MPI_VAL, c_sizeof(record), 5, channel)
  do i = 1, 1000
    record = [int(rank, c_int64_t), int(i, c_int64_t), int(rank + i, c_int64_t)]
    wrong = wrong + storm_channel_push(channel, mod(rank + i, ranks), c_loc(record))
  end do
  total = 0
  over = 0
  do while (over == 0)
    wrong = wrong + storm_channel_poll(channel, records, count, source)
    if (count > 0) then
      call c_f_pointer(records, arrived, [3, count])
      do i = 1, count
        if (arrived(1, i) /= source .or. arrived(1, i) + arrived(2, i) /= arrived(3, i)) wrong = wrong + 1
        total = total + arrived(2, i)
      end do
    end if
    wrong = wrong + storm_channel_terminate(channel, merge(1, 0, count == 0), over)
  end do
  wrong = wrong + storm_channel_close(channel)
  print '(i0,a,i0,a,l1)', rank, ': sum ', total, ' closed ', .not. c_associated(channel)
  if (wrong /= 0) then
    print '(i0,a,i0)', rank, ': WRONG ', wrong
    stop 1
  end if
  print '(i0,a)', rank, ': ok'
  call MPI_Finalize()
end program channel_from_fortran
