# SPDX-License-Identifier: Apache-2.0
"""The cases of each release of MindSpore. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from jobs import Form, Job

STRATEGIES = sorted({path.name.split(".")[0]
                     for path in (Path(__file__).resolve().parents[1] / "data/strategies").iterdir()})


def jobs(program: str, form: Form) -> Iterator[Job]:
    version = tuple(map(int, program.rpartition("-")[2].split(".")))
    if version >= (2, 7):
        yield from judge(form)


def judge(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)
    for _ in range(form.pairs):
        seed = rng.randrange(1 << 30)
        yield Job(f"random pair {seed}", "judge.random_pair", {"seed": seed})
    for _ in range(form.pairs):
        source, target, kind = rng.choice(STRATEGIES), rng.choice(STRATEGIES), rng.choice(("ckpt", "safetensors"))
        seed = rng.randrange(1 << 30)
        yield Job(f"{source} to {target} in {kind}", "judge.real_pair",
                  {"source": source, "target": target, "kind": kind, "seed": seed})
