# SPDX-License-Identifier: MIT
"""Tests of STORM_PROFILE: a job that is counted and not routed."""

from jobs import *  # noqa: F403

POLLS = r"""
#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, x = 0, flag = 0;
    MPI_Request request, again;
    MPI_Comm comm;
    MPI_Datatype four;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "particles");
    MPI_Type_contiguous(4, MPI_BYTE, &four);
    MPI_Type_commit(&four);
    MPI_Irecv(&x, 1, four, MPI_ANY_SOURCE, 3, comm, &request);
    for (int i = 0; i < 10; ++i)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < 7; ++i)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    MPI_Send(&rank, 1, MPI_INT, 1 - rank, 3, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Send_init(&rank, 1, MPI_INT, MPI_PROC_NULL, 4, comm, &again);
    MPI_Request_free(&again);
    MPI_Send_init(&rank, 1, MPI_INT, 1 - rank, 4, comm, &again);
    for (int i = 0; i < 3; ++i) {
        MPI_Start(&again);
        MPI_Recv(&x, 1, MPI_INT, 1 - rank, 4, comm, MPI_STATUS_IGNORE);
        MPI_Wait(&again, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&again);
    MPI_Type_free(&four);
    MPI_Comm_free(&comm);
    return MPI_Finalize();
}
"""


def profiled(bench, name, job):
    """The profile as JSON of a job that is right and says nothing else."""
    path = os.path.join(bench.root, name + ".json")
    ended = bench.run(*job({"STORM_PROFILE": f"json:{path}"}))
    check(ended.status == 0 and not ended.storm_lines(), ended)
    return json.loads(read(path))


@test
def a_profile_counts_each_call_and_routes_nothing(bench):
    source = os.path.join(bench.root, "polls.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write(POLLS)
    subprocess.run(["mpicc", "-o", os.path.join(bench.root, "polls"), source], check=True, env=bench.env)
    profile = profiled(bench, "polls", lambda s: bench.job(2, "polls", settings=s))
    rows = {(r["communicator"], r["tag"], r["datatype"]): r for r in profile["exchanges"]}
    received, sent = rows["particles", 3, "of 4 bytes"], rows["particles", 3, "MPI_INT"]
    check((received["receives"], received["any_source"], received["empty_tests"]) == (2, 2, 20), received)
    check((sent["messages"], sent["bytes"], sent["pairs"], sent["sizes"]) == (2, 8, 2, [[4, 2]]), sent)
    probes = rows["particles", -1, ""]
    check((probes["probes"], probes["empty_probes"]) == (14, 14), probes)
    persistent = rows["particles", 4, "MPI_INT"]
    check((persistent["messages"], persistent["receives"]) == (6, 6), persistent)
    check(profile["null_tests"] == 2 and len(rows) == 4, profile)


@test
def a_profile_finds_the_messages_of_any_kind_of_call(bench):
    profile = profiled(bench, "traffic", lambda s: bench.job(3, "traffic", 50, settings=s))
    check(sum(r["messages"] for r in profile["exchanges"]) == 3 * 50 * 4, profile)
    check(profile["ranks"] == 3 and "traffic" in profile["command"], profile)


@test
def a_profile_as_text_ends_with_a_line_to_try(bench):
    ended = bench.run(*bench.job(2, "traffic", 400, settings={"STORM_PROFILE": "text"}))
    right(ended)
    check(re.search(r"^Try:  STORM_REPORT=summary stormrun -n 2 \S*traffic 400$", ended.err, re.M), ended)


@test
def a_profile_that_cannot_be_written_is_said_and_does_not_fail_the_job(bench):
    for path in ("/nowhere/profile", "/dev/full"):
        ended = bench.run(*bench.job(2, "traffic", settings={"STORM_PROFILE": f"text:{path}"}))
        right(ended)
        check(len([line for line in ended.storm_lines() if "profile cannot be written" in line]) == 1, ended)


@test
def a_profile_needs_the_shim_on_every_rank(bench):
    settings = {**QUICK, "STORM_PROFILE": "text"}
    native_with_one_line(bench.run("mpirun", "--oversubscribe", *bench.context(1, settings, True), ":",
                                   *bench.context(1, settings, False)))


@test
def stormrun_measures_what_an_estimate_needs(bench):
    stormrun = os.path.join(bench.build, "shim", "tools", "stormrun")
    ended = bench.run(stormrun, "--advise=json:advice.json", "-n", "2", "--oversubscribe",
                      os.path.join(bench.root, "traffic"), env={"STORM_REPORT": "summary"})
    right(ended)
    advice = json.loads(read(os.path.join(bench.root, "advice.json")))["advice"]
    costs = dict(item.split("=") for item in advice["measured"].split(","))
    check({"test", "probe", "0", "4096"} <= set(costs), advice)
    check(all(float(n) > 0 for cost in costs.values() for n in cost.split(":")), advice)


@test
def an_estimate_that_cannot_be_had_is_said_and_the_profile_comes(bench):
    stormrun = os.path.join(bench.build, "shim", "tools", "stormrun")
    launcher = os.path.join(bench.root, "refusing")
    with open(launcher, "w", encoding="utf-8") as f:
        f.write('#!/bin/sh\ncase "$*" in *storm-measure*) echo No cores today >&2; exit 3 ;; esac\nexec mpirun "$@"\n')
    os.chmod(launcher, 0o755)
    ended = bench.run(stormrun, "--advise", "--launcher", launcher, "-n", "2", "--oversubscribe",
                      os.path.join(bench.root, "traffic"))
    right(ended)
    check("no estimate of the gain (the measurement ended with status 3: No cores today)" in ended.err, ended)
    check("storm profile of" in ended.err and "Estimate" not in ended.err, ended)
