# SPDX-License-Identifier: Apache-2.0
"""Runs one way of a comparison, and takes its figures: programs and a mount beside ranks that load.

Memory is what the processes have of their own (anonymous pages; not the page cache or a file system in memory, of
which maps of files are part), all together, looked at every 20 ms. Of processes that had memory before they began,
what came on top counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from bench_sets import MIB  # noqa: E402
from mounted import clean_up, is_mounted  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS = 0.02
MOUNT_SECONDS = 600.0


class WrongBytes(Exception):
    """A way has loaded something else than the model."""


@dataclass
class Figures:
    """Seconds from the start of the job, seconds of processors, MiB at most, MiB of files left."""
    first: float
    whole: float
    cpu: float
    memory: float
    disk: float


def own_memory(pid: int) -> int:
    """Bytes; 0 of a process that has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return 0


def cpu_of(pid: int) -> float:
    """Seconds of all its threads, ended ones and children that it waited for too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


class Gauge:
    """Watches the memory of processes, and adds up what they took of processors, during a job."""

    def __init__(self) -> None:
        self.peak = 0
        self.cpu = 0.0
        self._before: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def watch(self, pid: int, *, from_now: bool) -> None:
        self._before[pid] = own_memory(pid) if from_now else 0

    def __enter__(self) -> Gauge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            now = sum(max(0, own_memory(pid) - before) for pid, before in list(self._before.items()))
            self.peak = max(self.peak, now)


class Worker:
    """An interpreter with compare_worker.py. `command`: what runs it, such as ["python3"]."""

    def __init__(self, command: Sequence[str]) -> None:
        program = Path(__file__).resolve().parent / "compare_worker.py"
        environment = {**os.environ, "UCX_LOG_LEVEL": "fatal", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        self._messages = tempfile.TemporaryFile()
        self._process = subprocess.Popen([*command, "-B", str(program)], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._messages, env=environment)
        self.has: dict[str, str] = self._hear()["has"]

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._messages.seek(0)
            raise RuntimeError(f"compare_worker.py ended: exit code {code}: "
                               f"{self._messages.read().decode(errors='replace').strip()}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def _say(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def prepare(self, task: str, ranks: int, setup: dict[str, Any], gauge: Gauge | None = None) -> None:
        """Has a process for each rank wait for start()."""
        self._say({"task": task, "ranks": ranks, "setup": setup})
        for pid in self._hear()["pids"]:
            if gauge is not None:
                gauge.watch(pid, from_now=True)

    def start(self, files: Sequence[Path] = ()) -> None:
        self._say({"files": [str(path) for path in files]})

    def results(self) -> list[dict[str, float]]:
        return list(self._hear())

    def checksums(self) -> list[str]:
        self._say({})
        return list(self._hear())

    def run(self) -> float:
        """What was prepared, to its end. Its seconds of processors."""
        self.start()
        results = self.results()
        self.checksums()
        return sum(result["cpu"] for result in results)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._messages.close()


def run_program(command: Sequence[str | Path], gauge: Gauge | None = None) -> None:
    """To its end. Its messages go to a file: a daemon that kept a pipe would not let it end."""
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=messages)
        if gauge is not None:
            gauge.watch(process.pid, from_now=False)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            messages.seek(0)
            raise RuntimeError(f"{' '.join(map(str, command))}: exit code {process.returncode}: "
                               f"{messages.read().decode(errors='replace').strip()}")
    if gauge is not None:
        gauge.cpu += usage.ru_utime + usage.ru_stime


def daemons_of(mountpoint: Path) -> list[int]:
    """As processes_of() of the tests, but it asks no other program for its arguments, which waits while that one
    maps memory: a reader of a mount that does not answer may do so for long."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (directory / "comm").read_text().strip() == "reshardfs" and (
                    os.fsencode(mountpoint) in (directory / "cmdline").read_bytes().split(b"\0")):
                found.append(int(directory.name))
    return found


class Mount:
    """A mount point that never outlives the block. mount() is part of the job that is measured."""

    def __init__(self, binary: Path, place: Path) -> None:
        self.binary, self.place = binary, place
        self._pids: list[int] = []
        self._watchdog: threading.Timer | None = None

    def __enter__(self) -> Mount:
        self.place.mkdir()
        self._watchdog = threading.Timer(MOUNT_SECONDS, clean_up, [self.place])
        self._watchdog.daemon = True
        self._watchdog.start()
        return self

    def mount(self, source: Path, options: Sequence[str | Path], gauge: Gauge) -> None:
        run_program([self.binary, "mount", source, self.place, *options], gauge)

    def watch(self, gauge: Gauge) -> None:
        self._pids = daemons_of(self.place)
        for pid in self._pids:
            gauge.watch(pid, from_now=False)

    def cpu(self) -> float:
        return sum(map(cpu_of, self._pids))

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        assert self._watchdog is not None
        self._watchdog.cancel()
        try:
            with contextlib.suppress(RuntimeError) if kind else contextlib.nullcontext():
                run_program([self.binary, "umount", self.place])
        finally:
            if is_mounted(self.place) or daemons_of(self.place):
                clean_up(self.place)
        self.place.rmdir()


@dataclass
class Load:
    """What is to be loaded at the end of a way, and what must come out."""
    worker: Worker
    task: str
    ranks: int
    setup: dict[str, Any]
    expected: list[str]


@dataclass
class Way:
    """begin() is run when the ranks wait; it leads to the files that they load. `out` is what it writes."""
    name: str
    load: Load
    begin: Callable[[Gauge], Sequence[Path]] = lambda _gauge: ()
    out: Path | None = None
    mount: Mount | None = None
    before: Callable[[Gauge], None] = lambda _gauge: None
    samples: list[Figures] = field(default_factory=list)


def size_of(directory: Path | None) -> float:
    if directory is None:
        return 0.0
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / MIB


@contextlib.contextmanager
def removed_at_end(directory: Path | None) -> Iterator[None]:
    try:
        yield
    finally:
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)


def measure(way: Way) -> Figures:
    """@throws WrongBytes; RuntimeError with the words of what has failed."""
    load = way.load
    with removed_at_end(way.out), way.mount or contextlib.nullcontext(), Gauge() as gauge:
        way.before(gauge)
        load.worker.prepare(load.task, load.ranks, load.setup, gauge)
        begun = time.monotonic()
        load.worker.start(way.begin(gauge))
        if way.mount:
            way.mount.watch(gauge)
        results = load.worker.results()
        cpu = gauge.cpu + sum(result["cpu"] for result in results) + (way.mount.cpu() if way.mount else 0.0)
        figures = Figures(min(result["first"] for result in results) - begun,
                          max(result["all"] for result in results) - begun, cpu, gauge.peak / MIB, size_of(way.out))
        if load.worker.checksums() != load.expected:
            raise WrongBytes(f"{way.name}: what was loaded is not the model")
    return figures
