# SPDX-License-Identifier: Apache-2.0
"""Processes that walk a mounted tree again and again, and compare each walk with the first."""

from __future__ import annotations

import difflib
import json
import multiprocessing
import os
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from durations import Durations

PROGRAM_SECONDS = 60.0


class Timed:
    """Calls that are timed."""

    def __init__(self) -> None:
        self.durations = Durations()

    def __call__(self, call: Callable[..., Any], *arguments: Any) -> Any:
        begin = time.perf_counter_ns()
        try:
            return call(*arguments)
        finally:
            self.durations.note(time.perf_counter_ns() - begin)


def walk(top: Path, timed: Timed) -> dict[str, object]:
    """What the metadata of each file is; follows no links, and reads them instead."""
    seen: dict[str, object] = {}
    directories = [str(top)]
    while directories:
        directory = directories.pop()
        for name in timed(os.listdir, directory):
            path = f"{directory}/{name}"
            status = timed(os.lstat, path)
            attributes = timed(lambda: os.listxattr(path, follow_symlinks=False))
            seen[path] = (status.st_ino, status.st_mode, status.st_size, sorted(attributes))
            if os.path.islink(path):
                seen[path] = timed(os.readlink, path)
            elif os.path.isdir(path):
                directories.append(path)
            elif path.endswith("rank_3/checkpoint_3.ckpt"):
                seen[path + " source"] = timed(os.getxattr, path, "user.reshardfs.source")
        try:
            timed(os.lstat, f"{directory}/nothing")
            raise AssertionError(f"{directory}/nothing is there")
        except FileNotFoundError:
            pass
    return seen


def listings(top: Path, _: Timed) -> str:
    """What other programs say."""
    out = ""
    for words in (["ls", "-lR", "--time-style=full-iso"], ["find"]):
        words = [*words, str(top)] + (["-ls"] if words[0] == "find" else [])
        done = subprocess.run(words, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
        if done.returncode or done.stderr:
            raise AssertionError(f"{words[0]}: exit code {done.returncode}: {done.stderr[:500]}")
        out += done.stdout
    return out


def control_files(top: Path, timed: Timed) -> list[str]:
    """They change from one opening to the next, but must be whole."""
    step = next(iter((top / "steps").iterdir()))
    json.loads(timed((top / ".reshardfs/status.json").read_text))
    json.loads(timed((step / ".reshardfs/status.json").read_text))
    json.loads(timed((step / ".reshardfs/plan.json").read_text))
    metrics = timed((top / ".reshardfs/metrics").read_text)
    assert metrics.endswith("\n") and "reshardfs_read_bytes_total" in metrics, metrics
    # Reads of killed readers are interrupted.
    failed = [line for line in metrics.splitlines() if line.startswith("reshardfs_read_errors_total")
              and "EINTR" not in line and not line.endswith(" 0")]
    assert not failed, f"failed reads: {failed}"
    page = timed((step / ".reshardfs/report.html").read_text)
    assert page.rstrip().endswith("</html>"), "report.html has no end"
    return sorted(os.listdir(top / ".reshardfs"))


WALKERS: dict[str, Callable[[Path, Timed], object]] = {
    "walks": walk, "programs": listings, "texts": control_files}


def difference(first: object, second: object) -> str:
    one, two = str(first).splitlines(), str(second).splitlines()
    return "\n".join(list(difflib.unified_diff(one, two, lineterm="", n=0))[:6])[:500]


def work(kind: str, top: Path, ending: Any, results: Any) -> None:
    timed, count, problems = Timed(), 0, []
    first = None
    try:
        while not ending.is_set():
            found = WALKERS[kind](top, timed)
            first = first or found
            if found != first:
                problems.append(f"{kind}: the tree has changed: {difference(first, found)}")
            count += 1
    except BaseException:
        problems.append(f"{kind}: {traceback.format_exc()}")
    results.put((kind, count, timed.durations, problems))


class Walkers:
    """One process of each kind, until the context is left; then the figures are there."""

    def __init__(self, top: Path) -> None:
        self.durations = Durations()
        self.complaints: list[str] = []
        self.walks = self.programs = self.texts = 0
        # A step is opened when it is looked into: its directory has other attributes before.
        list(top.glob("steps/*/*"))
        context = multiprocessing.get_context("fork")
        self._ending, self._results = context.Event(), context.SimpleQueue()
        self._processes = [context.Process(target=work, args=(kind, top, self._ending, self._results))
                           for kind in WALKERS]

    def __enter__(self) -> Walkers:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for process in self._processes:
            process.join(2 * PROGRAM_SECONDS)
            if process.is_alive():
                process.kill()
                self.complaints.append("a walker still waits")
        while not self._results.empty():
            kind, count, durations, problems = self._results.get()
            setattr(self, kind, count)
            self.durations.add(durations)
            self.complaints += problems
