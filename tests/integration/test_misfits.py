# SPDX-License-Identifier: Apache-2.0
"""Layouts that do not fit their parameter, on each side: nothing is mounted, and the one line on
standard error has the parameter, its shape and both layouts. And refusals that are about several
parameters, or about names."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

# First, because it finds the modules of tests/data.
from test_scenarios import random_tensors, write_ranks

import numpy as np
from ckpt_format import Record, bytes_field, record_of
from mounted import is_mounted, mountpoint_guard, one_line, run, run_unittests, scratch

Json = dict[str, Any]
Words = list[str | Path]
W = random_tensors({"w": (8, 6)})["w"]


def layout(matrix: list[int], tensor_map: list, **more: Any) -> Json:
    # An optimizer cut counts with a step alone.
    step = 1 if more.get("opt_weight_shard_size") else 0
    return {"dev_matrix": matrix, "tensor_map": tensor_map, "field": 0,
            "opt_weight_shard_step": step, "opt_weight_shard_size": 0, **more}


ROWS_OF_2 = layout([2], [0, -1])


def strategy(items: dict[str, Json]) -> str:
    return json.dumps({"current_stage": 0, "parallel_layout_item": items,
                       "parallel_strategy_item": {}})


def rules(devices: int, lines: str) -> str:
    return f'[devices]\naxes = ["d={devices}"]\n\n[[rule]]\nmatch = "w"\ncut = ["d"]\n{lines}\n'


def records(array: np.ndarray, name: str = "w") -> list[Record]:
    return [record_of(name, "Float32", array)]


def two_ranks() -> dict[str, list[Record]]:
    return {f"rank_{rank}/a.ckpt": records(W[4 * rank:4 * rank + 4]) for rank in range(2)}


class Misfits(unittest.TestCase):
    def refused(self, files: dict[str, list[Record]], options: dict[str, str | Json],
                *words: str) -> str:
        """A strategy is rules, the layout of "w", layouts by name, or what stands as it is."""
        with scratch() as root:
            write_ranks(root / "set", files)
            (root / "mnt").mkdir()
            arguments: Words = ["mount", root / "set", root / "mnt"]
            for option, value in options.items():
                arguments.append(option)
                if option.endswith("-strategy") and not isinstance(value, str):
                    value = strategy({"w": value} if "dev_matrix" in value else value)
                if not option.endswith("-strategy") or "\n" not in value and "{" not in value:
                    arguments.append(value)
                    continue
                path = root / f"{option[2:5]}.{'json' if value.startswith('{') else 'toml'}"
                path.write_text(value)
                arguments.append(path)
            with mountpoint_guard(root / "mnt"):
                result = run(*arguments)
                self.assertFalse(is_mounted(root / "mnt"))
            self.assertEqual(result.code, 2, result.stderr)
            line = one_line(result)
            for word in words:
                self.assertIn(word, line)
            return line

    def target_refused(self, target: str | Json, problem: str, text: str) -> None:
        self.refused(two_ranks(), {"--src-strategy": ROWS_OF_2, "--dst-strategy": target},
                     "parameter 'w'", problem, "[8, 6]",
                     "source: device matrix [2], tensor map [0, -1];", f"target: {text}",
                     "--dst-strategy")

    def source_refused(self, source: str | Json, problem: str, text: str,
                       files: dict[str, list[Record]] | None = None, shape: str = "[4, 6]") -> None:
        self.refused(files or two_ranks(),
                     {"--src-strategy": source, "--dst-strategy": layout([3], [-1, 0])},
                     "parameter 'w'", problem, f"slice {shape}", f"source: {text}",
                     "target: device matrix [3], tensor map [-1, 0]", "--src-strategy")


class Target(Misfits):
    def test_a_dimension_that_does_not_divide(self) -> None:
        self.target_refused(layout([5], [0, -1]), "dimension 0 of its shape [8, 6] has 8 elements, "
                            "which cannot be cut into 5 equal parts",
                            "device matrix [5], tensor map [0, -1]")
        self.target_refused(layout([2, 4], [1, 0]), "4 equal parts",
                            "device matrix [2, 4], tensor map [1, 0]")

    def test_an_optimizer_cut_that_does_not_divide(self) -> None:
        self.target_refused(layout([3, 2], [0, -1], opt_weight_shard_size=3), "6 equal parts",
                            "device matrix [3, 2], tensor map [0, -1], optimizer shard 3")

    def test_an_optimizer_cut_of_more_parts_than_devices(self) -> None:
        """The rows of the others would be in no file."""
        self.target_refused(layout([2, 2], [1, -1], opt_weight_shard_size=4),
                            "into 4 parts, more than there are devices that hold it (2)",
                            "device matrix [2, 2], tensor map [1, -1], optimizer shard 4")

    def test_another_number_of_dimensions(self) -> None:
        self.target_refused(layout([2], [0]), "for 1 dimension", "device matrix [2], tensor map [0]")
        self.target_refused(layout([2], [0, -1, -1]), "for 3 dimensions", "device matrix [2]")

    def test_an_expanded_map_that_does_not_fit(self) -> None:
        self.target_refused(layout([2, 2], [1, 0, -1], tensor_shape=[2, 5, 6]),
                            "expanded JSON layout does not fit", "device matrix [2, 2]")

    def test_an_expanded_map_that_fits_in_two_ways(self) -> None:
        """The axis of one device may belong to either dimension."""
        files = {"rank_0/a.ckpt": records(W)}
        self.refused(files, {"--dst-strategy": layout([1], [-1, 0, -1], tensor_shape=[8, 1, 6])},
                     "parameter 'w'", "fits in several ways", "shape [8, 6]")

    def test_lengths_that_do_not_add_up(self) -> None:
        self.target_refused(rules(3, "uneven = [[3, 3, 1]]"), "has 8 elements, but the parts' "
                            "lengths add up to 7",
                            "device matrix [3], tensor map [0, -1], dimension 0 in lengths "
                            "[3, 3, 1]")
        self.target_refused(layout([3], [0, -1], param_split_shape=[[3, 3, 3]]),
                            "lengths add up to 9", "device matrix [3], tensor map [0, -1], "
                            "param_split_shape [3, 3, 3]")

    def test_another_number_of_lengths(self) -> None:
        self.target_refused(layout([3], [0, -1], param_split_shape=[[4, 4]]),
                            "dimension 0 is cut into 3 parts, but 2 lengths are given",
                            "device matrix [3]")

    def test_an_optimizer_cut_of_uneven_parts(self) -> None:
        self.target_refused(
            layout([2, 2], [0, -1], param_split_shape=[[5, 3]], opt_weight_shard_size=2),
            "has a part of 5 elements, which the optimizer cannot cut into 2 equal parts",
            "device matrix [2, 2], tensor map [0, -1], optimizer shard 2, param_split_shape [5, 3]")

    def test_fields_that_do_not_divide(self) -> None:
        self.target_refused(rules(2, "field = 3"), "equal parts of 3 fields",
                            "device matrix [2], tensor map [0, -1], 3 fields")

    def test_fields_and_lengths(self) -> None:
        self.target_refused(layout([2], [0, -1], field=2, param_split_shape=[[5, 3]]),
                            "cannot be cut by fields and unevenly", "device matrix [2]")

    def test_a_state_that_follows_its_weight(self) -> None:
        """It has no layout of its own: what counts is the weight's."""
        files = {path: [*found, *records(found[0].array(), "adam_m.w")]
                 for path, found in two_ranks().items()}
        self.refused(files, {"--src-strategy": ROWS_OF_2, "--dst-strategy": layout([5], [0, -1])},
                     "parameter 'w'", "source: device matrix [2]")

    def test_a_source_without_a_strategy(self) -> None:
        self.refused({"rank_0/a.ckpt": records(W)}, {"--dst-strategy": layout([5], [0, -1])},
                     "parameter 'w'", "shape [8, 6]", "source: device matrix [1], tensor map "
                     "[-1, -1];", "target: device matrix [5]")

    def test_joined_slices(self) -> None:
        self.refused(two_ranks(), {"--src-join": "w", "--dst-strategy": layout([5], [0, -1])},
                     "parameter 'w'", "shape [8, 6]", "source: device matrix [2]",
                     "dimension 0 in lengths [4, 4]", "target: device matrix [5]")

    def test_sizes(self) -> None:
        self.refused(two_ranks(), {"--src-strategy": ROWS_OF_2, "--dst-strategy": "tp=3"},
                     "parameter 'w'", "tp=3 does not divide 8, dimension 0 of its shape [8, 6]",
                     "2, 4 and 8 fit every parameter")

    def test_sizes_without_a_source_strategy(self) -> None:
        self.refused({"rank_0/a.ckpt": records(W)}, {"--dst-strategy": "tp=2"}, "'tp=2'",
                     "how to cut 1 parameter: 'w'", "--src-strategy")

    def test_sizes_that_are_wrong(self) -> None:
        for text in ("tp=0", "tp=x", "xp=2", "tp=2,tp=2", "tp=2,", "dp=2048,tp=2048"):
            with self.subTest(text):
                self.refused(two_ranks(), {"--src-strategy": ROWS_OF_2, "--dst-strategy": text},
                             "tp" if "dp" in text else text)


class Source(Misfits):
    def test_another_number_of_dimensions(self) -> None:
        self.source_refused(layout([2], [0]), "for 1 dimension", "device matrix [2], tensor map [0]")

    def test_slices_of_different_shapes(self) -> None:
        files = {"rank_0/a.ckpt": records(W[:4]), "rank_1/a.ckpt": records(W[:5])}
        self.source_refused(ROWS_OF_2, "the slice of rank 1 should have the shape [4, 6] (rank 0: "
                            "Float32 [4, 6]; rank 1: Float32 [5, 6]",
                            "device matrix [2], tensor map [0, -1]", files)

    def test_lengths_of_other_slices(self) -> None:
        self.source_refused(rules(2, "uneven = [[5, 3]]"),
                            "the slice of rank 0 should have the shape [5, 6]",
                            "device matrix [2], tensor map [0, -1], dimension 0 in lengths [5, 3]")

    def test_another_number_of_lengths(self) -> None:
        self.source_refused(layout([2], [0, -1], param_split_shape=[[4, 2, 2]]),
                            "cut into 2 parts, but 3 lengths are given",
                            "device matrix [2], tensor map [0, -1], param_split_shape [4, 2, 2]")

    def test_fields_that_do_not_divide(self) -> None:
        self.source_refused(rules(2, "field = 3"), "equal parts of 3 fields",
                            "device matrix [2], tensor map [0, -1], 3 fields")

    def test_more_optimizer_parts_than_devices(self) -> None:
        self.source_refused(layout([2], [0, -1], opt_weight_shard_size=2),
                            "into 2 parts, more than there are devices that hold it (1)",
                            "device matrix [2], tensor map [0, -1], optimizer shard 2")

    def test_balanced_cuts_with_a_part_missing(self) -> None:
        self.refused({"rank_0/a.ckpt": records(W[:4])},
                     {"--src-strategy": rules(2, 'uneven = "balanced"')}, "parameter 'w'",
                     "no source rank holds part 1 of dimension 0", "slice [4, 6]",
                     "dimension 0 balanced", "target: whole on one rank")

    def test_an_expanded_map_that_does_not_fit(self) -> None:
        self.source_refused(layout([2], [0, -1, -1], tensor_shape=[2, 7, 6]),
                            "expanded JSON layout does not fit", "device matrix [2]")

    def test_absurdly_many_fields(self) -> None:
        files = {f"rank_{rank}/a.ckpt": [Record("w", "Int8", (4 << 20, 1), bytes(4 << 20))]
                 for rank in range(2)}
        self.source_refused(layout([2], [0, -1], field=4 << 20), f"{4 << 20} fields are too many",
                            "device matrix [2]", files, shape=f"[{4 << 20}, 1]")

    def test_another_stage_than_the_files(self) -> None:
        both = {"0-v": layout([1], [-1, -1]), "1-w": layout([1], [-1, -1])}
        files = {"rank_0/a.ckpt": records(W), "rank_1/a.ckpt": records(W, "v")}
        line = self.refused(files, {"--src-strategy": both, "--dst-strategy": ROWS_OF_2},
                            "another pipeline stage", "target: ", "--src-strategy")
        self.assertRegex(line, "parameter '[vw]'")

    def test_the_destination_by_what_is_known_of_it(self) -> None:
        wrong = {"--src-strategy": layout([2], [0])}
        self.refused(two_ranks(), wrong, "target: whole on one rank")
        self.refused(two_ranks(), wrong | {"--dst-strategy": "tp=2"}, "target: sizes 'tp=2'")
        self.refused(two_ranks(), wrong | {"--dst-strategy": rules(2, "")},
                     "target: rules of /")
        self.refused(two_ranks(), wrong | {"--dst-strategy": {"v": ROWS_OF_2}},
                     "target: no layout")


class Joining(Misfits):
    def test_a_scalar(self) -> None:
        files = {f"rank_{r}/a.ckpt": records(np.array(1, "<f4")) for r in range(2)}
        self.refused(files, {"--src-join": "w"}, "parameter 'w'", "a scalar cannot be joined")

    def test_a_rank_without_a_slice(self) -> None:
        files = two_ranks() | {"rank_2/a.ckpt": records(W, "v"), "rank_0/a.ckpt":
                               [*records(W[:4]), *records(W, "v")]}
        self.refused(files, {"--src-join": "w"}, "parameter 'w'", "joined from 3 ranks, but 2 have")


class Names(Misfits):
    def name_map(self, text: str, *words: str) -> None:
        with scratch() as root:
            path = root / "names.json"
            path.write_text(text)
            self.refused({"rank_0/a.ckpt": [*records(W), *records(W, "v")]},
                         {"--name-map": str(path)}, *words)

    def test_two_names_become_one(self) -> None:
        self.name_map('{"w": "v"}', "parameter 'v'", "'w' and 'v' would both get this name",
                      "--name-map")

    def test_what_is_no_map(self) -> None:
        self.name_map("{", "names.json", "is not valid JSON")
        self.name_map("[]", "names.json", "must be a JSON object")
        for value in ('""', json.dumps("x" * 5000)):
            self.name_map(f'{{"w": {value}}}', "names.json", "parameter 'w'", "1 to 4096 bytes")
        for value in ("5", "null", "{}"):
            self.name_map(f'{{"w": {value}}}', "names.json", "parameter 'w'", "expected a text")
        self.name_map('{"w": "a", "w": "b"}', "names.json", "parameter 'w'", "appears twice")

    def test_a_parameter_that_cannot_be_replicated(self) -> None:
        """In the destination's strategy alone, and not the same on all ranks."""
        files = {f"rank_{rank}/a.ckpt": [*records(W[4 * rank:4 * rank + 4]),
                                         *records(np.full(2, rank, "<f4"), "own")]
                 for rank in range(2)}
        self.refused(files, {"--src-strategy": ROWS_OF_2, "--unmatched": "replicate",
                             "--dst-strategy": {"w": ROWS_OF_2, "own": layout([2], [-1])}},
                     "1 parameter (own)", "only one of the two strategies")

    def test_an_item_of_a_strategy_that_is_too_long(self) -> None:
        with scratch() as root:
            path = root / "long.ckpt"
            path.write_bytes(bytes_field(3, bytes_field(1, bytes(2 << 20))))
            self.refused(two_ranks(), {"--src-strategy": str(path)}, "long.ckpt",
                         "an item of the strategy has")


if __name__ == "__main__":
    run_unittests()
