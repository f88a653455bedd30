# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints of hyper-parallel as its program of 2026 does: safetensors files of ranks, and tables that place
boxes in them. Written from the description of the format, without the product's code: classes
hyper_parallel.core.distributed_checkpoint.{metadata,storage}, pickled by Python itself."""

from __future__ import annotations

import dataclasses
import pickle
import random
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = "hyper_parallel.core.distributed_checkpoint"
# Of safetensors, the array's type, PyTorch's text and MindSpore's.
TYPES = [("F32", "<f4", "torch.float32", "Float32"), ("F16", "<f2", "torch.float16", "Float16"),
         ("I64", "<i8", "torch.int64", "Int64"), ("U8", "|u1", "torch.uint8", "UInt8"),
         ("BF16", "<u2", "torch.bfloat16", "BFloat16")]


def _class(module: str, name: str, *fields: str) -> type:
    made = dataclasses.make_dataclass(name, [(field, Any, dataclasses.field(default=None)) for field in fields])
    made.__module__ = f"{PACKAGE}.{module}"
    setattr(sys.modules.setdefault(made.__module__, types.ModuleType(made.__module__)), name, made)
    return made


for _depth in range(1, 4):
    _name = ".".join(PACKAGE.split(".")[:_depth])
    sys.modules.setdefault(_name, types.ModuleType(_name))
Metadata = _class("metadata", "Metadata", "state_dict_metadata", "planner_data", "storage_data", "version")
TensorStorage = _class("metadata", "TensorStorageMetadata", "properties", "size", "chunks")
Properties = _class("metadata", "TensorProperties", "dtype", "requires_grad", "memory_format")
Chunk = _class("metadata", "ChunkStorageMetadata", "offsets", "sizes")
Index = _class("metadata", "MetadataIndex", "fqn", "offset", "index")
Bytes = _class("metadata", "BytesStorageMetadata")
Info = _class("storage", "StorageInfo", "relative_path", "offset", "length", "tensor_key")
Index.__hash__ = lambda self: hash((self.fqn, self.offset, self.index))  # type: ignore[method-assign,assignment]



class Size(tuple):
    """torch.Size, as PyTorch pickles it."""

    def __reduce__(self) -> tuple[type, tuple[tuple[int, ...]]]:
        return Size, (tuple(self),)


Size.__module__ = "torch"
sys.modules.setdefault("torch", types.ModuleType("torch")).Size = Size  # type: ignore[attr-defined]
Box = tuple[tuple[int, ...], tuple[int, ...]]


@dataclasses.dataclass
class Tensor:
    name: str
    kind: int                                     # in TYPES
    whole: np.ndarray
    boxes: list[tuple[int, Box]] = dataclasses.field(default_factory=list)  # each with its rank


@dataclasses.dataclass
class Place:
    """Where a box was written."""
    file: str
    key: str
    box: Box


@dataclasses.dataclass
class Set:
    tensors: list[Tensor]
    ranks: int
    has_tables_of_ranks: bool
    keeps_copies: bool                            # each copy has a place of its own
    chooser: random.Random
    files: dict[str, dict[str, tuple[str, np.ndarray]]] = dataclasses.field(default_factory=dict)
    places: dict[str, list[tuple[int, Place]]] = dataclasses.field(default_factory=dict)
    objects: dict[str, bytes] = dataclasses.field(default_factory=dict)


def grid_boxes(shape: tuple[int, ...], chooser: random.Random) -> list[Box]:
    """Each dimension cut by itself, balanced or in pieces of equal length, of which the last may be short or empty."""
    boxes: list[Box] = [((), ())]
    for size in shape:
        parts = chooser.choice([1, 1, 2, 3])
        if chooser.random() < 0.5:
            lengths = [size // parts + (part < size % parts) for part in range(parts)]
        else:
            step = -(-size // parts)
            lengths = [min(step, max(0, size - part * step)) for part in range(parts)]
        begins = [sum(lengths[:part]) for part in range(parts)]
        boxes = [(offsets + (begin,), sizes + (length,)) for offsets, sizes in boxes
                 for begin, length in zip(begins, lengths)]
    return boxes


def interval_boxes(shape: tuple[int, ...], begin: int, end: int) -> list[Box]:
    """An interval of the flat tensor: a part of a row, whole rows, a part of a row, and so on in each row."""
    if begin >= end:
        return []
    if len(shape) == 1:
        return [((begin,), (end - begin,))]
    row = int(np.prod(shape[1:]))
    first, last = -(-begin // row), end // row
    inside = shape[1:]

    def of_row(number: int, low: int, high: int) -> list[Box]:
        return [((number, *offsets), (1, *sizes)) for offsets, sizes in interval_boxes(inside, low, high)]

    if begin // row == (end - 1) // row and (begin % row or end % row):
        return of_row(begin // row, begin % row, (end - 1) % row + 1)
    boxes = of_row(begin // row, begin % row, row) if begin % row else []
    if last > first:
        boxes.append(((first, *[0] * len(inside)), (last - first, *inside)))
    return boxes + (of_row(last, 0, end % row) if end % row else [])


def random_tensor(name: str, ranks: int, chooser: random.Random) -> Tensor:
    shape = tuple(chooser.choice([0, 1, 2, 3, 4, 5, 7]) if chooser.random() < 0.15 else chooser.randint(1, 6)
                  for _ in range(chooser.randint(0, 4)))
    kind = chooser.randrange(len(TYPES))
    count = int(np.prod(shape))
    values = np.frombuffer(chooser.randbytes(8 * max(count, 1)), TYPES[kind][1])[:count]
    tensor = Tensor(name, kind, values.reshape(shape))
    if shape and count and chooser.random() < 0.3:
        cuts = sorted(chooser.randint(0, count) for _ in range(ranks - 1))
        parts = [interval_boxes(shape, begin, end) for begin, end in zip([0, *cuts], [*cuts, count])]
        tensor.boxes = [(rank, box) for rank, boxes in enumerate(parts) for box in boxes]
        return tensor
    boxes = grid_boxes(shape, chooser)
    for box in boxes:
        owners = chooser.sample(range(ranks), chooser.randint(1, ranks) if chooser.random() < 0.4 else 1)
        tensor.boxes += [(rank, box) for rank in sorted(owners)]
    return tensor


def part(array: np.ndarray, box: Box) -> np.ndarray:
    return array[tuple(slice(offset, offset + size) for offset, size in zip(*box))]


def random_set(seed: int) -> Set:
    chooser = random.Random(seed)
    ranks = chooser.randint(1, 4)
    names = [f"model.layers.{number}.{chooser.choice(['w', 'wq.weight', 'ü'])}" for number in range(chooser.randint(1, 5))]
    # A name that looks like a key.
    if chooser.random() < 0.2:
        names.append(names[0] + ".__dcp_chunk_0")
    made = Set([random_tensor(name, ranks, chooser) for name in names], ranks, chooser.random() < 0.3,
               chooser.random() < 0.5, chooser)
    for tensor in made.tensors:
        place_boxes(made, tensor)
    for number in range(chooser.randint(0, 2)):
        made.objects[f"state.{number}"] = pickle.dumps({"lr": number})
    return made


def place_boxes(made: Set, tensor: Tensor) -> None:
    """The first copy is stored; with keeps_copies, and where ranks do not speak to each other, all are."""
    stored: dict[Box, Place] = {}
    counts: dict[str, int] = {}
    of_rank: dict[int, int] = {}
    for rank, _ in tensor.boxes:
        of_rank[rank] = of_rank.get(rank, 0) + 1
    made.places[tensor.name] = []
    for rank, box in tensor.boxes:
        keeps = made.keeps_copies or made.has_tables_of_ranks
        if box in stored and not keeps:
            made.places[tensor.name].append((rank, stored[box]))
            continue
        file = f"_rank{rank}_.safetensors"
        content = made.files.setdefault(file, {})
        key = tensor.name
        if of_rank[rank] > 1 or made.chooser.random() < 0.1:
            key = f"{tensor.name}.__dcp_chunk_{counts.get(file, 0)}"
            counts[file] = counts.get(file, 0) + 1
            while key in content or any(key == other.name for other in made.tensors):
                key += "_"
        content[key] = (TYPES[tensor.kind][0], np.array(part(tensor.whole, box), order="C"))
        stored[box] = Place(file, key, box)
        made.places[tensor.name].append((rank, stored[box]))


def sized(made: Set, numbers: tuple[int, ...]) -> object:
    return Size(numbers) if made.chooser.random() < 0.3 else numbers


def table_of(made: Set, rank: int | None) -> bytes:
    """Of all ranks, or of one."""
    chooser = made.chooser
    tensors: dict[str, object] = {}
    storage: dict[object, object] = {}
    for tensor in made.tensors:
        listed = [place for owner, place in made.places[tensor.name] if rank is None or owner == rank]
        if not listed:
            continue
        text = TYPES[tensor.kind][2 + chooser.randrange(2)]
        tensors[tensor.name] = TensorStorage(Properties(text, False, None), sized(made, tensor.whole.shape),
                                             [Chunk(*(sized(made, numbers) for numbers in place.box))
                                              for place in listed])
        for number, place in enumerate(listed):
            key = place.key if place.key != tensor.name or chooser.random() < 0.5 else None
            # Of a tensor, offset and length say nothing.
            info = Info(place.file, *chooser.choice([(0, -1), (7, 5)]), key)
            same = [known for known in storage if (known.fqn, known.offset) == (tensor.name, place.box[0])]
            if same and not made.keeps_copies:
                storage[same[0]] = info
            else:
                storage[Index(tensor.name, place.box[0], number)] = info
    at = 0
    for name, data in made.objects.items():
        tensors[name] = Bytes()
        storage[Index(name, (), None)] = Info(f"_rank{rank or 0}_.bytes", at, len(data), None)
        at += len(data)
    planner = {name: tuple(name.split(".")) for name in tensors} if chooser.random() < 0.5 else None
    return pickle.dumps(Metadata(tensors, planner, storage, chooser.choice(["1.0", "2.0", None])),
                        protocol=chooser.choice([2, 4, 5]))


def write_set(directory: Path, made: Set) -> None:
    from format_files import write_safetensors
    directory.mkdir(parents=True)
    for file, content in made.files.items():
        write_safetensors(directory / file, content)
    for rank in range(made.ranks) if made.has_tables_of_ranks else [0]:
        if made.objects:
            (directory / f"_rank{rank}_.bytes").write_bytes(b"".join(made.objects.values()))
    if made.has_tables_of_ranks:
        for rank in range(made.ranks):
            (directory / f"{rank}.metadata").write_bytes(table_of(made, rank))
    else:
        (directory / ".metadata").write_bytes(table_of(made, None))
