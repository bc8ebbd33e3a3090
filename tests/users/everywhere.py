"""Every setting, counter and call is in one table, and from there in each place that tells of it."""

from jobs import *  # noqa: F403
from variables import listed

SOURCE = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def source(*parts):
    return read(os.path.join(SOURCE, *parts))


def page(bench, name):
    for folder in (os.path.join(bench.build, "man"), os.path.join(SOURCE, "man")):
        text = read(os.path.join(folder, name))
        if text:
            return text.replace("\\-", "-")
    raise AssertionError(f"{name} was not built")


def info(bench, *options):
    ended = bench.run(os.path.join(bench.build, "shim", "tools", "storm-info"), *options)
    check(ended.status == 0, ended)
    return ended.out


def once_in_each(names, **places):
    """Each name is there once in every place, in the same order, and no other is."""
    check(len(names) == len(set(names)) and len(names) > 10, f"the table: {names}")
    for place, found in places.items():
        found = list(found)
        check(sorted(found) == sorted(names),
              f"{place}: lacks {sorted(set(names) - set(found))}, has {sorted(set(found) - set(names))} "
              f"or twice {sorted({n for n in found if found.count(n) > 1})}")


@test
def every_setting_is_in_one_table_and_told_of_everywhere(bench):
    once_in_each(re.findall(r'^STORM_SETTING\(\w+, [\w:]+, "(\w+)"', source("shim", "settings.def"), re.M),
                 page=re.findall(r"^\.TP\n\.B (STORM_\w+)$", page(bench, "storm-settings.7"), re.M),
                 info=[s["name"] for s in json.loads(info(bench, "--json", "--settings"))["settings"]],
                 mpi_t=re.findall(r"^cvar \d+ (STORM_\w+) ", listed(bench, True)[0], re.M))


@test
def every_counter_is_in_one_table_and_told_of_everywhere(bench):
    path = os.path.join(bench.root, "counted.json")
    ended = bench.run(*bench.job(1, "traffic", settings={"STORM_REPORT": f"json:{path}"}))
    right(ended)
    summary = bench.run(*bench.job(1, "traffic", settings=REPORT)).counters()
    text = page(bench, "storm-counters.7").split(".SH COUNTERS")[1].split(".SH OTHER LINES")[0]
    names = re.findall(r'^STORM_COUNTER\(\w+, "(\w+)"', source("shim", "counters.def"), re.M)
    tool = re.findall(r"^pvar \d+ storm_(\w+) ", listed(bench, True)[0], re.M)
    tool.remove("ring_high_water_bytes")  # a mark, not a counter; the report has it on its own line
    once_in_each(names, page=re.findall(r"^\.TP\n\.B (\w+)$", text, re.M),
                 info=re.findall(r"^\.B (\w+)$", info(bench, "--counters-roff"), re.M), mpi_t=tool,
                 report=list(json.loads(read(path))["counters"]), summary=[n for n in summary if n in names])


@test
def every_wrapped_call_is_in_one_table_and_in_its_page(bench):
    rows = re.findall(r"^(ours|comm|enter) .*?\b(MPI_\w+)\s*\(", source("interpose", "calls.tbl"), re.M)
    ended = bench.run("nm", "-D", "--defined-only", bench.lib)
    text = page(bench, "storm-calls.7").split(".SH CALLS")[1].split(".SS Untouched")[0]
    once_in_each([name for _, name in rows], page=re.findall(r"^\.BR (MPI_\w+) [.,]$", text, re.M),
                 library=re.findall(r" [TW] (MPI_\w+)$", ended.out, re.M))
