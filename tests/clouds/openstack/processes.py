"""Processes that outlive the command that started them, known by their ID and start time: an ID alone may belong to somebody else."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

# For what takes seconds on a machine that does nothing else.
PATIENCE = 180
# After SIGTERM and before SIGKILL.
GRACE = 15


def fail(message):
    sys.exit("openstack lab: error: " + message)


def _start_time(pid):
    """In ticks since the machine started; None when the process has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


class Processes:
    def __init__(self, root, environment):
        self.root, self.environment = root, environment
        for folder in ("run", "log"):
            (root / folder).mkdir(exist_ok=True)

    def log(self, name):
        return self.root / "log" / f"{name}.log"

    def pid(self, name):
        """The process of this name, if it runs."""
        try:
            pid, started = (self.root / "run" / f"{name}.pid").read_text().split()
        except (OSError, ValueError):
            return None
        return int(pid) if _start_time(pid) == started else None

    def start(self, name, command, **environment):
        """Starts it as the leader of a process group, unless it runs."""
        if self.pid(name):
            return
        with open(self.log(name), "ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.root,
                                     start_new_session=True, env={**self.environment, **environment})
        (self.root / "run" / f"{name}.pid").write_text(f"{child.pid} {_start_time(child.pid)}")

    def run(self, name, *command):
        """Runs a step of a set-up to its end."""
        with open(self.log(name + "-setup"), "ab") as log:
            step = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.root, env=self.environment)
        if step.returncode:
            fail(f"{' '.join(map(str, command))} failed, see {log.name}")

    def signal(self, name, number):
        """Sends a signal to the whole group."""
        pid = self.pid(name) or fail(f"{name} does not run; `status` lists what does")
        os.killpg(pid, number)

    def stop(self, *names):
        """Ends them, all at the same time."""
        running = {name: pid for name in names if (pid := self.pid(name))}
        for pid in running.values():
            os.kill(pid, signal.SIGTERM)
            # One that is paused would not hear it.
            os.killpg(pid, signal.SIGCONT)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(self.pid(name) for name in running):
            time.sleep(0.05)
        for pid in running.values():
            # Whoever it has started ends with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for name in names:
            (self.root / "run" / f"{name}.pid").unlink(missing_ok=True)

    def wait(self, name, lacks, ready):
        """Waits until it is ready, and no longer than it runs. `lacks` says what is missing until then."""
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if not self.pid(name):
                fail(f"{name} has ended, see {self.log(name)}")
            if time.monotonic() > deadline:
                fail(f"{name} {lacks} after {PATIENCE} s, see {self.log(name)}")
            time.sleep(0.1)


def turn(name):
    """One program with this name at a time on this machine: as long as the result lives."""
    held = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + 2 * PATIENCE
    while True:
        try:
            held.bind("\0" + name)
            return held
        except OSError:
            if time.monotonic() > deadline:
                fail(f"another {name} has not ended after {2 * PATIENCE} s")
            time.sleep(0.2)


def listens(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def listeners(ports):
    """Processes that listen on some of these ports: by ID, the folder that each works in. Others' show to root alone."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as lines:
            fields = [line.split() for line in lines][1:]
        sockets |= {f"socket:[{field[9]}]" for field in fields if field[3] == "0A" and int(field[1].rpartition(":")[2], 16) in ports}
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) in sockets for file in (process / "fd").iterdir()):
                found[int(process.name)] = os.readlink(process / "cwd")
        except OSError:
            # It has ended meanwhile.
            continue
    return found


def answers(url):
    """Whether a service answers; a refusal for want of a token is an answer, too."""
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=30).close()
    except urllib.error.HTTPError as error:
        return error.code in (300, 401)
    except OSError:
        return False
    return True
