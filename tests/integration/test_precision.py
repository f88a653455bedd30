# SPDX-License-Identifier: Apache-2.0
"""Quantized models of every layout, shown as BFloat16: those that the real programs wrote, byte for byte as their own
libraries dequantize them, and random ones of odd shapes, as values are reckoned from codes that were drawn first.
--sets N tries N random models of each layout."""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import struct
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from mounted import mounted, one_line, processes_of, run, run_unittests, scratch  # noqa: E402
from quantized_sets import LAYOUTS, Draw  # noqa: E402

GOLDEN = TESTS / "golden_precision"
SETS = 12


class Precision(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def equal(self, got: Tensors, want: Tensors, *, zeros_by_value: bool = False) -> None:
        self.assertEqual(sorted(got), sorted(want))
        for name, (kind, array) in want.items():
            self.assertEqual((got[name][0], got[name][1].shape), (kind, array.shape), name)
            a, b = (np.ascontiguousarray(of).view(f"u{of.itemsize}") for of in (got[name][1], array))
            if zeros_by_value and kind == "BF16":
                a, b = (np.where(of == 0x8000, 0, of) for of in (a, b))
            self.assertEqual(np.count_nonzero(a != b), 0, name)

    def exported(self, source: Path, *options: str) -> Tensors:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", "--dequantize", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(out)[0]

    def test_what_the_real_programs_wrote(self) -> None:
        for place in sorted(GOLDEN.iterdir()):
            with self.subTest(place.name):
                want = read_safetensors(place / "expected.safetensors")[0]
                # Its own library gives plus zero for the code of minus zero.
                self.equal(self.exported(place / "src"), want, zeros_by_value=place.name == "mo_nvfp4")

    def test_random_models(self) -> None:
        for layout in LAYOUTS:
            for seed in range(SETS):
                with self.subTest(layout, seed=seed):
                    drawn = Draw(seed).model(layout)
                    drawn.write(self.root / "drawn")
                    self.equal(self.exported(self.root / "drawn"), drawn.want)

    def test_any_bytes_of_a_mount(self) -> None:
        rng = np.random.default_rng(3)
        for layout in LAYOUTS:
            with self.subTest(layout):
                Draw(1000).model(layout).write(self.root / layout)
                with mounted(self.root / layout, "--dequantize", "--views", "merged-safetensors") as mount:
                    (file,) = (mount / "merged").glob("*.safetensors")
                    whole = file.read_bytes()
                    with file.open("rb", buffering=0) as handle:
                        for _ in range(60):
                            handle.seek(int(rng.integers(0, len(whole))))
                            begin = handle.tell()
                            length = int(rng.integers(1, 2000))
                            self.assertEqual(handle.read(length), whole[begin:begin + length])

    def test_memory_does_not_grow_with_the_model(self) -> None:
        """A sparse file of 4 GiB, of which places all over are read."""
        rows, groups, experts = 5760, 90, 256
        shapes = {"model.layers.0.mlp.experts.gate_up_proj_blocks": (experts, rows, groups, 16),
                  "model.layers.0.mlp.experts.gate_up_proj_scales": (experts, rows, groups),
                  "model.layers.0.mlp.experts.down_proj_blocks": (experts, rows, groups, 16),
                  "model.layers.0.mlp.experts.down_proj_scales": (experts, rows, groups)}
        header, end = {}, 0
        for name, shape in shapes.items():
            header[name] = {"dtype": "U8", "shape": shape, "data_offsets": [end, end + math.prod(shape)]}
            end += math.prod(shape)
        self.assertGreater(end, 4 << 30)
        text = json.dumps(header).encode()
        source = self.root / "sparse"
        source.mkdir()
        with (source / "model.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + end)
        (source / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "mxfp4"}}))
        with mounted(source, "--dequantize", "--views", "merged-safetensors") as mount:
            (file,) = (mount / "merged").glob("*.safetensors")

            def read(places: int) -> int:
                """The largest memory of the process that was seen, but for pages of files."""
                most = 0
                with file.open("rb", buffering=0) as handle:
                    for place in range(places):
                        handle.seek(file.stat().st_size * place // places)
                        self.assertTrue(handle.read(4 << 20))
                        for pid in processes_of(mount):
                            status = Path(f"/proc/{pid}/status").read_text()
                            most = max(most, *(int(kib) for kib in re.findall(r"^RssAnon:\s+(\d+)", status, re.M)))
                return most

            before = read(40)
            self.assertLess(read(400), before + (32 << 10))

    def test_ranks_of_what_is_dequantized(self) -> None:
        for name in ("ct_w4a16_sym", "ct_nvfp4", "ct_mxfp4", "mo_nvfp4"):
            source = GOLDEN / name / "src"
            out = self.root / name
            some = ("--include", "*.mlp.*", "--include", "*.o_proj.*", "--include", "*norm*")
            result = run("export", source, out, "--dequantize", "--dst-strategy", "tp=2", "--format", "safetensors", *some)
            self.assertEqual(result.code, 0, result.stderr)
            whole = self.exported(source, *some)
            ranks = [read_safetensors(next((out / f"rank_{rank}").glob("*.safetensors")))[0] for rank in range(2)]
            cut = 0
            for tensor, (_, array) in whole.items():
                parts = [rank[tensor][1] for rank in ranks]
                if parts[0].shape == array.shape:
                    joined = parts[0]
                else:
                    axis = next(i for i, size in enumerate(array.shape) if parts[0].shape[i] != size)
                    joined = np.concatenate(parts, axis)
                    cut += 1
                self.assertEqual(joined.tobytes(), array.tobytes(), tensor)
            self.assertGreaterEqual(cut, 4)

    def test_a_model_directory_without_its_quantization(self) -> None:
        for name in ("ct_w4a16_sym", "mo_nvfp4", "gptoss_mxfp4"):
            source = self.root / name
            shutil.copytree(GOLDEN / name / "src", source)
            config = json.loads((source / "config.json").read_text())
            config["text_config"] = {"quantization_config": config["quantization_config"], "hidden_size": 64}
            (source / "config.json").write_text(json.dumps(config))
            with mounted(source, "--dequantize", "--views", "hf") as mount:
                shown = json.loads((mount / "hf/config.json").read_text())
                self.assertNotIn("quantization_config", json.dumps(shown))
                self.assertEqual(shown["text_config"], {"hidden_size": 64})
                self.assertFalse((mount / "hf/hf_quant_config.json").exists())

    # --- what is refused -----------------------------------------------------------------------

    def refused(self, source: Path, *words: str) -> None:
        result = run("inspect", source, "--dequantize")
        self.assertEqual(result.code, 2, result.stdout)
        for word in words:
            self.assertIn(word, one_line(result))

    def changed(self, name: str, change: dict[str, tuple[str, np.ndarray] | None],
                **quantization: object) -> Path:
        """A golden set with other tensors (None: without one) and other words in its configuration."""
        place = self.root / "changed"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(GOLDEN / name / "src", place)
        tensors = read_safetensors(place / "model.safetensors")[0]
        for tensor, value in change.items():
            if value is None:
                del tensors[tensor]
            else:
                tensors[tensor] = value
        write_safetensors(place / "model.safetensors", tensors)
        config = json.loads((place / "config.json").read_text())
        config["quantization_config"] |= quantization
        (place / "config.json").write_text(json.dumps(config))
        return place

    def test_parts_that_lack_or_do_not_fit(self) -> None:
        gate = "model.layers.0.mlp.gate_proj"
        shape = ("I64", np.array([96, 65], "<i8"))
        for name, change, word in (
                ("ct_w4a16_sym", {f"{gate}.weight_scale": None}, "there is no weight_scale beside it"),
                ("ct_w4a16_sym", {f"{gate}.weight_packed": None}, "it belongs to no weight"),
                ("ct_w4a16_sym", {f"{gate}.weight_shape": None}, "there is no weight_shape beside it"),
                ("ct_w4a16_sym", {f"{gate}.weight_shape": shape}, "its weight_shape is that of another tensor"),
                ("ct_w4a16_sym", {f"{gate}.weight_scale": ("BF16", np.ones((96, 3), "<u2"))},
                 "does not have a value for each block of 1 x 32"),
                ("ct_w4a16_sym", {f"{gate}.weight_g_idx": ("I32", np.zeros(64, "<i4"))}, "act-order"),
                ("ct_w4a16_sym", {f"{gate}.weight_zero_point": ("I32", np.zeros((12, 2), "<i4"))},
                 "states no zero point"),
                ("ct_w4a16_asym_odd", {f"{gate}.weight_zero_point": None}, "there is no weight_zero_point beside it"),
                ("ct_nvfp4", {f"{gate}.weight_global_scale": None}, "there is no weight_global_scale beside it"),
                ("mo_nvfp4", {f"{gate}.weight_scale_2": None}, "there is no weight_scale_2 beside it"),
                ("mo_nvfp4", {f"{gate}.pre_quant_scale": ("BF16", np.ones(64, "<u2"))},
                 "it scales the inputs of its module"),
                ("gptoss_mxfp4", {"model.layers.0.mlp.experts.down_proj_scales": None}, "'_scales' instead"),
                ("awq_gemm", {"model.layers.0.self_attn.q_proj.scales": None}, "no scales and qzeros beside it"),
                ("dsv4_flash", {"layers.0.ffn.experts.0.w1.scale": None}, "there is no tensor of this name")):
            with self.subTest(word, set=name):
                self.refused(self.changed(name, change), next(iter(change)).rsplit(".", 1)[0], word)

    def test_verify_counts_weights_and_compares_shapes(self) -> None:
        for name, count in (("ct_w4a16_sym", 7), ("gptoss_mxfp4", 2), ("dsv4_flash", 28), ("awq_gemm", 2)):
            result = run("verify", GOLDEN / name / "src", "--json")
            self.assertEqual(result.code, 0, result.stdout)
            self.assertEqual(json.loads(result.stdout)["quantized_weights"], count)
        gate = "model.layers.0.mlp.gate_proj"
        short = ("BF16", np.ones((96, 1), "<u2"))
        for change, word in (({f"{gate}.weight_scale": short}, "does not have a value for each block of 1 x 32"),
                             ({f"{gate}.weight_scale": None}, "there is no weight_scale beside it")):
            result = run("verify", self.changed("ct_w4a16_sym", change), "--json")
            self.assertEqual(result.code, 1, result.stdout)
            (problem,) = json.loads(result.stdout)["problems"]
            self.assertEqual((problem["kind"], problem["parameter"]), ("shape", f"{gate}.weight_packed"))
            self.assertIn(word, problem["message"])
        # What is not known is not wrong.
        for change in ({f"{gate}.weight_g_idx": ("I32", np.zeros(64, "<i4"))},
                       {f"{gate}.pre_quant_scale": ("BF16", np.ones(64, "<u2"))}):
            self.assertEqual(run("verify", self.changed("ct_w4a16_sym", change)).code, 0)
        self.assertEqual(run("verify", self.changed("ct_w4a16_sym", {}, quant_method="hqq")).code, 0)

    def test_statistics_are_those_of_the_values(self) -> None:
        scales = read_safetensors(GOLDEN / "ct_mxfp4/src/model.safetensors")[0]["model.layers.0.mlp.gate_proj.weight_scale"][1]
        scales = scales.copy()
        scales[3, 1] = 255
        source = self.changed("ct_mxfp4", {"model.layers.0.mlp.gate_proj.weight_scale": ("U8", scales)})
        result = run("inspect", source, "--dequantize", "--stats", "--json")
        self.assertEqual(result.code, 0, result.stderr)
        stats = {one["name"]: one["nan"] for one in json.loads(result.stdout)["statistics"]}
        self.assertEqual({name: count for name, count in stats.items() if count}, {"model.layers.0.mlp.gate_proj.weight": 32})

    def test_inspect_counts_elements_of_weights(self) -> None:
        for name, forms in (("ct_w4a16_asym_odd", "INT4 by row (4 weights), INT4 in groups of 30 (3)"),
                            ("ct_fp8_mixed", "FP8 in blocks of 32 x 32 (3 weights), FP8 by row (2), FP8 with one scale (2)"),
                            ("dsv4_flash", "FP8 in blocks of 16 x 16 (16 weights), MXFP4 in groups of 32 (12)"),
                            ("mo_nvfp4", "NVFP4 in groups of 16 (7 weights)")):
            source = GOLDEN / name / "src"
            self.assertIn(forms, run("inspect", source).stdout)
            # Scales of activations are among the first.
            counts = [json.loads(run("inspect", source, "--json", *option).stdout)["description"]["model"]["elements"]
                      for option in ((), ("--dequantize",))]
            self.assertEqual(counts[0] - counts[1], {"mo_nvfp4": 7, "ct_fp8_mixed": 2}.get(name, 0))

    def test_statements_that_are_not_known(self) -> None:
        for name, words, answer in (
                ("ct_w4a16_sym", {"quant_method": "bitsandbytes"}, "states the quant_method 'bitsandbytes', which is not known"),
                ("ct_w4a16_sym", {"transform_config": {"a": 1}}, "states a transform_config"),
                ("ct_w4a16_sym", {"sparsity_config": {"format": "sparse-24-bitmask"}}, "states a sparsity_config"),
                ("ct_w4a16_sym", {"ignore": ["model.layers.0.mlp.gate_proj"]}, "does not say how its module"),
                ("ct_w4a16_sym", {"ignore": ["re:(?=x)y"]}, "cannot use the expression 're:(?=x)y'"),
                ("mo_nvfp4", {"quant_algo": "W4A16_AWQ"}, "states modelopt's quant_algo 'W4A16_AWQ', which is not known"),
                ("mo_nvfp4", {"ignore": ["*gate_proj"]}, "does not say how its module is quantized"),
                ("awq_gemm", {"version": "gemv"}, "states awq of 4 bits in groups of 32, 'gemv', which is not known"),
                ("awq_gemm", {"group_size": "32"}, "states no numbers for bits and group_size")):
            with self.subTest(answer):
                self.refused(self.changed(name, {}, **words), answer)

    def test_a_reason_is_given_once(self) -> None:
        weights = {"type": "int", "num_bits": 9, "strategy": "group", "group_size": 32, "symmetric": True}
        source = self.changed("ct_w4a16_sym", {}, config_groups={"a": {"targets": ["Linear"], "weights": weights}})
        self.refused(source, "config.json states 9 bits for it")
        self.assertNotIn("belongs to no weight", run("inspect", source, "--dequantize").stderr)

    def test_two_groups_that_differ(self) -> None:
        weights = {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": True}
        groups = {"a": {"targets": ["re:.*gate"], "weights": weights},
                  "b": {"targets": ["re:.*proj"], "weights": weights | {"num_bits": 8}}}
        self.refused(self.changed("ct_w4a16_sym", {}, config_groups=groups), "two groups state how the weights of",
                     "'a' and 'b'")
        # What is named counts more than an expression, and that more than all.
        named = [f"model.layers.{n}.{part}" for n in range(2) for part in (
            "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "self_attn.q_proj", "self_attn.k_proj",
            "self_attn.v_proj", "self_attn.o_proj")]
        groups = {"a": {"targets": named, "weights": weights}, "b": groups["b"],
                  "c": {"targets": ["Linear"], "weights": weights | {"num_bits": 2}}}
        self.equal(self.exported(self.changed("ct_w4a16_sym", {}, config_groups=groups)),
                   read_safetensors(GOLDEN / "ct_w4a16_sym/expected.safetensors")[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--sets", type=int, default=SETS)
    known, sys.argv[1:] = parser.parse_known_args()
    SETS = known.sets
    run_unittests()
