# SPDX-License-Identifier: Apache-2.0
"""Sources on a file system whose reads take their time: they are read by many threads, ahead of
readers, and kept in the cache; and if one hangs, all goes on as with a quick one that hangs."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

import test_waiting
from faulty_source import KEEPS_NOTHING, FaultFs, FaultySource, faulty, run_unittests_with_faults
from mounted import mounted, scratch, wait_until
from test_waiting import EIGHTHS, LONG, SHAPE, end, start_reader
from two_arrays import COLUMNS, HALVES, TwoArrays, metric, mounted_file

SLOW = "* delay=0.02"
# While every file was written so lately, another write might leave the same times.
RACY_SECONDS = 2.2


class WaitingForSlowFiles(test_waiting.Waiting):
    """The same as for quick ones."""

    rules_at_mount = (SLOW,)
    storage = ("--prefetch-memory", "8MiB")

    @contextlib.contextmanager
    def mount(self, *options: str | Path) -> Iterator[Path]:
        with super().mount(*options) as mountpoint:
            # Of all steps nothing is read before somebody looks into one.
            if "--step" not in options:
                self.assertGreater(metric(mountpoint, "slow_file_reads_total"), 0)
            wait_for_reads_ahead(mountpoint)
            yield mountpoint

    def stall(self, *patterns: str) -> None:
        stall(self.source, *patterns)


def rest_of(reader: subprocess.Popen[bytes]) -> bytes:
    """What it prints at the end: it may have done so while its first line was read."""
    assert reader.stdout is not None
    return reader.stdout.read().strip()


def wait_for_reads_ahead(mountpoint: Path) -> None:
    assert wait_until(lambda: metric(mountpoint, "slow_file_reads_in_flight") == 0, LONG)


def stall(source: FaultySource, *patterns: str) -> None:
    # In this order: who opens a file waits for the reads of its pages.
    source.forget_pages()
    source.set(*(f"{pattern} stall" for pattern in patterns))


class Slow(unittest.TestCase):
    """A slow source."""

    def setUp(self) -> None:
        self.stack = self.enterContext(contextlib.ExitStack())
        self.directory = self.stack.enter_context(scratch())
        self.made = TwoArrays(self.directory, EIGHTHS, HALVES, SHAPE)
        self.source = self.stack.enter_context(faulty(FaultFs.program, self.made.source))
        self.source.set(SLOW)

    @contextlib.contextmanager
    def mount(self, *options: str | Path, forget: bool = True) -> Iterator[Path]:
        if forget:
            self.source.forget_pages()
        with mounted(self.source.path, *self.made.options(), "--log-file", self.directory / "log",
                     *options) as mountpoint:
            yield mountpoint

    def assert_all_right(self, mountpoint: Path, made: TwoArrays | None = None) -> None:
        made = made or self.made
        for rank in range(made.dst.device_count):
            self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), made.expected(rank))


class SlowFiles(Slow):
    def in_flight(self, mountpoint: Path) -> float:
        return metric(mountpoint, "slow_file_reads_in_flight")

    def test_many_reads_are_under_way_for_one_reader(self) -> None:
        with self.mount() as mountpoint:
            wait_for_reads_ahead(mountpoint)
            stall(self.source, "*")
            reader = start_reader(mounted_file(mountpoint, 0), 4 << 20, direct=False)
            self.stack.callback(end, reader)
            # One thread for each of the kernel's requests would be four.
            self.assertTrue(wait_until(lambda: self.in_flight(mountpoint) >= 8, LONG),
                            self.in_flight(mountpoint))
            self.source.set(SLOW)
            self.assertEqual(rest_of(reader), b"4194304")
            self.assert_all_right(mountpoint)
            self.assertEqual(self.in_flight(mountpoint), 0)

    def test_readers_find_what_they_need_in_memory(self) -> None:
        with self.mount() as mountpoint:
            self.source.forget_pages()
            self.assert_all_right(mountpoint)
            total = 2 * len(self.made.expected(0))
            self.assertGreater(metric(mountpoint, "prefetch_hit_bytes_total"), 0.5 * total)
            self.assertGreater(metric(mountpoint, "slow_file_reads_total"), 0)

    def test_columns_are_right_too(self) -> None:
        made = TwoArrays(self.directory / "columns", EIGHTHS, COLUMNS, SHAPE)
        with (faulty(FaultFs.program, made.source) as source,
              contextlib.ExitStack() as stack):
            source.set(SLOW)
            source.forget_pages()
            mountpoint = stack.enter_context(mounted(source.path, *made.options()))
            source.forget_pages()
            self.assert_all_right(mountpoint, made)
            self.assertGreater(metric(mountpoint, "slow_file_reads_total"), 0)

    def test_without_memory_they_are_read_like_those_of_a_local_disk(self) -> None:
        with self.mount(*KEEPS_NOTHING, "--direct-io") as mountpoint:
            for _ in range(2):
                self.source.forget_pages()
                self.assert_all_right(mountpoint)
            # On a busy machine a read may take so long that others are left to threads of their own.
            self.assertNotIn("prefetch", (mountpoint / ".reshardfs/metrics").read_text())
            self.source.set(f"rank_0/* error={errno.EIO}")
            self.source.forget_pages()
            with self.assertRaises(OSError):
                mounted_file(mountpoint, 0).read_bytes()

    def test_the_memory_is_bounded(self) -> None:
        with self.mount("--prefetch-memory", "8MiB") as mountpoint:
            self.source.forget_pages()
            readers = [start_reader(mounted_file(mountpoint, i % 2), 4 << 20, direct=i % 4 > 1)
                       for i in range(24)]
            for reader in readers:
                self.stack.callback(end, reader)
            for reader in readers:
                self.assertEqual(rest_of(reader), b"4194304")
            self.assertLessEqual(metric(mountpoint, "prefetch_bytes"), 8 << 20)
            self.assert_all_right(mountpoint)

    def test_a_quick_source_is_read_as_it_is(self) -> None:
        made = TwoArrays(self.directory / "quick", EIGHTHS, HALVES, SHAPE)
        with mounted(made.source, *made.options()) as mountpoint:
            self.assert_all_right(mountpoint, made)
            self.assertNotIn("slow_file_reads", (mountpoint / ".reshardfs/metrics").read_text())

    def test_a_changed_file_is_an_error(self) -> None:
        with self.mount() as mountpoint:
            path = mounted_file(mountpoint, 0)
            self.assertEqual(path.read_bytes(), self.made.expected(0))
            content = bytearray(self.made.file(1).read_bytes())
            content[-1] ^= 1
            self.made.file(1).write_bytes(content)
            with open(path, "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                with self.assertRaises(OSError):
                    while file.read(1 << 20):
                        pass


class Cache(Slow):
    """Blocks of slow files on the local disk."""

    def setUp(self) -> None:
        super().setUp()
        self.cache = self.directory / "cache"
        youngest = max(path.stat().st_ctime for path in self.made.source.rglob("*"))
        time.sleep(max(0.0, youngest + RACY_SECONDS - time.time()))

    def mount(self, *options: str | Path,
              forget: bool = True) -> contextlib.AbstractContextManager[Path]:
        return super().mount("--cache-dir", self.cache, *options, forget=forget)

    def fill(self) -> None:
        """Until nothing is read: what the disk is too busy to keep is kept the next time."""
        for _ in range(10):
            with self.mount() as mountpoint:
                self.assert_all_right(mountpoint)
                if metric(mountpoint, "slow_file_reads_total") == 0:
                    return
                wait_until(lambda: metric(mountpoint, "cache_written_bytes_total") >=
                           2 * len(self.made.expected(0)), 3)
        self.fail("the cache is never full")

    def test_what_is_kept_is_not_read_again(self) -> None:
        self.fill()
        # Whoever read the source would wait for ever.
        stall(self.source, "*")
        with self.mount(forget=False) as mountpoint:
            self.assert_all_right(mountpoint)
            self.assertEqual(metric(mountpoint, "slow_file_reads_total"), 0)
            self.assertGreater(metric(mountpoint, "cache_hits_total"), 0)

    def test_another_version_is_not_taken_from_the_cache(self) -> None:
        self.fill()
        content = bytearray(self.made.file(1).read_bytes())
        times = self.made.file(1).stat()
        content[-1000:] = bytes(1000)
        self.made.file(1).write_bytes(content)
        os.utime(self.made.file(1), ns=(times.st_atime_ns, times.st_mtime_ns))
        with self.mount() as mountpoint:
            self.assertIn(bytes(1000), mounted_file(mountpoint, 0).read_bytes())
            self.assertEqual(mounted_file(mountpoint, 1).read_bytes(), self.made.expected(1))

    def test_a_file_that_was_just_written_is_not_kept(self) -> None:
        for path in self.made.source.rglob("*.ckpt"):
            os.utime(path)  # moves the change time
        with self.mount() as mountpoint:
            self.assert_all_right(mountpoint)
            self.assertEqual(metric(mountpoint, "cache_written_bytes_total"), 0)


if __name__ == "__main__":
    run_unittests_with_faults()
