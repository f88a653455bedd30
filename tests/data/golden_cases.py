# SPDX-License-Identifier: Apache-2.0
"""The cases of tests/golden: what each one is, and which of its rules are special."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ckpt_format import Record, decode_checkpoint

GOLDEN = Path(os.environ.get("RESHARDFS_GOLDEN", Path(__file__).resolve().parents[1] / "golden"))

CONVERSION_APIS = ("transform_checkpoints", "transform_checkpoint_by_rank")

# By content: the original gives the first two another file name; in the last the ranks of a stage
# differ in their order of records, and then any stable order is right.
BY_CONTENT = ("by_stage_path", "dst_superset_part0", "redundancy_removed_ckpt_WRONG")
# The original fails on these; what is right follows from the layouts.
MUST_WORK = ("err_4_to_6", "err_dash_in_name", "err_str_entry")
# What the one line on standard error has to mention: any of the words.
MUST_FAIL: dict[str, tuple[str, ...]] = {
    "err_corrupt_file": ("rank_1/llama-3_100.ckpt",),
    "err_indivisible": ("model.layers.0", "lm_head", "model.tok_embeddings", "model.norm"),
    # Nothing is replicated there, so no other rank can stand in.
    "err_missing_rank": ("rank 2", "rank_2"),
}
EXTRA_OPTIONS: dict[str, tuple[str, ...]] = {"several_files": ("--step", "9_50")}


@dataclass(frozen=True)
class Case:
    name: str
    directory: Path
    description: dict[str, Any]
    options: tuple[str, ...] = field(default=())

    @property
    def api(self) -> str:
        return self.description["api"]

    @property
    def prefix(self) -> str:
        return self.description["prefix"]

    @property
    def source(self) -> Path:
        """What the original was given: a directory, or one file."""
        return self.directory / self.description.get("src", "src")

    @property
    def reads_ckpt(self) -> bool:
        """Whether read_source() can read it."""
        return any(self.source.glob("rank_*/*.ckpt"))

    @property
    def output_format(self) -> str:
        return self.description["args"].get("output_format", "ckpt")

    def strategy(self, side: str) -> Path | None:
        name = self.description.get(f"{side}_strategy")
        return self.directory / name if name else None

    def strategy_variants(self, side: str) -> list[tuple[str, Path | None]]:
        """The merged protobuf file first, then every other form that must give the same bytes."""
        variants: list[tuple[str, Path | None]] = [("protobuf", self.strategy(side))]
        for label, name in (
            ("JSON", f"{side}_strategy.json"),
            ("stage files", f"{side}_stages"),
            ("JSON stage files", f"{side}_stages_json"),
        ):
            if (self.directory / name).exists():
                variants.append((label, self.directory / name))
        return variants

    @property
    def expected_directory(self) -> Path | None:
        """What reshardfs must give: dst_right/ where the original is wrong, else dst/."""
        for name in ("dst_right", "dst"):
            if (self.directory / name).is_dir():
                return self.directory / name
        return None

    def expected_files(self) -> dict[int, Path]:
        """Destination rank to the file with its expected contents."""
        top = self.expected_directory
        found = top.glob("rank_*/*.*") if top else ()
        return {int(path.parent.name.removeprefix("rank_")): path for path in found}

    @property
    def needed_ranks(self) -> dict[int, list[int]] | None:
        ranks = self.description.get("needed_ranks_minimal")
        return {int(rank): needed for rank, needed in ranks.items()} if ranks else None

    def read_source(self) -> dict[int, list[Record]]:
        """The source's parameters by rank; of several steps the one that the case is about."""
        out: dict[int, list[Record]] = {}
        for directory in self.source.glob("rank_*"):
            number = directory.name.removeprefix("rank_")
            if number.isdigit():
                step = self.options[-1] if self.options else ""
                path = max(directory.glob(f"*{step}.ckpt"))
                out[int(number)] = decode_checkpoint(path.read_bytes())
        return out


def load_cases() -> list[Case]:
    """Every case, by name."""
    return [
        Case(path.parent.name, path.parent, json.loads(path.read_text()),
             EXTRA_OPTIONS.get(path.parent.name, ()))
        for path in sorted(GOLDEN.glob("*/case.json"))
    ]
