#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tasks of compare_tasks.py for compare.py, in the interpreter that compare.py was told to use.

It has imported all it needs before the first task, and forks a process for each rank of a task, so that figures
have no imports in them. Lines of JSON go to and fro:

    its start                                   {"has": {module: version}}
    {"task": name, "ranks": N, "setup": {...}}  {"pids": [...]} once all ranks wait for their start
    {"files": [...]}                            [{"first": s, "all": s, "cpu": s}] once all are done
    {}                                          [checksum of what a rank has, or ""] once all have ended

What a task imports while it runs, its next run finds imported. The times are those of the monotonic clock. A
failure is answered by {"error": text} at any place.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import itertools
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, BinaryIO

# Before torch starts: processes are forked, and the ranks of a job meet on this machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
os.environ["USE_LIBUV"] = "0"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

import compare_tasks  # noqa: E402
from compare_model import checksum  # noqa: E402

MODULES = ("numpy", "mindspore", "torch", "safetensors", "google.protobuf", "reshardfs", compare_tasks.CONSOLIDATION,
           "deepspeed", "verl")
PATIENCE_SECONDS = 3600  # a machine may be stopped meanwhile
NUMBERS = itertools.count()
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def say(stream: BinaryIO, value: Any) -> None:
    stream.write(json.dumps(value).encode() + b"\n")
    stream.flush()


def hear(stream: BinaryIO) -> Any:
    line = stream.readline()
    if not line:
        raise EOFError("the other side has ended")
    return json.loads(line)


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)


def versions() -> dict[str, str]:
    found = {}
    for name in MODULES:
        try:
            found[name] = str(getattr(importlib.import_module(name), "__version__", ""))
        except ImportError:
            continue
    return found


def cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


class Clock:
    """When a rank has had its first tensor; set by the task."""

    def __init__(self) -> None:
        self.at: float | None = None

    def first(self) -> None:
        self.at = self.at or time.monotonic()


def run_rank(order: dict[str, Any], rank: int, stream: BinaryIO) -> None:
    task = compare_tasks.TASKS[order["task"]]
    job = compare_tasks.Job(rank, order["ranks"], order["setup"])
    task.prepare(job)
    say(stream, "ready")
    job.files = hear(stream)["files"]
    known, clock, before = set(sys.modules), Clock(), cpu_seconds()
    arrays = task.run(job, clock.first)
    done = time.monotonic()
    say(stream, {"first": clock.at or done, "all": done, "cpu": cpu_seconds() - before})
    hear(stream)
    say(stream, {"checksum": checksum(arrays) if arrays else "", "imported": sorted(set(sys.modules) - known)})
    hear(stream)


def fork_rank(order: dict[str, Any], rank: int) -> tuple[int, BinaryIO]:
    mine, theirs = socket.socketpair()
    child = os.fork()
    if child:
        theirs.close()
        return child, mine.makefile("rwb")  # type: ignore[return-value]
    mine.close()
    stream: BinaryIO = theirs.makefile("rwb")  # type: ignore[assignment]
    try:
        end_with_parent()
        # A process that waits for ever ends, and says where.
        faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True)
        run_rank(order, rank, stream)
    except BaseException:  # noqa: BLE001: the process ends below
        say(stream, {"error": traceback.format_exc()})
    finally:
        sys.stderr.flush()
        os._exit(0)


def import_more(names: list[str]) -> None:
    for name in names:
        with contextlib.suppress(Exception):  # some are not modules that could be imported by themselves
            importlib.import_module(name)


def ask_all(streams: list[BinaryIO]) -> list[Any]:
    answers = [hear(stream) for stream in streams]
    for answer in answers:
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(answer["error"])
    return answers


def tell_and_ask(streams: list[BinaryIO], message: Any) -> list[Any]:
    for stream in streams:
        say(stream, message)
    return ask_all(streams)


def run_order(order: dict[str, Any], outer: tuple[BinaryIO, BinaryIO]) -> list[str]:
    """The checksums. No process of it is left then."""
    order["setup"]["meeting"] += f"_{os.getpid()}_{next(NUMBERS)}"  # ranks of another job must not come there
    ranks = [fork_rank(order, rank) for rank in range(order["ranks"])]
    streams = [stream for _, stream in ranks]
    try:
        ask_all(streams)
        say(outer[1], {"pids": [pid for pid, _ in ranks]})
        say(outer[1], tell_and_ask(streams, hear(outer[0])))
        answers = tell_and_ask(streams, hear(outer[0]))
        for stream in streams:
            say(stream, {})
    except BaseException:
        for pid, _ in ranks:  # they may wait for each other
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        for pid, stream in ranks:
            os.waitpid(pid, 0)
            stream.close()
    import_more(answers[0]["imported"])
    return [answer["checksum"] for answer in answers]


def main() -> None:
    end_with_parent()
    # What a library prints must not get between the lines.
    inner, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    compare_tasks.import_all()
    say(out, {"has": versions()})
    for line in inner:
        try:
            say(out, run_order(json.loads(line), (inner, out)))
        except EOFError:
            raise SystemExit(1) from None
        except Exception:  # noqa: BLE001: compare.py is told
            say(out, {"error": traceback.format_exc()})
            raise SystemExit(1) from None


if __name__ == "__main__":
    main()
