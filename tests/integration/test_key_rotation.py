# SPDX-License-Identifier: Apache-2.0
"""The keys of a store are replaced while a mount reads from it: the mount takes the new ones from the file in which
Kubernetes projects a secret, without a restart."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from memory_store import BUCKET, MemoryStore, error, serving  # noqa: E402
from mounted import Settings, mountpoint_guard, run, run_unittests, scratch  # noqa: E402
from s3_proxy import Answer, Pass, Request  # noqa: E402

PIECE = 4 << 20
DATA = encode_checkpoint([Record("w", "UInt8", (8 * PIECE,), bytes(range(256)) * (8 * PIECE // 256))])
FILE = "rank_0/checkpoint_0.ckpt"


class Guarded:
    """A store that knows which keys are valid, and serves ranges."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.objects["m.ckpt"] = DATA, "1"
        self.store.fault = self.answer
        self.valid: set[str] = set()
        self.seen: list[str] = []
        """IDs of the keys that signed requests."""

    def answer(self, request: Request, pass_on: Pass) -> Answer:
        headers = {name.lower(): value for name, value in request.headers.items()}
        found = re.search(r"Credential=([^/]+)/", headers.get("authorization", ""))
        self.seen.append(found[1] if found else "")
        if self.seen[-1] not in self.valid:
            return error(403, "InvalidAccessKeyId")
        answer = pass_on(request)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        if not asked or answer.status != 200:
            return answer
        first, last = int(asked[1]), min(int(asked[2]), len(DATA) - 1)
        return Answer(206, [("ETag", '"1"'), ("Content-Range", f"bytes {first}-{last}/{len(DATA)}"),
                            ("Content-Length", str(last + 1 - first))], DATA[first:last + 1])


class Secret:
    """A directory as Kubernetes makes it of a secret: the file is a link into a directory, which another link names,
    and an update replaces that other link."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.versions = folder, 0
        folder.mkdir()
        (folder / "credentials").symlink_to("..data/credentials")

    def put(self, key: str) -> None:
        self.versions += 1
        version = self.folder / f"..{self.versions}"
        version.mkdir()
        (version / "credentials").write_text(
            f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n")
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self.folder / "..data")

    @property
    def file(self) -> Path:
        return self.folder / "credentials"


@contextlib.contextmanager
def mounted_with(guarded: Guarded, secret: Secret, mountpoint: Path) -> Iterator[None]:
    with serving(guarded.store) as environment:
        kept = dict(os.environ)
        os.environ.update({name: value for name, value in environment.items() if "KEY" not in name})
        os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(secret.file)
        try:
            with mountpoint_guard(mountpoint):
                # What was fetched in advance would need no key.
                done = run("mount", f"s3://{BUCKET}/m.ckpt", mountpoint, "--remote-timeout", "1", "--prefetch-memory", "0")
                assert done.code == 0, done.stderr
                yield
                assert run("umount", mountpoint).code == 0
        finally:
            os.environ.clear()
            os.environ.update(kept)


class Reader:
    """Reads a part of the file that nobody has read before: others may be in the memory of the program."""

    def __init__(self, mountpoint: Path) -> None:
        self.path = mountpoint / FILE
        self.next = 0

    def is_right(self) -> bool:
        at, self.next = self.next, self.next + PIECE
        with open(self.path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            return os.pread(file.fileno(), 1 << 16, at) == DATA[at:at + (1 << 16)]


class KeyRotation(unittest.TestCase):
    def test_keys_are_replaced_while_a_mount_reads(self) -> None:
        guarded = Guarded()
        with scratch() as directory:
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            secret = Secret(directory / "secret")
            secret.put("first")
            guarded.valid = {"first"}
            with mounted_with(guarded, secret, mountpoint):
                reader = Reader(mountpoint)
                self.assertTrue(reader.is_right())
                for old, new in (("first", "second"), ("second", "third")):
                    # As one rotates: both are valid until everybody has the new one.
                    guarded.valid.add(new)
                    secret.put(new)
                    guarded.valid.remove(old)
                    guarded.seen.clear()
                    self.assertTrue(reader.is_right())
                    self.assertIn(new, guarded.seen)  # beside what was under way

    def test_a_key_that_was_withdrawn_too_early_is_an_error_until_there_is_another(self) -> None:
        guarded = Guarded()
        with scratch() as directory:
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            secret = Secret(directory / "secret")
            secret.put("first")
            guarded.valid = {"first"}
            with mounted_with(guarded, secret, mountpoint):
                reader = Reader(mountpoint)
                self.assertTrue(reader.is_right())
                guarded.valid = {"second"}
                with self.assertRaises(OSError):
                    reader.is_right()
                secret.put("second")
                self.assertTrue(reader.is_right())


if __name__ == "__main__":
    run_unittests()
