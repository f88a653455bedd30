# SPDX-License-Identifier: Apache-2.0
"""Resumes a run from a directory of HyperParallel's Trainer, as the Trainer's own loader does: which step it takes,
which names it asks for, how it finds a box in the files, and what it refuses. Written from the description of the
format, without the product's code; its classes are plain dataclasses, and its unpickler makes nothing else."""

from __future__ import annotations

import dataclasses
import io
import json
import mmap
import pickle
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = "hyper_parallel.core.distributed_checkpoint."
TRACKER = "latest_checkpoint_iteration.txt"
NUMPY = {"BOOL": "?", "I8": "i1", "U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8",
         "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
# What the Trainer never misses.
SKIPPED = ("step", "matched_adamw_rms")
MAIN = "optimizer._mixed_precision_optimizer.fp32_from_fp16_params."


class LoadError(Exception):
    """What the program's loader fails with."""


@dataclasses.dataclass
class Metadata:
    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None
    version: Any = None


@dataclasses.dataclass
class TensorProperties:
    dtype: Any
    requires_grad: bool = False
    memory_format: Any = None


@dataclasses.dataclass
class TensorStorageMetadata:
    properties: TensorProperties
    size: tuple[int, ...]
    chunks: list[Any]


@dataclasses.dataclass
class ChunkStorageMetadata:
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclasses.dataclass
class BytesStorageMetadata:
    pass


@dataclasses.dataclass(frozen=True)
class MetadataIndex:
    fqn: str
    offset: tuple[int, ...] | None = None
    index: int | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class IndexOfBranch:
    """As the branch "2.0" has it: the index tells two keys apart."""
    fqn: str
    offset: tuple[int, ...] | None = None
    index: int | None = None


@dataclasses.dataclass
class StorageInfo:
    relative_path: str
    offset: int
    length: int
    tensor_key: str | None = None


class Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, index: type, has_torch: bool) -> None:
        super().__init__(io.BytesIO(data))
        self.index = index
        self.has_torch = has_torch

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch", "Size") and self.has_torch:
            return tuple
        places = {"metadata": (Metadata, TensorProperties, TensorStorageMetadata, ChunkStorageMetadata,
                               BytesStorageMetadata), "storage": (StorageInfo,)}
        for part, classes in places.items():
            for one in classes:
                if (module, name) == (PACKAGE + part, one.__name__):
                    return one
        if (module, name) == (PACKAGE + "metadata", "MetadataIndex"):
            return self.index
        raise LoadError(f"the pickle asks for {module}.{name}")


class PlainUnpickler(pickle.Unpickler):
    """Of byte items: objects of plain types."""

    def find_class(self, module: str, name: str) -> Any:
        raise LoadError(f"a byte item asks for {module}.{name}")


class File:
    """A safetensors file, opened as the library does, which reads the slices that are asked for."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        length = int.from_bytes(self.data[:8], "little")
        header = json.loads(self.data[8:8 + length])
        self.metadata = header.pop("__metadata__", {})
        self.tensors: dict[str, Any] = header
        self.begin = 8 + length
        at = 0
        for entry in sorted(header.values(), key=lambda one: one["data_offsets"]):
            if entry["data_offsets"][0] != at:
                raise LoadError(f"{path} has a hole")
            at = entry["data_offsets"][1]
        if self.begin + at != len(self.data):
            raise LoadError(f"{path} does not end with its tensors")

    def get(self, key: str) -> tuple[str, np.ndarray]:
        if key not in self.tensors:
            raise LoadError(f"File does not contain tensor {key}")
        entry = self.tensors[key]
        kind = entry["dtype"]
        numpy = NUMPY.get(kind, "<u2" if kind == "BF16" else "u1")
        count = int(np.prod(entry["shape"], dtype=np.int64))
        array = np.frombuffer(self.data, numpy, count, self.begin + entry["data_offsets"][0])
        if array.nbytes != entry["data_offsets"][1] - entry["data_offsets"][0]:
            raise LoadError(f"{key} has another number of bytes than its shape")
        return kind, array.reshape(entry["shape"])


def as_type(kind: str, array: np.ndarray, numpy: np.dtype) -> np.ndarray:
    """Types are cast to the target's. Of 8-bit floats, the bits."""
    if kind == "BF16":
        array = (array.astype("<u4") << 16).view("<f4")
    return array.astype(numpy)


def read_table(step: Path, index: type = MetadataIndex, *, has_torch: bool = True) -> Metadata:
    table = Unpickler((step / ".metadata").read_bytes(), index, has_torch).load()
    if not isinstance(table, Metadata):
        raise LoadError("the table is no Metadata")
    return table


def is_complete(step: Path) -> bool:
    return any(path.name.endswith(".metadata") for path in step.iterdir())


def latest_step(root: Path) -> Path:
    steps = {}
    for path in root.glob("global_step_*"):
        number = path.name.removeprefix("global_step_")
        if path.is_dir() and number.isdigit() and is_complete(path):
            steps[int(number)] = path
    if (root / TRACKER).exists():
        text = (root / TRACKER).read_text().strip()
        if text.isdigit() and int(text) in steps:
            return steps[int(text)]
    if not steps:
        raise LoadError("no step is complete")
    return steps[max(steps)]


def flattened(state: Any, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    """By path. Lists without tensors or dictionaries are one object."""
    if isinstance(state, dict):
        items: Any = state.items()
    elif isinstance(state, list) and any(isinstance(one, (dict, np.ndarray)) for one in state):
        items = enumerate(state)
    else:
        return {path: state}
    return {key: value for name, one in items for key, value in flattened(one, (*path, name)).items()}


def put(state: Any, path: tuple[str | int, ...], value: Any) -> None:
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = value


class Loader:
    """One rank's."""

    def __init__(self, step: Path, index: type = MetadataIndex, *, whole_files: bool = False) -> None:
        """@param whole_files as on MindSpore, which loads each file as a whole and copies no part of a tensor."""
        self.step = step
        self.index = index
        self.whole_files = whole_files
        self.table = read_table(step, index, has_torch=not whole_files)
        self.files: dict[str, File] = {}

    def place(self, name: str, offset: tuple[int, ...], number: int | None) -> StorageInfo:
        places = self.table.storage_data
        info = places.get(self.index(name, offset, number))
        if info is None:
            raise LoadError(f"no place of {name} at {offset}")
        return info

    def path_of(self, info: StorageInfo) -> Path:
        path = self.step / info.relative_path
        if not path.resolve().is_relative_to(self.step.resolve()):
            raise LoadError(f"{info.relative_path} leads out of the directory")
        return path

    def file(self, info: StorageInfo) -> File:
        name = info.relative_path
        if name.endswith(".bytes") or (self.whole_files and not name.endswith(".safetensors")):
            raise LoadError(f"{name} is no file of tensors")
        if name not in self.files:
            self.files[name] = File(self.path_of(info))
        return self.files[name]

    def tensor(self, name: str, target: np.ndarray, begin: tuple[int, ...], size: tuple[int, ...]) -> np.ndarray:
        """The box of it that the rank holds."""
        entry = self.table.state_dict_metadata[name]
        if not isinstance(entry, TensorStorageMetadata):
            raise LoadError(f"{name} is no tensor")
        # Lists are no sizes.
        if entry.size != size:
            raise LoadError(f"Size mismatch of {name}: {entry.size} and {size}")
        box = np.zeros(target.shape, target.dtype)
        missing = box.size
        for number, chunk in enumerate(entry.chunks):
            if not isinstance(chunk.offsets, tuple) or not isinstance(chunk.sizes, tuple):
                raise LoadError(f"{name}: a chunk has no tuples")
            low = [max(a, c) for a, c in zip(begin, chunk.offsets)]
            high = [min(a + n, c + m) for a, n, c, m in zip(begin, target.shape, chunk.offsets, chunk.sizes)]
            if any(a >= b for a, b in zip(low, high)):
                continue
            if self.whole_files and chunk.sizes != size:
                raise LoadError(f"{name}: InplaceCopy of a part")
            info = self.place(name, chunk.offsets, number)
            kind, stored = self.file(info).get(info.tensor_key or name)
            if stored.shape != chunk.sizes:
                raise LoadError(f"{name}: the file has the shape {stored.shape}, the table {chunk.sizes}")
            source = tuple(slice(a - c, b - c) for a, b, c in zip(low, high, chunk.offsets))
            into = tuple(slice(a - c, b - c) for a, b, c in zip(low, high, begin))
            box[into] = as_type(kind, stored[source], target.dtype)
            missing -= int(np.prod([b - a for a, b in zip(low, high)], dtype=np.int64))
        if missing:
            raise LoadError(f"{name}: {missing} elements are in no chunk")
        return box

    def object(self, name: str) -> Any:
        if not isinstance(self.table.state_dict_metadata[name], BytesStorageMetadata):
            raise LoadError(f"{name} is no object")
        info = self.place(name, (), None)
        if not info.relative_path.endswith(".bytes"):
            raise LoadError(f"{name} is in {info.relative_path}")
        data = self.path_of(info).read_bytes()[info.offset:info.offset + info.length]
        if len(data) != info.length:
            raise LoadError(f"{name} is not whole")
        return PlainUnpickler(io.BytesIO(data)).load()


def uneven_box(shape: tuple[int, ...], rank: int, ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """FSDP's: as long as the first part, and the last ones may be short or empty."""
    if not shape:
        return (), ()
    part = -(-shape[0] // ranks)
    begin = min(rank * part, shape[0])
    return (begin, *[0] * (len(shape) - 1)), (min(part, shape[0] - begin), *shape[1:])


def load(step: Path, state: dict[str, Any], *, rank: int = 0, ranks: int = 1, restore_train_state: bool = True,
         extra_skeleton: dict[str, Any] | None = None, **how: Any) -> dict[str, Any]:
    """Fills `state`, whose arrays say which tensors the run has, by their whole shapes. Returns it with the rank's
    boxes."""
    loader = Loader(step, **how)
    known = loader.table.state_dict_metadata
    wanted = {path: value for path, value in flattened(state).items()}
    names = {path: ".".join(map(str, path)) for path in wanted}
    for path, name in names.items():
        if name not in known and path[0] == "model":
            raise LoadError(f"Missing key in checkpoint state_dict: {name}")
    main = [name for name in names.values() if name.startswith(MAIN)]
    if main and 0 < sum(name in known for name in main) < len(main):
        raise LoadError("some of the main weights are missing")
    for path, target in wanted.items():
        name = names[path]
        if name not in known:
            continue  # what stays is the run's own: zeros, and numbers that are skipped
        if isinstance(target, np.ndarray):
            begin, sizes = uneven_box(target.shape, rank, ranks)
            put(state, path, loader.tensor(name, np.zeros(sizes, target.dtype), begin, target.shape))
        else:
            put(state, path, loader.object(name))
    if restore_train_state:
        extra = dict(extra_skeleton or {"global_step": -1, "epoch": 0})
        found = {name for name in known if name.startswith("extra_state.")}
        if not found and list(step.glob("extra_state/*.pt")):
            return state  # what torch.load reads from there
        if not found:
            raise LoadError("no training state: restore_train_state must be false")
        for key in extra:
            if f"extra_state.{key}" in known:
                extra[key] = loader.object(f"extra_state.{key}")
        if extra.get("global_step") == -1:
            raise LoadError("the training state has no global_step")
        state["extra_state"] = extra
    return state


def resume(root: Path, state: dict[str, Any], **how: Any) -> dict[str, Any]:
    return load(latest_step(root), state, **how)
