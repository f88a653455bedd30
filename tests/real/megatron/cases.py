# SPDX-License-Identifier: Apache-2.0
"""The cases of Megatron-Core. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from jobs import Form, Job

# Runs with what random ones have by chance.
RUNS: dict[str, dict[str, Any]] = {
    "four ranks": {"tensor": 2, "pipeline": 2},
    "rank files": {"tensor": 2, "pipeline": 2, "format": "torch", "numbered": True},
    "Megatron-Core's own layers with experts": {"family": "qwen3-moe", "engine": False},
    "experts on two ranks": {"family": "mixtral", "data": 2, "expert": 2, "numbered": True},
    "latent attention": {"family": "deepseek-v3", "layers": 3, "numbered": True},
    "tied embeddings and two stages": {"tied": True, "pipeline": 2},
    "states in the model's space": {"type": "bf16", "data": 2, "optimizer": "fully_reshardable"},
    "states in buckets": {"type": "bf16", "data": 2, "tensor": 2, "optimizer": "dp_reshardable", "bucket": 1000},
    "states in buckets of two stages": {"tied": True, "pipeline": 2, "data": 2, "optimizer": "dp_reshardable"},
    "states of experts in buckets": {"family": "qwen3-moe", "type": "bf16", "data": 2, "expert": 2, "tensor": 2,
                                     "optimizer": "dp_reshardable", "bucket": 1000},
}
# GPTModels, the patterns of their HybridModels, and the cuts of these.
HYBRIDS: dict[str, dict[str, Any]] = {
    "hybrid model": {"pattern": "*-|*-", "cut": {"pipeline": 2, "tensor": 2}, "tensor": 2},
    "hybrid model of uneven stages": {"pattern": "*-*|-", "cut": {"pipeline": 2}, "family": "qwen3"},
    "hybrid model with tied embeddings": {"pattern": "*-*-", "cut": {"tensor": 2}, "family": "qwen2", "tied": True},
    "hybrid model with experts": {"pattern": "*E*E", "cut": {"data": 2, "expert": 2}, "family": "qwen3-moe"},
    "hybrid model of latent attention": {"pattern": "+-+E+E", "cut": {}, "family": "deepseek-v3", "layers": 3,
                                         "numbered": True},
}
# Those of variants.py.
VARIANTS = ("gated delta nets", "sparse attention")
# Of a release without Megatron-LM.
CORE_RUNS = ("four ranks", "Megatron-Core's own layers with experts", "experts on two ranks", "latent attention",
             "tied embeddings and two stages")


def jobs(program: str, form: Form) -> Iterator[Job]:
    is_newest = program == "megatron-0.19.2"
    for name in RUNS if is_newest else CORE_RUNS:
        yield Job(name, "judge.fixed_run", {"seed": form.seed, **RUNS[name]})
    rng = random.Random(form.seed)
    for _ in range(form.pairs // 10 if form.short else form.pairs // 5):
        seed = rng.randrange(1 << 30)
        yield Job(f"random run {seed}", "judge.random_run", {"seed": seed, "core_alone": not is_newest})
    if is_newest:
        for name, words in HYBRIDS.items():
            yield Job(name, "judge.hybrid_run", {"seed": form.seed, **words})
        for variant in VARIANTS:
            yield Job(variant, "variants.variant_run", {"variant": variant})
        yield Job("a norm that no other program has", "judge.norm_of_queries")
        yield Job("live model", "live_run.fill", {"tensor": 2, "pipeline": 2, "type": "bf16"})
        yield Job("live model and states", "live_run.fill",
                  {"tensor": 2, "data": 2, "optimizer": "fully_reshardable"})
