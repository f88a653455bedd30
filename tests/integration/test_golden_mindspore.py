# SPDX-License-Identifier: Apache-2.0
"""Sets that MindSpore itself wrote: see tests/golden_mindspore/README.md."""

from __future__ import annotations

import json
import shutil
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "data"))

from format_files import read_safetensors
from mounted import run, run_unittests, scratch

CASES = sorted(path.parent for path in (TESTS / "golden_mindspore").glob("*/src.ckpt"))
RUN = TESTS / "golden_mindspore/run_dir_210"


class GoldenMindspore(unittest.TestCase):
    def test_the_whole_model(self) -> None:
        self.assertTrue(CASES)
        for case in CASES:
            expected = json.loads((case / "expected.json").read_text())
            source = (case / "src", "--src-strategy", case / "src.ckpt")
            with self.subTest(case.name), scratch() as directory:
                result = run("export", source[0], directory / "out", *source[1:], "--views", "merged-safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = (directory / "out").rglob("*.safetensors")
                tensors = read_safetensors(file)[0]
                self.assertEqual({name: list(values.shape) for name, (_, values) in tensors.items()},
                                 {name: tensor["shape"] for name, tensor in expected.items()})
                for name, tensor in expected.items():
                    self.assertEqual(tensors[name][1].tobytes().hex(), tensor["hex"], name)
                for command in ("verify", "plan"):
                    self.assertEqual(run(command, *source).code, 0)

    def test_on_other_ranks_and_back(self) -> None:
        for case in CASES:
            with self.subTest(case.name), scratch() as directory:
                there, back = directory / "there", directory / "back"
                target = case / "dst.ckpt"
                result = run("export", case / "src", there, "--src-strategy", case / "src.ckpt", "--dst-strategy",
                             target, "--unmatched", "replicate", "--format", "safetensors", "--views", "ranks")
                self.assertEqual(result.code, 0, result.stderr)
                result = run("export", there, back, "--src-strategy", target, "--views", "merged-safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = back.rglob("*.safetensors")
                expected = json.loads((case / "expected.json").read_text())
                tensors = read_safetensors(file)[0]
                self.assertEqual({name: values.tobytes().hex() for name, (_, values) in tensors.items()},
                                 {name: tensor["hex"] for name, tensor in expected.items()})

    def test_the_steps_of_one_process(self) -> None:
        expected = json.loads((RUN / "expected.json").read_text())
        for step, options in (("2_4", ()), ("1_4", ("--step", "1_4")),
                              ("2_2", ("--step", "2_2", "--src-pattern", "tr-{step}.ckpt"))):
            with self.subTest(step), scratch() as directory:
                result = run("export", RUN / "run", directory / "out", *options, "--views", "merged-safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = (directory / "out").rglob("*.safetensors")
                tensors = read_safetensors(file)[0]
                of_file = {name: tensor["hex"] for name, tensor in expected[f"tr-{step}.ckpt"].items()
                           if "hex" in tensor}
                self.assertEqual({name: values.tobytes().hex() for name, (_, values) in tensors.items()}, of_file)

    def test_files_of_two_runs_are_no_steps(self) -> None:
        with scratch() as directory:
            for name in ("tr-1_4.ckpt", "tr_1-2_2.ckpt"):
                shutil.copy(RUN / "run/tr-1_4.ckpt", directory / name)
            result = run("inspect", directory)
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("2 checkpoints here", result.stderr)

    def test_a_pattern_that_names_one_rank_of_several(self) -> None:
        with scratch() as directory:
            for rank in range(2):
                (directory / f"rank_{rank}").mkdir()
                shutil.copy(RUN / "run/tr-1_4.ckpt", directory / f"rank_{rank}")
            for command in ("inspect", "verify", "plan"):
                result = run(command, directory, "--src-pattern", "rank_0/*.ckpt")
                self.assertIn("is one rank's file", result.stdout + result.stderr, command)

    def test_other_files_with_the_names_of_steps(self) -> None:
        with scratch() as directory:
            for step in ("1_4", "2_4"):
                shutil.copy(RUN / f"run/tr-{step}.ckpt", directory / f"tr-{step}.pt")
            self.assertEqual(run("inspect", directory).code, 2)


if __name__ == "__main__":
    run_unittests()
