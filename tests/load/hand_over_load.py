#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Upgrades a mount in place, replaces its contents by those of a copy, or kills its process, again
and again, while readers compare each byte that they read, others list directories and keep files
open, and some readers are killed; then reports how long calls took, and whether anything has grown.

    hand_over_load.py --binary build/release/bin/reshardfs \\
        --verify-reads build/release/bin/verify_reads --upgrades 1000 --replacements 200 --kills 1000

The exit code is 1 if a byte was wrong, a call failed or took too long, or something has grown.
"""

from __future__ import annotations

import argparse
import errno
import json
import mmap
import os
import random
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from counts import add_counts_option, write_counts  # noqa: E402
from load_mount import VIEWS, Daemon, Load, Readers, lived_longer  # noqa: E402
from mounted import is_sanitized, mounted, parse_settings, program_of, run, scratch, wait_until  # noqa: E402
from stuck import ended_when_stuck  # noqa: E402

# What a call may take beside what it takes anyway.
MOST_SECONDS = {"upgrade": 0.5, "replacement": 0.5, "kill": 1.0}
COUNTED_AS = {"upgrade": "upgrades", "replacement": "replacements", "kill": "crash_restarts"}
START_SECONDS = 60.0
GROWTH_KIB = 8192
PAUSE_SECONDS = 0.05
# What the kernel may fail at each crash: it copies a request or an answer while the process is killed, and
# fetches no memory for that process any more (see UPGRADES AND CRASHES in reshardfs-semantics(7)). Errors of the
# daemon are in its log.
MOST_LOST_CALLS = 1
# Several times what the slowest kind takes on a busy machine.
STUCK_SECONDS = {"start": 120.0, "each": 4.0}


def status(mountpoint: Path) -> dict:
    return json.loads((mountpoint / ".reshardfs/status.json").read_text())


def has_ended(pid: int) -> bool:
    """Or waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


class Holders:
    """What stays open and mapped over all hand-overs, and listings that take longer than one."""

    def __init__(self, files: list[tuple[Path, Path]], directory: Path) -> None:
        self.complaints: list[str] = []
        self.listings = self.looks = 0
        self.slowest = 0.0
        self._directory = directory
        self._names = sorted(os.listdir(directory))
        self._stop = threading.Event()
        path, reference = files[0]
        self._file = open(path, "rb", buffering=0)
        self._map = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        self._expected = reference.read_bytes()
        self._threads = [threading.Thread(target=self._guard, args=(work,))
                         for work in (self._look, self._list)]
        for thread in self._threads:
            thread.start()

    def _guard(self, work) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            try:
                work()
            except OSError as error:
                self.complaints.append(f"{work.__name__}: {error}")
                return
            self.slowest = max(self.slowest, time.monotonic() - begin)

    def _look(self) -> None:
        at = random.randrange(len(self._expected) - 4096)
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for found in (self._map[at:at + 4096], os.pread(self._file.fileno(), 4096, at)):
            if found != self._expected[at:at + 4096]:
                self.complaints.append(f"wrong bytes at {at} of the file that is held open")
        self.looks += 1

    def _list(self) -> None:
        with os.scandir(self._directory) as entries:
            names = sorted(entry.name for entry in entries)
        if names != self._names:
            self.complaints.append(f"a listing has {len(names)} names, not {len(self._names)}")
        self.listings += 1

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        self._map.close()
        self._file.close()


class HandOverLoad(Load):
    def run(self) -> None:
        for kind, count in (("upgrade", self.settings.upgrades),
                            ("replacement", self.settings.replacements), ("kill", self.settings.kills)):
            if count:
                self.round(kind, count)

    def round(self, kind: str, count: int) -> None:
        log = self.directory / f"{kind}.log"
        options = [*self.made.options(), *VIEWS, "--log-file", str(log)]
        if kind == "kill":
            options += ["--supervise", "--crash-limit", str(count)]
        rng = random.Random(self.settings.seed)
        source = self.made.source
        if kind == "replacement":
            # A link to one of two copies, whose files are not the same ones.
            shutil.copytree(source, self.directory / "copy")
            self.copies = [self.directory / "copy", source]
            source = self.directory / "link"
            source.symlink_to(self.made.source)
        stuck = STUCK_SECONDS["start"] + count * STUCK_SECONDS["each"]
        with (mounted(source, *options) as mountpoint,
              ended_when_stuck(mountpoint, stuck, self.problems)):
            files = self.files(mountpoint)
            readers = Readers(self.settings.verify_reads, self.directory / f"{kind}-readers", files,
                              self.settings.readers, ["--seconds", "1e6"], self.settings.seed)
            holders = Holders(files, mountpoint / "merged/params")
            try:
                readers.wait_for_first_reads(START_SECONDS)
                self.pid = status(mountpoint)["pid"]
                begin = time.monotonic()
                warm = None
                for number in range(count):
                    self.disturb(kind, mountpoint)
                    if number % 10 == 9:
                        readers.kill_one(rng.randrange(self.settings.readers))
                    if number == count // 10:
                        warm = Daemon.now(self.pid)
                    time.sleep(PAUSE_SECONDS * rng.random())
                took = time.monotonic() - begin
                end = Daemon.now(self.pid)
            finally:
                holders.end()
                readers.end()
            if kind == "replacement" and warm is not None:
                # Former contents are kept for as long as somebody has a file of them open.
                wait_until(lambda: self.has_shrunk(warm))
                end = Daemon.now(self.pid)
            self.judge(kind, count, readers, holders, warm, end, took)
            self.check_status(kind, count, mountpoint)
        bad = [line for line in (log.read_text().splitlines() if log.exists() else [])
               if "another one takes over" not in line]
        if bad:
            self.problems.append(f"the log: {bad[:5]}")

    def disturb(self, kind: str, mountpoint: Path) -> None:
        before = self.pid
        if kind == "replacement":
            self.copies.reverse()
            new = self.directory / "new"
            new.symlink_to(self.copies[1])
            new.rename(self.directory / "link")
        if kind != "kill":
            options = ["--replace"] if kind == "replacement" else []
            result = run("reload", mountpoint, *options)
            if "does not answer" in result.stderr:
                # The list of mounts, which others may hold for seconds where they unmount.
                result = run("reload", mountpoint, *options)
            if result.code:
                self.problems.append(f"reload: {result.stderr.strip()}")
        else:
            os.kill(before, signal.SIGKILL)
        self.pid = status(mountpoint)["pid"]
        if self.pid == before:
            self.problems.append("no other process goes on with the mount")
        if not wait_until(lambda: has_ended(before)):
            self.problems.append(f"process {before} lives on")

    def has_shrunk(self, warm: Daemon) -> bool:
        now = Daemon.now(self.pid)
        return now.descriptors <= warm.descriptors and now.anonymous_kib <= warm.anonymous_kib + GROWTH_KIB

    def judge(self, kind: str, count: int, readers: Readers, holders: Holders, warm: Daemon | None,
              end: Daemon, took: float) -> None:
        done = readers.done()
        c = done.counts
        slowest = max(done.durations.slowest_ns / 1e9, holders.slowest)
        print(f"{count} of kind {kind} in {took:.0f} s: {c['reads']:,} reads, {c['openings']:,} openings, "
              f"{c['maps']:,} maps, {holders.listings} listings of a directory, {holders.looks} looks at "
              f"what is held, {readers.killed} readers killed: {c['wrong_bytes']} wrong bytes, "
              f"{c['errors']} errors; slowest call {slowest:.3f} s")
        print(f"reads: {done.durations}")
        print(f"at the end: {end}", flush=True)
        self.count(done)
        self.counts[COUNTED_AS[kind]] += count
        complaints = readers.complaints + holders.complaints
        lost = [text for text in complaints if os.strerror(errno.EIO) in text]
        if kind == "kill" and not self.settings.strict and 0 < len(lost) <= MOST_LOST_CALLS:
            print(f"the kernel lost: {lost[0]}", flush=True)
            complaints = [text for text in complaints if text not in lost]
            c["errors"] -= sum(text in readers.complaints for text in lost)
        self.problems += [f"{kind}: {text}" for text in complaints]
        for what in ("wrong_bytes", "errors"):
            if c[what]:
                self.problems.append(f"{kind}: {c[what]} {what.replace('_', ' ')}")
        if not c["reads"] or not holders.listings or not holders.looks:
            self.problems.append(f"{kind}: a reader has done nothing")
        if is_sanitized(program_of(self.pid)):
            return
        if self.settings.strict and slowest > MOST_SECONDS[kind]:
            self.problems.append(f"{kind}: a call took {slowest:.3f} s")
        if warm is not None:
            threads = max(0, end.threads - warm.threads)
            if end.anonymous_kib > warm.anonymous_kib + GROWTH_KIB + threads * 2304:
                self.problems.append(f"{kind}: the process's memory has grown: {warm}, then {end}")
            if end.descriptors > warm.descriptors + 4:
                self.problems.append(f"{kind}: the process has more descriptors: {warm}, then {end}")

    def check_status(self, kind: str, count: int, mountpoint: Path) -> None:
        mount = status(mountpoint)["mount"]
        key = COUNTED_AS[kind]
        if mount[key] != count:
            self.problems.append(f"{kind}: the status counts {mount[key]}, not {count}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verify-reads", type=Path, required=True, help="the reader program")
    parser.add_argument("--upgrades", type=int, default=100)
    parser.add_argument("--replacements", type=int, default=100)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--readers", type=int, default=16)
    parser.add_argument("--strict", action="store_true", help="judge the slowest read, too")
    parser.add_argument("--megabytes", type=int, default=40, help="of all mounted rank files, roughly")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    add_counts_option(parser)
    settings = parse_settings(parser)
    settings.self_test = False
    print(f"seed {settings.seed}", flush=True)
    with scratch() as directory, lived_longer(7200):
        load = HandOverLoad(settings, directory)
        load.run()
    write_counts(settings.counts, **load.counts)
    for problem in load.problems[:40]:
        print(f"WRONG: {problem}")
    return 1 if load.problems else 0


if __name__ == "__main__":
    sys.exit(main())
