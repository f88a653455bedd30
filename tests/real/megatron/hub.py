# SPDX-License-Identifier: Apache-2.0
"""The same networks in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import small_models
import torch
import transformers
import truth
from settings import Settings


def write_config(folder: Path, settings: Settings) -> None:
    words: dict[str, Any] = {
        "num_hidden_layers": settings.layers, "num_key_value_heads": settings.groups,
        "tie_word_embeddings": settings.tied, "dtype": {"fp32": "float32", "bf16": "bfloat16"}[settings.type]}
    if settings.family == "deepseek-v3":
        words.update(q_lora_rank=settings.query_rank, num_key_value_heads=settings.heads)
    small_models.config_of(settings.family, **words).save_pretrained(folder)


@torch.no_grad()
def compute(folder: Path, output: Path) -> None:
    """By the whole model in the folder: no tensor may be missing or left over."""
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not loading[key], f"from_pretrained says {key} {loading[key]}"
    torch.save(model.eval()(truth.tokens()).logits, output)
