# SPDX-License-Identifier: Apache-2.0
"""Models of transformers in memory, cut for several ranks, that reshardfs fills without a mount: they have to be those
that from_pretrained() gives of the exported directory, with the states of an optimizer, and train alike."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forked
import torch
import torch.distributed.checkpoint as dcp
import transformers
from product import module, require_module
from product import reshardfs as command
from safetensors.torch import load_file
from torch import nn
from torch.distributed.checkpoint.state_dict import (get_model_state_dict, get_optimizer_state_dict,
                                                     set_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

# Of FSDP2, and of tensor parallelism.
LAYOUTS = {"FSDP2 on 2": (2, 1), "FSDP2 on 4": (4, 1), "TP on 2": (1, 2), "TP on 4": (1, 4), "2-D": (2, 2)}
KINDS = ("exp_avg", "exp_avg_sq")
COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")


@dataclass(frozen=True)
class Source:
    """A checkpoint, the options of open() and of the command line that show it as the model, and where the model's
    config.json is. `states`: whether it has those of an optimizer, KIND.NAME of each parameter."""

    path: Path
    config: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    words: tuple[Any, ...] = ()
    states: bool = False


def rank_main(rank: int, directory: Path, world: int, function: Callable[..., None],
              arguments: tuple[Any, ...]) -> None:
    os.environ.update(GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=world)
    function(rank, *arguments)
    torch.distributed.barrier()  # the others may still speak with this one


def cut(model: nn.Module, layout: str) -> nn.Module:
    shards, cuts = LAYOUTS[layout]
    mesh = init_device_mesh("cpu", (shards, cuts), mesh_dim_names=("shards", "cuts"))
    if cuts > 1:
        for name, one in model.named_modules():
            last = name.rpartition(".")[2]
            if last in COLUMNS:
                parallelize_module(one, mesh["cuts"], ColwiseParallel())
            elif last in ("o_proj", "down_proj"):
                parallelize_module(one, mesh["cuts"], RowwiseParallel())
            elif last == "embed_tokens":
                parallelize_module(one, mesh["cuts"], RowwiseParallel(input_layouts=Replicate()))
            elif last == "lm_head":
                parallelize_module(one, mesh["cuts"], ColwiseParallel(output_layouts=Replicate()))
    if shards > 1:
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh["shards"])
        fully_shard(model, mesh=mesh["shards"])
    return model.train()


def local(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def require_same(found: nn.Module, want: nn.Module, what: str) -> None:
    one, other = found.state_dict(), want.state_dict()
    assert one.keys() == other.keys(), sorted(one.keys() ^ other.keys())
    for name, tensor in other.items():
        mine, theirs = local(one[name]), local(tensor)
        same = mine.dtype == theirs.dtype and torch.equal(mine.view(torch.uint8), theirs.view(torch.uint8))
        assert same, f"{what}: {name} is another"


def states_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The tensors of its states under the names of the checkpoint."""
    states = get_optimizer_state_dict(model, optimizer)["state"]
    return {f"{kind}.{name}": values[kind] for name, values in states.items() for kind in KINDS}


def put(optimizer: torch.optim.Optimizer, model: nn.Module, filled: dict[str, Any]) -> None:
    states = get_optimizer_state_dict(model, optimizer)
    for name, values in states["state"].items():
        values.update({kind: filled[f"{kind}.{name}"] for kind in KINDS}, step=torch.tensor(3.0))
    set_optimizer_state_dict(model, optimizer, states)


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    tokens = (torch.arange(24) * 7 % model.config.vocab_size).reshape(2, 12)
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    return loss.detach()


def fill(rank: int, layout: str, source: Source, hub: Path, states: Path) -> None:
    package = module()  # here, for it has threads
    from reshardfs.torch import DcpReader

    whole = transformers.AutoModelForCausalLM.from_pretrained(hub, dtype="auto", attn_implementation="eager")
    want = cut(whole, layout)
    torch.manual_seed(99)
    model = cut(transformers.AutoModelForCausalLM.from_config(whole.config, attn_implementation="eager"), layout)
    with package.open(source.path, **source.options) as checkpoint:
        dcp.load(get_model_state_dict(model), storage_reader=DcpReader(checkpoint))
        require_same(model, want, layout)
        one, other = (torch.optim.AdamW(each.parameters(), lr=1e-2, foreach=False) for each in (model, want))
        if source.states:
            loaded = states_of(model, one)
            dcp.load(loaded, storage_reader=DcpReader(checkpoint))
            expected = load_file(states)
            for name, tensor in states_of(want, other).items():
                part = expected[name].to(tensor.dtype)
                if isinstance(tensor, DTensor):
                    part = distribute_tensor(part, tensor.device_mesh, tensor.placements)
                assert part.count_nonzero() and torch.equal(local(loaded[name]), local(part)), f"{layout}: another {name}"
                expected[name] = part
            put(one, model, loaded)
            put(other, want, expected)
    assert torch.equal(step(model, one), step(want, other)), f"{layout}: another loss"
    require_same(model, want, f"{layout}, after a step")


def check(directory: Path, source: Source) -> dict[str, int]:
    """In every layout that the model can be cut to."""
    require_module()
    states = directory / "states.safetensors"
    words = ("--model-config", source.config, *source.words)
    weights = ("--weights-only",) if source.states else ()
    command("export", source.path, directory / "exported", "--views", "hf", *words, *weights)
    if source.states:
        command("export", source.path, states, *words)
    heads = json.loads((source.config / "config.json").read_text())["num_key_value_heads"]
    for layout, (shards, cuts) in LAYOUTS.items():
        if cuts > heads:
            continue
        forked.run(shards * cuts, rank_main, shards * cuts, fill, (layout, source, directory / "exported/hf", states))
    return {"live models of FSDP2, TP and both: as from_pretrained, and train alike": 1}
