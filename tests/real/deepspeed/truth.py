# SPDX-License-Identifier: Apache-2.0
"""What a running engine of DeepSpeed says of its parameters and of their states, whole and by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from safetensors.torch import save_file
from settings import Settings

# What optimizers call the states that have the form of a parameter.
KINDS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "sum", "square_avg", "grad_avg", "exp_inf",
         "acc_delta")

Tensors = dict[str, torch.Tensor]


def names_of(module: torch.nn.Module) -> dict[str, list[str]]:
    """All names of each parameter, by the first of them."""
    first: dict[int, str] = {}
    out: dict[str, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        out.setdefault(first.setdefault(id(parameter), name), []).append(name)
    return out


def persistent_buffers(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for prefix, one in module.named_modules():
        for name, buffer in one.named_buffers(recurse=False):
            if name not in one._non_persistent_buffers_set:
                yield f"{prefix}.{name}" if prefix else name, buffer


# --- stages 1 and 2 ----------------------------------------------------------------------------


def flat_groups(optimizer: Any) -> Iterator[tuple[torch.Tensor, list[Any], torch.Tensor, Any]]:
    """(the flat vector that the parameters lie in, they, this rank's masters, whom it shares them with)."""
    if hasattr(optimizer, "bf16_groups_flat"):
        yield from zip(optimizer.bf16_groups_flat, optimizer.bf16_groups, optimizer.fp32_groups_flat_partition,
                       optimizer.real_dp_process_group)
    else:
        yield from zip(optimizer.bit16_groups_flat, optimizer.bit16_groups,
                       optimizer.single_partition_of_fp32_groups, optimizer.real_dp_process_group)


def gathered(part: torch.Tensor, group: Any) -> torch.Tensor:
    part = part.detach().clone().contiguous()
    parts = [torch.empty_like(part) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(parts, part, group=group)
    return torch.cat(parts)


def by_place(optimizer: Any, names: dict[int, str]) -> tuple[Tensors, dict[str, Tensors]]:
    """The masters, and the states of each kind: from where each parameter lies in memory, which does not depend on
    what DeepSpeed writes down about it."""
    masters: Tensors = {}
    states: dict[str, Tensors] = {}
    for flat, parameters, part, group in flat_groups(optimizer):
        vectors = {"": gathered(part, group)}
        for kind, state in optimizer.optimizer.state.get(part, {}).items():
            if torch.is_tensor(state) and state.shape == part.shape and kind != "step":
                assert kind in KINDS, f"another state: {kind}"
                vectors[kind] = gathered(state, group)
        for parameter in parameters:
            if not parameter.numel():
                continue
            assert parameter.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr()
            begin = parameter.storage_offset() - flat.storage_offset()
            for kind, vector in vectors.items():
                whole = vector[begin:begin + parameter.numel()].view(parameter.shape)
                (states.setdefault(kind, {}) if kind else masters)[names[id(parameter)]] = whole
    return masters, states


def require_agreement(parameters: dict[str, Any], masters: Tensors) -> None:
    """With what DeepSpeed says by itself."""
    for name, master in masters.items():
        other = safe_get_full_fp32_param(parameters[name])
        assert torch.equal(other, master.float()), f"safe_get_full_fp32_param of {name} is another"


def require_rounded(parameters: dict[str, Any], masters: Tensors) -> None:
    """What is computed with is the master, in the type of training."""
    for name, master in masters.items():
        rounded = master.to(parameters[name].dtype)
        assert torch.equal(rounded, parameters[name].detach()), f"{name} is not its master, rounded"


def is_linked(parameter: Any, kind: str) -> bool:
    """Whether all ranks that have a part of it know where its state is: the others would wait for them."""
    mapping = parameter._hp_mapping
    known = torch.tensor(int(mapping is None or kind in (mapping.optim_fragment or {})))
    torch.distributed.all_reduce(known, torch.distributed.ReduceOp.MIN, group=parameter._dp_group)
    return bool(known)


def require_states(parameters: dict[str, Any], states: dict[str, Tensors]) -> None:
    for kind, tensors in states.items():
        for name, tensor in tensors.items():
            if is_linked(parameters[name], kind):
                other = safe_get_full_optimizer_state(parameters[name], kind)
                assert torch.equal(other, tensor.float()), f"safe_get_full_optimizer_state of {name} is another"


# --- stage 3 -----------------------------------------------------------------------------------


def stage3(optimizer: Any, parameters: dict[str, Any]) -> tuple[Tensors, dict[str, Tensors]]:
    kinds = sorted({kind for state in optimizer.optimizer.state.values() for kind, value in state.items()
                    if torch.is_tensor(value) and value.ndim == 1})
    masters = {name: safe_get_full_fp32_param(one) for name, one in parameters.items() if one.requires_grad}
    states: dict[str, Tensors] = {}
    for kind in kinds:
        for name in masters:
            states.setdefault(kind, {})[name] = safe_get_full_optimizer_state(parameters[name], kind)
    return masters, states


def whole(parameter: Any) -> torch.Tensor:
    if not hasattr(parameter, "ds_id"):
        return parameter.detach().clone()
    with deepspeed.zero.GatheredParameters([parameter]):
        return parameter.detach().clone()


# --- all ---------------------------------------------------------------------------------------


def of_engine(engine: Any, settings: Settings) -> Tensors:
    parameters = dict(engine.module.named_parameters())
    masters: Tensors = {}
    states: dict[str, Tensors] = {}
    if settings.stage == 3:
        masters, states = stage3(engine.optimizer, parameters)
    elif settings.stage:
        masters, states = by_place(engine.optimizer, {id(one): name for name, one in parameters.items()})
        require_rounded(parameters, masters)
        if not settings.is_round_robin():
            require_agreement(parameters, masters)
            require_states(parameters, states)
    out = {f"{kind}.{name}": tensor for kind, tensors in states.items() for name, tensor in tensors.items()}
    for name, names in names_of(engine.module).items():
        parameter = parameters[name]
        if settings.exclude_frozen and not parameter.requires_grad:
            continue
        value = masters[name] if name in masters else whole(parameter)
        out.update(dict.fromkeys(names, value))
    return out | dict(persistent_buffers(engine.module))


def write(rank: int, engine: Any, settings: Settings, path: Path) -> None:
    tensors = of_engine(engine, settings)
    if rank == 0:
        save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, path)
