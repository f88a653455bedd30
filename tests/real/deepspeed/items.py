# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch_checkpointing: what its manager saves of a network in random meshes has to be shown as
full_tensor() says."""

from __future__ import annotations

import collections
import dataclasses
import random
from pathlib import Path
from typing import Any

import files
import ranks
import torch.distributed as dist
from dcp import Plan, random_plan, state_of, whole
from product import reshardfs
from safetensors.torch import save_file
from torch_checkpointing import CheckpointManager, ItemSpec
from torch_checkpointing.checkpoint_layout import LayoutInfo, SafetensorsSerialization
from torch_checkpointing.config import SyncCheckpointSaverConfig
from torch_checkpointing.default_resharder import DefaultResharder
from torch_checkpointing.metadata_manager import DefaultMetadataManager
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig


def gathered(_manager: Any, data: bytes, process_group: Any = None) -> dict[int, bytes]:
    """Its own exchange needs CUDA; what is written does not depend on it."""
    out: list[Any] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(out, data, group=process_group)
    return dict(enumerate(out))


def specs(how: str) -> dict[str, ItemSpec]:
    if how == "without a table":
        return {"model": ItemSpec(), "optimizer": ItemSpec()}
    if how == "safetensors":
        layout = LayoutInfo("model/rank_{rank}.safetensors", SafetensorsSerialization())
        return {"model": ItemSpec(resharder=DefaultResharder(), layout=layout),
                "optimizer": ItemSpec(resharder=DefaultResharder())}
    return {name: ItemSpec(resharder=DefaultResharder()) for name in ("model", "optimizer")}


def save(rank: int, plan: Plan, how: str, output: Path, expected: Path) -> None:
    DefaultMetadataManager._all_gather_pickled_data = gathered
    # Not every file system takes O_DIRECT.
    direct = {field.name: False for field in dataclasses.fields(LocalFileSystemStorageConfig) if "direct" in field.name}
    manager = CheckpointManager.Config(items=specs(how), default=ItemSpec(required=False),
                                       save=SyncCheckpointSaverConfig(),
                                       storage_config=LocalFileSystemStorageConfig(**direct)).build()
    state = state_of(plan, is_trained=True)
    manager.save(str(output), state | {"train": {"step": 2}})
    manager.close()
    tensors = whole(state)
    if rank == 0:
        save_file(tensors, expected)


def random_save(directory: Path, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    plan = random_plan(rng)
    how = rng.choice(("torch.save", "safetensors", "without a table"))
    print(plan, how, flush=True)
    source, expected = directory / "run/step_2", directory / "expected.safetensors"
    ranks.run(plan.world, save, plan, how, source, expected)
    out = directory / "out.safetensors"
    reshardfs("export", source, out)
    files.assert_equal(files.read(out), files.read(expected), source)
    reshardfs("verify", source)
    return collections.Counter({f"torch_checkpointing, {how}: saved as full_tensor() says": 1})
