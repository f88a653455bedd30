# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints of PyTorch: what dcp.save writes of a network in random meshes has to be shown as
full_tensor() says, and dcp.load has to read what --views dcp shows."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import files
import ranks
import torch
import torch.distributed.checkpoint as dcp
from networks import Block
from product import mounted, reshardfs
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

State = dict[str, Any]


@dataclass
class Plan:
    """`shards` and `replicas` of FSDP, and `cuts` of tensor parallelism."""

    shards: int
    replicas: int
    cuts: int
    width: int
    layers: int
    seed: int

    @property
    def world(self) -> int:
        return self.shards * self.replicas * self.cuts


def random_plan(rng: random.Random) -> Plan:
    shards, replicas, cuts = rng.choice(((1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1), (1, 1, 2), (1, 1, 3), (2, 1, 2),
                                         (3, 1, 2), (2, 2, 1), (2, 2, 2)))
    return Plan(shards, replicas, cuts, rng.randint(2, 9), rng.randint(1, 3), rng.randrange(1 << 30))


class Net(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, plan.width)
        # Tensor parallelism cuts evenly, or cannot compute.
        self.blocks = nn.ModuleList([Block(plan.width, 6) for _ in range(plan.layers)])
        self.frozen = nn.Parameter(torch.randn(7, 3), requires_grad=False)
        self.register_buffer("count", torch.tensor(3))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return hidden


def cut(network: Net, plan: Plan) -> None:
    names = [name for name, size in (("replicas", plan.replicas), ("shards", plan.shards), ("cuts", plan.cuts))
             if size > 1 or name == "shards"]
    sizes = {"replicas": plan.replicas, "shards": plan.shards, "cuts": plan.cuts}
    mesh = init_device_mesh("cpu", tuple(sizes[name] for name in names), mesh_dim_names=tuple(names))
    if plan.cuts > 1:
        for block in network.blocks:
            parallelize_module(block, mesh["cuts"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    data = mesh[tuple(name for name in names if name != "cuts")] if plan.cuts > 1 else mesh
    for block in network.blocks:
        fully_shard(block, mesh=data)
    fully_shard(network, mesh=data)


def state_of(plan: Plan, is_trained: bool) -> State:
    torch.manual_seed(plan.seed if is_trained else plan.seed + 1)
    network = Net(plan)
    cut(network, plan)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, foreach=False)
    for _ in range(2):
        tokens = torch.randint(0, 11, (2, 5), generator=torch.Generator().manual_seed(plan.seed + 2))
        network(tokens).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"model": get_model_state_dict(network), "optimizer": get_optimizer_state_dict(network, optimizer)["state"]}


def whole(state: State, prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors by their paths, which all ranks must ask for."""
    out: dict[str, torch.Tensor] = {}
    for key, value in state.items():
        if isinstance(value, dict):
            out |= whole(value, f"{prefix}{key}.")
        elif isinstance(value, torch.Tensor):
            out[prefix + key] = (value.full_tensor() if isinstance(value, DTensor) else value).detach().clone()
    return out


def save(rank: int, plan: Plan, how: str, output: Path, expected: Path) -> None:
    state = state_of(plan, is_trained=True)
    writers: dict[str, Callable[[], Any]] = {
        "plain": lambda: dcp.FileSystemWriter(output),
        "a file an item": lambda: dcp.FileSystemWriter(output, single_file_per_rank=False, thread_count=2),
        "async": lambda: dcp.FileSystemWriter(output)}
    if how == "async":
        dcp.async_save(state, storage_writer=writers[how]()).result()
    else:
        dcp.save(state, storage_writer=writers[how]())
    tensors = whole(state)
    if rank == 0:
        save_file(tensors, expected)


def load(rank: int, plan: Plan, source: Path, expected: Path) -> None:
    """Into a network that is cut otherwise."""
    state = state_of(plan, is_trained=False)
    wanted = load_file(expected)
    assert any(not torch.equal(tensor, wanted[name]) for name, tensor in whole(state).items())
    dcp.load(state, checkpoint_id=source)
    for name, tensor in whole(state).items():
        assert torch.equal(tensor, wanted[name]), f"dcp.load reads another {name}"


def random_save(directory: Path, seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    plan = random_plan(rng)
    other = random_plan(rng)
    other.width, other.layers = plan.width, plan.layers
    how = rng.choice(("plain", "plain", "a file an item", "async"))
    print(plan, other, how, flush=True)
    source, expected = directory / "run", directory / "expected.safetensors"
    ranks.run(plan.world, save, plan, how, source, expected)
    out = directory / "out.safetensors"
    reshardfs("export", source, out)
    files.assert_equal(files.read(out), files.read(expected), source)
    reshardfs("verify", source)
    if rng.random() < 0.5:
        with mounted(source, directory / "mnt", "--views", "dcp") as mountpoint:
            ranks.run(other.world, load, other, mountpoint / "dcp", expected)
    else:
        reshardfs("export", source, directory / "shown", "--views", "dcp")
        ranks.run(other.world, load, other, directory / "shown/dcp", expected)
    return collections.Counter({"DCP: saved as full_tensor() says, and loaded": 1})
