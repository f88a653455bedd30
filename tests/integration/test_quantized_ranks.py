# SPDX-License-Identifier: Apache-2.0
"""Random quantized models for 1 to 8 ranks. Dequantized, each rank has its part of the values, at any place. As they are
stored, what a rank has stands for its part, when it is dequantized by itself; or the cut is refused.
--sets N tries N random models of each layout."""

from __future__ import annotations

import argparse
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors  # noqa: E402
from mounted import one_line, run, run_unittests, scratch  # noqa: E402
from quantized_sets import LAYOUTS, Draw, Drawn  # noqa: E402

SETS = 5


class QuantizedRanks(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "drawn"

    def equal(self, got: np.ndarray, want: np.ndarray, *what: object) -> None:
        self.assertEqual(got.shape, want.shape, what)
        self.assertEqual(np.ascontiguousarray(got).tobytes(), np.ascontiguousarray(want).tobytes(), what)

    def ranks(self, count: int, *options: str | Path) -> list[Tensors]:
        out = self.root / "ranks"
        result = run("export", self.source, out, "--force", "--format", "safetensors", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return [read_safetensors(next((out / f"rank_{rank}").glob("*.safetensors")))[0] for rank in range(count)]

    def test_values_cut_at_any_place(self) -> None:
        cut = 0
        for layout in LAYOUTS:
            for seed in range(SETS):
                rng = np.random.default_rng(seed)
                drawn = Draw(5000 + seed).model(layout)
                drawn.write(self.source)
                ranks = int(rng.integers(1, 9))
                axis = int(rng.integers(1, 3))  # from the last
                rules, axes = [f'devices = {{ axes = ["tp={ranks}"], unmatched = "replicate" }}'], {}
                for name, (_, array) in drawn.want.items():
                    if array.ndim < 2 or array.shape[-axis] < ranks:
                        continue
                    axes[name] = array.ndim - axis
                    dimensions = ["tp" if i == axes[name] else "" for i in range(array.ndim)]
                    rules.append(f'[[rule]]\nmatch = "{name}"\ncut = {json.dumps(dimensions)}\nuneven = "balanced"')
                (self.root / "rules.toml").write_text("\n".join(rules) + "\n")
                got = self.ranks(ranks, "--dequantize", "--dst-strategy", self.root / "rules.toml")
                for name, (_, array) in drawn.want.items():
                    parts = np.array_split(array, ranks, axes[name]) if name in axes else [array] * ranks
                    for rank, part in enumerate(parts):
                        self.equal(got[rank][name][1], part, layout, seed, name, ranks, axis, rank)
                cut += len(axes)
        self.assertGreater(cut, SETS * len(LAYOUTS) // 2)
        print(f"{cut} weights cut")

    def check_parts(self, drawn: Drawn, ranks: list[Tensors], *what: object) -> None:
        for rank in sorted({0, len(ranks) // 2, len(ranks) - 1}):
            tensors = ranks[rank]
            for name in tensors:
                if name.endswith("weight_shape"):
                    # Loaders that cut weights themselves take it for the shape of all.
                    self.equal(tensors[name][1], drawn.stored[name][1], name, *what)
                    packed = name.replace("weight_shape", "weight_packed")
                    axis = self.axis_of_cut(tensors[packed][1].shape, drawn.stored[packed][1].shape)
                    shape = tensors[name][1].copy()
                    if axis is not None:
                        shape[axis] //= len(ranks)
                    tensors[name] = (tensors[name][0], shape)
            Drawn(drawn.quantization, tensors).write(self.root / "alone")
            alone = self.root / "alone.safetensors"
            result = run("export", self.root / "alone", alone, "--force", "--dequantize")
            self.assertEqual(result.code, 0, f"{result.stderr} {what}")
            for name, (_, array) in read_safetensors(alone)[0].items():
                whole = drawn.want[name][1]
                axis = self.axis_of_cut(array.shape, whole.shape)
                part = whole if axis is None else np.split(whole, len(ranks), axis)[rank]
                self.equal(array, part, name, rank, *what)

    def axis_of_cut(self, part: tuple[int, ...], whole: tuple[int, ...]) -> int | None:
        return next((i for i, size in enumerate(whole) if part[i] != size), None)

    def test_parts_stand_for_parts(self) -> None:
        rng = np.random.default_rng(2)
        for layout in LAYOUTS:
            if layout == "deepseek_v4":  # no map knows its names
                continue
            cut = 0
            for seed in range(4 * SETS):
                ranks = int(rng.integers(2, 9))
                even = ranks * (1 if layout == "gpt_oss" else int(rng.choice([1, 8])))
                drawn = Draw(7000 + seed, even=even).model(layout)
                # Only a family's maps say where weights are cut: of matrices, or of all experts.
                if any(array.ndim > 2 for _, array in drawn.want.values()) and layout != "gpt_oss":
                    continue
                drawn.write(self.source)
                options = ("--dst-strategy", f"tp={ranks}", "--exclude", "*hc_attn_scale", "--exclude", "*norm*")
                result = run("plan", self.source, *options)
                if result.code != 0:
                    self.assertIn("that are stored together", one_line(result))
                    continue
                cut += 1
                self.check_parts(drawn, self.ranks(ranks, *options), layout, seed, ranks)
            self.assertGreater(cut, 0, layout)

    def test_codes_of_a_method_that_is_not_known_are_not_cut(self) -> None:
        name = "model.layers.0.self_attn.o_proj.weight"
        stored: Tensors = {name: ("I8", np.zeros((8, 8), "i1")), "model.layers.0.self_attn.q_proj.weight":
                           ("BF16", np.zeros((8, 8), "<u2"))}
        Drawn({"quant_method": "quanto"}, stored).write(self.source)
        result = run("plan", self.source, "--dst-strategy", "tp=2")
        self.assertEqual(result.code, 2)
        self.assertIn(f"1 parameter: '{name}' [8, 8] (config.json states its quantization in an unknown form)",
                      one_line(result))

    def test_where_groups_end_is_said(self) -> None:
        name = "model.layers.0.self_attn.o_proj"
        weights = {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": True}
        stored: Tensors = {f"{name}.weight_packed": ("I32", np.zeros((8, 24), "<i4")),
                           f"{name}.weight_scale": ("BF16", np.zeros((8, 6), "<u2")),
                           f"{name}.weight_shape": ("I64", np.array([8, 192], "<i8"))}
        Drawn({"quant_method": "compressed-tensors",
               "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}, stored).write(self.source)
        for ranks in (2, 3, 6):
            got = self.ranks(ranks, "--dst-strategy", f"tp={ranks}")
            self.equal(np.concatenate([rank[f"{name}.weight_scale"][1] for rank in got], 1), stored[f"{name}.weight_scale"][1])
        result = run("plan", self.source, "--dst-strategy", "tp=4")
        self.assertEqual(result.code, 2)
        self.assertIn(f"'{name}.weight_shape' [2], '{name}.weight_scale' [8, 6], '{name}.weight_packed' [8, 24] (its weight "
                      "is cut within groups of 32 that are stored together; these numbers of ranks would do: 2, 3, 6; "
                      "--dequantize shows weights without scales)", one_line(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--sets", type=int, default=SETS)
    known, sys.argv[1:] = parser.parse_known_args()
    SETS = known.sets
    run_unittests()
