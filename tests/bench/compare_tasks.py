# SPDX-License-Identifier: Apache-2.0
"""What compare.py has done by each way: sources saved, files converted, ranks loaded.

A task is run by compare_worker.py in one process for each rank. Loaders return what they have in memory of
their own, and note when they have FIRST. Converters write files and return nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from compare_model import DTYPE, FIRST, Arrays, Model

First = Callable[[], None]
CONSOLIDATION = "torch.distributed.checkpoint._consolidate_hf_safetensors"
torch: Any = None
mindspore: Any = None


@dataclass
class Job:
    """setup: what is known before the clock begins; files: what is known at its start."""
    rank: int
    ranks: int
    setup: dict[str, Any]
    files: list[str] = field(default_factory=list)

    def model(self) -> Model:
        return Model(Path(self.setup["model"]), self.setup["layers"], self.setup["hidden"])


def nothing(_job: Job) -> None:
    return None


@dataclass(frozen=True)
class Task:
    run: Callable[[Job, First], Arrays | None]
    prepare: Callable[[Job], None] = nothing


def import_all() -> None:
    """Before the first task, so that no figure has an import in it."""
    global mindspore, torch
    with contextlib.suppress(ImportError):
        mindspore = importlib.import_module("mindspore")
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        for name in ("distributed.checkpoint", "distributed.device_mesh", "distributed.tensor"):
            importlib.import_module(f"torch.{name}")
    with contextlib.suppress(ImportError):
        importlib.import_module(CONSOLIDATION)
    with contextlib.suppress(ImportError):
        importlib.import_module("safetensors.torch")
    with contextlib.suppress(ImportError):
        importlib.import_module("reshardfs")
    with contextlib.suppress(ImportError, FileNotFoundError):
        proto_module()


def proto_module() -> types.ModuleType:
    from strategy_files import proto_module as generated
    return generated("checkpoint")


def first_then_rest(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: name != FIRST)


def share_processors(job: Job) -> None:
    if torch is not None:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // job.ranks))


# --- torch.distributed.checkpoint --------------------------------------------------------------


def join(job: Job) -> None:
    share_processors(job)
    torch.distributed.init_process_group("gloo", init_method=f"file://{job.setup['meeting']}", rank=job.rank,
                                         world_size=job.ranks)
    torch.distributed.barrier()


def distributed(job: Job, part_of: Callable[[str], Any]) -> dict[str, Any]:
    """The model's tensors as DTensors of this rank; part_of: what it has of one."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    model, mesh = job.model(), init_device_mesh("cpu", (job.ranks,))
    out = {}
    for name, cut in model.cuts.items():
        full = torch.empty(model.arrays[name].shape, device="meta")
        placement = Replicate() if cut is None else Shard(cut)
        out[name] = DTensor.from_local(part_of(name), mesh, [placement], run_check=False, shape=full.shape,
                                       stride=full.stride())
    return out


def saved_state(job: Job) -> dict[str, Any]:
    model = job.model()
    return distributed(job, lambda name: torch.from_numpy(np.array(model.part(name, job.rank, job.ranks))))


def save_dcp(job: Job, _first: First) -> None:
    torch.distributed.checkpoint.save(saved_state(job), checkpoint_id=job.setup["out"])


def save_dcp_safetensors(job: Job, _first: First) -> None:
    from torch.distributed.checkpoint import HuggingFaceStorageWriter
    writer = HuggingFaceStorageWriter(job.setup["out"], save_distributed=True)
    torch.distributed.checkpoint.save(saved_state(job), storage_writer=writer)


def load_dcp(job: Job, _first: First) -> Arrays:
    """Into DTensors of this job's mesh. It returns when all are there."""
    model = job.model()

    def room(name: str) -> Any:
        shape, cut = list(model.arrays[name].shape), model.cuts[name]
        if cut is not None:
            shape[cut] //= job.ranks
        return torch.empty(shape)

    state = distributed(job, room)
    torch.distributed.checkpoint.load(state, checkpoint_id=job.setup["source"])
    return {name: tensor.to_local().numpy() for name, tensor in state.items()}


def consolidate(job: Job, _first: First) -> None:
    """The files of HuggingFaceStorageWriter to one of whole tensors."""
    Path(job.setup["out"]).mkdir()
    importlib.import_module(CONSOLIDATION).consolidate_safetensors_files(
        job.setup["source"], job.setup["out"], dict.fromkeys(job.setup["names"], 1), num_threads=os.cpu_count() or 1)


# --- safetensors -------------------------------------------------------------------------------


def save_safetensors(job: Job, _first: First) -> None:
    from safetensors.torch import save_file
    out = Path(job.setup["out"]) / f"rank_{job.rank}/model.safetensors"
    out.parent.mkdir(parents=True)
    model = job.model()
    save_file({name: torch.from_numpy(np.array(array))
               for name, array in model.parts(job.rank, job.ranks).items()}, out)


def load_safetensors(job: Job, first: First) -> Arrays:
    """The library's tensors are maps of the file: they are copied."""
    from safetensors import safe_open
    out = {}
    with safe_open(job.files[job.rank], framework="pt") as file:
        for name in first_then_rest(file.keys()):
            out[name] = file.get_tensor(name).clone().numpy()
            first()
    return out


def convert_safetensors(job: Job, _first: First) -> None:
    """The slices of each target rank out of the files that overlap with it, one rank after the other."""
    from safetensors import safe_open
    from safetensors.torch import save_file
    model, targets = job.model(), job.setup["targets"]
    with contextlib.ExitStack() as stack:
        shards = [stack.enter_context(safe_open(path, framework="pt")) for path in job.setup["sources"]]
        for target in range(targets):
            out = Path(job.setup["out"]) / f"rank_{target}/model.safetensors"
            out.parent.mkdir(parents=True)
            save_file({name: joined(shards, name, cut, target, targets) for name, cut in model.cuts.items()}, out)


def joined(shards: list[Any], name: str, cut: int | None, target: int, targets: int) -> Any:
    if cut is None:
        return shards[0].get_tensor(name)
    length = shards[0].get_slice(name).get_shape()[cut]
    begin, end = (length * len(shards) * at // targets for at in (target, target + 1))
    pieces = []
    for number in range(begin // length, -(-end // length)):
        inner = slice(max(begin - number * length, 0), min(end - number * length, length))
        if inner == slice(0, length):
            pieces.append(shards[number].get_tensor(name))
        else:
            piece = shards[number].get_slice(name)
            pieces.append(piece[inner] if cut == 0 else piece[:, inner])
    return torch.cat(pieces, cut).contiguous()


# --- MindSpore ---------------------------------------------------------------------------------


def read_parameters(path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Where MindSpore is missing: as its loader does, the whole file, the whole message, and a copy of each."""
    message = proto_module().Checkpoint()
    message.ParseFromString(Path(path).read_bytes())
    for value in message.value:
        content = np.frombuffer(value.tensor.tensor_content, DTYPE)
        yield value.tag, np.array(content.reshape(tuple(value.tensor.dims)))


def write_parameters(path: Path, arrays: Arrays) -> None:
    """As MindSpore's writer does: one message after the other. None is as large as its limit here."""
    with open(path, "wb") as out:
        for name, array in arrays.items():
            message = proto_module().Checkpoint()
            value = message.value.add()
            value.tag = name
            value.tensor.dims.extend(array.shape)
            value.tensor.tensor_type = "Float32"
            value.tensor.tensor_content = array.tobytes()
            out.write(message.SerializeToString())


def save_mindspore(job: Job, _first: First) -> None:
    path = Path(job.setup["out"]) / f"rank_{job.rank}/model-1_1.{job.setup['form']}"
    path.parent.mkdir(parents=True)
    arrays = job.model().parts(job.rank, job.ranks)
    if job.setup["form"] == "ckpt":
        return write_parameters(path, arrays)
    from safetensors.numpy import save_file
    save_file(dict(arrays), path, {"format": "ms"})
    return None


def load_mindspore(job: Job, first: First) -> Arrays:
    path, out = job.files[job.rank], {}
    if mindspore is None:
        for name, array in read_parameters(path):
            out[name] = array
            first()
        return out
    for name, parameter in mindspore.load_checkpoint(path, format=job.setup["form"]).items():
        array = parameter.asnumpy()  # of safetensors files, a map
        out[name] = array.copy() if job.setup["form"] == "safetensors" else array
        first()
    return out


def convert_mindspore(job: Job, _first: First) -> None:
    setup = job.setup
    mindspore.transform_checkpoints(setup["source"], setup["out"], "model", *setup["strategies"],
                                    output_format=setup["form"])


# --- DeepSpeed ---------------------------------------------------------------------------------


def stand_in_for_deepspeed() -> None:
    """Classes of DeepSpeed that its files name, of which nothing is needed."""
    for name, member in (("deepspeed.runtime.fp16.loss_scaler", "LossScaler"),
                         ("deepspeed.utils.tensor_fragment", "fragment_address")):
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            module = ".".join(parts[:count])
            sys.modules.setdefault(module, types.ModuleType(module))
        setattr(sys.modules[name], member, type(member, (), {"__module__": name}))


def convert_zero(job: Job, _first: First) -> None:
    """What zero_to_fp32 does with safe_serialization: optimizer files mapped, weights put together, one file.
    No tensor is copied more often than that takes."""
    from safetensors.torch import save_file
    stand_in_for_deepspeed()

    def opened(path: str) -> dict[str, Any]:
        return torch.load(path, map_location="cpu", mmap=True, weights_only=False)

    shapes = opened(job.setup["model_states"])["param_shapes"]
    states = [opened(path)["optimizer_state_dict"] for path in job.setup["sources"]]
    whole = third_stage(shapes, states) if states[0]["zero_stage"] == 3 else second_stage(shapes, states)
    Path(job.setup["out"]).mkdir()
    save_file({name: tensor.contiguous() for name, tensor in whole},
              Path(job.setup["out"]) / "model.safetensors")


def second_stage(shapes: list[Any], states: list[Any]) -> Iterator[tuple[str, Any]]:
    """The parameters of a group lie back to back in what the ranks' parts make together."""
    for number, group in enumerate(shapes):
        vector = torch.cat([state["single_partition_of_fp32_groups"][number] for state in states])
        begin = 0
        for name, shape in group.items():
            yield name, vector.narrow(0, begin, math.prod(shape)).view(shape)
            begin += math.prod(shape)


def third_stage(shapes: list[Any], states: list[Any]) -> Iterator[tuple[str, Any]]:
    """Each parameter is cut in equal pieces, one a rank, that lie back to back on the rank; the last is padded."""
    flats = [torch.cat(list(state["fp32_flat_groups"])) if len(state["fp32_flat_groups"]) > 1
             else state["fp32_flat_groups"][0] for state in states]
    begin = 0
    for group in shapes:
        for name, shape in group.items():
            length = -(-math.prod(shape) // len(states))
            pieces = [flat.narrow(0, begin, length) for flat in flats]
            yield name, torch.cat(pieces).narrow(0, 0, math.prod(shape)).view(shape)
            begin += length


# --- reshardfs' module -------------------------------------------------------------------------


def load_module(job: Job, first: First) -> Arrays:
    """What the ranks have, or the whole model."""
    reshardfs = importlib.import_module("reshardfs")
    with reshardfs.open(job.setup["source"], **job.setup["options"]) as checkpoint:
        state = checkpoint.merged if job.setup["whole"] else checkpoint.rank(job.rank)
        out: Arrays = state.numpy([FIRST])
        first()
        return out | state.numpy([name for name in state if name != FIRST])


TASKS = {
    "save_dcp": Task(save_dcp, join),
    "save_dcp_safetensors": Task(save_dcp_safetensors, join),
    "load_dcp": Task(load_dcp, join),
    "consolidate": Task(consolidate, share_processors),
    "save_safetensors": Task(save_safetensors, share_processors),
    "load_safetensors": Task(load_safetensors, share_processors),
    "convert_safetensors": Task(convert_safetensors, share_processors),
    "save_mindspore": Task(save_mindspore),
    "load_mindspore": Task(load_mindspore),
    "convert_mindspore": Task(convert_mindspore),
    "convert_zero": Task(convert_zero, share_processors),
    "load_module": Task(load_module),
}
