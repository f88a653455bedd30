# SPDX-License-Identifier: Apache-2.0
"""The table of sources and targets in docs/support.md is true: each cell is done, for two ranks where the
target has ranks, and what comes out is read by readers of the tests' own. test_python_support.py has Python's
column."""

from __future__ import annotations

import hashlib
import json
import os
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

# First, because it finds the modules of tests/data.
from support_kinds import KINDS, PYTHON, RULES, Kind, supported

import numpy as np
from checkpoint2_loader import load_checkpoint2
from command_tests import run_command_tests
from dcp_reader import read_dcp
from format_files import Tensors, read_ckpt, read_safetensors
from memory_store import BUCKET, MemoryStore, serving
from mounted import run, scratch
from trainer_loader import Loader, latest_step

Arrays = dict[str, np.ndarray]


def arrays_of(tensors: Tensors) -> Arrays:
    return {name: array for name, (_, array) in tensors.items()}


def cut_names(arrays: Arrays) -> list[str]:
    return [name for name, array in arrays.items() if array.ndim == 2 and array.shape[0] % 2 == 0]


def differences(got: Arrays, want: Arrays) -> list[str]:
    return [name if name in got and name in want else f"only {'got' if name in got else 'wanted'}: {name}"
            for name in sorted(got.keys() | want.keys()) if name not in got or name not in want
            or got[name].shape != want[name].shape or got[name].tobytes() != want[name].tobytes()]


class Cell:
    """Exports a source in one form, and reads what was written."""

    def __init__(self, kind: Kind, directory: Path) -> None:
        self.kind, self.directory = kind, directory
        self.want = arrays_of(kind.tensors)
        self.complaints = ""

    def export(self, *views: str, cut: bool = True, to: str | None = None) -> Path:
        """@return the directory that the files are in"""
        out = self.directory / "out"
        options: list[str | Path] = [*self.kind.options, *views]
        if cut:
            rules = self.directory / "tp2.toml"
            rules.write_text(RULES.format(json.dumps(cut_names(self.want))))
            options += ["--dst-strategy", rules, "--unmatched", "replicate"]
        result = run("export", self.kind.source, to or out, *options)
        if result.code:
            raise AssertionError(result.stderr)
        self.complaints = result.stderr
        return out

    def joined(self, out: Path, read: Callable[[Path], Tensors], ending: str) -> Arrays:
        """Both ranks' slices as one; what is not cut is the same on both."""
        first, second = (arrays_of(read(out / f"rank_{rank}/checkpoint_{rank}.{ending}")) for rank in range(2))
        cut = set(cut_names(self.want))
        if {name: array.tobytes() for name, array in first.items() if name not in cut} \
                != {name: array.tobytes() for name, array in second.items() if name not in cut}:
            raise AssertionError("what is not cut differs between the ranks")
        return {name: np.concatenate([array, second[name]]) if name in cut else array
                for name, array in first.items()}

    # --- the columns ---

    def rank_ckpt(self) -> Arrays:
        return self.joined(self.export("--views", "ranks", "--format", "ckpt"), read_ckpt, "ckpt")

    def rank_safetensors(self) -> Arrays:
        return self.joined(self.export("--views", "ranks", "--format", "safetensors"),
                           lambda path: read_safetensors(path)[0], "safetensors")

    def merged(self) -> Arrays:
        out = self.export("--views", "merged", cut=False) / "merged"
        arrays = arrays_of(read_ckpt(out / "checkpoint_merged.ckpt"))
        for other in (read_safetensors(out / "checkpoint_merged.safetensors")[0], self.of_index(out)):
            if {name: array.tobytes() for name, (_, array) in other.items()} \
                    != {name: array.tobytes() for name, array in arrays.items() if array.size or name in other}:
                raise AssertionError("the files of merged/ differ")
        return arrays

    def of_index(self, folder: Path) -> Tensors:
        """What the index names."""
        places = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
        files = {file: read_safetensors(folder / file)[0] for file in set(places.values())}
        return {name: files[file][name] for name, file in places.items()}

    def hf(self) -> Arrays:
        """The weights alone."""
        got = arrays_of(self.of_index(self.export("--views", "hf", cut=False) / "hf"))
        self.leave_out([name for name in self.want if name not in got and is_state(name)])
        return got

    def dcp(self) -> Arrays:
        return {name: array for name, (_, array) in read_dcp(self.export("--views", "dcp") / "dcp").tensors.items()}

    def hyper(self) -> Arrays:
        """The weights, which are below a key that a distributed checkpoint may have, too."""
        loader = Loader(latest_step(self.export("--views", "hyper", cut=False) / "hyper"))
        got = {}
        for name, entry in loader.table.state_dict_metadata.items():
            if name.startswith("model."):
                info = loader.place(name, entry.chunks[0].offsets, 0)
                got[name.removeprefix("model.")] = loader.file(info).get(info.tensor_key)[1]
        got = {f"model.{name}" if f"model.{name}" in self.want else name: array for name, array in got.items()}
        self.leave_out([name for name in self.want if name not in got and is_state(name)])
        return got

    def iteration(self) -> Arrays:
        got = arrays_of(load_checkpoint2(self.export("--views", "iteration") / "iteration", 2))
        self.leave_out([name for name in self.want if name not in got and f"'{name}'" in self.complaints])
        return got

    def written(self) -> Arrays:
        out = self.export("--format", "safetensors", "--checksum")
        for digest, name in (line.split() for line in (out / "SHA256SUMS").read_text().splitlines()):
            if hashlib.sha256((out / name.lstrip("*")).read_bytes()).hexdigest() != digest:
                raise AssertionError(f"{name} is not what its sum says")
        return self.joined(out, lambda path: read_safetensors(path)[0], "safetensors")

    def store(self) -> Arrays:
        store = MemoryStore()
        with serving(store) as environment, mock.patch.dict(os.environ, environment):
            self.export("--views", "ranks", "--format", "ckpt", to=f"s3://{BUCKET}/run")
        out = self.directory / "objects"
        for key, data in store.objects.items():
            path = out / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[0])
        return self.joined(out / "run", read_ckpt, "ckpt")

    def leave_out(self, names: list[str]) -> None:
        self.want = {name: array for name, array in self.want.items() if name not in names}


def is_state(name: str) -> bool:
    """Of training, as --weights-only leaves it out."""
    return name.startswith(("adam_", "moments", "optim", "chained")) or "exp_avg" in name or name in (
        "global_step", "learning_rate", "beta1_power", "beta2_power", "scale_sense", "current_iterator_step",
        "last_overflow_iterator_step")


COLUMNS: dict[str, Callable[[Cell], Arrays]] = {
    "rank_N/*.ckpt": Cell.rank_ckpt, "rank_N/*.safetensors": Cell.rank_safetensors, "merged/": Cell.merged,
    "hf/": Cell.hf, "dcp/": Cell.dcp, "hyper/": Cell.hyper, "iteration/": Cell.iteration,
    "export to a directory": Cell.written, "export to S3": Cell.store,
}


class Support(unittest.TestCase):
    def test_each_cell(self) -> None:
        cells = supported()
        self.assertLessEqual({row for row, _ in cells}, set(KINDS))
        self.assertLessEqual({column for _, column in cells}, {*COLUMNS, PYTHON})
        for row, column in sorted(cells):
            if column != PYTHON:
                with self.subTest(row, target=column), scratch() as directory:
                    cell = Cell(KINDS[row](directory), directory)
                    got = {name: array for name, array in COLUMNS[column](cell).items()
                           if name not in cell.kind.added}
                    self.assertGreater(len(cell.want), 1)
                    self.assertEqual(differences(got, cell.want), [])


if __name__ == "__main__":
    run_command_tests()
