# SPDX-License-Identifier: Apache-2.0
"""Random nets of parameters under two strategies, saved by MindSpore: what judge.py and loader.py convert."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from pathlib import Path

import mindspore as ms
import numpy as np
from files import Entry
from layouts import Layout, Strategy, read_strategy, write_json, write_stage
from mindspore import Tensor

REAL = Path(__file__).resolve().parents[1] / "data/strategies"
# The sizes of the networks whose strategies are there, by the last part of a parameter's name.
REAL_SHAPES = {
    "we": (4, 16, 32), "we2": (4, 32, 16), "table": (32, 16), "head": (32, 16), "embedding_table": (32, 16),
    "lm_head": (32, 16), "frozen": (32, 16), "gamma": (16,), "beta": (16,), "wqkv": (16, 48), "wo": (16, 16),
    "w1": (32, 16), "w2": (32, 16), "b1": (32,),
}
TYPES = ("Float32", "Float32", "Float16", "BFloat16", "BFloat16", "Int32", "Float64", "Int8", "UInt8", "Int64",
         "Bool")
NUMPY = {"Float32": "f4", "Float16": "f2", "BFloat16": "u2", "Int32": "i4", "Float64": "f8", "Int8": "i1",
         "UInt8": "u1", "Int64": "i8", "Bool": "?"}


@dataclass
class Pair:
    """`full`: the whole tensors of what both strategies list, and `same` of what neither does."""

    source: Strategy | None
    target: Strategy | None
    kind: str  # of the source's files: ckpt or safetensors
    output: str  # of the target's
    types: dict[str, str] = field(default_factory=dict)
    full: dict[str, np.ndarray] = field(default_factory=dict)
    same: dict[str, np.ndarray] = field(default_factory=dict)

    def entry(self, name: str, array: np.ndarray) -> Entry:
        return Entry(self.types[name], tuple(array.shape), array.tobytes())

    def expected(self, strategy: Strategy | None, rank: int) -> dict[str, Entry]:
        """What the file of the rank has to hold."""
        found = {}
        for name, full in self.full.items():
            part = full if strategy is None else strategy.slice_of(name, full, rank)
            if part is not None:
                found[name] = self.entry(name, part)
        return {**found, **{name: self.entry(name, array) for name, array in self.same.items()}}


def ranks(strategy: Strategy | None) -> int:
    return strategy.ranks if strategy else 1


# --- random strategies -------------------------------------------------------------------------


def device_matrix(rng: random.Random, devices: int) -> tuple[int, ...]:
    matrix = []
    while devices > 1:
        axis = rng.choice([size for size in (2, 4, 8) if devices % size == 0])
        matrix.append(axis)
        devices //= axis
    return tuple(matrix) or (1,)


@dataclass(frozen=True)
class Limits:
    """What a random pair consists of; the converters of MindSpore differ in what they take."""

    kinds: tuple[str, ...] = ("ckpt", "safetensors")
    stages: tuple[int, ...] = (1, 1, 2)
    devices: tuple[int, ...] = (1, 2, 4, 8)
    nested: bool = True
    cuts: bool = True
    whole: bool = True  # whether a side may have no strategy
    types: tuple[str, ...] = TYPES


def random_layout(rng: random.Random, devices: int, dimensions: int, limits: Limits) -> Layout:
    matrix = device_matrix(rng, devices)
    nested = limits.nested and rng.random() < 0.3
    axes: list[list[int]] = [[] for _ in range(dimensions)]
    for axis in rng.sample(range(len(matrix)), len(matrix)):
        free = [one for one in axes if nested or not one]
        if free and rng.random() < 0.7:
            rng.choice(free).append(axis)
    layout = Layout(matrix, tuple(map(tuple, axes)))
    replicas = layout.replicas()
    if limits.cuts and replicas > 1 and rng.random() < 0.4:
        layout = Layout(matrix, layout.axes, rng.choice([-1, *(size for size in (2, 4) if replicas % size == 0)]))
    return layout


def random_pair(seed: int, limits: Limits = Limits()) -> Pair:
    rng = random.Random(seed)
    kind = rng.choice(limits.kinds)
    strategies = [Strategy(rng.choice(limits.stages), rng.choice(limits.devices)) for _ in range(2)]
    whole = rng.choice(("", "", "", "", "source", "target")) if limits.whole else ""
    source = None if whole == "source" else strategies[0]
    target = None if whole == "target" else strategies[1]
    output = "ckpt" if kind == "ckpt" else rng.choice(("safetensors", "safetensors", "ckpt"))
    pair = Pair(source, target, kind, output)
    values = np.random.default_rng(seed)
    for index in range(rng.randint(3, 12)):
        name = rng.choice(("layers.%d.weight", "moment1.layers.%d.w", "adam_m.e%d", "b%d.gamma")) % index
        dimensions = rng.choice((1, 1, 2, 2, 2, 3, 4))
        # In all stages, as a tied embedding; MindSpore loses such in safetensors.
        shared = kind == "ckpt" and rng.random() < 0.1
        unit = [1] * dimensions
        for strategy in (one for one in (source, target) if one):
            # Each stage has a parameter at least, as in a real network.
            stage = index if index < strategy.stages else rng.randrange(strategy.stages)
            layout = random_layout(rng, strategy.devices, dimensions, limits)
            strategy.layouts[name] = dict.fromkeys(range(strategy.stages) if shared else [stage], layout)
            unit = [math.lcm(*sizes) for sizes in zip(unit, layout.unit())]
        shape = [size * rng.randint(1, 3 if dimensions < 3 else 2) for size in unit]
        pair.types[name] = rng.choice(limits.types)
        pair.full[name] = random_array(values, shape, pair.types[name])
    add_same(pair)
    return pair


def random_array(values: np.random.Generator, shape: list[int] | tuple[int, ...], kind: str) -> np.ndarray:
    """BFloat16 as its bits, without infinities and what is not a number."""
    if kind == "Bool":
        return values.integers(0, 2, shape).astype(bool)
    if kind == "BFloat16":
        return (values.standard_normal(shape).astype("f4").view("u4") >> 16).astype("u2").reshape(shape)
    if kind.startswith("Float"):
        return values.standard_normal(shape).astype(NUMPY[kind])
    return values.integers(0, 100, shape).astype(NUMPY[kind])


def add_same(pair: Pair) -> None:
    """What no strategy lists and all ranks have."""
    pair.types.update(learning_rate="Float32", global_step="Int32")
    pair.same.update(learning_rate=np.array(0.5, "f4"), global_step=np.array([7], "i4"))


# --- the compiler's strategies -----------------------------------------------------------------


def real_names() -> list[str]:
    return sorted({path.name.split(".")[0] for path in REAL.iterdir()})


def real_files(name: str) -> list[Path]:
    return [REAL / f"{name}.ckpt"] if (REAL / f"{name}.ckpt").exists() else sorted((REAL / name).iterdir())


def real_strategy(name: str, merged: Path) -> Strategy:
    """Leaves the strategy in one file, merged by MindSpore where it has several."""
    files = real_files(name)
    if len(files) == 1:
        merged.write_bytes(files[0].read_bytes())
    else:
        ms.merge_pipeline_strategys(str(files[0].parent), str(merged))
    return read_strategy(merged)


def real_pair(directory: Path, source: str, target: str, kind: str, seed: int) -> Pair:
    pair = Pair(real_strategy(source, directory / "src.ckpt"), real_strategy(target, directory / "dst.ckpt"), kind,
                kind)
    values = np.random.default_rng(seed)
    # accu_grads: the strategies do not say what training holds.
    names = sorted(name for name in set(pair.source.layouts) & set(pair.target.layouts)
                   if not name.startswith("accu_grads."))
    for index, name in enumerate(names):
        pair.types[name] = ("Float32", "BFloat16", "Float16")[index % 3]
        pair.full[name] = random_array(values, REAL_SHAPES[name.split(".")[-1]], pair.types[name])
    add_same(pair)
    return pair


# --- saving ------------------------------------------------------------------------------------


def tensor_of(array: np.ndarray, kind: str) -> Tensor:
    if kind == "BFloat16":
        return Tensor((array.astype("u4") << 16).view("f4").reshape(array.shape)).astype(ms.bfloat16)
    return Tensor(array)


def array_of(entry: Entry) -> np.ndarray:
    return np.frombuffer(entry.content, NUMPY[entry.type]).reshape(entry.shape)


def write_strategies(directory: Path, pair: Pair) -> None:
    """src.ckpt and dst.ckpt, and for stages also directories of their files, which MindSpore merges."""
    for side, strategy in (("src", pair.source), ("dst", pair.target)):
        if strategy is None:
            continue
        if strategy.stages == 1:
            write_stage(directory / f"{side}.ckpt", strategy, 0)
            if not any(layout.is_nested() for by_stage in strategy.layouts.values() for layout in by_stage.values()):
                shapes = {name: full.shape for name, full in pair.full.items()}
                write_json(directory / f"{side}.json", strategy, shapes)
            continue
        folder = directory / f"{side}_strategies"
        folder.mkdir()
        for stage in range(strategy.stages):
            write_stage(folder / f"strategy_{stage}.ckpt", strategy, stage)
        ms.merge_pipeline_strategys(str(folder), str(directory / f"{side}.ckpt"))


def save_rank(path: Path, pair: Pair, strategy: Strategy | None, rank: int) -> None:
    parameters = [{"name": name, "data": tensor_of(array_of(entry), entry.type)}
                  for name, entry in pair.expected(strategy, rank).items()]
    path.parent.mkdir(parents=True)
    ms.save_checkpoint(parameters, str(path), format=pair.kind)


def save_source(directory: Path, pair: Pair) -> Path:
    for rank in range(ranks(pair.source)):
        save_rank(directory / f"src/rank_{rank}/net-2_3.{pair.kind}", pair, pair.source, rank)
    return directory / "src"
