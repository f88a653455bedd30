# SPDX-License-Identifier: Apache-2.0
"""The cases of MindFormers. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from jobs import Form, Job

FAMILIES = ("qwen3", "qwen3_moe", "deepseek_v3", "telechat3", "telechat3_moe")
PYNATIVE = ("qwen3", "deepseek_v3")
# What a YAML file can state and PyNative networks do not obey, a config.json with which this is seen, and what
# then fails.
CONTRARY = (("qwen3", "interleaved", {}), ("deepseek_v3", "joined", {}),
            ("qwen3", "contiguous", {"num_attention_heads": 4, "num_key_value_heads": 2}))


def jobs(program: str, form: Form) -> Iterator[Job]:
    yield from models(form)
    yield from tied(form)
    yield from pynative(form)
    yield from checkpoint2(form)


def models(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)

    def job(name: str, function: str, **arguments: Any) -> Job:
        seed = rng.randrange(1 << 30)
        return Job(f"{name} {seed}", function, {"seed": seed, **arguments})

    yield job("unstated settings of chatglm", "glm.unstated")
    for family in FAMILIES:
        yield job(f"unstated settings of {family}", "models.unstated", family=family)
    for _ in range(max(1, form.pairs // 16)):
        for family in FAMILIES:
            yield job(family, "models.both_ways", family=family)
        for family in PYNATIVE:
            yield job(f"PyNative {family}", "models.both_ways", family=family, mode=1)
        yield job("PyNative deepseek_v4", "deepseek_v4.both_ways", constants=False)
        for family in ("llama", "qwen2"):
            for joined in (False, True):
                yield job(f"legacy {family}{' with qkv_concat' if joined else ''}", "legacy.both_ways", family=family,
                          joined=joined)
        for family in ("chatglm", "glm", "glm4"):
            for _ in range(2):
                yield job(f"legacy {family}", "glm.both_ways", family=family)


def tied(form: Form) -> Iterator[Job]:
    """Networks that have a head of their own although config.json says otherwise."""
    for family in ("telechat3", "deepseek_v3", "telechat3_moe"):
        yield Job(f"{family} with tied embeddings", "models.both_ways",
                  {"family": family, "seed": form.seed, "tie_word_embeddings": True})


def pynative(form: Form) -> Iterator[Job]:
    """What its networks make of constants and of settings that they do not obey."""
    yield Job("PyNative deepseek_v4 with its constants", "deepseek_v4.both_ways", {"seed": form.seed, "constants": True})
    for family, setting, config in CONTRARY:
        yield Job(f"PyNative {family} with another {setting} in its YAML file", "models.both_ways",
                  {"family": family, "seed": form.seed, "mode": 1, "contrary": setting, **config})


def checkpoint2(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed + 1)
    for _ in range(max(1, form.pairs // 40)):
        for what in ("one_process", "load_iteration"):
            for mode, families in ((0, FAMILIES), (1, PYNATIVE)):
                for family in families:
                    seed = rng.randrange(1 << 30)
                    name = f"Checkpoint 2.0 {what} {'PyNative ' if mode else ''}{family} {seed}"
                    yield Job(name, f"checkpoint2.{what}", {"family": family, "seed": seed, "mode": mode})
        seed = rng.randrange(1 << 30)
        yield Job(f"Checkpoint 2.0 two_ranks {seed}", "checkpoint2.two_ranks", {"seed": seed})
    yield Job("the types that it trains", "trained.types")
    yield Job("the guide, command by command", "guide.played", {"seed": form.seed})
