# SPDX-License-Identifier: MIT
"""Programs, launchers and expectations that the checks of processes share."""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

TESTS = []
TIMEOUT = 60

# All ranks send to all ranks, by every kind of call, and check what comes.
TRAFFIC = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int value(int from, int to, int round, int i) { return from * 1000003 + to * 10007 + round * 101 + i; }
static void wrong(const char *what, int round)
{
    fprintf(stderr, "wrong data: %s in round %d\n", what, round);
    MPI_Abort(MPI_COMM_WORLD, 9);
}
int main(int argc, char **argv)
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 50, words = argc > 2 ? atoi(argv[2]) : 10;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *out = malloc(sizeof(int) * words * size), *in = malloc(sizeof(int) * words);
    MPI_Request *requests = malloc(sizeof(MPI_Request) * size);
    for (int round = 0; round < rounds; ++round) {
        for (int to = 0; to < size; ++to) {
            for (int i = 0; i < words; ++i)
                out[to * words + i] = value(rank, to, round, i);
            MPI_Isend(out + to * words, words, MPI_INT, to, round % 7, MPI_COMM_WORLD, requests + to);
        }
        char seen[1024] = {0};
        for (int n = 0; n < size; ++n) {
            MPI_Status status;
            int count;
            MPI_Recv(in, words, MPI_INT, MPI_ANY_SOURCE, round % 7, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_INT, &count);
            if (count != words || seen[status.MPI_SOURCE]++)
                wrong("length or source", round);
            for (int i = 0; i < words; ++i)
                if (in[i] != value(status.MPI_SOURCE, rank, round, i))
                    wrong("payload", round);
        }
        MPI_Waitall(size, requests, MPI_STATUSES_IGNORE);
        int next = (rank + 1) % size, previous = (rank + size - 1) % size, a = value(rank, next, round, -1), b = 0;
        MPI_Sendrecv(&a, 1, MPI_INT, next, 99, &b, 1, MPI_INT, previous, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (b != value(previous, rank, round, -1))
            wrong("neighbour", round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("traffic is right on %d ranks\n", size);
    MPI_Finalize();
    return 0;
}
"""

# Says that it is under way (a file a rank, with its pid) and exchanges until it ends as told.
ENDLESS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size, x = 0, y = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long n = 0;; ++n) {
        MPI_Sendrecv(&x, 1, MPI_INT, (rank + 1) % size, 1, &y, 1, MPI_INT, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (n == 1000) {
            char name[4096];
            snprintf(name, sizeof name, "%s.%d", argv[1], rank);
            FILE *f = fopen(name, "w");
            fprintf(f, "%d\n", (int)getpid());
            fclose(f);
        }
        if (n < 2000)
            continue;
        if (strcmp(argv[2], "abort") == 0)
            abort();
        if (strcmp(argv[2], "exit") == 0)
            exit(0);
        if (strcmp(argv[2], "mpi_abort") == 0 && rank == 0)
            MPI_Abort(MPI_COMM_WORLD, 5);
    }
}
"""

# Rank 1 is away for some seconds while messages for it wait.
SLOW = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, x;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1)
        sleep(3);
    for (int i = 0; i < 300; ++i) {
        x = i;
        if (rank == 0)
            MPI_Send(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        else if (rank == 1)
            MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (x != i)
            MPI_Abort(MPI_COMM_WORLD, 9);
    }
    if (rank == 0) {
        MPI_Recv(&x, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("it came back with %d\n", x);
    } else if (rank == 1) {
        x = 77;
        MPI_Send(&x, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""

# Starts other programs in every way while messages are under way.
CHILDREN = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size, x, y, status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 20; ++i) {
        MPI_Request r[2];
        x = rank * 100 + i;
        MPI_Irecv(&y, 1, MPI_INT, (rank + size - 1) % size, i, MPI_COMM_WORLD, r);
        MPI_Isend(&x, 1, MPI_INT, (rank + 1) % size, i, MPI_COMM_WORLD, r + 1);
        switch (i % 4) {
        case 0: {
            char line[64] = "";
            FILE *f = popen("echo child", "r");
            if (f == NULL || fgets(line, sizeof line, f) == NULL || strcmp(line, "child\n") != 0 || pclose(f) != 0)
                MPI_Abort(MPI_COMM_WORLD, 9);
            break;
        }
        case 1:
            if (fork() == 0) {
                execl("/bin/true", "true", (char *)NULL);
                _exit(1);
            }
            if (wait(&status) < 0 || status != 0)
                MPI_Abort(MPI_COMM_WORLD, 9);
            break;
        case 2: /* a child that runs exit handlers and flushes what it has */
            if (fork() == 0)
                exit(3);
            if (wait(&status) < 0 || WEXITSTATUS(status) != 3)
                MPI_Abort(MPI_COMM_WORLD, 9);
            break;
        default:
            if (system("exit 4") >> 8 != 4)
                MPI_Abort(MPI_COMM_WORLD, 9);
        }
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        if (y != (rank + size - 1) % size * 100 + i)
            MPI_Abort(MPI_COMM_WORLD, 9);
    }
    if (rank == 0)
        printf("children did no harm\n");
    MPI_Finalize();
    return 0;
}
"""


class Skip(Exception):
    pass


class Ended:
    """How a command ended: status, standard output, standard error."""

    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds

    def __str__(self):
        err = self.err.splitlines()
        more = [f"... {len(err) - 12} more lines"] if len(err) > 12 else []
        err = "\n".join(err[:12] + more)
        return f"status {self.status} after {self.seconds:.1f} s\nstdout: {self.out}\nstderr: {err}"

    def storm_lines(self):
        return [line for line in self.err.splitlines() if line.startswith("storm:")]

    def not_routed(self):
        return [line for line in self.storm_lines() if "not routed" in line]

    def counters(self):
        return dict(re.findall(r"^storm: (\w+) (\S.*)$", self.err, re.M))


def test(function):
    TESTS.append(function)
    return function


def check(condition, said):
    if not condition:
        raise AssertionError(str(said))


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError:
        return ""


def right(ended, text="traffic is right"):
    check(ended.status == 0 and text in ended.out and "wrong data" not in ended.err, ended)


def routed(ended):
    right(ended)
    check(int(ended.counters().get("ring_messages", "0")) > 0, ended)


def native_with_one_line(ended, *words):
    """The right data, and one line in all that says why nothing was routed."""
    right(ended)
    lines = ended.not_routed()
    check(len(lines) == 1 and all(w in lines[0] for w in words), ended)


class Bench:
    def __init__(self, build, root):
        self.build, self.root = os.path.abspath(build), root
        self.lib = os.path.join(self.build, "interpose", "libstorm.so")
        self.folder = os.path.join(root, "tmp")
        os.mkdir(self.folder)
        self.env = {n: v for n, v in os.environ.items()
                    if not n.startswith(("STORM_", "LD_", "OMPI_", "PMIX_", "SLURM_", "PBS_"))}
        # warnings of the real MPI about this machine are no subject of these tests
        self.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                        OMPI_MCA_btl_base_warn_component_unused="0", TMPDIR=self.folder, HOME=root)
        for name, text in {"traffic": TRAFFIC, "endless": ENDLESS, "slow": SLOW, "children": CHILDREN}.items():
            source = os.path.join(root, name + ".c")
            with open(source, "w", encoding="utf-8") as f:
                f.write(text)
            subprocess.run(["mpicc", "-O1", "-o", os.path.join(root, name), source], check=True, env=self.env)

    def start(self, command, env=None):
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                text=True, env={**self.env, **(env or {})}, cwd=self.root, start_new_session=True)

    def end(self, process, timeout=TIMEOUT):
        """Waits; ends only the process group of the command, first so that mpirun can clean up."""
        begun = time.monotonic()
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for sign, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
                try:
                    os.killpg(process.pid, sign)
                    out, err = process.communicate(timeout=seconds)
                    break
                except (subprocess.TimeoutExpired, ProcessLookupError):
                    out, err = "", "its output never ended"
            raise AssertionError(f"no end after {timeout} s: {process.args}\n{out}{err}") from None
        return Ended(process.returncode, out, err, time.monotonic() - begun)

    def run(self, *command, env=None, timeout=TIMEOUT):
        return self.end(self.start(command, env), timeout)

    def job(self, ranks, program, *arguments, settings=None, mca=(), preload=True, wrap=()):
        """The command of a job; settings reach the ranks only."""
        command = ["mpirun", "--oversubscribe", *mca, "-n", str(ranks)]
        for name, value in (settings or {}).items():
            command += ["-x", f"{name}={value}"]
        if preload:
            command += ["-x", f"LD_PRELOAD={self.lib}"]
        return [*command, *wrap, os.path.join(self.root, program), *map(str, arguments)]

    def context(self, ranks, settings, preload):
        """One part of a job of several programs."""
        return self.job(ranks, "traffic", 20, settings=settings, preload=preload)[2:]


REPORT = {"STORM_REPORT": "summary"}
QUICK = {"STORM_VERDICT_TIMEOUT": "2"}


def main():
    """Runs the tests that were registered, or those that are named; the last line counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("-v", action="store_true", help="name every test and its time")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    if not shutil.which("mpirun") or not shutil.which("mpicc"):
        print("skipped: all: mpirun or mpicc is not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    # not in /tmp: some tests look at what appears there
    place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="storm-process-", dir=place) as root:
        bench = Bench(args.build, root)
        for function in TESTS:
            if args.names and function.__name__ not in args.names:
                continue
            begun = time.monotonic()
            try:
                function(bench)
                outcome, why = "passed", ""
            except Skip as skip:
                outcome, why = "skipped", str(skip)
            except AssertionError as error:
                outcome, why = "failed", str(error)
            except Exception:
                outcome, why = "failed", traceback.format_exc()
            counts[outcome] += 1
            if outcome != "passed":
                again = shlex.join([sys.argv[0], "--build", args.build, function.__name__])
                print(f"{outcome}: {function.__name__}: {why}" + (f"\nagain: {again}" if outcome == "failed" else ""))
            elif args.v:
                print(f"passed: {function.__name__} ({time.monotonic() - begun:.1f} s)")
            sys.stdout.flush()
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0
