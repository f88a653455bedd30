# SPDX-License-Identifier: Apache-2.0
"""Strategies that are damaged, impossible, or not for this set: exit code 2, one line that says
what is wrong, nothing left behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

# First, because it finds the modules of tests/data.
from refusals import WEIGHT, Options, Refusals, Word

from ckpt_format import bytes_field, varint
from layouts import Layout
from make_checkpoint import Parallel, make_set
from mounted import run, run_unittests, scratch
from strategy_files import Strategy, read_strategy, write_protobuf

SIDES = ("src", "dst")


class Strategies(Refusals):
    def own(self, side: str) -> Path:
        return self.made.directory / f"{side}_strategy.ckpt"

    def on(self, side: str, path: Path) -> Options:
        return self.strategies(**{side: path})

    def changed(self, side: str, change: Callable[[Layout], Layout]) -> Options:
        """WEIGHT's layout is another one on one side."""
        path = self.made.directory / "changed.ckpt"
        strategy = read_strategy(self.own(side))
        strategy.stages[0][WEIGHT] = change(strategy.stages[0][WEIGHT])
        write_protobuf(strategy, path)
        return self.on(side, path)

    def of_other_set(self, side: str, parallel: Parallel) -> Options:
        """The strategy of another number of ranks on one side."""
        path = self.made.directory / "other.ckpt"
        with scratch() as directory:
            made = make_set(directory, parallel, parallel, layers=1)
            shutil.copy(made.src_strategy, path)
        return self.on(side, path)


class NotForThisSet(Strategies):
    def test_destination_does_not_divide(self) -> None:
        self.refused(tuple(self.made.model.tensors), "13",
                     options=self.of_other_set("dst", Parallel(tp=13)))

    def test_more_ranks_than_files(self) -> None:
        self.refused("rank", options=self.of_other_set("src", Parallel(tp=8)))

    def test_fewer_ranks_than_files(self) -> None:
        """Served from two of four files it would be a model of half the size."""
        self.refused("rank", options=self.of_other_set("src", Parallel(tp=2)))

    def test_swapped(self) -> None:
        swapped = self.strategies(src=self.made.dst_strategy, dst=self.made.src_strategy)
        self.refused("look swapped", options=swapped)

    def test_swapped_the_other_way(self) -> None:
        made = self.other_set(Parallel(tp=2), Parallel(tp=4), layers=1)
        swapped = self.strategies(src=made.dst_strategy, dst=made.src_strategy)
        self.refused("rank", options=swapped)

    def test_other_number_of_dimensions(self) -> None:
        for side in SIDES:
            for tensor_map in (((0,),), ((0,), (), ())):
                with self.subTest(side=side, tensor_map=tensor_map):
                    options = self.changed(side, lambda old: replace(old, tensor_map=tensor_map))
                    self.refused(WEIGHT, options=options)

    def test_optimizer_cut_in_more_parts_than_devices(self) -> None:
        """Some parts would be nowhere."""
        self.refused(WEIGHT, options=self.changed("src", lambda old: replace(old, opt_size=3)))

    def test_nothing_in_common(self) -> None:
        """All that would be left of the model is its step counter."""
        path = self.made.directory / "strangers.ckpt"
        layouts = read_strategy(self.made.dst_strategy).stages[0]
        write_protobuf(Strategy([{f"x.{name}": layouts[name] for name in layouts}]), path)
        self.refused("param", options=self.strategies(dst=path))


class Impossible(Strategies):
    def write_raw_axis(self, side: str, axis: int, path: Path) -> None:
        """A tensor map with a number that Layout cannot hold."""
        strategy = read_strategy(self.own(side))
        matrix = strategy.stages[0].pop(WEIGHT).device_matrix
        write_protobuf(strategy, path)
        layout = bytes_field(1, b"".join(b"\x08" + varint(size) for size in matrix))
        layout += bytes_field(2, b"\x08" + varint(axis) + b"\x08" + varint(-1))
        layout += b"\x28\x00\x30\x00\x38\x00"
        item = bytes_field(3, bytes_field(1, WEIGHT.encode()) + bytes_field(2, layout))
        path.write_bytes(path.read_bytes() + item)

    def test_axis_outside_the_device_matrix(self) -> None:
        path = self.made.directory / "changed.ckpt"
        for axis in (7, 64, -2, 1 << 40):
            for side in SIDES:
                with self.subTest(axis=axis, side=side):
                    self.write_raw_axis(side, axis, path)
                    self.refused("changed.ckpt", WEIGHT, str(axis), options=self.on(side, path))

    def test_axis_used_twice(self) -> None:
        for side in SIDES:
            options = self.changed(side, lambda old: replace(old, tensor_map=((0,), (0,))))
            self.refused("changed.ckpt", WEIGHT, options=options)

    def test_device_matrix(self) -> None:
        for matrix in ((0,), (-4,), (1 << 40, 1 << 40), ()):
            for side in SIDES:
                with self.subTest(matrix=matrix, side=side):
                    options = self.changed(side, lambda _: Layout(matrix, ((), ())))
                    self.refused("changed.ckpt", WEIGHT, options=options)

    def test_other_number_of_devices(self) -> None:
        for side in SIDES:
            options = self.changed(side, lambda old: replace(old, device_matrix=(2, 16)))
            self.refused("changed.ckpt", options=options)


class Unreadable(Strategies):
    """On either side; the message names the file."""

    def check_file(self, path: Path, *words: Word) -> None:
        for side in SIDES:
            with self.subTest(path.name, side=side):
                self.refused(path.name, *words, options=self.on(side, path))

    def written(self, name: str, data: bytes) -> Path:
        path = self.made.directory / name
        path.write_bytes(data)
        return path

    def test_missing_file(self) -> None:
        """The message says which option names it."""
        path = self.made.directory / "nothing.ckpt"
        for side in SIDES:
            self.refused(str(path), f"--{side}-strategy takes", options=self.on(side, path))
        for option in ("--name-map", "--config"):
            self.refused(str(path), option, options=[*self.strategies(), option, path])

    def test_help_lists_the_choices_once(self) -> None:
        self.assertEqual(run("plan", "--help").stdout.count("replicate"), 2, "name and sentence")

    def test_empty_file(self) -> None:
        for name in ("empty.ckpt", "empty.json"):
            self.check_file(self.written(name, b""))

    def test_empty_directory(self) -> None:
        path = self.made.directory / "no_stages"
        path.mkdir()
        self.check_file(path)

    def test_garbage(self) -> None:
        wrong_types = b'{"parallel_layout_item": {"w": {"dev_matrix": "x", "tensor_map": 5}}}'
        for name, data in (
            ("noise.ckpt", b"\xff\x00garbage" * 50),
            ("text.ckpt", b"hello\n"),
            ("broken.json", b'{"parallel_layout_item": {'),
            ("list.json", b"[]"),
            ("other.json", b'{"a": 1}'),
            ("deep.json", b"[" * 100000),
            ("types.json", wrong_types),
        ):
            self.check_file(self.written(name, data))

    def test_truncated(self) -> None:
        data = self.made.src_strategy.read_bytes()
        for length in (len(data) - 1, len(data) // 2, 5):
            self.check_file(self.written("cut.ckpt", data[:length]))

    def test_checkpoint_in_place_of_a_strategy(self) -> None:
        self.check_file(self.source(0))

    def test_protobuf_under_a_json_name_and_the_reverse(self) -> None:
        self.check_file(self.written("protobuf.json", self.made.src_strategy.read_bytes()))
        json_file = self.made.directory / "src_strategy.json"
        self.check_file(self.written("json.ckpt", json_file.read_bytes()))

    def test_no_regular_file(self) -> None:
        path = self.made.directory / "fifo.ckpt"
        os.mkfifo(path)
        self.check_file(path)


if __name__ == "__main__":
    run_unittests()
