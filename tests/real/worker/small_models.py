# SPDX-License-Identifier: Apache-2.0
"""Networks of transformers that are small."""

from __future__ import annotations

from typing import Any

import transformers

CLASSES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "qwen3-moe": "Qwen3Moe", "mixtral": "Mixtral",
           "deepseek-v3": "DeepseekV3"}
EXPERTS = 4


def config_of(family: str, **words: Any) -> transformers.PretrainedConfig:
    """`words` beside what all have."""
    common: dict[str, Any] = {
        "vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "head_dim": 8,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    if family == "qwen3-moe":
        common.update(moe_intermediate_size=12, num_experts=EXPERTS, num_experts_per_tok=2, norm_topk_prob=True)
    if family == "mixtral":
        common.update(intermediate_size=12, num_local_experts=EXPERTS, num_experts_per_tok=2, sliding_window=None)
    if family == "deepseek-v3":
        del common["head_dim"]
        common.update(moe_intermediate_size=12, n_routed_experts=EXPERTS, n_shared_experts=1, num_experts_per_tok=2,
                      first_k_dense_replace=1, n_group=1, topk_group=1, kv_lora_rank=8, qk_nope_head_dim=8,
                      qk_rope_head_dim=4, v_head_dim=8, routed_scaling_factor=2.5, num_nextn_predict_layers=0)
    config = getattr(transformers, f"{CLASSES[family]}Config")(**{**common, **words})
    config.architectures = [f"{CLASSES[family]}ForCausalLM"]
    return config
