# SPDX-License-Identifier: MIT
"""Tests of what a job tells: its report, at the end and in the middle, and its regions."""

from jobs import *  # noqa: F403


@test
def a_report_goes_to_the_file_that_is_named(bench):
    path = os.path.join(bench.root, "report.txt")
    ended = bench.run(*bench.job(2, "traffic", settings={"STORM_REPORT": f"summary:{path}"}))
    right(ended)
    check(not ended.storm_lines(), ended)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    check(re.search(r"^storm: ring_messages [1-9]", text, re.M), text)


@test
def a_report_that_cannot_be_written_is_said_and_does_not_fail_the_job(bench):
    for path in ("/nowhere/report.txt", "/dev/full"):
        ended = bench.run(*bench.job(2, "traffic", settings={"STORM_REPORT": f"summary:{path}"}))
        right(ended)
        check(len([line for line in ended.storm_lines() if "report cannot be written" in line]) == 1, ended)


@test
def a_report_as_json_has_every_rank_and_pair(bench):
    path = os.path.join(bench.root, "report.json")
    ended = bench.run(*bench.job(3, "traffic", 50, settings={"STORM_REPORT": f"json:{path}"}))
    right(ended)
    check(not ended.storm_lines(), ended)
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    check([r["rank"] for r in report["each"]] == [0, 1, 2] and report["backend"] == "shm", report)
    at = report["pair_fields"].index
    sent = {(r["rank"], p[at("to")]): p[at("ring_messages")] for r in report["each"] for p in r["pairs"]}
    # 50 rounds: one message to every other, one more to the next
    check(sent == {(a, b): 50 + 50 * (b == (a + 1) % 3) for a in range(3) for b in range(3) if a != b}, sent)
    check(sum(sent.values()) == report["counters"]["ring_messages"], report["counters"])


@test
def a_report_tells_backend_ordering_and_nic_with_the_reasons(bench):
    path = os.path.join(bench.root, "facts.json")
    right(bench.run(*bench.job(2, "traffic", settings={"STORM_REPORT": f"json:{path}"})))
    report = json.loads(read(path))
    check((report["backend"], report["backend_why"]) == ("shm", "the default"), report)
    check(report["facts"]["ordering"].startswith("in memory (") and
          report["facts"]["nic"] == "none (all ranks are on this host)", report["facts"])
    ended = bench.run(*bench.job(2, "traffic", settings={"STORM_REPORT": "summary", "STORM_BACKEND": "none"}))
    right(ended)
    lines = ended.counters()
    check(lines["backend"] == "none (chosen by STORM_BACKEND)" and "ordering" not in lines, ended)


@test
def a_report_without_a_file_name_says_where_it_is(bench):
    ended = bench.run(*bench.job(2, "traffic", settings={"STORM_REPORT": "html"}))
    right(ended)
    check(ended.storm_lines() == ["storm: the report is in storm-report.html"], ended)
    check("<html" in read(os.path.join(bench.root, "storm-report.html")), ended)


@test
def a_job_that_is_not_routed_says_so_in_its_report_file(bench):
    path = os.path.join(bench.root, "native.json")
    settings = {**QUICK, "STORM_REPORT": f"json:{path}"}
    native_with_one_line(bench.run("mpirun", "--oversubscribe", *bench.context(1, settings, True), ":",
                                   *bench.context(1, settings, False)))
    report = json.loads(read(path))
    check(report["routed"] is False and "rank 1 runs without it" in report["why"], report)


def hanging(bench):
    """Rank 0 waits for a message that rank 1, already in a barrier, never sends."""
    source = os.path.join(bench.root, "hanging.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write("""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, x = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1)
        MPI_Send(&x, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    fclose(fopen(rank == 0 ? "up0" : "up1", "w"));
    if (rank == 0)
        MPI_Recv(&x, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
""")
    subprocess.run(["mpicc", "-o", os.path.join(bench.root, "hanging"), source], check=True, env=bench.env)
    return "hanging"


@test
def a_hung_job_tells_at_a_signal_what_each_rank_waits_for(bench):
    """Also the rank that is stuck inside the real MPI."""
    path = os.path.join(bench.root, "hung.json")
    process = bench.start(bench.job(2, hanging(bench), settings={"STORM_REPORT": f"json:{path}",
                                                                 "STORM_REPORT_SIGNAL": "USR1"}))
    files = [os.path.join(bench.root, f"hung.rank{r}.json") for r in (0, 1)]
    reports = []
    try:
        for _ in range(200):
            if all(os.path.exists(os.path.join(bench.root, f"up{r}")) for r in (0, 1)):
                break
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGUSR1)
        for _ in range(200):
            if all(read(f).endswith("}\n") for f in files):
                break
            time.sleep(0.05)
        reports = [json.loads(read(f)) for f in files]
        check(process.poll() is None, "the job ended at the signal")
    finally:
        os.kill(process.pid, signal.SIGTERM)
        bench.end(process)
    check(all(r["when"] == "signal USR1" for r in reports), reports)
    waits = reports[0]["each"][0]["waits"]
    check(any("a receive from rank 1, tag 7, on MPI_COMM_WORLD" in w for w in waits), waits)
    check(any("nobody has received, from rank 1, tag 3" in w for w in waits), waits)


@test
def a_job_that_calls_mpi_abort_reports_of_that_rank(bench):
    ended = bench.run(*bench.job(2, "endless", os.path.join(bench.root, "aborting"), "mpi_abort", settings=REPORT))
    check(ended.status == 5 and "storm: rank 0: when MPI_Abort with code 5" in ended.err, ended)


@test
def rules_for_communicators_stand_above_the_settings(bench):
    """Tags 0 to 6 and 99 are used, on MPI_COMM_WORLD; the rule takes tag 99 out."""
    rules = os.path.join(bench.root, "rules")
    with open(rules, "w", encoding="utf-8") as f:
        f.write("comm other ride=no\ncomm MPI_COMM_W* tags=0-6  # not 99\n")
    ended = bench.run(*bench.job(3, "traffic", 50,
                                 settings={"STORM_ROUTE_FILE": rules, "STORM_TAGS": "none", **REPORT}))
    routed(ended)
    counters = ended.counters()
    check(int(counters["ring_messages"]) == 300 and int(counters["native_messages"]) == 150, ended)


@test
def a_wrong_rule_is_named_with_its_line_and_the_job_goes_on(bench):
    rules = os.path.join(bench.root, "wrong_rules")
    with open(rules, "w", encoding="utf-8") as f:
        f.write("comm a ride=no\ncomm b eager=many\n")
    ended = bench.run(*bench.job(2, "traffic", settings={"STORM_ROUTE_FILE": rules, **REPORT}))
    routed(ended)
    check(len([line for line in ended.storm_lines() if f"{rules}:2: eager=many" in line]) == 1, ended)


REGIONS = r"""
#include <dlfcn.h>
#include <mpi.h>
#include <storm.h>
static void exchange(int rank, int n)
{
    for (int x = 0, i = 0; i < n; ++i)
        if (rank == 0)
            MPI_Send(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
int main(int argc, char **argv)
{
    int (*begin)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "storm_region_begin");
    int (*end)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "storm_region_end");
    int rank, wrong = begin("early");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    exchange(rank, 3);
    wrong += !begin("step");
    exchange(rank, 5);
    MPI_Pcontrol(1);
    exchange(rank, 7);
    MPI_Pcontrol(0);
    wrong += !end("step") + end("step") + end(0) + begin(0);
    MPI_Finalize();
    return wrong + end("late");
}
"""


@test
def regions_that_a_program_names_are_counted_apart(bench):
    source = os.path.join(bench.root, "regions.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write(REGIONS)
    include = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shim", "include")
    subprocess.run(["mpicc", f"-I{include}", "-o", os.path.join(bench.root, "regions"), source, "-ldl"], check=True,
                   env=bench.env)
    path = os.path.join(bench.root, "regions.json")
    ended = bench.run(*bench.job(2, "regions", settings={"STORM_REPORT": f"json:{path}"}))
    check(ended.status == 0, ended)
    report = json.loads(read(path))
    regions = {r["name"]: (r["entries"], r["counters"]["ring_messages"]) for r in report["each"][0]["regions"]}
    check(regions == {"step": (1, 12), "MPI_Pcontrol": (1, 7)}, regions)
    check(report["counters"]["ring_messages"] == 15, report)


@test
def the_report_counts_every_message(bench):
    """3 ranks, 50 rounds: 2 others each, and one to the neighbour."""
    ended = bench.run(*bench.job(3, "traffic", 50, settings=REPORT))
    counters = ended.counters()
    check(int(counters["ring_messages"]) + int(counters["native_messages"]) == 3 * 50 * 3, ended)
    check(int(counters["self_messages"]) == 3 * 50, ended)
