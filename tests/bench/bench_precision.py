#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a mount of quantized weights in BFloat16 against the same view of a model that has these values as they are.

Both mounts show the same bytes. Prints GiB/s for whole files of the plain model, and the ratio of the other mount to it;
"native" is the ratio of a plain file. The sources are in the page cache. The reads take turns, and each figure, and the
ratio within a round, is the median of --rounds rounds. --least fails if a ratio is less.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "data")]

import numpy as np  # noqa: E402
from bench_mount import Samples  # noqa: E402
from bench_readers import drop_pages, read_fresh, read_hot, read_parallel  # noqa: E402
from format_files import Tensors, write_safetensors  # noqa: E402

MIB = 1 << 20
READERS = {"hot": read_hot, "fresh": read_fresh, "4 threads": lambda path: read_parallel(path, MIB, 4, False)}
Model = tuple[dict[str, object], Tensors]


def compressed(weights: dict[str, object], tensors: Tensors) -> Model:
    return {"quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}, tensors


class Maker:
    """Random weights of rows x columns, which stand for `mib` MiB of BFloat16."""

    def __init__(self, mib: int) -> None:
        self.rng = np.random.default_rng(1)
        self.rows, self.columns = 4096, 4096
        self.count = max(1, mib * MIB // (2 * self.rows * self.columns))

    def some(self, kind: str, *shape: int) -> tuple[str, np.ndarray]:
        if kind == "U8" or kind == "F8_E4M3":
            return kind, self.rng.integers(0, 256, shape, np.uint8) & np.uint8(0x77 if kind == "F8_E4M3" else 0xff)
        if kind == "I32":
            return kind, self.rng.integers(-1 << 31, 1 << 31, shape, np.int32)
        if kind == "BF16":
            return kind, self.rng.integers(0x3d00, 0x3f00, shape).astype("<u2")
        return kind, self.rng.random(shape).astype({"F32": "<f4", "F16": "<f2"}[kind])

    def scales(self, *shape: int) -> tuple[str, np.ndarray]:
        """Powers of two near 1."""
        return "U8", self.rng.integers(120, 134, shape, np.uint8)

    def each(self, tensors: dict[str, tuple[str, np.ndarray]]) -> Tensors:
        return {f"model.layers.{layer}.mlp.up_proj.{part}": made
                for layer in range(self.count) for part, made in tensors.items()}

    def nvfp4(self) -> Model:
        return compressed({"type": "float", "num_bits": 4, "strategy": "tensor_group", "group_size": 16}, self.each({
            "weight_packed": self.some("U8", self.rows, self.columns // 2),
            "weight_scale": self.some("F8_E4M3", self.rows, self.columns // 16),
            "weight_global_scale": self.some("F32", 1)}))

    def mxfp4(self) -> Model:
        return compressed({"type": "float", "num_bits": 4, "strategy": "group", "group_size": 32}, self.each({
            "weight_packed": self.some("U8", self.rows, self.columns // 2),
            "weight_scale": self.scales(self.rows, self.columns // 32)}))

    def int4(self) -> Model:
        return compressed({"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32}, self.each({
            "weight_packed": self.some("I32", self.rows, self.columns // 8),
            "weight_scale": self.some("BF16", self.rows, self.columns // 32),
            "weight_shape": ("I64", np.array([self.rows, self.columns], "<i8"))}))

    def fp8(self) -> Model:
        return {"quant_method": "fp8", "weight_block_size": [128, 128]}, self.each({
            "weight": self.some("F8_E4M3", self.rows, self.columns),
            "weight_scale_inv": self.some("F32", self.rows // 128, self.columns // 128)})

    def gpt_oss(self) -> Model:
        rows, columns = 5760, 2880
        experts = max(1, self.count * self.rows * self.columns // (rows * columns))
        name = "model.layers.0.mlp.experts.gate_up_proj"
        return {"quant_method": "mxfp4"}, {f"{name}_blocks": self.some("U8", experts, rows, columns // 32, 16),
                                           f"{name}_scales": self.scales(experts, rows, columns // 32)}

    def awq(self) -> Model:
        return ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, self.each({
            "qweight": self.some("I32", self.columns, self.rows // 8),
            "qzeros": self.some("I32", self.columns // 128, self.rows // 8),
            "scales": self.some("F16", self.columns // 128, self.rows)}))

    def gptq(self) -> Model:
        return ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False, "desc_act": False}, self.each({
            "qweight": self.some("I32", self.columns // 8, self.rows),
            "qzeros": self.some("I32", self.columns // 128, self.rows // 8),
            "scales": self.some("F16", self.columns // 128, self.rows)}))

    def int8(self) -> Model:
        return compressed({"type": "int", "num_bits": 8, "strategy": "channel"}, self.each({
            "weight": ("I8", self.rng.integers(-128, 128, (self.rows, self.columns), np.int8)),
            "weight_scale": self.some("BF16", self.rows, 1)}))


LAYOUTS = {"NVFP4": Maker.nvfp4, "MXFP4": Maker.mxfp4, "MXFP4 of gpt-oss": Maker.gpt_oss, "INT4": Maker.int4,
           "AWQ": Maker.awq, "GPTQ": Maker.gptq, "FP8 in blocks": Maker.fp8, "INT8": Maker.int8}


class View:
    """The whole model of a mount, in one file."""

    def __init__(self, binary: str, source: pathlib.Path, *options: str) -> None:
        self.binary = binary
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-mnt-"))
        subprocess.run([binary, "mount", source, self.place, "--views", "merged-safetensors", *options], check=True)

    def __enter__(self) -> pathlib.Path:
        return next((self.place / "merged").glob("*.safetensors"))

    def __exit__(self, *_: object) -> None:
        subprocess.run([self.binary, "umount", self.place], check=True)
        self.place.rmdir()


def measure(binary: str, place: pathlib.Path, model: Model, rounds: int) -> dict[str, float]:
    quantized, plain = place / "quantized", place / "plain"
    for folder in (quantized, plain):
        folder.mkdir(exist_ok=True)
    config, tensors = model
    write_safetensors(quantized / "model.safetensors", tensors)
    (quantized / "config.json").write_text(json.dumps({"quantization_config": config}))
    (plain / "config.json").write_text("{}")
    subprocess.run([binary, "export", quantized, plain / "model.safetensors", "--dequantize", "--force", "-q"], check=True)
    samples = Samples()
    with View(binary, quantized, "--dequantize") as dequantized, View(binary, plain) as same:
        if subprocess.run(["cmp", dequantized, same], check=False).returncode != 0:
            raise RuntimeError("the two mounts do not show the same bytes")
        for _ in range(rounds):
            for name, reader in READERS.items():
                samples.rate(f"native {name}", lambda: reader(plain / "model.safetensors"))
                rates = []
                for label, file in (("plain", same), ("dequantized", dequantized)):
                    drop_pages([file])
                    rates.append(samples.rate(f"{label} {name}", lambda: reader(file)))
                samples.note(f"ratio {name}", rates[1] / rates[0])
    return samples.medians()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=256, help="of BFloat16")
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--layouts", nargs="*", default=list(LAYOUTS))
    args = parser.parse_args()
    least = float("inf")
    for label in args.layouts:
        with tempfile.TemporaryDirectory(prefix="reshardfs-bench-") as place:
            figures = measure(args.binary, pathlib.Path(place), LAYOUTS[label](Maker(args.mib)), args.rounds)
        words = []
        for name in READERS:
            plain = figures[f"plain {name}"]
            ratio = figures[f"ratio {name}"]
            least = min(least, ratio)
            words.append(f"{name}: {plain:.2f} GiB/s, {ratio:.2f} (native {figures[f'native {name}'] / plain:.1f})")
        print(f"{label:18} " + "; ".join(words), flush=True)
    if least < args.least:
        sys.exit(f"the least ratio is {least:.2f}")


if __name__ == "__main__":
    main()
