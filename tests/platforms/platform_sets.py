# SPDX-License-Identifier: Apache-2.0
"""The folder that steps.sh works in."""

from __future__ import annotations

import shutil
from pathlib import Path

from make_checkpoint import Parallel, make_set

HERE = Path(__file__).resolve().parent


def make_sample(folder: Path) -> None:
    """With a checkpoint of four ranks, and the scripts."""
    folder.mkdir(parents=True)
    made = make_set(folder / "set", Parallel.parse("tp=4"), Parallel.parse("tp=2"), seed=3)
    strategy = made.src_strategy.read_bytes()
    made.source.rename(folder / "source")
    (folder / "source/src_strategy.ckpt").write_bytes(strategy)
    for script in ("steps.sh", "python_steps.py"):
        shutil.copy(HERE / script, folder)
