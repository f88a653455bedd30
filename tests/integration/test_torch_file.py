# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save that reshardfs shows: --format torch, and export to model.pt.

Python's own zipfile and pickle are the judges, and PyTorch where there is one: RESHARDFS_TORCH is the
command of a Python that has it, in any release, as in test_dcp_torch2.py.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import unittest
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from cached_programs import torch_python  # noqa: E402
from ckpt_format import encode_checkpoint, record_of, string_record  # noqa: E402
from format_files import (SAFETENSORS_TO_NUMPY, Tensors, full_model, random_array, read_safetensors,  # noqa: E402
                          same, write_safetensors)
from layouts import Layout, shard  # noqa: E402
from mounted import mounted, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
PYTHON = torch_python()
PATIENCE = 300.0
MERGED = "merged/checkpoint_merged.pt"
STORAGES = {"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
            "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8",
            "ByteStorage": "U8", "BoolStorage": "BOOL"}
TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
         "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint16": "U16",
         "uint32": "U32", "uint64": "U64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
# Those that PyTorch 1.13 lacks.
NEWER = {"U16", "U32", "U64", "F8_E4M3", "F8_E5M2"}


class Loaded(NamedTuple):
    kind: str
    array: np.ndarray
    storage: str


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(max(size, 1) for size in shape[d + 1:]) for d in range(len(shape)))


class Reader(pickle.Unpickler):
    """What torch.load does, for whole tensors in C order. Anything else is an error."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        super().__init__(archive.open("archive/data.pkl"))

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3"):
            return self.rebuild
        if (module, name) == ("torch.storage", "UntypedStorage"):
            return "UntypedStorage"
        if module == "torch" and (name in STORAGES or name in TYPES):
            return name
        raise AssertionError(f"{module}.{name}")

    def persistent_load(self, saved_id: Any) -> tuple[str, str, bytes]:
        what, storage, key, place, count = saved_id
        assert (what, place) == ("storage", "cpu"), saved_id
        info = self.archive.getinfo(f"archive/data/{key}")
        with open(self.archive.filename or "", "rb") as file:  # zipfile would look at the checksum
            file.seek(info.header_offset)
            head = file.read(30)
            name, extra = struct.unpack("<HH", head[26:])
            at = info.header_offset + 30 + name + extra
            assert at % 64 == 0, f"{key} begins at {at}"
            file.seek(at)
            data = file.read(info.file_size)
        width = np.dtype(SAFETENSORS_TO_NUMPY[STORAGES[storage]]).itemsize if storage in STORAGES else 1
        assert len(data) == count * width == info.compress_size
        return storage, key, data

    @staticmethod
    def rebuild(storage: tuple[str, str, bytes], offset: int, shape: tuple[int, ...], strides: tuple[int, ...],
                grad: bool, hooks: Any, dtype: str = "") -> Loaded:
        assert (offset, grad, hooks) == (0, False, OrderedDict())
        assert strides == c_strides(shape), (shape, strides)
        kind = TYPES[dtype] if dtype else STORAGES[storage[0]]
        return Loaded(kind, np.frombuffer(storage[2], SAFETENSORS_TO_NUMPY[kind]).reshape(shape), storage[1])


def read_file(path: Path) -> dict[str, Loaded]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert names[:3] == ["archive/version", "archive/byteorder", "archive/data.pkl"], names[:3]
        assert archive.read("archive/byteorder") == b"little"
        loaded = Reader(archive).load()
        storages = {value.storage for value in loaded.values()}
        assert len(names) == 3 + len(storages), "entries that no tensor has"
    assert type(loaded) is OrderedDict
    return loaded


def tensors_of(loaded: dict[str, Loaded]) -> Tensors:
    return {name: (value.kind, value.array) for name, value in loaded.items()}


def model(seed: int) -> Tensors:
    rng = np.random.default_rng(seed)
    return full_model(seed) | {kind: (kind, random_array(rng, "u1", (3, 5))) for kind in ("F8_E4M3", "F8_E5M2")}


class TorchFileTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "m.safetensors"

    def export(self, source: Path, name: str, *words: str | Path, says: str = "") -> Path:
        result = run("export", source, self.root / name, *words)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn(says, result.stderr)
        if not says:
            self.assertEqual(result.stderr, "")
        return self.root / name


class Contents(TorchFileTest):
    def test_all_types_shapes_and_names(self) -> None:
        want = model(1)
        write_safetensors(self.source, want)
        for name in ("model.pt", "model.pth", "pytorch_model.bin"):
            with self.subTest(name):
                same(self, tensors_of(read_file(self.export(self.source, name))), want)

    def test_a_mount_shows_what_export_writes(self) -> None:
        write_safetensors(self.source, model(2))
        for words in ((), ("--crc",)):
            whole = self.export(self.source, f"{len(words)}.pt", *words).read_bytes()
            with mounted(self.source, "--views", "merged", "--format", "torch", *words) as root:
                self.assertEqual(os.listdir(root / "merged"), ["checkpoint_merged.pt"])
                self.assertEqual((root / MERGED).stat().st_size, len(whole))
                rng = random.Random(2)
                with open(root / MERGED, "rb", buffering=0) as file:
                    # Its end first, as readers of ZIP do.
                    self.assertEqual(os.pread(file.fileno(), 1 << 20, len(whole) - 22), whole[-22:])
                    for _ in range(300):
                        at, length = rng.randrange(len(whole)), rng.randrange(1, 2000)
                        self.assertEqual(os.pread(file.fileno(), length, at), whole[at:at + length])
                self.assertEqual((root / MERGED).read_bytes(), whole)

    def test_views_and_formats(self) -> None:
        write_safetensors(self.source, {"w": ("F32", np.arange(6, dtype="<f4"))})
        safetensors, pt = "rank_0/checkpoint_0.safetensors", "rank_0/checkpoint_0.pt"
        cases: tuple[tuple[tuple[str, ...], list[str], list[str]], ...] = (
                ((), [safetensors], [pt, MERGED]),
                (("--format", "torch"), [pt, MERGED, "merged/checkpoint_merged.ckpt"], [safetensors]),
                (("--format", "safetensors,torch"), [pt, safetensors, MERGED], []),
                (("--views", "merged"), ["merged/checkpoint_merged.ckpt"], [MERGED]),
                (("--views", "merged-torch"), [MERGED], ["merged/checkpoint_merged.ckpt", safetensors]),
                (("--views", "ranks", "--format", "torch"), [pt], [MERGED]))
        for words, present, absent in cases:
            with self.subTest(words), mounted(self.source, *words) as root:
                self.assertEqual([path for path in present if not (root / path).exists()], [])
                self.assertEqual([path for path in absent if (root / path).exists()], [])

    def test_ranks_have_their_slices(self) -> None:
        """Random sets: names, types, shapes, and layouts for the ranks."""
        rng = random.Random(4)
        values = np.random.default_rng(4)
        for number in range(25):
            devices = rng.choice((1, 2, 4))
            want, layouts = {}, {}
            for i in range(rng.randrange(1, 30)):
                kind = rng.choice(sorted(TYPES.values()))
                shape = tuple(devices * rng.randrange(1, 4) for _ in range(rng.randrange(1, 4)))
                name = f"layers.{i}.{rng.choice(('weight', 'é', 'x y'))}"
                want[name] = (kind, random_array(values, SAFETENSORS_TO_NUMPY[kind], shape))
                cut = rng.randrange(-1, len(shape))
                layouts[name] = Layout((devices,), tuple((0,) if d == cut else () for d in range(len(shape))))
            write_safetensors(self.source, want)
            write_protobuf(Strategy([layouts]), self.root / "dst.ckpt")
            out = self.export(self.source, f"out{number}", "--dst-strategy", self.root / "dst.ckpt", "--views",
                              "ranks,merged", "--format", "torch", *rng.choice(((), ("--crc",))))
            same(self, tensors_of(read_file(out / MERGED)), want)
            for rank in range(devices):
                same(self, tensors_of(read_file(out / f"rank_{rank}/checkpoint_{rank}.pt")),
                     {name: (kind, shard(array, layouts[name], rank)) for name, (kind, array) in want.items()})

    def test_casts(self) -> None:
        write_safetensors(self.source, {"w": ("F32", np.array([1.5, -2], "<f4")), "i": ("I8", np.array([7], "i1"))})
        got = read_file(self.export(self.source, "model.pt", "--cast", "fp32->fp16"))
        self.assertEqual((got["w"].kind, got["w"].array.view("<f2").tolist()), ("F16", [1.5, -2.0]))
        self.assertEqual((got["i"].kind, got["i"].array.tolist()), ("I8", [7]))


class Checksums(TorchFileTest):
    def test_are_right_with_crc(self) -> None:
        write_safetensors(self.source, model(5))
        path = self.export(self.source, "model.pt", "--crc")
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
        if shutil.which("unzip"):
            done = subprocess.run(["unzip", "-tqq", path], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, ""))
        result = run("verify", path)
        self.assertEqual(result.code, 0, result)
        self.assertIn("CRC good in 1 file", result.stdout)
        data = bytearray(path.read_bytes())
        at = data.index(b"archive/data/3")
        data[at + 128] ^= 1  # behind the name, and in this or the next tensor or its header
        path.write_bytes(data)
        self.assertEqual(run("verify", path).code, 1)

    def test_are_absent_without(self) -> None:
        write_safetensors(self.source, {"w": ("F32", np.arange(1, 5, dtype="<f4"))})
        plain, summed = self.export(self.source, "a.pt"), self.export(self.source, "b.pt", "--crc")
        with zipfile.ZipFile(plain) as archive:
            self.assertEqual([info.CRC for info in archive.infolist() if "/data/" in info.filename], [0])
            self.assertEqual([info.CRC != 0 for info in archive.infolist()], [True] * 3 + [False])
        # Nothing else depends on them.
        a, b = plain.read_bytes(), summed.read_bytes()
        self.assertEqual(len(a), len(b))
        self.assertEqual(sum(x != y for x, y in zip(a, b)), 8)
        self.assertIn("; no file has a CRC", run("verify", plain).stdout)


class Tied(TorchFileTest):
    def storages(self, path: Path) -> dict[str, str]:
        return {name: value.storage for name, value in read_file(path).items()}

    def test_what_the_source_shares_stays_shared(self) -> None:
        source = TESTS / "goldentorch/tied_214/src/model.pt"
        want, _ = read_safetensors(self.export(source, "want.safetensors"))
        for words in ((), ("--cast", "fp32->bf16")):
            (self.root / f"of{len(words)}").mkdir()
            path = self.export(source, f"of{len(words)}/model.pt", *words)
            got = self.storages(path)
            self.assertEqual(got["embed.weight"], got["head.weight"])
            # Part of it, or its elements in another order.
            self.assertEqual(len(set(got.values())), len(got) - 1)
            (self.root / f"again{len(words)}").mkdir()
            again = self.export(path, f"again{len(words)}/model.pt")
            self.assertEqual(again.read_bytes(), path.read_bytes())
            if not words:
                same(self, tensors_of(read_file(path)), want)

    def test_one_of_two_that_is_cast_is_alone(self) -> None:
        source = TESTS / "goldentorch/tied_214/src/model.pt"
        got = self.storages(self.export(source, "model.pt", "--cast", "head.weight:fp32->bf16"))
        self.assertEqual(len(set(got.values())), len(got))

    def test_equal_bytes_alone_tie_nothing(self) -> None:
        array = np.arange(6, dtype="<f4")
        write_safetensors(self.source, {"a": ("F32", array), "b": ("F32", array)})
        self.assertEqual(len(set(self.storages(self.export(self.source, "model.pt")).values())), 2)

    def test_what_a_map_makes_of_one_tensor_is_shared(self) -> None:
        write_safetensors(self.source, {"embed": ("F32", np.arange(6, dtype="<f4").reshape(3, 2))})
        rules = self.root / "map.toml"
        rules.write_text('[sides]\nfrom = "Mine"\nto = "Theirs"\n[[map]]\nto = "tokens"\nfrom = "embed"\n'
                         '[[alias]]\nside = "to"\nname = "head"\nof = "tokens"\n')
        got = self.storages(self.export(self.source, "model.pt", "--map", rules))
        self.assertEqual(got, {"tokens": "0", "head": "0"})


class ReadBack(TorchFileTest):
    def test_diff_inspect_and_other_formats(self) -> None:
        want = model(6)
        write_safetensors(self.source, want)
        path = self.export(self.source, "model.pt")
        result = run("diff", self.source, path)
        self.assertEqual((result.code, result.stderr), (0, ""), result.stdout)
        listed = json.loads(run("inspect", path, "--json").stdout)
        self.assertEqual(len(listed["parameters"]), len(want))
        same(self, read_safetensors(self.export(path, "back.safetensors"))[0], want)

    def test_hash_is_that_of_the_bytes(self) -> None:
        write_safetensors(self.source, model(7))
        whole = self.export(self.source, "out", "--views", "merged", "--format", "torch") / MERGED
        result = run("hash", self.source, "--views", "merged", "--format", "torch")
        self.assertEqual(result.code, 0, result.stderr)
        import hashlib
        self.assertIn(hashlib.sha256(whole.read_bytes()).hexdigest(), result.stdout)


class Large(TorchFileTest):
    def test_sizes_and_offsets_beyond_32_bits(self) -> None:
        sizes = {"a": 5 << 30, "b": 12, "c": 0xffffffff, "d": 7}
        header: dict[str, Any] = {}
        at = 0
        for name, size in sizes.items():
            header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        marks = {name: os.urandom(4) for name in sizes}
        with open(self.source, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + at)
            for name, mark in marks.items():
                file.seek(8 + len(text) + header[name]["data_offsets"][1] - 4)
                file.write(mark)
        with mounted(self.source, "--views", "merged-torch") as root, zipfile.ZipFile(root / MERGED) as archive:
            infos = archive.infolist()[3:]
            self.assertEqual([info.file_size for info in infos], list(sizes.values()))
            for info, mark in zip(infos, marks.values()):
                archive.open(info).close()  # its header agrees with the directory
                with open(root / MERGED, "rb", buffering=0) as whole:
                    behind = [other.header_offset for other in infos if other.header_offset > info.header_offset]
                    end = min(behind, default=archive.start_dir)
                    self.assertEqual(os.pread(whole.fileno(), 4, end - 4), mark)
            result = run("inspect", root / MERGED, "--json")
            self.assertEqual([entry["shape"] for entry in json.loads(result.stdout)["parameters"]],
                             [[size] for size in sizes.values()])


class Refused(TorchFileTest):
    def test_types_that_torch_lacks_here_by_name(self) -> None:
        write_safetensors(self.source, {"ok": ("F32", np.zeros(2, "<f4")), "z": ("C64", np.zeros(2, "<c8"))})
        result = run("export", self.source, self.root / "model.pt")
        self.assertEqual(result.code, 2)
        for word in ("z", "Complex64", "--exclude"):
            self.assertIn(word, result.stderr)
        self.assertFalse((self.root / "model.pt").exists())
        with mounted(self.source, "--format", "torch", "--views", "merged-torch", "--exclude", "z") as root:
            self.assertEqual(list(read_file(root / MERGED)), ["ok"])

    def test_texts_are_left_out_with_a_warning(self) -> None:
        source = self.root / "m.ckpt"
        source.write_bytes(encode_checkpoint([record_of("w", "Float32", np.zeros(2, "<f4")),
                                              string_record("note", "hello")]))
        path = self.export(source, "model.pt", says="which has tensors alone: 'note'")
        self.assertEqual(list(read_file(path)), ["w"])

    def test_options_for_other_files(self) -> None:
        write_safetensors(self.source, {"w": ("F32", np.zeros(2, "<f4"))})
        for words in (("model.pt", "--format", "ckpt"), ("model.gguf",), ("out", "--crc", "--views", "hub")):
            with self.subTest(words):
                result = run("export", self.source, self.root / words[0], *words[1:])
                self.assertEqual(result.code, 2, result)

    def test_a_damaged_file_is_no_source(self) -> None:
        write_safetensors(self.source, {"w": ("F32", np.arange(99, dtype="<f4"))})
        path = self.export(self.source, "model.pt")
        whole = path.read_bytes()
        for cut in (1, 22, 200, len(whole) // 2):
            path.write_bytes(whole[:-cut])
            self.assertEqual(run("verify", path).code, 1, f"without its last {cut} bytes")
            self.assertEqual(run("export", path, self.root / "again.pt").code, 2)


class PyTorch(TorchFileTest):
    def load(self, path: Path) -> dict[str, Any]:
        done = subprocess.run([*PYTHON, "-B", TESTS / "data/torch_load.py", path], text=True, capture_output=True,
                              timeout=PATIENCE, check=False)
        if "No module named 'torch'" in done.stderr:
            self.skipTest("RESHARDFS_TORCH names no Python that has PyTorch")
        self.assertEqual(done.returncode, 0, done.stderr)
        loaded: dict[str, Any] = json.loads(done.stdout)
        return loaded

    def is_old(self) -> bool:
        done = subprocess.run([*PYTHON, "-c", "import torch; print(torch.__version__)"], text=True,
                              capture_output=True, timeout=PATIENCE, check=False)
        return done.stdout.startswith("1.")

    def test_loads_what_is_shown(self) -> None:
        want = model(8)
        if self.is_old():
            want = {name: value for name, value in want.items() if value[0] not in NEWER}
        write_safetensors(self.source, want)
        for words in ((), ("--crc",)):
            with mounted(self.source, "--views", "merged-torch", *words) as root:
                loaded = self.load(root / MERGED)
            self.assertGreaterEqual(len(loaded["ways"]), 3)
            for way, tensors in loaded["ways"].items():
                with self.subTest(release=loaded["release"], way=way, words=words):
                    self.assertEqual({name: (TYPES[kind], shape, data) for name, (kind, shape, data, _)
                                      in tensors.items()},
                                     {name: (kind, list(array.shape), array.tobytes().hex())
                                      for name, (kind, array) in want.items()})

    def test_tied_weights_are_one_tensor(self) -> None:
        loaded = self.load(self.export(TESTS / "goldentorch/tied_214/src/model.pt", "model.pt"))
        for way, tensors in loaded["ways"].items():
            with self.subTest(way):
                self.assertEqual(tensors["embed.weight"], tensors["head.weight"])
                places = [place for *_, place in tensors.values()]
                self.assertGreaterEqual(len(set(places)), 2)


if __name__ == "__main__":
    run_unittests()
