# SPDX-License-Identifier: MIT
"""mpi4py: pickled objects, buffers, requests, probes, errors as exceptions.

run: ranks=2,3 timeout=60
"""

import array
import sys

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
LEFT, RIGHT = (RANK - 1) % SIZE, (RANK + 1) % SIZE
WRONG = []


def expect(good, what):
    if not good:
        WRONG.append(what)
        print(f"{RANK}: WRONG {what}", flush=True)


def objects():
    for n in (0, 10, 1000, 100000):
        sent = {"rank": RANK, "list": list(range(n)), "text": "x" * n}
        request = WORLD.isend(sent, dest=RIGHT, tag=11)
        got = WORLD.recv(source=LEFT, tag=11)
        request.wait()
        expect(got["rank"] == LEFT and got["list"] == list(range(n)), f"object of {n}")
        got = WORLD.sendrecv((RANK, n), dest=RIGHT, source=LEFT)
        expect(got == (LEFT, n), "sendrecv")
        requests = [WORLD.irecv(1 << 21, source=LEFT, tag=12), WORLD.isend(sent, dest=RIGHT, tag=12)]
        answers = MPI.Request.waitall(requests)
        expect(answers[0]["text"] == "x" * n, f"irecv of {n}")


def buffers():
    for n in (0, 1, 500, 5000, 200000):
        out, data = array.array("d", [RANK + 0.5] * n), array.array("d", [-1.0] * n)
        status = MPI.Status()
        requests = [WORLD.Irecv([data, MPI.DOUBLE], LEFT, 5), WORLD.Isend([out, MPI.DOUBLE], RIGHT, 5)]
        index = MPI.Request.Waitany(requests, status)
        MPI.Request.Waitall(requests)
        expect(index in (0, 1) and list(data) == [LEFT + 0.5] * n, f"buffer of {n}")
        expect(MPI.Request.Waitany(requests) == MPI.UNDEFINED, "waitany of null")
        WORLD.Sendrecv(out, RIGHT, 6, data, LEFT, 6, status)
        expect(status.Get_count(MPI.DOUBLE) == n and status.Get_source() == LEFT, "status")
        send, receive = WORLD.Send_init(out, RIGHT, 7), WORLD.Recv_init(data, LEFT, 7)
        for _ in range(3):
            MPI.Prequest.Startall([receive, send])
            MPI.Request.Waitall([receive, send])
        send.Free()
        receive.Free()


def probes():
    status = MPI.Status()
    for i in range(50):
        request = WORLD.isend([RANK] * i, dest=RIGHT, tag=i)
        if i % 2:
            message = WORLD.mprobe(source=LEFT, tag=i, status=status)
            got = message.recv()
        else:
            WORLD.probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            got = WORLD.recv(source=status.Get_source(), tag=status.Get_tag())
        expect(got == [LEFT] * i and status.Get_tag() == i, f"probed {i}")
        request.wait()
        WORLD.barrier()
    out, data = array.array("i", [RANK] * 100), array.array("i", [-1] * 100)
    request = WORLD.Issend(out, RIGHT, 99)
    message = None
    while message is None:
        message = WORLD.Improbe(LEFT, 99)
    message.Irecv(data).Wait()
    request.Wait()
    expect(list(data) == [LEFT] * 100, "improbe")
    expect(not WORLD.iprobe(), "a message is left")


def exceptions():
    try:
        WORLD.send(1, dest=SIZE + 4)
        print(f"{RANK}: no exception", flush=True)
    except MPI.Exception as error:
        print(f"{RANK}: {error.Get_error_class() == MPI.ERR_RANK}", flush=True)
    WORLD.barrier()
    request = WORLD.Isend(array.array("b", [1] * 50), RIGHT, 3)
    try:
        WORLD.Recv(array.array("b", [0] * 10), LEFT, 3)
        print(f"{RANK}: no exception", flush=True)
    except MPI.Exception as error:
        print(f"{RANK}: {error.Get_error_class() == MPI.ERR_TRUNCATE}", flush=True)
    request.Wait()


def communicators():
    copy = WORLD.Dup()
    reverse = WORLD.Split(0, -RANK)
    request = copy.isend("copy", dest=RIGHT, tag=1)
    other = reverse.isend("reverse", dest=(reverse.Get_rank() + 1) % SIZE, tag=1)
    expect(reverse.recv(tag=1) == "reverse" and copy.recv(tag=1) == "copy", "communicators")
    request.wait()
    other.wait()
    copy.Free()
    reverse.Free()


for part in (objects, buffers, probes, exceptions, communicators):
    part()
    WORLD.barrier()
print(f"{RANK}: {len(WRONG)} checks failed" if WRONG else f"{RANK}: ok", flush=True)
sys.exit(1 if WRONG else 0)
