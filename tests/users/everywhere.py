# SPDX-License-Identifier: MIT
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
                 info=[s["name"] for s in json.loads(info(bench, "--json"))["settings"]],
                 info_alone=re.findall(r"^  (STORM_\w+) ", info(bench, "--settings"), re.M),
                 mpi_t=re.findall(r"^cvar \d+ (STORM_\w+) ", listed(bench, True)[0], re.M))


@test
def every_counter_is_in_one_table_and_told_of_everywhere(bench):
    path = os.path.join(bench.root, "counted.json")
    ended = bench.run(*bench.job(1, "traffic", settings={"STORM_REPORT": f"json:{path}"}))
    right(ended)
    summary = bench.run(*bench.job(1, "traffic", settings=REPORT)).counters()
    text = page(bench, "storm-counters.7").split(".SH COUNTERS")[1].split(".SH OTHER LINES")[0]
    names = re.findall(r'^STORM_(?:COUNTER\(\w+, |MARK\()"(\w+)"', source("shim", "counters.def"), re.M)
    told = json.loads(read(path))
    once_in_each(names, page=re.findall(r"^\.TP\n\.B (\w+)$", text, re.M),
                 rows=re.findall(r"^\.B (\w+)$", info(bench, "--counters-roff"), re.M),
                 info=[c["name"] for c in json.loads(info(bench, "--json"))["counters"]],
                 info_alone=re.findall(r"^  (\w+) ", info(bench, "--counters"), re.M),
                 mpi_t=re.findall(r"^pvar \d+ storm_(\w+) ", listed(bench, True)[0], re.M),
                 report=[*told["counters"], *(n for n in told if n in names)], help=list(told["counter_help"]),
                 summary=[n for n in summary if n in names])


@test
def every_wrapped_call_is_in_one_table_and_told_of_everywhere(bench):
    rows = re.findall(r"^(ours|comm|enter) .*?\b(MPI_\w+)\s*\(", source("interpose", "calls.tbl"), re.M)
    ended = bench.run("nm", "-D", "--defined-only", "--without-symbol-versions", bench.lib)
    text = page(bench, "storm-calls.7").split(".SH CALLS")[1].split(".SS Untouched")[0]
    calls = json.loads(info(bench, "--json"))["calls"]
    alone = re.findall(r"^  (MPI_\w+) +(.*)$", info(bench, "--calls"), re.M)
    once_in_each([name for _, name in rows], page=re.findall(r"^\.BR (MPI_\w+) [.,]$", text, re.M),
                 info=[c["name"] for c in calls if c["handling"] != "untouched"],
                 info_alone=[name for name, handling in alone if handling != "untouched"],
                 library=re.findall(r" [TW] (MPI_\w+)$", ended.out, re.M),
                 profiling=["MPI" + name for name in re.findall(r" [TW] PMPI(_\w+)$", ended.out, re.M)])


@test
def every_call_of_mpi_is_counted_once_in_storm_info(bench):
    every = re.findall(r"^(?:ours|comm|enter|use|pass) .*?\b(MPI_\w+)\s*\(", source("interpose", "calls.tbl"), re.M)
    calls = json.loads(info(bench, "--json"))["calls"]
    once_in_each(every, info=[c["name"] for c in calls])
    text = info(bench)
    total = int(re.search(r"^calls of MPI: (\d+) ", text, re.M)[1])
    lines = re.findall(r"^ +(\d+) (taken over|passed on; .*|untouched)$", text, re.M)
    check(total == len(every) == sum(int(n) for n, _ in lines) and len(lines) == 4, (total, lines))
    for number, handling in lines:
        check(sum(c["handling"] == handling for c in calls) == int(number), (number, handling))


@test
def nothing_else_lists_settings_or_counters(bench):
    """A second list would go stale: no file of the shim but the table names most of them."""
    for table, pattern in (("settings.def", r'"(STORM_\w+)"'), ("counters.def", r'"(\w+)"')):
        names = set(re.findall(r"^STORM_\w+\([^\n]*?" + pattern, source("shim", table), re.M))
        for folder in ("shim", "interpose", "backends", "topology", "man"):
            for place, _, files in os.walk(os.path.join(SOURCE, folder)):
                for file in files:
                    if file in (table, "report_page.html"):
                        continue
                    found = names & set(re.findall(pattern, read(os.path.join(place, file))))
                    check(len(found) <= len(names) / 2, f"{place}/{file} lists {sorted(found)}")
