# SPDX-License-Identifier: Apache-2.0
"""--quantize nvfp4: weights in MXFP4 as NVFP4, with the codes that they have. What Model-Optimizer made of the same source,
byte for byte; and random models, whose values stay the same when both are dequantized."""

from __future__ import annotations

import json
import shutil
import unittest
from pathlib import Path

import sys

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402

GOLDEN = TESTS / "golden_precision"
WITH = ("--quantize", "nvfp4")


class Nvfp4(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def exported(self, source: Path, *options: str) -> Tensors:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(out)[0]

    def equal(self, got: Tensors, want: Tensors) -> None:
        self.assertEqual(sorted(got), sorted(want))
        for name, (kind, array) in want.items():
            self.assertEqual((got[name][0], got[name][1].shape), (kind, array.shape), name)
            self.assertEqual(got[name][1].tobytes(), array.tobytes(), name)

    def test_what_modelopt_made(self) -> None:
        place = TESTS / "golden_nvfp4"
        self.equal(self.exported(place / "src", *WITH), read_safetensors(place / "expected.safetensors")[0])

    def model(self, rng: np.random.Generator, spread: int, experts: tuple[int, ...] = ()) -> Path:
        """Kimi K3's names. Scales lie within 2^spread, or are of blocks of zeros."""
        stored: Tensors = {"model.norm.weight": ("BF16", np.ones(64, "<u2")),
                           "lm_head.weight": ("BF16", np.ones((7, 64), "<u2"))}
        for module in ("gate_proj", "up_proj", "down_proj"):
            rows, columns = int(rng.integers(1, 50)), 32 * int(rng.integers(1, 9))
            codes = rng.integers(0, 256, (*experts, rows, columns // 2), np.uint8)
            scales = rng.integers(127 - spread, 128, (*experts, rows, columns // 32)).astype(np.uint8)
            zeros = rng.random(scales.shape) < 0.1
            scales[zeros] = 0
            codes[np.repeat(zeros, 16, -1)] &= 0x88
            name = f"model.layers.0.mlp.{module}"
            stored |= {f"{name}.weight_packed": ("U8", codes), f"{name}.weight_scale": ("U8", scales)}
        weights = {"type": "float", "num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": True}
        source = self.root / "model"
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        write_safetensors(source / "model.safetensors", stored)
        (source / "config.json").write_text(json.dumps({"text_config": {"quantization_config": {
            "quant_method": "compressed-tensors", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}}}))
        return source

    def test_values_stay(self) -> None:
        rng = np.random.default_rng(1)
        for number in range(20):
            source = self.model(rng, int(rng.integers(1, 18)), () if number % 3 else (3,))
            with mounted(source, *WITH, "--views", "hf") as mount:
                shown = self.root / "shown"
                shutil.rmtree(shown, ignore_errors=True)
                shutil.copytree(mount / "hf", shown)
            self.equal(self.exported(shown, "--dequantize"), self.exported(source, "--dequantize"))
            made = read_safetensors(next(shown.glob("*.safetensors")))[0]
            stored = read_safetensors(source / "model.safetensors")[0]
            factors = {}
            for module in ("gate_proj", "up_proj", "down_proj"):
                name = f"model.layers.0.mlp.{module}.weight"
                self.assertEqual(made[name][1].tobytes(), stored[f"{name}_packed"][1].tobytes())
                factors[module] = made[f"{name}_scale_2"][1]
            self.assertEqual(factors["gate_proj"].tobytes(), factors["up_proj"].tobytes())
            stated = json.loads((shown / "config.json").read_text())["text_config"]["quantization_config"]
            self.assertEqual((stated["quant_method"], stated["quant_algo"], stated["ignore"]),
                             ("modelopt", "W4A16_NVFP4", ["lm_head"]))
            beside = json.loads((shown / "hf_quant_config.json").read_text())["quantization"]
            self.assertEqual((beside["quant_algo"], beside["exclude_modules"]), ("W4A16_NVFP4", ["lm_head"]))

    def test_any_bytes_of_a_mount(self) -> None:
        rng = np.random.default_rng(2)
        source = self.model(rng, 9, (3,))
        with mounted(source, *WITH, "--views", "merged-safetensors") as mount:
            (file,) = (mount / "merged").glob("*.safetensors")
            whole = file.read_bytes()
            with file.open("rb", buffering=0) as handle:
                for _ in range(100):
                    begin, length = int(rng.integers(0, len(whole))), int(rng.integers(1, 500))
                    handle.seek(begin)
                    self.assertEqual(handle.read(length), whole[begin:begin + length])

    def test_blocks_that_lose_bits(self) -> None:
        source = self.model(np.random.default_rng(3), 2)
        tensors = read_safetensors(source / "model.safetensors")[0]
        name = "model.layers.0.mlp.down_proj"
        scales, codes = (tensors[f"{name}.{part}"][1].copy() for part in ("weight_scale", "weight_packed"))
        scales[:] = 127
        for small, code, is_lost in ((127 - 17, 1, False), (127 - 18, 1, True), (127 - 18, 0x80, False), (0, 0x10, True),
                                     (255, 0, True)):
            scales[0, 0], codes[0, :16] = small, code
            tensors |= {f"{name}.weight_scale": ("U8", scales), f"{name}.weight_packed": ("U8", codes)}
            write_safetensors(source / "model.safetensors", tensors)
            result = run("export", source, self.root / "lossy.safetensors", "--force", *WITH)
            self.assertEqual(result.code != 0, is_lost, (small, code, result.stderr))
            if is_lost:
                self.assertIn(f"{name}.weight_packed", one_line(result))
                self.assertIn("1 block of", one_line(result))

    def test_what_is_refused(self) -> None:
        for name, words in (("ct_w4a16_sym", "it is not in MXFP4"), ("ct_nvfp4", "it is not in MXFP4"),
                            ("dsv4_flash", "it is not in MXFP4"), ("gptoss_mxfp4", "no program is known that loads gpt-oss")):
            result = run("inspect", GOLDEN / name / "src", *WITH)
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn(words, one_line(result))
        result = run("inspect", GOLDEN / "ct_mxfp4/src", *WITH, "--dequantize")
        self.assertIn("contradict each other", one_line(result))

    def test_a_message_names_the_option_that_was_given(self) -> None:
        source = self.model(np.random.default_rng(4), 2)
        stated = json.loads((source / "config.json").read_text())["text_config"]["quantization_config"]
        groups = stated["config_groups"]["group_0"]["weights"]
        for words in ({"quant_method": "bitsandbytes"}, {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"},
                      {"quant_method": "gptq"}, {"config_groups": {"a": {"weights": groups | {"type": "other"}}}}):
            (source / "config.json").write_text(json.dumps({"quantization_config": stated | words}))
            for option in WITH[0], "--dequantize":
                result = run("inspect", source, option, *(WITH[1:] if option == WITH[0] else ()))
                self.assertEqual(result.code, 2, result.stdout)
                named = " ".join(WITH) if option == WITH[0] else option
                self.assertIn(f"leave {named} out: the tensors are then shown as they are", one_line(result))


if __name__ == "__main__":
    run_unittests()
