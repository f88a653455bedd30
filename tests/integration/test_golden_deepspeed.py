# SPDX-License-Identifier: Apache-2.0
"""Sets that DeepSpeed itself wrote: see tests/golden_deepspeed/README.md."""

from __future__ import annotations

import itertools
import shutil
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "data"))

from format_files import read_safetensors, same
from mounted import one_line, run, run_unittests, scratch

GOLDEN = TESTS / "golden_deepspeed"
CASES = sorted(path.parent for path in GOLDEN.glob("*/expected.safetensors"))
OPTIMIZER = "*optim_states.pt"


class GoldenDeepSpeed(unittest.TestCase):
    def test_the_engines_tensors(self) -> None:
        self.assertEqual(len(CASES), 8)
        for case in CASES:
            with self.subTest(case.name), scratch() as directory:
                result = run("export", case / "set", directory / "out", "--views", "merged-safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = (directory / "out").rglob("*.safetensors")
                same(self, read_safetensors(file)[0], read_safetensors(case / "expected.safetensors")[0])
                result = run("verify", case / "set")
                self.assertEqual(result.code, 0, result.stdout + result.stderr)

    def test_two_saves_are_refused(self) -> None:
        result = run("inspect", GOLDEN / "mix_two_saves/set")
        self.assertEqual(result.code, 2, result.stdout)
        for text in ("zero_pp_rank_0_mp_rank_00", "zero_pp_rank_1_mp_rank_00", "is 2 in the first, and 4 in the second"):
            self.assertIn(text, one_line(result))

    def test_exchanged_ranks_are_refused(self) -> None:
        """But where DeepSpeed states a wrong order, so that nothing can be compared with it."""
        for name in ("z1_elastic_w3", "z1_frozen_w3", "z2_align_w3", "z2_pad_w3"):
            for first, second in itertools.combinations(range(3), 2):
                with self.subTest(name, first=first, second=second), scratch() as directory:
                    source = directory / "set"
                    shutil.copytree(GOLDEN / name / "set", source)
                    files = sorted(source.rglob(OPTIMIZER))
                    files[first].rename(directory / "other")
                    files[second].rename(files[first])
                    (directory / "other").rename(files[second])
                    result = run("inspect", source)
                    self.assertEqual(result.code, 2, result.stdout)

    def test_files_of_another_run_are_refused(self) -> None:
        for name, other in (("z2_pad_w3", "z2_align_w3"), ("z2_align_w3", "z2_pad_w3"), ("z1_frozen_w3", "z2_pad_w3"),
                            ("z1_elastic_w3", "z1_frozen_w3"), ("z2_roundrobin_w3", "z2_pad_w3")):
            for number in range(3):
                with self.subTest(name, other=other, number=number), scratch() as directory:
                    source = directory / "set"
                    shutil.copytree(GOLDEN / name / "set", source)
                    file = sorted(source.rglob(OPTIMIZER))[number]
                    shutil.copy(sorted((GOLDEN / other / "set").rglob(OPTIMIZER))[number], file)
                    result = run("inspect", source)
                    self.assertEqual(result.code, 2, result.stdout)

    def test_a_file_that_is_missing(self) -> None:
        for case in CASES:
            for number, file in enumerate(sorted((case / "set").rglob(OPTIMIZER))):
                with self.subTest(case.name, file=file.name), scratch() as directory:
                    source = directory / "set"
                    shutil.copytree(case / "set", source)
                    sorted(source.rglob(OPTIMIZER))[number].unlink()
                    result = run("inspect", source)
                    self.assertEqual(result.code, 2, result.stdout)


if __name__ == "__main__":
    run_unittests()
