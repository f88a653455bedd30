# SPDX-License-Identifier: Apache-2.0
"""A directory seen through tests/faults/fault_fs, which makes its files fail, stall and lie."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

from mounted import (
    COMMAND_SECONDS,
    abort_connection,
    is_mounted,
    parse_settings,
    scratch,
    wait_until,
)

# More than the daemon has threads, so that it is never this file system that makes one wait.
THREADS = 128
BUSY_SECONDS = 20
# cachestat(2), which C libraries do not name yet; the number is the same on all processors but alpha.
CACHESTAT = 451
# For a mount whose reads must reach the source: a busy machine makes fault_fs slow, and of slow file systems
# the program keeps what it has read.
KEEPS_NOTHING = ("--prefetch-memory", "0")


class FaultFs:
    """What the command line of a test program chooses."""

    program = Path("fault_fs")


class CachedRange(ctypes.Structure):
    """struct cachestat_range; a length of 0 is up to the end."""

    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class CachedPages(ctypes.Structure):
    """struct cachestat."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in (
        "cache", "dirty", "writeback", "evicted", "recently_evicted"))


def cached_pages(fd: int) -> int:
    """How many pages of a file the kernel has, or is reading. Linux 6.5 and newer counts both; mincore(2),
    for older ones, does not see a page that is still being read."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = CachedPages()
    if libc.syscall(CACHESTAT, fd, ctypes.byref(CachedRange()), ctypes.byref(found), 0) == 0:
        return int(found.cache)
    size = os.fstat(fd).st_size
    if size == 0:
        return 0
    libc.mmap.restype = ctypes.c_void_p
    place = libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))
    if place in (None, ctypes.c_void_p(-1).value):
        return 0  # one that cannot be mapped has none
    state = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    failed = libc.mincore(ctypes.c_void_p(place), ctypes.c_size_t(size), state)
    libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(size))
    return 0 if failed else sum(page & 1 for page in state)


def forget_pages(file: Path) -> None:
    """Makes the kernel drop what it has cached of a file. It passes over pages that are just being read: they
    are waited for, unless others read on."""
    fd = os.open(file, os.O_RDONLY)
    try:
        def dropped() -> bool:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            return cached_pages(fd) == 0

        wait_until(dropped, 2)
    finally:
        os.close(fd)


class FaultySource:
    """A mounted fault_fs; `path` shows the directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Open from the start: while a name is being looked up and that stalls, the kernel looks up
        # no other in its directory that it does not remember.
        self._control = os.open(path / ".faults", os.O_WRONLY)
        self._stalled = os.open(path / ".stalled", os.O_RDONLY)

    def close(self) -> None:
        os.close(self._control)
        os.close(self._stalled)

    def set(self, *rules: str) -> None:
        """Replaces all rules (see fault_fs.cpp); none: all is well."""
        os.pwrite(self._control, "\n".join(rules).encode() or b"\n", 0)

    def stalled(self) -> int:
        """Operations that are stalled now."""
        return int(os.pread(self._stalled, 20, 0))

    def forget_pages(self) -> None:
        """What the kernel has cached of the files would hide the faults."""
        for file in self.path.rglob("*"):
            if file.is_file() and not file.is_symlink() and file.name not in (".faults", ".stalled"):
                with contextlib.suppress(OSError):
                    forget_pages(file)


def unmount(mountpoint: Path) -> bool:
    result = subprocess.run(["umount", mountpoint], timeout=COMMAND_SECONDS, check=False,
                            capture_output=True)
    return result.returncode == 0


@contextlib.contextmanager
def faulty(program: Path, directory: Path, *options: str,
           threads: int = THREADS) -> Iterator[FaultySource]:
    """Shows the directory through the program, and leaves neither mount nor process."""
    with scratch() as place:
        mountpoint = place / "faulty"
        mountpoint.mkdir()
        served = subprocess.Popen(
            [str(program), str(directory), str(mountpoint), "-f", *options, "-o",
             f"max_threads={threads},max_idle_threads={threads}"],
            stdin=subprocess.DEVNULL)
        try:
            assert wait_until(lambda: is_mounted(mountpoint)), "fault_fs has not mounted"
            source = FaultySource(mountpoint)
            try:
                yield source
                with contextlib.suppress(OSError):
                    source.set()
            finally:
                source.close()
            # Who waited for a fault may need a moment to go.
            assert wait_until(lambda: unmount(mountpoint), BUSY_SECONDS), f"{mountpoint} stays busy"
        finally:
            abort_connection(mountpoint)
            if is_mounted(mountpoint):
                subprocess.run(["umount", "-l", mountpoint], timeout=COMMAND_SECONDS, check=False)
            try:
                served.wait(60)
            except subprocess.TimeoutExpired:
                served.kill()
                served.wait()


def run_unittests_with_faults() -> None:
    """As run_unittests(), where --fault-fs names the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault-fs", type=Path, required=True)
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_settings(parser)
    FaultFs.program = args.fault_fs.resolve()
    unittest.main(argv=[sys.argv[0], "-v", *args.tests])
