#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what a mount reads of files that answer while others, or places of the same file, hang.

The source is seen through tests/faults/fault_fs. Each line compares reads while something hangs with the mean
of the same reads just before and just after. Prints a table and, with --json FILE, the same figures as JSON. A read that fails, or has
wrong bytes, makes the run fail, and so does, with --least RATIO, a lower ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from faulty_source import FaultySource, faulty  # noqa: E402
from mounted import mounted, parse_settings, scratch, wait_until  # noqa: E402

MIB = 1 << 20
BLOCK = 64 << 10
# Far more than memory for fetching ahead: what counts is what the source gives.
SIZE = 4096 * MIB
HEAD = 4096
MARKED = 64 * MIB
IN_MEMORY = 256 * MIB
READERS = 16
FIRST_READS = 20
SLOW_SECONDS = 0.03
# Then it is known what hangs, and who reads it no longer counts among those who share memory for reading ahead.
SETTLE_SECONDS = 2.5
# More than ever hang.
SERVER_THREADS = 500

Figures = dict[str, float]


def marker(file: int, offset: int) -> bytes:
    return struct.pack("<QQ", file + 1, offset)


def name_of(file: int, files: int) -> str:
    return f"model-{file + 1:05}-of-{files:05}.safetensors"


def make_source(directory: Path, files: int) -> None:
    """One tensor in each file: zeros, which take no room on the disk, with marks."""
    directory.mkdir()
    for file in range(files):
        info = {f"w{file:03}": {"dtype": "U8", "shape": [SIZE], "data_offsets": [0, SIZE]}}
        header = json.dumps(info).encode().ljust(HEAD - 8)
        with open(directory / name_of(file, files), "wb") as out:
            out.write(struct.pack("<Q", len(header)) + header)
            for offset in range(0, SIZE, MARKED):
                out.seek(HEAD + offset)
                out.write(marker(file, offset))
            out.truncate(HEAD + SIZE)
    index = {"metadata": {}, "weight_map": {f"w{file:03}": name_of(file, files) for file in range(files)}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


class Mounted:
    """A mounted source, and who reads it."""

    def __init__(self, source: FaultySource, directory: Path, mountpoint: Path, files: int, delay: float) -> None:
        self.source = source
        self.directory = directory
        self.files = files
        self.delay = delay
        self.wrong: list[str] = []
        self.stops = False
        (path,) = (mountpoint / "merged").glob("*.safetensors")
        self.fd = os.open(path, os.O_RDONLY)
        (length,) = struct.unpack("<Q", os.pread(self.fd, 8, 0))
        header = json.loads(os.pread(self.fd, length, 8))
        self.places = [8 + length + header[f"w{file:03}"]["data_offsets"][0] for file in range(files)]
        # Each is read first when something hangs.
        self.fresh = list(range(files))
        self.threads: list[threading.Thread] = []
        self.set()

    def close(self) -> None:
        self.stops = True
        self.source.set()
        for thread in self.threads:
            thread.join()
        os.close(self.fd)

    def set(self, *rules: str) -> None:
        self.source.set(*rules, *([f"* delay={self.delay}"] if self.delay else []))

    def read(self, file: int, offset: int, length: int) -> None:
        """Of a place that does not hang."""
        try:
            got = os.pread(self.fd, length, self.places[file] + offset)
        except OSError as error:
            self.wrong.append(f"file {file} at {offset}: {error}")
            return
        mark = marker(file, offset) if offset % MARKED == 0 else b""
        if got != mark.ljust(length, b"\0"):
            self.wrong.append(f"file {file} at {offset}: wrong bytes")

    def read_stuck(self, file: int, offset: int) -> None:
        """On a thread of its own, which waits until the fault is over."""
        self.threads.append(threading.Thread(target=self.read, args=(file, offset, BLOCK)))
        self.threads[-1].start()

    def rate(self, work: Callable[[int, random.Random], None], readers: int, seconds: float) -> float:
        """How often a second all readers together have done it."""
        end = time.monotonic() + seconds
        done = [0] * readers

        def read_on(reader: int) -> None:
            chance = random.Random(reader)
            while time.monotonic() < end:
                work(reader, chance)
                done[reader] += 1

        threads = [threading.Thread(target=read_on, args=(reader,)) for reader in range(readers)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / (time.monotonic() - begin)

    def random_reads(self, file: int, seconds: float) -> float:
        """In the second half: the first may have places that hang."""
        half = SIZE // BLOCK // 2
        return self.rate(
            lambda _, chance: self.read(file, (half + chance.randrange(half - 1)) * BLOCK, BLOCK),
            READERS, seconds)

    def sequential_reads(self, file: int, seconds: float) -> float:
        """One reader, from the middle on. Of a source without latency, a part that the system has in memory: how
        long it takes to find pages for a file differs by three."""
        begin = SIZE // 2
        end = SIZE if self.delay else begin + IN_MEMORY
        at = [begin]

        def read_next(_reader: int, _chance: random.Random) -> None:
            self.read(file, at[0], MIB)
            at[0] = at[0] + MIB if at[0] + 2 * MIB <= end else begin

        with open(self.directory / name_of(file, self.files), "rb", buffering=0) as stored:
            if not self.delay:
                stored.seek(HEAD + begin)
                for _ in range(IN_MEMORY // MIB + 1):
                    stored.read(MIB)
            rate = self.rate(read_next, 1, seconds)
            os.posix_fadvise(stored.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return rate

    def take(self) -> int:
        """A file that nobody has read yet."""
        return self.fresh.pop()

    def hang(self, count: int, where: int | None) -> None:
        """So many files hang, or a place of one."""
        if where is not None:
            at = HEAD + SIZE // 4
            self.set(f"{name_of(where, self.files)} stall from={at} to={at + BLOCK}")
            self.read_stuck(where, SIZE // 4)
            count = 1
        else:
            self.set(*(f"{name_of(file, self.files)} stall" for file in range(count)))
            for file in range(count):
                self.read_stuck(file, random.randrange(SIZE // BLOCK) * BLOCK)
        assert wait_until(lambda: self.source.stalled() >= count)
        time.sleep(SETTLE_SECONDS)

    def recover(self) -> None:
        self.set()
        for thread in self.threads:
            thread.join()
        self.threads.clear()


def measure(mount: Mounted, kind: str, count: int, place: bool, seconds: float) -> Figures:
    """The better of two: a machine that is busy elsewhere makes any of them slow."""
    read = {"random": mount.random_reads, "sequential": mount.sequential_reads}[kind]

    def undisturbed() -> float:
        # Sequential reads begin alike: the reader before no longer has a share of the memory.
        if kind == "sequential":
            time.sleep(SETTLE_SECONDS)
        return read(mount.take(), seconds)

    figures: Figures = {}
    for _ in range(2):
        file = mount.take()
        mount.random_reads(file, seconds / 4)
        before = undisturbed()
        mount.hang(count, file if place else None)
        during = read(file if place else mount.take(), seconds)
        if kind == "random" and "first_read_p99_ms" not in figures:
            figures["first_read_p99_ms"] = first_reads(mount)
        mount.recover()
        usual = (before + undisturbed()) / 2
        if during / usual > figures.get("ratio", 0):
            figures |= {"ratio": during / usual, "undisturbed": usual, "during": during}
    return figures


def first_reads(mount: Mounted) -> float:
    """Of files that nobody has read: the slowest of as many, in milliseconds."""
    took = []
    for _ in range(FIRST_READS):
        begin = time.monotonic()
        mount.read(mount.take(), 0, BLOCK)
        took.append(time.monotonic() - begin)
    return 1000 * max(took)


@contextlib.contextmanager
def mount_of(args: argparse.Namespace, source: Path, files: int, delay: float,
             options: tuple[str, ...]) -> Iterator[Mounted]:
    with faulty(args.fault_fs, source, "--direct-io", threads=SERVER_THREADS) as seen:
        with mounted(seen.path, "--direct-io", "--views", "merged-safetensors", *options) as mountpoint:
            mount = Mounted(seen, source, mountpoint, files, delay)
            try:
                yield mount
            finally:
                mount.close()


KINDS = ("random", "sequential")
MODES: dict[str, tuple[float, tuple[str, ...]]] = {
    "default": (0.0, ()),
    "slow": (SLOW_SECONDS, ()),
    "slow, --prefetch-memory 0": (SLOW_SECONDS, ("--prefetch-memory", "0")),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault-fs", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--hanging", type=int, nargs="+", default=[0, 1, 4, 8, 120], help="files")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    parser.add_argument("--least", type=float, default=0.0, help="the least ratio")
    args = parse_settings(parser)
    # Who ends this leaves no mount that hangs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # For all that is started here, too: other programs on the machine change no ratio.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    all_figures: dict[str, Figures] = {}
    wrong: list[str] = []
    # Fresh files for one line: those that are read, twice, and first reads.
    files = max(args.hanging) + FIRST_READS + 8
    with scratch() as directory:
        make_source(directory / "source", files)
        for mode, (delay, options) in MODES.items():
            for count, place in [*((n, False) for n in args.hanging), (0, True)]:
                for kind in KINDS:
                    with mount_of(args, directory / "source", files, delay, options) as mount:
                        figures = measure(mount, kind, count, place, args.seconds)
                    wrong += mount.wrong
                    what = "a place of the file hangs" if place else f"{count} files hang"
                    all_figures[f"{mode}: {kind}, {what}"] = figures
                    print(f"{mode}: {kind}, {what}: {figures['during']:.0f} reads a second, "
                          f"{figures['ratio']:.2f} of the undisturbed rate", flush=True)
                    if "first_read_p99_ms" in figures:
                        print(f"  first reads: {figures['first_read_p99_ms']:.0f} ms", flush=True)
    if args.json:
        args.json.write_text(json.dumps(all_figures, indent=1) + "\n")
    low = [name for name, figures in all_figures.items() if figures["ratio"] < args.least]
    for line in (*wrong, *(f"{name}: below {args.least}" for name in low)):
        print(line, file=sys.stderr)
    return 1 if wrong or low else 0


if __name__ == "__main__":
    sys.exit(main())
