# SPDX-License-Identifier: Apache-2.0
"""Processes that train together with Megatron-Core."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import model
import torch
from settings import Settings


def rank_main(rank: int, directory: Path, settings: Settings, function: Callable[..., None],
              arguments: tuple[Any, ...]) -> None:
    model.start(rank, directory, settings)
    function(settings, *arguments)
    torch.distributed.barrier()  # the others may still speak with this one


def run(settings: Settings, function: Callable[..., None], *arguments: Any) -> None:
    """`function(settings, *arguments)` in each of them."""
    preload()
    forked.run(settings.world, rank_main, settings, function, arguments)


def first(settings: Settings, path: Path) -> None:
    model.fill(model.build(settings), settings.seed)
    forked.write_imports(path)


@functools.cache
def preload() -> None:
    """Imports what a run imports, as a first one tells."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "list"
        settings = Settings()
        forked.run(1, rank_main, settings, first, (path,))
        forked.import_listed(path)
