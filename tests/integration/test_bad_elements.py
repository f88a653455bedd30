# SPDX-License-Identifier: Apache-2.0
"""`reshardfs inspect --stats` on NaN and infinity: the last line, --only-bad and --fail-on-nan."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from command_tests import CommandTest, on_terminal, run_command_tests  # noqa: E402
from mounted import scratch  # noqa: E402


class BadElements(CommandTest):
    command = "inspect"

    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())

    def file(self, **arrays: list[float]) -> Path:
        path = self.directory / "m.ckpt"
        path.write_bytes(encode_checkpoint([record_of(name, "Float32", np.array(values, "<f4"))
                                            for name, values in arrays.items()]))
        return path

    def last_line(self, path: Path, *words: str | Path, code: int = 0) -> str:
        return self.says(code, path, "--stats", *words).splitlines()[-1]

    def test_none(self) -> None:
        path = self.file(w=[1, 2], v=[3])
        self.assertEqual(self.last_line(path), "2 parameters without NaN or Inf")
        self.assertEqual(self.last_line(path, "--fail-on-nan"), "2 parameters without NaN or Inf")
        self.assertNotIn("MIN", self.says(0, path, "--stats", "--only-bad"))

    def test_first_of_one(self) -> None:
        path = self.file(w=[1, 2], v=[0, 0, 0, np.nan, 7, np.nan])
        line = "1 of 2 parameters has NaN: v, 2 elements, first at [3], rank 0"
        self.assertEqual(self.last_line(path), line)
        self.assertEqual(self.last_line(path, "--fail-on-nan", code=1), line)
        table = self.says(0, path, "--stats", "--only-bad")
        self.assertIn("\nv ", table)
        self.assertNotIn("\nw ", table)

    def test_infinity_counts_too(self) -> None:
        path = self.file(w=[1, -np.inf])
        self.assertEqual(self.last_line(path, "--fail-on-nan", code=1),
                         "1 of 1 parameter has Inf: w, 1 element, first at [1], rank 0")

    def test_several(self) -> None:
        path = self.file(a=[np.nan], b=[1], c=[np.inf], d=[np.nan])
        self.assertEqual(self.last_line(path), "3 of 4 parameters have NaN or Inf: a, 1 element, "
                         "first at [0], rank 0; 2 more, which --only-bad lists")

    def test_json(self) -> None:
        path = self.file(w=[1], v=[0, np.inf])
        found = json.loads(self.says(1, path, "--stats", "--json", "--only-bad", "--fail-on-nan"))
        (entry,) = found["statistics"]
        self.assertEqual((entry["name"], entry["first_bad"]), ("v", {"index": [1], "rank": 0}))
        both = json.loads(self.says(0, path, "--stats", "--json"))["statistics"]
        self.assertNotIn("first_bad", both[0])

    def test_place_in_the_whole_parameter(self) -> None:
        """Of all elements that are damaged, the first in the whole parameter is named, and the
        rank whose file has it."""
        whole = np.arange(16, dtype="<f4").reshape(4, 4)
        whole[0, 3] = whole[1, 0] = np.nan
        for rank, columns in enumerate((slice(0, 2), slice(2, 4))):
            directory = self.directory / f"set/rank_{rank}"
            directory.mkdir(parents=True)
            (directory / "a.ckpt").write_bytes(encode_checkpoint(
                [record_of("w", "Float32", np.ascontiguousarray(whole[:, columns]))]))
        rules = self.directory / "rules.toml"
        rules.write_text('[devices]\naxes = ["tp=2"]\n[[rule]]\nmatch = "w"\ncut = ["", "tp"]\n')
        self.assertEqual(self.last_line(self.directory / "set", "--src-strategy", rules),
                         "1 of 1 parameter has NaN: w, 2 elements, first at [0, 3], rank 1")
        # Without a strategy, in the slices.
        self.assertEqual(self.last_line(self.directory / "set"),
                         "1 of 1 parameter has NaN: w, 1 element, first at [1, 0], rank 0")

    def test_narrow_terminals_keep_the_numbers(self) -> None:
        path = self.file(**{"model.layers.0.attention.wq.weight": [1, 2, 3]})
        lines = on_terminal("inspect", path, "--stats", columns=80)
        self.assertTrue(any("MEAN" in line for line in lines), lines)
        for line in lines:
            self.assertLessEqual(len(line), 80)


if __name__ == "__main__":
    run_command_tests()
