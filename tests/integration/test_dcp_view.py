# SPDX-License-Identifier: Apache-2.0
"""--views dcp and dcp-hf: any set as a directory of torch.distributed.checkpoint, read by a reader of
its own (tests/data/dcp_reader.py) and by reshardfs itself."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import unittest
import zipfile
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from dcp_reader import Checkpoint, read_archive, read_dcp, read_dcp_safetensors  # noqa: E402
from format_files import (full_model, random_array, read_safetensors, same,  # noqa: E402
                          write_safetensors)
from layouts import Layout, box  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402
from random_checkpoint2 import TYPES, random_full, random_layout, with_optimizer_cut  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402
from test_goldenmap import GOLDEN as MAPS  # noqa: E402
from test_goldenmap import words_of  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldendcp"
TORCH_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
               "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
               "BOOL": "bool", "U16": "uint16", "U32": "uint32", "U64": "uint64",
               "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
# Those that the reader of the Hugging Face form knows.
PLAIN = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8")
END_BYTES = 22  # the end record of a ZIP archive

Tensors = dict[str, tuple[str, np.ndarray]]


def golden_cases() -> list[Path]:
    """Those that reshardfs reads as a source."""
    found = []
    for path in sorted(GOLDEN.glob("*/case.json")):
        case = json.loads(path.read_text())
        if case["must"] == "same" and (path.parent / "src/.metadata").exists():
            found.append(path.parent)
    return found


class Part:
    """The first archive of a file, for zipfile, which wants nothing behind it.

    `limit` is where the next one begins.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self.file = file
        file.seek(limit - 4096)
        self.end = limit - 4096 + file.read(4096).rindex(b"PK\x05\x06") + END_BYTES
        self.at = 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.end}[whence]
        return self.at

    def read(self, count: int = -1) -> bytes:
        count = self.end - self.at if count < 0 else min(count, self.end - self.at)
        self.file.seek(self.at)
        data = self.file.read(count)
        self.at += len(data)
        return data


class DcpTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def export(self, source: Path, *words: str | Path, out: str = "out",
               views: str = "dcp") -> Path:
        result = run("export", source, self.root / out, "--views", views, *words)
        self.assertEqual(result.code, 0, result.stderr)
        self.told = result.stderr
        return self.root / out / views.partition(",")[0]

    def refused(self, source: Path, *words: str | Path, views: str = "dcp") -> str:
        result = run("export", source, self.root / "refused", "--views", views, *words)
        self.assertEqual(result.code, 2, result.stderr)
        return one_line(result)

    def assert_tensors(self, got: Checkpoint, want: Tensors) -> None:
        self.assertEqual(sorted(got.tensors), sorted(want))
        for name, (kind, array) in want.items():
            torch_name, mine = got.tensors[name]
            self.assertEqual((torch_name, mine.shape), (TORCH_NAMES[kind], array.shape), name)
            self.assertEqual(mine.tobytes(), array.tobytes(), name)

    def model(self, tensors: Tensors) -> Path:
        path = self.root / "model.safetensors"
        write_safetensors(path, tensors)
        return path


class Golden(DcpTest):
    def options_of(self, case: Path) -> list[str]:
        refused = json.loads((case / "case.json").read_text()).get("refused", [])
        return ["--dst-strategy", "none", *(w for name in refused for w in ("--exclude", name))]

    def test_tensors_and_objects_pass(self) -> None:
        cases = golden_cases()
        self.assertGreater(len(cases), 12)
        objects = 0
        for case in cases:
            for shards in ((), ("--dcp-shards", "3")):
                with self.subTest(case=case.name, shards=shards):
                    words = (*self.options_of(case), *shards)
                    want, _ = read_safetensors(case / "expected.safetensors")
                    saved = self.export(case / "src", *words, out=f"{case.name}{len(shards)}")
                    got = read_dcp(saved)
                    self.assert_tensors(got, want)
                    names = json.loads((case / "case.json").read_text()).get("byte_items", [])
                    if list((case / "src").glob("*.bytes")):
                        names = []  # of hyper-parallel: PyTorch cannot load them
                    self.assertEqual(sorted(got.objects), sorted(names))
                    objects += len(names)
                    # Read once more, by reshardfs.
                    again = self.export(saved, "--dst-strategy", "none", views="ranks",
                                        out=f"{case.name}{len(shards)}-again")
                    same(self, read_safetensors(again.parent / "rank_0/checkpoint_0.safetensors")[0],
                         want)
        self.assertGreater(objects, 10)

    def test_objects_keep_their_bytes_and_names_their_nesting(self) -> None:
        for name in ("fsdp_tp_2x", "rows4_113", "single_file_113"):
            before = self.table_of(GOLDEN / name / "src")
            got = read_dcp(self.export(GOLDEN / name / "src", "--dst-strategy", "none", out=name))
            self.assertEqual(got.objects, before[0])
            for key, path in got.paths.items():
                self.assertEqual(path, (before[1] or {}).get(key, (key,)))
        nested = [path for path in read_dcp(self.root / "fsdp_tp_2x/dcp").paths.values()
                  if len(path) > 1]
        self.assertGreater(len(nested), 10)
        self.assertTrue(any(isinstance(key, int) for path in nested for key in path), nested)

    def table_of(self, source: Path) -> tuple[dict[str, bytes], Any]:
        """The objects of a directory, and its paths."""
        from dcp_reader import Index, TableUnpickler

        class Anything(TableUnpickler):
            def find_class(self, module: str, name: str) -> Any:
                try:
                    return super().find_class(module, name)
                except Exception:  # noqa: BLE001: what else a table has does not matter here
                    return type(name, (), {"__init__": lambda self, *_: None,
                                           "__setstate__": lambda self, _: None})

        table = Anything((source / ".metadata").read_bytes()).load()
        objects = {}
        for name, what in table.state_dict_metadata.items():
            if type(what).__name__ == "BytesStorageMetadata":
                place = table.storage_data[Index(name)]
                data = (source / place.relative_path).read_bytes()
                objects[name] = data[place.offset:place.offset + place.length]
        return objects, table.planner_data

    def test_objects_can_be_left_out_and_are_checked(self) -> None:
        source = GOLDEN / "rows4_113/src"
        names = sorted(read_dcp(self.export(source, "--dst-strategy", "none")).objects)
        words = [w for name in names[1:] for w in ("--exclude", name)]
        got = read_dcp(self.export(source, "--dst-strategy", "none", *words, out="one"))
        self.assertEqual(list(got.objects), names[:1])
        broken = Path(shutil.copytree(source, self.root / "broken"))
        broken.chmod(0o755)
        for path in broken.glob("*.distcp"):
            path.chmod(0o644)
        before = self.table_of(source)[0]
        held = next(path for path in sorted(broken.glob("*.distcp"))
                    if any(data in path.read_bytes() for data in before.values()))
        held.unlink()
        words = [w for name in self.lost(broken) for w in ("--exclude", name)]
        self.assertIn("is missing", self.refused(broken, "--dst-strategy", "none", *words))

    def lost(self, source: Path) -> list[str]:
        """The tensors that verify reports as missing."""
        result = run("export", source, self.root / "x", "--views", "ranks", "--dst-strategy", "none")
        words = result.stderr.replace("\n", " ").split()
        return [words[i + 1].strip("';,") for i, word in enumerate(words) if word == "--exclude"]


class Everything(DcpTest):
    def test_all_types_shapes_and_names(self) -> None:
        model = full_model(7)
        model["f8"] = ("F8_E4M3", random_array(np.random.default_rng(1), "u1", (6, 2)))
        model["f8b"] = ("F8_E5M2", random_array(np.random.default_rng(2), "u1", (5,)))
        model["a.b.c"] = ("F32", random_array(np.random.default_rng(3), "<f4", (300, 70)))
        source = self.model(model)
        for shards in ((), ("--dcp-shards", "1"), ("--dcp-shards", "5"), ("--dcp-shards", "99999")):
            with self.subTest(shards=shards):
                saved = self.export(source, *shards, out="-".join(("out", *shards[1:])))
                got = read_dcp(saved)
                self.assert_tensors(got, model)
                self.assertEqual(got.release, "2")
                self.assertEqual(got.paths, {name: (name,) for name in model})
                result = run("export", saved, self.root / "again", "--force", "--views", "ranks",
                             "--dst-strategy", "none")
                self.assertEqual(result.code, 0, result.stderr)
                same(self, read_safetensors(
                    self.root / "again/rank_0/checkpoint_0.safetensors")[0], model)

    def test_shards_are_equally_large(self) -> None:
        rng = np.random.default_rng(5)
        model: Tensors = {f"w{i}": ("F32", random_array(rng, "<f4", (int(rng.integers(1, 900)), 16)))
                          for i in range(20)}
        total = sum(array.nbytes for _, array in model.values())
        for count in (2, 3, 16):
            got = read_dcp(self.export(self.model(model), "--dcp-shards", str(count),
                                       out=f"out{count}"))
            self.assert_tensors(got, model)
            bytes_of: dict[str, int] = {}
            for boxes in got.boxes.values():
                for file, _, sizes in boxes:
                    bytes_of[file] = bytes_of.get(file, 0) + 4 * prod(sizes)
            self.assertEqual(sorted(bytes_of), sorted(f"__{n}_0.distcp" for n in range(count)))
            for size in bytes_of.values():
                self.assertLess(abs(size - total / count), 2 * 16 * 4)

    def test_the_same_bytes_at_every_place_of_a_mount(self) -> None:
        source = self.model(full_model(3))
        saved = self.export(source, "--dcp-shards", "2")
        rng = random.Random(1)
        with mounted(source, "--views", "dcp", "--dcp-shards", "2") as mountpoint:
            names = sorted(path.name for path in saved.iterdir())
            self.assertEqual(sorted(os.listdir(mountpoint / "dcp")), names)
            self.assertEqual(len(names), 3)
            for name in names:
                want = (saved / name).read_bytes()
                path = mountpoint / "dcp" / name
                self.assertEqual(path.stat().st_size, len(want))
                with open(path, "rb", buffering=0) as file:
                    for _ in range(200):
                        at = rng.randrange(len(want))
                        length = rng.choice((1, 7, 64, 4096, 100_000))
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                        got = os.pread(file.fileno(), length, at)
                        self.assertEqual(got, want[at:at + length], f"{name} {at} {length}")

    def test_attributes_tell_the_sources(self) -> None:
        source = self.model({"w": ("F32", np.arange(64, dtype="<f4").reshape(8, 8))})
        with mounted(source, "--views", "dcp", "--dcp-shards", "2") as mountpoint:
            text = os.getxattr(mountpoint / "dcp/__1_0.distcp", "user.reshardfs.source")
            told = json.loads(text)
        self.assertEqual(told["files"][0]["bytes"], 128)
        (piece,) = told["parameters"]["w"]
        self.assertEqual(piece["length"], 128)

    def test_larger_than_32_bits_tell(self) -> None:
        """Of a file with holes: nothing is read but what is asked for."""
        rows = (5 << 30) // 4096
        path = self.root / "huge.safetensors"
        header = {"w": {"dtype": "F32", "shape": [rows, 1024], "data_offsets": [0, rows * 4096]},
                  "z": {"dtype": "F32", "shape": [2], "data_offsets": [rows * 4096, rows * 4096 + 8]}}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            begin = file.tell()
            file.seek(begin + 4096 * (rows - 1))
            file.write(np.arange(1024, dtype="<f4").tobytes())
            file.write(np.array([5, 6], "<f4").tobytes())
        rules = self.root / "one.toml"  # a part of a strategy is an archive, however large
        rules.write_text('[devices]\naxes = ["tp=1"]\nunmatched = "replicate"\n')
        with mounted(path, "--views", "dcp", "--dst-strategy", rules) as mountpoint:
            with open(mountpoint / "dcp/__0_0.distcp", "rb") as file:
                size = file.seek(0, os.SEEK_END)
                self.assertGreater(size, 5 << 30)
                # The last archive, of z, begins at a multiple of 64; the first one before it.
                file.seek(size - 2048)
                tail = file.read()
                begin = tail.index(b"PK\x03\x04")
                self.assertEqual(read_archive(tail[begin:])[1].tolist(), [5, 6])
                with zipfile.ZipFile(Part(file, size - 2048 + begin)) as archive:  # type: ignore
                    entry = archive.getinfo("archive/data/0")
                    self.assertEqual(entry.file_size, rows * 4096)
                    self.assertIn(b"_rebuild_tensor_v2", archive.read("archive/data.pkl"))
            again = self.root / "again"
            result = run("export", mountpoint / "dcp", again, "--views", "params", "--include", "z",
                         "--dst-strategy", "none")
            self.assertEqual(result.code, 0, result.stderr)
            with mounted(mountpoint / "dcp", "--views", "params", "--dst-strategy",
                         "none") as second:
                array = np.load(second / "merged/params/w.npy", mmap_mode="r")
                self.assertEqual(array[-1].tolist(), list(range(1024)))
                del array


class OfRanks(DcpTest):
    """A file for each target rank, with its slices."""

    def test_each_slice_is_a_box_and_stored_once(self) -> None:
        model: Tensors = {"w": ("F32", np.arange(96, dtype="<f4").reshape(12, 8)),
                          "v": ("BF16", np.arange(96, dtype="<u2").reshape(12, 8)),
                          "norm": ("F32", np.arange(4, dtype="<f4"))}
        write_protobuf(Strategy([{"w": Layout((2, 2), ((0,), ())), "v": Layout((2, 2), ((1,), (0,)))}]),
                       self.root / "dst.ckpt")
        got = read_dcp(self.export(self.model(model), "--dst-strategy", self.root / "dst.ckpt"))
        self.assert_tensors(got, model)
        self.assertEqual(sorted((offsets, sizes) for _, offsets, sizes in got.boxes["w"]),
                         [((0, 0), (6, 8)), ((6, 0), (6, 8))])
        self.assertEqual(sorted(got.boxes["v"]), [(f"__{r}_0.distcp", (r // 2 * 6, r % 2 * 4), (6, 4))
                                                  for r in range(4)])
        self.assertEqual(len(got.boxes["norm"]), 1)
        # Replicas go to whom has least.
        self.assertEqual(len({file for boxes in got.boxes.values() for file, _, _ in boxes}), 4)

    def test_random_layouts(self) -> None:
        for seed in range(40):
            with self.subTest(seed=seed):
                self.random_set(seed)

    def random_set(self, seed: int) -> None:
        rng = random.Random(seed)
        devices, stages = rng.choice((1, 2, 3, 4, 6, 8)), rng.choice((1, 1, 2, 3))
        layouts: list[dict[str, Layout]] = [{} for _ in range(stages)]
        model: Tensors = {}
        while len(model) < 8:
            name = f"层.{len(model)}.w"
            held = rng.sample(range(stages), rng.choice((1, 1, stages)))
            dimensions = rng.choice((1, 2, 2, 3))
            cuts = [with_optimizer_cut(rng, random_layout(rng, devices, dimensions)) for _ in held]
            cuts = [cuts[0]] * len(cuts) if rng.random() < 0.5 else cuts
            kind = rng.choice(list(TYPES))
            whole = [Layout(cut.device_matrix, cut.tensor_map,
                            max(prod(cut.device_matrix) // prod(cut.splits), 1)) for cut in cuts]
            full = random_full(rng, kind, *whole)
            if full is None:
                continue
            model[name] = (kind, full)
            for stage, cut in zip(held, cuts, strict=True):
                layouts[stage][name] = cut
        for stage in layouts:
            if not stage:
                return
        write_protobuf(Strategy(layouts), self.root / "dst.ckpt")
        words = ("--dst-strategy", self.root / "dst.ckpt")
        saved = self.export(self.model(model), *words, out=f"out{seed}")
        got = read_dcp(saved)
        self.assert_tensors(got, model)
        for name, boxes in got.boxes.items():
            stage = next(i for i, held in enumerate(layouts) if name in held)
            shape = model[name][1].shape
            for file, offsets, sizes in boxes:
                rank = int(file.split("_")[2])
                layout = layouts[rank // devices][name]
                part = box(shape, layout, rank % devices)
                self.assertEqual(tuple((p.start, p.stop - p.start) for p in part),
                                 tuple(zip(offsets, sizes, strict=True)), name)
                self.assertEqual(layout, layouts[stage][name])
        other = read_safetensors(self.export(saved, "--dst-strategy", "none", views="ranks",
                                             out=f"again{seed}").parent
                                 / "rank_0/checkpoint_0.safetensors")[0]
        same(self, other, model)

    def test_a_slice_of_several_boxes(self) -> None:
        """An embedding of several fields, of which each rank has some rows."""
        model: Tensors = {"w": ("F32", np.arange(96, dtype="<f4").reshape(12, 8)),
                          "v": ("F32", np.arange(8, dtype="<f4"))}
        rules = self.root / "rules.toml"
        rules.write_text('[devices]\naxes = ["tp=2"]\nunmatched = "replicate"\n'
                         '[[rule]]\nmatch = ["w"]\ncut = ["tp", ""]\nfield = 3\n')
        got = read_dcp(self.export(self.model(model), "--dst-strategy", rules))
        self.assert_tensors(got, model)
        self.assertEqual(len(got.boxes["w"]), 6)
        saved = self.export(self.model(model), "--dst-strategy", rules, views="dcp-hf", out="hf")
        self.assertEqual(sorted(path.name for path in saved.iterdir()),
                         [f"shard-0000{rank}-model-0000{part}-of-00003.safetensors"
                          for rank in (1, 2) for part in (1, 2, 3)])
        tensors, _ = read_dcp_safetensors(saved)
        for name, (_, array) in model.items():
            self.assertEqual(tensors[name][1].tobytes(), array.tobytes(), name)

    def test_some_ranks(self) -> None:
        model: Tensors = {"w": ("F32", np.arange(96, dtype="<f4").reshape(12, 8))}
        write_protobuf(Strategy([{"w": Layout((4,), ((0,), ()))}]), self.root / "dst.ckpt")
        words = ("--dst-strategy", self.root / "dst.ckpt")
        whole = self.export(self.model(model), *words)
        some = self.export(self.model(model), *words, "--ranks", "1,3", out="some")
        self.assertIn("only the files of --ranks", self.told)
        self.assertEqual(sorted(os.listdir(some)), [".metadata", "__1_0.distcp", "__3_0.distcp"])
        for path in some.iterdir():
            self.assertEqual(path.read_bytes(), (whole / path.name).read_bytes())

    def test_for_the_older_release(self) -> None:
        model: Tensors = {"w": ("F32", np.arange(96, dtype="<f4").reshape(12, 8))}
        saved = self.export(self.model(model), "--dcp-release", "1.13")
        got = read_dcp(saved)
        self.assert_tensors(got, model)
        self.assertEqual(got.release, "1.13")
        model["u"] = ("U16", np.arange(4, dtype="<u2"))
        message = self.refused(self.model(model), "--dcp-release", "1.13")
        self.assertIn("'u'", message)
        self.assertIn("PyTorch 1.13 does not have", message)

    def test_what_has_no_place_is_refused(self) -> None:
        source = self.root / "src"
        for rank in range(2):
            write_safetensors(source / f"rank_{rank}/m.safetensors",
                              {"w": ("F32", np.arange(8, dtype="<f4") + rank),
                               "x": ("F32", np.arange(8, dtype="<f4") + rank)})
        write_protobuf(Strategy([{"w": Layout((2,), ((0,),)), "x": Layout((2,), ((0,),))}]),
                       self.root / "src.ckpt")
        write_protobuf(Strategy([{"w": Layout((2,), ((),))}]), self.root / "dst.ckpt")
        words = ("--src-strategy", self.root / "src.ckpt", "--dst-strategy", self.root / "dst.ckpt")
        self.assertIn("--unmatched source", self.refused(source, *words, "--unmatched", "source"))
        self.assertIn("--replicas own", self.refused(source, *words, "--replicas", "own"))

    def test_it_is_shown_only_if_it_is_asked_for(self) -> None:
        model: Tensors = {"w": ("F32", np.arange(96, dtype="<f4").reshape(12, 8))}
        with mounted(self.model(model)) as mountpoint:
            self.assertFalse({"dcp", "dcp-hf"} & set(os.listdir(mountpoint)))


class Mapped(DcpTest):
    def test_tensors_that_a_map_makes_are_cut_as_others(self) -> None:
        found = 0
        for path in sorted(MAPS.glob("*/case.json")):
            case = json.loads(path.read_text())
            if "refused" in case:
                continue
            found += 1
            for more in ((), ("--cast", "fp32->bf16", "--allow-unmatched")):  # some are bfloat16 alone
                with self.subTest(case=path.parent.name, more=more):
                    out = f"{path.parent.name}{len(more)}"
                    saved = self.export(path.parent / "src.safetensors", *words_of(path.parent, case),
                                        "--dcp-shards", "7", *more, views="dcp,merged-safetensors",
                                        out=out)
                    merged = saved.parent / "merged/checkpoint_merged.safetensors"
                    self.assert_tensors(read_dcp(saved), read_safetensors(merged)[0])
        self.assertGreater(found, 10)


class HuggingFaceForm(DcpTest):
    def model_of_plain_types(self) -> Tensors:
        return {name: (kind, array) for name, (kind, array) in full_model(4).items()
                if kind in PLAIN}

    def assert_shards(self, saved: Path, want: Tensors) -> dict[str, Any]:
        tensors, boxes = read_dcp_safetensors(saved)
        self.assertEqual(sorted(tensors), sorted(want))
        for name, (kind, array) in want.items():
            got_kind, got = tensors[name]
            self.assertEqual((got_kind, got.shape), (kind, array.shape), name)
            self.assertEqual(got.tobytes(), array.tobytes(), name)
        return boxes

    def test_boxes_of_ranks(self) -> None:
        model: Tensors = {"w": ("F32", np.arange(96, dtype="<f4").reshape(12, 8)),
                          "s": ("I64", np.array(3, "<i8"))}
        write_protobuf(Strategy([{"w": Layout((2,), ((), (0,)))}]), self.root / "dst.ckpt")
        words = ("--dst-strategy", self.root / "dst.ckpt")
        saved = self.export(self.model(model), *words, views="dcp-hf")
        boxes = self.assert_shards(saved, model)
        self.assertEqual(boxes["w"], [(f"shard-0000{n}-model-00001-of-00001.safetensors", (0, at), (12, 4))
                                      for n, at in ((1, 0), (2, 4))])
        self.assertEqual(len(boxes["s"]), 1)
        with mounted(self.model(model), *words, "--views", "dcp-hf") as mountpoint:
            for path in saved.iterdir():
                self.assertEqual((mountpoint / "dcp-hf" / path.name).read_bytes(), path.read_bytes())

    def test_everything_in_shards(self) -> None:
        model = self.model_of_plain_types()
        for count in (1, 4):
            saved = self.export(self.model(model), "--dcp-shards", str(count), views="dcp-hf",
                                out=f"out{count}")
            self.assert_shards(saved, model)

    def test_types_that_its_reader_mistakes(self) -> None:
        for kind, bits in (("BOOL", "?"), ("U32", "<u4"), ("F8_E4M3", "u1")):
            message = self.refused(self.model({"w": (kind, np.zeros(4, bits))}), views="dcp-hf")
            self.assertIn("takes for another type", message)
            self.assertIn("--views dcp", message)


if __name__ == "__main__":
    run_unittests()
