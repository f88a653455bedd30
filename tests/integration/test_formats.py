# SPDX-License-Identifier: Apache-2.0
"""Every format in and out, through a real mount."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unittest
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import (  # noqa: E402
    Record,
    bytes_field,
    encode_checkpoint,
    encode_record,
    string_record,
)
from format_files import (  # noqa: E402
    Tensors,
    full_model,
    random_array,
    read_ckpt,
    read_params,
    read_safetensors,
    same,
    write_ckpt,
    write_safetensors,
)
from layouts import Layout, shard  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402


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
        options = ("--format", "ckpt,safetensors", "--params", "--shard-size", "200B")
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

    def test_commands_say_how_many_parameters_are_cast(self) -> None:
        with scratch() as directory:
            source = directory / "m.safetensors"
            write_safetensors(source, {"w": ("F32", np.arange(2, dtype="<f4")), "n": ("I32", np.arange(2, dtype="<i4"))})
            line = "--cast converts 1 of 2 parameters"
            cast = ("--cast", "fp32->fp16")
            self.assertIn(line, run("plan", source, *cast).stdout.splitlines())
            self.assertIn(line, run("export", source, directory / "out", *cast).stdout.splitlines())
            self.assertNotIn("--cast", run("plan", source).stdout)

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


if __name__ == "__main__":
    run_unittests()
