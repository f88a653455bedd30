# SPDX-License-Identifier: Apache-2.0
"""The tasks of cluster_tasks.py from the installation to the metrics, in the order of the guide."""

from __future__ import annotations

import contextlib
import re

from cluster_nodes import Node, wait_for
from cluster_set import BUCKET, keys_file, secret_of
from cluster_state import (CACHE, CONFIG, CREDENTIALS, EXPORTED, KEYS, MOUNTS, Cluster, copy_package, fuse_mounts,
                           in_background, installed_version, journal, metric, restarts, state_of, wait_until_active)
from cluster_watch import Reader

FAILED_CHECKS = "jq -r '.checks[] | select(.status == \"failed\") | .message'"
LATE = ("/data/late /mnt/late reshardfs src_strategy=/data/src.ckpt,dst_strategy=/data/dst.ckpt,allow_other,nofail,"
        "wait_for_source=10m,x-systemd.mount-timeout=infinity 0 0\n")
EDITOR = """#!/bin/sh
printf '[Service]\\nEnvironment=AWS_SHARED_CREDENTIALS_FILE={keys}\\n' >"$1"
"""


def install(cluster: Cluster) -> str:
    version = next(iter(cluster.packages))
    for node in cluster.nodes:
        cluster.base[node.name] = node.changed() | failed_units(node)
        copy_package(cluster, node, version)
        node.run("apt-get -y install ./reshardfs_*.deb")
        assert installed_version(node) == version, installed_version(node)
        node.run("reshardfs doctor")
    return f"{len(cluster.nodes)} nodes, {node.says('reshardfs --version')}"


def failed_units(node: Node) -> set[str]:
    return {line.split()[0] for line in node.lines("systemctl list-units --failed --plain --no-legend")}


def check(cluster: Cluster) -> str:
    """Each mistake is found before anything is mounted."""
    first, third = cluster.node(1), cluster.node(3)
    doctor, fstab = f"reshardfs doctor --config {CONFIG} tp4", "reshardfs doctor --fstab /etc/fstab"
    mistyped = cluster.configuration(first).replace("cache-dir", "cache-dri")
    refused(first, doctor, CONFIG, mistyped, "cache-dri")
    for node in cluster.nodes:
        node.write(CONFIG, cluster.configuration(node))
        node.run(f"install -d -m 1777 {CACHE} && mkdir -p {' '.join(f'/mnt/{name}' for name in MOUNTS[node.name])}")
    refused(first, doctor, CREDENTIALS, "[default]\n", "AccessDenied", "no keys were found")
    cluster.gateway.create_key("first")
    refused(first, doctor, CREDENTIALS, keys_file("first").replace(secret_of("first"), "other"), "SignatureDoesNotMatch")
    cluster.write_keys("first")
    third.run("mkdir -p /mnt/late")
    refused(third, fstab, "/etc/fstab", LATE.replace("src_strategy", "src_strategyy"), "src_strategyy")
    third.write("/etc/fstab", LATE)
    third.run(fstab)
    for node in cluster.nodes:
        variable = f"AWS_SHARED_CREDENTIALS_FILE={KEYS} " if cluster.keys_of(node) == KEYS else ""
        for name in MOUNTS[node.name]:
            node.run(f"{variable}reshardfs doctor --config {CONFIG} {name}")
        assert not fuse_mounts(node)
    return "4 mistakes found, then none"


def refused(node: Node, command: str, place: str, text: str, words: str, advice: str = "") -> None:
    """The file is wrong: the command fails and says why, and so does what programs take of it."""
    node.write(place, text)
    said = node.run(command, 1)
    messages = node.says(f"{command} --json | {FAILED_CHECKS}")
    assert words in messages and words in said and advice in said, f"{node.name}: {command}: {said}\n{messages}"


def mount(cluster: Cluster) -> str:
    third = cluster.node(3)
    third.write("/opt/cluster/editor", EDITOR.format(keys=KEYS))
    third.run("chmod 755 /opt/cluster/editor")
    for name in MOUNTS[third.name]:
        # It wants a terminal.
        edit = f"systemctl edit reshardfs@{name}"
        third.run(f"EDITOR=/opt/cluster/editor script --quiet --return --command '{edit}' /dev/null")
    for node in cluster.nodes:
        node.run("systemctl daemon-reload")
        for name in MOUNTS[node.name]:
            node.run(f"systemctl enable --now reshardfs@{name}")
            # One after the other, so that the second one finds in the cache what the first one has fetched.
            cluster.read(node, name).goes_on()
        assert sorted(fuse_mounts(node)) == sorted(f"/mnt/{name}" for name in MOUNTS[node.name]), fuse_mounts(node)
        for name in MOUNTS[node.name]:
            assert f"/mnt/{name}" in node.run("reshardfs status")
    first = cluster.node(1)
    missed = [metric(first, f"/mnt/{name}", "reshardfs_cache_misses_total") for name in MOUNTS[first.name]]
    assert missed[1] < missed[0] / 4 and metric(first, "/mnt/tp2", "reshardfs_cache_hits_total") > missed[0], missed
    return (f"{cluster.nobody_saw_an_error()} verified reads; blocks that the cache of node1 lacked: {missed[0]:.0f} for "
            f"the first mount, {missed[1]:.0f} for the second")


def start_before_the_source(cluster: Cluster) -> str:
    """A node boots while the store is down and a directory of its fstab is missing; others go on with their caches."""
    third = cluster.node(3)
    cluster.end_readers(third, cluster.node(2))
    cached = cluster.read(cluster.node(2), "tp4")
    cached.goes_on()
    third.power_off()
    cluster.gateway.stop()
    third.boot()
    for name in MOUNTS[third.name]:
        wait_for(lambda: journal(third, "source_awaited", name), f"{name} to wait for its source")
        assert state_of(third, f"reshardfs@{name}") == "activating"
    wait_for(lambda: state_of(third, "mnt-late.mount") == "activating", "the mount of fstab to wait")
    # The same by hand, where it was stopped.
    second = cluster.node(2)
    second.run("systemctl stop reshardfs@stream")
    starting = in_background(second, "systemctl start reshardfs@stream")
    wait_for(lambda: journal(second, "source_awaited", "stream"), "the service to wait for its source")
    goes_on = cluster.nobody_saw_an_error()
    assert starting.poll() is None
    cluster.gateway.start()
    starting.wait()
    assert starting.returncode == 0
    wait_until_active(third, *(f"reshardfs@{name}" for name in MOUNTS[third.name]))
    assert not any("NRestarts=0" not in shown for shown in restarts(third).values()), restarts(third)
    folder = cluster.sets.folder
    for source in folder.rglob("*.ckpt"):
        inside = str(source.relative_to(folder)).replace("set/", "late/")
        if inside.startswith("late/"):
            third.path(f"/data/{inside}").parent.mkdir(parents=True, exist_ok=True)
        else:
            third.path("/data").mkdir(exist_ok=True)
        third.path(f"/data/{inside}").write_bytes(source.read_bytes())
    wait_until_active(third, "mnt-late.mount")
    cluster.read_all()
    late = Reader(third, "train-late", "/mnt/late", cluster.wanted("late")).start()
    cluster.readers["node3", "late"] = late
    cluster.nobody_saw_an_error()
    return f"{goes_on} verified reads of others meanwhile"


def who_reads(cluster: Cluster) -> str:
    for node in cluster.nodes:
        reader = cluster.readers[node.name, "tp4"]
        listed = node.says("lsof +f -- /mnt/tp4")
        for name in reader.wanted:
            assert re.search(rf"^\S+ +{reader.pid} +nobody .*/mnt/tp4/{name}$", listed, re.MULTILINE), listed
        group = node.run(f"cat /proc/{reader.pid}/cgroup")
        assert re.search(rf"^0::/system\.slice/{reader.unit}\.service$", group, re.MULTILINE), group
    return f"{len(cluster.nodes)} readers named, with their units"


def what_failed(cluster: Cluster) -> str:
    """An object is replaced, and then deleted, under an open file."""
    third = cluster.node(3)
    reader = cluster.readers["node3", "stream"]
    seen = []
    with contextlib.closing(cluster.gateway.store.client()) as client:
        # Of another file of the mount, which has a line of its own in the journal.
        for change, rank in (("replaced", 0), ("deleted", 2)):
            key, data = f"other/set/rank_{rank}/m-1_1.ckpt", cluster.sets.made["tp4"].file(rank).read_bytes()
            before, told = sum(reader.errors.values()), len(journal(third, "request_failed", "stream"))
            if change == "replaced":
                client.put_object(Bucket=BUCKET, Key=key, Body=data[:-1] + b"x")
            else:
                client.delete_object(Bucket=BUCKET, Key=key)
            wait_for(lambda: sum(reader.errors.values()) > before, f"an error of {reader.name}")
            wait_for(lambda: len(journal(third, "request_failed", "stream")) > told, "the failure in the journal")
            entry = journal(third, "request_failed", "stream")[-1]
            found = [entry["RESHARDFS_CLIENT_PID"], entry["RESHARDFS_CLIENT_CGROUP"], entry["RESHARDFS_FILE"]]
            assert found[0] == str(reader.pid) and found[1] == f"/system.slice/{reader.unit}.service", entry
            assert found[2] in reader.wanted and entry["ERRNO"].isdigit(), entry
            seen.append(f"{change}: {entry.get('RESHARDFS_ERRNO_NAME', entry['ERRNO'])}")
            listed = third.run("journalctl RESHARDFS_EVENT=request_failed -o json | "
                               "jq -c '[.RESHARDFS_CLIENT_PID, .RESHARDFS_CLIENT_CGROUP, .RESHARDFS_FILE]'")
            assert f'["{found[0]}","{found[1]}","{found[2]}"]' in listed, listed
            listed = third.run("journalctl -u reshardfs@stream -o cat | "
                               "jq -Rc 'fromjson? | select(.event == \"request_failed\") | "
                               "{file, source_file, errno_name, client_pid, duration_seconds}'")
            assert f'"client_pid":{reader.pid},' in listed and f"s3://{BUCKET}/{key}" in listed, listed
            client.put_object(Bucket=BUCKET, Key=key, Body=data)
    errors = reader.errors
    cluster.verified += reader.stop()
    third.run("reshardfs reload --replace /mnt/stream")
    cluster.read(third, "stream")
    cluster.nobody_saw_an_error()
    return f"{', '.join(seen)}; the reader saw {errors}, and none after 'reshardfs reload --replace'"


def collect_metrics(cluster: Cluster) -> str:
    """What Prometheus has from the timers equals what a program has read."""
    for node in cluster.nodes:
        node.run("cp /usr/share/doc/reshardfs/examples/prometheus/reshardfs-metrics.* /etc/systemd/system/")
        node.run("systemctl enable --now reshardfs-metrics.timer")
    second = cluster.node(2)
    cluster.verified += cluster.readers.pop(("node2", "stream")).stop()
    labels = 'mount="/mnt/stream",view="ranks"'
    series = f'reshardfs_read_bytes_total{{instance="node2",{labels}}}'
    prometheus = cluster.prometheus
    begin = metric(second, "/mnt/stream", f"reshardfs_read_bytes_total{{{labels}}}")
    wait_for(lambda: prometheus.value(series) == begin, "the counters before a read")
    size = sum(second.path(f"/mnt/stream/{name}").stat().st_size for name in cluster.wanted("stream"))
    second.run("cat /mnt/stream/rank_*/checkpoint_*.ckpt | wc -c")
    wait_for(lambda: prometheus.value(series) == begin + size, f"{begin + size} bytes read")
    for node in cluster.nodes:
        assert "reshardfs_up" in node.run(f"cat {EXPORTED}")
        for name in MOUNTS[node.name]:
            up = f'reshardfs_up{{instance="{node.name}",mount="/mnt/{name}"}}'
            wait_for(lambda: prometheus.value(up) == 1, up)
    cluster.read(second, "stream")
    return f"{size} bytes read, and counted; {len(prometheus.ask('reshardfs_up'))} mounts"
