# SPDX-License-Identifier: Apache-2.0
"""The cases of MindFormers. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator

from jobs import Form, Job

FAMILIES = ("qwen3", "qwen3_moe", "deepseek_v3", "telechat3", "telechat3_moe")
PYNATIVE = ("qwen3", "deepseek_v3")
# What a YAML can state and PyNative networks do not obey, and what then fails.
CONTRARY = (("qwen3", "interleaved", "mlp.linear_fc1.weight has other bytes"),
            ("qwen3", "contiguous", "self_attention.linear_qkv.weight has other bytes"),
            ("deepseek_v3", "joined", "linear_kv_down_proj.weight"))


def jobs(program: str, form: Form) -> Iterator[Job]:
    yield from models(form)
    yield from checkpoint2(form)


def models(form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)
    for _ in range(max(1, form.pairs // 8)):
        for family in FAMILIES:
            seed = rng.randrange(1 << 30)
            yield Job(f"{family} {seed}", "models.both_ways", {"family": family, "seed": seed})
            if family in PYNATIVE:
                yield Job(f"PyNative {family} {seed}", "models.both_ways",
                          {"family": family, "seed": seed, "mode": 1})
    for family, setting, symptom in CONTRARY:
        yield Job(f"PyNative {family} with another {setting} in the YAML", "models.both_ways",
                  {"family": family, "seed": form.seed, "mode": 1, "contrary": setting, "num_hidden_layers": 2,
                   **({"first_k_dense_replace": 1} if family == "deepseek_v3" else {"num_key_value_heads": 2,
                                                                                 "num_attention_heads": 4})},
                  known="PyNative networks ignore the setting, and reshardfs does not", symptom=symptom)
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
