# SPDX-License-Identifier: Apache-2.0
"""The tasks of cluster_tasks.py from the stalled source to the removal, in the order of the guide."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ckpt_format import encode_checkpoint, record_of
from cluster_first_tasks import LATE, failed_units
from cluster_nodes import Node, wait_for
from cluster_state import (CACHE, CONFIG, CREDENTIALS, EXPORTED, KEYS, MOUNTS, Cluster, copy_package, fuse_mounts,
                           installed_version, journal, main_pid, metric, processes, restarts)
from follow_job import full_array
from layouts import shard
from strategy_files import Strategy, write_protobuf
from two_arrays import HALVES

ALERT = "ReshardfsSourceStalled"
# What the guide says stays, because somebody has made it.
OWN = {CONFIG, KEYS, CACHE, EXPORTED, "/etc/systemd/system/reshardfs-metrics.service",
       "/etc/systemd/system/reshardfs-metrics.timer", "/etc/systemd/system/timers.target.wants/reshardfs-metrics.timer"}
# What the system itself writes down when packages come and go, and what this program has put there.
OTHERS = ("/etc/ld.so.cache", "/var/cache/apt", "/var/cache/debconf", "/var/cache/ldconfig", "/var/lib/apt", "/var/lib/dpkg",
          "/var/lib/systemd", "/var/log", "/var/tmp", "/data", "/opt/cluster")
STEPS, KEPT = 12, 4


def stalled_source(cluster: Cluster) -> str:
    """The store answers nobody: caches go on, a mount that may wait waits, and the others' reads fail after a minute."""
    second, third = cluster.node(2), cluster.node(3)
    waiting, failing = cluster.readers["node2", "stream"], cluster.readers["node3", "stream"]
    cached = [reader for reader in cluster.readers.values() if reader not in (waiting, failing)]
    prometheus, begin = cluster.prometheus, time.monotonic()
    cluster.gateway.hold()
    try:
        for node in (second, third):
            reader = cluster.readers[node.name, "stream"]
            wait_for(lambda: journal(node, "source_stalled", "stream"), f"the stall of {node.name} in its journal")
            entry = journal(node, "source_stalled", "stream")[-1]
            assert entry["RESHARDFS_CLIENT_PID"] == str(reader.pid) and entry["RESHARDFS_FILE"] in reader.wanted, entry
        for node in (second, third):
            wait_for(lambda: prometheus.firing(ALERT, node, "/mnt/stream"), f"{ALERT} of {node.name}")
        fired = time.monotonic() - begin
        for reader in cached:
            reader.goes_on()
            reader.has_no_error()
        assert not prometheus.firing(ALERT, second, "/mnt/tp4")
        wait_for(lambda: failing.errors, "an error after the time of a request")
    finally:
        cluster.gateway.go_on()
    begin = time.monotonic()
    for node in (second, third):
        wait_for(lambda: journal(node, "stall_over", "stream"), f"the end of the stall on {node.name}")
        wait_for(lambda: not prometheus.firing(ALERT, node, "/mnt/stream"), f"the end of {ALERT} of {node.name}")
    cleared = time.monotonic() - begin
    cluster.nobody_saw_an_error(failing)
    failed, longest = failing.errors, waiting.look()["longest"]
    cluster.verified += failing.stop()
    cluster.read(third, "stream").goes_on()
    return (f"the alert fired after {fired:.0f} s and ended after {cleared:.0f} s; one read waited {longest:.0f} s and was "
            f"right; with the default remote-timeout a reader saw {failed}")


def rotate_keys(cluster: Cluster) -> str:
    streams = [reader for (_, name), reader in cluster.readers.items() if name == "stream"]
    cluster.gateway.log_keys(10)
    cluster.gateway.create_key("second")
    cluster.write_keys("second")
    begin = time.monotonic()

    def old_is_out_of_use() -> bool:
        for reader in streams:
            reader.goes_on(2)
        seen = cluster.gateway.keys_seen()
        return "second" in seen and "first" not in seen

    wait_for(old_is_out_of_use, "requests with the new key alone")
    taken_over = time.monotonic() - begin
    cluster.gateway.withdraw_key("first")
    verified = cluster.nobody_saw_an_error()
    # Withdrawn too early.
    cluster.gateway.withdraw_key("second")
    for reader in streams:
        wait_for(lambda: reader.errors, f"an error of {reader.name}")
    cluster.gateway.create_key("third")
    cluster.write_keys("third")
    cluster.nobody_saw_an_error(*streams)
    errors = {name for reader in streams for name in reader.errors}
    assert errors == {"EACCES"}, errors
    cluster.gateway.log_keys(1)
    for reader in streams:
        cluster.verified += reader.stop()
        cluster.read(reader.node, "stream")
    return (f"{verified} verified reads without an error, and the new key alone in use after {taken_over:.1f} s; EACCES for "
            "a key withdrawn too early")


def drain(cluster: Cluster) -> str:
    node = cluster.node(3)
    reader = cluster.readers["node3", "tp4"]
    assert str(reader.pid) in node.says("fuser -vm /mnt/tp4")
    for command, refusal in (("umount /mnt/tp4", "target is busy"), ("reshardfs umount /mnt/tp4", "the mount is in use")):
        said = node.run(command, None)
        assert refusal in said, f"{command}: {said}"
    cluster.nobody_saw_an_error()
    cluster.end_readers(node)
    # A line of titles, and one for each that uses it.
    wait_for(lambda: len(node.says("fuser -vm /mnt/tp4 2>&1").splitlines()) == 2, "nobody but the kernel")
    node.run("systemctl disable --now reshardfs@tp4")
    node.run("systemctl stop 'reshardfs@*'")
    assert fuse_mounts(node) == ["/mnt/late"], fuse_mounts(node)
    node.run("umount /mnt/late")
    assert not fuse_mounts(node)
    wait_for(lambda: processes(node) == [""], f"the end of {processes(node)}")
    # And back to work.
    node.run("mount /mnt/late")
    cluster.enable(node)
    cluster.read_all()
    return f"refused while files were open; {cluster.nobody_saw_an_error()} verified reads on the other nodes and afterwards"


def change_version(cluster: Cluster, version: str, option: str) -> str:
    """On one node after the other, while programs read."""
    for node in cluster.nodes:
        copy_package(cluster, node, version)
        before, pids = restarts(node), {name: main_pid(node, name) for name in MOUNTS[node.name]}
        counted = {name: metric(node, f"/mnt/{name}", "reshardfs_upgrades_total") for name in pids}
        said = node.run(f"apt-get -y install {option}./reshardfs_*.deb")
        assert installed_version(node) == version, installed_version(node)
        for name, pid in pids.items():
            assert f"reshardfs@{name}.service was handed over" in said, said
            assert main_pid(node, name) != pid, f"{name}: still process {pid}"
            assert metric(node, f"/mnt/{name}", "reshardfs_upgrades_total") == counted[name] + 1
        assert restarts(node) == before, f"{before}, then {restarts(node)}"
        if node.name == "node3":
            assert "1 process(es) go on with the former program" in said, said
            node.run("reshardfs reload /mnt/late")
        assert set(processes(node)) == {"/usr/bin/reshardfs"}, processes(node)
    verified = cluster.nobody_saw_an_error()
    longest = max(reader.look()["longest"] for reader in cluster.readers.values() if reader.unit != "train-stream")
    return f"{version}: {verified} verified reads, the longest of 256 KiB took {longest:.2f} s"


def upgrade(cluster: Cluster) -> str:
    return change_version(cluster, list(cluster.packages)[1], "")


def go_back(cluster: Cluster) -> str:
    return change_version(cluster, list(cluster.packages)[0], "--allow-downgrades ")


def empty_the_cache(cluster: Cluster) -> str:
    node = cluster.node(1)
    readers = [cluster.readers["node1", name] for name in MOUNTS["node1"]]

    def blocks() -> set[tuple[str, int]]:
        return {(str(path), path.stat().st_ino) for path in node.path(CACHE).rglob("*") if path.is_file()}

    before, whole = blocks(), cluster.sets.size >> 20
    assert len(before) >= whole, before
    verified = sum(reader.verified for reader in readers)
    node.run(f"find {CACHE} -ignore_readdir_race -type f -delete")
    wait_for(lambda: len(blocks() - before) >= whole, "the cache to fill again")
    cluster.nobody_saw_an_error()
    verified = sum(reader.verified for reader in readers) - verified
    return f"{len(before)} files, {len(blocks())} others soon after, {verified} verified reads"


class Job:
    """Saves steps of two ranks in a directory of a node, and keeps the last ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for rank in range(HALVES.device_count):
            (folder / f"ckpt/rank_{rank}").mkdir(parents=True)
        write_protobuf(Strategy([{"w": HALVES}]), folder / "train.ckpt")

    def file(self, rank: int, step: int) -> Path:
        return self.folder / f"ckpt/rank_{rank}/net-1_{step}.ckpt"

    def save(self, step: int) -> None:
        for rank in range(HALVES.device_count):
            new = self.folder / f"ckpt/rank_{rank}/writing"
            new.write_bytes(encode_checkpoint([record_of("w", "UInt8", shard(full_array(step), HALVES, rank))]))
            new.rename(self.file(rank, step))

    def delete(self, step: int) -> None:
        for rank in range(HALVES.device_count):
            self.file(rank, step).unlink()


def follow_a_job(cluster: Cluster) -> str:
    node = cluster.node(2)
    job = Job(node.path("/data"))
    job.save(1)
    node.run("mkdir -p /mnt/all && cd /data && reshardfs mount ckpt /mnt/all --src-strategy train.ckpt --step all")
    top, verified = node.path("/mnt/all"), 0

    def whole(step: int) -> bytes:
        return encode_checkpoint([record_of("w", "UInt8", full_array(step))])

    def latest_is(step: int) -> bool:
        return (top / "latest/merged/checkpoint_merged.ckpt").read_bytes() == whole(step)

    def shown() -> set[str]:
        return set(os.listdir(top / "steps"))

    kept = -1
    for step in range(1, STEPS + 1):
        if step > 1:
            job.save(step)
        wait_for(lambda: latest_is(step), f"step {step} as the latest")
        verified += 1
        if step == 2:
            kept = os.open(top / "latest/merged/checkpoint_merged.ckpt", os.O_RDONLY)
        if step > KEPT:
            job.delete(step - KEPT)
            left = {f"1_{one}" for one in range(step - KEPT + 1, step + 1)}
            wait_for(lambda: shown() == left, f"steps {sorted(left)}: {sorted(shown())}")
    assert os.pread(kept, 1 << 20, 0) == whole(2), "a deleted step is not what it was"
    os.close(kept)
    node.run("umount /mnt/all && rm -r /data")
    return f"{STEPS} steps, {verified + 1} verified reads, one of a deleted step"


def remove(cluster: Cluster) -> str:
    """With running services: the package takes along what is its own, and the rest is deleted by hand, as the guide says."""
    cluster.end_readers()
    stayed: set[str] = set()
    for node in cluster.nodes:
        node.run("rm reshardfs_*.deb")
        if node.name == "node3":
            node.run("umount /mnt/late")
        node.run("apt-get -y purge reshardfs")
        assert not fuse_mounts(node), fuse_mounts(node)
        wait_for(lambda: processes(node) == [""], "the end of all processes")
        left = named(node)
        dropped = {path for path in left if path.startswith("/etc/systemd/system/reshardfs@")}
        unexplained = {path for path in left - dropped if not any(Path(path).is_relative_to(own) for own in OWN)}
        assert not unexplained, f"{node.name}: left behind: {sorted(unexplained)}"
        assert all(".service.d" in path for path in dropped), dropped
        stayed |= {path for path in OWN if any(Path(one).is_relative_to(path) for one in left)} | dropped
        remove_own(node)
        nothing_is_left(cluster, node)
    return f"stayed until deleted by hand: {', '.join(sorted(stayed))}"


def named(node: Node) -> set[str]:
    return {path for path in node.changed() if "reshardfs" in path}


def remove_own(node: Node) -> None:
    node.run("systemctl disable --now reshardfs-metrics.timer")
    node.run("rm -rf /etc/systemd/system/reshardfs-metrics.* /etc/systemd/system/reshardfs@*.service.d "
             f"{EXPORTED} {CONFIG} {KEYS} {Path(CREDENTIALS).parent} {CACHE}")
    assert node.path("/etc/fstab").read_text() in ("", LATE)
    node.write("/etc/fstab", "")
    node.run("systemctl daemon-reload && rmdir /mnt/*")


def nothing_is_left(cluster: Cluster, node: Node) -> None:
    assert not named(node), f"{node.name}: left behind: {sorted(named(node))}"
    left = {path for path in node.changed() - cluster.base[node.name]
            if not any(Path(path).is_relative_to(other) for other in OTHERS)}
    assert not left, f"{node.name}: left behind: {sorted(left)}"
    for command in ("list-units --all", "list-unit-files"):
        units = node.says(f"systemctl {command} --plain --no-legend 'reshardfs*' '*mnt-*'")
        assert not units, f"{node.name}: {command}: {units}"
    failed = failed_units(node) - cluster.base[node.name]
    assert not failed, f"{node.name}: {failed}"
