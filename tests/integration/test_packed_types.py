# SPDX-License-Identifier: Apache-2.0
"""Element types of safetensors that are carried as they are: 8-bit and complex ones, and those whose elements
share bytes. Types that are not known are refused by name."""

from __future__ import annotations

import json
import math
import random
import shlex
import shutil
import struct
import subprocess
import sys
import unittest
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mounted import Settings, mounted, one_line, run, run_unittests, scratch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402

# Bits of an element, by the name in a header, and by that in messages.
BITS = {"F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64,
        "F8_E4M3": 8, "F8_E5M2": 8, "BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
        "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64}
NAMES = {"F8_E8M0": "Float8E8M0", "F8_E4M3FNUZ": "Float8E4M3FNUZ", "F8_E5M2FNUZ": "Float8E5M2FNUZ",
         "F4": "Float4E2M1", "F6_E2M3": "Float6E2M3", "F6_E3M2": "Float6E3M2", "C64": "Complex64"}
PACKED = ("F4", "F6_E2M3", "F6_E3M2")
UNIT = {"F4": 2, "F6_E2M3": 4, "F6_E3M2": 4}
# What PyTorch's reader of dcp-hf knows.
HF_TYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8")


@dataclass
class Raw:
    """A tensor by the bits of its elements, as numbers in an array of objects."""

    dtype: str
    values: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def bytes(self) -> bytes:
        """One behind the other, each from the lowest free bit on."""
        bits = BITS[self.dtype]
        total = sum(int(value) << (bits * place) for place, value in enumerate(self.values.ravel()))
        return total.to_bytes(math.ceil(self.values.size * bits / 8), "little")


Model = dict[str, Raw]


def random_raw(rng: random.Random, dtype: str, shape: tuple[int, ...]) -> Raw:
    values = np.empty(math.prod(shape), dtype=object)
    most = 2 if dtype == "BOOL" else 1 << BITS[dtype]
    values[:] = [rng.randrange(most) for _ in range(values.size)]
    return Raw(dtype, values.reshape(shape))


def every_type(seed: int) -> Model:
    rng = random.Random(seed)
    return {f"t.{dtype}": random_raw(rng, dtype, (4, 6, 4)) for dtype in BITS}


def write(path: Path, model: Model, more: Iterable[tuple[str, str, list[int], bytes]] = ()) -> Path:
    """more: tensors of types that nobody knows."""
    header, data = {}, b""
    tensors = [(name, raw.dtype, list(raw.shape), raw.bytes) for name, raw in model.items()]
    for name, dtype, shape, content in [*tensors, *more]:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def read(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    return {name: (entry["dtype"], tuple(entry["shape"]),
                   data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def as_read(model: Model) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (raw.dtype, raw.shape, raw.bytes) for name, raw in model.items()}


class PassedThrough(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.model = every_type(1)
        self.source = write(self.root / "model.safetensors", self.model)

    def test_every_view_of_safetensors(self) -> None:
        with mounted(self.source, "--format", "safetensors", "--views", "ranks,merged,hub,unified",
                     "--shard-size", "600B") as mountpoint:
            files = sorted(mountpoint.rglob("*.safetensors"))
            whole = [path for path in files if "-of-" not in path.name]
            self.assertGreaterEqual(len(whole), 2)
            for path in whole:
                self.assertEqual(read(path), as_read(self.model), path)
            shards: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
            for path in files:
                if "-of-" in path.name:
                    shards |= read(path)
            self.assertEqual(shards, as_read(self.model))

    def test_wider_types_come_first(self) -> None:
        with mounted(self.source, "--format", "safetensors", "--views", "merged") as mountpoint:
            path = mountpoint / "merged/checkpoint_merged.safetensors"
            data = path.read_bytes()
            header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        order = sorted((entry for name, entry in header.items() if name != "__metadata__"),
                       key=lambda entry: entry["data_offsets"])
        self.assertEqual([entry["dtype"] for entry in order],
                         ["U64", "I64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16",
                          "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3", "F8_E5M2", "I8", "U8", "F6_E3M2",
                          "F6_E2M3", "F4", "BOOL"])

    def test_commands(self) -> None:
        listed = run("inspect", self.source, "--json")
        self.assertEqual(listed.code, 0, listed.stderr)
        facts = {entry["name"]: entry for entry in json.loads(listed.stdout)["parameters"]}
        for dtype, name in NAMES.items():
            raw = self.model[f"t.{dtype}"]
            entry = facts[f"t.{dtype}"]
            self.assertEqual((entry["dtype"], entry["shape"], entry["bytes"]),
                             (name, list(raw.shape), len(raw.bytes)))
        verified = run("verify", self.source)
        self.assertEqual(verified.code, 0, verified.stdout + verified.stderr)
        for dtype in NAMES:
            name, content = f"t.{dtype}", self.model[f"t.{dtype}"].bytes
            printed = subprocess.run([Settings.binary, "cat", self.source, "--param", name], capture_output=True,
                                     check=False)
            self.assertEqual((printed.returncode, printed.stdout), (0, content), printed.stderr)
            result = run("cat", self.source, "--param", name, "--npy") if dtype in PACKED else None
            if result is not None:
                self.assertEqual(result.code, 2)
                self.assertIn("leave out --npy", result.stderr)
        for words in (["hash", self.source], ["inspect", self.source], ["plan", self.source]):
            result = run(*words)
            self.assertEqual(result.code, 0, result.stderr)

    def test_statistics(self) -> None:
        result = run("inspect", self.source, "--stats", "--json")
        self.assertIn(result.code, (0, 1), result.stderr)
        stats = {entry["name"]: entry for entry in json.loads(result.stdout)["statistics"]}
        for dtype in PACKED:
            self.assertEqual(stats[f"t.{dtype}"]["skipped"], "packed")
        self.assertEqual(stats["t.C64"]["skipped"], "complex")
        powers = [2.0 ** (int(value) - 127) for value in self.model["t.F8_E8M0"].values.ravel() if value != 255]
        self.assertAlmostEqual(stats["t.F8_E8M0"]["max"] / max(powers), 1)
        self.assertAlmostEqual(stats["t.F8_E8M0"]["min"] / min(powers), 1)
        nans = sum(int(value) == 0x80 for value in self.model["t.F8_E4M3FNUZ"].values.ravel())
        self.assertEqual(stats["t.F8_E4M3FNUZ"]["nan"], nans)
        self.assertEqual(run("inspect", self.source, "--stats").code, result.code)

    def test_diff_finds_a_bit(self) -> None:
        self.assertEqual(run("diff", self.source, self.source).code, 0)
        for dtype in NAMES:
            changed = {name: Raw(raw.dtype, raw.values.copy()) for name, raw in self.model.items()}
            values = changed[f"t.{dtype}"].values
            values[1, 2, 3] = int(values[1, 2, 3]) ^ 1
            other = write(self.root / f"other_{dtype}.safetensors", changed)
            result = run("diff", self.source, other, "--json")
            self.assertEqual(result.code, 1, result.stderr)
            found = [entry for entry in json.loads(result.stdout)["parameters"] if entry["status"] != "equal"]
            self.assertEqual([entry["name"] for entry in found], [f"t.{dtype}"])
            self.assertEqual(run("diff", self.source, other).code, 1)

    def test_ckpt_refuses_by_name_and_params_leaves_out(self) -> None:
        for dtype in NAMES:
            model = {"w": random_raw(random.Random(2), "F32", (2, 2)), "odd": self.model[f"t.{dtype}"]}
            source = write(self.root / f"{dtype}.safetensors", model)
            result = run("export", source, self.root / "out", "--format", "ckpt", "--views", "ranks")
            self.assertEqual(result.code, 2, result.stderr)
            self.assertIn("parameter 'odd'", one_line(result))
            self.assertIn("--format safetensors", result.stderr)
            with mounted(source, "--views", "params") as mountpoint:
                listed = json.loads((mountpoint / "merged/params/params.json").read_text()
                                    if (mountpoint / "merged/params/params.json").exists()
                                    else (mountpoint / "merged/params.json").read_text())
                by_name = {entry["name"]: entry for entry in listed}
                self.assertTrue((mountpoint / "merged/params/w.npy").exists())
                self.assertEqual((mountpoint / "merged/params/odd.npy").exists(), dtype not in PACKED)
                self.assertEqual(by_name["odd"]["file"] is None, dtype in PACKED)
                if dtype == "C64":
                    array = np.load(mountpoint / "merged/params/odd.npy")
                    self.assertEqual((array.dtype, array.tobytes()),
                                     (np.dtype("<c8"), model["odd"].bytes))
            result = run("export", source, self.root / f"params_{dtype}", "--views", "params")
            self.assertEqual(result.code, 0, result.stderr)
            self.assertEqual("no NumPy file for 'odd'" in result.stderr, dtype in PACKED, result.stderr)

    def test_casts_are_for_other_types(self) -> None:
        for name in ("f4", "F8_E8M0", "c64"):
            result = run("export", self.source, self.root / "out", "--cast", f"{name}->fp32")
            self.assertEqual(result.code, 2)
            self.assertIn("is not a floating-point type", one_line(result))


class Cut(unittest.TestCase):
    """Random cuts of packed tensors: as a reference has them, or refused by name."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def rules(self, path: Path, cuts: dict[str, list[str]], axes: str) -> Path:
        text = f"[devices]\naxes = [{axes}]\n"
        for name, cut in cuts.items():
            text += f"[[rule]]\nmatch = {json.dumps(name)}\ncut = {json.dumps(cut)}\n"
        path.write_text(text)
        return path

    @staticmethod
    def part(raw: Raw, cut: list[str], device: int) -> Raw:
        """Of two axes of two devices each, "a" outside of "b"."""
        at = {"a": device // 2, "b": device % 2}
        values = raw.values
        for dimension, axis in enumerate(cut):
            if axis:
                values = np.split(values, 2, axis=dimension)[at[axis]]
        return Raw(raw.dtype, values)

    @staticmethod
    def is_on_bytes(raw: Raw, cut: list[str]) -> bool:
        """Whether all elements of each group that fills bytes are in one part."""
        owner = np.zeros(raw.shape, dtype=int)
        for dimension, axis in enumerate(cut):
            if axis:
                place = np.arange(raw.shape[dimension]) * 2 // raw.shape[dimension]
                shape = [1] * len(raw.shape)
                shape[dimension] = -1
                owner = owner * 2 + place.reshape(shape)
        groups = owner.reshape(-1, UNIT[raw.dtype])
        return bool((groups == groups[:, :1]).all())

    def random_tensor(self, rng: random.Random) -> Raw:
        while True:
            dtype = rng.choice(PACKED)
            shape = tuple(rng.choice((1, 2, 2, 3, 4, 6, 8)) for _ in range(rng.randrange(1, 4)))
            if math.prod(shape) % UNIT[dtype] == 0:
                return random_raw(rng, dtype, shape)

    @staticmethod
    def random_cut(rng: random.Random, raw: Raw) -> list[str]:
        axes = ["a", "b"]
        rng.shuffle(axes)
        return [axes.pop() if axes and length % 2 == 0 and rng.randrange(3) else "" for length in raw.shape]

    def test_random_cuts(self) -> None:
        rng = random.Random(7)
        shown = refused = 0
        for round_ in range(40):
            raw = self.random_tensor(rng)
            before, after = (self.random_cut(rng, raw) for _ in range(2))
            with self.subTest(round=round_, dtype=raw.dtype, shape=raw.shape, before=before, after=after):
                directory = self.root / str(round_)
                src = self.rules(directory.with_suffix(".src.toml"), {"w": before}, '"a=2", "b=2"')
                dst = self.rules(directory.with_suffix(".dst.toml"), {"w": after}, '"a=2", "b=2"')
                fits = self.is_on_bytes(raw, before)
                for device in range(4):
                    part = self.part(raw, before, device)
                    # What does not fill whole bytes is in no file; then all of it is in each.
                    write(directory / f"rank_{device}/checkpoint_{device}-1_1.safetensors",
                          {"w": part if fits else raw})
                words = ["--dst-strategy", dst] + (["--src-strategy", src] if fits else [])
                result = run("export", directory, self.root / f"out{round_}", *words, "--views", "ranks",
                             "--format", "safetensors")
                if self.is_on_bytes(raw, after):
                    shown += 1
                    self.assertEqual(result.code, 0, result.stderr)
                    for device in range(4):
                        path = self.root / f"out{round_}/rank_{device}/checkpoint_{device}.safetensors"
                        self.assertEqual(read(path), as_read({"w": self.part(raw, after, device)}))
                else:
                    refused += 1
                    self.assertEqual(result.code, 2)
                    for words_of_it in ("parameter 'w'", "inside of a byte", "dimension", "multiples of",
                                        "--exclude w"):
                        self.assertIn(words_of_it, one_line(result))
        self.assertGreater(shown, 8)
        self.assertGreater(refused, 8)

    def test_a_source_that_cuts_inside_of_a_byte(self) -> None:
        for device in range(2):
            write(self.root / f"set/rank_{device}/checkpoint_{device}-1_1.safetensors",
                  {"w": random_raw(random.Random(device), "F4", (4, 3)),
                   "v": random_raw(random.Random(device), "F32", (4, 3))})
        src = self.rules(self.root / "src.toml", {"w": ["", "a"], "v": ["", "a"]}, '"a=2"')
        words = ["export", self.root / "set", self.root / "out", "--src-strategy", src, "--views", "merged",
                 "--format", "safetensors"]
        result = run(*words)
        self.assertEqual(result.code, 2)
        for word in ("parameter 'w'", "dimension 1 of [4, 6] is cut at 3", "multiples of 2", "--exclude w"):
            self.assertIn(word, one_line(result))
        result = run(*words, "--exclude", "w")
        self.assertEqual(result.code, 0, result.stderr)


class Unknown(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.model = {"w": random_raw(random.Random(1), "F32", (4, 4)),
                      "b": random_raw(random.Random(2), "F4", (4,))}
        self.odd = [("odd one", "F9_E9M9", [3], b"abcd"), ("x.odd", "Q4_K", [5, 5], bytes(7))]
        self.source = write(self.root / "set/model.safetensors", self.model, self.odd)

    def test_is_refused_by_name_and_the_others_are_shown(self) -> None:
        words = ["export", self.source, self.root / "out", "--views", "merged", "--format", "safetensors"]
        result = run(*words)
        self.assertEqual(result.code, 2)
        line = one_line(result)
        self.assertIn("2 tensors cannot be shown: 'odd one' (its element type 'F9_E9M9' is not known), 'x.odd'", line)
        options = shlex.split(line[line.index("--exclude"):])
        result = run(*words, *options)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(read(self.root / "out/merged/checkpoint_merged.safetensors"), as_read(self.model))
        mountpoint = self.root / "mountpoint"
        mountpoint.mkdir()
        for command in (["mount", self.source, mountpoint, "--check-only"], ["hash", self.source],
                        ["plan", self.source], ["diff", self.source, self.source]):
            self.assertEqual(run(*command).code, 2, command)
            self.assertEqual(run(*command, *options).code, 0, command)

    def test_in_a_model_with_an_index(self) -> None:
        """An index counts the bytes of all tensors, whoever knows their types."""
        hub = self.root / "hub"
        write(hub / "model-00001-of-00002.safetensors", {"w": self.model["w"]}, self.odd)
        write(hub / "model-00002-of-00002.safetensors", {"b": self.model["b"]})
        places = {"w": 1, "odd one": 1, "x.odd": 1, "b": 2}
        size = sum(len(raw.bytes) for raw in self.model.values()) + sum(len(odd[3]) for odd in self.odd)
        index = {"metadata": {"total_size": size},
                 "weight_map": {name: f"model-0000{file}-of-00002.safetensors" for name, file in places.items()}}
        (hub / "model.safetensors.index.json").write_text(json.dumps(index))
        options = ("--exclude", "odd*", "--exclude", "x.odd")
        words = ("export", hub, self.root / "out", "--views", "merged", "--format", "safetensors")
        result = run(*words)
        self.assertEqual(result.code, 2, result)
        self.assertIn("2 tensors cannot be shown: 'odd one'", one_line(result))
        for _ in range(2):  # the second time by the cache of indexes
            result = run(*words, *options, "--cache-dir", self.root / "cache")
            self.assertEqual(result.code, 0, result)
            self.assertEqual(read(self.root / "out/merged/checkpoint_merged.safetensors"), as_read(self.model))
            shutil.rmtree(self.root / "out")
        self.assertEqual(run("verify", hub).code, 1)
        self.assertEqual(run("verify", hub, *options).code, 0)
        index["metadata"]["total_size"] += 1
        (hub / "model.safetensors.index.json").write_text(json.dumps(index))
        result = run(*words, *options)
        self.assertEqual(result.code, 2, result)
        self.assertIn("total_size", one_line(result))

    def test_commands_that_look(self) -> None:
        result = run("verify", self.source)
        self.assertEqual(result.code, 1, result.stderr)
        self.assertIn("F9_E9M9", result.stdout + result.stderr)
        self.assertEqual(run("verify", self.source, "--exclude", "odd*", "--exclude", "x.odd").code, 0)
        result = run("inspect", self.source)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("cannot be shown: 'x.odd'", result.stderr)
        refused = json.loads(run("inspect", self.source, "--json").stdout)["refused"]
        self.assertEqual([entry["name"] for entry in refused], ["odd one", "x.odd"])

    def test_of_several_ranks_of_which_none_is_like_another(self) -> None:
        for rank in range(3):
            write(self.root / f"ranks/rank_{rank}/checkpoint_{rank}-1_1.safetensors", self.model,
                  [("odd", "F9_E9M9", [3], bytes([rank] * 5))])
        words = ["export", self.root / "ranks", self.root / "ranks_out", "--views", "merged", "--format",
                 "safetensors"]
        self.assertEqual(run(*words).code, 2)
        result = run(*words, "--exclude", "odd")
        self.assertEqual(result.code, 0, result.stderr)

    def test_in_a_ckpt_file(self) -> None:
        source = self.root / "one.ckpt"
        source.write_bytes(encode_checkpoint([Record("w", "Float32", (2,), b"12345678"),
                                              Record("odd", "HiFloat8", (3,), b"abc")]))
        words = ["export", source, self.root / "ckpt_out", "--views", "merged", "--format", "safetensors"]
        line = one_line(run(*words))
        self.assertIn("1 tensor cannot be shown: 'odd' (its element type 'HiFloat8' is not known)", line)
        result = run(*words, *shlex.split(line[line.index("--exclude"):]))
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(read(self.root / "ckpt_out/merged/checkpoint_merged.safetensors"),
                         {"w": ("F32", (2,), b"12345678")})
        self.assertEqual(run("verify", source).code, 1)

    def test_damage_is_still_found(self) -> None:
        write(self.root / "hole.safetensors", {}, [("odd", "F9_E9M9", [3], b"abcd")])
        data = (self.root / "hole.safetensors").read_bytes()
        (self.root / "hole.safetensors").write_bytes(data[:-1])
        result = run("export", self.root / "hole.safetensors", self.root / "out", "--exclude", "odd")
        self.assertEqual(result.code, 2)
        self.assertIn("parameter 'odd'", one_line(result))
        write(self.root / "half.safetensors", {}, [("half", "F4", [3], b"ab")])
        result = run("export", self.root / "half.safetensors", self.root / "out")
        self.assertEqual(result.code, 2)
        self.assertIn("do not fill whole bytes", one_line(result))


class OwnDcp(unittest.TestCase):
    """What is written as a distributed checkpoint is read back."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def round_trip(self, model: Model, view: str, shards: int) -> None:
        place = self.root / str(len(list(self.root.iterdir())))
        source = write(place / "model.safetensors", model)
        out, back = place / "saved", place / "back"
        result = run("export", source, out, "--views", view, "--dcp-shards", str(shards))
        self.assertEqual(result.code, 0, result.stderr)
        result = run("verify", out / view)
        if result.code:  # shards do not state how many there are
            self.assertEqual((view, result.code), ("dcp-hf", 1), result.stdout + result.stderr)
            self.assertIn("unknown whether the tensors joined from", result.stdout + result.stderr)
        result = run("export", out / view, back, "--views", "merged", "--format", "safetensors")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(read(back / "merged/checkpoint_merged.safetensors"), as_read(model))

    def test_dcp_hf_with_any_number_of_shards(self) -> None:
        rng = random.Random(3)
        model: Model = {}
        for number, dtype in enumerate(HF_TYPES):
            for name, shape in (("m", (4, 6)), ("v", (7,)), ("one", (1,)), ("deep", (2, 1, 3)), ("scalar", ())):
                model[f"{name}.{number}"] = random_raw(rng, dtype, shape)
        for shards in (1, 2, 3, 4, 5, 7):
            with self.subTest(shards=shards):
                self.round_trip(model, "dcp-hf", shards)

    def test_dcp_hf_of_few_tensors(self) -> None:
        for number, shape in enumerate(((8, 2), (3,), (1, 1), (5, 3, 2), ())):
            model = {"w": random_raw(random.Random(number), "F32", shape)}
            for shards in (1, 2, 3):
                with self.subTest(shape=shape, shards=shards):
                    self.round_trip(model, "dcp-hf", shards)

    def test_types_of_dcp(self) -> None:
        model = {name: raw for name, raw in every_type(4).items() if raw.dtype not in (*PACKED, "C64")}
        for shards in (1, 3):
            self.round_trip(model, "dcp", shards)
        for dtype in (*PACKED, "C64"):
            for view in ("dcp", "dcp-hf"):
                source = write(self.root / "odd.safetensors", {"odd": every_type(4)[f"t.{dtype}"]})
                result = run("export", source, self.root / "out", "--views", view)
                self.assertEqual(result.code, 2)
                self.assertIn("parameter 'odd'", one_line(result))


if __name__ == "__main__":
    run_unittests()
