"""A real OpenStack on loopback, for tests: Keystone, Nova, Neutron, Octavia, Barbican, Glance and Placement of Debian 12.

    lab.py install                    its packages (root)
    lab.py start [--page-limit N] [--token-cache SECONDS]
                                      the first time it sets everything up; later it starts what does not run
    lab.py stop | status | clean      clean removes its folder, too
    lab.py pause | resume SERVICE     with octavia-worker paused, load balancers stay PENDING_*; others do not answer
    lab.py sql SCHEMA STATEMENT       for states that no API gives: update load_balancer set provisioning_status = 'ERROR' where ...

Options of `start` take effect when the services start: stop before. Its folder is $OPENSTACK_LAB, else wasm-ccm/openstack-lab in the
folder for caches. README.md says what there is and what is not.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

sys.dont_write_bytecode = True

import fixtures  # noqa: E402
import settings  # noqa: E402
from processes import Processes, fail, listeners, listens, turn  # noqa: E402
from services import PACKAGES, Services  # noqa: E402

# Says that a folder is the lab's: no other one is ever filled or removed.
MARK = "openstack-lab"
# A Unix socket's path has at most 107 bytes.
LONGEST = 85


def is_debian_12():
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return False
    return "ID=debian" in lines and 'VERSION_ID="12"' in lines


def folder():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = Path(os.environ.get("OPENSTACK_LAB") or cache / "wasm-ccm/openstack-lab").absolute()
    if len(str(root)) > LONGEST:
        fail(f"{root} is too long for a socket in it; set OPENSTACK_LAB to a shorter path")
    if root.exists() and any(root.iterdir()) and not (root / MARK).exists():
        fail(f"{root} has files that are not the lab's; set OPENSTACK_LAB to another path")
    return root


def install():
    def is_installed(name):
        # One that was removed and not purged has a status, too.
        query = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", name], capture_output=True, text=True)
        return query.stdout == "installed"

    packages = [name for name in PACKAGES if not is_installed(name)]
    if not packages:
        return
    if not is_debian_12():
        fail("the lab is made of Debian 12's packages, and this is another system")
    if os.getuid():
        fail("root installs packages")
    # Debian's packages would start their services on all addresses, without this.
    policy = Path("/usr/sbin/policy-rc.d")
    forbids = not policy.exists()
    try:
        if forbids:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", *packages]):
            run = subprocess.run(["apt-get", "-o", "DPkg::Lock::Timeout=300", *step], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if run.returncode:
                fail(f"apt-get {step[0]} failed: {run.stdout[-2000:]}{run.stderr[-2000:]}")
    finally:
        if forbids:
            policy.unlink(missing_ok=True)


def environment(root):
    """Nothing of the caller's: no proxy, no account of another OpenStack."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": f"{root}/data/home", "PYTHONPATH": f"{root}/plugins",
            "PYTHONDONTWRITEBYTECODE": "1"}


def refuse_taken(root, processes):
    """All labs have the same ports: two of them do not run at the same time."""
    taken = {port: name for name, port in settings.PORTS.items() if name != "distribution" and not processes.pid(name) and listens(port)}
    if not taken:
        return
    found = listeners(set(taken))
    labs = {folder for folder in found.values() if folder != str(root) and (Path(folder) / MARK).exists()}
    if labs:
        other = min(labs)
        fail(f"another lab has its ports: {other}; stop that one: OPENSTACK_LAB={other} python3 {Path(__file__).absolute()} stop")
    ports = ", ".join(f"{port} ({name})" for port, name in taken.items())
    whose = ", ".join(f"{pid} (in {folder})" for pid, folder in sorted(found.items())) or "unknown, as root sees them alone"
    fail(f"others listen on {ports} of 127.0.0.1; their processes: {whose}")


def start(root, page_limit, token_cache):
    began = time.monotonic()
    # The ports say who is there only when nobody begins.
    with turn("start of an openstack lab"):
        begin(root, page_limit, token_cache)
    print(f"openstack lab: ready after {time.monotonic() - began:.0f} s, {root}/lab.json", flush=True)


def begin(root, page_limit, token_cache):
    if shutil.which("uwsgi_python3", path="/usr/bin") is None:
        fail("its packages are missing; run `lab.py install` as root")
    if os.getuid():
        fail("root starts it: what Debian's packages have in /etc is not for everybody")
    for name in ("etc", "plugins", "data/home", "data/neutron", "data/nova/instances", "data/octavia", "data/images"):
        (root / name).mkdir(parents=True, exist_ok=True)
    root.chmod(0o700)
    (root / MARK).touch()
    processes = Processes(root, environment(root))
    refuse_taken(root, processes)
    settings.write(root, page_limit, token_cache)
    shutil.copytree(Path(__file__).parent / "plugins", root / "plugins", dirs_exist_ok=True)
    services = Services(root, processes)
    services.start_foundation()
    with ThreadPoolExecutor(3) as pool:
        others = pool.map(services.set_up, ("nova", "neutron", "octavia", "barbican", "glance", "placement"))
        services.set_up("keystone")
        services.start_keystone()
        admin = fixtures.Admin()
        roles = fixtures.identity(admin)
        list(others)
    since = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    services.start()
    services.wait()
    discover = ["nova-manage", f"--config-file={root}/etc/nova/nova.conf", "cell_v2", "discover_hosts"]
    fixtures.await_reports(admin, since)
    processes.run("nova", *discover)
    fixtures.describe(root, roles, fixtures.resources(admin), token_cache)


def status(root):
    processes = Processes(root, {})
    for path in sorted((root / "run").glob("*.pid")):
        pid = processes.pid(path.stem)
        print(f"{path.stem:16}", f"runs, process group {pid}" if pid else "has ended")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = options.add_subparsers(dest="command", required=True)
    for name in ("install", "stop", "status", "clean", "is-debian-12"):
        commands.add_parser(name)
    starting = commands.add_parser("start")
    starting.add_argument("--page-limit", type=int, default=0)
    starting.add_argument("--token-cache", type=int, default=10)
    for name in ("pause", "resume"):
        commands.add_parser(name).add_argument("service")
    asking = commands.add_parser("sql")
    asking.add_argument("schema")
    asking.add_argument("statement")
    given = options.parse_args()
    if given.command == "install":
        return install()
    if given.command == "is-debian-12":
        return sys.exit(0 if is_debian_12() else 1)
    root = folder()
    if given.command == "start":
        root.mkdir(parents=True, exist_ok=True)
        return start(root, given.page_limit, given.token_cache)
    if not (root / MARK).exists():
        return None if given.command in ("stop", "clean", "status") else fail(f"there is no lab in {root}; start it")
    processes = Processes(root, environment(root))
    services = Services(root, processes)
    if given.command == "status":
        status(root)
    elif given.command in ("stop", "clean"):
        services.stop()
        if given.command == "clean":
            shutil.rmtree(root)
    elif given.command == "sql":
        print(services.sql(given.schema, given.statement), end="")
    else:
        processes.signal(given.service, signal.SIGSTOP if given.command == "pause" else signal.SIGCONT)
    return None


if __name__ == "__main__":
    main()
