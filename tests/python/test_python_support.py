# SPDX-License-Identifier: Apache-2.0
"""Python's column of the table of sources and targets in docs/support.md: each kind of source, whole and for two ranks."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

from mounted import scratch
from python_sets import run_unittests_without_mounts
from support_kinds import KINDS, PYTHON, RULES, Kind, supported
from test_python_golden import keywords

import numpy as np
import reshardfs


class Support(unittest.TestCase):
    def test_each_row(self) -> None:
        rows = {row for row, column in supported() if column == PYTHON}
        self.assertEqual(rows - set(KINDS), set())
        self.assertTrue(rows)
        for row in sorted(rows):
            with self.subTest(row), scratch() as directory:
                self.check(KINDS[row](directory), directory)

    def check(self, kind: Kind, directory: Path) -> None:
        arrays = {name: array for name, (_, array) in kind.tensors.items()}
        cut = [name for name, array in arrays.items() if array.ndim == 2 and array.shape[0] % 2 == 0]
        rules = directory / "tp2.toml"
        rules.write_text(RULES.format(json.dumps(cut)))
        options = {name: str(value) for name, value in keywords(list(kind.options)).items()}
        with reshardfs.open(kind.source, dst_strategy=str(rules), unmatched="replicate", **options) as checkpoint:
            self.same(checkpoint.merged, arrays, kind)
            for rank in range(2):
                self.same(checkpoint.rank(rank), {name: np.split(array, 2)[rank] if name in cut else array
                                                  for name, array in arrays.items()}, kind)

    def same(self, state: reshardfs.State, want: dict[str, np.ndarray], kind: Kind) -> None:
        got = {name: bytes(memoryview(data)) for name, data in state.read().items() if name not in kind.added}
        self.assertEqual(sorted(got), sorted(want))
        for name, array in want.items():
            self.assertEqual((got[name], state[name].shape), (array.tobytes(), array.shape), name)


if __name__ == "__main__":
    run_unittests_without_mounts()
