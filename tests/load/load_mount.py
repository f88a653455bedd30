#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a mount with many readers and compares each byte, while others walk the tree and some
readers are killed; then says how long calls took, and what the daemon needs.

    load_mount.py --binary build/release/bin/reshardfs --verify-reads build/release/bin/verify_reads \\
        --minutes 10

The exit code is 1 if a byte was wrong, a call failed, a reader could not be killed, or the daemon
has grown.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from counts import add_counts_option, write_counts  # noqa: E402
from durations import Durations  # noqa: E402
from load_set import TARGET, LoadSet  # noqa: E402
from mounted import (  # noqa: E402
    Settings,
    is_sanitized,
    mounted,
    parse_settings,
    processes_of,
    program_of,
    run,
    scratch,
    wait_until,
)
from two_arrays import metric  # noqa: E402
from walkers import Walkers  # noqa: E402

GIB = 1 << 30
# What the daemon may hold for itself and for each thread, which needs a stack and buffers; and what
# it may hold and have open more at the end than when it was warm.
OWN_KIB = 8192
GROWTH_KIB = 4096
THREAD_KIB = 2304
MORE_DESCRIPTORS = 4
VIEWS = ["--views", "ranks,merged,params"]
# What the program allows itself: kMaxThreads of served_tree.h, the readers of local_readers.h, and a
# few of its own. A busy machine may need many of them: a read that it delays looks as if it hung.
MOST_THREADS = 188 + 64 + 8
# When it counts as warm: each of its threads has read something of everything by then. Shorter runs
# say nothing of growth.
WARM_SECONDS = 60.0
START_SECONDS = 60.0
# So that none outlives a test that was killed.
READERS_SECONDS_MORE = 60.0
KILL_SECONDS = 15.0
TALLY_FIELDS = ("reads", "bytes", "wrong_bytes", "errors", "openings", "maps", "whole_files", "slowest_ns")


@dataclass(frozen=True)
class Daemon:
    """What it has at a moment."""

    anonymous_kib: int
    resident_kib: int
    descriptors: int
    threads: int

    @staticmethod
    def now(pid: int) -> Daemon:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return Daemon(int(fields["RssAnon"].split()[0]), int(fields["VmRSS"].split()[0]),
                      len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"]))

    def __str__(self) -> str:
        return (f"anonymous memory {self.anonymous_kib / 1024:.1f} MiB, resident "
                f"{self.resident_kib / 1024:.1f} MiB, {self.descriptors} descriptors, "
                f"{self.threads} threads")


@dataclass
class Reads:
    """The sum of what readers have done."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TALLY_FIELDS, 0))
    durations: Durations = field(default_factory=Durations)

    def add(self, tally: Path) -> None:
        words = memoryview(tally.read_bytes()).cast("Q")
        if not words:
            return  # its reader was killed before it began
        for name, value in zip(TALLY_FIELDS, words):
            self.counts[name] += value
        self.durations.add_buckets(words[len(TALLY_FIELDS):].tolist(), words[TALLY_FIELDS.index("slowest_ns")])


class Readers:
    """Processes of verify_reads. Those that are killed are started again; what they did counts."""

    def __init__(self, program: Path, directory: Path, files: list[tuple[Path, Path]], count: int,
                 options: list[str], seed: int) -> None:
        self.complaints: list[str] = []
        self.killed = 0
        self.slowest_kill = 0.0
        self._program, self._directory, self._options, self._seed = program, directory, options, seed
        self._started = 0
        self._ended = False
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        directory.mkdir()
        for number in range(count):
            # Its own rank's two files first.
            own = [pair for pair in files if pair[0].parent.name == f"rank_{number % TARGET.ranks}"]
            order = own + [pair for pair in files if pair not in own]
            (directory / f"{number}.pairs").write_text(
                "".join(f"{mounted}\t{reference}\n" for mounted, reference in order))
        for number in range(count):
            self._start(number)

    def _start(self, number: int) -> None:
        self._started += 1
        self._processes[number] = subprocess.Popen(
            # So that what is measured beside them does not wait for a processor.
            ["nice", "-n", "5", str(self._program), "--pairs", str(self._directory / f"{number}.pairs"), "--tally",
             str(self._directory / f"{number}.tally"), "--seed", str(self._seed + self._started),
             "--own", "2", *self._options],
            stdin=subprocess.DEVNULL, stderr=(self._directory / f"{number}.errors").open("ab"))

    def kill_one(self, number: int) -> None:
        process = self._processes[number]
        begin = time.monotonic()
        process.kill()
        try:
            process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self.complaints.append(f"a reader outlived SIGKILL by {KILL_SECONDS} s")
            process.wait()
        self.killed += 1
        if process.returncode != -signal.SIGKILL:
            self.complaints.append(f"reader {number} ended with {process.returncode} before it was killed")
        self.slowest_kill = max(self.slowest_kill, time.monotonic() - begin)
        self._start(number)

    def wait_for_first_reads(self, seconds: float) -> None:
        """Of all of them: to start takes many a second where there is much else to do."""
        if not wait_until(lambda: all(self._has_read(number) for number in self._processes), seconds):
            self.complaints.append(f"readers have read nothing after {seconds:.0f} s")

    def _has_read(self, number: int) -> bool:
        tally = self._directory / f"{number}.tally"
        reads = Reads()
        if tally.exists():
            reads.add(tally)
        return reads.counts["reads"] > 0

    def running(self) -> int:
        return sum(process.poll() is None for process in self._processes.values())

    def wait(self, seconds: float) -> None:
        if not wait_until(lambda: not self.running(), seconds):
            self.complaints.append(f"{self.running()} readers still wait after {seconds:.0f} s")
        self.end()

    def end(self) -> None:
        """Kills those that have not ended by themselves, and hears all."""
        if self._ended:
            return
        self._ended = True
        for process in self._processes.values():
            process.kill()  # nothing if it has ended
        for number, process in self._processes.items():
            process.wait()
            if process.returncode not in (0, -signal.SIGKILL):
                self.complaints.append(f"reader {number} ended with {process.returncode}")
            errors = (self._directory / f"{number}.errors").read_text(errors="replace")
            self.complaints += errors.splitlines()

    def done(self) -> Reads:
        out = Reads()
        for tally in self._directory.glob("*.tally"):
            out.add(tally)
        return out


def flip_a_byte(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


class Load:
    def __init__(self, settings: argparse.Namespace, directory: Path) -> None:
        self.settings = settings
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        begin = time.monotonic()
        self.made = LoadSet(directory / "set", settings.megabytes, settings.seed)
        self.reference = directory / "reference"
        result = run("export", self.made.source, self.reference, *self.made.options(), *VIEWS,
                     seconds=600)
        assert result.code == 0, result.stderr
        self.judged = self.made.check(self.reference)
        size = sum(path.stat().st_size for path in self.judged)
        print(f"{len(self.judged)} files of {size / 1e6:.0f} MB for {TARGET.ranks} ranks, each checked "
              f"with the naive cut; made in {time.monotonic() - begin:.1f} s", flush=True)
        if settings.self_test:
            flip_a_byte(self.reference / "rank_7/checkpoint_7.ckpt")
        self.directory = directory

    def run(self) -> None:
        options = [*self.made.options(), *VIEWS, "--step", "all", "--log-file", str(self.directory / "log")]
        if self.settings.random_reads or self.settings.direct_io:
            options.append("--direct-io")
        with mounted(self.made.source, *options) as mountpoint:
            (self.pid,) = processes_of(mountpoint)
            self.beginning = Daemon.now(self.pid)
            self.begin = time.monotonic()
            print(f"at the beginning: {self.beginning}", flush=True)
            (self.random_reads if self.settings.random_reads else self.load)(mountpoint)
            given = metric(mountpoint, "read_bytes_total") / GIB
            print(f"of these bytes the daemon has given out {given:.1f} GiB, in "
                  f"{metric(mountpoint, 'requests_total'):,.0f} requests of all kinds", flush=True)
        log = (self.directory / "log").read_text()
        if log:
            self.problems.append(f"the log of the mount: {log[:2000]}")

    def files(self, top: Path) -> list[tuple[Path, Path]]:
        return [(top / path.relative_to(self.reference), path) for path in self.judged]

    def load(self, mountpoint: Path) -> None:
        seconds = self.settings.minutes * 60
        rng = random.Random(self.settings.seed)
        with Walkers(mountpoint) as walkers:
            readers = Readers(self.settings.verify_reads, self.directory / "readers",
                              self.files(mountpoint / "latest"), self.settings.readers,
                              ["--seconds", str(START_SECONDS + seconds + READERS_SECONDS_MORE)],
                              self.settings.seed)
            try:
                readers.wait_for_first_reads(START_SECONDS)
                self.begin = time.monotonic()
                self.watch(seconds, lambda: readers.kill_one(rng.randrange(self.settings.readers)))
                end = Daemon.now(self.pid)
            finally:
                readers.end()
        self.report(readers, end)
        print(f"{readers.killed} readers killed and started again, gone after "
              f"{readers.slowest_kill * 1000:.0f} ms at most")
        print(f"metadata: {walkers.durations}, {walkers.walks} walks of the tree, "
              f"{walkers.programs} runs of ls and find, {walkers.texts} control files", flush=True)
        self.problems += walkers.complaints
        if min(walkers.walks, walkers.programs, walkers.texts) == 0:
            self.problems.append("a walker has done nothing")

    def random_reads(self, mountpoint: Path) -> None:
        count = self.settings.readers_of_random
        each = -(-self.settings.random_reads // count)
        readers = Readers(self.settings.verify_reads, self.directory / "readers",
                          self.files(mountpoint / "latest"), count,
                          ["--reads", str(each), "--only-pread", "1"], self.settings.seed)
        try:
            self.watch(3600, lambda: None, until=lambda: not readers.running())
            end = Daemon.now(self.pid)
            readers.wait(60)
        finally:
            readers.end()
        self.report(readers, end)
        if readers.done().counts["reads"] < self.settings.random_reads:
            self.problems.append("not all reads were made")

    def watch(self, seconds: float, disturb, until=lambda: False) -> None:
        """Until the time is over; notes what the daemon has when it is warm."""
        self.warm: Daemon | None = None
        tick = 0
        while time.monotonic() < self.begin + seconds and not until():
            time.sleep(0.1)
            tick += 1
            if tick % 3 == 0:
                disturb()
            if self.warm is None and time.monotonic() > self.begin + WARM_SECONDS:
                self.warm = Daemon.now(self.pid)
                print(f"after {WARM_SECONDS:.0f} s: {self.warm}", flush=True)

    def report(self, readers: Readers, end: Daemon) -> None:
        took = time.monotonic() - self.begin
        done = readers.done()
        c = done.counts
        print(f"at the end: {end}")
        print(f"{c['reads']:,} reads of {c['bytes'] / GIB:.1f} GiB in {took:.0f} s, {c['openings']:,} openings, "
              f"{c['maps']:,} maps, {c['whole_files']:,} whole files: {c['wrong_bytes']} wrong bytes, "
              f"{c['errors']} errors")
        print(f"reads: {done.durations}", flush=True)
        self.count(done)
        self.problems += readers.complaints
        for what in ("wrong_bytes", "errors"):
            if c[what]:
                self.problems.append(f"{c[what]} {what.replace('_', ' ')}")
        if c["reads"] == 0:
            self.problems.append("nothing was read")
        if not is_sanitized(program_of(self.pid)):
            self.check_size(end)
            if self.warm is not None:
                self.check_growth(self.warm, end)

    def count(self, done: Reads) -> None:
        self.counts.update(reads=done.counts["reads"], bytes=done.counts["bytes"],
                           wrong=done.counts["wrong_bytes"])

    def check_size(self, end: Daemon) -> None:
        if end.anonymous_kib > OWN_KIB + end.threads * THREAD_KIB:
            self.problems.append("the daemon holds more memory than its threads need")
        if end.threads > MOST_THREADS:
            self.problems.append(f"the daemon has more than {MOST_THREADS} threads")

    def check_growth(self, warm: Daemon, end: Daemon) -> None:
        more_threads = max(0, end.threads - warm.threads)
        if end.anonymous_kib > warm.anonymous_kib + GROWTH_KIB + more_threads * THREAD_KIB:
            self.problems.append("the daemon's memory has grown")
        if end.descriptors > warm.descriptors + MORE_DESCRIPTORS:
            self.problems.append("the daemon has more descriptors")


@contextlib.contextmanager
def lived_longer(seconds: float) -> Iterator[None]:
    """Mounts of the tests are taken away after a time."""
    before = Settings.mount_seconds
    Settings.mount_seconds = seconds
    try:
        yield
    finally:
        Settings.mount_seconds = before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verify-reads", type=Path, required=True, help="the reader program")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--readers", type=int, default=64)
    parser.add_argument("--random-reads", type=int, default=0, metavar="N",
                        help="N reads of random places and lengths in place of --minutes; each reaches the daemon")
    parser.add_argument("--readers-of-random", type=int, default=8)
    parser.add_argument("--direct-io", action="store_true", help="mount with --direct-io")
    parser.add_argument("--megabytes", type=int, default=130, help="of all mounted rank files, roughly")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--self-test", action="store_true",
                        help="change a byte of a reference; succeeds if just that is found")
    add_counts_option(parser)
    settings = parse_settings(parser)
    print(f"seed {settings.seed}", flush=True)
    with scratch() as directory, lived_longer(settings.minutes * 60 + 3600):
        load = Load(settings, directory)
        load.run()
    write_counts(settings.counts, **load.counts)
    for problem in load.problems[:40]:
        print(f"WRONG: {problem}")
    if settings.self_test:
        found = any("rank_7/checkpoint_7.ckpt" in problem and "1 wrong bytes" in problem
                    for problem in load.problems)
        print("the wrong byte was found" if found else "the wrong byte was NOT found")
        return 0 if found else 1
    return 1 if load.problems else 0


if __name__ == "__main__":
    sys.exit(main())
