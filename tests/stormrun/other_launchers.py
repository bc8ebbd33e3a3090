# SPDX-License-Identifier: MIT
"""Checks of stormrun with Hydra (MPICH's mpiexec) and Slurm's srun."""

import re

from stand_ins import *  # noqa: F403

MPI_MAIN = "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n"


def stand_in(b, name):
    """A launcher of this name that records what it gets."""
    (b.root / "launchers").mkdir(exist_ok=True)
    path = b.root / "launchers" / name
    if not path.exists():
        shutil.copy(b.fake, path)
    return str(path)


def launched(b, name, *words, **more):
    """Arguments that the stand-in gets, and what stormrun says."""
    b.record.unlink(missing_ok=True)
    done = b.run("--lib", b.lib, "--launcher", stand_in(b, name), *words, **more)
    if not b.record.exists():
        raise AssertionError(f"nothing launched, status {done.returncode}: {done.stderr}")
    arguments, environment, _ = json.loads(b.record.read_text())
    if "LD_PRELOAD" not in (more.get("env") or {}):
        lacks(environment, "LD_PRELOAD")
    return arguments, done.stderr


@test
def hydra_gets_the_preload_in_each_context(b):
    ours = ["-env", "LD_PRELOAD", b.lib]
    for name in ("mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich"):
        arguments, said = launched(b, name, "-n", "2", b.prog, "-n", ":", "-n", "1", "-wdir", b.path(""), "prog")
        equal(arguments, ["-n", "2", *ours, b.prog, "-n", ":", "-n", "1", "-wdir", b.path(""), *ours, "prog"])
        equal(said, "")


@test
def hydra_is_known_by_the_file_behind_the_name(b):
    os.symlink(stand_in(b, "mpiexec.hydra"), b.path("mpiexec"))
    done = b.run("--dry-run", "--lib", b.lib, "--launcher", b.path("mpiexec"), "-n", "2", b.prog)
    equal(shlex.split(done.stdout)[1:], ["-n", "2", "-env", "LD_PRELOAD", b.lib, b.prog])
    beside = b.path("launchers/mpirun")  # a script beside it, as Intel's
    shutil.copy(b.fake, beside)
    done = b.run("--dry-run", "--lib", b.lib, "--launcher", beside, b.prog)
    equal(shlex.split(done.stdout)[1:], ["-env", "LD_PRELOAD", b.lib, b.prog])


@test
def options_of_hydra_are_not_taken_for_programs(b):
    ours = ["-env", "LD_PRELOAD", b.lib]
    for options in (["-f", "hosts", "-ppn", "4", "-l"], ["-genv", "A", "1", "-genvall"], ["-launcher", "ssh"],
                    ["--bind-to", "core", "-map-by", "socket", "-iface", "ib0"], ["-hosts", "a,b", "-np", "4"],
                    ["-outfile-pattern", "out", "-prepend-rank", "-usize", "4"]):
        equal(launched(b, "mpiexec.hydra", *options, b.prog, "x")[0], [*options, *ours, b.prog, "x"])


@test
def preloads_of_the_user_stay_in_front_under_hydra(b):
    both = ["-env", "LD_PRELOAD", "/tool/a.so:" + b.lib]
    equal(launched(b, "mpiexec.hydra", "-env", "LD_PRELOAD", "/tool/a.so", "-n", "1", b.prog)[0],
          ["-n", "1", *both, b.prog])
    globally = ["-genv", "LD_PRELOAD", "/tool/a.so"]
    equal(launched(b, "mpiexec.hydra", *globally, b.prog, ":", b.prog)[0],
          [*globally, *both, b.prog, ":", *both, b.prog])
    equal(launched(b, "mpiexec.hydra", b.prog, env={"LD_PRELOAD": "/tool/a.so"})[0], [*both, b.prog])


@test
def storm_variables_reach_hydra_programs_that_get_no_environment(b):
    ours = ["-env", "LD_PRELOAD", b.lib]
    equal(launched(b, "mpiexec.hydra", b.prog, env={"STORM_A": "1"})[0], [*ours, b.prog])
    for options in (["-genvnone"], ["-envlist", "PATH"]):
        equal(launched(b, "mpiexec.hydra", *options, b.prog, env={"STORM_A": "1 2"})[0],
              [*options, *ours, "-env", "STORM_A", "1 2", b.prog])


@test
def a_file_of_programs_for_hydra_is_refused(b):
    done = b.run("--lib", b.lib, "--launcher", stand_in(b, "mpiexec.hydra"), "-configfile", "jobs", b.prog)
    equal(done.returncode, 2)
    contains(done.stderr, "-configfile", "command line")


@test
def a_program_of_mpich_under_hydra_runs_native(b):
    need("mpicc.mpich")
    b.compile("mpich_program", MPI_MAIN, compiler="mpicc.mpich")
    words = ["-n", "2", "./mpich_program"]
    arguments, said = launched(b, "mpiexec.hydra", *words)
    equal(arguments, words)
    contains(said, "MPICH", "not served", "native")


@test
def a_program_of_open_mpi_under_hydra_runs_native_with_a_reason(b):
    need("mpicc.openmpi")
    b.compile("ompi_program", MPI_MAIN, compiler="mpicc.openmpi")
    words = ["-n", "2", "./ompi_program"]
    arguments, said = launched(b, "mpiexec.hydra", *words)
    equal(arguments, words)
    contains(said, "built for Open MPI", "Hydra", "native", "--launcher")


@test
def srun_gets_the_preload_in_each_part(b):
    ours = "--export=ALL,LD_PRELOAD=" + b.lib
    arguments, said = launched(b, "srun", "-n", "2", b.prog, "-n", ":", "-n1", b.prog, env={"STORM_A": "1"})
    equal(arguments, ["-n", "2", ours, b.prog, "-n", ":", "-n1", ours, b.prog])
    equal(said, "")
    equal(launched(b, "srun", "-n", "2", "--", b.prog)[0], ["-n", "2", ours, "--", b.prog])


@test
def options_of_srun_are_not_taken_for_programs(b):
    ours = "--export=ALL,LD_PRELOAD=" + b.lib
    for options in (["-N", "2", "-n4", "--mpi", "pmix"], ["--mpi=pmix", "-lN", "2"], ["-K", "-I", "-p", "short"],
                    ["--exclusive", "-c2", "-u"], ["--ntasks-per-node", "4", "--pty"], ["-K1", "-vv", "-t", "10"],
                    ["--cpu-bind", "cores", "--kill-on-bad-exit=1", "-w", "n1,n2"], ["-D", b.path("")]):
        equal(launched(b, "srun", *options, b.prog, "x")[0], [*options, ours, b.prog, "x"])


@test
def exports_of_the_user_stay_for_srun(b):
    def export(*words, **env):
        return [w for w in launched(b, "srun", *words, b.prog, env=env)[0] if w.startswith("--export=")][-1]

    equal(export("--export=ALL,A=1"), "--export=ALL,A=1,LD_PRELOAD=" + b.lib)
    equal(export("--export", "A=1", STORM_B="2"), "--export=A=1,STORM_B,LD_PRELOAD=" + b.lib)
    equal(export("--export=NONE"), "--export=LD_PRELOAD=" + b.lib)
    equal(export("--export=ALL,LD_PRELOAD=/tool/a.so"), "--export=ALL,LD_PRELOAD=/tool/a.so:" + b.lib)
    equal(export(SLURM_EXPORT_ENV="NIL"), "--export=LD_PRELOAD=" + b.lib)
    equal(export(LD_PRELOAD="/tool/a.so"), "--export=ALL,LD_PRELOAD=/tool/a.so:" + b.lib)
    done = b.run("--lib", b.lib, "--launcher", stand_in(b, "srun"), b.prog, env={"LD_PRELOAD": "/tool/a,b.so"})
    equal(done.returncode, 2)
    contains(done.stderr, "comma", "/tool/a,b.so")


@test
def files_of_programs_for_srun_are_not_checked(b):
    b.script("multi.conf", "0 ./a\n1 ./b\n", 0o644)
    equal(launched(b, "srun", "-n2", "--multi-prog", "multi.conf"),
          (["-n2", "--multi-prog", "--export=ALL,LD_PRELOAD=" + b.lib, "multi.conf"], ""))


@test
def a_program_of_mpich_under_srun_runs_native(b):
    need("mpicc.mpich")
    b.compile("mpich_on_slurm", MPI_MAIN, compiler="mpicc.mpich")
    arguments, said = launched(b, "srun", "-n", "2", "./mpich_on_slurm")
    equal(arguments, ["-n", "2", "./mpich_on_slurm"])
    contains(said, "MPICH", "not served", "native")


@test
def static_programs_are_refused_under_every_launcher(b):
    need("gcc")
    try:
        b.compile("static_one", "int main(void) { return 0; }\n", "-static")
    except AssertionError as why:
        raise Skip(f"no static C library: {str(why)[:60]}") from why
    for name in ("mpiexec.hydra", "srun"):
        done = b.run("--lib", b.lib, "--launcher", stand_in(b, name), "-n", "1", "./static_one")
        equal(done.returncode, 2)
        contains(done.stderr, "statically linked", "--off")


@test
def every_listed_option_of_hydra_is_one_of_hydra(b):
    need("mpiexec.hydra")
    known = subprocess.run(["mpiexec.hydra", "--help"], capture_output=True, text=True).stdout
    listed = set(b.run("--list-options").stdout.split())
    for line in re.findall(r"^ {4}(-\S+)", known, re.M):
        for option in line.split("/"):
            if option not in listed:
                raise AssertionError(f"{option} of mpiexec.hydra is not known")


@test
def hydra_itself_passes_the_preload_on(b):
    need("mpiexec.hydra")
    show = b.script("show", "#!/bin/sh\necho \"preloads=$LD_PRELOAD a=$STORM_A\"\n")
    done = b.run("--lib", b.lib, "--launcher", "mpiexec.hydra", "-n", "2", show, ":", "-n", "1", "-genvnone", show,
                 env={"STORM_A": "1"})
    equal(done.returncode, 0)
    equal(done.stdout.splitlines(), [f"preloads={b.lib} a=1"] * 3)


@test
def mpich_jobs_run_to_their_end(b):
    need("mpicc.mpich", "mpiexec.hydra")
    b.compile("two", "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) { int n; MPI_Init(&c, &v);\n"
              "MPI_Comm_size(MPI_COMM_WORLD, &n); printf(\"%d\\n\", n); return MPI_Finalize(); }\n",
              compiler="mpicc.mpich")
    done = b.run("--lib", b.lib, "--launcher", "mpiexec.hydra", "-n", "2", "./two")
    equal((done.returncode, done.stdout), (0, "2\n2\n"))
    contains(done.stderr, "native")
