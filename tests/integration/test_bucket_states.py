# SPDX-License-Identifier: Apache-2.0
"""States that Megatron-Core's distributed optimizer saves without names: maps carry them where their order is proven
by the weights, and otherwise they stay what they are."""

from __future__ import annotations

import os
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors  # noqa: E402
from mounted import run, run_unittests, scratch  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldendcp"
STAGES, EXPERTS = "mcore_buckets_stages", "mcore_buckets_experts"
NORM = "decoder.final_layernorm.weight"
EMBEDDING = "embedding.word_embeddings.weight"
SIZES = ("vocab=60", "groups=2", "head_dim=8", "heads=4")


class BucketStates(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def export(self, source: Path, *words: str) -> tuple[Tensors, str]:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *words)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(out)[0], result.stderr

    def copy(self, name: str) -> Path:
        return Path(shutil.copytree(GOLDEN / name / "src", self.root / name))

    def with_another_norm(self) -> Path:
        """A set of which a weight is of another save; its state in float32 has other bytes."""
        source = self.copy(EXPERTS)
        _, array = read_safetensors(GOLDEN / EXPERTS / "expected.safetensors")[0][NORM]
        wanted = np.ascontiguousarray(array).tobytes()
        places = [(path, path.read_bytes().find(wanted)) for path in sorted(source.glob("iter_*/*.distcp"))]
        ((path, at),) = [(path, at) for path, at in places if at >= 0]
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        time = path.stat().st_mtime_ns
        path.write_bytes(bytes(data))
        os.utime(path, ns=(time, time))
        return source

    def test_maps_carry_them(self) -> None:
        words = [word for text in SIZES for word in ("--map-var", text)]
        found, said = self.export(GOLDEN / EXPERTS / "src", "--map", "megatron-qwen3-moe", *words)
        self.assertEqual(said, "")
        expected, _ = read_safetensors(GOLDEN / EXPERTS / "expected.safetensors")
        for state in ("param", "exp_avg", "exp_avg_sq"):
            _, stacked = expected[f"optimizer.state.{state}.decoder.layers.mlp.experts.experts.linear_fc2.weight"]
            for expert in range(4):
                _, array = found[f"{state}.model.layers.0.mlp.experts.{expert}.down_proj.weight"]
                np.testing.assert_array_equal(array, stacked[0, expert])

    def test_without_proof_they_stay_flat(self) -> None:
        found, said = self.export(self.with_another_norm())
        self.assertEqual(said.count("\n"), 1, said)
        for text in ("their order is not proven", "no weight, rounded, has the values of a bucket from element", "bucket_idx_",
                     "--dist-ckpt-optim-fully-reshardable", "--weights-only"):
            self.assertIn(text, said)
        self.assertTrue(any(".bucket_idx_" in name for name in found), sorted(found))
        self.assertFalse(any(name.startswith("optimizer.state.") for name in found))

    def test_weights_are_right_without_proof(self) -> None:
        found, _ = self.export(self.with_another_norm(), "--weights-only")
        expected, _ = read_safetensors(GOLDEN / EXPERTS / "expected.safetensors")
        weights = {name: array for name, (_, array) in expected.items() if not name.startswith("optimizer.")}
        self.assertEqual(found.keys(), weights.keys())
        different = [name for name, array in weights.items() if not np.array_equal(found[name][1], array)]
        self.assertEqual(different, [NORM])

    def test_verify_compares_all_of_them(self) -> None:
        self.assertEqual(run("verify", GOLDEN / EXPERTS / "src").code, 0)
        source = self.copy(EXPERTS)
        _, array = read_safetensors(GOLDEN / EXPERTS / "expected.safetensors")[0][EMBEDDING]
        middle = np.ascontiguousarray(array[8:16]).tobytes()  # of the first rank's 32 rows, away from both ends
        for path in sorted(source.glob("iter_*/*.distcp")):
            data = path.read_bytes()
            if middle in data:
                path.write_bytes(data.replace(middle, middle[:-1] + bytes([middle[-1] ^ 1])))
        self.assertEqual(run("inspect", source).code, 0)
        result = run("verify", source)
        self.assertEqual(result.code, 1, result.stderr)
        self.assertIn(f"'{EMBEDDING}': differs from the optimizer's state 'param', rounded", result.stdout)

    def test_a_missing_file_is_named(self) -> None:
        source = self.copy(STAGES)
        next(iter(sorted(source.glob("iter_*/__1_0.distcp")))).unlink()
        result = run("inspect", source)
        self.assertIn("__1_0.distcp' is missing", result.stderr)


def main() -> None:
    run_unittests()


if __name__ == "__main__":
    main()
