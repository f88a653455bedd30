# SPDX-License-Identifier: Apache-2.0
"""`reshardfs diff`: with NumPy as the judge of values, over layouts, formats and element types."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import (  # noqa: E402
    Record,
    decode_checkpoint,
    encode_checkpoint,
    record_of,
    string_record,
)
from command_tests import CommandTest, run_command_tests, terminal_output  # noqa: E402
from golden_cases import BY_CONTENT, CONVERSION_APIS, load_cases  # noqa: E402
from make_checkpoint import Parallel, make_set  # noqa: E402
from mounted import COMMAND_SECONDS, Settings, run, scratch  # noqa: E402

INTEGERS = ("Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64")
FLOATS = ("Float16", "BFloat16", "Float32", "Float64")
SAFETENSORS = {"Float32": "F32", "BFloat16": "BF16", "Float16": "F16", "Int64": "I64"}


def values_of(record: Record) -> np.ndarray:
    """As float64, or as Python integers."""
    array = record.array()
    if record.type == "BFloat16":
        return (array.astype("<u4") << 16).view("<f4").astype("f8")
    return array.astype("f8") if record.type in FLOATS else array.astype(object)


def write_safetensors(path: Path, records: list[Record]) -> None:
    header, data = {}, b""
    for record in records:
        header[record.name] = {"dtype": SAFETENSORS[record.type], "shape": list(record.shape),
                               "data_offsets": [len(data), len(data) + len(record.content)]}
        data += record.content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def random_record(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Record:
    """Numbers of moderate size, with some special ones among the floating ones."""
    if kind in FLOATS:
        values = rng.normal(size=shape).astype("f4")
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 6e-8], "f4")
        chosen = rng.random(shape) < 0.2
        values[chosen] = rng.choice(special, int(chosen.sum()))
        if kind == "BFloat16":
            return Record("w", kind, shape, (values.view("<u4") >> 16).astype("<u2").tobytes())
        numpy = {"Float16": "<f2", "Float32": "<f4", "Float64": "<f8"}[kind]
        return record_of("w", kind, values.astype(numpy))
    numpy = np.dtype(("u" if kind[0] == "U" else "i") + str(int(kind.lstrip("UInt")) // 8))
    return record_of("w", kind, rng.integers(0, 100, shape).astype(numpy))


class DiffTest(CommandTest):
    command = "diff"

    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())

    def files(self, a: list[Record], b: list[Record]) -> tuple[Path, Path]:
        for name, records in (("a.ckpt", a), ("b.ckpt", b)):
            (self.directory / name).write_bytes(encode_checkpoint(records))
        return self.directory / "a.ckpt", self.directory / "b.ckpt"


class Values(DiffTest):
    def judge(self, a: Record, b: Record, atol: float, rtol: float, equal_nan: bool) -> None:
        options = ["--atol", str(atol), "--rtol", str(rtol)] + ([] if equal_nan else ["--nan-differs"])
        x, y = values_of(a), values_of(b)
        if x.dtype == object or y.dtype == object:  # small integers: exact in float64
            x, y = x.astype("f8"), y.astype("f8")
        close = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
        unequal = (x != y) & ~(np.isnan(x) & np.isnan(y) & equal_nan)
        result = self.json(0 if close.all() else 1, *self.files([a], [b]), *options)
        got = result["parameters"][0]
        self.assertEqual(result["equal"], bool(close.all()))
        self.assertEqual(got["elements"], x.size)
        self.assertEqual(got["different"], int((~close).sum()))
        if not unequal.any():
            return
        self.assertEqual(got["unequal"], int(unequal.sum()))
        numbers = unequal & ~np.isnan(x) & ~np.isnan(y)
        distance = np.abs(x - y)
        if numbers.any():
            largest = float(distance[numbers].max())
            self.assertEqual(float(got["max_absolute"]), largest)
        relative = numbers & (y != 0) & np.isfinite(y)
        if relative.any():
            self.assertAlmostEqual(float(got["max_relative"]) /
                                   float((distance / np.abs(y))[relative].max()), 1) \
                if np.isfinite(distance[relative]).all() else \
                self.assertEqual(got["max_relative"], "inf")
        if not close.all():
            first = int(np.flatnonzero(~close.reshape(-1))[0])
            index = [int(i) for i in np.unravel_index(first, x.shape)]
            self.assertEqual(got["first"]["index"], index)

    def test_numpy_agrees(self) -> None:
        rng = np.random.default_rng(3)
        warnings.simplefilter("ignore", RuntimeWarning)
        for kind in (*INTEGERS, *FLOATS):
            for other in (kind, "Float32", "Int16"):
                a = random_record(rng, kind, (3, 5, 7))
                b = random_record(rng, other, (3, 5, 7))
                if kind == other:  # most elements equal
                    mixed = np.where(rng.random((3, 5, 7)) < 0.9, a.array(), b.array())
                    b = record_of("w", kind, mixed.astype(a.array().dtype))
                for atol, rtol in ((0.0, 0.0), (0.5, 0.0), (0.1, 0.2)):
                    with self.subTest(a=kind, b=other, atol=atol, rtol=rtol):
                        self.judge(a, b, atol, rtol, bool(rng.integers(2)))

    def test_large_integers_are_exact(self) -> None:
        a = record_of("w", "Int64", np.array([2**53 + 1, -5], "<i8"))
        b = record_of("w", "Float64", np.array([2.0**53, -5]))
        got = self.json(1, *self.files([a], [b]))["parameters"][0]
        self.assertEqual((got["different"], got["first"]["index"], got["max_absolute"]), (1, [0], 1))

    def test_blocks_beyond_the_first(self) -> None:
        values = np.zeros((3, 700_001), "<f4")
        changed = values.copy()
        changed[2, 700_000] = 0.25
        changed[1, 17] = -4
        got = self.json(1, *self.files([record_of("w", "Float32", values)],
                                       [record_of("w", "Float32", changed)]))["parameters"][0]
        self.assertEqual((got["different"], got["max_absolute"], got["first"]["index"]),
                         (2, 4, [1, 17]))
        # In another type, block by block.
        wide = changed.astype("<f8")
        again = self.json(1, *self.files([record_of("w", "Float32", values)],
                                         [record_of("w", "Float64", wide)]))["parameters"][0]
        self.assertEqual(again["first"], got["first"])
        self.assertEqual(again["different"], 2)


class Listing(DiffTest):
    def test_every_kind(self) -> None:
        one = np.ones((2, 3), "<f4")
        a = [record_of("same", "Float32", one), record_of("gone", "Float32", one),
             record_of("shape", "Float32", one), record_of("value", "Float32", one),
             record_of("cast", "Float32", one), string_record("text", "abc"),
             record_of("kind", "Float32", one)]
        two = one.copy()
        two[1, 2] = 1.5
        b = [record_of("same", "Float32", one), record_of("new", "Float32", one),
             record_of("shape", "Float32", one.T), record_of("value", "Float32", two),
             record_of("cast", "Float64", one.astype("<f8")), string_record("text", "abd"),
             string_record("kind", "x")]
        paths = self.files(a, b)
        status = {p["name"]: p["status"] for p in self.json(1, *paths)["parameters"]}
        self.assertEqual(status, {"same": "equal", "gone": "only in A", "new": "only in B",
                                  "shape": "other shape", "value": "different", "cast": "equal",
                                  "text": "different", "kind": "other type"})
        text = self.says(1, *paths)
        self.assertIn("value: Float32 [2, 3]: 1 of 6 elements differs, largest difference 0.5 "
                      "(relative 0.333333), first at (1, 2): 1 against 1.5", text)
        self.assertNotIn("same:", text)
        self.assertNotIn("\033", text)
        self.assertIn("1 of these in another element type", text)
        self.assertIn("equal: same", run("diff", *paths, "-v").stdout)
        self.says(0, *paths, "--include", "same", "--include", "cast")
        self.says(1, *paths, "--include", "cast", "--strict-types")
        self.says(0, *paths, "--include", "value", "--atol", "0.5")
        self.says(1, *paths, "--include", "value", "--atol", "0.499")

    def test_equal_and_quiet(self) -> None:
        records = [record_of("w", "Float32", np.ones(3, "<f4"))]
        paths = self.files(records, records)
        self.assertEqual(len(self.says(0, *paths).splitlines()), 1)
        self.assertEqual(self.says(0, *paths, "-q"), "")

    def test_renamed(self) -> None:
        one = np.ones(3, "<f4")
        paths = self.files([record_of("old", "Float32", one)], [record_of("new", "Float32", one)])
        names = self.directory / "names.json"
        names.write_text('{"old": "new"}')
        result = run("diff", *paths)
        self.assertEqual((result.code, result.stderr), (1, "reshardfs: warning: no name is in both A and B: "
                                                        "--a-map, --b-map, --a-rename and --name-map give others\n"))
        self.says(0, *paths, "--name-map", names)

    def test_each_rank_has_its_own(self) -> None:
        made = make_set(self.directory / "m", Parallel(tp=2), Parallel(), layers=1)
        for rank in range(2):
            path = made.source_files(rank)[0]
            records = decode_checkpoint(path.read_bytes())
            path.write_bytes(encode_checkpoint(
                [*records, record_of("seed", "Int32", np.array([rank], "<i4"))]))
        strategies = ("--a-strategy", made.src_strategy, "--b-strategy", made.src_strategy)
        self.says(0, made.source, made.source, *strategies)
        ranks = [p.get("rank") for p in self.json(0, made.source, made.source, *strategies)
                 ["parameters"] if p["name"] == "seed"]
        self.assertEqual(ranks, [0, 1])

    def colours(self, *paths: Path, **environment: str) -> bool:
        ours, theirs = pty.openpty()
        clean = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
        process = subprocess.Popen([str(Settings.binary), "diff", *map(str, paths)],
                                   stdin=subprocess.DEVNULL, stdout=theirs,
                                   stderr=subprocess.DEVNULL, env=clean | environment)
        os.close(theirs)
        data = terminal_output(ours)
        self.assertEqual(process.wait(COMMAND_SECONDS), 1)
        return b"\033[" in data

    def test_colours_on_a_terminal(self) -> None:
        paths = self.files([record_of("a", "Float32", np.ones(3, "<f4"))],
                           [record_of("b", "Float32", np.ones(3, "<f4"))])
        self.assertTrue(self.colours(*paths))
        self.assertFalse(self.colours(*paths, NO_COLOR="1"))
        self.assertFalse(self.colours(*paths, TERM="dumb"))


class Layouts(DiffTest):
    def test_golden_conversions_are_equal(self) -> None:
        checked = 0
        for case in load_cases():
            expected = case.expected_directory
            if (case.api not in CONVERSION_APIS or case.name in BY_CONTENT or expected is None
                    or case.name in ("several_files", "bf16_nan_and_4byte")):
                continue
            options: list[str | Path] = []
            for side, letter in (("src", "a"), ("dst", "b")):
                strategy = case.strategy(side)
                options += [f"--{letter}-strategy", strategy] if strategy else []
            if case.name in ("missing_in_strategies", "st_single_file_to_tp2"):
                continue
            with self.subTest(case.name):
                result = run("diff", case.source, expected, *options)
                self.assertEqual(result.code, 0, result.stdout + result.stderr)
                checked += 1
        self.assertGreater(checked, 15)

    def test_one_changed_element_is_found_in_the_full_tensor(self) -> None:
        made = make_set(self.directory, Parallel(tp=4), Parallel(tp=2), layers=1, seed=8)
        name = "model.layers.0.quantized.weight"
        whole = self.directory / "whole.ckpt"
        tensors = {r.name: r for r in [*made.model.tensors.values(), *made.model.unlaid]}
        changed = tensors[name].array().copy()
        changed[1, 3] ^= 8
        tensors[name] = record_of(name, "Int8", changed)
        whole.write_bytes(encode_checkpoint(list(tensors.values())))
        result = self.json(1, made.source, whole, "--a-strategy", made.src_strategy)
        found = [p for p in result["parameters"] if p["status"] != "equal"]
        self.assertEqual([(p["name"], p["first"]["index"], p["different"]) for p in found],
                         [(name, [1, 3], 1)])
        text = run("diff", made.source, whole, "--a-strategy", made.src_strategy, "-j", "1").stdout
        again = run("diff", made.source, whole, "--a-strategy", made.src_strategy, "-j", "9").stdout
        self.assertEqual(text, again)

    def test_formats(self) -> None:
        rng = np.random.default_rng(1)
        records = [replace(random_record(rng, kind, (4, 6)), name=kind) for kind in SAFETENSORS]
        st = self.directory / "m.safetensors"
        write_safetensors(st, [*records, Record("nothing", "Float32", (0, 3), b"")])
        a, _ = self.files(records, records)
        self.says(0, a, st)
        self.says(0, st, a)
        with_nan = sum(bool(np.isnan(values_of(r).astype("f8")).any()) for r in records)
        self.assertGreater(with_nan, 0)
        self.assertEqual(self.json(1, a, st, "--nan-differs")["counts"]["different"], with_nan)


class Refused(DiffTest):
    def test_one_line(self) -> None:
        records = [record_of("w", "Float32", np.ones(3, "<f4"))]
        a, b = self.files(records, records)
        self.refused(2, a, words=("B is missing", "diff A B"))
        self.refused(2, a, "/nowhere", words=("/nowhere",))
        self.refused(2, a, b, "--a-strategy", "/nowhere", words=("--a-strategy",))
        self.refused(2, a, b, "--atol", "-1", words=("--atol",))
        self.refused(2, a, b, "--rtol", "nan", words=("--rtol",))
        self.refused(2, a, b, "--rtol", "much", words=("--rtol", "--help"))
        self.refused(2, a, b, "--name-map", "/nowhere", words=("--name-map",))
        self.refused(2, a, b, "--src-strategy", "none", words=("--a-strategy", "--b-strategy"))

    def test_nothing_is_not_equal(self) -> None:
        records = [record_of("w", "Float32", np.ones(3, "<f4"))]
        a, b = self.files(records, records)
        for words in (("--a-drop", "w", "--b-drop", "w"), ("--include", "x", "--allow-unmatched")):
            result = run("diff", a, b, *words)
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("no parameter is left to compare", result.stderr)

    def test_sets_that_cannot_be_read(self) -> None:
        made = make_set(self.directory / "m", Parallel(tp=4), Parallel(tp=2), layers=1)
        strategy = ("--b-strategy", made.src_strategy)
        self.refused(2, made.source, made.source, words=("--a-strategy",))
        one = self.directory / "one.ckpt"
        shutil.copy(made.source_files(0)[0], one)
        self.refused(2, one, made.source, words=("--b-strategy",))
        made.source_files(2)[0].unlink()
        self.refused(2, made.source, made.source, "--a-strategy", made.src_strategy, *strategy,
                     words=("rank 2 is missing", "parameter"))
        self.refused(2, made.source, made.source, "--a-step", "9_9", words=("9_9",))


if __name__ == "__main__":
    run_command_tests()
