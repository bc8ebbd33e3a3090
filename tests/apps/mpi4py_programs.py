# SPDX-License-Identifier: MIT
"""What mpi4py programs do: a master hands out work by tag, walkers change their domain,
large objects go out of band, rows are exchanged by buffer and by derived datatype."""

import array
import pickle
import random
import sys

from mpi4py import MPI
from mpi4py.util import pkl5

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
LEFT, RIGHT = (RANK - 1) % SIZE, (RANK + 1) % SIZE
WORK, RESULT, STOP = 1, 2, 3


def master_and_workers():
    if RANK > 0:
        status, done = MPI.Status(), 0
        while True:
            task = WORLD.recv(source=0, tag=MPI.ANY_TAG, status=status)
            if status.Get_tag() == STOP:
                return done >= 0
            WORLD.send((task, sum(range(task))), dest=0, tag=RESULT)
            done += 1
    tasks, results, status = list(range(300)), {}, MPI.Status()
    for worker in range(1, SIZE):
        WORLD.send(tasks.pop(), dest=worker, tag=WORK)
    while len(results) < 300:
        task, value = WORLD.recv(source=MPI.ANY_SOURCE, tag=RESULT, status=status)
        results[task] = value
        if tasks:
            WORLD.send(tasks.pop(), dest=status.Get_source(), tag=WORK)
    for worker in range(1, SIZE):
        WORLD.send(None, dest=worker, tag=STOP)
    return sum(results.values()) == sum(sum(range(n)) for n in range(300))


def walkers():
    """Monte Carlo: each walker lives where its place is; all of them end somewhere."""
    draw = random.Random(RANK)
    mine, ended, total = [(RANK * 1000 + i, 0) for i in range(200)], 0, 200 * SIZE
    while WORLD.allreduce(ended) < total:
        out = {LEFT: [], RIGHT: []} if LEFT != RIGHT else {RIGHT: []}
        for name, steps in mine:
            if steps >= 5:
                ended += 1
            else:
                out[draw.choice((LEFT, RIGHT))].append((name, steps + 1))
        requests = [WORLD.isend(batch, dest=to, tag=to % 5) for to, batch in out.items()]
        mine = []
        for _ in out:
            mine += WORLD.recv(source=MPI.ANY_SOURCE, tag=RANK % 5)
        MPI.Request.waitall(requests)
        WORLD.barrier()
    return WORLD.allreduce(ended) == total


def out_of_band():
    comm = pkl5.Intracomm(WORLD)
    for n in (1, 5000, 300000):
        request = comm.isend([pickle.PickleBuffer(bytearray([RANK + i]) * n) for i in range(3)], dest=RIGHT, tag=4)
        got = comm.recv(source=LEFT, tag=4)
        request.wait()
        if [bytes(memoryview(part)) for part in got] != [bytes([LEFT + i]) * n for i in range(3)]:
            return False
    return True


def rows_and_columns():
    n = 40
    grid = array.array("d", [RANK * 10000 + i for i in range(n * n)])
    column = MPI.DOUBLE.Create_vector(n, 1, n).Commit()
    got = array.array("d", [0.0] * n)
    for k in range(n):
        part = memoryview(grid)[k:]
        WORLD.Sendrecv([part, 1, column], RIGHT, 6, [got, MPI.DOUBLE], LEFT, 6)
        if list(got) != [LEFT * 10000 + k + n * i for i in range(n)]:
            return False
    column.Free()
    return True


wrong = [part.__name__ for part in (master_and_workers, walkers, out_of_band, rows_and_columns) if not part()]
everywhere = WORLD.gather(wrong)
if RANK == 0:
    print(f"wrong: {everywhere}" if any(everywhere) else f"all {SIZE} ranks are right")
sys.exit(1 if wrong else 0)
