# SPDX-License-Identifier: Apache-2.0
"""A source on a device of which a part cannot be read any more: errors from the kernel's own file
system, for what lies there and nothing else.

The device is a loop device whose file has been cut short. Needs root; skipped where there is none.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path

from faulty_source import forget_pages
from mounted import (
    COMMAND_SECONDS,
    command,
    errno_name,
    mounted,
    processes_of,
    run,
    run_unittests,
    scratch,
)
from two_arrays import COLUMNS, HALVES, ROWS, Layout, TwoArrays, metric, mounted_file

IMAGE_BYTES = 64 << 20
BLOCK = 4096
SHAPE = (1024, 4096)
# Around the first byte that cannot be read: the kernel reads some pages together, and fails them
# together.
MARGIN = 256 << 10


def prepare(*words: str | Path) -> str:
    """A command that not every machine lets one run: without it there is no test."""
    if shutil.which(str(words[0])) is None:
        raise unittest.SkipTest(f"{words[0]} is not installed")
    try:
        return command(*words)
    except AssertionError as error:
        raise unittest.SkipTest(f"no device of our own here: {error}") from error


def place_on_device(path: Path) -> int:
    """Where the file begins on its device, in bytes; it must be in one piece."""
    fs_ioc_fiemap, last = 0xC020660B, 1
    request = struct.pack("=QQIIII", 0, (1 << 64) - 1, 0, 0, 8, 0) + bytes(8 * 56)
    with path.open("rb") as file:
        answer = fcntl.ioctl(file, fs_ioc_fiemap, request)
    extents = struct.unpack_from("=I", answer, 20)[0]
    begin = end = 0
    for number in range(extents):
        logical, physical, length, _, _, flags = struct.unpack_from("=QQQQQI", answer, 32 + 56 * number)
        assert number == 0 or physical == end, f"{path} is in several pieces"
        begin = begin or physical - logical
        end = physical + length
    assert extents and flags & last, f"{path} has no extents"
    return begin


class Device:
    """A small file system on a loop device, and the file that stands for the disk."""

    def __init__(self, image: Path, top: Path) -> None:
        self.image, self.top = image, top
        self._end = b""
        self._cut = 0

    def cut(self, offset: int) -> None:
        """Nothing from there on can be read."""
        with self.image.open("rb") as file:
            file.seek(offset)
            self._end, self._cut = file.read(), offset
        os.truncate(self.image, offset)

    def mend(self) -> None:
        with self.image.open("r+b") as file:
            file.seek(self._cut)
            file.write(self._end)

    def forget_pages(self) -> None:
        for file in self.top.rglob("*.ckpt"):
            forget_pages(file)


def copy_in_pieces_of_one(source: Path, target: Path) -> None:
    """Copies a set so that each file lies on the device in one piece, one behind the other."""
    for path in sorted(source.rglob("*.ckpt")):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True)
        with copy.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            file.write(path.read_bytes())
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def device_with(made: TwoArrays) -> Iterator[Device]:
    """The source of a set on a device of its own; detached in any case."""
    with scratch() as directory:
        image, top = directory / "image", directory / "disk"
        top.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        # Nobody shall write to the device later.
        prepare("mkfs.ext4", "-q", "-b", str(BLOCK), "-E", "lazy_itable_init=0,nodiscard", "-O",
                "^has_journal", image)
        loop = prepare("losetup", "--find", "--show", image).strip()
        try:
            prepare("mount", "-t", "ext4", loop, top)
            copy_in_pieces_of_one(made.source, top / "set")
            command("mount", "-o", "remount,ro", top)
            yield Device(image, top / "set")
        finally:
            if os.path.ismount(top):
                subprocess.run(["umount", "-l", top], timeout=COMMAND_SECONDS, check=False)
            command("losetup", "--detach", loop)


class DeviceErrors(unittest.TestCase):
    made: TwoArrays
    device: Device
    log: Path

    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root has loop devices")

    @contextlib.contextmanager
    def mount(self, src: Layout, dst: Layout) -> Iterator[Path]:
        with scratch() as directory:
            self.made = TwoArrays(directory, src, dst, SHAPE)
            self.log = directory / "log"
            with device_with(self.made) as self.device:
                with mounted(self.device.top, *self.made.options(), "--direct-io", "--log-file",
                             self.log) as mountpoint:
                    yield mountpoint

    def fail_from(self, rank: int, offset: int) -> None:
        """The device ends inside the rank's file, which is the last one on it."""
        files = {r: self.device.top / f"rank_{r}/m-1_1.ckpt"
                 for r in range(self.made.src.device_count)}
        begin = {r: place_on_device(path) for r, path in files.items()}
        self.assertEqual(max(begin, key=lambda r: begin[r]), rank, "another file lies behind it")
        # No device ends in the middle of a block: there the kernel would make up bytes.
        self.device.cut((begin[rank] + offset) // BLOCK * BLOCK)
        self.device.forget_pages()

    def assert_fails(self, path: Path) -> None:
        with self.assertRaises(OSError) as caught:
            path.read_bytes()
        self.assertEqual(errno_name(caught.exception), "EIO")

    def last_on_device(self) -> int:
        ranks = range(self.made.src.device_count)
        return max(ranks, key=lambda r: place_on_device(self.device.top / f"rank_{r}/m-1_1.ckpt"))

    def test_only_what_lies_there_fails(self) -> None:
        with self.mount(ROWS, HALVES) as mountpoint:
            victim = self.last_on_device()
            (daemon,) = processes_of(mountpoint)
            size = self.made.file(victim).stat().st_size
            # Of each source file the first half is `w`, and the second is `v`.
            lost = size * 3 // 4
            self.fail_from(victim, lost)
            path, other = mounted_file(mountpoint, victim // 2), mounted_file(mountpoint, 1 - victim // 2)
            whole = self.made.expected(victim // 2)
            self.assert_fails(path)
            # In the mounted file each array is that of two ranks, one behind the other.
            begin = len(whole) // 2 + (len(whole) // 4 if victim % 2 else 0) + lost - size // 2
            end = begin + size - lost
            with path.open("rb", buffering=0) as file:
                for offset in range(0, len(whole), 64 << 10):
                    near = begin - MARGIN < offset + (64 << 10) and offset < end + MARGIN
                    try:
                        got = os.pread(file.fileno(), 64 << 10, offset)
                        self.assertEqual(got, whole[offset:offset + (64 << 10)], f"at {offset}")
                        self.assertFalse(begin <= offset < end - (64 << 10), f"read at {offset}")
                    except OSError as error:
                        self.assertEqual(error.errno, errno.EIO)
                        self.assertTrue(near, f"failed at {offset}, not in {begin} to {end}")
            self.assertEqual(other.read_bytes(), self.made.expected(1 - victim // 2))
            self.assertGreater(metric(mountpoint, "read_errors_total"), 0)
            self.assertIn(f"rank_{victim}/m-1_1.ckpt", self.log.read_text())
            self.assertEqual(processes_of(mountpoint), [daemon])
            self.device.mend()
            self.device.forget_pages()
            self.assertEqual(path.read_bytes(), whole)

    def test_columns_out_of_a_map(self) -> None:
        """Pieces of rows are copied out of a map of the source, where an error is a signal."""
        with self.mount(Layout((1,), ((), ())), COLUMNS) as mountpoint:
            (daemon,) = processes_of(mountpoint)
            self.fail_from(0, self.made.file(0).stat().st_size // 4)
            for rank in range(COLUMNS.device_count):
                path, whole = mounted_file(mountpoint, rank), self.made.expected(rank)
                self.assert_fails(path)
                with path.open("rb", buffering=0) as file:
                    good = len(whole) // 8
                    self.assertEqual(os.pread(file.fileno(), good, 0), whole[:good])
                    with self.assertRaises(OSError) as caught:
                        os.pread(file.fileno(), 4096, len(whole) - 4096)
                    self.assertEqual(caught.exception.errno, errno.EIO)
            self.assertEqual(processes_of(mountpoint), [daemon])
            self.device.mend()
            self.device.forget_pages()
            for rank in range(COLUMNS.device_count):
                self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), self.made.expected(rank))

    def test_a_device_that_is_gone_from_the_start(self) -> None:
        """Headers that cannot be read: refused, with the file's name, and nothing is mounted."""
        with scratch() as directory:
            made = TwoArrays(directory, ROWS, HALVES, SHAPE)
            (directory / "mnt").mkdir()
            with device_with(made) as self.device:
                self.made = made
                victim = self.last_on_device()
                self.fail_from(victim, 0)
                result = run("mount", self.device.top, directory / "mnt", *made.options())
                self.assertEqual(result.code, 3, result.stderr)
                self.assertIn(f"rank_{victim}/m-1_1.ckpt", result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1)
                self.assertEqual(processes_of(directory / "mnt"), [])


if __name__ == "__main__":
    run_unittests()
