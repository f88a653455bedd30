# SPDX-License-Identifier: Apache-2.0
"""export --reflink on file systems that share blocks: the same tensors, and no space for them. Needs root, and
mkfs.xfs or mkfs.btrfs; skipped where there are none."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from export_tests import BAD_INPUT, DONE, data_files, partial_files  # noqa: E402
from file_systems import file_system  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from mounted import Result, one_line, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

RANKS = 4
ROWS = ((0,), ())
COLUMNS = ((), (0,))
WEIGHTS = {f"layer.{number}.weight": (1024, 2048) for number in range(4)}
# Smaller than what is shared, and a multiple of a page, so that what comes behind lies as before.
NORMS = {"a.norm": (2048,), "z.norm": (1024,)}
# The smallest XFS that there is; 32 MiB of tensors.
FILE_SYSTEM_BYTES = 400 << 20


class Model:
    """A set of safetensors files in `directory`, with strategies."""

    def __init__(self, directory: Path, cut: tuple[tuple[int, ...], tuple[int, ...]] = ROWS) -> None:
        self.directory = directory
        self.source = directory / "set"
        rng = np.random.default_rng(7)
        self.arrays = {name: rng.integers(0, 256, (*shape[:-1], shape[-1] * 4), np.uint8).view("<f4")
                       for name, shape in (WEIGHTS | NORMS).items()}
        for rank in range(RANKS):
            layouts = self.layouts(RANKS, ROWS)
            write_safetensors(self.source / f"rank_{rank}/m.safetensors",
                              {name: ("F32", shard(self.arrays[name], layouts[name], rank)) for name in self.arrays},
                              {"format": "m" * 1000})
        write_protobuf(Strategy([self.layouts(RANKS, ROWS)]), directory / "src.ckpt")
        write_protobuf(Strategy([self.layouts(2, cut)]), directory / "dst.ckpt")
        self.target = self.layouts(2, cut)

    def layouts(self, ranks: int, cut: tuple[tuple[int, ...], tuple[int, ...]]) -> dict[str, Layout]:
        return {name: Layout((ranks,), cut if name in WEIGHTS else ((),)) for name in self.arrays}

    def export(self, out: Path | str, *more: str) -> Result:
        return run("export", self.source, out, "--src-strategy", self.directory / "src.ckpt", "--dst-strategy",
                   self.directory / "dst.ckpt", *more)

    def expected(self, rank: int) -> Tensors:
        return {name: ("F32", shard(array, self.target[name], rank)) for name, array in self.arrays.items()}


def free_bytes(place: Path) -> int:
    os.sync()
    space = os.statvfs(place)
    return space.f_bfree * space.f_frsize


class OnXfs(unittest.TestCase):
    KIND = "xfs"

    @contextlib.contextmanager
    def place(self) -> Iterator[Path]:
        with scratch() as directory, file_system(self.KIND, directory, FILE_SYSTEM_BYTES) as place:
            yield place

    def check(self, model: Model, out: Path) -> None:
        for rank in (0, 1):
            (path,) = (out / f"rank_{rank}").glob("*.safetensors")
            found, _ = read_safetensors(path)
            wanted = model.expected(rank)
            self.assertEqual(set(found), set(wanted))
            for name, (_, array) in wanted.items():
                self.assertEqual(found[name][1].tobytes(), array.tobytes(), name)
        self.assertEqual(partial_files(out), [])

    def test_rows_take_no_space(self) -> None:
        with self.place() as place:
            model = Model(place)
            before = free_bytes(place)
            result = model.export(place / "out", "--reflink")
            self.assertEqual(result.code, DONE, result.stderr)
            self.assertRegex(result.stdout, r"3\d\.\d MiB of them shared with the source")
            self.check(model, place / "out")
            self.assertLess(before - free_bytes(place), 4 << 20)

    def test_it_is_a_copy_when_the_source_is_written_to(self) -> None:
        with self.place() as place:
            model = Model(place)
            self.assertEqual(model.export(place / "out", "--reflink").code, DONE)
            for path in model.source.rglob("*.safetensors"):
                with open(path, "r+b") as file:
                    file.seek(100_000)
                    file.write(b"\xff" * 1_000_000)
            self.check(model, place / "out")

    def test_with_sums(self) -> None:
        with self.place() as place:
            model = Model(place)
            result = model.export(place / "out", "--reflink", "--checksum")
            self.assertEqual(result.code, DONE, result.stderr)
            self.assertIn("shared with the source", result.stdout)
            self.check(model, place / "out")
            subprocess.run(["sha256sum", "-c", "--quiet", "--strict", "SHA256SUMS"], cwd=place / "out", check=True)

    def test_sums_that_come_later(self) -> None:
        """Of files that were never read, and of a rank that is not exported again."""
        with self.place() as place:
            model = Model(place)
            out = place / "out"
            self.assertEqual(model.export(out, "--reflink").code, DONE)
            again = model.export(out, "--reflink", "--checksum", "--ranks", "1")
            self.assertEqual(again.code, DONE, again.stderr)
            self.assertIn("1 file was there already, checked", again.stdout)
            self.assertIn("SHA256SUMS lacks 1 file that an export without --checksum has written", one_line(again))
            lines = (out / "SHA256SUMS").read_text().splitlines()
            (path,) = (out / "rank_1").iterdir()
            self.assertEqual(lines, [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  rank_1/{path.name}"])

    def test_again(self) -> None:
        with self.place() as place:
            model = Model(place)
            out = place / "out"
            self.assertEqual(model.export(out, "--reflink").code, DONE)
            stamps = {name: path.stat().st_mtime_ns for name, path in data_files(out).items()}
            again = model.export(out, "--reflink")
            self.assertEqual(again.code, DONE, again.stderr)
            self.assertIn("2 files were there already, checked", again.stdout)
            self.assertEqual({name: path.stat().st_mtime_ns for name, path in data_files(out).items()}, stamps)
            (path,) = (out / "rank_0").iterdir()
            with open(path, "r+b") as file:
                file.seek(-100, os.SEEK_END)
                file.write(b"x" * 50)
            refused = model.export(out, "--reflink")
            self.assertEqual(refused.code, BAD_INPUT)
            self.assertIn("already exists with different contents", one_line(refused))

    def test_columns_are_written(self) -> None:
        with self.place() as place:
            model = Model(place, COLUMNS)
            result = model.export(place / "out", "--reflink")
            self.assertEqual(result.code, DONE, result.stderr)
            self.assertIn("--reflink has shared nothing", one_line(result))
            self.check(model, place / "out")

    def test_the_whole_model_in_one_file(self) -> None:
        with self.place() as place:
            model = Model(place)
            result = run("export", model.source, place / "one", "--src-strategy", place / "src.ckpt", "--views",
                         "merged", "--format", "safetensors", "--reflink")
            self.assertEqual(result.code, DONE, result.stderr)
            self.assertIn("shared with the source", result.stdout)
            tensors: Tensors = {}
            for path in (place / "one/merged").glob("*.safetensors"):
                tensors |= read_safetensors(path)[0]
            for name, array in model.arrays.items():
                self.assertEqual(tensors[name][1].tobytes(), array.tobytes(), name)


class OnBtrfs(OnXfs):
    KIND = "btrfs"


class WhereBlocksCannotBeShared(unittest.TestCase):
    def test_another_file_system(self) -> None:
        with scratch() as directory, file_system("ext4", directory, 128 << 20) as place:
            model = Model(directory)
            result = model.export(place / "out", "--reflink")
            self.assertEqual(result.code, BAD_INPUT)
            self.assertIn("shares no blocks with files of the output directory", one_line(result))
            self.assertIn("leave out --reflink", one_line(result))
            self.assertEqual(data_files(place / "out"), {})

    def test_a_store(self) -> None:
        with scratch() as directory:
            model = Model(directory)
            result = model.export("s3://bucket/out", "--reflink")
            self.assertEqual(result.code, BAD_INPUT)
            self.assertIn("a store shares no blocks", one_line(result))


if __name__ == "__main__":
    run_unittests()
