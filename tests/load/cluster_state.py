# SPDX-License-Identifier: Apache-2.0
"""What the tasks of cluster_tasks.py share."""

from __future__ import annotations

import contextlib
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster_nodes import Node, copy_in, wait_for
from cluster_set import BUCKET, Gateway, Sets, keys_file
from cluster_watch import Prometheus, Reader, watching
from object_store import free_port

CACHE = "/var/cache/reshardfs"
CONFIG = "/etc/reshardfs.toml"
CREDENTIALS, KEYS = "/root/.aws/credentials", "/etc/reshardfs.keys"
EXPORTED = "/var/lib/prometheus/node-exporter/reshardfs.prom"
MOUNT_TABLE = """
[mount.{name}]
source = "s3://{bucket}/{prefix}/set"
src-strategy = "s3://{bucket}/{prefix}/src.ckpt"
dst-strategy = "s3://{bucket}/{target}"
mountpoint = "/mnt/{name}"
"""
CACHED = f'cache-dir = "{CACHE}"\ncache-size = "1GiB"\n'
# So that whatever programs read is asked of the store.
UNCACHED = "direct-io = true\n"


def table(name: str, prefix: str, target: str, more: str) -> str:
    return MOUNT_TABLE.format(name=name, bucket=BUCKET, prefix=prefix, target=target) + more


# The mounts of each node: three share a cache with nobody or with another mount, and two have none.
TABLES = {
    "node1": (table("tp4", "run", "run/dst.ckpt", CACHED), table("tp2", "run", "tp2.ckpt", CACHED)),
    "node2": (table("tp4", "run", "run/dst.ckpt", CACHED),
              table("stream", "run", "tp2.ckpt", UNCACHED + "remote-timeout = 3600\n")),
    "node3": (table("tp4", "run", "run/dst.ckpt", CACHED), table("stream", "other", "tp2.ckpt", UNCACHED)),
}
MOUNTS = {"node1": ("tp4", "tp2"), "node2": ("tp4", "stream"), "node3": ("tp4", "stream")}


@dataclass
class Cluster:
    folder: Path
    nodes: list[Node]
    sets: Sets
    gateway: Gateway
    packages: dict[str, Path]
    """By version."""
    stack: contextlib.ExitStack
    base: dict[str, set[str]] = field(default_factory=dict)
    """What each node had before the installation, and which units had failed."""
    readers: dict[tuple[str, str], Reader] = field(default_factory=dict)
    verified: int = 0
    watcher: Prometheus | None = None

    def node(self, number: int) -> Node:
        return self.nodes[number - 1]

    def configuration(self, node: Node) -> str:
        return (f's3-endpoint = "{self.gateway.store.endpoint}"\nlog-format = "json"\nallow-other = true\n'
                # Less than the set has, so that programs do not read it from this memory.
                'prefetch-memory = "8MiB"\n' + "".join(TABLES[node.name]))

    def keys_of(self, node: Node) -> str:
        """One node has them for its services alone."""
        return KEYS if node.name == "node3" else CREDENTIALS

    def write_keys(self, key: str) -> None:
        """As the guide says: another file takes the place."""
        for node in self.nodes:
            place = self.keys_of(node)
            node.write(f"{place}.new", keys_file(key))
            node.run(f"chmod 600 {place}.new && mv {place}.new {place}")

    def enable(self, node: Node) -> None:
        node.run(f"systemctl enable --now {' '.join(f'reshardfs@{name}' for name in MOUNTS[node.name])}")

    def read(self, node: Node, name: str) -> Reader:
        """Starts a program that reads this mount from here on."""
        reader = Reader(node, f"train-{name}", f"/mnt/{name}", self.wanted(name)).start()
        self.readers[node.name, name] = reader
        return reader

    def wanted(self, name: str) -> dict[str, str]:
        """Checksums of the files of a mount."""
        return self.sets.wanted["tp4" if name in ("tp4", "late") else "tp2"]

    def read_all(self) -> None:
        for node in self.nodes:
            for name in MOUNTS[node.name]:
                if (node.name, name) not in self.readers:
                    self.read(node, name)

    def end_readers(self, *nodes: Node) -> None:
        for key, reader in list(self.readers.items()):
            if not nodes or reader.node in nodes:
                self.verified += reader.stop()
                del self.readers[key]

    def nobody_saw_an_error(self, *but: Reader) -> int:
        """All go on, and have seen nothing.

        @return how many reads they have verified."""
        for reader in self.readers.values():
            reader.goes_on()
            if reader not in but:
                reader.has_no_error()
        return sum(reader.verified for reader in self.readers.values())

    def verified_so_far(self) -> int:
        return self.verified + sum(reader.verified for reader in self.readers.values())

    @property
    def prometheus(self) -> Prometheus:
        if self.watcher is None:
            self.watcher = self.stack.enter_context(watching(self.nodes, self.folder / "prometheus", free_port()))
        return self.watcher


def copy_package(cluster: Cluster, node: Node, version: str) -> None:
    """The only one in the directory of root."""
    node.run("rm -f reshardfs_*.deb")
    copy_in(node, cluster.packages[version], f"/root/reshardfs_{version}_amd64.deb")


def installed_version(node: Node) -> str:
    return node.says("dpkg-query --show --showformat='${Version}' reshardfs")


def state_of(node: Node, unit: str) -> str:
    return node.says(f"systemctl is-active {unit}")


def main_pid(node: Node, name: str) -> str:
    return node.says(f"systemctl show --property=MainPID --value reshardfs@{name}")


def restarts(node: Node) -> dict[str, str]:
    return {name: node.run(f"systemctl show --property=NRestarts,ActiveEnterTimestampMonotonic reshardfs@{name}")
            for name in MOUNTS[node.name]}


def fuse_mounts(node: Node) -> list[str]:
    return node.says("findmnt --noheadings --raw --output TARGET --types fuse.reshardfs").split()


def processes(node: Node) -> list[str]:
    return node.says("for exe in /proc/[0-9]*/exe; do readlink $exe; done | grep reshardfs").split("\n")


def metric(node: Node, mountpoint: str, name: str) -> float:
    """The sum of what the mount itself counts."""
    text = node.path(f"{mountpoint}/.reshardfs/metrics").read_text()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def journal(node: Node, event: str, name: str) -> list[dict[str, Any]]:
    text = node.run(f"journalctl RESHARDFS_EVENT={event} RESHARDFS_MOUNT=/mnt/{name} --output=json", None)
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def in_background(node: Node, command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(node.words(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def wait_until_active(node: Node, *units: str) -> None:
    for unit in units:
        wait_for(lambda: state_of(node, unit) in ("active", "failed"), f"{unit} on {node.name}")
        assert state_of(node, unit) == "active", node.says(f"systemctl status --no-pager --lines=20 {unit}")
