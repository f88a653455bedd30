# SPDX-License-Identifier: Apache-2.0
"""The 15 tasks of docs/operations.md, with the commands that it documents: on three nodes, which are booted systems in
containers on a network of their own, with a real object store and a real Prometheus. Programs read meanwhile, and every
byte is compared.

    cluster_tasks.py --package reshardfs_*.deb [--suite bookworm] [--base DIRECTORY]

As root, with debootstrap, systemd-nspawn, Ceph's gateway, boto3, Prometheus and NumPy for /usr/bin/python3 (packages:
debootstrap systemd-container radosgw ceph-mon ceph-osd python3-boto3 prometheus python3-numpy), /dev/fuse, overlayfs
and a kernel with bridges. Needs neither machined nor CAP_SYS_RESOURCE; the base system is fetched from a mirror of Debian,
and nothing else from the network. --base keeps that system for the next run. Takes minutes, most of them for alerts that
wait two minutes by their rules. So it is not one of the tests.

Prints a line for each task. All processes, mounts and interfaces are in namespaces of their own, and end with it."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "packaging"))

from base_system import ALONE, make_system  # noqa: E402
from cluster_first_tasks import (check, collect_metrics, install, start_before_the_source, what_failed,  # noqa: E402
                                 who_reads)
from cluster_first_tasks import mount as mount_from_store  # noqa: E402
from cluster_later_tasks import (drain, empty_the_cache, follow_a_job, go_back, remove, rotate_keys,  # noqa: E402
                                 stalled_source, upgrade)
from cluster_nodes import BRIDGE, HOST, booted, make_bridge, remove_group  # noqa: E402
from cluster_set import Gateway, Sets  # noqa: E402
from cluster_state import MOUNTS, Cluster  # noqa: E402
from debian_versions import newer_version, version_of  # noqa: E402
from object_store import object_store  # noqa: E402
from own_namespace import let_go_of_copies, mount, mount_cgroups  # noqa: E402

PROGRAMS = ("debootstrap", "dpkg-deb", "ip", "nsenter", "prometheus", "radosgw", "systemd-nspawn", "unshare")
PACKAGES = ("ca-certificates", "curl", "dbus", "fuse3", "iproute2", "jq", "lsof", "prometheus-node-exporter", "psmisc",
            "python3", "systemd-sysv")
TASKS: dict[str, Callable[[Cluster], str]] = {
    "install on a node": install,
    "check a node before its first mount": check,
    "mount from a store, with a cache for the node": mount_from_store,
    "start before the source is there": start_before_the_source,
    "see which program has what open": who_reads,
    "find what failed": what_failed,
    "collect metrics": collect_metrics,
    "be told of a source that stalls": stalled_source,
    "rotate the keys of a store": rotate_keys,
    "drain a node": drain,
    "upgrade": upgrade,
    "go back": go_back,
    "empty the cache": empty_the_cache,
    "follow a job": follow_a_job,
    "remove everything": remove,
}


def make_base(root: Path, suite: str, package: Path) -> None:
    """With all that the package needs, but without the package: nodes have no network to fetch it from."""
    new = root.with_name(f"{root.name}.new")
    print(f"making a minimal {suite}", flush=True)
    shutil.rmtree(new, ignore_errors=True)
    make_system(new, suite, package, PACKAGES, "dpkg --purge reshardfs; rm /package.deb /usr/sbin/policy-rc.d")
    new.rename(root)


def do_tasks(cluster: Cluster) -> bool:
    begin = time.monotonic()
    for number, (name, task) in enumerate(TASKS.items(), 1):
        started = time.monotonic()
        try:
            figures = task(cluster)
        except Exception as error:  # whatever it is, it is told
            print(f"{number:2} {name}: FAILED: {type(error).__name__}: {error}", flush=True)
            explain(cluster)
            return False
        print(f"{number:2} {name}: done in {time.monotonic() - started:.0f} s: {figures}", flush=True)
    print(f"{len(TASKS)} tasks done in {time.monotonic() - begin:.0f} s: {cluster.verified} verified reads", flush=True)
    return True


def explain(cluster: Cluster) -> None:
    traceback.print_exc()
    command = "journalctl --no-pager --lines=200 | grep -v 'exporter\\|metrics' | tail -n 50"
    for node in cluster.nodes:
        with contextlib.suppress(Exception):
            print(f"== {node.name}", node.says(command), file=sys.stderr)


def inside(folder: Path, base: Path, packages: dict[str, Path]) -> bool:
    """In namespaces of its own."""
    # systemd-nspawn's own notes are not for this machine.
    mount("none", Path("/run"), "tmpfs", "mode=755")
    mount_cgroups()
    let_go_of_copies()
    os.umask(0o022)
    make_bridge()
    with contextlib.ExitStack() as stack:
        sets = Sets(folder / "sets")
        store = stack.enter_context(object_store(HOST))
        sets.upload(store)
        nodes = stack.enter_context(booted(base, folder, tuple(MOUNTS)))
        done = do_tasks(Cluster(folder, nodes, sets, Gateway(store), packages, stack))
    return done


class Left:
    """What there is outside of the namespaces, where nothing is to be: others may use this machine, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mounts(self) -> list[list[str]]:
        return [line.split(" ") for line in Path("/proc/self/mounts").read_text().splitlines()]

    def processes(self) -> Iterator[str]:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.folder) in (words := path.read_text(errors="replace").replace("\0", " ")):
                    yield f"process {path.parent.name}: {words}"

    def groups(self) -> Iterator[Path]:
        for _, place, kind, *_ in self.mounts():
            if kind == "cgroup2":
                yield from Path(place).glob(f"{self.folder.name}-*")

    def problems(self) -> list[str]:
        places = [place for _, place, *_ in self.mounts() if str(self.folder) in place]
        interfaces = [name for name in os.listdir("/sys/class/net") if name == BRIDGE]
        folders = [str(self.folder)] if self.folder.exists() else []
        return [*self.processes(), *map(str, self.groups()), *places, *interfaces, *folders]


def outside(arguments: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="reshardfs-cluster-") as made:
        folder = Path(made)
        left = Left(folder)
        base = (arguments.base or folder / "base").resolve()
        if not base.exists():
            make_base(base, arguments.suite, arguments.package)
        newer = newer_version(arguments.package, folder)
        words = [*ALONE, "--net", sys.executable, "-B", __file__, "--package", str(arguments.package), "--newer",
                 str(newer), "--base", str(base), "--inside", made]
        try:
            done = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": made})
        finally:
            for group in left.groups():
                remove_group(group)
    problems = left.problems()
    print(f"left behind: {', '.join(problems)}" if problems else "nothing was left behind")
    return done.returncode == 0 and not problems


def end(*_: object) -> None:
    """A second signal must not end what is done then."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.exit("ended by a signal")


def main() -> None:
    parser = argparse.ArgumentParser(description="Does the tasks of docs/operations.md on three nodes.")
    parser.add_argument("--package", type=Path, required=True, help="reshardfs_*.deb, made for the suite")
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--base", type=Path, help="where the base system is, or is to be kept")
    parser.add_argument("--newer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.package = arguments.package.resolve()
    if os.geteuid() != 0:
        parser.error("this needs root")
    for program in PROGRAMS:
        if shutil.which(program) is None:
            parser.error(f"{program} is not installed")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    if arguments.inside is None:
        sys.exit(not outside(arguments))
    packages = {version_of(path): path for path in (arguments.package, arguments.newer)}
    sys.exit(not inside(arguments.inside, arguments.base, packages))


if __name__ == "__main__":
    main()
