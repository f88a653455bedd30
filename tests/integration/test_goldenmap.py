# SPDX-License-Identifier: Apache-2.0
"""Model maps against what the original converters wrote, through exports and mounts."""

from __future__ import annotations

import json
import re
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from checkpoint2 import Tensors, read_tensors  # noqa: E402
from mounted import mounted, run, run_unittests, scratch  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldenmap"


def case_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def words_of(directory: Path, case: dict[str, Any]) -> list[str]:
    words = ["--map", str(directory / "map.toml"), "--model-config", str(directory / "config.json"),
             "--map-direction", case["direction"]]
    for name, value in case.get("vars", {}).items():
        words += ["--map-var", f"{name}={value}"]
    return words


class GoldenMap(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.cases = [(path.parent, case_of(path)) for path in sorted(GOLDEN.glob("*/case.json"))]
        self.assertEqual(len(self.cases), 71)

    def assert_same(self, got: Tensors, want: Tensors) -> None:
        self.assertEqual(sorted(got), sorted(want))
        for name, (kind, array) in want.items():
            self.assertEqual(got[name][0], kind, name)
            self.assertEqual(got[name][1].shape, array.shape, name)
            self.assertEqual(got[name][1].tobytes(), array.tobytes(), name)

    def test_tensors_are_those_of_the_original(self) -> None:
        for directory, case in self.cases:
            if "refused" in case:
                continue
            want = read_tensors(directory / "expected.safetensors")
            source, words = directory / "src.safetensors", words_of(directory, case)
            out = self.root / case["name"]
            with self.subTest(case=case["name"]):
                result = run("export", source, out, "--views", "ranks", *words)
                self.assertEqual(result.code, 0, result.stderr)
                self.assert_same(read_tensors(out / "rank_0/checkpoint_0.safetensors"), want)
                with mounted(source, "--views", "ranks", *words) as mountpoint:
                    file = mountpoint / "rank_0/checkpoint_0.safetensors"
                    self.assert_same(read_tensors(file), want)

    def test_what_is_wrong_is_refused(self) -> None:
        refused = [(directory, case) for directory, case in self.cases if "refused" in case]
        self.assertEqual(len(refused), 7)
        for directory, case in refused:
            with self.subTest(case=case["name"]):
                result = run("export", directory / "src.safetensors", self.root / case["name"],
                             *words_of(directory, case))
                self.assertEqual(result.code, 2, result.stderr)
                self.assertTrue(re.search(case["refused"], result.stderr), result.stderr)
                self.assertFalse((self.root / case["name"]).exists())


if __name__ == "__main__":
    run_unittests()
