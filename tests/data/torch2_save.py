# SPDX-License-Identifier: Apache-2.0
"""Saves distributed checkpoints with PyTorch 2, each with the tensors that it has.

torch2_save.py DIRECTORY [CASE...]: DIRECTORY/<case>/ gets the checkpoint `set`, `expected.safetensors`
(full tensors under their names), `objects.pickle` (the other values by name) and `case.json`: names of
tensors that no other program can show, or why this release cannot save the case.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch2_common import KINDS, cut, dist, flattened, on_ranks, torch, write_tensors

import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

State = dict[str, Any]
CASES: dict[str, tuple[int, Callable[[Case], None]]] = {}


class CannotSave(Exception):
    """This release does not have what the case needs."""


@dataclass
class Case:
    directory: Path
    rank: int = 0
    world: int = 1
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def set(self) -> Path:
        return self.directory / "set"

    def expect(self, state: State, *, refused: tuple[str, ...] = ()) -> None:
        """What the checkpoint has. All ranks must call it."""
        tensors: dict[str, torch.Tensor] = {}
        objects: State = {}
        for name, value in flattened(state).items():
            if isinstance(value, DTensor):
                value = value.full if hasattr(value, "full") else value.full_tensor()
            if name in refused:
                continue
            (tensors if isinstance(value, torch.Tensor) else objects)[name] = value
        if self.rank == 0:
            write_tensors(self.directory / "expected.safetensors", tensors)
            (self.directory / "objects.pickle").write_bytes(pickle.dumps(objects))
        self.told["refused"] = list(refused)

    def save(self, state: State, *, refused: tuple[str, ...] = (), **options: Any) -> None:
        """To `set`, and says so."""
        writer = dcp.FileSystemWriter(self.set, **options)
        dcp.save(state, storage_writer=writer)
        self.expect(state, refused=refused)


def case(world: int, *names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Names of a case that this many processes save. Several names are given to the function."""
    def register(function: Callable[..., None]) -> Callable[..., None]:
        for name in names or (function.__name__,):
            key = name if world == 1 else f"{name}_{world}"
            CASES[key] = (world, (lambda c, n=name: function(c, n)) if names else function)
        return function
    return register


def values(seed: int, kind: str, *shape: int) -> torch.Tensor:
    """Any bits; those of BOOL are 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    dtype = KINDS[kind]
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(torch.bool)
    count = torch.Size(shape).numel() * torch.empty(0, dtype=dtype).element_size()
    bits = torch.randint(0, 256, (count,), generator=generator).to(torch.uint8)
    return bits.view(dtype).reshape(shape)


def plain_state() -> State:
    """All types; nested values; tensors that lie in memory otherwise than in C order, or share it."""
    base = values(50, "F32", 6, 8)
    module = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    return {
        "type": {kind: values(n, kind, 5, 3) for n, kind in enumerate(KINDS)},
        "list": [values(30, "F32", 4), [values(31, "I64", 2, 2), 7], {"w": values(32, "BF16", 3)}],
        "a.b": {"c": values(33, "F32", 2), "": values(34, "F32", 2)},
        "層": {"0": {"重み": values(35, "F32", 30, 7)}},
        "scalar": {kind: values(40 + n, kind) for n, kind in enumerate(KINDS)},
        "nothing": values(0, "F32", 0, 5),
        "lies": {"transposed": base.t(), "row": base[2], "column": base[:, 3], "step": base[::2, 1::3],
                 "permuted": values(51, "F64", 2, 3, 4).permute(2, 0, 1),
                 "channels_last": values(52, "F16", 2, 3, 4, 5).to(memory_format=torch.channels_last),
                 "expanded": values(53, "I32", 1, 4).expand(3, 4),
                 "as_large": values(54, "F32", 4).as_strided((2, 2), (0, 1)),
                 "flipped": base.flip(0), "whole": base, "again": base,
                 "reshaped": base.view(4, 12), "parameter": module.weight},
        "rng": torch.get_rng_state(),
        "step": 7, "note": "層", "nothing_at_all": None, "empty": {}, "none": [], "pair": (1, 2.5),
        "optimizer": optimizer.state_dict(), "lr_scheduler": scheduler.state_dict(),
        "ordered": OrderedDict(z=values(55, "U8", 3), a=1)}


@case(1, "default", "file_per_item", "threads", "unsynced", "overwritten", "aligned", "without_crc",
      "large_head")
def plain(c: Case, name: str) -> None:
    state = plain_state()
    if name == "overwritten":
        dcp.save({"type": values(1, "F32", 500), "gone": values(2, "F32", 9)}, checkpoint_id=c.set)
    if name == "aligned":
        try:
            from torch.utils.serialization import config
            config.save.storage_alignment = 4096
        except (ImportError, AttributeError) as error:
            raise CannotSave(f"no storage_alignment: {error}") from error
    if name == "without_crc":
        torch.serialization.set_crc32_options(False)
    if name == "large_head":  # of a pickle in more than one frame
        state = {"x" * 200 + f".{n:04}": values(n, "F32", 1 + n % 3) for n in range(600)}
    options: dict[str, dict[str, Any]] = {
        "file_per_item": {"single_file_per_rank": False}, "threads": {"thread_count": 3},
        "unsynced": {"sync_files": False}, "overwritten": {"overwrite": True}}
    c.save(state, **options.get(name, {}))


@case(1, "unrepresentable")
def unrepresentable(c: Case, _name: str) -> None:
    """Types that only PyTorch knows; the rest must be there all the same."""
    odd = {"complex64": torch.ones(2, 2, dtype=torch.complex64),
           "complex128": torch.ones(2, dtype=torch.complex128),
           "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
           "quantized": torch.quantize_per_tensor(torch.ones(4), 0.1, 3, torch.quint8)}
    for kind in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"):
        if hasattr(torch, kind):
            odd[kind] = torch.zeros(4, dtype=torch.uint8).view(getattr(torch, kind))
    c.save({"odd": odd, "good": values(1, "F32", 3)}, refused=tuple(f"odd.{name}" for name in odd))


@case(1)
def asynchronous(c: Case) -> None:
    dist.init_process_group("cpu:gloo", store=dist.HashStore(), rank=0, world_size=1)
    state = plain_state()
    done = dcp.async_save(state, checkpoint_id=c.set)
    getattr(done, "upload_completion", done).result()
    dist.destroy_process_group()
    c.expect(state)


@case(1, "transformed", "as_safetensors")
def refused(c: Case, name: str) -> None:
    """What cannot be read in place, and what PyTorch itself cannot read."""
    options: dict[str, Any] = {}
    if name == "transformed":
        try:
            from torch.distributed.checkpoint._extension import StreamTransformExtension
        except ImportError as error:
            raise CannotSave(str(error)) from error

        class Flipped(StreamTransformExtension):
            @staticmethod
            def from_descriptor(version: str) -> Flipped:
                return Flipped()

            @staticmethod
            def registry_name() -> str:
                return "stream.flipped"

            def get_descriptor(self) -> str:
                return "stream.flipped/1"

            def transform_to(self, output: Any) -> Any:
                class Writer(io.RawIOBase):
                    def writable(self) -> bool:
                        return True

                    def write(self, data: Any) -> int:
                        output.write(bytes(b ^ 255 for b in bytes(data)))
                        return len(data)

                    def flush(self) -> None:
                        output.flush()
                return Writer()

            def transform_from(self, source: Any) -> Any:
                raise NotImplementedError

        options["_extensions"] = [Flipped()]
    else:
        try:
            from torch.distributed.checkpoint.filesystem import SerializationFormat
        except ImportError as error:
            raise CannotSave(str(error)) from error
        options["serialization_format"] = SerializationFormat.SAFETENSORS
    state = {"model": {"w": values(1, "F32", 8, 2), "v": values(2, "F32", 4)}, "step": 3}
    c.save(state, refused=("model.w", "model.v"), **options)


@case(2, "replicas", "replicas_lowest")
@case(3, "replicas", "replicas_lowest")
def replicas(c: Case, name: str) -> None:
    """Every rank has everything, and one of them saves it."""
    state = plain_state()
    planner = dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=name == "replicas_lowest")
    dcp.save(state, checkpoint_id=c.set, planner=planner)
    c.expect(state)


@case(2)
@case(3)
def dtensor(c: Case) -> None:
    mesh = init_device_mesh("cpu", (c.world,))
    state: State = {f"{kind}.{dim}": cut(values(n, kind, 7, 5), mesh, Shard(dim))
                    for n, kind in enumerate(KINDS) for dim in (0, 1)}
    other = cut(values(22, "F32", 6, 8), mesh, Shard(0))
    transposed = other.t()
    transposed.full = other.full.t()
    state |= {"one_row": cut(values(20, "F32", 1, 4), mesh, Shard(0)),
              "whole": cut(values(21, "F32", 3, 4), mesh, Replicate()), "transposed": transposed,
              "distributed": distribute_tensor(values(26, "F32", 5, 4), mesh, (Shard(1),)),
              "last": cut(values(23, "F64", 2, 3, 7), mesh, Shard(2)),
              "vector": cut(values(24, "F32", c.world * 3 + 1), mesh, Shard(0)),
              "plain": values(25, "F32", 4), "saved_by": "all"}
    dcp.save(state, checkpoint_id=c.set)
    c.expect(state)


@case(4)
def dtensor_mesh(c: Case) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    placements = {"grid": (Shard(0), Shard(1)), "swapped": (Shard(1), Shard(0)),
                  "rows": (Shard(0), Replicate()), "columns": (Replicate(), Shard(1)),
                  "whole": (Replicate(), Replicate())}
    state: State = {name: {"even": cut(values(1, "F32", 8, 4), mesh, *placed),
                           "uneven": cut(values(2, "F32", 7, 5), mesh, *placed),
                           "few": cut(values(3, "F32", 3, 1), mesh, *placed)}
                    for name, placed in placements.items()}
    state["twice"] = {"even": cut(values(4, "F32", 8, 3), mesh, Shard(0), Shard(0)),
                      "uneven": cut(values(5, "F32", 7, 3), mesh, Shard(0), Shard(0)),
                      "few": cut(values(6, "F32", 5, 3), mesh, Shard(0), Shard(0))}
    c.save(state)


@case(4)
def golden_mesh(c: Case) -> None:
    """A small one, with what FSDP over tensor parallelism saves: rows cut twice, and objects."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    state: State = {"model": {"wq": cut(values(1, "F8_E4M3", 4, 7), mesh, Replicate(), Shard(1)),
                              "wo": cut(values(2, "BF16", 5, 3), mesh, Shard(0), Shard(0))},
                    "optim": {"state": {"wo": {"exp_avg": cut(values(3, "F32", 5, 3).t(), mesh,
                                                              Replicate(), Shard(1)),
                                               "step": torch.tensor(3.0)}},
                              "param_groups": [{"lr": 0.1}]}, "step": 3}
    c.save(state)


@case(2)
def partial(c: Case) -> None:
    """Later releases refuse to save these; the first ones save what one rank has."""
    mesh = init_device_mesh("cpu", (c.world,))
    tensor = DTensor.from_local(torch.ones(4), mesh, (Partial(),), run_check=False)
    tensor.full = torch.ones(4)
    try:
        dcp.save({"w": tensor}, checkpoint_id=c.set)
    except dcp.CheckpointException as error:
        raise CannotSave("Partial placements are refused") from error
    c.expect({"w": tensor})


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(OrderedDict(
        embed=nn.Embedding(11, 6),
        layers=nn.ModuleList([nn.Sequential(OrderedDict(first=nn.Linear(6, 12), last=nn.Linear(12, 6)))
                              for _ in range(2)]),
        norm=nn.BatchNorm1d(6), head=nn.Linear(6, 12, bias=False)))


def trained(model: nn.Module) -> torch.optim.Optimizer:
    """One step was made, of any gradients: those of gloo need no other process."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
    for parameter in model.parameters():
        parameter.grad = torch.rand_like(parameter)
    optimizer.step()
    return optimizer


@case(2, "fsdp2", "fsdp2_flattened")
@case(3, "fsdp2", "fsdp2_flattened")
@case(4, "fsdp2_hybrid", "fsdp2_tensor_parallel")
def fsdp2(c: Case, name: str) -> None:
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise CannotSave(f"no fully_shard: {error}") from error
    made = model()
    if name == "fsdp2_hybrid":
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    elif name == "fsdp2_tensor_parallel":
        from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                       parallelize_module)
        both = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        plan: Any = {"head": ColwiseParallel()}
        for n in range(2):
            plan |= {f"layers.{n}.first": ColwiseParallel(), f"layers.{n}.last": RowwiseParallel()}
        parallelize_module(made, both["tp"], plan)
        mesh = both["dp"]
    else:
        mesh = init_device_mesh("cpu", (c.world,))
    for layer in made.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(made, mesh=mesh)
    optimizer = trained(made)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    options = StateDictOptions(flatten_optimizer_state_dict=name.endswith("flattened"))
    weights, states = get_state_dict(made, optimizer, options=options)
    scheduler_state = scheduler.state_dict() | {"lr_lambdas": [None]}
    c.save({"model": weights, "optim": states, "lr_scheduler": scheduler_state, "step": 3})


@case(2)
@case(3)
def sharded_tensor(c: Case) -> None:
    """Boxes that are no grid, two of each rank."""
    from torch.distributed._shard.sharded_tensor import Shard as Piece
    from torch.distributed._shard.sharded_tensor import ShardedTensor, ShardMetadata, init_from_local_shards

    def pieces(full: torch.Tensor) -> ShardedTensor:
        rows = full.shape[0] // c.world
        end = full.shape[0] if c.rank == c.world - 1 else (c.rank + 1) * rows
        middle = 1 + c.rank
        boxes = [(c.rank * rows, 0, end, middle), (c.rank * rows, middle, end, full.shape[1])]
        return init_from_local_shards(
            [Piece(full[a:e, b:f].clone(), ShardMetadata([a, b], [e - a, f - b], f"rank:{c.rank}/cpu"))
             for a, b, e, f in boxes], *full.shape)

    full = {"model": {"w": values(1, "F32", 10, 6), "v": values(2, "I16", 7, 8)}, "step": 2}
    dcp.save({"model": {name: pieces(tensor) for name, tensor in full["model"].items()}, "step": 2},
             checkpoint_id=c.set)
    c.expect(full)


@case(2)
@case(3)
def rank_tables(c: Case) -> None:
    """Each rank writes a table of its own."""
    mesh = init_device_mesh("cpu", (c.world,))
    state = {"model": {"w": cut(values(1, "F32", 7, 5), mesh, Shard(0)),
                       "v": cut(values(2, "F32", 4, 9), mesh, Shard(1))},
             "same": values(3, "F32", 4), "step": 3}
    try:
        dcp.save(state, checkpoint_id=c.set, use_collectives=False)
    except TypeError as error:
        raise CannotSave(f"no use_collectives: {error}") from error
    c.expect(state)


@case(1, "hf_whole", "hf_files", "hf_with_objects")
@case(2, "hf_shards", "hf_shard_files", "hf_consolidated", "hf_consolidated_files")
@case(3, "hf_shards", "hf_shard_files", "hf_consolidated", "hf_consolidated_files")
def hugging_face(c: Case, name: str) -> None:
    try:
        from torch.distributed.checkpoint import HuggingFaceStorageWriter
    except ImportError as error:
        raise CannotSave(f"no HuggingFaceStorageWriter: {error}") from error
    options: dict[str, Any] = {}
    files: dict[str, int] | None = None
    if name.endswith("files"):
        files = {"model.w": 1, "model.v": 2, "s": 2, "few": 3, "bf": 1}
    state: State = {"model.w": values(1, "F32", 7, 5), "model.v": values(2, "F16", 4, 9),
                    "s": values(3, "F32"), "few": values(4, "F32", 2, 3), "bf": values(5, "BF16", 8)}
    if name == "hf_with_objects":
        state["step"] = 4
    if name == "hf_whole":
        state |= {f"type.{kind}": values(n, kind, 4, 3) for n, kind in enumerate(KINDS)}
        state["transposed"] = values(9, "F32", 4, 6).t().contiguous()
    if "consolidated" in name:
        del state["s"]  # PyTorch 2.14 writes zeros for it
    if files is not None:
        options["fqn_to_index_mapping"] = {key: files[key] for key in state}
    if c.world > 1:
        mesh = init_device_mesh("cpu", (c.world,))
        state |= {key: cut(state[key], mesh, Shard(dim))
                  for key, dim in (("model.w", 0), ("model.v", 1), ("few", 0), ("bf", 0))}
        options |= {"save_distributed": True, "enable_consolidation": "consolidated" in name}
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(str(c.set), **options))
    c.expect(state)


def make(name: str, directory: Path) -> str:
    """In processes of its own. What it says of the case."""
    world, function = CASES[name]
    directory.mkdir(parents=True)

    def work(rank: int) -> None:
        made = Case(directory, rank, world)
        try:
            function(made)
        except CannotSave as error:
            made.told["cannot"] = str(error)
        if rank == 0:
            (directory / "case.json").write_text(json.dumps(made.told))

    on_ranks(world, directory / "meeting", work)
    return json.loads((directory / "case.json").read_text()).get("cannot", "saved")


def main() -> None:
    directory = Path(sys.argv[1])
    failed = 0
    for name in sys.argv[2:] or CASES:
        try:
            print(f"{name}: {make(name, directory / name)}", flush=True)
        except Exception as error:  # noqa: BLE001: all cases are made
            failed += 1
            print(f"{name}: FAILED: {error}", flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
