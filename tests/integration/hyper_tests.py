# SPDX-License-Identifier: Apache-2.0
"""What the tests of --views hyper share: runs that ask for tensors, resumed by a loader of their own
(trainer_loader.py), and what reshardfs reads of the directory again."""

from __future__ import annotations

import shutil
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, same  # noqa: E402
from mounted import one_line, run, scratch  # noqa: E402
from trainer_loader import IndexOfBranch, LoadError, as_type, resume, uneven_box  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
F4 = np.dtype("<f4")
W = np.arange(96, dtype="<f4").reshape(12, 8)
MOMENTS = {"exp_avg": 1000, "exp_avg_sq": 2000}
STEPLESS = "restore_train_state: false"


def float32(tensors: Tensors) -> dict[str, np.ndarray]:
    return {name: as_type(kind, array, F4) for name, (kind, array) in tensors.items()}


def skeleton(weights: dict[str, np.ndarray], states: dict[str, dict[str, np.ndarray]] | None = None,
             main: dict[str, np.ndarray] | None = None, groups: int = 0) -> dict[str, Any]:
    """What a run asks for: the same shapes, in float32."""
    state: dict[str, Any] = {
        "model": {name: np.zeros(array.shape, F4) for name, array in weights.items()},
        "optimizer": {"state": {}, "param_groups": [{"lr": 0.5, "step": -5} for _ in range(groups)]}}
    for name, of in (states or {}).items():
        state["optimizer"]["state"][name] = {key: np.zeros(array.shape, F4) for key, array in of.items()}
    if main:
        state["optimizer"]["_mixed_precision_optimizer"] = {
            "fp32_from_fp16_params": {name: np.zeros(array.shape, F4) for name, array in main.items()}}
    return state


class HyperTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.exports = 0

    def export(self, source: Path, *words: str | Path) -> Path:
        self.exports += 1
        out = self.root / f"out{self.exports}"
        result = run("export", source, out, "--views", "hyper", *words)
        self.assertEqual(result.code, 0, result.stderr)
        self.told = result.stderr
        return out / "hyper"

    def refused(self, source: Path, *words: str | Path) -> str:
        result = run("export", source, self.root / "refused", "--views", "hyper", *words)
        self.assertEqual(result.code, 2, result.stderr)
        self.assertFalse((self.root / "refused").exists())
        return one_line(result)

    def assert_resumes(self, root: Path, weights: dict[str, np.ndarray],
                       states: dict[str, dict[str, np.ndarray]] | None = None, *,
                       main: dict[str, np.ndarray] | None = None, extra: dict[str, int] | None = None) -> None:
        """On several numbers of ranks, by both releases, and as on MindSpore. extra: what is restored of the
        training; None: nothing can be."""
        runs: list[tuple[int, int, dict[str, Any]]] = [(0, 1, {}), (0, 1, {"whole_files": True}),
                                                       (0, 1, {"index": IndexOfBranch})]
        runs += [(rank, ranks, {}) for ranks in (2, 5) for rank in range(ranks)]
        for rank, ranks, how in runs:
            with self.subTest(rank=rank, ranks=ranks, **how):
                state = skeleton(weights, states, main)
                if extra is None:
                    with self.assertRaisesRegex(LoadError, "restore_train_state"):
                        resume(root, skeleton(weights), **how)
                got = resume(root, state, rank=rank, ranks=ranks, restore_train_state=extra is not None, **how)
                self.assertEqual(got.get("extra_state"), extra)

                def check(mine: np.ndarray, whole: np.ndarray, name: str) -> None:
                    begin, sizes = uneven_box(whole.shape, rank, ranks)
                    part = whole[tuple(slice(a, a + n) for a, n in zip(begin, sizes))]
                    self.assertEqual((mine.shape, mine.tobytes()), (part.shape, part.astype(F4).tobytes()), name)

                for name, array in weights.items():
                    check(got["model"][name], array, name)
                for name, of in (states or {}).items():
                    for key, array in of.items():
                        check(got["optimizer"]["state"][name][key], array, f"{name}.{key}")
                for name, array in (main or {}).items():
                    check(got["optimizer"]["_mixed_precision_optimizer"]["fp32_from_fp16_params"][name], array, name)

    def assert_read_again(self, root: Path, want: Tensors, *words: str | Path) -> None:
        """By reshardfs, which shows the names of the table."""
        result = run("export", root, self.root / "again", "--views", "merged", "--format", "safetensors", *words)
        self.assertEqual(result.code, 0, result.stderr)
        same(self, read_safetensors(self.root / "again/merged/checkpoint_merged.safetensors")[0], want)
        shutil.rmtree(self.root / "again")


def moments_of(weights: dict[str, np.ndarray], step: int | None = None) -> dict[str, dict[str, np.ndarray]]:
    """As with_states() has them in float32."""
    states = {name: {key: array + F4.type(more) for key, more in MOMENTS.items()}
              for name, array in weights.items()}
    for of in states.values():
        if step is not None:
            of["step"] = np.array(step, F4)
    return states


def trainer_names(weights: Tensors, step: int | None = None) -> Tensors:
    """What the table of moments_of(weights) has."""
    out: Tensors = {f"model.{name}": one for name, one in weights.items()}
    for name, of in moments_of({name: array for name, (_, array) in weights.items()}, step).items():
        out |= {f"optimizer.state.{name}.{key}": ("F32", array) for key, array in of.items()}
    return out
