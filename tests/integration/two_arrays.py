# SPDX-License-Identifier: Apache-2.0
"""A small set of two arrays, `w` and `v`, for tests whose source fails in some way."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

RANKS = 4
ROWS = Layout((RANKS,), ((0,), ()))
MANY_ROWS = Layout((32,), ((0,), ()))
COLUMNS = Layout((RANKS,), ((), (0,)))
HALVES = Layout((2,), ((0,), ()))
REPLICAS = Layout((2, RANKS // 2), ((1,), ()))


class TwoArrays:
    """Writes set/rank_N/m-1_1.ckpt under one layout, and strategies for it and another."""

    def __init__(self, directory: Path, src: Layout, dst: Layout, shape: tuple[int, int]) -> None:
        rng = np.random.default_rng(3)
        self.src, self.dst = src, dst
        self.full = {name: rng.integers(0, 256, shape, dtype=np.uint8) for name in ("w", "v")}
        self.source = directory / "set"
        self.strategies = [directory / "src.ckpt", directory / "dst.ckpt"]
        for rank in range(src.device_count):
            path = self.file(rank)
            path.parent.mkdir(parents=True)
            path.write_bytes(self._encoded(src, rank))
        for path, layout in zip(self.strategies, (src, dst)):
            write_protobuf(Strategy([{"w": layout, "v": layout}]), path)

    def file(self, rank: int) -> Path:
        """Of the source."""
        return self.source / f"rank_{rank}/m-1_1.ckpt"

    def options(self) -> list[str]:
        return ["--src-strategy", str(self.strategies[0]), "--dst-strategy",
                str(self.strategies[1])]

    def expected(self, rank: int) -> bytes:
        """The whole file that the mount must show."""
        return self._encoded(self.dst, rank)

    def _encoded(self, layout: Layout, rank: int) -> bytes:
        return encode_checkpoint([record_of(n, "UInt8", shard(a, layout, rank))
                                  for n, a in self.full.items()])


def mounted_file(mountpoint: Path, rank: int) -> Path:
    return mountpoint / f"rank_{rank}/checkpoint_{rank}.ckpt"


def metric(mountpoint: Path, name: str) -> float:
    """The sum of all that reshardfs_NAME counts."""
    return sum(float(line.rsplit(" ", 1)[1])
               for line in (mountpoint / ".reshardfs/metrics").read_text().splitlines()
               if line.startswith(f"reshardfs_{name}"))
