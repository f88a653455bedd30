# SPDX-License-Identifier: Apache-2.0
"""Readers whose time the benchmarks take, each as some kind of program reads."""

from __future__ import annotations

import concurrent.futures
import mmap
import os
import pathlib
import random
from typing import Iterable

import numpy

from bench_sets import MIB


def read_hot(path: pathlib.Path) -> int:
    """Reads the whole file into one buffer that is used again."""
    buffer = bytearray(MIB)
    total = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    return total


def read_fresh(path: pathlib.Path) -> int:
    """What MindSpore's loader does."""
    return len(path.read_bytes())


def read_mapped(path: pathlib.Path) -> int:
    """Copies out of a map into one buffer that is used again."""
    buffer = bytearray(MIB)
    # A shared map of a file that bypasses the page cache is refused.
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE,
                                             prot=mmap.PROT_READ) as view:
        with memoryview(view) as content:
            for offset in range(0, len(content), MIB):
                with content[offset: offset + MIB] as part:
                    buffer[: len(part)] = part
            return len(content)


def read_small(path: pathlib.Path) -> int:
    """4 KiB at random places."""
    places = random.Random(1)
    size = path.stat().st_size
    fd = os.open(path, os.O_RDONLY)
    try:
        return sum(len(os.pread(fd, 4096, places.randrange(size - 4096))) for _ in range(2000))
    finally:
        os.close(fd)


def read_direct(path: pathlib.Path, block: int, threads: int) -> int:
    """Past the page cache, `block` bytes a call. The kernel cuts a call into requests of 1 MiB, all
    under way at once."""
    return read_parallel(path, block, threads, True)


def read_parallel(path: pathlib.Path, block: int, threads: int, direct: bool) -> int:
    """Blocks of one file by turns, by threads that share a descriptor."""
    size = path.stat().st_size
    fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))

    def read_part(first: int) -> int:
        with mmap.mmap(-1, block) as buffer:
            return sum(os.preadv(fd, [buffer], offset)
                       for offset in range(first * block, size, threads * block))

    try:
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(read_part, range(threads)))
    finally:
        os.close(fd)


def load_arrays(folder: pathlib.Path, mmap_mode: str | None) -> int:
    total = 0
    for path in sorted(folder.glob("*.npy")):
        array = numpy.load(path, mmap_mode=mmap_mode)  # type: ignore[call-overload]
        total += numpy.array(array).nbytes if mmap_mode else array.nbytes
    return total


def drop_pages(paths: Iterable[pathlib.Path]) -> None:
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def read_at_once(paths: list[pathlib.Path]) -> int:
    """A process for each file."""
    children = []
    for path in paths:
        child = os.fork()
        if child == 0:
            try:
                read_hot(path)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    for child in children:
        if os.waitpid(child, 0)[1] != 0:
            raise RuntimeError("a reader has failed")
    return sum(path.stat().st_size for path in paths)


def read_anew(path: pathlib.Path) -> None:
    drop_pages([path])
    path.read_bytes()


def read_direct_or_killed(path: pathlib.Path) -> int:
    """A process that reads with O_DIRECT until it is killed."""
    child = os.fork()
    if child == 0:
        try:
            read_direct(path, 4 * MIB, 1)
        finally:
            os._exit(0)
    return child


def read_one_mib(path: pathlib.Path) -> int:
    fd = os.open(path, os.O_RDONLY)
    if len(os.pread(fd, MIB, 0)) != MIB:
        raise RuntimeError("a reader has failed")
    return fd
