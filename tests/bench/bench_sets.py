# SPDX-License-Identifier: Apache-2.0
"""Checkpoints for the benchmarks: files of random bytes with the shapes of a layout."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib

MIB = 1 << 20
ELEMENT_BYTES = {"UInt8": 1, "Float32": 4}


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value & (1 << 64) - 1)


def record_header(name: str, dtype: str, shape: list[int], content_bytes: int) -> bytes:
    """A .ckpt record up to its content."""
    dims = b"".join(number_field(1, d) for d in shape)
    tensor = dims + field(2, dtype.encode()) + b"\x1a" + varint(content_bytes)
    tag = field(1, name.encode())
    tensor_length = len(tensor) + content_bytes
    value = tag + b"\x12" + varint(tensor_length)
    return b"\x0a" + varint(len(value) + tensor_length) + value + tensor


@dataclasses.dataclass(frozen=True)
class Layout:
    """How all parameters of a stage are laid out; stages have equally many devices."""

    devices: tuple[int, ...]
    tensor_map: tuple[int, int]
    optimizer: int = 0
    stages: int = 1

    @property
    def devices_of_stage(self) -> int:
        return math.prod(self.devices)

    @property
    def ranks(self) -> int:
        return self.devices_of_stage * self.stages

    def slice_shape(self, shape: tuple[int, int]) -> list[int]:
        splits = [1 if axis < 0 else self.devices[-1 - axis] for axis in self.tensor_map]
        splits[0] *= max(1, self.optimizer)
        return [length // split for length, split in zip(shape, splits)]

    def message(self) -> bytes:
        def numbers(number: int, values: tuple[int, ...]) -> bytes:
            return field(number, b"".join(number_field(1, v) for v in values))

        optimizer = number_field(6, 1 if self.optimizer else 0) + number_field(7, self.optimizer)
        return (numbers(1, self.devices) + numbers(2, self.tensor_map) + numbers(3, ()) +
                numbers(4, ()) + number_field(5, 0) + optimizer)


def rows(ranks: int, stages: int = 1) -> Layout:
    return Layout((ranks,), (0, -1), stages=stages)


def columns(ranks: int) -> Layout:
    return Layout((ranks,), (-1, 0))


def write_strategy(path: pathlib.Path, layout: Layout, names: list[str]) -> pathlib.Path:
    """A MindSpore strategy; one of several stages has them in its parameters' names."""
    items = bytearray()
    message = layout.message()
    for stage in range(layout.stages):
        prefix = f"{stage}-" if layout.stages > 1 else ""
        for name in names[stage::layout.stages]:
            items += field(3, field(1, (prefix + name).encode()) + field(2, message))
    path.write_bytes(number_field(1, 1) + items)
    return path


class SourceSet:
    """`parameters` tensors of `shape`, saved by all ranks of `layout`, below `root`."""

    def __init__(self, root: pathlib.Path, layout: Layout, parameters: int,
                 shape: tuple[int, int], dtype: str = "UInt8", sparse: bool = False) -> None:
        self.root, self.shape = root, shape
        self.names = [f"model.layers.{i}.weight" for i in range(parameters)]
        slice_shape = layout.slice_shape(shape)
        content = math.prod(slice_shape) * ELEMENT_BYTES[dtype]
        block = os.urandom(MIB)
        for rank in range(layout.ranks):
            (root / f"rank_{rank}").mkdir(parents=True)
            with open(root / f"rank_{rank}" / "net-1_1.ckpt", "wb") as out:
                for name in self.names[rank // layout.devices_of_stage::layout.stages]:
                    out.write(record_header(name, dtype, slice_shape, content))
                    if sparse:
                        out.seek(content, os.SEEK_CUR)
                        out.truncate()
                        continue
                    for written in range(0, content, MIB):
                        out.write(block[: content - written])
        self.strategy = self.write_strategy("src", layout)

    def write_strategy(self, label: str, layout: Layout) -> pathlib.Path:
        return write_strategy(self.root / f"{label}.ckpt", layout, self.names)

    def files(self) -> list[pathlib.Path]:
        return sorted(self.root.glob("rank_*/*.ckpt"))
