# SPDX-License-Identifier: Apache-2.0
"""What a mount shows beside the rank files, and the readers of other people."""

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
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from format_files import full_model, random_array, read_safetensors, write_ckpt, write_safetensors  # noqa: E402
from layouts import Layout  # noqa: E402
from mounted import Settings, command, mounted, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402


class ControlFiles(unittest.TestCase):
    def test_status_plan_metrics_version(self) -> None:
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", {"w": ("F32", np.arange(99, dtype="<f4"))})
            with mounted(directory / "m.safetensors") as mountpoint:
                self.assertNotIn(".reshardfs", os.listdir(mountpoint))
                control = mountpoint / ".reshardfs"
                self.assertEqual(sorted(os.listdir(control)),
                                 ["metrics", "plan.json", "ready", "report.html", "status.json",
                                  "version"])
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
        for name, kind in (("reshardfs_read_duration_seconds", None),
                           ("reshardfs_source_fetch_duration_seconds", "file")):
            self.assertEqual(families[name].type, "histogram")
            counts = [s.value for s in families[name].samples
                      if s.name.endswith("_bucket") and s.labels.get("kind") == kind]
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
                # 6 GiB in parts of 3, each tensor in the least full one.
                self.assertEqual(unified["weight_map"],
                                 {name: f"part{i % 2}.safetensors" for i, name in enumerate("abc")})
                self.assertEqual(unified["metadata"]["total_size"], 6 * gib)
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
            for size in ("300B", "5GB"):
                with mounted(directory / "m.safetensors", "--shard-size", size) as mountpoint:
                    read = json.loads(command("node", script, modules, mountpoint / "merged"))
                self.assertEqual(sorted(read), sorted(model))
                for name, (st, array) in model.items():
                    digest = hashlib.sha256(array.tobytes()).hexdigest()
                    self.assertEqual(read[name], {"dtype": st, "shape": list(array.shape),
                                                  "sha256": digest}, name)


def data_begin(path: Path) -> int:
    """Where the tensors of a safetensors file begin."""
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def without_padding(path: Path) -> tuple[bytes, bytes]:
    """The text of the header, and the tensors."""
    data, begin = path.read_bytes(), data_begin(path)
    return data[8:begin].rstrip(b" "), data[begin:]


class Alignment(unittest.TestCase):
    """MindSpore's own files keep its bytes; loaders of all others find tensors on a page."""

    VIEWS = "ranks,merged,hf,unified,iteration,dcp-hf"

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "m.safetensors"
        rng = np.random.default_rng(8)
        self.tensors = {f"model.layers.{i}.weight": (kind, random_array(rng, numpy, (i + 1, 5)))
                        for i, (kind, numpy) in enumerate((("F32", "<f4"), ("BF16", "<u2"), ("I8", "i1")))}
        write_safetensors(self.source, self.tensors)

    def begins(self, *options: str, views: str = VIEWS) -> dict[str, int]:
        """Of the first directory of each path: the largest power of two, at most 4096, at which all tensors
        begin."""
        found: dict[str, int] = {}
        with mounted(self.source, "--views", views, *options) as mountpoint:
            for path in sorted(mountpoint.rglob("*.safetensors")):
                top = path.relative_to(mountpoint).parts[0]
                found[top] = math.gcd(found.get(top, 4096), data_begin(path))
        return found

    def test_only_mindspores_own_files_begin_elsewhere(self) -> None:
        found = self.begins("--prefix", "net_", "--format", "safetensors")
        for top in ("merged", "hf", "dcp-hf"):
            self.assertEqual(found.pop(top), 4096, top)
        self.assertEqual(sorted(found), ["iteration", "rank_0", "unified"])
        for top, at in found.items():
            self.assertLess(at, 4096, top)

    def test_what_mindspore_would_not_write_begins_on_a_page(self) -> None:
        own = {"ranks": "rank_0", "unified": "unified", "iteration": "iteration"}
        cast = self.begins("--cast", "fp32->bf16", views=",".join(own))
        self.assertEqual(cast, {top: 4096 for top in own.values()})
        self.assertEqual(self.begins("--metadata", "pt", views="ranks"), {"rank_0": 4096})

    def test_a_stated_one_is_for_all_files(self) -> None:
        tight = self.begins("--align", "8")
        self.assertEqual(len(tight), 6)
        self.assertTrue(all(at < 4096 for at in tight.values()), tight)
        self.assertEqual(set(self.begins("--align", "4096").values()), {4096})

    def test_nothing_but_spaces_differs(self) -> None:
        for name, words in (("usual", ()), ("tight", ("--align", "8"))):
            result = run("export", self.source, self.root / name, "--views", "merged", *words)
            self.assertEqual((result.code, result.stderr), (0, ""))
        paths = sorted((self.root / "tight").rglob("*.safetensors"))
        self.assertGreater(len(paths), 1)
        for tight in paths:
            usual = self.root / "usual" / tight.relative_to(self.root / "tight")
            self.assertEqual(without_padding(usual), without_padding(tight))
            # As the library pads it.
            self.assertLess(data_begin(tight) - 8 - len(without_padding(tight)[0]), 8)
            self.assertEqual(data_begin(usual) % 4096, 0)

    def test_one_file(self) -> None:
        for words, multiple in (((), 4096), (("--align", "64"), 64)):
            out = self.root / f"{multiple}.safetensors"
            result = run("export", self.source, out, *words)
            self.assertEqual((result.code, result.stderr), (0, ""))
            self.assertEqual(data_begin(out) % multiple, 0)
            read, _ = read_safetensors(out)
            self.assertEqual(read.keys(), self.tensors.keys())
            for name, (_, array) in self.tensors.items():
                self.assertEqual(read[name][1].tobytes(), array.tobytes())


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

    def test_forms_of_the_whole_model(self) -> None:
        ckpt, single = "checkpoint_merged.ckpt", "checkpoint_merged.safetensors"
        hub = {"model-00001-of-00001.safetensors", "model.safetensors.index.json"}
        cases = (("merged-ckpt", None, {ckpt}), ("merged-safetensors", None, {single}),
                 ("hub", None, hub), ("merged", None, {ckpt, single} | hub),
                 ("merged", "safetensors", {single}), ("merged", "ckpt", {ckpt}),
                 ("merged", "ckpt,safetensors", {ckpt, single}), ("merged,hub", "ckpt", {ckpt} | hub))
        with scratch() as directory:
            source = directory / "m.safetensors"
            write_safetensors(source, {"w": ("F32", np.arange(9, dtype="<f4"))})
            for number, (views, formats, names) in enumerate(cases):
                with self.subTest(views=views, formats=formats):
                    out = directory / str(number)
                    words = ("--format", formats) if formats else ()
                    command(Settings.binary, "export", source, out, "--views", views, *words)
                    self.assertEqual(set(os.listdir(out / "merged")), names)
                    self.assertEqual({path.name for path in out.iterdir() if path.is_dir()},
                                     {"merged"})


if __name__ == "__main__":
    run_unittests()
