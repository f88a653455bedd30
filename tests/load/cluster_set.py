# SPDX-License-Identifier: Apache-2.0
"""What the nodes of cluster_tasks.py mount: a set in a real store, and the checksums of what the mounts must show."""

from __future__ import annotations

import contextlib
import hashlib
import re
import signal
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "data"), str(TESTS / "integration")]

from base_system import LONG, call  # noqa: E402
from object_store import Store  # noqa: E402
from two_arrays import COLUMNS, HALVES, ROWS, TwoArrays  # noqa: E402

BUCKET, USER = "train", "test"
SHAPE = (256, 32768)
LAYOUTS = {"tp4": COLUMNS, "tp2": HALVES}


class Sets:
    """The same arrays for each target, as their random numbers are the same: run/ and other/ in the bucket."""

    def __init__(self, folder: Path) -> None:
        self.made = {}
        for name, layout in LAYOUTS.items():
            (folder / name).mkdir(parents=True)
            self.made[name] = TwoArrays(folder / name, ROWS, layout, SHAPE)
        self.wanted = {name: {f"rank_{rank}/checkpoint_{rank}.ckpt": hashlib.sha256(made.expected(rank)).hexdigest()
                              for rank in range(made.dst.device_count)} for name, made in self.made.items()}
        self.folder = folder / "tp4"
        self.size = sum(path.stat().st_size for path in self.made["tp4"].source.rglob("*.ckpt"))

    def upload(self, store: Store) -> None:
        for prefix in ("run/", "other/"):
            store.upload(BUCKET, self.folder, prefix)
        with contextlib.closing(store.client()) as client:
            client.put_object(Bucket=BUCKET, Key="tp2.ckpt", Body=self.made["tp2"].strategies[1].read_bytes())


class Gateway:
    """What the nodes reach the store by: it can be stopped, held up, and asked which keys it has seen."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.process = store.daemons.started[-1]
        self.log = store.directory / "log/client.rgw.log"
        self.logged = 0

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(LONG)

    def start(self) -> None:
        self.process = self.store.start_gateway()

    def hold(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def log_keys(self, level: int) -> None:
        """At level 10 the log has the key of each request."""
        socket = self.store.directory / f"run/client.rgw.{self.process.pid}.asok"
        call("ceph", "--admin-daemon", socket, "config", "set", "debug_rgw", f"{level}/{level}")
        self.logged = self.log.stat().st_size

    def keys_seen(self) -> set[str]:
        """Since the last call."""
        with open(self.log, errors="replace") as log:
            log.seek(self.logged)
            text = log.read()
        self.logged += len(text.encode(errors="replace"))
        return set(re.findall(r" access key id = (\S+)", text))

    def create_key(self, key: str) -> None:
        self.store.administer("key", "create", f"--uid={USER}", "--key-type=s3", f"--access-key={key}",
                              f"--secret-key={secret_of(key)}")

    def withdraw_key(self, key: str) -> None:
        self.store.administer("key", "rm", f"--uid={USER}", "--key-type=s3", f"--access-key={key}")


def secret_of(key: str) -> str:
    return f"{key}-secret"


def keys_file(key: str) -> str:
    return f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret_of(key)}\n"
