# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a run have, whole: from the tensors in their memory and the places that Megatron-Core gives
them, which depends on no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model
import torch
from megatron.core.dist_checkpointing.mapping import is_main_replica
from settings import VOCABULARY

LENGTH = 24


def tokens() -> torch.Tensor:
    return (torch.arange(LENGTH) * 7 % VOCABULARY).reshape(1, LENGTH)


def write(folder: Path, state: dict[str, Any], copies: bool = True) -> None:
    """This rank's parts; `copies`: also those that another rank has, too."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for shard in model.shards(state):
        if not copies and not is_main_replica(shard.replica_id):
            continue
        sizes = (1,) * shard.prepend_axis_num + tuple(shard.data.shape)
        parts.append((shard.key, tuple(shard.global_shape), tuple(shard.global_offset),
                      shard.data.detach().clone().reshape(sizes)))
    torch.save(parts, folder / f"{torch.distributed.get_rank()}.pt")


def whole(folder: Path) -> dict[str, torch.Tensor]:
    """Of all ranks. Copies must agree, and nothing may be missing."""
    tensors: dict[str, torch.Tensor] = {}
    known: dict[str, torch.Tensor] = {}
    for path in sorted(folder.iterdir()):
        for name, shape, offset, part in torch.load(path):
            tensor = tensors.setdefault(name, torch.zeros(shape, dtype=part.dtype))
            mask = known.setdefault(name, torch.zeros(shape, dtype=torch.bool))
            place = tuple(slice(start, start + size) for start, size in zip(offset, part.shape, strict=True))
            assert tensor.shape == shape and tensor.dtype == part.dtype, name
            assert torch.equal(tensor[place][mask[place]], part[mask[place]]), f"ranks have different {name}"
            tensor[place] = part
            mask[place] = True
    for name, mask in known.items():
        assert mask.all(), f"no rank has all of {name}"
    return tensors
