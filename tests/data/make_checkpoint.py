# SPDX-License-Identifier: Apache-2.0
"""Makes a random sharded checkpoint, its strategies, and what each destination rank must hold.

    make_checkpoint.py OUT --src tp=4,dp=2,opt=-1 --dst tp=2,pp=2 --seed 7

writes OUT/src/rank_N/model-<epoch>_<step>.ckpt, the strategies src_strategy and dst_strategy as
.ckpt, .json and as a directory of stage files, and OUT/expected/rank_N.ckpt. The expectation is
cut from the full tensors, not from the source files, so it does not depend on reading those right.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from math import lcm
from pathlib import Path

import numpy as np

from ckpt_format import (
    NUMPY_TYPES,
    Record,
    destination_record,
    encode_checkpoint,
    record_of,
    string_record,
)
from layouts import Layout, shard
from strategy_files import Strategy, write_json, write_protobuf, write_stages


@dataclass(frozen=True)
class Parallel:
    """A parallel strategy in the usual words; device matrix [dp, tp] in each of pp stages."""

    tp: int = 1
    dp: int = 1
    pp: int = 1
    opt: int = 0
    nested: bool = False  # weights that are cut in rows, over both axes, tp major
    experts: bool = True  # expert weights are cut over dp too; else dp makes plain replicas

    @staticmethod
    def parse(text: str) -> Parallel:
        """From "tp=4,dp=2,opt=-1,nested=1"."""
        values = dict(item.split("=", 1) for item in text.split(",") if item)
        return Parallel(**{key: int(value) for key, value in values.items()})

    @property
    def rank_count(self) -> int:
        return self.tp * self.dp * self.pp

    @property
    def parts(self) -> int:
        """A length that this number divides can be cut by every layout of this strategy."""
        return self.tp * self.dp * (abs(self.opt) or 1)

    def layout(self, cut: str) -> Layout:
        """How a parameter whose rows, columns or neither are cut lies on a stage."""
        maps: dict[str, tuple[tuple[int, ...], ...]] = {
            "rows": (((0, 1) if self.nested else (0,)), ()),
            "columns": ((), (0,)),
            "whole": ((),),
            "experts": (((1,) if self.experts else ()), (), (0,)),
        }
        return Layout((self.dp, self.tp), maps[cut], self.opt)


# Parameters of one layer: name, how it is cut, element type.
LAYER = (
    ("attention.wq.weight", "rows", "Float32"),
    ("attention.wo.weight", "columns", "BFloat16"),
    ("attention_norm.weight", "whole", "Float32"),
    ("experts.weight", "experts", "Float16"),
    ("quantized.weight", "columns", "Int8"),
)
DIMENSIONS = {"rows": 2, "columns": 2, "whole": 1, "experts": 3}


@dataclass
class Model:
    """The full tensors, and on which share of the pipeline (0 ... 1) each layer stands."""

    tensors: dict[str, Record]
    cuts: dict[str, str]
    depth: dict[str, float]
    unlaid: list[Record]  # without layout, equal on all ranks


def as_written(record: Record) -> Record:
    """What a conversion makes of a parameter that it does not cut."""
    if record.type == "str":
        return record
    return destination_record(record.name, record.type, record.array())


@dataclass(frozen=True)
class GeneratedSet:
    directory: Path
    model: Model
    src: Parallel
    dst: Parallel

    @property
    def source(self) -> Path:
        return self.directory / "src"

    @property
    def src_strategy(self) -> Path:
        return self.directory / "src_strategy.ckpt"

    @property
    def dst_strategy(self) -> Path:
        return self.directory / "dst_strategy.ckpt"

    def options(self) -> list[str]:
        return ["--src-strategy", str(self.src_strategy), "--dst-strategy", str(self.dst_strategy)]

    def expected(self, rank: int) -> dict[str, Record]:
        """What destination rank `rank` holds, by name."""
        return {r.name: r for r in destination_records(self.model, self.dst, rank)}

    def merged(self) -> dict[str, Record]:
        return {r.name: as_written(r) for r in [*self.model.tensors.values(), *self.model.unlaid]}

    def source_files(self, rank: int) -> list[Path]:
        return sorted((self.source / f"rank_{rank}").iterdir())


def _random_record(
    rng: np.random.Generator, name: str, kind: str, shape: tuple[int, ...]
) -> Record:
    """Any bit pattern, NaN payloads included: bytes must never be interpreted."""
    count = int(np.prod(shape, dtype=np.int64)) * NUMPY_TYPES[kind].itemsize
    content = rng.integers(0, 2 if kind == "Bool" else 256, count, np.uint8).tobytes()
    return Record(name, kind, shape, content)


def make_model(rng: np.random.Generator, layers: int, multiple: int, scale: int) -> Model:
    """Shapes are multiples of `multiple`, so that every strategy divides them."""
    model = Model({}, {}, {}, [])

    def add(name: str, cut: str, kind: str, depth: float) -> None:
        shape = tuple(multiple * int(rng.integers(1, 3)) for _ in range(DIMENSIONS[cut]))
        shape = (shape[0] * scale, *shape[1:])
        model.tensors[name] = _random_record(rng, name, kind, shape)
        model.cuts[name] = cut
        model.depth[name] = depth

    add("model.tok_embeddings.embedding_weight", "rows", "Float32", 0.0)
    for layer in range(layers):
        for name, cut, kind in LAYER:
            add(f"model.layers.{layer}.{name}", cut, kind, layer / layers)
    add("lm_head.weight", "rows", "Float64", 0.999)
    for name in list(model.tensors):
        if name.endswith("wq.weight"):
            add(f"adam_m.{name}", "rows", "Float32", model.depth[name])
    kinds = list(NUMPY_TYPES)
    model.unlaid = [_random_record(rng, f"state.{kind.lower()}", kind, ()) for kind in kinds]
    model.unlaid += [
        record_of("global_step", "Int32", rng.integers(0, 1 << 30, 1, np.int32)),
        string_record("run_name", "llama α 模型"),
        string_record("empty", ""),
    ]
    return model


def strategy_of(model: Model, parallel: Parallel) -> Strategy:
    stages: list[dict[str, Layout]] = [{} for _ in range(parallel.pp)]
    for name, depth in model.depth.items():
        stages[int(depth * parallel.pp)][name] = parallel.layout(model.cuts[name])
    return Strategy(stages)


def rank_records(model: Model, parallel: Parallel, rank: int) -> list[Record]:
    """What the file of a rank holds under a strategy, in file order."""
    stage, local = divmod(rank, parallel.tp * parallel.dp)
    records = []
    for name, layout in strategy_of(model, parallel).stages[stage].items():
        full = model.tensors[name]
        records.append(record_of(name, full.type, shard(full.array(), layout, local)))
    return records + model.unlaid


def destination_records(model: Model, parallel: Parallel, rank: int) -> list[Record]:
    """The same for a file that a conversion has written."""
    return [as_written(record) for record in rank_records(model, parallel, rank)]


def make_set(
    directory: Path,
    src: Parallel,
    dst: Parallel,
    *,
    seed: int = 0,
    layers: int = 2,
    scale: int = 1,
    steps: tuple[str, ...] = ("3_100",),
    trailer: bool = False,
) -> GeneratedSet:
    """Writes the set; of several steps the last one is the model's, the others hold other values.

    @param scale multiplies the first dimension, for larger files.
    """
    multiple = lcm(src.parts, dst.parts)
    for number, step in enumerate(steps):
        model = make_model(np.random.default_rng((seed, number)), layers, multiple, scale)
        for rank in range(src.rank_count):
            path = directory / "src" / f"rank_{rank}" / f"model-{step}.ckpt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode_checkpoint(rank_records(model, src, rank), trailer=trailer))
    for side, parallel in (("src", src), ("dst", dst)):
        strategy = strategy_of(model, parallel)
        write_protobuf(strategy, directory / f"{side}_strategy.ckpt")
        write_json(strategy, directory / f"{side}_strategy.json")
        write_stages(strategy, directory / f"{side}_stages")
    return GeneratedSet(directory, model, src, dst)


def write_expected(made: GeneratedSet) -> None:
    (made.directory / "expected").mkdir(exist_ok=True)
    for rank in range(made.dst.rank_count):
        records = destination_records(made.model, made.dst, rank)
        (made.directory / "expected" / f"rank_{rank}.ckpt").write_bytes(encode_checkpoint(records))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--src", type=Parallel.parse, default=Parallel(tp=4, dp=2, opt=-1))
    parser.add_argument("--dst", type=Parallel.parse, default=Parallel(tp=2, pp=2))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--scale", type=int, default=1, help="multiplies the first dimension")
    parser.add_argument("--steps", default="3_100", help="comma separated, the newest last")
    parser.add_argument("--trailer", action="store_true", help="append the CRC trailer")
    parser.add_argument("--force", action="store_true", help="replace OUT")
    args = parser.parse_args()
    if args.force:
        shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True, exist_ok=False)
    made = make_set(
        args.out, args.src, args.dst, seed=args.seed, layers=args.layers, scale=args.scale,
        steps=tuple(args.steps.split(",")), trailer=args.trailer,
    )
    write_expected(made)
    print(f"{args.out}: {made.src.rank_count} ranks to {made.dst.rank_count}, seed {args.seed}")


if __name__ == "__main__":
    main()
