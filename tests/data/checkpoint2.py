# SPDX-License-Identifier: Apache-2.0
"""Reads Checkpoint 2.0 of MindSpore Transformers in the most obvious way: whole tensors in NumPy.

The reference that tests judge reshardfs by; it shares nothing with the program.
"""

from __future__ import annotations

import ast
import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from layouts import Layout, box, position

Tensors = dict[str, tuple[str, np.ndarray]]  # name to type and elements (of unknown types: bytes)
SIZES = {"BOOL": 1, "I8": 1, "U8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "F32": 4,
         "I64": 8, "F64": 8}


class Refused(Exception):
    """The set contradicts itself, or lacks something."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Refused("a key stands twice")
    return out


def read_tensors(path: Path) -> Tensors:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = np.frombuffer(data[8 + length + begin:8 + length + end], f"V{SIZES[entry['dtype']]}")
        out[name] = (entry["dtype"], raw.reshape(entry["shape"]))
    return out


def _numbers(value: Any, least: int = 0) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(n) is not int or n < least for n in value):
        raise Refused(f"{value} is no list of numbers")
    return tuple(value)


def _layout(stated: Any, dimensions: int) -> tuple[Layout, tuple[int, ...]]:
    keys = {"device_matrix", "tensor_map", "interleaved_parallel", "alias_name", "rank_list"}
    if set(stated) != keys or stated["interleaved_parallel"] is not False:
        raise Refused("not a layout that can be read")
    matrix = _numbers(stated["device_matrix"], 1)
    cuts = []
    for entry in stated["tensor_map"]:
        axes = _numbers(entry if isinstance(entry, list) else [entry], -1)
        cuts.append(tuple(axis for axis in axes if axis != -1))
    while len(cuts) > dimensions and not cuts[-1]:
        cuts.pop()
    used = [axis for axes in cuts for axis in axes]
    ranks = _numbers(stated["rank_list"])
    if len(cuts) != dimensions or len(set(used)) != len(used) or len(set(ranks)) != len(ranks) \
            or any(axis >= len(matrix) for axis in used) or prod(matrix) != len(ranks):
        raise Refused("an impossible layout")
    return Layout(matrix, tuple(cuts)), ranks


class _Parameter:
    def __init__(self, name: str, stated: Any) -> None:
        self.name = name
        self.shape = _numbers(stated["global_shape"])
        self.entries: list[tuple[int, str, int]] = []  # number of the slice, file, rank
        self.layout, self.ranks = Layout((1,), ((),) * len(self.shape)), (0,)
        self.whole = stated.get("layout") is None
        if not self.whole:
            self.layout, self.ranks = _layout(stated["layout"], len(self.shape))
        first = self.ranks[0]
        self.regular = self.ranks == tuple(range(first, first + len(self.ranks))) \
            and first % len(self.ranks) == 0

    def place(self, rank: int) -> int | None:
        if self.whole:
            return 0
        if rank in self.ranks:
            return self.ranks.index(rank)
        return rank % len(self.ranks) if self.regular else None

    def number(self, place: int) -> int:
        out = 0
        for part, parts in zip(position(self.layout, place), self.layout.splits):
            out = out * parts + part
        return out

    def with_lost_cut(self, place: int, shape: tuple[int, ...]) -> Layout:
        stated = [part.stop - part.start for part in box(self.shape, self.layout, place)]
        if self.whole or not self.regular or not shape or len(shape) != len(stated) \
                or list(shape[1:]) != stated[1:] or not 0 < shape[0] < stated[0] \
                or stated[0] % shape[0]:
            return self.layout
        return Layout(self.layout.device_matrix, self.layout.tensor_map, stated[0] // shape[0])

    def read(self, files: dict[str, Tensors]) -> tuple[str, np.ndarray]:
        full: np.ndarray | None = None
        covered = np.zeros(self.shape, bool)
        layout: Layout | None = None
        for number, file, rank in self.entries:
            place = self.place(rank)
            if self.regular and not self.whole and number != self.number(place or 0):
                raise Refused("a slice of another number than its place")
            if self.whole and number != 0:
                raise Refused("a slice of what is whole")
            if place is None or self.name not in files.get(file, {}):
                continue
            dtype, array = files[file][self.name]
            layout = layout or self.with_lost_cut(place, array.shape)
            part = box(self.shape, layout, place)
            if full is None:
                kind, full = dtype, np.zeros(self.shape, array.dtype)
            if kind != dtype or full[part].shape != array.shape:
                raise Refused("another type or shape")
            full[part] = array
            covered[part] = True
        if full is None or not covered.all():
            raise Refused("a part is in no file")
        return kind, full


def read_iteration(directory: Path) -> Tensors:
    """The whole tensors that metadata.json lists.

    @raise Refused, or what Python's readers raise for data that is malformed
    """
    metadata = json.loads((directory / "metadata.json").read_bytes(), object_pairs_hook=_once)
    parameters = {name: _Parameter(name, stated)
                  for name, stated in metadata["state_dict_metadata"].items()}
    ranks: dict[str, int] = {}
    for key, entries in metadata["storage_data"].items():
        name, (number,) = ast.literal_eval(key)
        if repr((name, (number,))) != key:
            raise Refused("a shard id that Python does not write")
        for entry in entries:
            file, rank = entry["file_name"], *_numbers([entry["storage_rank"]])
            if ranks.setdefault(file, rank) != rank and "accu_grads." not in name:
                raise Refused("a file of two ranks")
            parameters[name].entries.append((number, file, rank))
    files = {path.name: read_tensors(path) for path in directory.glob("*.safetensors")}
    return {name: parameter.read(files) for name, parameter in parameters.items()
            if "accu_grads." not in name}
