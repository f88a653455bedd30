# SPDX-License-Identifier: Apache-2.0
"""verify --map: what a map reads once for several places has to be one value."""

from __future__ import annotations

import json
import unittest

import numpy as np
from format_files import write_safetensors
from mounted import Result, run, run_unittests, scratch

REPEATED = """
[[map]]
to = "fused"
from = "plain"
shape = "[2, 3]"
ops = ["repeat 0 2", "pad 0 5 7"]
to_shape = "[5, 3]"
"""
FILLED = """
[[map]]
to = "wide"
from = "plain"
shape = "[2, 3]"
ops = ["fill 0 4 7"]
to_shape = "[4, 3]"

[[map]]
to = "zeros"
from = "plain"
shape = "[2, 3]"
ops = ["slice 0 0:0", "fill 0 2"]
to_shape = "[2, 3]"
optional = true
"""
TIED = """
[[map]]
to = "table"
from = "embed"

[[alias]]
side = "from"
name = "head"
of = "embed"
"""
PLAIN = np.array([[1, 2, 3], [4, 5, 6]], "<i4")
FUSED = np.concatenate([PLAIN.repeat(2, axis=0), np.full((1, 3), 7, "<i4")])


class VerifyMap(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def verify(self, rules: str, tensors: dict[str, np.ndarray], *words: str) -> Result:
        (self.root / "map.toml").write_text(rules)
        types = {"<i4": "I32", "<f4": "F32"}
        write_safetensors(self.root / "set.safetensors",
                          {name: (types[array.dtype.str], array) for name, array in tensors.items()})
        return run("verify", self.root / "set.safetensors", "--map", self.root / "map.toml", *words)

    def problems(self, result: Result) -> list[dict[str, object]]:
        return json.loads(result.stdout)["problems"]

    def test_repeated_elements_are_the_first_one(self) -> None:
        result = self.verify(REPEATED, {"fused": FUSED})
        self.assertEqual(result.code, 0, result.stderr)
        wrong = FUSED.copy()
        wrong[1, 2] = 99
        result = self.verify(REPEATED, {"fused": wrong}, "--json")
        self.assertEqual(result.code, 1, result.stderr)
        problem, = self.problems(result)
        self.assertEqual((problem["kind"], problem["parameter"]), ("map", "fused"))
        self.assertEqual(problem["differing_bytes"], 1)
        self.assertIn("repeat (line 2 of", str(problem["message"]))

    def test_padding_may_be_anything(self) -> None:
        padded = FUSED.copy()
        padded[4] = -1
        result = self.verify(REPEATED, {"fused": padded})
        self.assertEqual(result.code, 0, result.stdout)

    def test_what_is_filled_in_is_there(self) -> None:
        wide = np.concatenate([PLAIN, np.full((2, 3), 7, "<i4")])
        zeros = np.zeros((2, 3), "<f4")  # of its own type
        for tensors in ({"wide": wide}, {"wide": wide, "zeros": zeros}):
            result = self.verify(FILLED, tensors)
            self.assertEqual(result.code, 0, result.stdout)
        wrong = zeros.copy()
        wrong[1, 1] = 1
        for tensors, name, line in (({"wide": wide, "zeros": wrong}, "zeros", 9), ({"wide": wide + (wide == 7)}, "wide", 2)):
            result = self.verify(FILLED, tensors, "--json")
            self.assertEqual(result.code, 1, result.stderr)
            problem, = self.problems(result)
            self.assertEqual((problem["kind"], problem["parameter"]), ("map", name))
            self.assertIn(f"has other elements than the map fills in (line {line} of", str(problem["message"]))
            shown = run("export", self.root / "set.safetensors", self.root / "out", "--map", self.root / "map.toml")
            self.assertEqual(shown.code, 2, shown.stderr)
            self.assertIn(f"parameter '{name}': has other elements than the map fills in", shown.stderr)
            self.assertIn(f"--drop '{name}' leaves it out", shown.stderr)

    def test_an_alias_is_what_it_stands_for(self) -> None:
        embed = np.arange(12, dtype="<f4").reshape(4, 3)
        result = self.verify(TIED, {"embed": embed, "head": embed})
        self.assertEqual(result.code, 0, result.stdout)
        result = self.verify(TIED, {"embed": embed, "head": embed + 1}, "--json")
        self.assertEqual(result.code, 1, result.stderr)
        problem, = self.problems(result)
        self.assertEqual((problem["kind"], problem["parameter"]), ("map", "head"))
        self.assertIn("differs from 'embed', of which it is an alias (line 6 of",
                      str(problem["message"]))

    def test_an_alias_of_another_shape_is_told(self) -> None:
        result = self.verify(TIED, {"embed": np.zeros((4, 3), "<f4"), "head": np.zeros(3, "<f4")})
        self.assertNotEqual(result.code + len(result.stderr), 0)
        self.assertIn("head", result.stdout + result.stderr)

    def test_a_map_that_does_not_fit_is_a_problem(self) -> None:
        result = self.verify(REPEATED, {"fused": FUSED, "other": PLAIN}, "--json")
        self.assertEqual(result.code, 1, result.stderr)
        problem, = self.problems(result)
        self.assertEqual((problem["kind"], problem["file"]), ("map", str(self.root / "map.toml")))
        self.assertIn("other: no rule uses it", str(problem["message"]))


if __name__ == "__main__":
    run_unittests()
