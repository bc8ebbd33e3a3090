# SPDX-License-Identifier: MIT
"""Hosts as network namespaces: each with a link for the fabric and one for all else (the
real MPI's tcp, its daemons, PMIx), its own processes, name, /dev/shm and /sys. Nothing of
them is left: their processes are children in namespaces of their own, which end with the
command that made them, and links end with the namespaces.

    with Hosts(2) as hosts:
        hosts.mpirun(["-np", "2", ...]).wait()
        hosts.cut(1, FABRIC)
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FABRIC, REST = "fab0", "mpi0"  # the two devices of a host
SUBNET = {FABRIC: "10.77.1", REST: "10.77.2"}
TOOLS = ("ip", "nsenter", "unshare", "mount", "mpirun")


def missing():
    """Why there can be no hosts here, or ""."""
    if os.geteuid() != 0:
        return "root is needed to make network namespaces"
    for tool in TOOLS:
        if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            return f"{tool} is not installed"
    probe = subprocess.run(["unshare", "--net", "--uts", "--mount", "--ipc", "--pid", "--fork", "true"],
                           capture_output=True, text=True)
    return "" if probe.returncode == 0 else "namespaces cannot be made: " + probe.stderr.strip()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Job:
    """A command on the first host; its output is in files while it runs."""

    def __init__(self, argv, env, folder):
        self.out = open(os.path.join(folder, f"out{time.monotonic_ns()}"), "w+", encoding="utf-8", errors="replace")
        self.began = time.monotonic()
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT,
                                        env=env, start_new_session=True)

    def text(self):
        self.out.flush()
        with open(self.out.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, timeout=120):
        """The exit code, or None when it had to be ended."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if self.process.poll() is None:
                self.kill()
            self.seconds = time.monotonic() - self.began

    def wait_for(self, words, timeout=60):
        until = time.monotonic() + timeout
        while time.monotonic() < until and self.process.poll() is None:
            if words in self.text():
                return True
            time.sleep(0.02)
        return words in self.text()

    def kill(self):
        # the first process of a host's namespace: all in it end with it
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Hosts:
    def __init__(self, count):
        self.names = [f"storm{os.getpid()}{'abc'[i]}" for i in range(count)]
        self.switch = f"storm{os.getpid()}s" if count > 2 else None
        self.jobs = []

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all is undone
        self.folder = tempfile.mkdtemp(prefix="storm-hosts-")
        try:
            self.make()
        except BaseException:
            self.undo()
            raise
        return self

    def __exit__(self, *_):
        self.undo()

    def make(self):
        for name in [*self.names, *([self.switch] if self.switch else [])]:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for device, subnet in SUBNET.items():
            if self.switch:
                ip("-n", self.switch, "link", "add", "br-" + device, "type", "bridge")
                ip("-n", self.switch, "link", "set", "br-" + device, "up")
                for i, name in enumerate(self.names):
                    self.pair(name, device, self.switch, f"{device}-{i}")
                    ip("-n", self.switch, "link", "set", f"{device}-{i}", "master", "br-" + device)
            else:
                self.pair(self.names[0], device, self.names[1], device)
            for i, name in enumerate(self.names):
                ip("-n", name, "addr", "add", f"{subnet}.{i + 1}/24", "dev", device)
                ip("-n", name, "link", "set", device, "up")
        while any("state UP" not in self.run_in(i, "ip", "link", "show", device).stdout
                  for i in range(len(self.names)) for device in SUBNET):
            time.sleep(0.05)
        self.agent = os.path.join(self.folder, "agent")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\nhost=$1; shift\n"
                       f'exec {" ".join(self.entry("$host"))} bash -c "{self.inside("$host")} $*"\n')
        os.chmod(self.agent, 0o755)

    @staticmethod
    def pair(one, device, other, name):
        ip("-n", one, "link", "add", device, "type", "veth", "peer", "name", name, "netns", other)
        ip("-n", other, "link", "set", name, "up")

    @staticmethod
    def entry(host):
        return ["nsenter", f"--net=/run/netns/{host}", "unshare", "--uts", "--mount", "--ipc", "--pid", "--fork",
                "--kill-child", "--mount-proc"]

    @staticmethod
    def inside(host):
        return f"hostname {host}; mount -t tmpfs tmpfs /dev/shm; mount -t sysfs sysfs /sys;"

    def undo(self):
        for job in self.jobs:
            if job.process.poll() is None:
                job.kill()
        for name in [*self.names, *([self.switch] if self.switch else [])]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, argv, env=None):
        """A command on the first host."""
        command = [*self.entry(self.names[0]), "bash", "-c", self.inside(self.names[0]) + ' "$@"; exit $?', "-", *argv]
        job = Job(command, {**os.environ, **(env or {})}, self.folder)
        self.jobs.append(job)
        return job

    def launch_line(self, slots=1):
        """Options of mpirun for ranks on all hosts."""
        within = SUBNET[REST] + ".0/24"
        return ["--mca", "plm_rsh_agent", self.agent, "--host", ",".join(f"{n}:{slots}" for n in self.names),
                "--mca", "oob_tcp_if_include", within, "--mca", "btl_tcp_if_include", within,
                "--mca", "pml", "ob1", "--mca", "btl", "tcp,vader,self", "--map-by", "node", "--bind-to", "none",
                "--mca", "mpi_yield_when_idle", "1"]  # they share the cores, and do not know it

    def cut(self, host, device):
        ip("-n", self.names[host], "link", "set", device, "down")

    def run_in(self, host, *argv):
        return subprocess.run(["nsenter", f"--net=/run/netns/{self.names[host]}", *argv], capture_output=True,
                              text=True)

    def processes(self, host, name):
        """Those of this name on a host."""
        network = os.stat(f"/run/netns/{self.names[host]}").st_ino
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    called = file.read().strip() == name[:15]
                if called and os.stat(f"/proc/{pid}/ns/net").st_ino == network:
                    found.append(int(pid))
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found
