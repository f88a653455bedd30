# SPDX-License-Identifier: Apache-2.0
"""How much of dcp/ a rank reads that loads its part with torch.distributed.checkpoint: as PyTorch's
reader, it reads the items that overlap its boxes, by the jumps that torch.load makes in an archive, through a file
of Python with the buffer that stat(2) advises."""

from __future__ import annotations

import io
import os
import struct
import sys
import unittest
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from dcp_reader import Index, TableUnpickler  # noqa: E402
from format_files import random_array, write_safetensors  # noqa: E402
from mounted import mounted, run_unittests, scratch  # noqa: E402

RECORDS = ("version", "byteorder", "data.pkl", "data/0")  # in the order in which torch.load reads them
SEARCHED = 4096  # bytes at the end in which its library looks for the end record
END_BYTES, ENTRY_BYTES, LOCAL_BYTES = 22, 46, 30

Box = tuple[tuple[int, int], ...]  # offset and size by dimension
Shape = tuple[int, ...]
Layout = Callable[[Shape, int], Box]  # what a rank has of a tensor


class CountedFile(io.FileIO):
    count = 0

    def readinto(self, buffer: Any) -> int:
        got = super().readinto(buffer)
        self.count += got or 0
        return got or 0


def load_archive(file: io.BufferedReader, begin: int, length: int) -> bytes:
    """Reads what torch.load reads, in its order. Returns the tensor's bytes."""
    def read(at: int, count: int) -> bytes:
        file.seek(begin + at)
        return file.read(count)

    read(0, 4)
    read(0, 8)
    searched = min(SEARCHED, length)
    read(length - searched, searched)
    size, offset = struct.unpack("<II", read(length - END_BYTES, END_BYTES)[12:20])
    directory = read(offset, size)
    entries: dict[str, tuple[int, int]] = {}
    while directory:
        count, names, extra, comment = (struct.unpack_from("<I", directory, 24)[0],
                                        *struct.unpack_from("<HHH", directory, 28))
        (at,) = struct.unpack_from("<I", directory, 42)
        name = directory[ENTRY_BYTES:ENTRY_BYTES + names].decode()
        entries[name.partition("/")[2]] = (at, count)
        directory = directory[ENTRY_BYTES + names + extra + comment:]
    content = b""
    for record in RECORDS:
        at, count = entries[record]
        names, extra = struct.unpack("<HH", read(at, LOCAL_BYTES)[-4:])
        content = read(at + LOCAL_BYTES + names + extra, count)
    return content


def overlaps(a: Box, b: Box) -> bool:
    return all(begin < other + length and other < begin + size
               for (begin, size), (other, length) in zip(a, b, strict=True))


def load(directory: Path, wanted: dict[str, Box]) -> int:
    """The bytes that are read of the files beside .metadata."""
    table = TableUnpickler((directory / ".metadata").read_bytes()).load()
    items: dict[str, list[Any]] = {}
    for name, box in wanted.items():
        for chunk in table.state_dict_metadata[name].chunks:
            if overlaps(tuple(zip(chunk.offsets, chunk.sizes, strict=True)), box):
                place = table.storage_data[Index(name, chunk.offsets)]
                items.setdefault(place.relative_path, []).append((place, prod(chunk.sizes)))
    count = 0
    for path, places in items.items():
        raw = CountedFile(directory / path)
        with io.BufferedReader(raw, os.fstat(raw.fileno()).st_blksize) as file:
            for place, elements in places:
                got = load_archive(file, place.offset, place.length)
                if len(got) != 2 * elements:
                    raise AssertionError(f"{len(got)} bytes of {elements} elements")
            count += raw.count
    return count


def whole(shape: Shape) -> list[tuple[int, int]]:
    return [(0, size) for size in shape]


def rows_of(ranks: int) -> Layout:
    def part(shape: Shape, rank: int) -> Box:
        size = shape[0] // ranks
        return ((rank * size, size), *whole(shape)[1:])
    return part


def columns_of(ranks: int) -> Layout:
    """Of matrices; vectors are everywhere."""
    def part(shape: Shape, rank: int) -> Box:
        if len(shape) == 1:
            return tuple(whole(shape))
        size = shape[1] // ranks
        return ((0, shape[0]), (rank * size, size))
    return part


def grid(shape: Shape, rank: int) -> Box:
    """Rows by rank // 2, columns by rank % 2."""
    rows = rows_of(2)(shape, rank // 2)
    return rows if len(shape) == 1 else (rows[0], columns_of(2)(shape, rank % 2)[1])


RULES = '[devices]\naxes = {axes}\nunmatched = "replicate"\n[[rule]]\nmatch = ["w*"]\ncut = {cut}\n{more}'
NORMS = '[[rule]]\nmatch = ["norm*"]\ncut = ["dp"]\n'
LAYOUTS: dict[str, tuple[Layout, str]] = {
    "FSDP": (rows_of(4), RULES.format(axes='["dp=4"]', cut='["dp"]', more=NORMS)),
    "TP": (columns_of(4), RULES.format(axes='["tp=4"]', cut='["", "tp"]', more="")),
    "2-D": (grid, RULES.format(axes='["dp=2", "tp=2"]', cut='["dp", "tp"]', more=NORMS))}


class Parts(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        rng = np.random.default_rng(1)
        shapes: dict[str, Shape] = {}
        for layer in range(4):
            shapes |= {f"w{layer}": (1024, 512), f"norm{layer}": (512,)}
        self.shapes = shapes
        self.bytes = sum(2 * prod(shape) for shape in shapes.values())
        self.source = self.root / "model.safetensors"
        write_safetensors(self.source, {name: ("BF16", random_array(rng, "<u2", shape))
                                        for name, shape in shapes.items()})

    def read_by_ranks(self, layout: Layout, *words: str | Path) -> list[tuple[int, int]]:
        """What each rank wants, and what it reads."""
        found = []
        with mounted(self.source, "--views", "dcp", *words) as mountpoint:
            for rank in range(4):
                wanted = {name: layout(shape, rank) for name, shape in self.shapes.items()}
                own = sum(2 * prod(size for _, size in box) for box in wanted.values())
                found.append((own, load(mountpoint / "dcp", wanted)))
        return found

    def test_a_strategy_gives_each_rank_its_part(self) -> None:
        for name, (layout, text) in LAYOUTS.items():
            rules = self.root / "rules.toml"
            rules.write_text(text)
            for own, read in self.read_by_ranks(layout, "--dst-strategy", rules):
                with self.subTest(layout=name, own=own, read=read):
                    self.assertGreaterEqual(read, own)
                    self.assertLess(read, 1.3 * own)

    def test_blocks_of_rows_without_a_strategy(self) -> None:
        for words in ((), ("--dcp-shards", "4")):
            for name, (layout, _) in LAYOUTS.items():
                for own, read in self.read_by_ranks(layout, *words):
                    with self.subTest(layout=name, words=words, own=own, read=read):
                        self.assertGreaterEqual(read, own)
                        self.assertLess(read, 1.1 * self.bytes)
                        if name == "FSDP":
                            self.assertLess(read, 1.3 * own)

    def test_whole_tensors_are_noticed(self) -> None:
        """So that the tests above can fail."""
        rules = self.root / "rules.toml"
        rules.write_text('[devices]\naxes = ["tp=1"]\nunmatched = "replicate"\n')
        for own, read in self.read_by_ranks(rows_of(4), "--dst-strategy", rules):
            self.assertGreater(read, 3 * own)


if __name__ == "__main__":
    run_unittests()
