#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a mount whose source fails and stalls at random, and exports to a disk that becomes full.

    bad_times.py --binary build/release/bin/reshardfs --fault-fs build/release/tests/faults/fault_fs

Reads may fail while the source does, with the source's errno; they never have a wrong byte, and none fails
once the source is well again. An export to a full disk ends with one message and an exit code, and goes on
when there is room. The exit code is 1 if any of that is not so.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "data"), str(TESTS / "integration")]

from counts import add_counts_option, write_counts  # noqa: E402
from faulty_source import KEEPS_NOTHING, FaultySource, faulty  # noqa: E402
from load_mount import Daemon, lived_longer  # noqa: E402
from load_set import TARGET, LoadSet  # noqa: E402
from mounted import mounted, parse_settings, processes_of, run, scratch, wait_until  # noqa: E402

READERS = 6
MOST_BYTES = 300_000
WELL_SECONDS = 30.0
# What a source's failure may be called: its own errno, or that of a file that seems changed or gone.
ALLOWED = (errno.EIO, errno.ESTALE)
# Of a disk for 64 ranks, each of which has a directory and a file.
MOST_INODES = 60


class Verified:
    """Threads that read random parts and compare them."""

    def __init__(self, files: list[tuple[Path, Path]], seed: int) -> None:
        self.done: Counter[str] = Counter()
        self.complaints: list[str] = []
        # Whether the source may fail. A read counts as one of bad times if it began or ended in them.
        self.bad = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._pairs = [(path, reference.read_bytes()) for path, reference in files]
        self._threads = [threading.Thread(target=self._read, args=(random.Random(seed + number),))
                         for number in range(READERS)]
        for thread in self._threads:
            thread.start()

    def _note(self, what: str, complaint: str | None = None) -> None:
        with self._lock:
            self.done[what] += 1
            if complaint and len(self.complaints) < 40:
                self.complaints.append(complaint)

    def _read(self, rng: random.Random) -> None:
        while not self._stop.is_set():
            path, expected = rng.choice(self._pairs)
            at = rng.randrange(len(expected))
            count = rng.randrange(1, MOST_BYTES)
            was_bad = self.bad.is_set()
            try:
                with open(path, "rb", buffering=0) as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    found = os.pread(file.fileno(), count, at)
            except OSError as error:
                excused = (was_bad or self.bad.is_set()) and error.errno in ALLOWED
                self._note("errors while the source failed" if excused else "errors",
                           None if excused else f"{path}: {error}")
                continue
            self._note("bytes_checked")
            # A read may be short where the source fails in its middle.
            if not found or found != expected[at:at + len(found)]:
                self._note("wrong", f"{path}: wrong bytes at {at}")
            else:
                self._note("reads")

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.complaints.append("a reader hangs though its source is well")


def rule(rng: random.Random) -> str:
    kind = rng.choice((f"error={errno.EIO}", "stall", "delay=0.05", "short=1000"))
    return f"*.ckpt chance={rng.choice((0.05, 0.3, 1))} {kind}"


def disturb(source: FaultySource, readers: Verified, rng: random.Random, until: float) -> int:
    """@return how often the source was bad."""
    times = 0
    while time.monotonic() < until:
        readers.bad.set()
        source.set(*(rule(rng) for _ in range(rng.randrange(1, 4))))
        source.forget_pages()
        time.sleep(rng.uniform(0.2, 1.5))
        source.set()
        source.forget_pages()
        # Reads that the failure has met are answered first.
        time.sleep(0.3)
        before = readers.done["reads"]
        if not wait_until(lambda: readers.done["reads"] > before + READERS, WELL_SECONDS):
            readers.complaints.append("no reads go on though the source is well")
        readers.bad.clear()
        before = readers.done["reads"]
        if not wait_until(lambda: readers.done["reads"] > before + 10 * READERS, WELL_SECONDS):
            readers.complaints.append("few reads though the source is well")
        times += 1
    return times


def fail_at_random(settings: argparse.Namespace, directory: Path, made: LoadSet, reference: Path,
                   totals: Counter[str]) -> list[str]:
    rng = random.Random(settings.seed)
    files = [Path(f"rank_{rank}/checkpoint_{rank}.ckpt") for rank in rng.sample(range(TARGET.ranks), 12)]
    log = directory / "mount.log"
    with (faulty(settings.fault_fs, made.source, "--direct-io") as source,
          mounted(source.path, *made.options(), *KEEPS_NOTHING, "--direct-io", "--log-file", log) as mountpoint):
        pid = processes_of(mountpoint)[0]
        readers = Verified([(mountpoint / file, reference / file) for file in files], settings.seed)
        try:
            times = disturb(source, readers, rng, time.monotonic() + settings.seconds)
        finally:
            readers.end()
        print(f"the source was bad {times} times: " + ", ".join(
            f"{count:,} {what}" for what, count in sorted(readers.done.items()) if what != "bytes_checked"))
        print(f"at the end: {Daemon.now(pid)}")
    totals["reads"] += readers.done["reads"]
    totals["wrong"] += readers.done["wrong"]
    totals["bad_times"] += times
    return readers.complaints


def fill_a_disk(made: LoadSet, reference: Path, directory: Path, totals: Counter[str]) -> list[str]:
    """An export of more than there is room for, which goes on when there is."""
    disk = directory / "disk"
    disk.mkdir()
    # Full in the middle: an export that lacks bytes does not even begin.
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"nr_inodes={MOST_INODES}", "reshardfs-soak", disk],
                           capture_output=True, text=True, check=False)
    if mount.returncode:
        print(f"no disk that becomes full: {mount.stderr.strip()}")
        return []
    problems = []
    try:
        words = ["export", made.source, disk / "out", *made.options(), "--views", "ranks", "--memory", "16MiB"]
        result = run(*words, seconds=300)
        if result.code == 0 or "No space left" not in result.stderr or result.stderr.count("reshardfs: ") != 1:
            problems.append(f"a full disk: exit code {result.code}: {result.stderr}")
        begun = sorted((disk / "out").glob("rank_*/*.ckpt"))
        if not begun:
            problems.append("a full disk: nothing was written before")
        for file in begun:
            if file.read_bytes() != (reference / file.relative_to(disk / "out")).read_bytes():
                problems.append(f"a full disk: {file.name} is there under its name, and not whole")
        subprocess.run(["mount", "-o", "remount,nr_inodes=0", disk], check=True, capture_output=True)
        result = run(*words, seconds=300)
        if result.code:
            problems.append(f"with room again: exit code {result.code}: {result.stderr}")
        exported = sorted((disk / "out").glob("rank_*/*.ckpt"))
        if len(exported) != TARGET.ranks:
            problems.append(f"with room again: {len(exported)} files")
        for file in exported:
            totals["reads"] += 1
            if file.read_bytes() != (reference / file.relative_to(disk / "out")).read_bytes():
                totals["wrong"] += 1
                problems.append(f"with room again: wrong bytes in {file.name}")
        totals["full_disks"] += 1
        print(f"an export to a full disk went on with room again: {len(exported)} files")
    finally:
        subprocess.run(["umount", disk], check=True)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault-fs", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--megabytes", type=int, default=24)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    add_counts_option(parser)
    settings = parse_settings(parser)
    print(f"seed {settings.seed}", flush=True)
    totals: Counter[str] = Counter()
    with scratch() as directory, lived_longer(settings.seconds + 3600):
        made = LoadSet(directory / "set", settings.megabytes, settings.seed)
        reference = directory / "reference"
        result = run("export", made.source, reference, *made.options(), "--views", "ranks,merged,params",
                     seconds=600)
        assert result.code == 0, result.stderr
        made.check(reference)
        problems = fail_at_random(settings, directory, made, reference, totals)
        problems += fill_a_disk(made, reference, directory, totals)
    write_counts(settings.counts, **totals)
    for problem in problems[:40]:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
