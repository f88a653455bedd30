# SPDX-License-Identifier: Apache-2.0
"""One cache directory for many mounts and users: its bound holds, a disk that is full (of bytes or of
inodes) and a directory that is taken away cost speed and nothing else, and records of another version
of the program are passed over."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mounted import Settings, run, run_unittests, wait_until
from remote_tests import MANY, Remote
from two_arrays import COLUMNS, HALVES, ROWS, Layout, TwoArrays, metric, mounted_file

MIB = 1 << 20
# No room in memory beside the cache for what was read.
LITTLE_MEMORY = ("--prefetch-memory", "16MiB", "--direct-io")


def used_bytes(directory: Path) -> int:
    """Of the files that are there between two looks: others come and go meanwhile."""
    files: dict[Path, os.stat_result] = {}
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file():
                files[path] = path.stat()
    total = 0
    for path, seen in files.items():
        with contextlib.suppress(OSError):
            if path.stat().st_ino == seen.st_ino:
                total += seen.st_blocks * 512
    return total


class SharedCache(Remote):
    def setUp(self) -> None:
        super().setUp()
        self.set_up(ROWS, HALVES, MANY)
        self.cache = self.root / "cache"

    def options(self, size: str = "1GiB") -> tuple[str, ...]:
        return (*LITTLE_MEMORY, "--cache-dir", str(self.cache), "--cache-size", size)

    @contextlib.contextmanager
    def small_disk(self, options: str) -> Iterator[None]:
        self.cache.mkdir(mode=0o1777)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.cache], check=False,
                              capture_output=True)
        if done.returncode != 0:
            self.skipTest("mounting is not permitted")
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", self.cache], check=False)

    def read_all(self, mountpoints: list[Path], rounds: int, meanwhile: Callable[[], None] | None = None,
                 ) -> None:
        """Readers of all files of all mounts at once; every byte is compared."""
        wrong: list[str] = []

        def read(mountpoint: Path, rank: int) -> None:
            for _ in range(rounds):
                try:
                    if mounted_file(mountpoint, rank).read_bytes() != self.made.expected(rank):
                        wrong.append(f"{mountpoint} rank {rank}")
                except OSError as error:
                    wrong.append(f"{mountpoint} rank {rank}: {error}")

        readers = [threading.Thread(target=read, args=(mountpoint, rank))
                   for mountpoint in mountpoints for rank in range(2)]
        for reader in readers:
            reader.start()
        while meanwhile is not None and any(reader.is_alive() for reader in readers):
            meanwhile()
            time.sleep(0.02)
        for reader in readers:
            reader.join()
        self.assertEqual(wrong, [])

    def several(self, stack: contextlib.ExitStack, count: int, size: str = "1GiB") -> list[Path]:
        return [stack.enter_context(self.mount(*self.options(size))) for _ in range(count)]

    def is_filled_by(self, mountpoints: list[Path]) -> bool:
        self.read_all(mountpoints, 1)
        return used_bytes(self.cache) > MIB

    def assert_in_use(self, mountpoints: list[Path]) -> None:
        """What is read again and again is kept, as far as there is room."""
        before = sum(metric(mountpoint, "cache_hits_total") for mountpoint in mountpoints)
        written = sum(metric(mountpoint, "cache_written_bytes_total") for mountpoint in mountpoints)
        self.assertGreater(written, 0)
        self.read_all(mountpoints, 1)
        after = sum(metric(mountpoint, "cache_hits_total") for mountpoint in mountpoints)
        self.assertGreater(after, before)

    def test_a_disk_without_bytes(self) -> None:
        total = 2 * len(self.made.expected(0))
        with self.small_disk(f"size={total // 3}"), contextlib.ExitStack() as stack:
            mounts = self.several(stack, 3)
            self.read_all(mounts, 3)
            self.assert_in_use(mounts)
            # Nobody is told again and again.
            log = (self.root / "log").read_text() if (self.root / "log").exists() else ""
            self.assertLess(len(log.splitlines()), 30, log[:2000])

    def test_a_disk_without_inodes(self) -> None:
        with self.small_disk("nr_inodes=48"), contextlib.ExitStack() as stack:
            mounts = self.several(stack, 3)
            self.read_all(mounts, 3)
            self.assert_in_use(mounts)
            free = os.statvfs(self.cache)
            self.assertLess(free.f_ffree, 16)

    def test_a_disk_that_others_fill(self) -> None:
        with self.small_disk("size=96m"), contextlib.ExitStack() as stack:
            mounts = self.several(stack, 2)
            self.read_all(mounts, 1)
            filler = self.cache / "filler"
            with contextlib.suppress(OSError), open(filler, "wb") as file:
                while True:
                    file.write(bytes(MIB))
            self.read_all(mounts, 2)
            filler.unlink()
            shutil.rmtree(self.cache / f"reshardfs-{os.geteuid()}")
            # After a failure it is left alone for a while.
            self.assertTrue(wait_until(lambda: self.is_filled_by(mounts)))
            self.assert_in_use(mounts)

    def test_a_directory_that_is_taken_away(self) -> None:
        with contextlib.ExitStack() as stack:
            mounts = self.several(stack, 3)
            taken = 0

            def take_away() -> None:
                nonlocal taken
                if (self.cache / f"reshardfs-{os.geteuid()}").exists():
                    shutil.rmtree(self.cache, ignore_errors=True)
                    taken += 1

            self.read_all(mounts, 6, take_away)
            self.assertGreater(taken, 1)
            # All of them use the one that is there now, soon after the last failure.
            self.assertTrue(wait_until(lambda: self.is_filled_by(mounts)))
            self.assert_in_use(mounts)

    def test_the_bound_holds_under_load(self) -> None:
        bound = 16 * MIB
        most = 0
        with contextlib.ExitStack() as stack:
            mounts = self.several(stack, 4, "16MiB")

            def look() -> None:
                nonlocal most
                most = max(most, used_bytes(self.cache))

            self.read_all(mounts, 4, look)
            evicted = sum(metric(mountpoint, "cache_evicted_total") for mountpoint in mounts)
        self.assertGreater(evicted, 0)
        self.assertGreater(most, bound // 2)
        # Records that somebody reads while they are removed come on top, but have no name any more.
        self.assertLessEqual(most, bound + MIB)

    def test_users_have_their_own(self) -> None:
        self.cache.mkdir()
        self.cache.chmod(0o1777)
        name = "rank_0/checkpoint_0.ckpt"
        expected = hashlib.sha256(self.made.expected(0)).hexdigest()
        words: list[str | Path] = ["hash", self.url, name, *self.made.options(), "--cache-dir", self.cache]
        for path in (self.root, *self.made.strategies):
            path.chmod(0o755)
        for user in (None, 54321, 54322, 54321):
            prefix = [] if user is None else [
                "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            command: list[str | Path] = [*prefix, Settings.binary, *words]
            done = subprocess.run(command, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False, timeout=120,
                                  env={**os.environ, "HOME": "/nonexistent"})
            if user is not None and "setpriv" in done.stderr:
                self.skipTest(done.stderr)
            self.assertEqual((done.returncode, done.stdout.split()[:1]), (0, [expected]), done.stderr)
        owners = {path.name: path.stat() for path in self.cache.iterdir()}
        self.assertEqual(sorted(owners), sorted(["reshardfs-54321", "reshardfs-54322",
                                                 f"reshardfs-{os.geteuid()}"]))
        for name, found in owners.items():
            self.assertEqual((f"reshardfs-{found.st_uid}", found.st_mode & 0o777), (name, 0o700))

    def test_records_of_another_version(self) -> None:
        """They are fetched again; the other version does the same with ours."""
        with self.mount(*self.options()) as mountpoint:
            self.read_all([mountpoint], 1)
            self.assertTrue(wait_until(lambda: used_bytes(self.cache) > 8 * MIB))
        records = [path for path in self.cache.rglob("*")
                   if path.is_file() and path.name not in ("held", "sweep")]
        for path in records:
            with path.open("r+b") as file:  # what kind of record it is, and of which version
                head = file.read(8)
                file.seek(0)
                file.write(head[:6] + b"99")
        held = next(self.cache.rglob("held"))
        held.write_bytes(held.read_bytes()[:6] + b"99" + held.read_bytes()[8:])
        with self.mount(*self.options()) as mountpoint:
            self.read_all([mountpoint], 1)
            self.assertGreater(metric(mountpoint, "cache_bad_total"), 0)
            self.assert_in_use([mountpoint])

    def test_a_layout_of_another_mount_uses_it(self) -> None:
        with self.mount(*self.options()) as mountpoint:
            self.read_all([mountpoint], 1)
            self.assertTrue(wait_until(lambda: used_bytes(self.cache) > 8 * MIB))
            for layout in (COLUMNS, Layout((1,), ((), ()))):
                made = TwoArrays(self.root / f"other{layout.device_count}", ROWS, layout, MANY)
                done = run("hash", self.url, *made.options(), *self.options()[3:7])
                self.assertEqual(done.code, 0, done.stderr)
                sums = {line.split()[0] for line in done.stdout.splitlines()}
                for rank in range(layout.device_count):
                    self.assertIn(hashlib.sha256(made.expected(rank)).hexdigest(), sums)


if __name__ == "__main__":
    run_unittests()
