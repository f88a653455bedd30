# SPDX-License-Identifier: Apache-2.0
"""Random sets of Checkpoint 2.0 under random strategies: every destination file must have the parts
of the full tensors that NumPy cuts.

The sets have pipelines, meshes whose ranks are in any order or are some of all ranks, cuts by several
axes, optimizer cuts that the metadata lacks, parameters that two stages share or that have no layout,
and redundant slices left out. Prints the seed, and of a set that fails its own.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import dataclass, field
from math import lcm, prod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from checkpoint2_loader import load_checkpoint2  # noqa: E402
from format_files import read_safetensors, write_safetensors  # noqa: E402
from layouts import Layout, box, position, shard  # noqa: E402
from mounted import parse_binary, run, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

TYPES = {"F32": "<f4", "BF16": "<u2", "F16": "<f2", "I32": "<i4", "BOOL": "?", "I8": "i1",
         "F64": "<f8"}
MOST_ELEMENTS = 4000


@dataclass
class Tensor:
    name: str
    dtype: str
    layout: Layout | None  # None: whole on each of its ranks
    ranks: list[int]       # at each place
    target: Layout
    target_stage: int
    full: np.ndarray = field(default_factory=lambda: np.zeros(0))
    twins: list[int] = field(default_factory=list)  # of another stage, at the same places

    def slices(self) -> dict[int, np.ndarray]:
        """What each rank's file holds."""
        held = {rank: self.full if self.layout is None else shard(self.full, self.layout, place)
                for place, rank in enumerate(self.ranks)}
        return held | {twin: held[rank] for rank, twin in zip(self.ranks, self.twins)}

    def boxes(self) -> dict[int, Any]:
        places = list(enumerate(self.ranks)) + list(enumerate(self.twins))
        if self.layout is None:
            return {rank: () for _, rank in places}
        return {rank: tuple((part.start, part.stop) for part in box(self.full.shape, self.layout, place))
                for place, rank in places}


def factors(rng: random.Random, number: int) -> tuple[int, ...]:
    """The number as a product of one to four axes, perhaps with some of size 1."""
    axes = [1] * rng.randint(1, 4)
    for prime in (2, 3, 5, 7):
        while number % prime == 0:
            axes[rng.randrange(len(axes))] *= prime
            number //= prime
    assert number == 1
    return tuple(axes)


def random_layout(rng: random.Random, devices: int, dimensions: int) -> Layout:
    matrix = factors(rng, devices)
    axes = rng.sample(range(len(matrix)), rng.randint(0, len(matrix)))
    cuts: list[list[int]] = [[] for _ in range(dimensions)]
    for axis in axes:
        cuts[rng.randrange(dimensions)].append(axis)
    return Layout(matrix, tuple(map(tuple, cuts)))


def with_optimizer_cut(rng: random.Random, layout: Layout) -> Layout:
    copies = layout.device_count // prod(layout.splits)
    sizes = [size for size in range(2, copies + 1) if copies % size == 0]
    return Layout(layout.device_matrix, layout.tensor_map, rng.choice(sizes) if sizes else 0)


def random_full(rng: random.Random, dtype: str, *layouts: Layout | None) -> np.ndarray | None:
    dimensions = next(len(layout.tensor_map) for layout in layouts if layout is not None)
    shape = []
    for d in range(dimensions):
        parts = 1
        for layout in layouts:
            if layout is not None:
                parts = lcm(parts, layout.splits[d] * (max(layout.opt_size, 1) if d == 0 else 1))
        shape.append(parts * rng.randint(1, 3))
    if prod(shape) > MOST_ELEMENTS:
        return None
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    if dtype == "BOOL":
        return numbers.integers(0, 2, shape).astype("?")
    size = np.dtype(TYPES[dtype]).itemsize
    raw = numbers.integers(0, 256, [*shape[:-1], shape[-1] * size], dtype=np.uint8)
    return raw.view(TYPES[dtype]).reshape(shape)


class RandomSet:
    def __init__(self, seed: int, tensors: int) -> None:
        self.rng = rng = random.Random(seed)
        self.regular = rng.random() < 0.6
        self.devices = rng.choice((1, 2, 3, 4, 6, 8, 12))
        self.stages = rng.choice((1, 1, 2, 3)) if self.regular else 1
        self.world = self.devices * self.stages
        self.target_devices = rng.choice((1, 2, 3, 4, 6, 8))
        self.target_stages = rng.choice((1, 1, 2))
        self.redundant = rng.random() < 0.6
        self.prefix = rng.choice(("", "qwen3-", "-", "model-"))
        self.tensors: list[Tensor] = []
        while len(self.tensors) < tensors:
            self.add_tensor(len(self.tensors))

    def add_tensor(self, number: int) -> None:
        rng = self.rng
        dimensions = rng.randint(1, 4)
        target = random_layout(rng, self.target_devices, dimensions)
        if rng.random() < 0.3:
            target = with_optimizer_cut(rng, target)
        stem = rng.choice(("layers.{}.weight", "a,b.{}", "it's {}", "層.{}", "tab\t{}", "q\"{}'"))
        name = rng.choice(("", "adam_m.", "adam_v.")) + stem.format(number)
        stage = number % self.target_stages
        ranks, layout, twins = self.random_source(dimensions)
        dtype = rng.choice(list(TYPES))
        full = random_full(rng, dtype, layout, target)
        if full is not None:
            self.tensors.append(Tensor(name, dtype, layout, ranks, target, stage, full, twins))

    def random_source(self, dimensions: int) -> tuple[list[int], Layout | None, list[int]]:
        rng = self.rng
        if rng.random() < 0.1:
            return sorted(rng.sample(range(self.world), rng.randint(1, self.world))), None, []
        if not self.regular:
            count = rng.choice([n for n in (1, 2, 3, 4, 6, 8, 12) if n <= self.world])
            return rng.sample(range(self.world), count), random_layout(rng, count, dimensions), []
        stage = rng.randrange(self.stages)
        ranks = list(range(stage * self.devices, (stage + 1) * self.devices))
        layout = random_layout(rng, self.devices, dimensions)
        if rng.random() < 0.2:
            layout = with_optimizer_cut(rng, layout)
        twins = []
        if stage + 1 < self.stages and rng.random() < 0.2:
            twins = [rank + self.devices for rank in ranks]
        return ranks, layout, twins

    # --- writing ---------------------------------------------------------------------------

    def file_name(self, tensor: Tensor, rank: int) -> str:
        kind = "opt" if tensor.name.startswith("adam_") else "model"
        return f"{self.prefix}{kind}-{rank:07}-{self.world:07}.safetensors"

    def stored(self, tensor: Tensor) -> list[int]:
        """The ranks whose files keep their slice."""
        ranks = [*tensor.ranks, *tensor.twins]
        if self.redundant:
            return ranks
        self.rng.shuffle(ranks)
        boxes = tensor.boxes()
        return list({boxes[rank]: rank for rank in ranks}.values())

    def describe(self, tensor: Tensor) -> dict[str, Any]:
        layout = tensor.layout
        out: dict[str, Any] = {"properties": {"dtype": "float32", "replica_id": 0},
                               "global_shape": list(tensor.full.shape), "layout": None}
        if layout is None:
            return out
        entries: list[Any] = []
        for axes in layout.tensor_map:
            plain = len(axes) < 2 and self.rng.random() < 0.7
            entries.append((axes or (-1,))[0] if plain else list(axes) or [-1])
        if len(entries) == 1 and isinstance(entries[0], list):
            entries.append(-1)
        out["layout"] = {"device_matrix": list(layout.device_matrix), "tensor_map": entries,
                         "interleaved_parallel": False,
                         "alias_name": [chr(97 + i) for i in range(len(layout.device_matrix))],
                         "rank_list": tensor.ranks}
        return out

    def number(self, tensor: Tensor, rank: int) -> int:
        """Of the slice, as the writer counts: from the rank, whatever the order of the ranks is."""
        if tensor.layout is None:
            return 0
        count = 0
        parts = position(tensor.layout, rank % len(tensor.ranks))
        for part, total in zip(parts, tensor.layout.splits):
            count = count * total + part
        return count

    def write(self, root: Path) -> None:
        directory = root / f"iteration_{self.rng.choice((7, 120, 123456789)):08}"
        files: dict[str, Any] = {}
        metadata: dict[str, Any] = {"state_dict_metadata": {}, "storage_data": {}}
        for rank in range(self.world):
            step = np.array([7], "<i4")
            name = f"{self.prefix}opt-{rank:07}-{self.world:07}.safetensors"
            files.setdefault(name, {})["global_step"] = ("I32", step)
        for tensor in self.tensors:
            metadata["state_dict_metadata"][tensor.name] = self.describe(tensor)
            slices = tensor.slices()
            for rank in self.stored(tensor):
                name = self.file_name(tensor, rank)
                files.setdefault(name, {})[tensor.name] = (tensor.dtype, slices[rank])
                key = repr((tensor.name, (self.number(tensor, rank),)))
                metadata["storage_data"].setdefault(key, []).append(
                    {"file_name": name, "storage_rank": rank})
        lost = "accu_grads." + self.tensors[0].name
        metadata["state_dict_metadata"][lost] = self.describe(self.tensors[0])
        metadata["storage_data"][repr((lost, (0,)))] = [
            {"file_name": self.file_name(self.tensors[0], 0), "storage_rank": 0}]
        for name, tensors in files.items():
            write_safetensors(directory / name, tensors, {"format": "ms"})
        (directory / "metadata.json").write_text(json.dumps(metadata, ensure_ascii=False, indent=4))
        (directory / "common.json").write_text("{}")
        step = directory.name.removeprefix("iteration_").lstrip("0")
        (root / "latest_checkpointed_iteration.txt").write_text(step)

    def write_target(self, path: Path) -> None:
        stages: list[dict[str, Layout]] = [{} for _ in range(self.target_stages)]
        for tensor in self.tensors:
            stages[tensor.target_stage][tensor.name] = tensor.target
        write_protobuf(Strategy(stages), path)

    # --- judging ---------------------------------------------------------------------------

    def check(self, out: Path) -> None:
        for rank in range(self.target_devices * self.target_stages):
            stage, device = divmod(rank, self.target_devices)
            got, _ = read_safetensors(out / f"rank_{rank}/checkpoint_{rank}.safetensors")
            got.pop("global_step", None)
            want = {t.name: t for t in self.tensors if t.target_stage == stage}
            if set(got) != set(want):
                raise AssertionError(f"rank {rank} has {sorted(got)}, expected {sorted(want)}")
            for name, tensor in want.items():
                part = shard(tensor.full, tensor.target, device)
                dtype, found = got[name]
                if (dtype, found.shape, found.tobytes()) != (tensor.dtype, part.shape, part.tobytes()):
                    raise AssertionError(f"rank {rank}: '{name}' differs: {tensor.layout} on "
                                         f"{tensor.ranks} and {tensor.twins} to {tensor.target}")


    def check_saved(self, root: Path) -> None:
        """What was written in the same format again: by a strict loader."""
        got = load_checkpoint2(root, self.target_devices * self.target_stages)
        if set(got) != {tensor.name for tensor in self.tensors}:
            raise AssertionError(f"the set saved again has {sorted(got)}")
        for tensor in self.tensors:
            dtype, array = got[tensor.name]
            if (dtype, array.shape) != (tensor.dtype, tensor.full.shape) \
                    or array.tobytes() != tensor.full.tobytes():
                raise AssertionError(f"'{tensor.name}' differs when saved again: {tensor.target}")

    def cannot_be_saved(self) -> set[str]:
        return {tensor.name for tensor in self.tensors if not is_of_axes(tensor.target)}


def is_of_axes(layout: Layout) -> bool:
    """Whether the optimizer cut is one by axes: the last of those that cut nothing else, and a
    part of the one before them."""
    used = {axis for axes in layout.tensor_map for axis in axes}
    rest = layout.opt_size
    for axis in range(len(layout.device_matrix)):
        size = layout.device_matrix[-1 - axis]
        if axis in used or rest < 2:
            continue
        if rest % size and size % rest:
            return False
        rest = rest // size if rest % size == 0 else 1
    return True


def export(source: Path, out: Path, *words: str | Path) -> None:
    result = run("export", source, out, *words)
    if result.code:
        raise AssertionError(f"export {words}: {result.stderr}")


def run_set(seed: int, tensors: int) -> int:
    made = RandomSet(seed, tensors)
    with scratch() as directory:
        source, target = directory / "src", directory / "dst.ckpt"
        made.write(source)
        made.write_target(target)
        export(source, directory / "out", "--dst-strategy", target, "--views", "ranks")
        made.check(directory / "out")
        result = run("verify", source)
        if result.code:
            raise AssertionError(result.stdout + result.stderr)
        # Saved again in the same format, and that read again.
        refused = made.cannot_be_saved()
        if refused:
            result = run("export", source, directory / "again", "--dst-strategy", target,
                         "--views", "iteration")
            if result.code != 2 or "no axes of the device matrix" not in result.stderr:
                raise AssertionError(f"should refuse one of {refused}: {result.stderr}")
            return len(made.tensors)
        export(source, directory / "again", "--dst-strategy", target, "--views", "iteration")
        made.check_saved(directory / "again/iteration")
        export(directory / "again/iteration", directory / "back", "--dst-strategy", target,
               "--views", "ranks")
        made.check(directory / "back")
    return len(made.tensors)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=600, help="tensors with their two layouts")
    parser.add_argument("--tensors", type=int, default=20, help="in each set")
    parser.add_argument("--seed", type=int, default=1)
    settings = parse_binary(parser)
    pairs = failures = 0
    seed = settings.seed
    while pairs < settings.pairs:
        try:
            pairs += run_set(seed, settings.tensors)
        except (AssertionError, OSError, ValueError) as error:
            print(f"FAILED, again with --seed {seed} --pairs 1: {error}", flush=True)
            pairs += settings.tensors
            failures += 1
        seed += 1
    print(f"{pairs} pairs from seed {settings.seed}, {failures} failed sets")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
