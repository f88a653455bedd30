# SPDX-License-Identifier: Apache-2.0
"""Processes of one machine that train together. They are forked from this one when it has imported everything:
importing PyTorch and DeepSpeed takes seconds, forking none. So this one must have no threads."""

from __future__ import annotations

import functools
import gc
import importlib
import multiprocessing
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

# Before PyTorch.
os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", DS_SKIP_CUDA_CHECK="1", GLOO_SOCKET_IFNAME="lo",
                  TORCH_CPP_LOG_LEVEL="ERROR")

import deepspeed  # noqa: E402
import deepspeed.ops  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
warnings.simplefilter("ignore")
deepspeed.ops.__compatible_ops__.update(deepspeed_shm_comm=False)  # would be compiled
FORK = multiprocessing.get_context("fork")


class Failed(Exception):
    """What a rank raised."""


def rank_main(rank: int, world: int, directory: Path, function: Callable[..., None],
              arguments: tuple[Any, ...]) -> None:
    code = 1
    try:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                          LOCAL_SIZE=str(world))
        deepspeed.init_distributed("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=world,
                                   auto_mpi_discovery=False)
        function(rank, *arguments)
        torch.distributed.barrier()  # the others may still speak with this one
        code = 0
    except BaseException:
        (directory / f"error{rank}").write_text(traceback.format_exc())
    finally:
        sys.stdout.flush()
        os._exit(code)


def alone_main(directory: Path, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    code = 1
    try:
        function(*arguments)
        code = 0
    except BaseException:
        (directory / "error0").write_text(traceback.format_exc())
    finally:
        sys.stdout.flush()
        os._exit(code)


def finished(processes: list[Any], directory: Path) -> None:
    """Waits for all; ends all when one fails."""
    left = {process.sentinel: process for process in processes}
    while left:
        for sentinel in connection.wait(list(left)):
            process = left.pop(sentinel)
            process.join()
            if process.exitcode:
                for other in left.values():
                    other.kill()
    if any(process.exitcode for process in processes):
        errors = sorted(directory.glob("error*"), key=lambda path: path.stat().st_mtime_ns)
        raise Failed(errors[0].read_text() if errors else "a process ended without a word; see the log")


def run(world: int, function: Callable[..., None], *arguments: Any) -> None:
    """`function(rank, *arguments)` in each of them."""
    preload()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        processes = [FORK.Process(target=rank_main, args=(rank, world, directory, function, arguments))
                     for rank in range(world)]
        for process in processes:
            process.start()
        finished(processes, directory)


def alone(function: Callable[..., None], *arguments: Any) -> None:
    """In a process without others, so that this one gets no threads."""
    with tempfile.TemporaryDirectory() as name:
        process = FORK.Process(target=alone_main, args=(Path(name), function, arguments))
        process.start()
        finished([process], Path(name))


@functools.cache
def preload() -> None:
    """Imports what a run imports, as a first one tells."""
    import train

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        process = FORK.Process(target=rank_main, args=(0, 1, directory, train.list_imports, (directory / "list",)))
        process.start()
        finished([process], directory)
        for module in (directory / "list").read_text().split():
            try:
                importlib.import_module(module)
            except Exception:  # some are no modules, or for another system
                pass
    gc.collect()
    gc.freeze()  # or each child copies what its collector visits
