# SPDX-License-Identifier: MIT
"""What `run` and `main_job` share: starting a job natively or under stormrun, the
check of the build type, and reading the output of the programs."""

import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MELT = HERE / "melt.in"
TIMEOUT_S = 300


class Failed(Exception):
    """A run that did not end well, or whose output is not what it should be."""


class Jobs:
    """Starts jobs of one build directory."""

    def __init__(self, build):
        self.build = Path(build).resolve()
        self.stormrun = self.build / "shim" / "tools" / "stormrun"
        self.scratch = tempfile.TemporaryDirectory(prefix="bench-")

    def program(self, name):
        path = self.build / "bench" / name
        if not path.exists():
            raise Failed(f"{path} is missing: build it first (meson compile -C {self.build})")
        return str(path)

    def job(self, ranks, command, shim, summary=False, more=()):
        """Runs `command` on `ranks` ranks; (stdout, stderr, seconds). `more`: words for the
        launcher."""
        launcher = [str(self.stormrun) if shim else "mpirun"]
        if os.geteuid() == 0:
            launcher.append("--allow-run-as-root")
        environment = dict(os.environ)
        environment.pop("STORM_REPORT", None)
        if summary:
            environment["STORM_REPORT"] = "summary"
        return self.plain(launcher + placement(ranks) + list(more) + ["-n", str(ranks)] + command,
                          environment)

    def plain(self, command, environment=None):
        begin = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S,
                                  env=environment, cwd=self.scratch.name, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"no end after {TIMEOUT_S} s: {' '.join(command)}") from None
        except OSError as error:
            raise Failed(f"not started ({error}): {' '.join(command)}") from None
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise Failed(f"exit status {done.returncode}: {' '.join(command)}\n{tail}")
        return done.stdout, done.stderr, time.monotonic() - begin


def placement(ranks):
    """Two ranks on cores of their own; more than that share the cores."""
    if ranks <= 2:
        return ["--bind-to", "core"]
    return ["--bind-to", "none", "--oversubscribe"]


def why_not_measure(build):
    """Why figures of this build directory would mean nothing, or None."""
    path = Path(build) / "meson-info" / "intro-buildoptions.json"
    try:
        options = {o["name"]: o["value"] for o in json.loads(path.read_text())}
    except (OSError, ValueError) as error:
        return f"{path} cannot be read ({error}): is this a meson build directory?"
    if str(options.get("optimization")) not in ("2", "3"):
        return (f"optimization is {options.get('optimization')} (buildtype "
                f"{options.get('buildtype')}), not 2 or 3")
    ndebug = options.get("b_ndebug")
    if options.get("buildtype") != "release" and ndebug not in ("true", True):
        return (f"buildtype is {options.get('buildtype')} and b_ndebug is {ndebug}: "
                "assertions are compiled in")
    if options.get("b_sanitize", "none") not in ("none", "", []):
        return f"b_sanitize is {options['b_sanitize']}"
    return None


def build_type(build):
    path = Path(build) / "meson-info" / "intro-buildoptions.json"
    options = {o["name"]: o["value"] for o in json.loads(path.read_text())}
    return (f"{options.get('buildtype')}, optimization {options.get('optimization')}, "
            f"b_ndebug {options.get('b_ndebug')}")


def missing_programs(names):
    return [name for name in names if shutil.which(name) is None]


def machine():
    """Processor, cores and load in one line."""
    model = "unknown processor"
    try:
        found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        model = found.group(1) if found else model
    except OSError:
        pass
    load = " ".join(f"{x:.2f}" for x in os.getloadavg())
    return f"{model}, {len(os.sched_getaffinity(0))} cores usable, load {load}"


def mpi_version():
    try:
        done = subprocess.run(["mpirun", "--version"], capture_output=True, text=True,
                              timeout=30, check=False)
        return done.stdout.splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown"


def photon_result(stdout):
    """(result lines, seconds)"""
    lines = stdout.splitlines()
    result = [line for line in lines if line and not line.startswith("time:")]
    seconds = [float(m.group(1)) for m in map(re.compile(r"time: ([\d.]+) s").match, lines)
               if m]
    if len(seconds) != 1 or "balance exact" not in result:
        raise Failed("photon: no time, or its balance is broken:\n" + stdout)
    return result, seconds[0]


def melt_result(stdout):
    """(thermo lines, seconds)"""
    lines = stdout.splitlines()
    begin = [i for i, line in enumerate(lines) if line.split()[:1] == ["Step"]]
    end = [i for i, line in enumerate(lines) if line.startswith("Loop time of ")]
    if len(begin) != 1 or len(end) != 1 or end[0] < begin[0] + 2:
        raise Failed("lmp: no thermo lines:\n" + "\n".join(lines[-15:]))
    return lines[begin[0] + 1:end[0]], float(lines[end[0]].split()[3])


def difference(expected, found):
    """The first line that differs, in words, or None."""
    for number, (a, b) in enumerate(zip(expected, found), 1):
        if a != b:
            return f"line {number}: expected '{a.strip()}', found '{b.strip()}'"
    if len(expected) != len(found):
        return f"{len(expected)} lines expected, {len(found)} found"
    return None


def storm_lines(stderr):
    return [line for line in stderr.splitlines() if line.startswith("storm:")]


def share_in_ring(lines):
    """The smallest eligible_in_ring_percent among the summary lines, or None."""
    found = [float(m.group(1)) for m in
             (re.match(r"storm:\s*eligible_in_ring_percent\s+([\d.]+)", line)
              for line in lines) if m]
    return min(found) if found else None


def median(values):
    return statistics.median(values)
