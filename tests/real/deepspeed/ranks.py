# SPDX-License-Identifier: Apache-2.0
"""Processes that train together with DeepSpeed."""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before PyTorch.
os.environ.update(DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", DS_SKIP_CUDA_CHECK="1", GLOO_SOCKET_IFNAME="lo",
                  TORCH_CPP_LOG_LEVEL="ERROR")

import deepspeed  # noqa: E402
import deepspeed.ops  # noqa: E402
import forked  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
warnings.simplefilter("ignore")
deepspeed.ops.__compatible_ops__.update(deepspeed_shm_comm=False)  # would be compiled


def rank_main(rank: int, directory: Path, world: int, function: Callable[..., None],
              arguments: tuple[Any, ...]) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      LOCAL_SIZE=str(world))
    deepspeed.init_distributed("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=world,
                               auto_mpi_discovery=False)
    function(rank, *arguments)
    torch.distributed.barrier()  # the others may still speak with this one


def run(world: int, function: Callable[..., None], *arguments: Any) -> None:
    """`function(rank, *arguments)` in each of them."""
    preload()
    forked.run(world, rank_main, world, function, arguments)


@functools.cache
def preload() -> None:
    """Imports what a run imports, as a first one tells."""
    import train

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "list"
        forked.run(1, rank_main, 1, train.list_imports, (path,))
        forked.import_listed(path)
