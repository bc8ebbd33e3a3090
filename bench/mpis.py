# SPDX-License-Identifier: MIT
"""One table of the small benchmarks: the shim beside Open MPI on shared memory, MPICH,
Open MPI over UCX and the bare ring. Rounds of all, one straight after the other; a stack
that is not there or cannot be selected has no column, and the line below says why."""

import time
from pathlib import Path

import cases
import suite

HERE = Path(__file__).resolve().parent
PROGRAMS = ("pingpong", "test_cost", "growth")
NEIGHBOURS = 4  # one more rank than that, so they share the cores
ROUNDS = 5
SECONDS_MAX = 330  # no round begins that would end later than that
# Where there is no card for it UCX is selected only when it is told not to mind.
UCX = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]

# What is measured: program, its words, ranks.
COMMANDS = [
    ("test_cost", ["--seconds-per-size", "0.1"], 2),
    ("pingpong", ["--mode", "latency", "--sizes", "8,1024,4096,16384", "--seconds-per-size", "0.1"], 2),
    ("pingpong", ["--mode", "fresh_latency", "--sizes", "4096,16384", "--seconds-per-size", "0.1"], 2),
    ("pingpong", ["--mode", "rate", "--sizes", "8,64,1024,16384", "--seconds-per-size", "0.1"], 2),
    ("pingpong", ["--mode", "waitany", "--sizes", "8,1024", "--seconds-per-size", "0.1"], 2),
    ("pingpong", ["--mode", "bidir", "--sizes", "8,1024", "--seconds-per-size", "0.1"], 2),
    ("growth", ["--mode", "neighbours", "--counts", str(NEIGHBOURS)], NEIGHBOURS + 1),
]

NAMES = {
    "test": "MPI_Test, nothing there", "test_null": "MPI_Test, null request", "testany": "MPI_Testany of {}",
    "iprobe": "MPI_Iprobe, nothing there", "iprobe_any": "MPI_Iprobe of any source and tag",
    "latency": "half round trip, {} B", "fresh_latency": "half round trip, {} B written anew",
    "rate": "messages, window 64, {} B", "waitany": "the same by MPI_Waitany, {} B",
    "bidir": "both ways, window 64, {} B", "neighbours": "MPI_Test, {} neighbours",
}


class Stack:
    def __init__(self, title, start):
        self.title, self.start = title, start  # start(program, words, ranks) -> standard output
        self.rounds = []
        self.failed = {}  # what is not tried again: why

    def round(self):
        figures = {}
        for program, words, ranks in COMMANDS:
            name = " ".join([program, *words[:2]])
            if name in self.failed:
                continue
            try:
                figures.update(suite.read_output(self.start(program, words, ranks))[3])
            except cases.Failed as failed:
                self.failed[name] = str(failed).splitlines()[0]
        self.rounds.append(figures)


def mpich(jobs):
    """Starts programs that are built for it in the folder of the jobs; fails if there is none."""
    missing = cases.missing_programs(["mpicxx.mpich", "mpirun.mpich"])
    if missing:
        raise cases.Failed(f"{missing[0]} is not installed (Debian: mpich, libmpich-dev)")
    folder = Path(jobs.scratch.name)
    for name in PROGRAMS:
        jobs.plain(["mpicxx.mpich", "-std=c++20", "-O3", "-DNDEBUG", "-w", "-o", str(folder / f"mpich-{name}"),
                    str(HERE / f"{name}.cc")])

    def start(program, words, ranks):
        bound = ["-bind-to", "core"] if ranks == 2 else []
        return jobs.plain(["mpirun.mpich", *bound, "-n", str(ranks), str(folder / f"mpich-{program}"), *words])[0]
    return start


def open_mpi(jobs, shim, more=()):
    return lambda program, words, ranks: jobs.job(ranks, [jobs.program(program), *words], shim, more=more)[0]


def stacks(jobs, native_only):
    """(those that work here, why others do not)"""
    found = [Stack("Open MPI", open_mpi(jobs, False)), Stack("shim", open_mpi(jobs, not native_only))]
    reasons = []
    for title, make in (("MPICH", lambda: mpich(jobs)), ("Open MPI over UCX", lambda: open_mpi(jobs, False, UCX))):
        try:
            stack = Stack(title, make())
            stack.start("pingpong", ["--sizes", "8", "--seconds-per-size", "0.01"], 2)
            found.append(stack)
        except cases.Failed as failed:
            reasons.append(f"{title}: {str(failed).splitlines()[-1].strip()}")
    return found, reasons


def bare_ring(jobs):
    return suite.read_output(jobs.plain([jobs.program("bare_ring"), "--seconds-per-size", "0.1"])[0])[3]


def measure(jobs, found, rounds, report):
    """The figures of the bare ring; those of the stacks go to them."""
    bare = []
    begin = time.monotonic()
    while len(bare) < rounds:
        spent = time.monotonic() - begin
        if bare and spent * (len(bare) + 1) / len(bare) > SECONDS_MAX:
            print(f"{len(bare)} rounds instead of {rounds}: they took {spent:.0f} s")
            break
        for stack in found if len(bare) % 2 == 0 else reversed(found):
            stack.round()
        bare.append(bare_ring(jobs))
    for stack in found:
        for what, why in stack.failed.items():
            report.fail(f"{stack.title}: {what}", why)
    return bare


def digits(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(found, bare, report):
    """Figures as medians; ratios as the median of those of each round."""
    shim, others = found[1], [s for s in found if s.title != "shim"]
    head = ["", *(s.title for s in found), "bare ring", *(f"shim / {s.title}" for s in others)]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for key, (_, unit) in found[0].rounds[0].items():
        of = {s.title: [r[key][0] for r in s.rounds if key in r] for s in found}
        floor = [r[key][0] for r in bare if key in r]
        row = [NAMES.get(key[0], key[0] + " {}").format(key[1]) + f" ({unit})"]
        row += [digits(cases.median(of[s.title])) if of[s.title] else "" for s in found]
        row.append(digits(cases.median(floor)) if floor else "")
        for s in others:
            ratios = [a / b for a, b in zip(of[shim.title], of[s.title])]
            row.append(f"{cases.median(ratios):.2f} [{min(ratios):.2f} .. {max(ratios):.2f}]" if ratios else "")
            if ratios:
                report.figures.append({"name": f"{key[0]} {key[1]} / {s.title}", "unit": unit, "mark": "-",
                                       "native": cases.median(of[s.title]), "shim": cases.median(of[shim.title]),
                                       "ratio": suite.spread(ratios), "target": ""})
        lines.append("| " + " | ".join(row) + " |")
    return lines


def run(jobs, options, report):
    found, reasons = stacks(jobs, options.native)
    rounds = options.case_pairs or (2 if options.quick else ROUNDS)
    bare = measure(jobs, found, rounds, report)
    print(f"\n2 ranks on cores of their own, {NEIGHBOURS + 1} of the neighbours' row on all; {len(bare)} rounds; of ns "
          "less is better, of M/s more\n")
    print("\n".join(table(found, bare, report)))
    for reason in reasons:
        print(f"\nNo column for {reason}")
