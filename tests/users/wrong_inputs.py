# SPDX-License-Identifier: MIT
"""Wrong settings, launch lines and machines: what the user sees, and that no result is lost.

A row: a name, how it is run, what must be said on standard error (once where it is one of
our lines), and how it must end: `right` with the program's result, `refused` before the
job with status 2 or 127, `strict` where STORM_STRICT=1 was asked to end the job.
"""

from jobs import *  # noqa: F403

ROWS = []


def row(name, says, end="right"):
    def take(run):
        ROWS.append((name, run, says, end))
        return run
    return take


def setting(name, says, end="right", **settings):
    row(name, says, end)(lambda bench: bench.run(*bench.job(2, "traffic", settings=settings)))


setting("a_misspelt_name", "STORM_EAGER_MXA is not a setting of STORM: did you mean STORM_EAGER_MAX?",
        STORM_EAGER_MXA="4K")
setting("a_name_like_no_other", "STORM_SPEED is not a setting of STORM: see storm-info for the list", STORM_SPEED="11")
setting("a_word_for_a_number", "STORM_EAGER_MAX=lots is not valid", STORM_EAGER_MAX="lots")
setting("a_negative_size", "STORM_EAGER_MAX=-1 is not valid", STORM_EAGER_MAX="-1")
setting("a_size_out_of_range", "STORM_EAGER_MAX=1G is not valid (0 to 67108864 bytes", STORM_EAGER_MAX="1G")
setting("a_size_with_a_wrong_unit", "STORM_RING_MIN=1T is not valid", STORM_RING_MIN="1T")
setting("a_ring_that_is_too_small", "STORM_RING_MIN=7 is not valid", STORM_RING_MIN="7")
setting("a_largest_ring_below_the_smallest", "STORM_RING_MAX=8192 is below STORM_RING_MIN", STORM_RING_MAX="8K")
setting("a_backend_that_does_not_exist", "STORM_BACKEND=carrier-pigeon is not valid (one of "
        "auto|shm|ofi|verbs|mpi_rma|mpi_p2p|none",
        STORM_BACKEND="carrier-pigeon")
setting("a_range_of_tags_the_wrong_way", 'STORM_TAGS=5-1 is not valid (the range "5-1" ends before it begins)',
        STORM_TAGS="5-1")
setting("a_tag_that_is_no_number", 'STORM_TAGS=particles is not valid ("particles" is not a tag',
        STORM_TAGS="particles")
setting("a_level_of_messages_that_does_not_exist", "STORM_LOG=loud is not valid (one of quiet|error|warn|info|debug)",
        STORM_LOG="loud")
setting("a_flag_that_is_neither", "STORM_DISABLE=maybe is not valid (0 or 1)", STORM_DISABLE="maybe")
setting("a_form_of_the_report_that_does_not_exist",
        "STORM_REPORT=xml is not valid (off, or summary, json or html", STORM_REPORT="xml")
setting("a_report_in_a_folder_that_does_not_exist",
        "the report cannot be written (/nowhere/r.html: No such file or directory)",
        STORM_REPORT="html:/nowhere/r.html")
setting("a_report_in_a_folder_that_takes_no_files", "the report cannot be written (/proc/r.json:",
        STORM_REPORT="json:/proc/r.json")
setting("a_signal_that_cannot_be_had", "STORM_REPORT_SIGNAL=KILL is not valid (one of off|HUP|QUIT",
        STORM_REPORT_SIGNAL="KILL")
setting("a_profile_of_no_form", "STORM_PROFILE=yes is not valid (off, or text or json", STORM_PROFILE="yes")
setting("a_profile_that_cannot_be_written", "the profile cannot be written (/nowhere/p:",
        STORM_PROFILE="text:/nowhere/p")
setting("a_file_of_rules_that_is_missing",
        "STORM_ROUTE_FILE is not used (/nowhere/rules: No such file or directory)", STORM_ROUTE_FILE="/nowhere/rules")
setting("a_time_of_zero", "STORM_VERDICT_TIMEOUT=0 is not valid (1 to 3600)", STORM_VERDICT_TIMEOUT="0")
setting("a_count_written_as_a_power", "STORM_POLL_NATIVE=1e3 is not valid (1 to 1000000)", STORM_POLL_NATIVE="1e3")
setting("a_wrong_setting_where_strictness_was_asked_for", "STORM_STRICT=1 ends the job for the setting named above",
        "strict", STORM_STRICT="1", STORM_TAGS="x")
setting("no_memory_allowed_for_rings", "the shm backend cannot be opened (STORM_MEMORY_MAX leaves no room for a ring)",
        STORM_MEMORY_MAX="0")
setting("memory_for_fewer_rings_than_peers",
        "storm: fallbacks on 2 ranks, the first: rank 0, to rank 1: its budget of 65536 bytes for rings "
        "(STORM_MEMORY_MAX) is used up", STORM_MEMORY_MAX="64K", STORM_REPORT="summary")


@row("a_rule_that_says_nothing_known", 'rules:2: "tgas=5" is not known (known: ride=yes|no, tags=LIST, eager=BYTES)')
def wrong_rule(bench):
    path = os.path.join(bench.root, "rules")
    with open(path, "w", encoding="utf-8") as f:
        f.write("# particles\ncomm particles tgas=5\n")
    return bench.run(*bench.job(2, "traffic", settings={"STORM_ROUTE_FILE": path}))


# ---- launch lines

def stormrun(bench, *words, env=None):
    return bench.run(os.path.join(bench.build, "shim", "tools", "stormrun"), *words, env=env)


def launch(name, says, *words, end="refused", env=None):
    """{root} stands for the folder of the programs."""
    row(name, says, end)(lambda bench: stormrun(bench, *(w.format(root=bench.root) for w in words), env=env))


launch("no_program", "stormrun: ", "-n", "2")
launch("a_program_that_does_not_exist", "program ./photosn cannot be run (there is no such file)",
       "-n", "2", "./photosn")
launch("a_launcher_that_does_not_exist", "launcher /nowhere/mpirun cannot be run (named by --launcher",
       "--launcher", "/nowhere/mpirun", "-n", "2", "{root}/traffic")
launch("no_launcher_at_all", "no launcher found (mpirun, mpiexec and srun are not in PATH)", "-n", "2",
       "{root}/traffic", env={"PATH": "/nowhere"})
launch("a_library_that_does_not_exist", "libstorm.so not found (searched: /nowhere/libstorm.so)",
       "--lib", "/nowhere/libstorm.so", "-n", "2", "{root}/traffic")
launch("a_library_that_is_none", "cannot be preloaded (it is not a readable shared library)",
       "--lib", "{root}/traffic.c", "-n", "2", "{root}/traffic")
launch("an_option_without_its_value", "option --lib has no value", "--lib")
launch("a_form_of_the_profile_that_does_not_exist", "option --profile=xml is not valid (known forms: text, json",
       "--profile=xml", "-n", "2", "{root}/traffic")
launch("a_profile_without_the_library", "--off and --profile exclude each other", "--off", "--profile", "-n", "2",
       "{root}/traffic")


@row("a_static_program", "statically linked", "refused")
def static_program(bench):
    path = os.path.join(bench.root, "static")
    with open(path + ".c", "w", encoding="utf-8") as f:
        f.write("int main(void) { return 0; }\n")
    if bench.run("gcc", "-static", "-o", path, path + ".c").status != 0:
        raise Skip("no static C library")
    return stormrun(bench, "-n", "2", path)


# ---- machines

@row("a_program_of_another_mpi", "stormrun: ")
def foreign_mpi(bench):
    if not shutil.which("mpicc.mpich") or not shutil.which("mpiexec.mpich"):
        raise Skip("needs mpich")
    path = os.path.join(bench.root, "foreign")
    subprocess.run(["mpicc.mpich", "-w", "-o", path, os.path.join(bench.root, "traffic.c")], check=True, env=bench.env)
    return stormrun(bench, "--launcher", "mpiexec.mpich", "-n", "2", path)


@row("a_program_whose_mpi_is_not_installed", "libmpi.so.40", "refused")
def no_mpi(bench):
    path = os.path.join(bench.root, "lost")
    with open(path, "wb") as f:
        f.write(open(os.path.join(bench.root, "traffic"), "rb").read().replace(b"libmpi.so.40", b"libmpi.so.94"))
    os.chmod(path, 0o755)
    ended = stormrun(bench, "-n", "2", path)
    return Ended(ended.status, ended.out, ended.err.replace("libmpi.so.94", "libmpi.so.40"), ended.seconds)


@row("a_rank_without_the_library", "not routed, all traffic goes by the real MPI (rank 1 runs without it)")
def rank_without(bench):
    return bench.run("mpirun", "--oversubscribe", *bench.context(1, QUICK, True), ":", *bench.context(1, QUICK, False))


@row("a_library_without_its_plugins",
     "not routed, all traffic goes by the real MPI (rank 0: the shm backend cannot be opened")
def no_plugins(bench):
    folder = os.path.join(bench.root, "alone")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(bench.lib, folder)
    return bench.run("mpirun", "--oversubscribe", "-n", "2", "-x", f"LD_PRELOAD={folder}/libstorm.so",
                     os.path.join(bench.root, "traffic"))


@row("too_little_address_space", "")
def no_address_space(bench):
    """Just enough for the real MPI: the job is routed, or one line says why not."""
    for kilobytes in range(200_000, 2_000_001, 100_000):
        wrap = ["sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh"]
        if bench.run(*bench.job(2, "traffic", preload=False, wrap=wrap)).status == 0:
            ended = bench.run(*bench.job(2, "traffic", settings=REPORT, wrap=wrap))
            check(ended.counters().get("ranks") == "2" or len(ended.not_routed()) == 1, ended)
            return ended
    raise Skip("the real MPI needs more than 2 GB of addresses here")


@row("a_temporary_folder_that_takes_no_files", "")
def read_only_tmpdir(bench):
    """The real MPI may refuse such a folder; then so it does under the shim, with its own words."""
    env = {"TMPDIR": "/proc", "OMPI_MCA_orte_tmpdir_base": bench.folder}
    plain = bench.run(*bench.job(2, "traffic", preload=False), env=env)
    if plain.status != 0:
        raise Skip("the real MPI does not start with such a TMPDIR")
    ended = bench.run(*bench.job(2, "traffic", settings=REPORT), env=env)
    routed(ended)
    return ended


def on_a_machine(bench, change, *job, **more):
    """The job where `change` was made to the machine, in a mount namespace of its own."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") and bench.run(*command, "sh", "-c", "mount -t tmpfs tmpfs /mnt").status == 0:
            return bench.run(*command, "sh", "-c", change + ' && "$@"', "sh", *job, **more)
    raise Skip("needs unshare and the privilege to mount")


def told_in_short(ended):
    """The report that could not go to its file."""
    check(ended.counters().get("ring_messages", "0") != "0", f"not even the summary is told\n{ended}")


@row("a_full_disk_for_the_report", "the report cannot be written (/mnt/report.html: No space left on device)")
def full_disk(bench):
    change = "mount -t tmpfs -o size=16k tmpfs /mnt && head -c 12288 /dev/zero >/mnt/fill"
    job = bench.job(2, "traffic", settings={"STORM_REPORT": "html:/mnt/report.html"})
    ended = on_a_machine(bench, change, "sh", "-c", '"$@"; status=$?; ls /mnt >&2; exit $status', "sh", *job)
    check(not re.search("^report.html", ended.err, re.M), f"half a report is left\n{ended}")
    told_in_short(ended)
    return ended


@row("a_working_folder_that_takes_no_files", "the report cannot be written (storm-report.html: Read-only file system)")
def read_only_folder(bench):
    ended = on_a_machine(bench, "mount -t tmpfs -o ro tmpfs /mnt && cd /mnt",
                         *bench.job(2, "traffic", settings={"STORM_REPORT": "html"}))
    told_in_short(ended)
    return ended


@row("a_machine_without_proc", "its memory cannot be opened through /proc/")
def no_proc(bench):
    """Rings cannot be opened: the real MPI carries all, and the report says why."""
    ended = on_a_machine(bench, "umount -l /proc", *bench.job(2, "traffic", settings=REPORT))
    check(ended.counters().get("ring_messages") == "0", ended)
    return ended


@row("a_full_folder_of_shared_memory", "")
def full_shm(bench):
    """Rings do not stand there; the real MPI may complain of its own segments."""
    ended = on_a_machine(bench, "mount -t tmpfs -o size=64k tmpfs /dev/shm",
                         *bench.job(2, "traffic", settings=REPORT))
    check(int(ended.counters()["ring_messages"]) > 0, ended)
    return ended


@row("files_may_not_be_as_large_as_rings", "no memory for a ring: File too large")
def file_size_limit(bench):
    """ulimit -f holds for memory files too, and ends who goes past it by a signal."""
    settings = {**REPORT, "STORM_RING_MIN": "8M", "STORM_RING_MAX": "16M"}
    limit = ["bash", "-c", 'ulimit -f 16384; exec "$@"', "sh"]
    return bench.run(*bench.job(4, "traffic", settings=settings, wrap=limit))


@row("few_open_files", "")
def few_files(bench):
    """Hardly more than the real MPI can do with: its own need is not the same each time."""
    for files in range(16, 129, 8):
        limit = ["bash", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
        if bench.run(*bench.job(4, "traffic", preload=False, wrap=limit)).status == 0:
            limit[2] = limit[2].replace(str(files), str(files + 8))
            return bench.run(*bench.job(4, "traffic", settings=REPORT, wrap=limit))
    raise Skip("the real MPI needs more than 128 open files here")


@row("a_machine_without_any_fabric", "")
def no_fabric(bench):
    """Whatever the backend: rings, or a line that says why not."""
    info = bench.run(os.path.join(bench.build, "shim", "tools", "storm-info"), "--json")
    names = [b["name"] for b in json.loads(info.out)["backends"] if b["path"]]
    alone = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if bench.run(*alone, "true").status != 0:
        raise Skip("needs ip and the privilege to make a network namespace")
    for name in names:
        ended = bench.run(*alone, *bench.job(2, "traffic", settings={**REPORT, "STORM_BACKEND": name}))
        right(ended)
        counters = ended.counters()
        check(counters.get("fallbacks", "none") != "none" or int(counters.get("ring_messages", 0)) > 0 or
              len(ended.not_routed()) == 1, f"{name}: nothing says why\n{ended}")
    return ended


@row("no_standard_error", "")
def no_standard_error(bench):
    return bench.run(*bench.job(2, "traffic", settings={"STORM_REPORT": "summary", "STORM_EAGER_MXA": "1"},
                                wrap=["sh", "-c", 'exec "$@" 2>&-', "sh"]))


def test_of(name, run, says, end):
    def wrong(bench):
        ended = run(bench)
        lines = [line for line in ended.err.splitlines() if says in line]
        check(lines or not says, f"nothing says {says!r}\n{ended}")
        if says and lines[0].startswith("storm: ") and end != "strict":
            check(len(lines) == 1, f"it is said {len(lines)} times\n{ended}")
        if end == "right":
            right(ended)
        elif end == "refused":
            check(ended.status in (2, 127) and ended.out == "", ended)
        else:
            check(ended.status != 0 and "traffic is right" not in ended.out, ended)
        if says and "-v" in sys.argv:
            print(f"    {lines[0][:200]}")
    wrong.__name__ = "wrong_input_" + name
    return test(wrong)


for each in ROWS:
    test_of(*each)
