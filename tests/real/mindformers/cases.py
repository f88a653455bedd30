# SPDX-License-Identifier: Apache-2.0
"""The cases of MindFormers. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator

from jobs import Form, Job

FAMILIES = ("qwen3", "qwen3_moe", "deepseek_v3", "telechat3", "telechat3_moe")


def jobs(program: str, form: Form) -> Iterator[Job]:
    yield from models(form)
    yield from checkpoint2(form)


def models(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)
    for _ in range(max(1, form.pairs // 8)):
        for family in FAMILIES:
            seed = rng.randrange(1 << 30)
            yield Job(f"{family} {seed}", "models.both_ways", {"family": family, "seed": seed})
    yield Job("telechat3 with tied embeddings", "models.both_ways",
              {"family": "telechat3", "seed": form.seed, "tie_word_embeddings": True},
              known="its network has output_layer.weight, which reshardfs leaves out",
              symptom="has other names: {'output_layer.weight'}")


def checkpoint2(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed + 1)
    for _ in range(max(1, form.pairs // 40)):
        for family in FAMILIES:
            for what in ("one_process", "load_iteration"):
                seed = rng.randrange(1 << 30)
                yield Job(f"Checkpoint 2.0 {what} {family} {seed}", f"checkpoint2.{what}",
                          {"family": family, "seed": seed})
        seed = rng.randrange(1 << 30)
        yield Job(f"Checkpoint 2.0 two_ranks {seed}", "checkpoint2.two_ranks", {"seed": seed})
