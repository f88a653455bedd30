# SPDX-License-Identifier: Apache-2.0
"""Weights in 8-bit floats with a scale for each block: shown as BFloat16, byte for byte as an independent
reckoning has them, through every way to read them; and cut with their scales where they are shown as they are."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402

E4M3 = np.array([(-1.0 if byte & 0x80 else 1.0) * (
    np.nan if byte & 0x7f == 0x7f else
    (byte & 7) / 512 if byte >> 3 & 15 == 0 else (1 + (byte & 7) / 8) * 2.0 ** ((byte >> 3 & 15) - 7))
    for byte in range(256)], "<f4")


def bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits, rounded to nearest, ties to even."""
    bits = values.astype("<f4").view("<u4").astype(np.uint64)
    rounded = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("<u2")
    return np.where(np.isnan(values), np.uint16(0x7fc0), rounded)


def scale_values(kind: str, stored: np.ndarray) -> np.ndarray:
    if kind == "F32":
        return stored
    if kind == "BF16":
        return (stored.astype("<u4") << 16).view("<f4")
    return np.where(stored == 255, np.float32(np.nan), np.ldexp(np.float32(1), stored.astype(int) - 127)).astype("<f4")


def shown(weight: np.ndarray, scales: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """Element by element, by the definition."""
    rows = np.arange(weight.shape[-2]) // block[0]
    columns = np.arange(weight.shape[-1]) // block[1]
    with np.errstate(invalid="ignore", over="ignore"):
        return bfloat16(E4M3[weight] * scales[..., rows[:, None], columns[None, :]])


class Model:
    """A model of random bits: q_proj of Llama's names among others."""

    def __init__(self, place: Path, seed: int, *, block: tuple[int, int] = (128, 128), kind: str = "F32",
                 sizes: tuple[tuple[int, ...], ...] = ((256, 384), (130, 200), (3, 256, 129)),
                 apart: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.place, self.block, self.kind = place, block, kind
        self.stored: list[Tensors] = [{}, {}]
        self.want: Tensors = {}
        for number, shape in enumerate(sizes):
            weight = rng.integers(0, 256, shape, np.uint8)
            counts = (*shape[:-2], -(-shape[-2] // block[0]), -(-shape[-1] // block[1]))
            scales = {"F32": lambda: rng.standard_normal(counts).astype("<f4"),
                      "BF16": lambda: rng.integers(0x3000, 0x4000, counts).astype("<u2"),
                      "F8_E8M0": lambda: rng.integers(0, 256, counts, np.uint8)}[kind]()
            name = f"model.layers.{number}.mlp.down_proj.weight"
            self.stored[0][name] = ("F8_E4M3", weight)
            self.stored[int(apart)][f"{name}_scale_inv"] = (kind, scales)
            self.want[name] = ("BF16", shown(weight, scale_values(kind, scales), block))
            norm = rng.integers(0, 0x7f80, (shape[-1],)).astype("<u2")
            self.stored[int(apart)][f"model.layers.{number}.input_layernorm.weight"] = ("BF16", norm)
            self.want[f"model.layers.{number}.input_layernorm.weight"] = ("BF16", norm)
        self.write()

    def write(self, quantization: dict[str, object] | None = None) -> None:
        self.place.mkdir(exist_ok=True)
        files = [tensors for tensors in self.stored if tensors]
        places = {}
        for number, tensors in enumerate(files, 1):
            name = f"model-0000{number}-of-0000{len(files)}.safetensors" if len(files) > 1 else "model.safetensors"
            write_safetensors(self.place / name, tensors)
            places |= dict.fromkeys(tensors, name)
        if len(files) > 1:
            total = sum(array.nbytes for tensors in files for _, array in tensors.values())
            (self.place / "model.safetensors.index.json").write_text(
                json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
        if quantization is None:
            quantization = {"quant_method": "fp8", "weight_block_size": list(self.block)}
        (self.place / "config.json").write_text(json.dumps(
            {"model_type": "llama", "torch_dtype": "bfloat16", "rms_norm_eps": 1e-06,
             "quantization_config": quantization, "vocab_size": 16}))


class Dequantize(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def equal(self, got: Tensors, want: Tensors) -> None:
        self.assertEqual(sorted(got), sorted(want))
        for name, (kind, array) in want.items():
            self.assertEqual((got[name][0], got[name][1].shape), (kind, array.shape), name)
            different = np.flatnonzero(got[name][1].view(array.dtype).ravel() != array.ravel())
            self.assertEqual(list(different[:3]), [], f"{name}: {len(different)} differ")

    def exported(self, source: Path, *options: str | Path) -> Tensors:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(out)[0]

    def test_every_value_of_every_kind_of_scale(self) -> None:
        for number, kind in enumerate(("F32", "BF16", "F8_E8M0")):
            for apart in (False, True):
                with self.subTest(kind, apart=apart):
                    model = Model(self.root / f"{kind}{apart}", number, kind=kind, apart=apart)
                    self.equal(self.exported(model.place, "--dequantize"), model.want)

    def test_random_shapes_and_blocks(self) -> None:
        rng = np.random.default_rng(7)
        for seed in range(12):
            block = tuple(int(size) for size in rng.integers(1, 40, 2))
            sizes = tuple(tuple(int(size) for size in rng.integers(1, 90, int(rng.integers(2, 4)))) for _ in range(3))
            with self.subTest(seed, block=block, sizes=sizes):
                model = Model(self.root / f"m{seed}", seed, block=block, sizes=sizes, apart=bool(seed % 2))
                self.equal(self.exported(model.place, "--dequantize"), model.want)

    def test_a_mount_reads_any_bytes(self) -> None:
        model = Model(self.root / "m", 1)
        with mounted(model.place, "--dequantize", "--views", "merged-safetensors,hf") as mount:
            (file,) = (mount / "merged").glob("*.safetensors")
            whole = file.read_bytes()
            self.equal(read_safetensors(file)[0], model.want)
            rng = np.random.default_rng(2)
            with file.open("rb", buffering=0) as handle:
                for _ in range(300):
                    begin = int(rng.integers(0, len(whole)))
                    length = int(rng.integers(1, 3000))
                    handle.seek(begin)
                    self.assertEqual(handle.read(length), whole[begin:begin + length])
            config = json.loads((mount / "hf/config.json").read_text())
            self.assertNotIn("quantization_config", config)
            self.assertEqual(config["rms_norm_eps"], 1e-06)
            (shards,) = (mount / "hf").glob("*.safetensors")
            self.equal(read_safetensors(shards)[0], model.want)
            index = mount / "hf/model.safetensors.index.json"
            if index.exists():
                self.assertNotIn("_scale_inv", index.read_text())

    def test_without_the_option_nothing_changes(self) -> None:
        model = Model(self.root / "m", 3)
        self.assertIn("mnt --dequantize", run("inspect", model.place).stdout)
        self.assertEqual(run("inspect", model.place, "--dequantize").stdout.count("mkdir -p mnt"), 1)
        self.equal(self.exported(model.place), model.stored[0])
        with mounted(model.place, "--views", "hf") as mount:
            self.assertIn("quantization_config", json.loads((mount / "hf/config.json").read_text()))

    def test_ranks_and_casts_of_what_is_shown(self) -> None:
        model = Model(self.root / "m", 4, sizes=((256, 384), (256, 384)))
        out = self.root / "ranks"
        result = run("export", model.place, out, "--dequantize", "--dst-strategy", "tp=4", "--format", "safetensors")
        self.assertEqual(result.code, 0, result.stderr)
        for name, (kind, array) in model.want.items():
            cut = [array] * 4 if array.ndim == 1 else np.split(array, 4, axis=1)
            for rank in range(4):
                (file,) = (out / f"rank_{rank}").glob("*.safetensors")
                got = read_safetensors(file)[0][name]
                self.assertEqual((got[0], got[1].tobytes()), (kind, np.ascontiguousarray(cut[rank]).tobytes()))
        wide = self.exported(model.place, "--dequantize", "--cast", "bf16->fp32")
        for name, (_, array) in model.want.items():
            self.assertEqual(wide[name][1].tobytes(), (array.astype("<u4") << 16).tobytes())

    def test_scales_are_cut_with_their_weights(self) -> None:
        model = Model(self.root / "m", 5, sizes=((256, 512), (256, 512)))
        out = self.root / "ranks"
        options = ("--dst-strategy", "tp=4", "--format", "safetensors")
        result = run("export", model.place, out, *options)
        self.assertEqual(result.code, 0, result.stderr)
        for rank in range(4):
            (file,) = (out / f"rank_{rank}").glob("*.safetensors")
            got = read_safetensors(file)[0]
            for name, (_, array) in model.stored[0].items():
                want = array if array.ndim == 1 else np.split(array, 4, axis=1)[rank]
                self.assertEqual(got[name][1].tobytes(), np.ascontiguousarray(want).tobytes(), name)
        result = run("export", model.place, self.root / "other", "--dst-strategy", "tp=8", "--format", "safetensors")
        self.assertEqual(result.code, 2)
        self.assertIn("its weight is cut within groups of 128 that are stored together; these numbers of ranks would "
                      "do: 2, 4; --dequantize shows weights without scales", one_line(result))

    def test_maps_take_what_is_dequantized(self) -> None:
        model = Model(self.root / "m", 9, sizes=((16, 8),))
        maps = self.root / "names.toml"
        maps.write_text("".join(f'[[map]]\nfrom = "model.layers.{{n}}.{name}"\nto = "other.layers.{{n}}.{name}"\n'
                                for name in ("mlp.down_proj.weight", "input_layernorm.weight")))
        result = run("export", model.place, self.root / "mapped.safetensors", "--map", maps)
        self.assertEqual(result.code, 2)
        self.assertIn("--dequantize shows weights without their scales", one_line(result))
        got = self.exported(model.place, "--map", maps, "--dequantize")
        self.equal(got, {name.replace("model.", "other.", 1): value for name, value in model.want.items()})

    def refused(self, model: Model, *words: str) -> None:
        result = run("inspect", model.place, "--dequantize")
        self.assertEqual(result.code, 2, result.stdout)
        for word in words:
            self.assertIn(word, one_line(result))

    def test_what_is_not_scaled_by_blocks_is_refused(self) -> None:
        name = "model.layers.0.mlp.down_proj.weight"
        model = Model(self.root / "m", 6, sizes=((256, 384),))
        model.write({"quant_method": "fp8"})
        self.refused(model, name, "no config.json states quantization_config.weight_block_size")
        model.write({"weight_block_size": [128]})
        self.refused(model, "weight_block_size is no pair of lengths", "config.json")
        model.write({"weight_block_size": [64, 128]})
        self.refused(model, name, "does not have a value for each block of 64 x 128")
        scales = model.stored[0].pop(f"{name}_scale_inv")
        model.write()
        self.refused(model, name, "there is no tensor of this name with '_scale_inv' behind it")
        model.stored[0][f"{name}_scale_inv"] = ("F16", scales[1].astype("<u2"))
        model.write()
        self.refused(model, name, "its scale is of the type Float16")
        model.stored[0] |= {f"{name}_scale_inv": scales, "other_scale_inv": scales}
        model.write()
        self.refused(model, "other_scale_inv", "is a scale of no weight in 8-bit floats")

    def test_what_is_not_quantized_is_refused(self) -> None:
        place = self.root / "plain"
        place.mkdir()
        write_safetensors(place / "model.safetensors", {"w": ("F32", np.ones((2, 2), "<f4"))})
        result = run("inspect", place, "--dequantize")
        self.assertEqual(result.code, 2)
        self.assertIn("has no quantized weights", one_line(result))
        for rank in range(2):
            (self.root / f"ranks/rank_{rank}").mkdir(parents=True)
            write_safetensors(self.root / f"ranks/rank_{rank}/net.safetensors", {"w": ("F32", np.ones((2, 2), "<f4"))})
        result = run("inspect", self.root / "ranks", "--dequantize")
        self.assertEqual(result.code, 2)
        self.assertIn("takes a model of whole tensors", one_line(result))

    def test_a_model_differs_from_itself_only_without_the_option(self) -> None:
        model = Model(self.root / "m", 8, kind="F32", sizes=((64, 64),))
        for tensors in model.stored:
            for name, (kind, array) in tensors.items():
                tensors[name] = (kind, np.where(array & 0x7f == 0x7f, 1, array).astype(array.dtype)
                                 if kind == "F8_E4M3" else array)
        model.write()
        wide = self.root / "wide.safetensors"
        self.assertEqual(run("export", model.place, wide, "--dequantize").code, 0)
        self.assertEqual(run("diff", model.place, wide, "--a-dequantize").code, 0)
        self.assertEqual(run("diff", model.place, wide).code, 1)


if __name__ == "__main__":
    run_unittests()
