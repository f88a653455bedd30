# SPDX-License-Identifier: Apache-2.0
"""A real S3 server for tests: Ceph's RADOS gateway, with one store in memory and no other daemons
than it needs. Where it is not installed, whoever asks for it is skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEY, SECRET = "reshardfskey", "reshardfssecret"
PROGRAMS = ("radosgw", "ceph-mon", "ceph-osd", "radosgw-admin", "ceph", "ceph-authtool",
            "monmaptool")


def require_store() -> None:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise unittest.SkipTest(f"not installed: {', '.join(missing)}")
    try:
        import boto3  # noqa: F401
    except ImportError as error:
        raise unittest.SkipTest("python3-boto3 is not installed") from error


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end(process: subprocess.Popen[bytes], patience: float = 5) -> None:
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


class Daemons:
    """What was started, and is to be stopped in the reverse order."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        self.started.append(process)
        return process

    def stop(self) -> None:
        for process in reversed(self.started):
            end(process)


@dataclass
class Store:
    endpoint: str
    directory: Path = Path()
    """Of its configuration, and its log: for what runs it, and not for a client."""
    daemons: Daemons = field(default_factory=Daemons, repr=False)

    @property
    def configuration(self) -> tuple[str, ...]:
        return "-c", str(self.directory / "ceph.conf"), "-n", "client.rgw"

    def start_gateway(self) -> subprocess.Popen[bytes]:
        """What speaks S3, and keeps nothing itself: it can be stopped, and started again.

        @return its process, when it answers."""
        process = self.daemons.start("radosgw", *self.configuration, "-i", "rgw", "-f")
        until(lambda: answers(self.endpoint))
        return process

    def administer(self, *words: str) -> None:
        call("radosgw-admin", *self.configuration, *words)

    @property
    def environment(self) -> dict[str, str]:
        """What names the store to a program, beside $PATH."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1", "HOME": "/nonexistent"}

    def client(self) -> Any:
        """Of boto3, whose types have no names."""
        import boto3
        from botocore.config import Config
        return boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id=KEY,
                            aws_secret_access_key=SECRET, region_name="us-east-1",
                            config=Config(s3={"addressing_style": "path"}))

    def upload(self, bucket: str, root: Path, prefix: str = "") -> None:
        """All files below a directory."""
        with contextlib.closing(self.client()) as client:
            with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=bucket)
            for path in sorted(root.rglob("*")):
                if path.is_file():
                    client.put_object(Bucket=bucket, Key=prefix + str(path.relative_to(root)),
                                      Body=path.read_bytes())


def call(*words: str) -> None:
    subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True, timeout=60)


def output(*words: str) -> str:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=60)
    return done.stdout


def until(condition, seconds: float = 60.0, what: str = "the object store") -> None:  # noqa: ANN001
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} does not start")
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=20):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def object_store(address: str = "127.0.0.1") -> Iterator[Store]:
    """Which serves S3 at the address of this machine."""
    require_store()
    daemons = Daemons()
    directory = Path(tempfile.mkdtemp(prefix="reshardfs-test-"))
    try:
        for name in ("mon", "osd", "rgw", "log", "run"):
            (directory / name).mkdir()
        port, monitor = free_port(), free_port()
        fsid = str(uuid.uuid4())
        config = directory / "ceph.conf"
        config.write_text(f"""[global]
fsid = {fsid}
mon_host = v2:127.0.0.1:{monitor}/0
mon_initial_members = a
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr1 = false
keyring = {directory}/keyring
admin_socket = {directory}/run/$name.$pid.asok
log_file = {directory}/log/$name.log
pid_file = {directory}/run/$name.pid
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
mon_max_pg_per_osd = 1000
mon_data_avail_warn = 1
mon_data_avail_crit = 1
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
[mon.a]
mon_data = {directory}/mon
[osd.0]
osd_data = {directory}/osd
osd_objectstore = memstore
memstore_device_bytes = 2147483648
osd_class_dir = /usr/lib/x86_64-linux-gnu/rados-classes
[client.rgw]
rgw_frontends = beast endpoint={address}:{port} tcp_nodelay=1
rgw_data = {directory}/rgw
rgw_run_sync_thread = false
""")
        keyring = str(directory / "keyring")
        for name, *caps in (("mon.", "mon", "allow *"),
                            ("client.admin", "mon", "allow *", "osd", "allow *", "mgr", "allow *"),
                            ("osd.0", "mon", "allow profile osd", "osd", "allow *"),
                            ("client.rgw", "mon", "allow rwx", "osd", "allow rwx")):
            make = ["--create-keyring"] if name == "mon." else []
            words = [word for pair in zip(caps[::2], caps[1::2]) for word in ("--cap", *pair)]
            call("ceph-authtool", *make, keyring, "--gen-key", "-n", name, *words)
        conf = ("-c", str(config))
        call("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{monitor}/0]",
             str(directory / "monmap"))
        call("ceph-mon", *conf, "-i", "a", "--mkfs", "--monmap", str(directory / "monmap"),
             "--keyring", keyring)
        daemons.start("ceph-mon", *conf, "-i", "a", "-f")
        osd = str(uuid.uuid4())
        call("ceph", *conf, "osd", "new", osd)
        call("ceph-osd", *conf, "-i", "0", "--mkfs", "--osd-uuid", osd)
        daemons.start("ceph-osd", *conf, "-i", "0", "-f")
        until(lambda: "1 up" in output("ceph", *conf, "osd", "stat"))
        store = Store(f"http://{address}:{port}", directory, daemons)
        store.start_gateway()
        store.administer("user", "create", "--uid=test", "--display-name=test", f"--access-key={KEY}",
                         f"--secret-key={SECRET}")
        yield store
    finally:
        daemons.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    with object_store() as running:
        print(running.endpoint, os.getpid())
