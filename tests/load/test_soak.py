#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""That the soak goes on where it stopped, and forgets nothing that was wrong."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import soak  # noqa: E402


class Stub(soak.Soak):
    """Whose rounds count, and end with a code."""

    def __init__(self, directory: Path, rounds: int) -> None:
        super().__init__(argparse.Namespace(state=directory, seed=7, minutes=60, rounds=rounds))
        self.done: list[tuple[str, int]] = []
        self.codes: dict[int, int] = {}

    def words(self, kind: str, seed: int, counts: Path) -> list[str]:
        code = self.codes.get(self.state.kept["rounds"], 0)
        self.done.append((kind, seed))
        text = json.dumps({"reads": 5, "wrong": int(code == 1)})
        return [sys.executable, "-c", f"import sys; open({str(counts)!r}, 'w').write({text!r}); "
                                      f"print('said'); sys.exit({code})"]

    def quiet(self) -> Stub:
        with contextlib.redirect_stdout(io.StringIO()):
            self.run()
        return self


class SoakTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def test_goes_on(self) -> None:
        whole = Stub(self.directory / "whole", 6).quiet()
        parts = [Stub(self.directory / "parts", 2).quiet() for _ in range(3)]
        self.assertEqual([done for part in parts for done in part.done], whole.done)
        self.assertGreater(len({kind for kind, _ in whole.done}), 1)
        self.assertIn("in all: 30 verified reads, 0 wrong", parts[-1].state.summary())
        self.assertEqual(parts[-1].state.kept["rounds"], 6)

    def test_keeps_what_was_wrong(self) -> None:
        run = Stub(self.directory, 2)
        run.codes = {1: 1}
        run.quiet()
        again = Stub(self.directory, 1).quiet()
        self.assertEqual(again.state.kept["failed"], [1])
        self.assertEqual((self.directory / "round-1.log").read_text(), "said\n")
        self.assertIn("15 verified reads, 1 wrong", again.state.summary())

    def test_a_round_that_was_broken_off_is_the_next_one(self) -> None:
        broken = Stub(self.directory, 3)
        broken.stops = 2
        with contextlib.redirect_stdout(io.StringIO()):
            broken.round()
        self.assertEqual(broken.state.kept["rounds"], 0)
        self.assertEqual(Stub(self.directory, 1).quiet().done, broken.done)


if __name__ == "__main__":
    unittest.main()
