# SPDX-License-Identifier: MIT
"""Stand-in launchers and programs, and expectations, for the checks of stormrun."""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import traceback

TESTS = []
MARK = "preloads="  # what the probe program prints before its LD_PRELOAD


class Skip(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f"got    {got!r}\nwanted {wanted!r}")


def contains(text, *parts):
    for part in parts:
        if part not in text:
            raise AssertionError(f"{part!r} is not in {text!r}")


def lacks(text, part):
    if part in text:
        raise AssertionError(f"{part!r} is in {text!r}")


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise Skip(f"{tool} is not installed")


class Bench:
    """A scratch directory with programs, stand-in launchers and a clean environment."""

    def __init__(self, stormrun, lib, root):
        self.stormrun = os.path.abspath(stormrun)
        self.lib = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(lib))), os.path.basename(lib))
        self.root = pathlib.Path(root)
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("STORM_", "LD_", "OMPI_", "PMIX_", "SLURM_", "PBS_", "LSB_", "FLUX_"))
            and name not in ("PE_HOSTFILE", "COBALT_NODEFILE", "OPAL_PREFIX")
        }
        home = self.root / "home"
        home.mkdir()
        self.env["HOME"] = str(home)
        if os.getuid() == 0:
            self.env["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
            self.env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        self.record = self.root / "record.json"
        self.fake = self.script(
            "fake_launcher",
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            "texts = {}\n"
            "for name in sys.argv[1:]:\n"
            "    if name.startswith('/proc/self/fd/'):\n"
            "        texts[name] = open(name).read()\n"
            f"json.dump([sys.argv[1:], dict(os.environ), texts], open({str(self.record)!r}, 'w'))\n"
            "sys.exit(int(os.environ.get('FAKE_STATUS', '0')))\n",
        )
        self.prog = self.script("prog", "#!/bin/sh\nexit 0\n")

    def path(self, name):
        return str(self.root / name)

    def script(self, name, text, mode=0o755):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def compile(self, name, text, *options, compiler="gcc"):
        need(compiler)
        source = self.root / (os.path.basename(name) + ".c")
        source.write_text(text)
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [compiler, "-x", "c", str(source), "-x", "none", "-o", self.path(name), *options],
            capture_output=True, text=True, env=self.env, cwd=self.root,
        )
        if done.returncode != 0:
            raise AssertionError(f"{compiler} {name}: {done.stderr}")
        return self.path(name)

    def run(self, *words, env=None, cwd=None, stormrun=None):
        return subprocess.run(
            [stormrun or self.stormrun, *words],
            capture_output=True, text=True, timeout=120, cwd=cwd or self.root,
            env={**self.env, **(env or {})},
        )

    def dry(self, *words, **more):
        """The command stormrun would run, as words, without the launcher's name."""
        done = self.run("--dry-run", "--lib", self.lib, "--launcher", self.fake, *words, **more)
        # The loader complains about preloads that tests invent.
        said = [line for line in done.stderr.splitlines() if not line.startswith("ERROR: ld.so: object")]
        if done.returncode != 0 or said:
            raise AssertionError(f"status {done.returncode}: {said}")
        return shlex.split(done.stdout)[1:]

    def launch(self, *words, lib=True, **more):
        """What the stand-in launcher got: arguments, environment, edited files."""
        self.record.unlink(missing_ok=True)
        choice = ["--lib", self.lib] if lib else []
        done = self.run(*choice, "--launcher", self.fake, *words, **more)
        if not self.record.exists():
            raise AssertionError(f"nothing launched, status {done.returncode}: {done.stderr}")
        arguments, environment, texts = json.loads(self.record.read_text())
        return arguments, environment, texts, done

    def refused(self, *words, status=2, **more):
        """Standard error of a run that must stop before the launcher."""
        self.record.unlink(missing_ok=True)
        done = self.run("--lib", self.lib, "--launcher", self.fake, *words, **more)
        equal(done.returncode, status)
        equal(self.record.exists(), False)
        contains(done.stderr, "stormrun: ")
        return done.stderr

    def preload(self, *before):
        return ["-x", "LD_PRELOAD=" + ":".join([*before, self.lib])]


# ---- own options
