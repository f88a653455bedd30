# SPDX-License-Identifier: Apache-2.0
"""`reshardfs inspect`: the tree on terminals of any width, and statistics with NumPy as the judge."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, decode_checkpoint, encode_checkpoint, record_of, string_record  # noqa: E402
from command_tests import CommandTest, on_terminal, run_command_tests  # noqa: E402
from format_files import ODD_NAMES, TYPES, Tensors, write_safetensors  # noqa: E402
from make_checkpoint import Parallel, make_set  # noqa: E402
from mounted import COMMAND_SECONDS, Settings, run, scratch  # noqa: E402

UTF8 = {"LC_ALL": "C.UTF-8"}
PLAIN = {"LC_ALL": "C", "NO_COLOR": "1"}


def e4m3_table() -> np.ndarray:
    """The values of all bytes of Float8E4M3FN."""
    bits = np.arange(256)
    exponent, fraction = bits >> 3 & 15, (bits & 7).astype("f8")
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))
    size[(bits & 127) == 127] = np.nan
    return np.where(bits >> 7 == 1, -size, size)


def numbers(kind: str, array: np.ndarray) -> np.ndarray:
    """As numbers that NumPy can compute with."""
    array = np.atleast_1d(array)
    if kind in ("BFloat16", "BF16"):
        with np.errstate(invalid="ignore"):
            return (array.astype("<u4") << 16).view("<f4").astype("f8")
    if kind == "F8_E4M3":
        return e4m3_table()[array]
    if kind == "F8_E5M2":
        return (array.astype("<u2") << 8).view("<f2").astype("f8")
    return array


def columns_of(line: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in line)


def random_numbers(rng: np.random.Generator, numpy: str, shape: tuple[int, ...]) -> np.ndarray:
    """All bits at random: NaN and infinity are among them. Some zeros."""
    dtype = np.dtype(numpy)
    raw = rng.integers(0, 256, math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    array = (raw % 2).view("?") if dtype.kind == "b" else raw.view(dtype)
    array = np.where(rng.random(array.size) < 0.3, np.zeros(1, array.dtype), array)
    return array.reshape(shape)


class InspectTest(CommandTest):
    command = "inspect"

    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())

    def file(self, records: list[Record]) -> Path:
        path = self.directory / "model.ckpt"
        path.write_bytes(encode_checkpoint(records))
        return path

    def layers(self, count: int, width: int = 4) -> Path:
        rng = np.random.default_rng(0)
        records = [record_of("model.embedding.weight", "Float32", rng.normal(size=(50, width)).astype("<f4"))]
        for layer in range(count):
            for name in ("attention.wq.weight", "attention.wo.weight", "norm.weight"):
                records.append(record_of(f"model.layers.{layer}.{name}", "Float16",
                                         np.full((width, width), layer, "<f2")))
        return self.file(records)


class Statistics(InspectTest):
    def judge(self, got: dict[str, Any], kind: str, array: np.ndarray) -> None:
        values = numbers(kind, array)
        self.assertEqual(got["elements"], values.size)
        floating = values.dtype.kind == "f"
        finite = values[np.isfinite(values)] if floating else values.reshape(-1)
        self.assertEqual(got["nan"], int(np.isnan(values).sum()) if floating else 0)
        self.assertEqual(got["inf"], int(np.isinf(values).sum()) if floating else 0)
        self.assertEqual(got["zeros"], int((values == 0).sum()))
        if not finite.size:
            self.assertEqual([got[key] for key in ("min", "max", "mean", "std")], [None] * 4)
            return
        self.assertEqual(got["min"], finite.min().item())
        self.assertEqual(got["max"], finite.max().item())
        wide = finite.astype(np.longdouble)
        mean, deviation = wide.mean(), wide.std()
        size = float(np.abs(wide).max()) or 1.0
        self.assertLess(abs(got["mean"] - float(mean)), 1e-14 * size)
        self.assertLess(abs(got["std"] - float(deviation)), 1e-13 * (float(deviation) or 1.0))

    def test_all_types(self) -> None:
        rng = np.random.default_rng(11)
        shapes = [(), (1,), (3, 5), (70, 71), (300, 1001)]
        kinds = {mindspore: numpy for mindspore, _, numpy, _ in TYPES} | {"Int4": "i1"}
        for shape in shapes:
            arrays = {kind: random_numbers(rng, numpy, shape) for kind, numpy in kinds.items()}
            path = self.file([record_of(kind, kind, array) for kind, array in arrays.items()])
            found = {entry["name"]: entry for entry in self.json(0, path, "--stats")["statistics"]}
            self.assertEqual(found.keys(), arrays.keys())
            for kind, array in arrays.items():
                with self.subTest(kind=kind, shape=shape):
                    self.assertEqual(found[kind]["shape"], list(shape))
                    self.judge(found[kind], kind, array)

    def test_types_of_safetensors(self) -> None:
        rng = np.random.default_rng(12)
        kinds = {st: numpy for _, st, numpy, _ in TYPES} | {"F8_E4M3": "u1", "F8_E5M2": "u1"}
        tensors: Tensors = {kind: (kind, random_numbers(rng, numpy, (9, 301)))
                            for kind, numpy in kinds.items()}
        tensors["empty"] = ("F32", np.zeros((0, 4), "<f4"))
        path = self.directory / "m.safetensors"
        write_safetensors(path, tensors)
        found = {entry["name"]: entry for entry in self.json(0, path, "--stats")["statistics"]}
        for kind, (_, array) in tensors.items():
            with self.subTest(kind=kind):
                self.judge(found[kind], kind, array)

    def test_nothing_finite_is_null(self) -> None:
        path = self.file([record_of("w", "Float32", np.array([np.nan, np.inf], "<f4"))])
        text = self.says(0, path, "--stats", "--json")
        self.assertNotIn("NaN", text)
        entry = json.loads(text)["statistics"][0]
        self.assertEqual([entry[key] for key in ("min", "max", "mean", "std", "nan", "inf", "zeros")],
                         [None, None, None, None, 1, 1, 0])

    def test_text_is_skipped_with_a_word(self) -> None:
        path = self.file([string_record("version", "abc"), record_of("w", "Int8", np.ones(3, "i1"))])
        self.assertRegex(self.says(0, path, "--stats"), r"version +str \[12\] +\(text, no numbers\)")
        first = self.json(0, path, "--stats")["statistics"][0]
        self.assertEqual((first["name"], first["skipped"]), ("version", "text"))
        self.assertTrue(first.keys().isdisjoint(("min", "max", "mean", "std")), first)

    def test_whole_parameters_count_once(self) -> None:
        """As cut by tensor parallelism, data parallelism and optimizer shards: the model's own."""
        for src in (Parallel(tp=2, dp=2), Parallel(tp=4, dp=2, opt=-1), Parallel(tp=2, pp=2)):
            with self.subTest(src=src), scratch() as root:
                made = make_set(root, src, Parallel(), layers=2, seed=5)
                found = self.json(0, made.source, "--stats", "--src-strategy", made.src_strategy)
                whole = {entry["name"]: entry for entry in found["statistics"]}
                for name, tensor in made.model.tensors.items():
                    self.assertIsNone(whole[name]["ranks"])
                    self.assertEqual(whole[name]["shape"], list(tensor.shape))
                    self.judge(whole[name], tensor.type, tensor.array())
                self.assertEqual(whole.keys(), made.model.tensors.keys()
                                 | {record.name for record in made.model.unlaid})
                shapes = {entry["name"]: entry["full_shape"] for entry in found["parameters"]}
                for name, tensor in made.model.tensors.items():
                    self.assertEqual(shapes[name], list(tensor.shape))

    def test_without_a_strategy_ranks_with_the_same_are_one(self) -> None:
        made = make_set(self.directory, Parallel(tp=2, dp=2), Parallel(), layers=1)
        found = self.json(0, made.source, "--stats")["statistics"]
        slices = {rank: {record.name: record for record in
                         decode_checkpoint(made.source_files(rank)[0].read_bytes())}
                  for rank in range(4)}
        seen = set()
        for entry in found:
            for rank in entry["ranks"]:
                seen.add((entry["name"], rank))
                record = slices[rank][entry["name"]]
                if "skipped" not in entry:
                    self.judge(entry, record.type, record.array())
        self.assertEqual(seen, {(name, rank) for rank, records in slices.items() for name in records})
        groups = [entry["ranks"] for entry in found
                  if entry["name"] == "model.layers.0.attention.wq.weight"]
        self.assertEqual(groups, [[0, 2], [1, 3]])

    def test_threads_change_nothing(self) -> None:
        rng = np.random.default_rng(2)
        path = self.file([record_of(f"w{i}", "Float32", rng.normal(size=n).astype("<f4"))
                          for i, n in enumerate((5, 700_001, 65_536, 1_500_000))])
        one = self.says(0, path, "--stats", "--json", "-j", "1")
        for jobs in ("2", "3", "16"):
            self.assertEqual(self.says(0, path, "--stats", "--json", "-j", jobs), one)

    def test_include_and_exclude(self) -> None:
        path = self.layers(3)
        names = ["--include", "*.layers.*", "--exclude", "*norm*"]
        wanted = {f"model.layers.{i}.attention.{w}.weight" for i in range(3) for w in ("wq", "wo")}
        found = self.json(0, path, *names, "--stats")
        for part in ("parameters", "statistics"):
            self.assertEqual({entry["name"] for entry in found[part]}, wanted)
        self.assertNotIn("norm", self.says(0, path, *names, "--tree"))
        self.assertEqual(self.says(0, path, *names, "--list").count("layers"), 6)

    def test_refused(self) -> None:
        path = self.layers(1)
        for options in (["--tree", "--stats"], ["--depth", "2", "--json"], ["--list", "--tree"],
                        ["--depth", "0"], ["--depth", "x"], ["--src-strategy", "/nowhere"]):
            self.refused(2, path, *options, words=(options[0],))
        made = make_set(self.directory / "m", Parallel(tp=4), Parallel(), layers=1)
        made.source_files(2)[0].unlink()
        self.refused(2, made.source, "--src-strategy", made.src_strategy, "--stats", "--json",
                     words=("rank 2 is missing", "parameter"))

    def test_narrow_terminals(self) -> None:
        rng = np.random.default_rng(1)
        name = "model.decoder.layers.{}.mixture_of_experts.expert_{}.feed_forward.projection.weight"
        path = self.file([record_of(name.format(i, 0), "Float32", rng.normal(size=(3, 5)).astype("<f4"))
                          for i in range(4)] + [record_of("bad", "Float32", np.full(2, np.nan, "<f4"))])
        for columns in (40, 80, 120, 300):
            lines = on_terminal("inspect", path, "--stats", columns=columns, **PLAIN)
            for line in lines:
                self.assertLessEqual(len(line), columns)
            self.assertIn("2 NaN" if columns < 300 else "MEAN", " ".join(lines))
        coloured = on_terminal("inspect", path, "--stats", TERM="xterm", NO_COLOR=None)
        self.assertEqual([line for line in coloured if "\033[31m" in line], ["\033[31mbad"])


class Tree(InspectTest):
    def tree(self, *words: str | Path) -> str:
        """Where the output is no terminal, with UTF-8 in any case."""
        done = subprocess.run([str(Settings.binary), "inspect", "--tree", *map(str, words)],
                              capture_output=True, text=True, check=True, timeout=COMMAND_SECONDS,
                              env=os.environ | {"LC_ALL": "C.UTF-8"})
        self.assertEqual(done.stderr, "")
        return done.stdout.rstrip("\n")

    def test_the_listing_is_the_same_without_a_terminal(self) -> None:
        path = self.layers(2)
        lines = self.says(0, path, "--list").splitlines()
        self.assertEqual(lines[2].split(), ["PARAMETER", "DTYPE", "SLICE", "SHAPE", "BYTES", "RANKS"])
        self.assertEqual(len(lines), 3 + 7)
        self.assertEqual(lines[3:], on_terminal("inspect", path, "--list", columns=200)[3:])
        self.assertNotIn("\033", "".join(lines))

    def test_one_display_wherever_it_goes(self) -> None:
        path = self.layers(2)
        described = self.says(0, path)
        self.assertNotIn("\033", described)
        self.assertIn(self.tree(path).split("\n\n")[1], described)
        self.assertIn("\n\nnext:\n", described)

    def test_equal_layers_are_one(self) -> None:
        path = self.layers(12)
        lines = on_terminal("inspect", path, lines=40, **PLAIN)
        text = "\n".join(lines)
        self.assertRegex(text, r"layers\.\{0\.\.11\} x 12 +36 x Float16 +576 +1\.1 KiB +59\.0% ##")
        self.assertRegex(text, r"norm\.weight +12 x Float16 \[4, 4\] +192 +384 B +19\.7%")
        self.assertEqual(len([line for line in lines if "[" in line]), 4)
        wide = on_terminal("inspect", path, "--tree", columns=200, LC_ALL="C.UTF-8", NO_COLOR="1")
        self.assertEqual("\n".join(wide), self.tree(path))
        described = on_terminal("inspect", path, columns=200, lines=60, LC_ALL="C.UTF-8", NO_COLOR="1")
        self.assertTrue(set(wide) <= set(described), described)

    def test_never_wider_than_the_terminal(self) -> None:
        rng = np.random.default_rng(3)
        names = [f"model.{a}.{'deep.' * depth}{b}" for depth in range(9)
                 for a in ("x" * 50, "attention") for b in ("w", "y" * 70)]
        shapes = [tuple(rng.integers(1, 4, rng.integers(0, 8))) for _ in names]
        records = [record_of(name, "Float32", np.zeros(shape, "<f4"))
                   for name, shape in zip(names, shapes)]
        records += [record_of(name, "Int8", np.ones(2, "i1")) for name in ODD_NAMES]
        path = self.file(records)
        for columns in (40, 47, 60, 80, 100, 200):
            for locale in (UTF8, PLAIN):
                for options in ([], ["--tree"], ["--depth", "1"], ["--depth", "99"]):
                    lines = on_terminal("inspect", path, *options, columns=columns, NO_COLOR="1",
                                        LC_ALL=locale["LC_ALL"])
                    # Commands are not broken: they are to be pasted.
                    told = lines[:lines.index("next:")] if "next:" in lines else lines
                    for line in told:
                        self.assertLessEqual(columns_of(line), columns, line)
                    if options == ["--tree"]:
                        self.assertLessEqual(len(lines), 24)

    def test_depth(self) -> None:
        path = self.layers(3)
        text = "\n".join(on_terminal("inspect", path, "--depth", "1", **PLAIN))
        self.assertIn("10 parameters are folded in 1 line: --depth 4 shows all", text)
        self.assertNotIn("attention", text)
        text = "\n".join(on_terminal("inspect", path, "--depth", "4", **PLAIN))
        self.assertNotIn("folded", text)
        self.assertRegex(text, r"wq\.weight +3 x Float16")

    def test_colours_and_characters(self) -> None:
        path = self.layers(3)
        for variables, colour, bars in (({"TERM": "xterm", "NO_COLOR": None, **UTF8}, True, True),
                                        ({"NO_COLOR": "1", **UTF8}, False, True),
                                        ({"TERM": "dumb", "NO_COLOR": None, **UTF8}, False, True),
                                        ({"NO_COLOR": "1", "LC_ALL": "POSIX"}, False, False),
                                        ({"NO_COLOR": "1", "LC_ALL": None, "LC_CTYPE": "de_DE.utf8",
                                          "LANG": "C"}, False, True),
                                        ({"NO_COLOR": "1", "LC_ALL": "de_DE.ISO-8859-1@euro",
                                          "LANG": "C.UTF-8"}, False, False)):
            with self.subTest(variables=variables):
                text = "\n".join(on_terminal("inspect", path, **variables))
                self.assertEqual("\033[" in text, colour)
                self.assertEqual("█" in text and "├─" in text, bars)
                self.assertEqual(text.isascii(), not bars)
        self.assertNotIn("\033", run("inspect", path, "--tree").stdout)

    def test_whole_parameters_with_a_strategy(self) -> None:
        made = make_set(self.directory, Parallel(tp=2, dp=2), Parallel(), layers=2)
        name = "model.layers.0.attention.wq.weight"
        whole = made.model.tensors[name]
        text = self.tree(made.source, "--src-strategy", made.src_strategy, "--include", name)
        self.assertIn(f"{whole.type} {list(whole.shape)}", text)
        held = self.tree(made.source, "--include", name)
        slice_shape = [whole.shape[0] // 2, whole.shape[1]]
        self.assertIn(f"4 × {whole.type} {slice_shape}", held)
        self.assertIn("--src-strategy shows the whole parameters", held)
        total = sum(len(t.content) for t in made.model.tensors.values())
        laid_out = [word for n in made.model.tensors for word in ("--include", n)]
        row = self.tree(made.source, "--src-strategy", made.src_strategy, *laid_out)
        size = re.search(r"^all .* ([0-9.]+ (?:B|KiB|MiB)) +100%", row, re.MULTILINE)
        assert size is not None
        self.assertEqual(size.group(1), f"{total / 1024:.1f} KiB" if total >= 1024 else f"{total} B")


class Many(InspectTest):
    def test_20000_parameters(self) -> None:
        one = np.ones(4, "<f4")
        # In layers that differ, so that nothing is folded; and flat.
        deep = [record_of(f"model.layers.{i}.m{k % 5}.w{'ab'[k % 2]}{i}_{k}", "Float32", one)
                for i in range(1000) for k in range(20)]
        flat = [record_of(f"parameter{i}x{i * 7919 % 100_003}", "Float32", one) for i in range(20_000)]
        for records in (deep, flat):
            path = self.file(records)
            listing = time.monotonic()
            run("inspect", path, "--list")
            listing = time.monotonic() - listing
            start = time.monotonic()
            lines = on_terminal("inspect", path, **PLAIN)
            self.assertLess(time.monotonic() - start, 10 + 10 * listing)
            self.assertLessEqual(len(lines), 24)
            self.assertTrue(any("20000 parameters" in line for line in lines))
            everything = self.says(0, path, "--tree")
            self.assertGreater(everything.count("Float32 [4]"), 19_999)
            statistics = self.json(0, path, "--stats")["statistics"]
            self.assertEqual(len(statistics), 20_000)
            self.assertTrue(all(entry["mean"] == 1 for entry in statistics))


if __name__ == "__main__":
    run_command_tests()
