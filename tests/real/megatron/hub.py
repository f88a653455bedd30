# SPDX-License-Identifier: Apache-2.0
"""The same networks in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
import truth
from settings import EXPERTS, HIDDEN, VOCABULARY, Settings

CLASSES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "qwen3-moe": "Qwen3Moe", "mixtral": "Mixtral",
           "deepseek-v3": "DeepseekV3"}


def config_of(settings: Settings) -> transformers.PretrainedConfig:
    words: dict[str, Any] = {
        "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 24, "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads, "num_key_value_heads": settings.groups, "head_dim": settings.head,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": settings.tied,
        "dtype": {"fp32": "float32", "bf16": "bfloat16"}[settings.type], "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    if settings.family == "qwen3-moe":
        words.update(moe_intermediate_size=12, num_experts=EXPERTS, num_experts_per_tok=2, norm_topk_prob=True)
    if settings.family == "mixtral":
        words.update(intermediate_size=12, num_local_experts=EXPERTS, num_experts_per_tok=2, sliding_window=None)
    if settings.family == "deepseek-v3":
        del words["head_dim"]
        words.update(moe_intermediate_size=12, n_routed_experts=EXPERTS, n_shared_experts=1, num_experts_per_tok=2,
                     first_k_dense_replace=1, n_group=1, topk_group=1, q_lora_rank=settings.query_rank,
                     kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
                     num_key_value_heads=settings.heads, routed_scaling_factor=2.5, num_nextn_predict_layers=0)
    return getattr(transformers, f"{CLASSES[settings.family]}Config")(**words)


def write_config(folder: Path, settings: Settings) -> None:
    config = config_of(settings)
    config.architectures = [f"{CLASSES[settings.family]}ForCausalLM"]
    config.save_pretrained(folder)


@torch.no_grad()
def compute(folder: Path, output: Path) -> None:
    """Of the whole model in the folder: no tensor may be missing or left over."""
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not loading[key], f"from_pretrained says {key} {loading[key]}"
    torch.save(model.eval()(truth.tokens()).logits, output)
