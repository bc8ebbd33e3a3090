# SPDX-License-Identifier: MIT
"""Jobs that really run, under the installed mpirun."""

import os
import shlex
import shutil
import subprocess

from stand_ins import *  # noqa: F403


# ---- real jobs


PROBE = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Which of the libraries in argv[1], one word, is mapped here, and LD_PRELOAD. */
int main(int argc, char **argv) {
    int rank, mapped = 0;
    char line[8192];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) mapped |= strstr(line, argv[1]) != NULL;
    const char *preload = getenv("LD_PRELOAD"), *storm = getenv("STORM_TAGS");
    printf("rank=%d mapped=%d storm=%s preloads=%s\n", rank, mapped, storm ? storm : "", preload ? preload : "");
    MPI_Finalize();
    return argc > 2 ? atoi(argv[2]) : 0;
}
"""


def probe(b):
    need("mpirun.openmpi", "mpicc.openmpi")
    if not os.path.exists(b.path("probe")):
        b.compile("probe", PROBE, compiler="mpicc.openmpi")
    return b.path("probe")


def real(b, *words, **more):
    done = b.run("--lib", b.lib, "--launcher", "mpirun.openmpi", *words, **more)
    return done, sorted(line for line in done.stdout.splitlines() if MARK in line)


@test
def a_real_job_is_preloaded(b):
    done, lines = real(b, "-n", "2", "--oversubscribe", probe(b), b.lib, env={"STORM_TAGS": "1,3"})
    equal((done.returncode, done.stderr), (0, ""))
    equal(lines, [f"rank={rank} mapped=1 storm=1,3 {MARK}{b.lib}" for rank in (0, 1)])


@test
def a_real_job_keeps_its_exit_status(b):
    done, lines = real(b, "-n", "2", "--oversubscribe", probe(b), b.lib, "7")
    equal(done.returncode, 7)
    equal(len(lines), 2)


@test
def a_real_job_with_two_contexts_is_preloaded_in_both(b):
    tool = shutil.copy(b.lib, b.path("libtool.so"))
    words = ["-n", "1", "--oversubscribe", "-x", f"LD_PRELOAD={tool}", probe(b), b.lib, ":", "-n", "1", probe(b), b.lib]
    done, lines = real(b, *words)
    equal(done.returncode, 0)
    equal(lines, [f"rank=0 mapped=1 storm= {MARK}{tool}:{b.lib}", f"rank=1 mapped=1 storm= {MARK}{b.lib}"])


@test
def a_real_job_from_an_application_file_is_preloaded(b):
    b.script("jobs_real", f"-n 1 {probe(b)} {b.lib}\n-n 1 {probe(b)} {b.lib}\n", 0o644)
    wanted = [f"rank={rank} mapped=1 storm= {MARK}{b.lib}" for rank in (0, 1)]
    done, lines = real(b, "--oversubscribe", "--app", "jobs_real")
    equal((done.returncode, lines), (0, wanted))
    if shutil.which("bash"):
        dry = b.run("--dry-run", "--lib", b.lib, "--launcher", "mpirun.openmpi", "--oversubscribe", "--app",
                "jobs_real").stdout
        done = subprocess.run(["bash", "-c", dry], env=b.env, cwd=b.root, capture_output=True, text=True)
        equal(sorted(done.stdout.splitlines()), wanted)


@test
def a_real_job_with_a_list_of_variables_is_preloaded(b):
    done, lines = real(b, "-n", "1", probe(b), b.lib, env={"OMPI_MCA_mca_base_env_list": "STORM_TAGS=5"})
    equal((done.returncode, lines), (0, [f"rank=0 mapped=1 storm=5 {MARK}{b.lib}"]))
    b.script("home3/.openmpi/mca-params.conf", "mca_base_env_list = STORM_TAGS=6\n", 0o644)
    done, lines = real(b, "-n", "1", probe(b), b.lib, env={"HOME": b.path("home3")})
    equal((done.returncode, lines), (0, [f"rank=0 mapped=1 storm=6 {MARK}{b.lib}"]))


@test
def a_real_job_reaches_through_wrappers(b):
    done, lines = real(b, "-n", "1", "sh", "-c", f"env {probe(b)} {b.lib}")
    equal((done.returncode, lines), (0, [f"rank=0 mapped=1 storm= {MARK}{b.lib}"]))


@test
def a_real_job_that_is_off_is_not_preloaded(b):
    done, lines = real(b, "--off", "-n", "1", probe(b), b.lib)
    equal((done.returncode, lines), (0, [f"rank=0 mapped=0 storm= {MARK}"]))


@test
def a_remote_daemon_is_not_preloaded_and_its_programs_are(b):
    agent = b.script(
        "agent",
        "#!/bin/sh\n# stands in for ssh: another machine, with an environment of its own\nshift\n"
        f'echo "agent=$LD_PRELOAD" >>{shlex.quote(b.path("agent.log"))}\n'
        'exec env -i PATH="$PATH" HOME="$HOME" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -c "$*"\n',
    )
    inner = f'{probe(b)} {b.lib}; tr "\\0" "\\n" </proc/$PPID/environ | grep -c ^LD_PRELOAD='
    done, lines = real(b, "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--host", "storm-other-node:1",
                       "-n", "1", "sh", "-c", inner, env={"STORM_TAGS": "7"})
    if not os.path.exists(b.path("agent.log")):
        raise Skip("mpirun did not use the stand-in for ssh: " + done.stderr[:60])
    equal(lines, [f"rank=0 mapped=1 storm=7 {MARK}{b.lib}"])
    equal(done.stdout.splitlines()[-1], "0")
    equal((b.root / "agent.log").read_text(), "agent=\n")
