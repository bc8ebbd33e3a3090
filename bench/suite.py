# SPDX-License-Identifier: MIT
"""A suite is a text file of cases; suites/transport.suite says what a line means. Each case
runs natively and under the shim in turn, its results are compared to the last digit, and
its time is split by the phases that the transport codes print."""

import re
import shlex

import cases

PHASES = ("track", "pack", "send", "poll", "idle", "terminate", "other")
PROGRESS = ("poll", "idle", "terminate")  # looks for completion, with and without work
KEYS = {"ranks": int, "pairs": int, "against": str, "speedup": float, "progress": float, "limit": float,
        "mpirun": str}
PAIRS_MIN = 5


class Case:
    def __init__(self, path, number, line):
        head, separator, command = line.partition(" -- ")
        words = shlex.split(head)
        self.command = shlex.split(command)
        if not separator or not words or not self.command:
            raise cases.Failed(f"{path}:{number}: not a case: {line}")
        self.name = words[0]
        self.ranks, self.pairs, self.against = 2, PAIRS_MIN, None
        self.speedup = self.progress = self.limit = None
        self.mpirun = ""
        for word in words[1:]:
            key, _, value = word.partition("=")
            if key not in KEYS:
                raise cases.Failed(f"{path}:{number}: unknown key {key} (known: {', '.join(KEYS)})")
            setattr(self, key, KEYS[key](value))


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = [(n, line.strip()) for n, line in enumerate(file, 1)]
    return [Case(path, n, line) for n, line in lines if line and not line.startswith("#")]


def read_output(stdout):
    """(result lines, seconds or None, {phase: percent}, {(mode, count): (value, unit)})"""
    result, seconds, phases, costs = [], None, {}, {}
    for line in stdout.splitlines():
        field = line.split()
        if len(field) == 6 and field[4] == "best": # a line of the micro benchmarks
            costs[field[0], int(field[1])] = (float(field[2]), field[3])
        elif not line.startswith("time:"):
            result.append(line)
        elif match := re.match(r"time: ([\d.]+) s", line):
            seconds = float(match.group(1))
        elif line.startswith("time: phases"):
            phases = {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)", line[12:])
                      if name in PHASES}
    if "balance BROKEN" in result:
        raise cases.Failed("energy or number is not conserved:\n" + stdout)
    return result, seconds, phases, costs


def spread(values):
    return {"median": cases.median(values), "min": min(values), "max": max(values)}


def run_case(jobs, case, pairs, native_only):
    """The figure of one case: times, phases and ratios of interleaved runs."""
    runs = {"native": [], "shim": []}
    expected = None
    for number in range(pairs):
        for which in ("native", "shim") if number % 2 == 0 else ("shim", "native"):
            command = [jobs.program(case.command[0])] + case.command[1:]
            stdout, _, took = jobs.job(case.ranks, command, which == "shim" and not native_only,
                                       more=shlex.split(case.mpirun))
            result, seconds, phases, costs = read_output(stdout)
            expected = expected or result
            different = cases.difference(expected, result)
            if different:
                raise cases.Failed(f"results differ ({which}, pair {number + 1}): {different}")
            seconds = took if seconds is None else seconds
            in_progress = seconds * sum(phases.get(p, 0) for p in PROGRESS) / 100
            runs[which].append((seconds, in_progress, phases, costs))
    figure = {"name": case.name, "ranks": case.ranks, "command": " ".join(case.command), "pairs": pairs}
    for which, found in runs.items():
        figure[which] = {"seconds": spread([f[0] for f in found]), "progress": spread([f[1] for f in found]),
                         "phases": {p: cases.median([f[2].get(p, 0) for f in found]) for p in PHASES},
                         "all_seconds": [f[0] for f in found]}
    figure["speedup"] = spread([n[0] / s[0] for n, s in zip(runs["native"], runs["shim"])])
    figure["costs"] = [
        {"name": f"{mode} {count}", "unit": unit, **{which: cases.median([f[3][mode, count][0] for f in found])
                                                     for which, found in runs.items()}}
        for (mode, count), (_, unit) in runs["native"][0][3].items()]
    if all(f[1] > 0 for found in runs.values() for f in found):
        figure["progress_ratio"] = spread([n[1] / s[1] for n, s in zip(runs["native"], runs["shim"])])
    return figure


def judge(case, figure, others):
    """[(what is wanted, met)]"""
    wanted = []
    if case.speedup is not None:
        wanted.append((f"speed-up >= {case.speedup}", figure["speedup"]["median"] >= case.speedup))
    if case.progress is not None:
        ratio = figure.get("progress_ratio", {"median": 0})["median"]
        wanted.append((f"progress / {case.progress}", ratio >= case.progress))
    if case.limit is not None:
        native = figure["native"]["seconds"]
        noise = (native["max"] - native["min"]) / native["median"]
        wanted.append((f"time <= {case.limit} + {noise:.3f}", 1 / figure["speedup"]["median"] <= case.limit + noise))
    if case.against is not None and case.against in others:
        other = others[case.against]["shim"]["seconds"]["median"]
        wanted.append((f"as fast as {case.against}", figure["shim"]["seconds"]["median"] <= other * 1.01))
    return wanted


def show(case, figure):
    for cost in figure["costs"]:
        print(f"{cost['name']:<20} {case.ranks} {cost['native']:>12.4g} {cost['shim']:>12.4g} {cost['unit']:<4} "
              f"{cost['shim'] / cost['native']:>7.3f}", flush=True)
    if figure["costs"]:
        return
    native, shim, speedup = figure["native"]["seconds"], figure["shim"]["seconds"], figure["speedup"]
    print(f"{case.name:<20} {case.ranks} {native['median']:>8.3f} [{native['min']:.3f} .. {native['max']:.3f}] "
          f"{shim['median']:>8.3f} [{shim['min']:.3f} .. {shim['max']:.3f}] {speedup['median']:>6.2f} "
          f"[{speedup['min']:.2f} .. {speedup['max']:.2f}]", end="")
    if "progress_ratio" in figure:
        ratio = figure["progress_ratio"]
        print(f"  progress {figure['native']['progress']['median']:.3f} -> "
              f"{figure['shim']['progress']['median']:.3f} s, / {ratio['median']:.1f}", end="")
    for text, met in figure["wanted"]:
        print(f"  {'ok' if met else 'MISS'} {text}", end="")
    print(flush=True)
    for which in ("native", "shim"):
        phases = figure[which]["phases"]
        if any(phases.values()):
            print(f"    {which:<7}" + " ".join(f"{p} {phases[p]:.1f}" for p in PHASES) + " %", flush=True)


def run(jobs, path, report, pairs=None, native_only=False):
    print(f"\n{path}: native and shim in turn; results compared to the last digit\n{'case':<20} ranks native [min .. "
          "max] shim [min .. max] s, speed-up [min .. max]", flush=True)
    done = {}
    for case in read(path):
        try:
            figure = run_case(jobs, case, pairs or case.pairs, native_only)
        except cases.Failed as failed:
            report.fail(case.name, failed)
            continue
        figure["wanted"] = judge(case, figure, done)
        figure["mark"] = "MISS" if any(not met for _, met in figure["wanted"]) else "ok"
        done[case.name] = figure
        report.cases.append(figure)
        show(case, figure)
