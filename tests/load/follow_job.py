#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Follows a training job with --step all: the job saves step after step and deletes old ones, while
readers compare what `latest` and any other step hold, keep files and directories open beyond the
deletion of their step, and list; then reports what the mount's process has held.

    follow_job.py --binary build/release/bin/reshardfs --steps 10000

The exit code is 1 if a byte was wrong, a call failed for a step that the job had not deleted, or memory,
descriptors or watches have grown with the number of steps.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "data"), str(TESTS / "integration")]

from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from counts import add_counts_option, write_counts  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from load_mount import Daemon, lived_longer  # noqa: E402
from mounted import is_sanitized, mounted, parse_settings, processes_of, program_of, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

ROWS = Layout((2,), ((0,), ()))
SHAPE = (16, 4096)
FILE = "rank_0/checkpoint_0.ckpt"
# What the process may have more of at the end than when a tenth of the steps had been saved.
GROWTH_KIB = 8192
# StepTree::kMostIdle steps stay open, each with a file of two ranks; the readers keep as many open again.
MOST_OPEN_STEPS = 16
OWN_DESCRIPTORS = 64
# What may be said of a step that is no longer there.
GONE = (errno.ENOENT, errno.ESTALE)


def full_array(step: int) -> np.ndarray:
    rows, columns = np.indices(SHAPE)
    return ((step * 31 + rows * 7 + columns) % 251).astype(np.uint8)


class Job:
    """Saves steps of two ranks; `kept` are those that it has not begun to delete."""

    def __init__(self, directory: Path, keep: int) -> None:
        self.source = directory / "job"
        self.keep = keep
        self.saved = 0
        self._lock = threading.Lock()
        self._kept: list[int] = []
        for rank in range(ROWS.device_count):
            (self.source / f"rank_{rank}").mkdir(parents=True)
        self.strategy = directory / "src.ckpt"
        write_protobuf(Strategy([{"w": ROWS}]), self.strategy)

    def _file(self, rank: int, step: int) -> Path:
        return self.source / f"rank_{rank}/net-1_{step}.ckpt"

    def save(self) -> None:
        step = self.saved + 1
        for rank in range(ROWS.device_count):
            new = self.source / f"rank_{rank}/writing"
            new.write_bytes(encode_checkpoint([record_of("w", "UInt8", shard(full_array(step), ROWS, rank))]))
            new.rename(self._file(rank, step))
        with self._lock:
            self._kept.append(step)
            old = self._kept[:-self.keep]
            self._kept = self._kept[-self.keep:]
        self.saved = step
        for gone in old:
            for rank in range(ROWS.device_count):
                self._file(rank, gone).unlink()

    def has(self, step: int) -> bool:
        with self._lock:
            return step in self._kept


class Followers:
    """Threads that read; each call that fails for a step that is there is a complaint."""

    def __init__(self, job: Job, mountpoint: Path, seed: int) -> None:
        self.job = job
        self.steps = mountpoint / "steps"
        self.latest = mountpoint / "latest"
        self.done: Counter[str] = Counter()
        self.complaints: list[str] = []
        self.seen: set[int] = set()
        self._stop = threading.Event()
        self._random = random.Random(seed)
        works = (self._follow, self._browse, self._browse, self._hold, self._sit)
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in works]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            if thread.is_alive():
                self.complaints.append("a reader does not end")

    def _run(self, work: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                work()
            except Exception as error:  # noqa: BLE001: whatever it is, it is reported
                self.complaints.append(f"{work.__name__}: {type(error).__name__}: {error}")
                if len(self.complaints) > 20:
                    return

    def _of_step(self, step: int, what: str, call: Callable[[], bytes | list[str]]) -> bytes | list[str] | None:
        """None if the step is not there any more."""
        try:
            return call()
        except OSError as error:
            if error.errno in GONE and not self.job.has(step):
                self.done["calls for steps that were gone"] += 1
                return None
            raise AssertionError(f"step {step}, {what}: {error}") from error

    def _check(self, step: int, what: str, found: bytes | list[str] | None, at: int = 0) -> None:
        if found is None:
            return
        expected = encode_checkpoint([record_of("w", "UInt8", full_array(step))])
        if found != expected[at:at + len(found)] or not found:
            raise AssertionError(f"step {step}, {what}: wrong bytes")
        self.done[what] += 1
        self.seen.add(step)

    def _names(self) -> list[int]:
        return sorted(int(name.partition("_")[2]) for name in os.listdir(self.steps))

    def _directory(self, step: int) -> Path:
        return self.steps / f"1_{step}"

    def _follow(self) -> None:
        try:
            step = int(os.readlink(self.latest).rpartition("_")[2])
        except FileNotFoundError:
            time.sleep(0.05)
            return
        self._check(step, "whole files of the latest step",
                    self._of_step(step, "latest", (self._directory(step) / FILE).read_bytes))

    def _browse(self) -> None:
        names = self._names()
        if not names:
            return
        step = self._random.choice(names)

        def read() -> bytes:
            with open(self._directory(step) / FILE, "rb", buffering=0) as file:
                return os.pread(file.fileno(), 5000, 10_000)

        self._check(step, "reads of any step", self._of_step(step, "any", read), 10_000)

    def _hold(self) -> None:
        """An open file outlives its step, or is stale."""
        names = self._names()
        if not names:
            return
        step = names[0]
        opened = self._of_step(step, "hold", lambda: [str(os.open(self._directory(step) / FILE, os.O_RDONLY))])
        if opened is None:
            return
        descriptor = int(opened[0])
        try:
            while self.job.has(step) and not self._stop.wait(0.02):
                pass
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            self._check(step, "reads of files held open beyond their step",
                        self._of_step(step, "hold", lambda: os.pread(descriptor, 30_000, 0)))
        finally:
            os.close(descriptor)

    def _sit(self) -> None:
        """A directory that is held while its step is folded and opened again."""
        names = self._names()
        if not names:
            return
        step = names[-1]
        opened = self._of_step(step, "sit", lambda: [str(os.open(self._directory(step), os.O_RDONLY))])
        if opened is None:
            return
        descriptor = int(opened[0])
        try:
            for _ in range(5):
                if self._stop.wait(0.2):
                    return
                listed = self._of_step(step, "sit", lambda: sorted(os.listdir(descriptor)))
                if listed is None:
                    return
                if self._of_step(step, "sit", lambda: [str(os.fstat(descriptor).st_mode)]) is None:
                    return
                if "rank_0" not in listed:
                    raise AssertionError(f"step {step}: its directory lists {listed!r}")

                def read() -> bytes:
                    file = os.open(FILE, os.O_RDONLY, dir_fd=descriptor)
                    try:
                        return os.pread(file, 3000, 50)
                    finally:
                        os.close(file)

                self._check(step, "reads below a held directory", self._of_step(step, "sit", read), 50)
        finally:
            os.close(descriptor)


def watches(pid: int) -> int:
    count = 0
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            count += sum(line.startswith("inotify ") for line in info.read_text().splitlines())
        except FileNotFoundError:
            continue
    return count


class Held:
    """What the mount's process has held at most, and when it was warm."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.warm: Daemon | None = None
        self.descriptors = self.watches = self.memory_kib = 0

    def look(self) -> Daemon:
        now = Daemon.now(self.pid)
        self.descriptors = max(self.descriptors, now.descriptors)
        self.watches = max(self.watches, watches(self.pid))
        self.memory_kib = max(self.memory_kib, now.anonymous_kib)
        return now


def follow(settings: argparse.Namespace, directory: Path) -> list[str]:
    job = Job(directory, settings.keep)
    job.save()
    log = directory / "mount.log"
    with mounted(job.source, "--src-strategy", str(job.strategy), "--step", "all",
                 "--log-file", str(log)) as mountpoint:
        held = Held(processes_of(mountpoint)[0])
        sanitized = is_sanitized(program_of(held.pid))
        followers = Followers(job, mountpoint, settings.seed)
        begin = time.monotonic()
        try:
            while job.saved < settings.steps and len(followers.complaints) < 20:
                job.save()
                time.sleep(max(0.0, begin + job.saved / settings.each_second - time.monotonic()))
                if job.saved % 20 == 0:
                    now = held.look()
                    if held.warm is None and job.saved >= settings.steps // 10:
                        held.warm = now
                if job.saved % 1000 == 0:
                    print(f"{job.saved:,} steps: {held.look()}, {watches(held.pid)} watches", flush=True)
        finally:
            followers.end()
        took = time.monotonic() - begin
        end = held.look()
    problems = followers.complaints
    print(f"{job.saved:,} steps in {took:.0f} s, the last {settings.keep} kept; {len(followers.seen):,} looked into: "
          + ", ".join(f"{count:,} {what}" for what, count in sorted(followers.done.items())))
    print(f"at most {held.descriptors} descriptors, {held.watches} watches, "
          f"{held.memory_kib / 1024:.1f} MiB of memory; at the end {end}")
    for what in ("whole files of the latest step", "reads of any step", "reads below a held directory",
                 "reads of files held open beyond their step"):
        if not followers.done[what]:
            problems.append(f"no {what}")
    write_counts(settings.counts, steps=job.saved,
                 reads=sum(count for what, count in followers.done.items() if "gone" not in what))
    open_files = 2 * ROWS.device_count * MOST_OPEN_STEPS
    if held.descriptors > open_files + OWN_DESCRIPTORS:
        problems.append(f"{held.descriptors} descriptors")
    if held.watches > open_files + OWN_DESCRIPTORS:
        problems.append(f"{held.watches} watches")
    if not sanitized and held.warm and end.anonymous_kib > held.warm.anonymous_kib + GROWTH_KIB:
        problems.append(f"memory has grown: {held.warm}, then {end}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--keep", type=int, default=100, help="steps that the job does not delete")
    parser.add_argument("--each-second", type=float, default=20, help="steps that the job saves")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    add_counts_option(parser)
    settings = parse_settings(parser)
    print(f"seed {settings.seed}", flush=True)
    with scratch() as directory, lived_longer(settings.steps / settings.each_second + 3600):
        problems = follow(settings, directory)
    for problem in problems[:40]:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
