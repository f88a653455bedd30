# SPDX-License-Identifier: Apache-2.0
"""Sets as deepspeed_sets.py writes them, by ranks of tensor parallelism that state their cuts, as AutoTP does since
DeepSpeed 0.19: each has a set of its own, of its shards, and the map of all of them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
from deepspeed_sets import Shape, Spec, write_set

Piece = tuple[Shape, Shape, Shape]  # sizes, offsets in the whole, offsets in the shard


@dataclasses.dataclass
class Cut:
    """How ranks share a parameter: the shape of each shard, and the boxes that it consists of."""
    shape: Shape
    shards: list[tuple[Shape, list[Piece]]]

    def shard(self, array: np.ndarray, rank: int) -> np.ndarray:
        shape, pieces = self.shards[rank]
        out = np.empty(shape, array.dtype)
        for sizes, there, here in pieces:
            out[box(here, sizes)] = array[box(there, sizes)]
        return out

    def stated(self) -> dict[str, Any]:
        """An entry of affine_map."""
        holders: dict[tuple[Shape, Shape], list[int]] = {}
        for rank, (_, pieces) in enumerate(self.shards):
            for sizes, there, _ in pieces:
                holders.setdefault((sizes, there), []).append(rank)
        return {"logical_shape": list(self.shape), "ranks": {rank: {
            "shard_shape": list(shape),
            "pieces": [{"shape": list(sizes), "source": place(there, self.shape), "dest": place(here, shape),
                        "locations": holders[sizes, there] if all(sizes) else [rank]}
                       for sizes, there, here in pieces],
        } for rank, (shape, pieces) in enumerate(self.shards)}}


def box(offsets: Shape, sizes: Shape) -> tuple[slice, ...]:
    return tuple(slice(at, at + size) for at, size in zip(offsets, sizes))


def strides(shape: Shape) -> list[int]:
    return [int(np.prod(shape[axis + 1:], dtype=np.int64)) for axis in range(len(shape))]


def place(offsets: Shape, shape: Shape) -> list[Any]:
    return [sum(at * step for at, step in zip(offsets, strides(shape))), strides(shape)]


def random_cut(rng: np.random.Generator, shape: Shape, ranks: int) -> Cut:
    """Whole on all ranks, or cut along an axis, in one piece or in several of fused parameters; ranks may share."""
    whole = [(shape, [(shape, (0,) * len(shape), (0,) * len(shape))])] * ranks
    # As DeepSpeed does with fewer key heads than ranks, some may have nothing.
    least = ranks if rng.random() < 0.8 else 1
    axes = [axis for axis, size in enumerate(shape) if size >= least]
    if not axes or rng.random() < 0.2:
        return Cut(shape, whole)
    axis = int(rng.choice(axes))
    fused = int(rng.integers(1, shape[axis] // ranks + 1)) if shape[axis] >= ranks and rng.random() < 0.5 else 1
    shared = 2 if ranks % 2 == 0 and rng.random() < 0.2 else 1
    parts = ranks // shared
    inner = sorted(int(cut) * parts for cut in rng.choice(np.arange(1, max(2, shape[axis] // parts)), min(
        fused - 1, max(0, shape[axis] // parts - 1)), replace=False))
    ends = [0, *inner, shape[axis]]
    shards = []
    for rank in range(ranks):
        pieces, length = [], 0
        for first, last in itertools.pairwise(ends):
            share = [first + (last - first) * number // parts for number in (rank // shared, rank // shared + 1)]
            sizes = tuple(share[1] - share[0] if at == axis else size for at, size in enumerate(shape))
            at = [tuple(begin if other == axis else 0 for other in range(len(shape))) for begin in (share[0], length)]
            pieces.append((sizes, at[0], at[1]))
            length += share[1] - share[0]
        shards.append((tuple(length if at == axis else size for at, size in enumerate(shape)), pieces))
    return Cut(shape, shards)


def random_cuts(rng: np.random.Generator, spec: Spec, ranks: int) -> dict[str, Cut]:
    """Of all that is trained, and of some of what is not."""
    shapes = {name: array.shape for name, array in spec.weights.items()}
    shapes |= {name: array.shape for name, (_, array) in spec.frozen.items() if rng.random() < 0.7}
    return {name: random_cut(rng, shape, ranks) for name, shape in shapes.items()}


def of_rank(spec: Spec, cuts: dict[str, Cut], rank: int) -> Spec:
    def arrays(whole: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: cuts[name].shard(array, rank) for name, array in whole.items()}

    frozen = {name: (kind, cuts[name].shard(array, rank) if name in cuts else array)
              for name, (kind, array) in spec.frozen.items()}
    groups = [{name: cuts[name].shards[rank][0] for name in group} for group in spec.groups]
    return dataclasses.replace(spec, groups=groups, weights=arrays(spec.weights), frozen=frozen, sub_groups=None,
                               moments={kind: arrays(whole) for kind, whole in spec.moments.items()})


def write_cut_set(directory: Path, spec: Spec, cuts: dict[str, Cut], ranks: int, unstated: str = "") -> None:
    """unstated: a parameter that the map leaves out."""
    params = {f"^{re.escape(name)}$": cut.stated() for name, cut in cuts.items() if name != unstated}
    more = {"mp_world_size": ranks, "checkpoint_parallel_dimensions": {"pp_degree": 1, "tp_degree": ranks},
            "universal_checkpoint_info": {"universal_checkpoint_version": 0.4,
                                          "autotp_unsupported_parameter_patterns": {},
                                          "affine_map": {"version": 1, "params": params}}}
    for rank in range(ranks):
        write_set(directory, of_rank(spec, cuts, rank), model_rank=rank, more=more)
