# SPDX-License-Identifier: MIT
"""Tests of the tools interface: settings and counters as a tool sees them."""

from jobs import *  # noqa: F403

HERE = os.path.dirname(os.path.abspath(__file__))
# variables of these whose values cannot be read in Open MPI 4.1, see list_variables.c
SKIPPED = ("mtl_", "osc_", "opal_common_", "pml_")


def program(bench, name):
    target = os.path.join(bench.root, name)
    subprocess.run(["mpicc", "-O1", "-Wall", "-o", target, os.path.join(HERE, name + ".c")], check=True, env=bench.env)
    return target


def listed(bench, preload):
    """The lines of the lister, in its three parts."""
    ended = bench.run(*bench.job(1, program(bench, "list_variables"), *SKIPPED, preload=preload))
    check(ended.status == 0 and not ended.storm_lines(), ended)
    parts = re.split(r"^== (?:before|after) MPI_\w+\n", ended.out, flags=re.M)
    check(len(parts) == 4, ended)
    return parts[1:]


def tables(bench):
    source = os.path.join(HERE, "..", "..", "shim")
    settings = re.findall(r'^STORM_SETTING\(\w+, [\w:]+, "(\w+)"', read(os.path.join(source, "settings.def")), re.M)
    counters = re.findall(r'^STORM_(?:COUNTER\(\w+, |MARK\()"(\w+)"', read(os.path.join(source, "counters.def")),
                          re.M)
    check(len(settings) > 10 and len(counters) > 10, "the tables cannot be read")
    return settings, [f"storm_{c}" for c in counters]


def shifted_back(line, cvars, pvars):
    """A line of the shim's list as the real MPI alone says it, without the value; None for one of ours."""
    kind, index, rest = line.split(" ", 2)
    first = {"cvar": cvars, "pvar": pvars, "category": 1}[kind]
    if int(index) < first:
        return None
    rest = re.sub(r"\(found at (\d+)\)", lambda m: f"(found at {int(m[1]) - first})", rest.split(" = ")[0])
    if kind == "category":
        name, contents = rest.split(":", 1)
        counts = (cvars, pvars, 1)
        contents = " /".join("".join(f" {int(i) - n}" for i in part.split())
                             for part, n in zip(contents.split("/"), counts))
        rest = f"{name}:{contents}"
    return f"{kind} {int(index) - first} {rest}"


@test
def a_tool_that_knows_nothing_of_us_sees_ours_first_and_the_real_ones_as_they_are(bench):
    """Before MPI_Init, after it (the real MPI has more then), and after MPI_Finalize."""
    settings, counters = tables(bench)
    for native, shim in zip(listed(bench, False), listed(bench, True)):
        ours = re.findall(r"^(?:cvar \d+ (STORM_\w+)|pvar \d+ (storm_\w+)) ", shim, re.M)
        check([a or b for a, b in ours] == settings + counters, ours)
        entry = re.compile(r"(?:cvar|pvar|category) \d+ .*")  # not the lines that tell of a refusal
        wanted = [line.split(" = ")[0] for line in entry.findall(native)]
        found = [shifted_back(line, len(settings), len(counters)) for line in entry.findall(shim)]
        found = [line for line in found if line is not None]
        check(len(wanted) > 1000, f"only {len(wanted)} variables were listed natively")
        different = [f"{a!r} is {b!r}" for a, b in zip(wanted, found) if a != b.rstrip() and a.rstrip() != b.rstrip()]
        check(len(wanted) == len(found) and not different, (len(wanted), len(found), different[:5]))
        check(re.search(r"^category 0 storm: 0 .*\n", shim, re.M), "our category is not the first")


@test
def our_variables_behave_as_the_standard_says(bench):
    ended = bench.run(*bench.job(1, program(bench, "own_variables")))
    check(ended.status == 0 and ended.out == "" and not ended.storm_lines(), ended)


@test
def a_setting_that_a_tool_wrote_holds(bench):
    """own_variables sets STORM_EAGER_MAX=4096; the report knows."""
    path = os.path.join(bench.root, "tool.json")
    ended = bench.run(*bench.job(1, program(bench, "own_variables"), settings={"STORM_REPORT": f"json:{path}"}))
    check(ended.status == 0, ended)
    settings = {s["name"]: s["value"] for s in json.loads(read(path))["settings"]}
    check(settings["STORM_EAGER_MAX"] == "4096" and settings["STORM_TAGS"] == "1-5,9", settings)


@test
def the_real_mpi_is_asked_for_its_eager_limit(bench):
    for limit in ("8192", "32768"):
        ended = bench.run(*bench.job(2, "traffic", settings=REPORT, mca=("--mca", "btl_vader_eager_limit", limit)))
        routed(ended)
        check(ended.counters()["real_mpi_eager_limit"] == f"{limit} (btl_vader_eager_limit)", ended)
