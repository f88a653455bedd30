# SPDX-License-Identifier: Apache-2.0
"""What a map says where it does not fit, and what the installed maps leave out."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from checkpoint2 import read_tensors  # noqa: E402
from format_files import write_safetensors  # noqa: E402
from mounted import Result, run, run_unittests, scratch  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldenmap"


class Advice(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def plan(self, case: str, *words: str | Path) -> Result:
        return run("plan", GOLDEN / case / "src.safetensors", "--model-config",
                   GOLDEN / case / "config.json", *words)

    def test_another_installed_map_is_suggested(self) -> None:
        """Names of legacy MindFormers: a map of the mcore networks takes next to none of them."""
        result = self.plan("llama_legacy_back", "--map", "mindformers-qwen3")
        self.assertEqual(result.code, 2)
        self.assertIn("did you mean --map mindformers-llama", result.stderr)

    def test_a_source_without_a_known_name_is_told(self) -> None:
        source = self.root / "set.safetensors"
        write_safetensors(source, {"strange": ("F32", np.zeros(2, "<f4"))})
        result = run("plan", source, "--map", "mindformers-qwen3")
        self.assertEqual(result.code, 2)
        self.assertIn("no rule of the map takes a tensor of the source", result.stderr)
        self.assertNotIn("did you mean", result.stderr)

    def test_the_other_direction_is_suggested(self) -> None:
        result = self.plan("qwen3_mcore_back", "--map", "mindformers-qwen3", "--map-direction", "forward")
        self.assertEqual(result.code, 2)
        self.assertIn("read inverse, its rules take 19 of 19 tensors: --map-direction inverse",
                      result.stderr)

    def test_whoever_writes_a_map_gets_no_suggestion(self) -> None:
        own = self.root / "own.toml"
        own.write_text('[[map]]\nto = "y"\nfrom = "nothing.like.it"\n')
        result = self.plan("qwen3_mcore_back", "--map", own)
        self.assertEqual(result.code, 2)
        self.assertNotIn("did you mean", result.stderr)

    def test_the_way_to_give_a_variable_is_told(self) -> None:
        result = run("plan", GOLDEN / "qwen3_mcore_back/src.safetensors", "--map", "mindformers-qwen3")
        self.assertIn("unknown variable 'heads'; --model-config or --map-var can give it", result.stderr)

    def test_the_other_rule_is_named_with_its_file(self) -> None:
        (self.root / "base.toml").write_text('[[map]]\nto = "y"\nfrom = "x"\n')
        own = self.root / "own.toml"
        own.write_text('extends = "base.toml"\n[[map]]\nto = "{p:y|z}"\nfrom = "{p:y|z}"\n')
        source = self.root / "set.safetensors"
        array = ("F32", np.zeros(2, "<f4"))
        write_safetensors(source, {"x": array, "y": array})
        result = run("plan", source, "--map", own, "--map-direction", "forward")
        self.assertIn("two rules make it, the other one in line 1 of " + str(self.root / "base.toml"),
                      result.stderr)

    def test_scalars_of_the_training_are_left_out(self) -> None:
        """What every checkpoint of a training has must not keep its weights from being shown."""
        source = self.root / "set.safetensors"
        tensors = read_tensors(GOLDEN / "qwen3_mcore_back/src.safetensors")
        scalars = {name: ("I32", np.array([7], "<i4")) for name in ("global_step", "epoch_num")}
        write_safetensors(source, dict(tensors) | scalars)
        result = run("export", source, self.root / "out", "--map", "mindformers-qwen3",
                     "--map-var", "release=1.7",
                     "--model-config", GOLDEN / "qwen3_mcore_back/config.json")
        self.assertEqual(result.code, 0, result.stderr)
        shown = read_tensors(self.root / "out/rank_0/checkpoint_0.safetensors")
        self.assertEqual(sorted(shown),
                         sorted(read_tensors(GOLDEN / "qwen3_mcore_back/expected.safetensors")))


if __name__ == "__main__":
    run_unittests()
