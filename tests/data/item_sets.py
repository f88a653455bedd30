# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints as torch_checkpointing 0.1.1 does: a file of each rank for each item, and metadata.pkl, which
states the parts. Written from the description of the format, without the product's code."""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from format_files import write_safetensors
from torch_archive import Call, Global, Storage, Stored, ordered, stored, write_archive

# Of safetensors, the array's type and PyTorch's text.
TYPES = [("F32", "<f4", "torch.float32"), ("F16", "<f2", "torch.float16"), ("I64", "<i8", "torch.int64"),
         ("U8", "|u1", "torch.uint8"), ("BF16", "<u2", "torch.bfloat16"), ("BOOL", "|u1", "torch.bool")]
Key = str | int
Box = tuple[list[int], list[int], list[int]]
"""Offsets in the whole, in what is stored, and sizes."""


@dataclass
class Mesh:
    shape: tuple[int, ...]
    ranks: tuple[int, ...]

    def coordinates(self, rank: int) -> tuple[int, ...]:
        return tuple(int(at) for at in np.unravel_index(self.ranks.index(rank), self.shape))


@dataclass
class Group:
    """How ranks have a tensor: by the placements on a mesh, or as boxes."""
    ranks: tuple[int, ...]
    mesh: Mesh | None = None
    placements: list[tuple[str, int, int]] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)


@dataclass
class Tensor:
    path: list[Key]
    kind: int                       # in TYPES
    whole: np.ndarray
    groups: list[Group]
    plain: bool = False             # the files have no DTensor of it

    @property
    def name(self) -> str:
        return ".".join(str(key) for key in self.path)


@dataclass
class Item:
    name: str
    tensors: list[Tensor]
    form: str = "torch"             # or "safetensors"
    layout: str = ""                # a path with {rank}; empty: none
    stated: bool = True             # in the table


@dataclass
class Set:
    ranks: int
    items: list[Item]
    version: str = "2.0"
    stored: dict[tuple[str, int, str], np.ndarray] = field(default_factory=dict)
    """By item, rank and name."""


def chunks(length: int, parts: int) -> list[tuple[int, int]]:
    """As torch.chunk cuts a range, with empty parts at the end."""
    if length == 0:
        return [(0, 0)] * parts
    size = -(-length // parts)
    found = [(begin, min(begin + size, length)) for begin in range(0, length, size)]
    return found + [(length, length)] * (parts - len(found))


def order_of(group: Group, dim: int) -> list[int]:
    """The mesh dimensions that cut a dimension, in the order in which they do: a strided shard comes behind the
    later ones."""
    assert group.mesh is not None
    order: list[int] = []
    for at in reversed(range(len(group.placements))):
        what, of, factor = group.placements[at]
        if what == "Replicate" or of != dim:
            continue
        if what == "StridedShard" and factor > 1:
            order.append(at)
        else:
            order.insert(0, at)
    return order


def part_of(group: Group, rank: int, shape: tuple[int, ...]) -> tuple[slice, ...]:
    assert group.mesh is not None
    coordinates = group.mesh.coordinates(rank)
    found = []
    for dim, length in enumerate(shape):
        begin, end = 0, length
        for at in order_of(group, dim):
            first, last = chunks(end - begin, group.mesh.shape[at])[coordinates[at]]
            begin, end = begin + first, begin + last
        found.append(slice(begin, end))
    return tuple(found)


# ---------------------------------------------------------------------------------------------------- random sets


def random_mesh(chooser: random.Random, ranks: list[int]) -> Mesh:
    count = len(ranks)
    shapes = [(count,)] + [(a, count // a) for a in range(1, count + 1) if count % a == 0]
    shapes += [(a, b, count // a // b) for a in range(1, count + 1) if count % a == 0
               for b in range(1, count // a + 1) if count // a % b == 0]
    return Mesh(chooser.choice(shapes), tuple(ranks))


def random_placements(chooser: random.Random, mesh: Mesh, dimensions: int) -> list[tuple[str, int, int]]:
    placements = []
    for _ in mesh.shape:
        sharded = dimensions > 0 and chooser.random() < 0.7
        placements.append(("Shard", chooser.randrange(dimensions), 1) if sharded else ("Replicate", 0, 1))
    # The first of those that cut one dimension may come last, as FSDP does on top of tensor parallelism.
    for dim in range(dimensions):
        cutting = [at for at, (what, of, _) in enumerate(placements) if what == "Shard" and of == dim]
        if len(cutting) > 1 and chooser.random() < 0.5:
            factor = int(np.prod([mesh.shape[at] for at in cutting[1:]]))
            placements[cutting[0]] = "StridedShard", dim, factor
    return placements


def random_boxes(chooser: random.Random, shape: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Offsets and sizes of boxes that cover the tensor once."""
    boxes = [([0] * len(shape), list(shape))]
    for _ in range(chooser.randrange(5)):
        at = chooser.randrange(len(boxes))
        offsets, sizes = boxes[at]
        wide = [dim for dim, size in enumerate(sizes) if size > 1]
        if not wide:
            continue
        dim = chooser.choice(wide)
        cut = chooser.randrange(1, sizes[dim])
        left, right = (list(offsets), list(sizes)), (list(offsets), list(sizes))
        left[1][dim] = cut
        right[0][dim] += cut
        right[1][dim] -= cut
        boxes[at:at + 1] = [left, right]
    return boxes


def boxed_groups(chooser: random.Random, made: Set, item: str, tensor: Tensor) -> None:
    """Each box is stored by a rank or more, somewhere in a larger tensor."""
    shape = tensor.whole.shape
    by_rank: dict[int, list[tuple[list[int], list[int]]]] = {}
    for box in random_boxes(chooser, shape):
        for rank in chooser.sample(range(made.ranks), 1 if chooser.random() < 0.7 else min(2, made.ranks)):
            by_rank.setdefault(rank, []).append(box)
    for rank, boxes in by_rank.items():
        room = chooser.randrange(3)
        # Side by side along the first axis, with unused elements between them.
        sizes = [max([0] + [size[dim] for _, size in boxes]) + chooser.randrange(2) for dim in range(len(shape))]
        if shape:
            sizes[0] = sum(size[0] + room for _, size in boxes)
        array = np.random.default_rng(chooser.randrange(1 << 30)).integers(
            0, 2, sizes).astype(TYPES[tensor.kind][1])
        group, row = Group((rank,)), 0
        for offsets, box in boxes:
            local = [row if dim == 0 else array.shape[dim] - box[dim] for dim in range(len(shape))]
            group.boxes.append((offsets, local, box))
            whole = tuple(slice(at, at + size) for at, size in zip(offsets, box))
            inside = tuple(slice(at, at + size) for at, size in zip(local, box))
            array[inside] = tensor.whole[whole]
            row += box[0] + room if shape else 0
        tensor.groups.append(group)
        made.stored[item, rank, tensor.name] = array


def meshed_groups(chooser: random.Random, made: Set, item: str, tensor: Tensor) -> None:
    """One mesh of all ranks, or several that are replicas of each other."""
    ranks = list(range(made.ranks))
    count = chooser.choice([n for n in range(1, made.ranks + 1) if made.ranks % n == 0])
    if chooser.random() < 0.6:
        count = 1
    for first in range(count):
        mesh = random_mesh(chooser, ranks[first::count])
        placements = random_placements(chooser, mesh, tensor.whole.ndim)
        group = Group(mesh.ranks, mesh, placements)
        if tensor.groups:  # of another mesh, and cut in the same way
            group.mesh = Mesh(tensor.groups[0].mesh.shape, mesh.ranks)  # type: ignore[union-attr]
            group.placements = tensor.groups[0].placements
        tensor.groups.append(group)
        for rank in group.ranks:
            part = part_of(group, rank, tensor.whole.shape)
            made.stored[item, rank, tensor.name] = np.array(tensor.whole[part], order="C")


def random_tensor(chooser: random.Random, item: str, number: int, made: Set, form: str) -> Tensor:
    path: list[Key] = [f"layers.{number}.w"] if chooser.random() < 0.6 else ["state", number, f"p{number}"]
    kind = chooser.randrange(len(TYPES))
    shape = tuple(chooser.choice((1, 2, 3, 5, 7, 11)) for _ in range(chooser.randrange(4)))
    if shape and chooser.random() < 0.05:
        shape = (0, *shape[1:])
    rng = np.random.default_rng(chooser.randrange(1 << 30))
    top = 2 if TYPES[kind][0] == "BOOL" else 250
    whole = np.asarray(rng.integers(0, top, shape)).astype(TYPES[kind][1])
    tensor = Tensor(path, kind, whole, [])
    if chooser.random() < 0.25 and 0 not in shape:
        tensor.plain = True
        boxed_groups(chooser, made, item, tensor)
    else:
        meshed_groups(chooser, made, item, tensor)
        replicated = all(what == "Replicate" for group in tensor.groups for what, _, _ in group.placements)
        tensor.plain = form == "safetensors" or replicated and chooser.random() < 0.5
    return tensor


def random_set(seed: int) -> Set:
    chooser = random.Random(seed)
    made = Set(chooser.choice((1, 2, 3, 4, 6, 8)), [], chooser.choice(("2.0", "2.0", "1.0")))
    forms = [("model", "torch", ""), ("optimizer", "torch", "optimizer/rank_{rank}.pt"),
             ("ema", "safetensors", "ema_{rank}.safetensors"), ("head", "safetensors", "head/rank_{rank}.safetensors")]
    for name, form, layout in chooser.sample(forms, chooser.randrange(1, 3)):
        item = Item(name, [], form, layout)
        for number in range(chooser.randrange(1, 24)):
            item.tensors.append(random_tensor(chooser, name, number, made, form))
        made.items.append(item)
    return made


# -------------------------------------------------------------------------------------------------------- writing


def _object(module: str, name: str, state: dict[str, Any]) -> Call:
    return Call(Global(module, name), (), state, new=True)


def _placement(what: str, dim: int, factor: int) -> Call:
    module = "torch.distributed.tensor.placement_types"
    if what == "Replicate":
        return _object(module, "Replicate", {})
    if what == "StridedShard":
        return _object(module, "_StridedShard", {"dim": dim, "split_factor": factor})
    return _object(module, "Shard", {"dim": dim})


def dtensor(local: Any, shape: tuple[int, ...], mesh: Mesh, placements: list[tuple[str, int, int]], rank: int) -> Call:
    """As PyTorch 2.6 pickles a DTensor."""
    ranks = np.array(mesh.ranks, "<i8").reshape(mesh.shape)
    state = {"mesh": stored(ranks, "I64"), "_coordinate_on_dim": list(mesh.coordinates(rank)),
             "_flatten_mesh_list": tuple(mesh.ranks)}
    spec = {"mesh": _object("torch.distributed.device_mesh", "DeviceMesh", state),
            "placements": tuple(_placement(*placement) for placement in placements)}
    attributes = {"_local_tensor": local,
                  "_spec": _object("torch.distributed.tensor._dtensor_spec", "DTensorSpec", spec)}
    kind = Global("torch.distributed.tensor", "DTensor")
    wrapped = (kind, Global("torch", "float32"), tuple(shape), (), False)
    return Call(Global("torch._tensor", "_rebuild_from_type_v2"),
                (Global("torch._tensor", "_rebuild_wrapper_subclass"), kind, wrapped, attributes))


def _nested(entries: list[tuple[list[Key], Any]]) -> Any:
    """Dictionaries of what is at the paths; a number of a path is a key that is one."""
    top: dict[Key, Any] = {}
    for path, value in entries:
        place = top
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    return top


def _packed(group: Group, tensor: Tensor) -> dict[str, Any]:
    data: dict[str, Any] = {"global_shape": list(tensor.whole.shape), "dtype": TYPES[tensor.kind][2]}
    if group.mesh is None:
        for name, at in (("global_offsets", 0), ("local_offsets", 1), ("local_sizes", 2)):
            data[name] = [list(box[at]) for box in group.boxes]
        kind = "default_tensor_v1"
    else:
        data |= {"stride": [1] * tensor.whole.ndim,
                 "mesh_spec": {"device_type": "cpu", "mesh_shape": group.mesh.shape, "mesh_data": group.mesh.ranks,
                               "mesh_dim_names": None},
                 "placements": [{"type": what} if what == "Replicate" else {"type": what, "dim": dim}
                                if what == "Shard" else {"type": what, "dim": dim, "split_factor": factor}
                                for what, dim, factor in group.placements]}
        kind = "DTensorShardingMetadata"
    return {"sharding_metadata": {"type": kind, "data": data}, "ranks": tuple(group.ranks)}


def _layout(item: Item, rank: int) -> dict[str, Any] | None:
    if not item.layout:
        return None
    form = {"torch": "TorchSerialization", "safetensors": "SafetensorsSerialization"}[item.form]
    return {"file_path": item.layout.format(rank=rank), "serialization_format": {"type": form}}


def table_of(made: Set) -> dict[str, Any]:
    items = [item for item in made.items if item.stated]

    def text(path: list[Key]) -> str:
        return json.dumps(path, separators=(",", ":"))

    if made.version == "1.0":
        return {"world_size": made.ranks,
                "metadata": {text([item.name, *tensor.path]): [_packed(group, tensor) for group in tensor.groups]
                             for item in items for tensor in item.tensors},
                "rank_to_layout_info_mappings": {str(rank): {item.name: _layout(item, rank) for item in items}
                                                 for rank in range(made.ranks)}}
    return {"version": made.version, "world_size": made.ranks,
            "metadata": {item.name: {
                "nested_path_to_metadata": {text(tensor.path): [_packed(group, tensor) for group in tensor.groups]
                                            for tensor in item.tensors},
                "rank_to_layout_info": {rank: _layout(item, rank) for rank in range(made.ranks)}} for item in items}}


def file_of(item: Item, rank: int) -> str:
    return item.layout.format(rank=rank) if item.layout else f"{item.name}_{rank}.pt"


def _value(tensor: Tensor, array: np.ndarray, rank: int) -> Any:
    kind = TYPES[tensor.kind][0]
    local = stored(array, kind)
    group = next(group for group in tensor.groups if rank in group.ranks)
    if array.ndim == 2 and array.size and (rank + len(tensor.name)) % 3 == 0:  # transposed in its storage
        data = np.ascontiguousarray(array.T).tobytes()
        local = Stored(Storage(kind, data), array.shape, (1, array.shape[0]))
    if tensor.plain or group.mesh is None:
        return local
    return dtensor(local, tensor.whole.shape, group.mesh, group.placements, rank)


def write_set(directory: Path, made: Set) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for item in made.items:
        for rank in range(made.ranks):
            path = directory / file_of(item, rank)
            path.parent.mkdir(parents=True, exist_ok=True)
            held = [(tensor, made.stored[item.name, rank, tensor.name]) for tensor in item.tensors
                    if (item.name, rank, tensor.name) in made.stored]
            if item.form == "safetensors":
                write_safetensors(path, {tensor.name: (TYPES[tensor.kind][0], array) for tensor, array in held})
                continue
            value = _nested([(tensor.path, _value(tensor, array, rank)) for tensor, array in held])
            write_archive(path, ordered(value | {"step": 3}))
    if any(item.stated for item in made.items):
        (directory / "metadata.pkl").write_bytes(pickle.dumps(table_of(made), protocol=4))

