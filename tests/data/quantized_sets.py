# SPDX-License-Identifier: Apache-2.0
"""Random models with quantized weights, in every layout that --dequantize knows, and the values that they stand for:
codes and scales are drawn first, the values are reckoned from these, and then they are packed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from format_files import Tensors, write_safetensors

E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], "<f4")
E2M3 = np.array([(-1.0 if code & 32 else 1.0) * ((code & 7) / 8 if code >> 3 & 3 == 0 else
                                                 (1 + (code & 7) / 8) * 2.0 ** ((code >> 3 & 3) - 1))
                 for code in range(64)], "<f4")
E4M3 = np.array([(-1.0 if byte & 0x80 else 1.0) * (
    np.nan if byte & 0x7f == 0x7f else
    (byte & 7) / 512 if byte >> 3 & 15 == 0 else (1 + (byte & 7) / 8) * 2.0 ** ((byte >> 3 & 15) - 7))
    for byte in range(256)], "<f4")
E8M0 = np.array([*(np.ldexp(np.float32(1), byte - 127) for byte in range(255)), np.nan], "<f4")


def bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4").astype(np.uint64)
    rounded = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("<u2")
    return np.where(np.isnan(values), np.uint16(0x7fc0), rounded)


def stream(codes: np.ndarray, bits: int, unit: int) -> np.ndarray:
    """Each row as bytes, the lowest bits first, filled up to units of so many bytes."""
    of_row = (codes[..., None] >> np.arange(bits) & 1).astype(np.uint8).reshape(*codes.shape[:-1], -1)
    missing = -of_row.shape[-1] % (8 * unit)
    of_row = np.concatenate([of_row, np.zeros((*of_row.shape[:-1], missing), np.uint8)], -1)
    return np.packbits(of_row, axis=-1, bitorder="little")


def words(codes: np.ndarray, bits: int) -> np.ndarray:
    return np.ascontiguousarray(stream(codes, bits, 4)).view("<i4")


@dataclass
class Drawn:
    """A model of one layout."""
    quantization: dict[str, object]
    stored: Tensors = field(default_factory=dict)
    want: Tensors = field(default_factory=dict)

    def write(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        write_safetensors(place / "model.safetensors", self.stored)
        (place / "config.json").write_text(json.dumps(
            {"model_type": "llama", "torch_dtype": "bfloat16", "quantization_config": self.quantization}))


class Draw:
    """:param even: a number that divides all numbers of groups, blocks, rows and experts."""

    def __init__(self, seed: int, even: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.even = even

    def size(self, most: int, multiple: int = 1) -> int:
        multiple *= self.even
        return int(self.rng.integers(1, max(1, most // multiple) + 1)) * multiple

    def codes(self, shape: tuple[int, ...], bits: int) -> np.ndarray:
        return self.rng.integers(0, 1 << bits, shape)

    def scales(self, kind: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """As they are stored, and their values."""
        if kind == "F32":
            values = (self.rng.standard_normal(shape) * np.exp2(self.rng.integers(-20, 20, shape))).astype("<f4")
            return values, values
        if kind == "F16":
            narrow = self.rng.standard_normal(shape).astype("<f2")
            return narrow.view("<u2"), narrow.astype("<f4")
        if kind == "BF16":
            bits = self.rng.integers(0x3000, 0x4a00, shape).astype("<u2")
            return bits, (bits.astype("<u4") << 16).view("<f4")
        stored = self.rng.integers(0, 256, shape, np.uint8)
        return stored, {"F8_E4M3": E4M3, "F8_E8M0": E8M0, "U8": E8M0}[kind][stored]

    def lead(self) -> tuple[int, ...]:
        return () if self.rng.random() < 0.7 else (int(self.rng.integers(1, 4)),)

    def spread(self, scales: np.ndarray, shape: tuple[int, ...], block: tuple[int, int]) -> np.ndarray:
        rows = np.arange(shape[-2]) // block[0]
        columns = np.arange(shape[-1]) // block[1]
        return scales[..., rows[:, None], columns[None, :]]

    def grid(self, shape: tuple[int, ...], block: tuple[int, int]) -> tuple[int, ...]:
        return (*shape[:-2], -(-shape[-2] // block[0]), -(-shape[-1] // block[1]))

    def model(self, layout: str) -> Drawn:
        with np.errstate(all="ignore"):
            return getattr(self, layout)()

    # --- compressed-tensors --------------------------------------------------------------------

    def compressed(self, weights: dict[str, object]) -> Drawn:
        return Drawn({"quant_method": "compressed-tensors", "ignore": ["lm_head"],
                      "config_groups": {"group_0": {"targets": ["re:.*layers\\..*_proj"], "weights": weights}}})

    def ct_integers(self) -> Drawn:
        bits, symmetric = int(self.rng.integers(1, 9)), bool(self.rng.random() < 0.5)
        strategy = str(self.rng.choice(["group", "channel", *(["tensor"] if symmetric else [])]))
        group = int(self.rng.choice([4, 16, 30, 32, 128]))
        out = self.compressed({"type": "int", "num_bits": bits, "strategy": strategy, "symmetric": symmetric,
                               "group_size": group if strategy == "group" else None})
        for number in range(2):
            shape = (*self.lead(), self.size(70), self.size(300, group) if strategy == "group" else self.size(300))
            block = {"group": (1, group), "channel": (1, shape[-1]), "tensor": shape[-2:]}[strategy]
            kind = str(self.rng.choice(["F32", "BF16", "F16"]))
            cells = (1,) if strategy == "tensor" else self.grid(shape, block)
            stored, scales = self.scales(kind, cells)
            codes = self.codes(shape, bits)
            values = codes - (1 << bits - 1)
            module = f"model.layers.{number}.self_attn.{'qo'[number]}_proj"
            if not symmetric:
                zeros = self.codes(cells, bits)
                values = values - self.spread(zeros - (1 << bits - 1), shape, block)
                packed = np.moveaxis(words(np.moveaxis(zeros, -2, -1), bits), -1, -2)
                out.stored[f"{module}.weight_zero_point"] = ("I32", np.ascontiguousarray(packed))
            factor = scales[0] if strategy == "tensor" else self.spread(scales, shape, block)
            out.stored |= {f"{module}.weight_packed": ("I32", words(codes, bits)),
                           f"{module}.weight_scale": (kind, stored),
                           f"{module}.weight_shape": ("I64", np.array(shape, "<i8")),
                           f"{module}.input_scale": ("F32", np.ones(1, "<f4"))}
            out.want[f"{module}.weight"] = ("BF16", bfloat16(values.astype("<f4") * factor))
        return self.with_plain(out)

    def with_plain(self, out: Drawn) -> Drawn:
        norm = self.rng.integers(0, 0x7f80, (17,)).astype("<u2")
        for tensors in (out.stored, out.want):
            tensors["model.norm.weight"] = ("BF16", norm)
            tensors["model.layers.0.hc_attn_scale"] = ("BF16", norm[:3])
        return out

    def ct_floats(self) -> Drawn:
        name, bits, group, kind = self.rng.choice(np.array(
            [("nvfp4", 4, 16, "F8_E4M3"), ("mxfp4", 4, 32, "U8"), ("mxfp6", 6, 32, "U8")], object))
        out = self.compressed({"type": "float", "num_bits": bits, "symmetric": True, "group_size": group,
                               "strategy": "tensor_group" if name == "nvfp4" else "group"})
        shape = (*self.lead(), self.size(60), self.size(300, group))
        codes = self.codes(shape, bits)
        stored, scales = self.scales(kind, self.grid(shape, (1, group)))
        module = "model.layers.0.mlp.up_proj"
        if name == "nvfp4":
            factor = self.scales("F32", (1,))[0]
            scales = scales / factor[0]
            out.stored[f"{module}.weight_global_scale"] = ("F32", factor)
        out.stored |= {f"{module}.weight_packed": ("U8", stream(codes, bits, 1)),
                       f"{module}.weight_scale": (kind, stored)}
        values = (E2M3 if bits == 6 else E2M1)[codes]
        out.want[f"{module}.weight"] = ("BF16", bfloat16(values * self.spread(scales, shape, (1, group))))
        return self.with_plain(out)

    def ct_plain(self) -> Drawn:
        is_float = bool(self.rng.random() < 0.6)
        strategy = str(self.rng.choice(["tensor", "channel", "group", *(["block"] if is_float else [])]))
        symmetric = is_float or bool(self.rng.random() < 0.5)
        group = int(self.rng.choice([8, 32]))
        rows, columns = self.size(40), self.size(70)
        block = (int(self.rng.integers(1, 20)), int(self.rng.integers(1, 50)))
        out = self.compressed({"type": "float" if is_float else "int", "num_bits": 8, "strategy": strategy,
                               "symmetric": symmetric, "group_size": group if strategy == "group" else None,
                               "block_structure": list(block) if strategy == "block" else None})
        shape = (rows, self.size(96, group) if strategy == "group" else columns)
        block = {"tensor": shape, "channel": (1, shape[1]), "group": (1, group), "block": block}[strategy]
        kind = str(self.rng.choice(["U8", "F32"])) if strategy == "group" and is_float else "BF16"
        cells = (1,) if strategy == "tensor" else self.grid(shape, block)
        stored, scales = self.scales(kind, cells)
        codes = self.codes(shape, 8).astype(np.uint8)
        values = E4M3[codes] if is_float else codes.view(np.int8).astype("<f4")
        module = "model.layers.1.mlp.down_proj"
        if not symmetric:
            zeros = self.rng.integers(-128, 128, cells).astype(np.int8)
            values = values - self.spread(zeros.reshape(1, 1) if strategy == "tensor" else zeros, shape, block)
            out.stored[f"{module}.weight_zero_point"] = ("I8", zeros)
        out.stored |= {f"{module}.weight": ("F8_E4M3" if is_float else "I8", codes if is_float else codes.view(np.int8)),
                       f"{module}.weight_scale": (kind, stored)}
        factor = scales[0] if strategy == "tensor" else self.spread(scales, shape, block)
        out.want[f"{module}.weight"] = ("BF16", bfloat16(values.astype("<f4") * factor))
        return self.with_plain(out)

    # --- others --------------------------------------------------------------------------------

    def gpt_oss(self) -> Drawn:
        out = Drawn({"quant_method": "mxfp4"})
        shape = (self.size(3), self.size(80), self.size(256, 32))
        codes = self.codes(shape, 4)
        stored, scales = self.scales("U8", self.grid(shape, (1, 32)))
        name = "model.layers.0.mlp.experts.gate_up_proj"
        out.stored |= {f"{name}_blocks": ("U8", stream(codes, 4, 1).reshape(*stored.shape, 16)),
                       f"{name}_scales": ("U8", stored)}
        values = E2M1[codes] * self.spread(scales, shape, (1, 32))
        out.want[name] = ("BF16", bfloat16(np.ascontiguousarray(np.swapaxes(values, -1, -2))))
        return self.with_plain(out)

    def deepseek_v4(self) -> Drawn:
        block = (int(self.rng.integers(1, 20)), int(self.rng.integers(1, 40)))
        out = Drawn({"quant_method": "fp8", "scale_fmt": "ue8m0", "expert_dtype": "fp4",
                     "weight_block_size": list(block)})
        shape = (self.size(40), self.size(160, 32))
        codes = self.codes(shape, 4)
        stored, scales = self.scales("F8_E8M0", self.grid(shape, (1, 32)))
        out.stored |= {"layers.0.ffn.experts.0.w1.weight": ("I8", stream(codes, 4, 1).view(np.int8)),
                       "layers.0.ffn.experts.0.w1.scale": ("F8_E8M0", stored)}
        out.want["layers.0.ffn.experts.0.w1.weight"] = (
            "BF16", bfloat16(E2M1[codes] * self.spread(scales, shape, (1, 32))))
        bytes_ = self.codes(shape, 8).astype(np.uint8)
        stored, scales = self.scales("F8_E8M0", self.grid(shape, block))
        out.stored |= {"layers.0.attn.wq.weight": ("F8_E4M3", bytes_), "layers.0.attn.wq.scale": ("F8_E8M0", stored)}
        out.want["layers.0.attn.wq.weight"] = ("BF16", bfloat16(E4M3[bytes_] * self.spread(scales, shape, block)))
        return self.with_plain(out)

    def modelopt(self) -> Drawn:
        algorithm = str(self.rng.choice(["NVFP4", "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "MXFP8", "W4A8_MXFP4_FP8"]))
        out = Drawn({"quant_method": "modelopt", "quant_algo": algorithm, "ignore": ["lm_head*"]})
        name = "model.layers.0.mlp.down_proj"
        rows = self.size(50)
        if algorithm.startswith("FP8"):
            shape = (rows, self.size(90))
            cells = () if algorithm == "FP8" else (rows,)
            stored, scales = self.scales("F32", cells)
            codes = self.codes(shape, 8).astype(np.uint8)
            out.stored |= {f"{name}.weight": ("F8_E4M3", codes), f"{name}.weight_scale": ("F32", stored)}
            values = E4M3[codes] * np.asarray(scales, "<f4").reshape(-1, 1)
        elif algorithm == "NVFP4":
            lead = self.lead()
            shape = (*lead, rows, self.size(160, 16))
            stored, scales = self.scales("F8_E4M3", self.grid(shape, (1, 16)))
            factor = self.scales("F32", lead)[0]
            codes = self.codes(shape, 4)
            out.stored |= {f"{name}.weight": ("U8", stream(codes, 4, 1)), f"{name}.weight_scale": ("F8_E4M3", stored),
                           f"{name}.weight_scale_2": ("F32", np.asarray(factor, "<f4"))}
            scales = scales * (np.asarray(factor)[..., None, None] if lead else np.float32(factor))
            values = E2M1[codes] * self.spread(scales.astype("<f4"), shape, (1, 16))
        else:
            shape = (rows, self.size(160, 32))
            stored, scales = self.scales("U8", self.grid(shape, (1, 32)))
            bits = 8 if algorithm == "MXFP8" else 4
            codes = self.codes(shape, bits)
            out.stored |= {f"{name}.weight": ("F8_E4M3", codes.astype(np.uint8)) if bits == 8 else
                           ("U8", stream(codes, 4, 1)), f"{name}.weight_scale": ("U8", stored)}
            values = (E4M3 if bits == 8 else E2M1)[codes] * self.spread(scales, shape, (1, 32))
        out.want[f"{name}.weight"] = ("BF16", bfloat16(values))
        return self.with_plain(out)

    def awq(self) -> Drawn:
        group = int(self.rng.choice([8, 32]))
        out = Drawn({"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"})
        shape = (self.size(128, group), self.size(64, 8))  # columns and rows of the weight
        codes, zeros = self.codes(shape, 4), self.codes((shape[0] // group, shape[1]), 4)
        stored, scales = self.scales("F16", zeros.shape)
        order = np.array([0, 2, 4, 6, 1, 3, 5, 7])  # which code each field of a word has

        def packed(of: np.ndarray) -> np.ndarray:
            return words(of.reshape(of.shape[0], -1, 8)[..., order].reshape(of.shape), 4)

        values = (codes - self.spread(zeros, shape, (group, 1))) * self.spread(scales, shape, (group, 1))
        module = "model.layers.0.self_attn.q_proj"
        out.stored |= {f"{module}.qweight": ("I32", packed(codes)), f"{module}.qzeros": ("I32", packed(zeros)),
                       f"{module}.scales": ("F16", stored)}
        out.want[f"{module}.weight"] = ("BF16", bfloat16(np.ascontiguousarray(values.astype("<f4").T)))
        return self.with_plain(out)

    def gptq(self) -> Drawn:
        bits, group = int(self.rng.choice([2, 4, 8])), int(self.rng.choice([16, 32, 64]))
        version = str(self.rng.choice(["gptq", "gptq_v2"]))
        out = Drawn({"quant_method": "gptq", "bits": bits, "group_size": group, "sym": False, "desc_act": False,
                     "checkpoint_format": version})
        shape = (self.size(192, max(group, 16)), self.size(64, 16))
        codes, fields = self.codes(shape, bits), self.codes((shape[0] // group, shape[1]), bits)
        zeros = (fields + 1) % (1 << bits) if version == "gptq" else fields
        stored, scales = self.scales("F16", zeros.shape)
        values = (codes - self.spread(zeros, shape, (group, 1))) * self.spread(scales, shape, (group, 1))
        module = "model.layers.0.self_attn.q_proj"
        out.stored |= {f"{module}.qweight": ("I32", np.ascontiguousarray(words(codes.T, bits).T)),
                       f"{module}.qzeros": ("I32", words(fields, bits)), f"{module}.scales": ("F16", stored),
                       f"{module}.g_idx": ("I32", (np.arange(shape[0]) // group).astype("<i4"))}
        out.want[f"{module}.weight"] = ("BF16", bfloat16(np.ascontiguousarray(values.astype("<f4").T)))
        return self.with_plain(out)


LAYOUTS = ("ct_integers", "ct_floats", "ct_plain", "gpt_oss", "deepseek_v4", "modelopt", "awq", "gptq")
