# SPDX-License-Identifier: Apache-2.0
"""The model that compare.py converts, how ranks share it, and checksums of what was loaded.

It lies in one file without a header, tensor after tensor, from which all sources are made. Needs NumPy alone:
all interpreters that take part import this.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]
Shape = tuple[int, ...]
DTYPE = np.dtype("<f4")
# Every loader reads it first: a small tensor, whole on all ranks.
FIRST = "model.norm.weight"


def shapes_and_cuts(layers: int, hidden: int) -> dict[str, tuple[Shape, int | None]]:
    """Of each tensor of a decoder: its shape, and the dimension that tensor parallelism cuts, if any."""
    out: dict[str, tuple[Shape, int | None]] = {FIRST: ((hidden,), None),
                                                "model.embed_tokens.weight": ((16 * hidden, hidden), 0)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        out |= {f"{prefix}.self_attn.{kind}_proj.weight": ((hidden, hidden), 0) for kind in "qkv"}
        out |= {f"{prefix}.self_attn.o_proj.weight": ((hidden, hidden), 1),
                f"{prefix}.mlp.gate_proj.weight": ((3 * hidden, hidden), 0),
                f"{prefix}.mlp.up_proj.weight": ((3 * hidden, hidden), 0),
                f"{prefix}.mlp.down_proj.weight": ((hidden, 3 * hidden), 1),
                f"{prefix}.input_layernorm.weight": ((hidden,), None),
                f"{prefix}.post_attention_layernorm.weight": ((hidden,), None)}
    return out


class Model:
    """The tensors in the file, mapped."""

    def __init__(self, path: Path, layers: int, hidden: int) -> None:
        self.cuts = {name: cut for name, (_, cut) in shapes_and_cuts(layers, hidden).items()}
        self.arrays: Arrays = {}
        offset = 0
        for name, (shape, _) in shapes_and_cuts(layers, hidden).items():
            self.arrays[name] = np.memmap(path, DTYPE, "r", offset, shape)
            offset += math.prod(shape) * DTYPE.itemsize
        self.nbytes = offset

    def part(self, name: str, rank: int, ranks: int) -> np.ndarray:
        """What a rank has of a tensor."""
        array, cut = self.arrays[name], self.cuts[name]
        if cut is None:
            return array
        length = array.shape[cut] // ranks
        box = tuple(slice(rank * length, (rank + 1) * length) if dim == cut else slice(None)
                    for dim in range(array.ndim))
        return np.ascontiguousarray(array[box])

    def parts(self, rank: int, ranks: int) -> Arrays:
        return {name: self.part(name, rank, ranks) for name in self.arrays}


def make_model(path: Path, layers: int, hidden: int) -> Model:
    rng = np.random.default_rng(1)
    with open(path, "wb") as out:
        for shape, _ in shapes_and_cuts(layers, hidden).values():
            rng.standard_normal(shape, np.float32).astype(DTYPE, copy=False).tofile(out)
    return Model(path, layers, hidden)


def checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """Of names, types, shapes and bytes, in whatever order they are."""
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()
