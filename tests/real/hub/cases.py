# SPDX-License-Identifier: Apache-2.0
"""The cases of transformers, accelerate and verl. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator

from jobs import Form, Job


def jobs(program: str, form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)
    for name in ("verl", "accelerate", "whole_model"):
        for _ in range(max(2, form.pairs // 20)):
            seed = rng.randrange(1 << 30)
            yield Job(f"{name} {seed}", f"judge.{name}", {"seed": seed})
