# SPDX-License-Identifier: Apache-2.0
"""Every option that chooses ranks or parameters, on every kind of source and target: one table of
sets, one of options, and each on each through a real mount. What is expected is cut by NumPy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# First, because it finds the modules of tests/data.
from test_scenarios import (
    COLUMNS,
    ROWS,
    WHOLE,
    Scenario,
    Tensors,
    layouts,
    random_tensors,
    write_ranks,
)

import numpy as np
from ckpt_format import Record, record_of
from layouts import shard
from mounted import mounted, mountpoint_guard, one_line, run, run_unittests, scratch
from strategy_files import Strategy, write_protobuf

Words = list[str | Path]
# Name in the source to name in the target, for --name-map.
Names = dict[str, str]
STEP = np.array([7], "<f4")


@dataclass
class Kind:
    """A set and a target. Values are by name in the source."""

    tensors: Tensors
    source_ranks: int
    target_ranks: int
    #: What a source rank's file has.
    source: Callable[[str, int], np.ndarray | None]
    #: What a target rank's file has, without options.
    target: Callable[[str, int], np.ndarray | None]
    #: Writes strategies below a directory, the target's with the new names; returns the options.
    write: Callable[[Path, Names], Words]
    #: In one strategy alone.
    unmatched: tuple[str, ...] = ()
    #: Of a source stage.
    devices: int = 1
    #: Parameters of each part of a rank's file; empty: one ordinary file.
    parts: tuple[tuple[str, ...], ...] = ()

    def records(self, rank: int, names: tuple[str, ...]) -> list[Record]:
        found = ((name, self.source(name, rank)) for name in names)
        return [record_of(name, "Float32", a) for name, a in found if a is not None]

    def raw(self, name: str, rank: int) -> np.ndarray | None:
        """What --unmatched source gives a target rank: a slice of the lowest stage."""
        holders = range(rank % self.devices, self.source_ranks, self.devices)
        values = (self.source(name, holder) for holder in holders)
        return next((value for value in values if value is not None), None)

    def files(self, step: str) -> dict[str, list[Record]]:
        """A rank's file, or its parts."""
        out = {}
        for rank in range(self.source_ranks):
            if not self.parts:
                out[f"rank_{rank}/net-{step}.ckpt"] = self.records(rank, tuple(self.tensors))
            for number, names in enumerate(self.parts):
                path = f"rank_{rank}/net-{step}_part{number}.ckpt"
                out[path] = self.records(rank, names)
        return out


def toml(axes: str, *rules: tuple[str, str]) -> str:
    """Rules from pairs of a glob and the other lines."""
    head = f'[devices]\naxes = ["{axes}"]\n'
    return head + "".join(f'\n[[rule]]\nmatch = "{glob}"\n{lines}\n' for glob, lines in rules)


def by_strategies(tensors: Tensors, src: Strategy, dst: Strategy, write: Callable,
                  **others: object) -> Kind:
    """What MindSpore's layouts say; parameters without one are whole on every rank."""

    def cut(strategy: Strategy, name: str, rank: int) -> np.ndarray | None:
        stage, local = divmod(rank, strategy.devices_per_stage)
        layout = strategy.stages[stage].get(name)
        if layout is not None:
            return shard(tensors[name], layout, local)
        return None if name in strategy else tensors[name]

    def target(name: str, rank: int) -> np.ndarray | None:
        return None if name in unmatched else cut(dst, name, rank)

    unmatched = tuple(name for name in tensors if (name in src) != (name in dst))
    return Kind(tensors, src.rank_count, dst.rank_count, lambda n, r: cut(src, n, r), target, write,
                unmatched, src.devices_per_stage, **others)


def renamed(strategy: Strategy, names: Names) -> Strategy:
    return Strategy([{names.get(n, n): layout for n, layout in stage.items()}
                     for stage in strategy.stages])


def write_files(src: Strategy | None, dst: Strategy | str) -> Callable[[Path, Names], Words]:
    """A target that is a text is sizes, or rules for a file if it has several lines."""

    def write(root: Path, names: Names) -> Words:
        options: Words = []
        if src is not None:
            write_protobuf(src, root / "src.ckpt")
            options += ["--src-strategy", root / "src.ckpt"]
        if isinstance(dst, Strategy):
            write_protobuf(renamed(dst, names), root / "dst.ckpt")
            return [*options, "--dst-strategy", root / "dst.ckpt"]
        if "\n" not in dst:
            return [*options, "--dst-strategy", dst]
        (root / "dst.toml").write_text(dst)
        return [*options, "--dst-strategy", root / "dst.toml"]

    return write


def with_source_rules(text: str, dst: Strategy | str) -> Callable[[Path, Names], Words]:
    def write(root: Path, names: Names) -> Words:
        (root / "src.toml").write_text(text)
        return ["--src-strategy", root / "src.toml", *write_files(None, dst)(root, names)]

    return write


MAPS = {"w1": ROWS, "w2": COLUMNS, "norm": WHOLE}
SHAPES = {"w1": (48, 3), "w2": (2, 48), "norm": (48,)}


def common(seed: int = 1, **more: tuple[int, ...]) -> Tensors:
    return random_tensors(SHAPES | more, seed) | {"step": STEP}


def source_rules() -> Kind:
    """Rules lay out all that they are applied to, but what they do not cut (`step`) is kept where
    the target does not know it, as if they had no layout for it."""
    src = Strategy([layouts((4,), MAPS | {"extra": ROWS})])
    dst = Strategy([layouts((3,), MAPS)])
    cut = (("w1", 'cut = ["d"]'), ("w2", 'cut = ["", "d"]'), ("extra", 'cut = ["d"]'))
    return by_strategies(common(extra=(8, 2)), src, dst, with_source_rules(toml("d=4", *cut), dst))


def target_rules() -> Kind:
    """Rules take all that the source lays out, so that nothing is in the source alone."""
    src = Strategy([layouts((4,), MAPS | {"extra": ROWS})])
    dst = Strategy([layouts((6,), {"w1": ROWS, "w2": COLUMNS, "norm": WHOLE, "extra": ((), ())})])
    rules = toml("d=6", ("*w1", 'cut = ["d"]'), ("*w2", 'cut = ["", "d"]'))
    return by_strategies(common(extra=(8, 2)), src, dst, write_files(src, rules))


def sizes() -> Kind:
    src = Strategy([layouts((4,), MAPS)])
    return by_strategies(common(), src, Strategy([layouts((2, 8), MAPS)]),
                         write_files(src, "tp=8,dp=2"))


def uneven() -> Kind:
    """Rows of 20, 17, 11 on three ranks, balanced over five."""
    bounds = (0, 20, 37, 48)
    tensors = common()
    src = toml("d=3", ("w1", 'cut = ["d"]\nuneven = [[20, 17, 11]]'))
    dst = toml("d=5", ("*w1", 'cut = ["d"]\nuneven = "balanced"'))

    def source(name: str, rank: int) -> np.ndarray:
        full = tensors[name]
        return full[bounds[rank]:bounds[rank + 1]] if name == "w1" else full

    def target(name: str, rank: int) -> np.ndarray:
        return np.array_split(tensors[name], 5)[rank] if name == "w1" else tensors[name]

    return Kind(tensors, 3, 5, source, target, with_source_rules(src, dst))


def fields() -> Kind:
    """An embedding of two fields: each part has its share of both."""
    tensors = common()
    rule = ("*w1", 'cut = ["d"]\nfield = 2')

    def part(name: str, parts: int, rank: int) -> np.ndarray:
        full = tensors[name]
        if name != "w1":
            return full
        rows = full.reshape(2, parts, len(full) // (2 * parts), -1)[:, rank]
        return np.ascontiguousarray(rows).reshape(-1, full.shape[1])

    return Kind(tensors, 4, 3, lambda n, r: part(n, 4, r), lambda n, r: part(n, 3, r),
                with_source_rules(toml("d=4", rule), toml("d=3", rule)))


def hybrid() -> Kind:
    """Slices that were cut by hand, of unequal length, without a strategy."""
    tensors = common()

    def source(name: str, rank: int) -> np.ndarray:
        full = tensors[name]
        return full[(0, 8, 24)[rank]:(8, 24, 48)[rank]] if name == "w1" else full

    def target(name: str, rank: int) -> np.ndarray:
        return np.split(tensors[name], 4)[rank] if name == "w1" else tensors[name]

    dst = write_files(None, toml("d=4", ("*w1", 'cut = ["d"]')))
    return Kind(tensors, 3, 4, source, target,
                lambda root, names: ["--src-join", "w[1]", *dst(root, names)])


def pipeline(tied: str = "embedding") -> Kind:
    """Two stages of two to three of one; first and last share the embedding."""
    tensors = common(embedding=(8, 2), extra=(4, 2))
    src = Strategy([layouts((2,), {"w1": ROWS, tied: ROWS}),
                    layouts((2,), {"w2": COLUMNS, "norm": WHOLE, tied: ROWS, "extra": ROWS})])
    dst = Strategy([layouts((1,), {"w1": ((), ()), tied: ((), ())}),
                    layouts((1,), {"w2": ((), ())}),
                    layouts((1,), {"norm": ((),), tied: ((), ())})])
    return by_strategies(tensors, src, dst, write_files(src, dst))


def segments() -> Kind:
    src = Strategy([layouts((4,), MAPS | {"extra": ROWS})])
    dst = Strategy([layouts((2,), MAPS | {"late": WHOLE})])
    return by_strategies(common(extra=(8, 2), late=(3,)), src, dst, write_files(src, dst),
                         parts=(("w1", "step"), ("norm", "late"), ("w2", "extra")))


KINDS: dict[str, Callable[[], Kind]] = {
    "source rules": source_rules, "target rules": target_rules, "sizes": sizes, "uneven": uneven,
    "fields": fields, "hybrid": hybrid, "pipeline": pipeline, "segments": segments,
}


class OnEveryKind(Scenario):
    """`check` mounts a kind with options, and compares all that is shown."""

    def check(self, kind: Kind, options: Words, *, all_steps: bool = False,
              names: Names | None = None, ranks: list[int] | None = None,
              keep: Callable[[str], bool] = lambda _: True,
              unmatched: Callable[[str, int], np.ndarray | None] = lambda *_: None) -> None:
        names = names or {}
        with scratch() as root:
            write_ranks(root / "src", kind.files("3_9"))
            words = [*kind.write(root, names), *options]
            if names:
                (root / "names.json").write_text(json.dumps(names))
                words += ["--name-map", root / "names.json"]
            if all_steps:
                words += ["--step", "all"]
            with mounted(root / "src", *words) as mountpoint:
                self.compare(mountpoint / "steps/3_9" if all_steps else mountpoint, kind, names,
                             ranks, keep, unmatched)

    def compare(self, top: Path, kind: Kind, names: Names, ranks: list[int] | None,
                keep: Callable, unmatched: Callable) -> None:
        def records(of: Callable[[str], np.ndarray | None]) -> list[Record]:
            pairs = ((names.get(name, name), of(name)) for name in kind.tensors)
            return [record_of(name, "Float32", np.ascontiguousarray(a))
                    for name, a in pairs if a is not None and keep(name)]

        shown = ranks if ranks is not None else list(range(kind.target_ranks))
        self.assertEqual(sorted(name for name in os.listdir(top) if name.startswith("rank_")),
                         sorted(f"rank_{rank}" for rank in shown))
        for rank in shown:
            def value(name: str, rank: int = rank) -> np.ndarray | None:
                return unmatched(name, rank) if name in kind.unmatched else kind.target(name, rank)

            self.assert_file(top / f"rank_{rank}/checkpoint_{rank}.ckpt", records(value))
        self.assert_file(top / "merged/checkpoint_merged.ckpt", records(kind.tensors.get))

    def on_each(self, test: Callable[[Kind, bool], None]) -> None:
        """With every kind, and with it as one of all steps."""
        for all_steps in (False, True):
            for name, make in KINDS.items():
                with self.subTest(name, all_steps=all_steps):
                    test(make(), all_steps)


class ChosenRanks(OnEveryKind):
    def test_all(self) -> None:
        self.on_each(lambda kind, steps: self.check(kind, [], all_steps=steps))

    def test_the_last(self) -> None:
        self.on_each(lambda kind, steps: self.check(
            kind, ["--ranks", str(kind.target_ranks - 1)], all_steps=steps,
            ranks=[kind.target_ranks - 1]))

    def test_two_in_another_order(self) -> None:
        self.on_each(lambda kind, steps: self.check(
            kind, ["--ranks", f"{kind.target_ranks - 1},0-0,0"], all_steps=steps,
            ranks=[0, kind.target_ranks - 1]))


class ChosenNames(OnEveryKind):
    def test_include(self) -> None:
        self.on_each(lambda kind, steps: self.check(
            kind, ["--include", "w?", "--include=st*"], all_steps=steps,
            keep=lambda name: name in ("w1", "w2", "step")))

    def test_exclude(self) -> None:
        self.on_each(lambda kind, steps: self.check(
            kind, ["--include", "*", "--exclude", "*2", "--exclude", "norm"], all_steps=steps,
            keep=lambda name: name not in ("w2", "norm")))

    def test_name_map(self) -> None:
        """Rules and globs are for the new names."""
        self.on_each(lambda kind, steps: self.check(
            kind, ["--exclude", "w2", "--exclude", "new.norm", "--allow-unmatched"], all_steps=steps,
            names={"w1": "new.w1", "w2": "new.w2", "norm": "new.norm"},
            keep=lambda name: name != "new.norm"))

    def test_all_at_once(self) -> None:
        self.on_each(lambda kind, steps: self.check(
            kind, ["--ranks", "1", "--include", "new.*", "--include", "e*", "--exclude", "*norm",
                   "--unmatched", "replicate", "--allow-unmatched"],
            all_steps=steps, names={"w1": "new.w1", "norm": "new.norm"}, ranks=[1],
            keep=lambda name: name in ("new.w1", "extra", "embedding"),
            unmatched=lambda name, _: kind.tensors[name]))


class Unmatched(OnEveryKind):
    def test_drop(self) -> None:
        self.on_each(lambda kind, steps: self.check(kind, ["--unmatched=drop"], all_steps=steps))

    def test_replicate(self) -> None:
        self.on_each(lambda kind, steps: self.check(
            kind, ["--unmatched=replicate"], all_steps=steps,
            unmatched=lambda name, _: kind.tensors[name]))

    def test_source(self) -> None:
        self.on_each(lambda kind, steps: self.check(
            kind, ["--unmatched=source"], all_steps=steps, unmatched=kind.raw))

    def test_error(self) -> None:
        for name, make in KINDS.items():
            kind = make()
            with self.subTest(name):
                if not kind.unmatched:
                    self.check(kind, ["--unmatched", "error"])
                    continue
                with scratch() as root:
                    write_ranks(root / "src", kind.files("3_9"))
                    words = [*kind.write(root, {}), "--unmatched", "error"]
                    (root / "mnt").mkdir()
                    with mountpoint_guard(root / "mnt"):
                        result = run("mount", root / "src", root / "mnt", *words)
                    self.assertEqual(result.code, 2)
                    for parameter in kind.unmatched:
                        self.assertIn(parameter, one_line(result))


class Replicas(OnEveryKind):
    """Where they are the same, it makes no difference which are read."""

    def test_same(self) -> None:
        self.on_each(lambda kind, steps: self.check(kind, ["--replicas=same"], all_steps=steps))

    def test_first(self) -> None:
        self.on_each(lambda kind, steps: self.check(
            kind, ["--replicas", "first", "--exclude", "norm"], all_steps=steps,
            keep=lambda name: name != "norm"))


if __name__ == "__main__":
    run_unittests()
