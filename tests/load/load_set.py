# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of 8 ranks for 64, cut in every way, and what each mounted file of it must hold.

The expectation is cut from the full arrays by numpy.array_split, and shares nothing with reshardfs.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "data"), str(TESTS / "integration")]

from ckpt_format import (  # noqa: E402
    NUMPY_TYPES,
    Record,
    by_name,
    encode_checkpoint,
    record_of,
)
from format_files import TYPES, read_safetensors  # noqa: E402

MIB = 1 << 20
SAFETENSORS_TYPES = {mindspore: st for mindspore, st, _, _ in TYPES}


@dataclass(frozen=True)
class Devices:
    """One stage; device dp * TP + tp."""

    dp: int
    tp: int

    @property
    def ranks(self) -> int:
        return self.dp * self.tp


SOURCE = Devices(dp=2, tp=4)
TARGET = Devices(dp=4, tp=16)


@dataclass(frozen=True)
class Cut:
    """How a parameter is laid out under every strategy of the set."""

    dimension: int | None = None  # that tp cuts
    uneven: bool = False
    optimizer: bool = False  # what tp leaves is cut over dp, in rows

    def piece(self, full: np.ndarray, devices: Devices, rank: int) -> np.ndarray:
        dp, tp = divmod(rank, devices.tp)
        if self.dimension is not None:
            full = np.array_split(full, devices.tp, self.dimension)[tp]
        if self.optimizer:
            full = np.split(full, devices.dp)[dp]
        return np.ascontiguousarray(full) if full.ndim else full

    def rule(self, name: str, dimensions: int) -> str:
        lines = ["[[rule]]", f'match = "{name}"']
        if self.dimension is not None:
            axes = ["tp" if d == self.dimension else "" for d in range(dimensions)]
            lines.append(f"cut = {json.dumps(axes)}")
        if self.uneven:
            lines.append('uneven = "balanced"')
        if self.optimizer:
            lines.append('optimizer = "all"')
        return "\n".join(lines) + "\n"


ROWS, COLUMNS, WHOLE = Cut(0), Cut(1), Cut()


def parameters(rows: int) -> dict[str, tuple[str, tuple[int, ...], Cut]]:
    """Element type, full shape and cut of each; `rows` is a multiple of 64."""
    out: dict[str, tuple[str, tuple[int, ...], Cut]] = {
        "model.tok_embeddings.embedding_weight": ("Float32", (rows, 512), ROWS)}
    for layer in range(3):
        name = f"model.layers.{layer}"
        out |= {
            f"{name}.attention.wq.weight": ("Float32", (rows, 256), ROWS),
            f"{name}.attention.wo.weight": ("BFloat16", (rows, 512), COLUMNS),
            f"{name}.attention.narrow.weight": ("UInt8", (rows, 64), COLUMNS),
            f"{name}.experts.weight": ("Float16", (8, rows // 8, 128), Cut(2)),
            f"{name}.odd_rows.weight": ("Float32", (rows + 5, 131), Cut(0, uneven=True)),
            f"{name}.odd_columns.weight": ("Int8", (rows, 213), Cut(1, uneven=True)),
            f"{name}.norm.weight": ("Float32", (257,), WHOLE),
            f"adam_m.{name}.attention.wq.weight": ("Float32", (rows, 256), Cut(0, optimizer=True)),
            f"adam_v.{name}.attention.wo.weight": ("Float32", (rows, 512), Cut(1, optimizer=True)),
        }
    out["lm_head.weight"] = ("Float64", (rows, 128), ROWS)
    out["global_step"] = ("Int32", (1,), WHOLE)
    out["scale_sense"] = ("Float32", (), WHOLE)
    return out


class LoadSet:
    """Writes the source and both strategies below a directory."""

    def __init__(self, directory: Path, megabytes: int, seed: int) -> None:
        """@param megabytes of all rank files in both formats together, roughly."""
        self.source = directory / "src"
        self.strategies = [directory / "src.toml", directory / "dst.toml"]
        # Replicas make that much of a row in all rank files of one format.
        of_row = sum(size * (1 if cut.optimizer else TARGET.dp)
                     for size, cut in self._row_sizes())
        rows = max(64, megabytes * MIB // 2 // of_row // 64 * 64)
        rng = np.random.default_rng(seed)
        self.cuts: dict[str, Cut] = {}
        self.full: dict[str, Record] = {}
        for name, (kind, shape, cut) in parameters(rows).items():
            size = int(np.prod(shape, dtype=np.int64)) * NUMPY_TYPES[kind].itemsize
            self.full[name] = Record(name, kind, shape, rng.bytes(size))
            self.cuts[name] = cut
        for rank in range(SOURCE.ranks):
            path = self.source / f"rank_{rank}/net-1_1.ckpt"
            path.parent.mkdir(parents=True)
            path.write_bytes(encode_checkpoint(self.records(SOURCE, rank)))
        for path, devices in zip(self.strategies, (SOURCE, TARGET)):
            path.write_text(f'[devices]\naxes = ["dp={devices.dp}", "tp={devices.tp}"]\n\n' +
                            "\n".join(cut.rule(name, len(self.full[name].shape))
                                      for name, cut in self.cuts.items()))

    @staticmethod
    def _row_sizes() -> list[tuple[int, Cut]]:
        """Bytes for each row, of those that grow with the rows."""
        few, many = (
            [(int(np.prod(shape)) * NUMPY_TYPES[kind].itemsize, cut)
             for kind, shape, cut in parameters(rows).values()] for rows in (64, 128))
        return [((b - a) // 64, cut) for (a, cut), (b, _) in zip(few, many)]

    def records(self, devices: Devices, rank: int) -> list[Record]:
        return [record_of(name, full.type, self.cuts[name].piece(full.array(), devices, rank))
                for name, full in self.full.items()]

    def options(self) -> list[str]:
        return ["--src-strategy", str(self.strategies[0]), "--dst-strategy",
                str(self.strategies[1]), "--format", "ckpt,safetensors"]

    def check(self, top: Path) -> list[Path]:
        """Judges files that a conversion has written.

        @return those that were judged byte by byte: all but the texts.
        """
        judged = []
        for rank in range(TARGET.ranks):
            records = self.records(TARGET, rank)
            stem = top / f"rank_{rank}/checkpoint_{rank}"
            assert stem.with_suffix(".ckpt").read_bytes() == encode_checkpoint(records), stem
            self._check_safetensors(stem.with_suffix(".safetensors"), records)
            judged += [stem.with_suffix(".ckpt"), stem.with_suffix(".safetensors")]
        whole = list(self.full.values())
        merged = top / "merged"
        assert by_name((merged / "checkpoint_merged.ckpt").read_bytes()) == self.full
        self._check_safetensors(merged / "checkpoint_merged.safetensors", whole)
        for entry in json.loads((merged / "params.json").read_text()):
            path = merged / entry["file"]
            content = np.load(path).tobytes()
            assert content == self.full[entry["name"]].content, path
            judged.append(path)
        return [*judged, merged / "checkpoint_merged.ckpt", merged / "checkpoint_merged.safetensors"]

    @staticmethod
    def _check_safetensors(path: Path, records: list[Record]) -> None:
        found, _ = read_safetensors(path)
        assert {name: (kind, array.shape, array.tobytes()) for name, (kind, array) in found.items()} \
            == {r.name: (SAFETENSORS_TYPES[r.type], r.shape, r.content) for r in records}, path
