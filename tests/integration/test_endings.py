# SPDX-License-Identifier: Apache-2.0
"""Mounts that end while they are used: under load, killed, unmounted lazily, with sources that
stall; and what programs get that have files open."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import signal
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

from faulty_source import FaultFs, FaultySource, faulty, run_unittests_with_faults
from mounted import (
    assert_gone,
    command,
    errno_name,
    is_mounted,
    mount_entry,
    mountpoint_guard,
    processes_of,
    run,
    scratch,
    wait_until,
)
from two_arrays import COLUMNS, HALVES, ROWS, TwoArrays, mounted_file

SHAPE = (512, 4096)
# After these a mount must have ended: used, and with a source that never answers (reads have two
# seconds then).
ENDS_SECONDS = 20.0
ENDS_STALLED_SECONDS = 20.0

LIBC = ctypes.CDLL(None)


class Readers:
    """Threads that read files whole, until they get an error or wrong bytes."""

    def __init__(self, mountpoint: Path, made: TwoArrays, count: int) -> None:
        self.errors: list[str] = []
        self.good = 0
        self._made, self._mountpoint = made, mountpoint
        self._threads = [threading.Thread(target=self._read, args=(i % made.dst.device_count,))
                         for i in range(count)]
        for thread in self._threads:
            thread.start()

    def _read(self, rank: int) -> None:
        whole = self._made.expected(rank)
        while True:
            try:
                if mounted_file(self._mountpoint, rank).read_bytes() != whole:
                    self.errors.append("wrong bytes")
                    return
                self.good += 1
            except OSError as error:
                self.errors.append(errno_name(error))
                return

    def all_ended(self, seconds: float) -> bool:
        return wait_until(lambda: not any(t.is_alive() for t in self._threads), seconds)


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[int]:
    """Closed in any case: that a file of a dead mount is closed is an error, too."""
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


class Mounts(unittest.TestCase):
    made: TwoArrays

    def mount(self, mountpoint: Path, *options: str, source: Path | None = None) -> int:
        """@return the daemon."""
        before = processes_of(mountpoint)
        result = run("mount", source or self.made.source, mountpoint, *self.made.options(), *options)
        self.assertEqual(result.code, 0, result.stderr)
        (daemon,) = set(processes_of(mountpoint)) - set(before)
        return daemon

    def assert_right(self, mountpoint: Path) -> None:
        for rank in range(self.made.dst.device_count):
            self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), self.made.expected(rank))


class Endings(Mounts):
    @contextlib.contextmanager
    def live(self, *options: str) -> Iterator[Path]:
        """A mount that need not be there any more at the end."""
        with scratch() as directory:
            self.made = TwoArrays(directory, ROWS, COLUMNS, SHAPE)
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                self.mount(mountpoint, *options)
                yield mountpoint
                assert_gone(mountpoint)

    def test_signals_under_load(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with self.subTest(number.name), self.live("--direct-io") as mountpoint:
                readers = Readers(mountpoint, self.made, 8)
                self.assertTrue(wait_until(lambda: readers.good >= 8))
                (daemon,) = processes_of(mountpoint)
                begin = time.monotonic()
                os.kill(daemon, number)
                self.assertTrue(readers.all_ended(ENDS_SECONDS), "a reader still waits")
                if number != signal.SIGKILL:
                    gone = wait_until(lambda: not is_mounted(mountpoint), ENDS_SECONDS)
                    self.assertTrue(gone, "it is still mounted")
                    self.assertLess(time.monotonic() - begin, ENDS_SECONDS)
                # After it has gone the files are simply not there.
                self.assertLessEqual(set(readers.errors),
                                     {"ENOTCONN", "ECONNABORTED", "EIO", "ENOENT"})
                if number == signal.SIGKILL:
                    self.assertEqual(run("umount", mountpoint).code, 0)

    def test_a_killed_daemon_leaves_errors_and_no_more(self) -> None:
        with self.live("--direct-io") as mountpoint:
            path = mounted_file(mountpoint, 0)
            with open_file(path) as file:
                (daemon,) = processes_of(mountpoint)
                os.kill(daemon, signal.SIGKILL)
                self.assertTrue(wait_until(lambda: not processes_of(mountpoint)))
                # Attributes may still come from the kernel's cache.
                for call in (lambda: os.listdir(mountpoint), path.read_bytes,
                             lambda: os.read(file, 1)):
                    with self.assertRaises(OSError) as caught:
                        call()
                    self.assertIn(caught.exception.errno, (errno.ENOTCONN, errno.ECONNABORTED))
                # The open file holds the dead mount.
                busy = run("umount", mountpoint)
                self.assertEqual(busy.code, 3, busy.stderr)
                command("umount", "-l", mountpoint)
                # The same place again at once; what is open belongs to the dead one.
                self.mount(mountpoint)
                self.assert_right(mountpoint)
                with self.assertRaises(OSError) as caught:
                    os.read(file, 1)
                self.assertEqual(caught.exception.errno, errno.ENOTCONN)
            self.assertEqual(run("umount", mountpoint).code, 0)

    def test_lazy_unmount_with_open_files(self) -> None:
        """They stay readable; the daemon ends with the last; the place is free at once."""
        with self.live() as mountpoint:
            (old,) = processes_of(mountpoint)
            whole = self.made.expected(1)
            with mounted_file(mountpoint, 1).open("rb", buffering=0) as file, \
                    mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                command("umount", "-l", mountpoint)
                self.assertFalse(is_mounted(mountpoint))
                self.assertEqual(os.listdir(mountpoint), [])
                new = self.mount(mountpoint)
                self.assert_right(mountpoint)
                self.assertEqual(file.read(), whole)
                self.assertEqual(mapped[:], whole)
                self.assertEqual(sorted(processes_of(mountpoint)), sorted([old, new]))
            self.assertTrue(wait_until(lambda: processes_of(mountpoint) == [new]))
            self.assert_right(mountpoint)
            self.assertEqual(run("umount", mountpoint).code, 0)

    def test_unmounted_from_outside_and_mounted_again(self) -> None:
        with self.live() as mountpoint:
            for _ in range(5):
                (daemon,) = processes_of(mountpoint)
                self.assert_right(mountpoint)
                command("umount", mountpoint)
                self.mount(mountpoint)
                self.assertTrue(wait_until(lambda: daemon not in processes_of(mountpoint)),
                                "the daemon of a mount that is gone")
            self.assertEqual(run("umount", mountpoint).code, 0)

    def test_a_slow_end_leaves_the_next_mount_alone(self) -> None:
        """The next one may have the place, and every number that the kernel gives a mount."""
        with self.live() as mountpoint:
            same_number = 0
            for _ in range(20):
                (daemon,) = processes_of(mountpoint)
                number = mount_entry(mountpoint)[0]
                os.kill(daemon, signal.SIGSTOP)
                try:
                    # Without a look at the mount point, as that waits for the daemon.
                    self.assertEqual(LIBC.umount2(os.fsencode(mountpoint), 0), 0)
                    self.mount(mountpoint)
                    same_number += mount_entry(mountpoint)[0] == number
                finally:
                    os.kill(daemon, signal.SIGCONT)
                self.assertTrue(wait_until(lambda: daemon not in processes_of(mountpoint)),
                                "the daemon of a mount that is gone")
                self.assertTrue(is_mounted(mountpoint), "it has taken away the next mount")
                self.assert_right(mountpoint)
                if same_number == 3:
                    break
            self.assertGreater(same_number, 0, "no mount had the number of the one before")
            self.assertEqual(run("umount", mountpoint).code, 0)

    def test_a_signal_after_a_lazy_unmount_leaves_the_next_mount_alone(self) -> None:
        with self.live() as mountpoint:
            (daemon,) = processes_of(mountpoint)
            with open_file(mounted_file(mountpoint, 1)) as file:
                command("umount", "-l", mountpoint)
                self.mount(mountpoint)
                os.kill(daemon, signal.SIGTERM)
                self.assertTrue(wait_until(lambda: daemon not in processes_of(mountpoint)))
                with self.assertRaises(OSError):
                    os.read(file, 1)
            self.assertTrue(is_mounted(mountpoint), "it has taken away the next mount")
            self.assert_right(mountpoint)
            self.assertEqual(run("umount", mountpoint).code, 0)

    def test_a_mount_that_lives_on_elsewhere_leaves_the_next_one_alone(self) -> None:
        with self.live() as mountpoint:
            (daemon,) = processes_of(mountpoint)
            elsewhere = mountpoint.parent / "elsewhere"
            elsewhere.mkdir()
            command("mount", "--bind", mountpoint, elsewhere)
            with mountpoint_guard(elsewhere):
                command("umount", mountpoint)
                self.mount(mountpoint)
                self.assert_right(elsewhere)
                os.kill(daemon, signal.SIGTERM)
                self.assertTrue(wait_until(lambda: daemon not in processes_of(mountpoint)))
                self.assertTrue(is_mounted(mountpoint), "it has taken away the next mount")
                self.assert_right(mountpoint)
                with self.assertRaises(OSError):
                    mounted_file(elsewhere, 1).read_bytes()
            self.assertEqual(run("umount", mountpoint).code, 0)


class Stalled(Mounts):
    """The same while a source does not answer."""

    source: FaultySource

    @contextlib.contextmanager
    def stalled(self) -> Iterator[tuple[Path, int]]:
        """A mount, and a process that waits for rank 0's file of the source."""
        with scratch() as directory:
            self.made = TwoArrays(directory, ROWS, HALVES, SHAPE)
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            with faulty(FaultFs.program, self.made.source) as self.source, mountpoint_guard(mountpoint):
                self.mount(mountpoint, "--direct-io", source=self.source.path)
                self.source.set("rank_0/* stall")
                reader = self.stalled_reader(mountpoint)
                try:
                    yield mountpoint, reader
                    assert_gone(mountpoint)
                finally:
                    with contextlib.suppress(OSError):
                        self.source.set()
                    with contextlib.suppress(ProcessLookupError, ChildProcessError):
                        os.kill(reader, signal.SIGKILL)
                        os.waitpid(reader, 0)

    def start_reader(self, mountpoint: Path) -> int:
        self.source.forget_pages()
        reader = os.fork()
        if reader == 0:
            with contextlib.suppress(BaseException):
                right = mounted_file(mountpoint, 0).read_bytes() == self.made.expected(0)
                os._exit(0 if right else 1)
            os._exit(2)
        return reader

    def stalled_reader(self, mountpoint: Path) -> int:
        """The kernel may keep a page that is in use while it is to forget all: then the next one waits."""
        while True:
            reader = self.start_reader(mountpoint)
            self.assertTrue(wait_until(lambda reader=reader: self.source.stalled() > 0 or self.has_ended(reader)))
            if not self.has_ended(reader):
                return reader
            os.waitpid(reader, 0)

    @staticmethod
    def has_ended(reader: int) -> bool:
        return os.waitid(os.P_PID, reader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def status_of(self, reader: int, seconds: float) -> int | None:
        """How the process has ended, if it has."""
        found: list[int] = []

        def ended() -> bool:
            pid, status = os.waitpid(reader, os.WNOHANG)
            found.append(status)
            return pid != 0

        return os.waitstatus_to_exitcode(found[-1]) if wait_until(ended, seconds) else None

    def test_one_signal_is_enough(self) -> None:
        with self.stalled() as (mountpoint, reader):
            (daemon,) = processes_of(mountpoint)
            begin = time.monotonic()
            os.kill(daemon, signal.SIGTERM)
            self.assertEqual(self.status_of(reader, ENDS_STALLED_SECONDS), 2, "it got no error")
            assert_gone(mountpoint, ENDS_STALLED_SECONDS)
            self.assertLess(time.monotonic() - begin, ENDS_STALLED_SECONDS)

    def test_unmounted_when_the_reader_is_gone(self) -> None:
        """The read of the source goes on in the daemon, and keeps nobody."""
        with self.stalled() as (mountpoint, reader):
            self.assertEqual(run("umount", mountpoint).code, 3, "it is in use")
            self.assertEqual(mounted_file(mountpoint, 1).read_bytes(), self.made.expected(1))
            os.kill(reader, signal.SIGKILL)
            self.assertEqual(self.status_of(reader, 60), -signal.SIGKILL)
            begin = time.monotonic()
            self.assertEqual(run("umount", mountpoint).code, 0)
            self.assertFalse(is_mounted(mountpoint))
            assert_gone(mountpoint, ENDS_STALLED_SECONDS)
            self.assertLess(time.monotonic() - begin, ENDS_STALLED_SECONDS)

    def test_unmounted_lazily_the_reader_gets_its_bytes(self) -> None:
        with self.stalled() as (mountpoint, reader):
            command("umount", "-l", mountpoint)
            self.assertFalse(is_mounted(mountpoint))
            self.assertIsNone(self.status_of(reader, 0.5), "it must still wait")
            self.source.set()
            self.assertEqual(self.status_of(reader, 60), 0)
            assert_gone(mountpoint, ENDS_STALLED_SECONDS)

    def test_killed(self) -> None:
        """A daemon that waits in a read of its source ends when that lets it."""
        with self.stalled() as (mountpoint, reader):
            (daemon,) = processes_of(mountpoint)
            os.kill(daemon, signal.SIGKILL)
            self.assertEqual(self.status_of(reader, ENDS_STALLED_SECONDS), 2)
            self.assertEqual(run("umount", mountpoint).code, 0)

    def test_a_forced_end_leaves_the_next_mount_alone(self) -> None:
        with self.stalled() as (mountpoint, reader):
            (daemon,) = processes_of(mountpoint)
            command("umount", "-l", mountpoint)
            self.mount(mountpoint)
            os.kill(daemon, signal.SIGTERM)
            self.assertEqual(self.status_of(reader, ENDS_STALLED_SECONDS), 2, "it got no error")
            self.assertTrue(wait_until(lambda: daemon not in processes_of(mountpoint)))
            self.assertTrue(is_mounted(mountpoint), "it has taken away the next mount")
            self.assertEqual(run("umount", mountpoint).code, 0)


if __name__ == "__main__":
    run_unittests_with_faults()
