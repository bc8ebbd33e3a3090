# SPDX-License-Identifier: MIT
"""Jobs whose programs bring libraries of their own that a message layer uses too."""

import os
import subprocess

from jobs import *  # noqa: F403

# Asks its own hwloc and libfabric for their versions, before, within and after MPI.
OWN = r"""
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#ifdef LINKED
unsigned fi_version(void);
unsigned hwloc_get_api_version(void);
#endif
static unsigned fabric(char **argv)
{
#ifdef LINKED
    return fi_version();
#else
    void *own = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    return own ? ((unsigned (*)(void))dlsym(own, "fi_version"))() : 0;
#endif
}
static unsigned hwloc(char **argv)
{
#ifdef LINKED
    return hwloc_get_api_version();
#else
    void *own = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    return own ? ((unsigned (*)(void))dlsym(own, "hwloc_get_api_version"))() : 0;
#endif
}
int main(int argc, char **argv)
{
    int rank, size, right = 1;
    unsigned seen[3][2] = {{fabric(argv), hwloc(argv)}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    seen[1][0] = fabric(argv), seen[1][1] = hwloc(argv);
    for (int i = 0; i < 500; ++i) {
        int out[500] = {rank, i}, in[500] = {-1, -1}, n = i % 9 ? 2 + i % 50 : 500;
        MPI_Sendrecv(out, n, MPI_INT, (rank + 1) % size, 1, in, 500, MPI_INT, MPI_ANY_SOURCE, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right = right && in[0] == (rank + size - 1) % size && in[1] == i;
    }
    MPI_Finalize();
    seen[2][0] = fabric(argv), seen[2][1] = hwloc(argv);
    for (int i = 0; i < 3; ++i)
        printf("%s rank %d: libfabric %x hwloc %x\n", right ? "right" : "WRONG", rank, seen[i][0], seen[i][1]);
    return !right;
}
"""

# Libraries with these names and nothing else that their users expect.
STUB = r"""
unsigned %s(void) { return 0x1234; }
"""


def system_library(name):
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(rf"^\s+{re.escape(name)} .*=> (\S+)$", cache, re.M)
    if not found:
        raise Skip(f"{name} is not installed")
    return found.group(1)


def compiled(bench, name, text, *flags):
    source, target = os.path.join(bench.root, name + ".c"), os.path.join(bench.root, name)
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    subprocess.run(["mpicc", "-O1", "-w", "-o", target, source, *flags], check=True, env=bench.env)
    return target


def stub(bench, soname, function):
    return compiled(bench, soname, STUB % function, "-shared", "-fPIC", f"-Wl,-soname,{soname}")


def alike(bench, program, *arguments):
    """The same lines natively and routed."""
    plain = bench.run(*bench.job(2, program, *arguments, preload=False))
    check(plain.status == 0 and plain.out.count("right rank") == 6, plain)
    ended = bench.run(*bench.job(2, program, *arguments, settings=REPORT))
    check(ended.status == 0 and int(ended.counters().get("ring_messages", "0")) > 0, ended)
    check(sorted(ended.out.splitlines()) == sorted(plain.out.splitlines()), f"{plain}\n{ended}")


@test
def a_program_with_copies_of_hwloc_and_libfabric_is_routed(bench):
    """Linked and found by its run path, in front of those that the system has."""
    folder = os.path.join(bench.root, "own")
    os.mkdir(folder)
    for name in ("libfabric.so.1", "libhwloc.so.15"):
        shutil.copy(system_library(name), os.path.join(folder, name))
    alike(bench, compiled(bench, "copies", OWN, "-DLINKED", f"-Wl,-rpath,{folder}", f"-L{folder}",
                          "-Wl,--no-as-needed", "-l:libfabric.so.1", "-l:libhwloc.so.15"))


@test
def a_program_that_loads_other_hwloc_and_libfabric_is_routed(bench):
    """Of the names that we would load, but without what we would need in them."""
    libraries = [stub(bench, "libfabric.so.1", "fi_version"), stub(bench, "libhwloc.so.5", "hwloc_get_api_version")]
    alike(bench, compiled(bench, "others", OWN, "-ldl"), *libraries)


@test
def a_program_linked_to_another_libfabric_is_routed(bench):
    stub(bench, "libfabric.so.1", "fi_version")
    hwloc = system_library("libhwloc.so.15")
    alike(bench, compiled(bench, "linked", OWN, "-DLINKED", f"-Wl,-rpath,{bench.root}", f"-L{bench.root}",
                          "-Wl,--no-as-needed", "-l:libfabric.so.1", hwloc))


@test
def a_program_that_preloads_another_allocator_is_routed(bench):
    allocator = system_library("libjemalloc.so.2")
    for order in ((allocator, bench.lib), (bench.lib, allocator)):
        settings = {**REPORT, "LD_PRELOAD": ":".join(order)}
        routed(bench.run(*bench.job(3, "traffic", 50, 2000, settings=settings, preload=False)))
