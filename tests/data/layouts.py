# SPDX-License-Identifier: Apache-2.0
"""Which part of a full tensor a rank holds, in the most obvious way.

The reference that tests judge reshardfs by: it slices whole NumPy arrays and shares nothing with
the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

Position = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """How one parameter lies on the devices of one pipeline stage.

    tensor_map has one tuple of device-matrix axes for each dimension, first axis major, an axis
    being counted from the END of the device matrix; () is "not split". opt_size is the number of
    parts of the optimizer cut: 0 none, -1 as many as devices hold the same slice.
    """

    device_matrix: tuple[int, ...]
    tensor_map: tuple[tuple[int, ...], ...]
    opt_size: int = 0

    @property
    def device_count(self) -> int:
        return prod(self.device_matrix)

    @property
    def splits(self) -> tuple[int, ...]:
        """Parts of each dimension, without the optimizer cut."""
        sizes = self.device_matrix
        return tuple(prod(sizes[-1 - axis] for axis in axes) for axes in self.tensor_map)


def unsplit(dimensions: int) -> Layout:
    """One device that holds everything."""
    return Layout((1,), ((),) * dimensions)


def coordinates(device_matrix: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The rank's place on each axis; devices are numbered row-major."""
    out = []
    for size in reversed(device_matrix):
        out.append(rank % size)
        rank //= size
    return tuple(reversed(out))


def position(layout: Layout, rank: int) -> Position:
    """Which of the parts of each dimension the rank has."""
    place = coordinates(layout.device_matrix, rank)
    out = []
    for axes in layout.tensor_map:
        part = 0
        for axis in axes:
            part = part * layout.device_matrix[-1 - axis] + place[-1 - axis]
        out.append(part)
    return tuple(out)


def optimizer_part(layout: Layout, rank: int) -> tuple[int, int]:
    """(part, number of parts) of the optimizer cut."""
    own = position(layout, rank)
    same = [other for other in range(layout.device_count) if position(layout, other) == own]
    size = len(same) if layout.opt_size == -1 else layout.opt_size
    return (same.index(rank) % size, size) if size else (0, 1)


def box(shape: tuple[int, ...], layout: Layout, rank: int) -> tuple[slice, ...]:
    """The rank's part of a tensor of that full shape."""
    if len(shape) != len(layout.tensor_map):
        raise ValueError(f"{len(layout.tensor_map)} tensor map entries for the shape {shape}")
    bounds = []
    for length, parts, part in zip(shape, layout.splits, position(layout, rank)):
        if length % parts:
            raise ValueError(f"a dimension of {length} in {parts} parts")
        bounds.append((length // parts * part, length // parts))
    part, parts = optimizer_part(layout, rank)
    if parts > 1:
        first, length = bounds[0]
        if length % parts:
            raise ValueError(f"an optimizer cut of {length} rows in {parts} parts")
        bounds[0] = (first + length // parts * part, length // parts)
    return tuple(slice(first, first + length) for first, length in bounds)


def shard(full: np.ndarray, layout: Layout, rank: int) -> np.ndarray:
    """What the rank's file holds of the tensor."""
    return np.ascontiguousarray(full[box(full.shape, layout, rank)]) if full.ndim else full


def full_shape(slice_shape: tuple[int, ...], layout: Layout, rank: int) -> tuple[int, ...]:
    lengths = [length * parts for length, parts in zip(slice_shape, layout.splits, strict=True)]
    if lengths:
        lengths[0] *= optimizer_part(layout, rank)[1]
    return tuple(lengths)


def assemble(slices: Mapping[int, np.ndarray], layout: Layout) -> np.ndarray:
    """The full tensor from the slices of the ranks; replicas must agree, nothing may be missing."""
    first = min(slices)
    shape = full_shape(slices[first].shape, layout, first)
    full = np.zeros(shape, slices[first].dtype)
    owners = owner_map(shape, layout, slices)
    if owners.size and owners.min() < 0:
        raise ValueError("no rank holds a part of the tensor")
    for rank, part in slices.items():
        full[box(shape, layout, rank)] = part
    for rank, part in slices.items():
        if shard(full, layout, rank).tobytes() != part.tobytes():
            raise ValueError(f"rank {rank} and another one hold different values")
    return full


def owner_map(shape: tuple[int, ...], layout: Layout, ranks: Mapping[int, object]) -> np.ndarray:
    """For each element of the full tensor the lowest of the ranks that holds it; -1: none."""
    owners = np.full(shape, -1, np.int64)
    for rank in sorted(ranks, reverse=True):
        owners[box(shape, layout, rank)] = rank
    return owners
