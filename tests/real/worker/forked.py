# SPDX-License-Identifier: Apache-2.0
"""Processes of one machine that work together. They are forked from this one when it has imported everything:
importing PyTorch takes seconds, forking none. So this one must have no threads."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

FORK = multiprocessing.get_context("fork")


class Failed(Exception):
    """What a process raised."""


class Crashed(Failed):
    """A signal ended a process, and nothing that reshardfs has done can send it: SIGBUS tells of a mount's file."""


def renew_torch_pool() -> None:
    """After a fork PyTorch makes its pool of threads anew at the first use, without a lock: two threads that are the
    first together fail with "Invalid thread pool!"."""
    torch = sys.modules.get("torch")
    if torch:
        torch.set_num_threads(torch.get_num_threads())


def child_main(rank: int, directory: Path, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    code = 1
    try:
        renew_torch_pool()
        function(rank, directory, *arguments)
        code = 0
    except BaseException:
        (directory / f"error{rank}").write_text(traceback.format_exc())
    finally:
        for child in multiprocessing.active_children():  # which would outlive this one
            child.kill()
        sys.stdout.flush()
        os._exit(code)


def finished(processes: list[Any], directory: Path) -> None:
    """Waits for all; ends all when one fails."""
    left = {process.sentinel: process for process in processes}
    first: int | None = None
    while left:
        for sentinel in connection.wait(list(left)):
            process = left.pop(sentinel)
            process.join()
            if process.exitcode:
                first = first or process.exitcode
                for other in left.values():
                    other.kill()
    if first:
        errors = sorted(directory.glob("error*"), key=lambda path: path.stat().st_mtime_ns)
        if errors:
            raise Failed(errors[0].read_text())
        kind = Crashed if first < 0 and -first != signal.SIGBUS else Failed
        raise kind(f"a process ended with {first} and no word")


def run(world: int, function: Callable[..., None], *arguments: Any) -> None:
    """`function(rank, directory, *arguments)` in each of them; the directory is theirs for as long as they run."""
    with tempfile.TemporaryDirectory() as name:
        processes = [FORK.Process(target=child_main, args=(rank, Path(name), function, arguments))
                     for rank in range(world)]
        for process in processes:
            process.start()
        finished(processes, Path(name))


def ignoring_place(_rank: int, _directory: Path, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    function(*arguments)


def alone(function: Callable[..., None], *arguments: Any) -> None:
    """In a process without others, so that this one gets no threads."""
    run(1, ignoring_place, function, arguments)


def write_imports(path: Path) -> None:
    path.write_text("\n".join(sys.modules))


def import_listed(path: Path) -> None:
    """What a first run has imported: the next ones need not."""
    for module in path.read_text().split():
        try:
            importlib.import_module(module)
        except Exception:  # some are no modules, or for another system
            pass
    gc.collect()
    gc.freeze()  # or each child copies what its collector visits
