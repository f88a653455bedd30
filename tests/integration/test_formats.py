# SPDX-License-Identifier: Apache-2.0
"""Every format in and out, through a real mount and readers of other people."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import math
import os
import shutil
import struct
import sys
import unittest
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import (  # noqa: E402
    Record,
    bytes_field,
    decode_checkpoint,
    encode_checkpoint,
    encode_record,
    string_record,
)
from layouts import Layout, shard  # noqa: E402
from mounted import command, mounted, one_line, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

# MindSpore's name, safetensors', NumPy's for the bytes, NumPy's in a .npy header.
TYPES = [
    ("Bool", "BOOL", "?", "|b1"), ("Int8", "I8", "i1", "|i1"), ("UInt8", "U8", "u1", "|u1"),
    ("Int16", "I16", "<i2", "<i2"), ("UInt16", "U16", "<u2", "<u2"),
    ("Int32", "I32", "<i4", "<i4"), ("UInt32", "U32", "<u4", "<u4"),
    ("Int64", "I64", "<i8", "<i8"), ("UInt64", "U64", "<u8", "<u8"),
    ("Float16", "F16", "<f2", "<f2"), ("BFloat16", "BF16", "<u2", "<V2"),
    ("Float32", "F32", "<f4", "<f4"), ("Float64", "F64", "<f8", "<f8"),
]
SAFETENSORS_TO_NUMPY = {st: numpy for _, st, numpy, _ in TYPES} | {"F8_E4M3": "u1", "F8_E5M2": "u1"}
ODD_NAMES = ["a/b/c", "with space", "quote\"'`$(x)", "層.0.重み", "x" * 300, "dots..", "per%cent",
             "a//b", "/lead", "trail/", ".hidden", "tab\there", "back\\slash", "w.npy", "w.npy/inside"]

Tensors = dict[str, tuple[str, np.ndarray]]  # name to safetensors type and bytes as an array


def random_array(rng: np.random.Generator, numpy: str, shape: tuple[int, ...]) -> np.ndarray:
    dtype = np.dtype(numpy)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    raw = rng.integers(0, 256, math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def full_model(seed: int) -> Tensors:
    """All types, ranks 0 to 8, sizes 0, names that file systems and JSON do not like."""
    rng = np.random.default_rng(seed)
    model: Tensors = {}
    for index, (mindspore, st, numpy, _) in enumerate(TYPES):
        model[f"type.{mindspore}"] = (st, random_array(rng, numpy, (4, 3)))
        shape = tuple(1 + (index + d) % 3 for d in range(index % 9))
        model[f"rank{len(shape)}.{index}"] = (st, random_array(rng, numpy, shape))
    model["scalar"] = ("F32", random_array(rng, "<f4", ()))
    model["one"] = ("F64", random_array(rng, "<f8", (1,)))
    model["nothing"] = ("F32", random_array(rng, "<f4", (0, 5)))
    for name in ODD_NAMES:
        model[name] = ("F32", random_array(rng, "<f4", (2, 2)))
    return model


def write_safetensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None) -> None:
    """Not sorted as the library does it: any order is a valid file."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors: Tensors = {}
    at = 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert begin == at, f"a hole before {name}"
        at = end
        array = np.frombuffer(data[8 + length + begin:8 + length + end],
                              SAFETENSORS_TO_NUMPY[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = (entry["dtype"], array)
    assert at == len(data) - 8 - length, "bytes behind the last tensor"
    return tensors, metadata


def write_ckpt(path: Path, tensors: Tensors) -> None:
    names = {st: mindspore for mindspore, st, _, _ in TYPES}
    records = [Record(name, names[st], array.shape, array.tobytes())
               for name, (st, array) in tensors.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_checkpoint(records))


def read_ckpt(path: Path) -> Tensors:
    types = {mindspore: (st, numpy) for mindspore, st, numpy, _ in TYPES}
    return {r.name: (types[r.type][0], np.frombuffer(r.content, types[r.type][1]).reshape(r.shape))
            for r in decode_checkpoint(path.read_bytes())}


def read_params(directory: Path) -> Tensors:
    """What params/ holds, by params.json beside it."""
    by_plain = {mindspore.lower(): (st, numpy) for mindspore, st, numpy, _ in TYPES}
    tensors: Tensors = {}
    for entry in json.loads((directory / "params.json").read_text()):
        st, numpy = by_plain[entry["dtype"]]
        array = np.load(directory / entry["file"], mmap_mode="r" if 0 not in entry["shape"] else None)
        tensors[entry["name"]] = (st, np.asarray(array).view(numpy))
    return tensors


def same(test: unittest.TestCase, got: Tensors, want: Tensors, *, empty: bool = True) -> None:
    wanted = {name for name, (_, array) in want.items() if empty or array.size}
    test.assertEqual(sorted(got), sorted(wanted))
    for name in wanted:
        (got_type, mine), (want_type, theirs) = got[name], want[name]
        test.assertEqual(got_type, want_type, name)
        test.assertEqual(mine.shape, theirs.shape, name)
        test.assertEqual(mine.tobytes(), theirs.tobytes(), name)


class EveryFormatToEveryFormat(unittest.TestCase):
    def check_all(self, mountpoint: Path, model: Tensors, *, empty: bool = True) -> None:
        # .ckpt has no record for a parameter without elements.
        same(self, read_ckpt(mountpoint / "rank_0/checkpoint_0.ckpt"), model, empty=False)
        same(self, read_ckpt(mountpoint / "merged/checkpoint_merged.ckpt"), model, empty=False)
        tensors, metadata = read_safetensors(mountpoint / "rank_0/checkpoint_0.safetensors")
        same(self, tensors, model, empty=empty)
        self.assertEqual(metadata, {"format": "ms"})
        tensors, _ = read_safetensors(mountpoint / "merged/checkpoint_merged.safetensors")
        same(self, tensors, model, empty=empty)
        same(self, read_params(mountpoint / "merged"), model, empty=empty)
        same(self, read_params(mountpoint / "rank_0"), model, empty=empty)
        self.check_shards(mountpoint / "merged", model, empty)

    def check_shards(self, merged: Path, model: Tensors, empty: bool) -> None:
        index = json.loads((merged / "model.safetensors.index.json").read_text())
        shards: Tensors = {}
        for name in sorted(set(index["weight_map"].values())):
            tensors, metadata = read_safetensors(merged / name)
            self.assertEqual(metadata, {"format": "pt"})
            for parameter in tensors:
                self.assertEqual(index["weight_map"][parameter], name)
            shards |= tensors
        same(self, shards, model, empty=empty)
        total = sum(array.nbytes for _, array in model.values())
        self.assertEqual(index["metadata"]["total_size"], total)

    def test_from_each(self) -> None:
        model = full_model(1)
        options = ("--format", "ckpt,safetensors", "--params", "--shard-size", "200")
        with scratch() as directory:
            write_safetensors(directory / "st/rank_0/m.safetensors", model, {"format": "pt"})
            write_ckpt(directory / "ckpt/rank_0/m.ckpt",
                       {name: value for name, value in model.items() if value[1].size})
            full = {name: value for name, value in model.items() if value[1].size}
            for source, expected in ((directory / "st", model), (directory / "ckpt", full)):
                with self.subTest(source=source.name), mounted(source, *options) as mountpoint:
                    self.check_all(mountpoint, expected)
                    # And from there once more: what is shown can be a source.
                    for again in (mountpoint / "merged/checkpoint_merged.safetensors",
                                  mountpoint / "unified"):
                        with self.subTest(again=again.name):
                            copy = directory / "copy" / again.name
                            copy.parent.mkdir(exist_ok=True)
                            (shutil.copytree if again.is_dir() else shutil.copy)(again, copy)
                            with mounted(copy, *options) as second:
                                self.check_all(second, expected)
                            (shutil.rmtree if copy.is_dir() else os.unlink)(copy)

    def test_the_format_is_the_sources_own_unless_asked(self) -> None:
        with scratch() as directory:
            model: Tensors = {"w": ("F32", np.arange(4, dtype="<f4"))}
            write_safetensors(directory / "st/rank_0/m.safetensors", model)
            write_ckpt(directory / "ckpt/rank_0/m.ckpt", model)
            for source, expected in (("st", ".safetensors"), ("ckpt", ".ckpt")):
                with mounted(directory / source) as mountpoint:
                    self.assertEqual(os.listdir(mountpoint / "rank_0"), ["checkpoint_0" + expected])

    def test_float8_is_carried_as_bytes(self) -> None:
        with scratch() as directory:
            model: Tensors = {"a": ("F8_E4M3", np.arange(6, dtype="u1").reshape(2, 3)),
                              "b": ("F8_E5M2", np.arange(4, dtype="u1"))}
            write_safetensors(directory / "m.safetensors", model)
            with mounted(directory / "m.safetensors") as mountpoint:
                got, _ = read_safetensors(mountpoint / "rank_0/checkpoint_0.safetensors")
                same(self, got, model)
                array = np.load(mountpoint / "merged/params/a.npy")
                self.assertEqual(array.tobytes(), model["a"][1].tobytes())
                self.assertFalse((mountpoint / "merged/checkpoint_merged.ckpt").exists())
            result = run("plan", directory / "m.safetensors", "--format", "ckpt")
            self.assertEqual(result.code, 2)
            self.assertIn("F8_E4M3", one_line(result))
            self.assertIn("'a'", result.stderr)


class Sharded(unittest.TestCase):
    """A set of 4 ranks to 2, in safetensors, from each format and also without redundancy."""

    def setUp(self) -> None:
        rng = np.random.default_rng(7)
        self.full: Tensors = {
            "rows": ("BF16", random_array(rng, "<u2", (8, 6))),
            "columns": ("F32", random_array(rng, "<f4", (4, 8))),
            "plain": ("F16", random_array(rng, "<f2", (5,))),
        }
        self.src = Strategy([{"rows": Layout((2, 2), ((0,), ())), "columns": Layout((2, 2), ((), (0,))),
                              "plain": Layout((2, 2), ((),))}])
        self.dst = Strategy([{"rows": Layout((2,), ((), (0,))), "columns": Layout((2,), ((0,), ())),
                              "plain": Layout((2,), ((),))}])

    def slices(self, strategy: Strategy, rank: int) -> Tensors:
        layouts = strategy.stages[0]
        return {name: (st, np.ascontiguousarray(shard(array, layouts[name], rank)))
                for name, (st, array) in self.full.items()}

    def test_ranks(self) -> None:
        with scratch() as directory:
            write_protobuf(self.src, directory / "src.ckpt")
            write_protobuf(self.dst, directory / "dst.ckpt")
            for rank in range(4):
                tensors = self.slices(self.src, rank)
                write_safetensors(directory / f"st/rank_{rank}/m-1_2.safetensors", tensors)
                write_ckpt(directory / f"ckpt/rank_{rank}/m-1_2.ckpt", tensors)
                # Ranks 0 and 2, and 1 and 3, hold the same slices: each keeps every other one.
                kept = {name: value for index, (name, value) in enumerate(tensors.items())
                        if index % 2 == rank // 2}
                write_safetensors(directory / f"lean/rank_{rank}/m-1_2.safetensors", kept,
                                  {"format": "ms", "remove_redundancy": "True"})
            for source in ("st", "ckpt", "lean"):
                options = ("--src-strategy", directory / "src.ckpt", "--dst-strategy",
                           directory / "dst.ckpt", "--format", "safetensors", "--params")
                with self.subTest(source=source), mounted(directory / source, *options) as mountpoint:
                    for rank in range(2):
                        path = mountpoint / f"rank_{rank}/checkpoint_{rank}.safetensors"
                        got, metadata = read_safetensors(path)
                        same(self, got, self.slices(self.dst, rank))
                        self.assertEqual(metadata, {"format": "ms"})
                        same(self, read_params(mountpoint / f"rank_{rank}"), self.slices(self.dst, rank))
                    got, _ = read_safetensors(mountpoint / "merged/checkpoint_merged.safetensors")
                    same(self, got, self.full)

    def test_both_formats_in_one_set_are_refused(self) -> None:
        with scratch() as directory:
            tensors = self.slices(self.src, 0)
            write_safetensors(directory / "rank_0/m.safetensors", tensors)
            write_ckpt(directory / "rank_0/m.ckpt", tensors)
            result = run("inspect", directory)
            self.assertEqual(result.code, 2)
            self.assertIn("--src-pattern", one_line(result))
            for extension in ("ckpt", "safetensors"):
                result = run("inspect", directory, "--src-pattern", f"rank_{{rank}}/*.{extension}")
                self.assertEqual(result.code, 0, result.stderr)


class NameMaps(unittest.TestCase):
    def test_hugging_face_directory(self) -> None:
        rng = np.random.default_rng(3)
        model: Tensors = {f"layer.{i}.w": ("F32", random_array(rng, "<f4", (3, 2))) for i in range(4)}
        names = list(model)
        with scratch() as directory:
            weight_map = {}
            for part in range(2):
                file = f"model-0000{part + 1}-of-00002.safetensors"
                chosen = names[part * 2:part * 2 + 2]
                write_safetensors(directory / "hub" / file, {n: model[n] for n in chosen})
                weight_map |= {n: file for n in chosen}
            index = directory / "hub/model.safetensors.index.json"
            index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
            with mounted(directory / "hub") as mountpoint:
                got, _ = read_safetensors(mountpoint / "rank_0/checkpoint_0.safetensors")
                same(self, got, model)
            for broken, word in (
                ({**weight_map, names[0]: "missing.safetensors"}, "missing.safetensors"),
                ({**weight_map, names[0]: "../hub/x.safetensors"}, "not in its directory"),
                ({**weight_map, "ghost": "model-00001-of-00002.safetensors"}, "'ghost'"),
                ({**weight_map, names[0]: 5}, f"'{names[0]}'"),
                ([], "JSON object"),
            ):
                index.write_text(json.dumps({"weight_map": broken} if broken else broken))
                result = run("inspect", directory / "hub")
                self.assertEqual(result.code, 2, word)
                self.assertIn(word, one_line(result))

    def test_a_directory_with_one_file(self) -> None:
        model: Tensors = {"w": ("F32", np.arange(4, dtype="<f4"))}
        with scratch() as directory:
            write_safetensors(directory / "model.safetensors", model)
            (directory / "config.json").write_text("{}")
            with mounted(directory) as mountpoint:
                got, _ = read_safetensors(mountpoint / "rank_0/checkpoint_0.safetensors")
                same(self, got, model)
            write_safetensors(directory / "other.safetensors", model)
            self.assertEqual(run("inspect", directory).code, 2)


class TextsAndMaps(unittest.TestCase):
    def map_record(self, name: str, content: bytes) -> bytes:
        parts = b"".join(bytes_field(1, bytes_field(3, content)) for _ in range(3))
        return bytes_field(1, bytes_field(1, name.encode()) + bytes_field(3, parts))

    def test_texts_go_to_the_metadata(self) -> None:
        with scratch() as directory:
            records = [Record("w", "Float32", (1,), b"abcd"), string_record("run", "llama α 模型"),
                       string_record("empty", ""), string_record("format", "mine")]
            (directory / "m.ckpt").write_bytes(encode_checkpoint(records))
            with mounted(directory / "m.ckpt", "--format", "safetensors") as mountpoint:
                _, metadata = read_safetensors(mountpoint / "rank_0/checkpoint_0.safetensors")
                self.assertEqual(metadata, {"format": "ms", "run": "llama α 模型", "empty": ""})
                entries = json.loads((mountpoint / "merged/params.json").read_text())
                self.assertIn({"name": "run", "value": "llama α 模型"},
                              [{k: e[k] for k in ("name", "value") if k in e} for e in entries])
            result = run("plan", directory / "m.ckpt", "--format", "safetensors")
            self.assertIn("format", result.stderr)
            self.assertIn("not in safetensors files", result.stderr)

    def test_maps_are_carried_over(self) -> None:
        with scratch() as directory:
            tensor = encode_record(Record("w", "Float32", (1,), b"abcd"))
            table = self.map_record("table", b"keys and values")
            for rank in range(2):
                path = directory / f"rank_{rank}/m.ckpt"
                path.parent.mkdir()
                path.write_bytes(tensor + table)
            with mounted(directory) as mountpoint:
                self.assertEqual((mountpoint / "rank_0/checkpoint_0.ckpt").read_bytes(), tensor + table)
            result = run("plan", directory, "--format", "safetensors")
            self.assertIn("table", result.stderr)
            # Maps that differ between the ranks have no whole.
            (directory / "rank_1/m.ckpt").write_bytes(tensor + self.map_record("table", b"others"))
            result = run("plan", directory)
            self.assertEqual(result.code, 2, result.stderr)
            self.assertIn("table", one_line(result))

    def test_a_map_that_the_strategy_cuts_is_refused(self) -> None:
        with scratch() as directory:
            cut = Layout((2,), ((0,), ()))
            write_protobuf(Strategy([{"w": Layout((2,), ((0,),)), "table": cut}]), directory / "s.ckpt")
            for rank in range(2):
                path = directory / f"src/rank_{rank}/m.ckpt"
                path.parent.mkdir(parents=True)
                path.write_bytes(encode_record(Record("w", "Float32", (1,), b"abcd"))
                                 + self.map_record("table", b"x"))
            result = run("plan", directory / "src", "--src-strategy", directory / "s.ckpt")
            self.assertEqual(result.code, 2)
            self.assertIn("'table'", one_line(result))
            self.assertIn("map parameter", result.stderr)
            self.assertIn("device matrix", result.stderr)


class Casts(unittest.TestCase):
    def test_rounds_to_nearest_even(self) -> None:
        values = np.array([1.0, 1.00390625, 1.01171875, -0.0, np.inf, -np.inf, 3.4e38, 1e-40, np.nan],
                          "<f4")
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", {
                "a.weight": ("F32", values), "a.norm": ("F32", values), "step": ("I32", np.arange(3, dtype="<i4"))})
            options = ("--cast", "*.norm:fp32->fp16", "--cast", "fp32->bf16")
            with mounted(directory / "m.safetensors", *options, "--format", "ckpt,safetensors") as mountpoint:
                got, metadata = read_safetensors(mountpoint / "rank_0/checkpoint_0.safetensors")
                self.assertEqual(metadata, {"format": "ms", "cast": "*.norm:fp32->fp16, fp32->bf16"})
                self.assertEqual([got[n][0] for n in ("a.norm", "a.weight", "step")],
                                 ["F16", "BF16", "I32"])
                with np.errstate(over="ignore"):
                    expected = values.astype("<f2")
                np.testing.assert_array_equal(got["a.norm"][1], expected)
                bits = got["a.weight"][1]
                self.assertEqual([hex(b) for b in bits[:7]],
                                 ["0x3f80", "0x3f80", "0x3f82", "0x8000", "0x7f80", "0xff80", "0x7f80"])
                self.assertTrue(int(bits[8]) & 0x7FFF > 0x7F80)
                same(self, read_ckpt(mountpoint / "rank_0/checkpoint_0.ckpt"), got)
                path = mountpoint / "merged/params/a.weight.npy"
                self.assertEqual(os.getxattr(path, "user.reshardfs.dtype"), b"bfloat16")
                self.assertEqual(np.load(path).tobytes(), bits.tobytes())

    def test_any_range_of_a_cast_file_is_the_same(self) -> None:
        rng = np.random.default_rng(5)
        values = rng.standard_normal(100_003).astype("<f4")
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", {"w": ("F32", values)})
            with mounted(directory / "m.safetensors", "--cast", "fp32->fp16") as mountpoint:
                path = mountpoint / "merged/params/w.npy"
                whole = path.read_bytes()
                self.assertEqual(whole[-2 * values.size:], values.astype("<f2").tobytes())
            with mounted(directory / "m.safetensors", "--cast", "fp32->fp16", "--direct-io") as mountpoint:
                with open(mountpoint / "merged/params/w.npy", "rb", buffering=0) as file:
                    for _ in range(200):
                        at, size = int(rng.integers(len(whole))), int(rng.integers(1, 40_000))
                        self.assertEqual(os.pread(file.fileno(), size, at), whole[at:at + size])

    def test_wrong_casts_are_refused(self) -> None:
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", {"w": ("F32", np.arange(2, dtype="<f4"))})
            for text in ("fp32", "fp32->int8", "fp33->fp16", "->fp16"):
                result = run("plan", directory / "m.safetensors", "--cast", text)
                self.assertEqual(result.code, 2, text)
                self.assertIn(text, one_line(result))


class Crc(unittest.TestCase):
    def test_trailer(self) -> None:
        rng = np.random.default_rng(2)
        with scratch() as directory:
            write_ckpt(directory / "m.ckpt", {"w": ("F32", random_array(rng, "<f4", (1000, 700)))})
            plain = (directory / "m.ckpt").read_bytes()
            with mounted(directory / "m.ckpt", "--crc") as mountpoint:
                path = mountpoint / "rank_0/checkpoint_0.ckpt"
                self.assertEqual(path.stat().st_size, len(plain) + 17)
                with open(path, "rb") as file:
                    tail = os.pread(file.fileno(), 30, len(plain) - 13)
                data = path.read_bytes()
            self.assertEqual(data[:len(plain)], plain)
            self.assertEqual(data[len(plain):], b"crc_num" + zlib.crc32(plain).to_bytes(10, "big"))
            self.assertEqual(tail, data[-30:])
            (directory / "copy.ckpt").write_bytes(data)
            self.assertEqual(run("inspect", "--check-crc", directory / "copy.ckpt").code, 0)


class ControlFiles(unittest.TestCase):
    def test_status_plan_metrics_version(self) -> None:
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", {"w": ("F32", np.arange(99, dtype="<f4"))})
            with mounted(directory / "m.safetensors") as mountpoint:
                self.assertNotIn(".reshardfs", os.listdir(mountpoint))
                control = mountpoint / ".reshardfs"
                self.assertEqual(sorted(os.listdir(control)),
                                 ["metrics", "plan.json", "status.json", "version"])
                (mountpoint / "rank_0/checkpoint_0.safetensors").read_bytes()
                status = json.loads((control / "status.json").read_text())
                self.assertEqual(status["source_format"], "safetensors")
                self.assertGreaterEqual(status["activity"]["bytes_delivered"], 396)
                self.assertGreaterEqual(status["activity"]["bytes_read_from_sources"], 396)
                plan = json.loads((control / "plan.json").read_text())
                self.assertEqual(plan["ranks"][0]["needed_ranks"], [0])
                self.assertEqual(plan["ranks"][0]["sources"][0]["bytes"], 396)
                self.assertTrue((control / "version").read_text().startswith("reshardfs "))
                self.check_metrics((control / "metrics").read_text())
                if shutil.which("jq"):
                    for path in (control / "status.json", control / "plan.json",
                                 mountpoint / "merged/params.json",
                                 mountpoint / "merged/model.safetensors.index.json",
                                 mountpoint / "unified/param_name_map.json"):
                        self.assertTrue(command("jq", "-c", ".", path))

    def check_metrics(self, text: str) -> None:
        if importlib.util.find_spec("prometheus_client") is None:
            self.skipTest("python3-prometheus-client is not installed")
        from prometheus_client.parser import text_string_to_metric_families
        families = {family.name: family for family in text_string_to_metric_families(text)}
        self.assertTrue(all(name.startswith("reshardfs_") for name in families), families.keys())
        histogram = [f for f in families.values() if f.type == "histogram"]
        self.assertEqual(len(histogram), 1)
        counts = [s.value for s in histogram[0].samples if s.name.endswith("_bucket")]
        self.assertEqual(counts, sorted(counts))
        self.assertGreater(counts[-1], 0)

    def test_the_key_is_nowhere(self) -> None:
        golden = Path(__file__).resolve().parents[1] / "golden/encrypted"
        case = json.loads((golden / "case.json").read_text())
        name, key = "AES-GCM_256.ckpt", case["keys_hex"]["AES-GCM_256.ckpt"]["key"]
        raw = bytes.fromhex(key)
        with scratch() as directory:
            (directory / "key").write_text(key)
            log = directory / "log"
            options = ("--dec-key-file", directory / "key", "--log-file", log, "-v", "-v")
            with mounted(golden / "src" / name, *options) as mountpoint:
                (mountpoint / "rank_0/checkpoint_0.ckpt").read_bytes()
                shown = b"".join((mountpoint / ".reshardfs" / n).read_bytes()
                                 for n in os.listdir(mountpoint / ".reshardfs"))
                for pid in os.listdir("/proc"):
                    if pid.isdigit():
                        try:
                            shown += Path(f"/proc/{pid}/cmdline").read_bytes()
                            if b"reshardfs" in Path(f"/proc/{pid}/cmdline").read_bytes():
                                shown += Path(f"/proc/{pid}/environ").read_bytes()
                        except OSError:
                            pass
            shown += log.read_bytes()
            for secret in (key.encode(), key.upper().encode(), raw, base64.b64encode(raw)):
                self.assertNotIn(secret, shown)


class Attributes(unittest.TestCase):
    def test_on_files(self) -> None:
        rng = np.random.default_rng(9)
        with scratch() as directory:
            full = random_array(rng, "<f4", (8, 4))
            write_protobuf(Strategy([{"w": Layout((2,), ((0,), ()))}]), directory / "src.ckpt")
            write_protobuf(Strategy([{"w": Layout((2,), ((), (0,)))}]), directory / "dst.ckpt")
            for rank in range(2):
                write_ckpt(directory / f"set/rank_{rank}/m-3_40.ckpt", {"w": ("F32", full[rank * 4:][:4])})
            options = ("--src-strategy", directory / "src.ckpt", "--dst-strategy", directory / "dst.ckpt",
                       "--params")
            with mounted(directory / "set", *options) as mountpoint:
                array = mountpoint / "rank_1/params/w.npy"
                self.assertEqual(sorted(os.listxattr(array)),
                                 [f"user.reshardfs.{n}" for n in ("dtype", "layout", "shape", "source", "step")])
                self.assertEqual(os.getxattr(array, "user.reshardfs.shape"), b"[8, 2]")
                self.assertEqual(os.getxattr(array, "user.reshardfs.step"), b"3_40")
                self.assertIn(b"tensor map [-1, 0]", os.getxattr(array, "user.reshardfs.layout"))
                source = json.loads(os.getxattr(array, "user.reshardfs.source"))
                self.assertEqual([f["rank"] for f in source["files"]], [0, 1])
                self.assertEqual([f["bytes"] for f in source["files"]], [32, 32])
                # The ranges are where the elements are: read them by hand.
                data = b""
                for piece in source["parameters"]["w"]:
                    stored = Path(source["files"][piece["file"]]["file"]).read_bytes()
                    for i in range(piece.get("count", 1)):
                        at = piece["offset"] + i * piece.get("stride", 0)
                        data += stored[at:at + piece["length"]]
                self.assertEqual(data, np.ascontiguousarray(full[:, 2:]).tobytes())
                rank_file = mountpoint / "rank_0/checkpoint_0.ckpt"
                digest = hashlib.sha256(rank_file.read_bytes()).hexdigest()
                self.assertEqual(os.getxattr(rank_file, "user.reshardfs.sha256").decode(), digest)
                self.assertNotIn("user.reshardfs.sha256", os.listxattr(rank_file))
                with self.assertRaises(OSError):
                    os.getxattr(rank_file, "user.reshardfs.nothing")


class Large(unittest.TestCase):
    """A sparse file of 6 GiB: offsets beyond 32 bits, several parts, shards and records."""

    def test_parts_shards_and_records(self) -> None:
        gib = 1 << 30
        tensors = {"a": ("F16", gib), "b": ("F32", gib // 2), "c": ("F32", gib // 2)}
        marks = {"a": (0, gib - 1), "b": (gib // 8 - 1, gib // 8, gib // 2 - 1), "c": (12345,)}
        with scratch() as directory:
            path = directory / "m.safetensors"
            header, at = {}, 0
            for name, (dtype, count) in tensors.items():
                header[name] = {"dtype": dtype, "shape": [count], "data_offsets": [at, at + 2 * gib]}
                at += 2 * gib
            text = json.dumps(header).encode()
            text += b" " * (-len(text) % 8)
            with open(path, "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text)
                for index, (name, (dtype, _)) in enumerate(tensors.items()):
                    width = 2 if dtype == "F16" else 4
                    for position in marks[name]:
                        file.seek(8 + len(text) + index * 2 * gib + position * width)
                        file.write((position % 60000 + 1).to_bytes(width, "little"))
                file.truncate(8 + len(text) + at)
            with mounted(path) as mountpoint:
                unified = json.loads((mountpoint / "unified/param_name_map.json").read_text())
                # 4 bytes are counted for each element: 8 GiB in parts of 3.
                self.assertEqual(unified["weight_map"],
                                 {name: f"part{i}.safetensors" for i, name in enumerate("abc")})
                index = json.loads((mountpoint / "merged/model.safetensors.index.json").read_text())
                self.assertEqual(sorted(set(index["weight_map"].values())),
                                 [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)])
                self.assertEqual(index["metadata"]["total_size"], 6 * gib)
                for name, (dtype, count) in tensors.items():
                    array = np.load(mountpoint / f"merged/params/{name}.npy", mmap_mode="r")
                    bits = array.view("<u2" if dtype == "F16" else "<u4")
                    self.assertEqual(bits.shape, (count,))
                    for position in marks[name]:
                        self.assertEqual(int(bits[position]), position % 60000 + 1)
                        if position > 1:
                            self.assertEqual(int(bits[position - 2]), 0)
                    del array, bits  # an open mapping keeps the mount in use
                # b is written in 4 records of 512 MiB: the marks stand on both sides of a border.
                merged = mountpoint / "merged/checkpoint_merged.ckpt"
                self.assertGreater(merged.stat().st_size, 6 * gib)
                found = self.find_record(merged, "b")
                with open(merged, "rb") as file:
                    file.seek(found[0][0] + found[0][1] - 4)
                    self.assertEqual(int.from_bytes(file.read(4), "little"), (gib // 8 - 1) % 60000 + 1)
                    file.seek(found[1][0])
                    self.assertEqual(int.from_bytes(file.read(4), "little"), gib // 8 % 60000 + 1)
                self.assertEqual([length for _, length in found], [gib // 2] * 4)

    def find_record(self, path: Path, wanted: str) -> list[tuple[int, int]]:
        """Where the contents of a parameter's records are, by a walk over the headers."""
        found, at, size = [], 0, path.stat().st_size
        with open(path, "rb") as file:
            while at < size:
                head = os.pread(file.fileno(), 200, at)
                value, value_bytes = length_behind(head, 1)
                begin, name_bytes = length_behind(head, value + 1)
                content, content_bytes = length_behind(head, head.rfind(b"Float") + len("Float32") + 1)
                end = at + value + value_bytes
                self.assertEqual(at + content + content_bytes, end)
                if head[begin:begin + name_bytes].decode() == wanted:
                    found.append((at + content, content_bytes))
                at = end
        return found


def length_behind(data: bytes, at: int) -> tuple[int, int]:
    """A varint at a place, and the place behind it."""
    length = shift = 0
    while True:
        length |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return at, length


class OtherReaders(unittest.TestCase):
    def test_torch_maps_the_file(self) -> None:
        if importlib.util.find_spec("torch") is None:
            self.skipTest("python3-torch is not installed")
        import mmap
        import warnings

        import torch
        rng = np.random.default_rng(4)
        values = rng.standard_normal((64, 32)).astype("<f4")
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", {"w": ("F32", values)})
            with mounted(directory / "m.safetensors", "--cast", "fp32->bf16", "--align", "64") as mountpoint:
                path = mountpoint / "merged/checkpoint_merged.safetensors"
                with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
                    length = int.from_bytes(view[:8], "little")
                    self.assertEqual((8 + length) % 64, 0)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # the mapping is read-only
                        tensor = torch.frombuffer(view, dtype=torch.bfloat16, count=values.size,
                                                  offset=8 + length).reshape(64, 32).clone()
                expected = torch.from_numpy(values.copy()).to(torch.bfloat16)
                self.assertTrue(torch.equal(tensor, expected))


    def test_the_library_of_model_hubs(self) -> None:
        modules = os.environ.get("RESHARDFS_NODE_MODULES", "")
        if not shutil.which("node") or not Path(modules, "@huggingface/hub").is_dir():
            self.skipTest("RESHARDFS_NODE_MODULES names no directory with @huggingface/hub")
        model = {name: (st, array) for name, (st, array) in full_model(6).items() if array.size}
        script = Path(__file__).with_name("hub_reader.mjs")
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", model)
            for size in ("300", "5GB"):
                with mounted(directory / "m.safetensors", "--shard-size", size) as mountpoint:
                    read = json.loads(command("node", script, modules, mountpoint / "merged"))
                self.assertEqual(sorted(read), sorted(model))
                for name, (st, array) in model.items():
                    digest = hashlib.sha256(array.tobytes()).hexdigest()
                    self.assertEqual(read[name], {"dtype": st, "shape": list(array.shape),
                                                  "sha256": digest}, name)


class Views(unittest.TestCase):
    def test_selection(self) -> None:
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", {"w": ("F32", np.arange(9, dtype="<f4"))})
            everything = ["merged", "rank_0", "strategy", "unified"]
            for views, names in ((None, everything), ("ranks", ["rank_0"]), ("params", ["merged"]),
                                 ("merged,unified", ["merged", "unified"])):
                options = ("--views", views) if views else ()
                with mounted(directory / "m.safetensors", *options) as mountpoint:
                    self.assertEqual(sorted(os.listdir(mountpoint)), names)
                    if views == "params":
                        self.assertEqual(sorted(os.listdir(mountpoint / "merged")),
                                         ["params", "params.json"])


if __name__ == "__main__":
    run_unittests()
