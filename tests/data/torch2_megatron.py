# SPDX-License-Identifier: Apache-2.0
"""Loads a checkpoint of Megatron-Core with PyTorch 2 as Megatron does, and compares every bit.

torch2_megatron.py JOBS.json: a list of {"name", "directory" (with the tracker), "expected" (safetensors with
Megatron's names), "tp", "pp", "vocabulary" (rows for which the model asks)}. Each job prints a line; any
difference ends in exit code 1.

Megatron itself is not here. What it asks for is written from NVIDIA/Megatron-LM of August 2026
(megatron/core/dist_checkpointing, transformer_block.py, mlp.py, moe/experts.py): each rank asks for its layers
one by one, for its rows or columns of each, for gate and up apart, and for the extra states of its modules;
nothing may be missing.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch2_common import differing, read_tensors, torch

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, MetadataIndex
from torch.distributed.checkpoint.planner import LoadPlan

Job = dict[str, Any]
Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets and sizes
EMBEDDINGS = ("embedding.word_embeddings.weight", "output_layer.weight")
# Dimensions, from the last, that tensor parallelism cuts.
ROWS = ("linear_qkv.weight", "linear_fc1.weight", "linear_q_proj.weight", "linear_q_up_proj.weight",
        "linear_kv_up_proj.weight")
COLUMNS = ("linear_proj.weight", "linear_fc2.weight")


class Asked(torch.Tensor):
    """A tensor of which a rank wants some boxes, as DCP asks for them."""

    boxes: dict[tuple[int, ...], torch.Tensor]

    @staticmethod
    def __new__(cls, shape: tuple[int, ...], dtype: torch.dtype, boxes: list[Box]) -> Asked:
        asked = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device="cpu")
        asked.boxes = {offsets: torch.zeros(sizes, dtype=dtype) for offsets, sizes in boxes}
        return asked

    def __create_write_items__(self, *_: Any) -> list[Any]:
        raise NotImplementedError

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(torch.Size(offsets), tensor.size())
                for offsets, tensor in self.boxes.items()]

    def __get_tensor_shard__(self, index: MetadataIndex) -> torch.Tensor:
        return self.boxes[tuple(index.offset)]

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{func} of what is only asked for")


class Planner(dcp.DefaultLoadPlanner):
    """Megatron's: shapes must be equal, but for the vocabulary's, of which the common rows are loaded."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    @contextmanager
    def other_sizes(self) -> Iterator[None]:
        tables = self.metadata.state_dict_metadata
        kept = {name: tables[name].size for name in EMBEDDINGS if name in self.state_dict}
        for name in kept:
            tables[name].size = self.state_dict[name].size()
        yield
        for name, size in kept.items():
            tables[name].size = size

    def create_local_plan(self) -> LoadPlan:
        for name, value in self.state_dict.items():
            if not isinstance(value, Asked):
                continue
            size = self.metadata.state_dict_metadata[name].size
            if name not in EMBEDDINGS and size != value.size():
                raise AssertionError(f"{name}: {size} and not {value.size()}")
        with self.other_sizes():
            return super().create_local_plan()


def is_stacked(name: str) -> bool:
    return name.startswith("decoder.layers.") and not name.split(".")[2].isdigit()


def span(length: int, part: int, parts: int) -> tuple[int, int]:
    assert length % parts == 0, (length, parts)
    return part * (length // parts), length // parts


def boxes_of(name: str, shape: tuple[int, ...], job: Job, stage: int, rank: int) -> list[Box]:
    """Those that one rank of a stage asks for."""
    fronts: list[tuple[int, ...]] = [()]
    rest = shape
    if is_stacked(name):
        first, count = span(shape[0], stage, job["pp"])
        fronts = [(layer,) for layer in range(first, first + count)]
        rest = rest[1:]
    elif name.startswith("decoder.layers."):
        number = int(name.split(".")[2])
        layers = job["layers"]
        if not span(layers, stage, job["pp"])[0] <= number < sum(span(layers, stage, job["pp"])):
            return []
    if ".experts.experts." in name:
        fronts = [(*front, expert) for front in fronts for expert in range(rest[0])]
        rest = rest[1:]
    parts: list[tuple[int, tuple[int, int]]] = []  # dimension of the rest, and span
    if name.endswith("linear_fc1.weight"):  # gate and up
        half = rest[0] // 2
        first, count = span(half, rank, job["tp"])
        parts = [(0, (first, count)), (0, (half + first, count))]
    elif name.endswith(ROWS) or name in EMBEDDINGS:
        parts = [(0, span(rest[0], rank, job["tp"]))]
    elif name.endswith(COLUMNS):
        parts = [(1, span(rest[1], rank, job["tp"]))]
    boxes = []
    for front in fronts:
        for dim, (first, count) in parts or [(0, (0, rest[0]))]:
            offsets, sizes = [0] * len(rest), list(rest)
            offsets[dim], sizes[dim] = first, count
            boxes.append(((*front, *offsets), (1,) * len(front) + tuple(sizes)))
    return boxes


def extra_states(want: dict[str, torch.Tensor], boxes: dict[str, list[Box]]) -> set[str]:
    """Those of Transformer Engine's modules, by the layers and experts of the boxes."""
    keys = set()
    for name, asked in boxes.items():
        if name.split(".")[0] not in ("decoder", "mtp") or ".router." in name:
            continue
        axes = is_stacked(name) + (".experts.experts." in name)
        of = ".".join(map(str, want[name].shape[:axes])) or "1"
        modules = [name.rpartition(".")[0]]
        if ".self_attention." in name:
            modules.append(name.split(".self_attention.")[0] + ".self_attention.core_attention")
        for offsets, _ in asked:
            at = ".".join(map(str, offsets[:axes])) or "0"
            keys |= {f"{module}._extra_state/shard_{at}_{of}" for module in modules}
    return keys


def load(job: Job) -> list[str]:
    root = Path(job["directory"])
    tracked = (root / "latest_checkpointed_iteration.txt").read_text().strip()
    directory = root / tracked
    backends = json.loads((directory / "metadata.json").read_text())
    # A class of Megatron's takes these, and older releases no others.
    assert set(backends) <= {"sharded_backend", "sharded_backend_version", "common_backend",
                             "common_backend_version"}, backends
    assert (tracked, backends["sharded_backend"]) == ("release", "torch_dist")
    common = torch.load(directory / "common.pt", map_location="cpu", weights_only=True)
    assert (common["checkpoint_version"], common["iteration"]) == (3.0, 0), common
    want = read_tensors(Path(job["expected"]))
    numbered = any(name.startswith("decoder.layers.") and not is_stacked(name) for name in want)
    assert common["content_metadata"]["non_homogeneous_layers"] is numbered, common
    numbers = {int(name.split(".")[2]) for name in want
               if name.startswith("decoder.layers.") and not is_stacked(name)}
    job["layers"] = len(numbers)
    rows = job.get("vocabulary")
    for name in EMBEDDINGS:
        if rows and name in want:  # zeros where the checkpoint has none
            padded = torch.zeros((rows, *want[name].shape[1:]), dtype=want[name].dtype)
            common_rows = min(rows, want[name].shape[0])
            padded[:common_rows] = want[name][:common_rows]
            want[name] = padded
    got = {name: torch.zeros_like(tensor) for name, tensor in want.items()}
    asked_objects: set[str] = set()
    for stage in range(job["pp"]):
        for rank in range(job["tp"]):
            boxes = {name: found for name, tensor in want.items()
                     if (found := boxes_of(name, tuple(tensor.shape), job, stage, rank))}
            objects = extra_states(want, boxes)
            state: dict[str, Any] = {name: Asked(tuple(want[name].shape), want[name].dtype, found)
                                     for name, found in boxes.items()}
            state |= {name: io.BytesIO() for name in objects}
            dcp.load(state, storage_reader=dcp.FileSystemReader(directory), planner=Planner())
            for name in boxes:
                for offsets, tensor in state[name].boxes.items():
                    place = tuple(slice(at, at + size)
                                  for at, size in zip(offsets, tensor.shape, strict=True))
                    got[name][place] = tensor
            odd = [name for name in objects if state[name] != [None]]
            if odd:
                return [f"{odd[0]} is {state[odd[0]]!r}"]
            asked_objects |= objects
    table = dcp.FileSystemReader(directory).read_metadata().state_dict_metadata
    named = set(table)
    # What it does first with --dist-ckpt-strictness log_unexpected and others.
    for name, known in table.items():
        if isinstance(known, BytesStorageMetadata):
            assert re.fullmatch(r"[^/]+/shard_\d+(\.\d+)*_\d+(\.\d+)*", name), name
        else:
            words = {key: value for key, value in known.properties.__dict__.items() if key != "strides"}  # new in 2.15
            like = torch.empty(known.size, **words, device="meta")
            assert (like.dtype, like.shape) == (want[name].dtype, known.size), name
    return ([f"{name}: only in one of both" for name in named ^ (want.keys() | asked_objects)]
            + differing(got, want) + refuses_what_is_missing(directory))


def refuses_what_is_missing(directory: Path) -> list[str]:
    """So that the above would notice it."""
    state: dict[str, Any] = {"decoder.layers.odd._extra_state/shard_0_1": io.BytesIO()}
    try:
        dcp.load(state, storage_reader=dcp.FileSystemReader(directory), planner=Planner())
    except (RuntimeError, dcp.api.CheckpointException):
        return []
    return ["a missing extra state is not noticed"]


def main() -> None:
    jobs = json.loads(Path(sys.argv[1]).read_text())
    failed = 0
    for job in jobs:
        problems = load(job)
        failed += bool(problems)
        if problems:
            print(f"{job['name']}: FAILED: {'; '.join(problems[:5])}", flush=True)
    print(f"{len(jobs) - failed} of {len(jobs)} loads are right", flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
