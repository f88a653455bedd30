# SPDX-License-Identifier: Apache-2.0
"""A small random model of each family that the installed maps know, made and loaded by transformers.

Needs torch and transformers, so that no test of the suite runs it; see round_trip.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, DeepseekV3Config, Gemma3TextConfig, Glm4MoeConfig,
                          GptOssConfig, LlamaConfig, MiniMaxM2Config, MistralConfig, MixtralConfig,
                          PretrainedConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig)

SIZES = {"vocab_size": 160, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
TOKENS = torch.arange(24).reshape(2, 12)


def configs() -> dict[str, PretrainedConfig]:
    return {
        "llama": LlamaConfig(**SIZES, head_dim=16, tie_word_embeddings=False),
        "llama_tied": LlamaConfig(**SIZES, head_dim=16, tie_word_embeddings=True),
        "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=False),
        "mistral": MistralConfig(**SIZES, head_dim=16),
        "mixtral": MixtralConfig(**SIZES, num_local_experts=4),
        "qwen3": Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=False, dtype="bfloat16"),
        "qwen3_moe": Qwen3MoeConfig(**SIZES, head_dim=16, moe_intermediate_size=32, num_experts=4,
                                    num_experts_per_tok=2, decoder_sparse_step=1,
                                    mlp_only_layers=[]),
        "deepseek_v3": DeepseekV3Config(
            **SIZES | {"num_key_value_heads": 4}, moe_intermediate_size=32, n_routed_experts=8,
            n_group=2, topk_group=1, num_experts_per_tok=2, n_shared_experts=1,
            first_k_dense_replace=1, q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8,
            qk_nope_head_dim=16, v_head_dim=16),
        "glm4_moe": Glm4MoeConfig(
            **SIZES, head_dim=16, moe_intermediate_size=32, n_routed_experts=8, n_group=2, topk_group=1,
            num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, attention_bias=True,
            use_qk_norm=True),
        "minimax_m2": MiniMaxM2Config(**SIZES, head_dim=16, num_local_experts=4, num_experts_per_tok=2),
        "gpt_oss": GptOssConfig(**SIZES, head_dim=16, num_local_experts=4, num_experts_per_tok=2,
                                sliding_window=8, dtype="bfloat16"),
        "gemma3": Gemma3TextConfig(**SIZES, head_dim=16, sliding_window=8),
    }


def make(directory: Path) -> None:
    """Saves each model as the hub has it, and what it holds and answers beside it."""
    torch.manual_seed(7)
    for name, config in configs().items():
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                if tensor.is_floating_point():
                    tensor.copy_(torch.randn_like(tensor) * 0.05)
        model.save_pretrained(directory / name, max_shard_size="200KB")
        # Loaded again: buffers that are not saved are the configuration's, and sums in bfloat16
        # depend on where tensors lie in memory.
        model = AutoModelForCausalLM.from_pretrained(directory / name, dtype="auto").eval()
        torch.save((dict(model.state_dict()), model(TOKENS).logits), directory / f"{name}.pt")
        # As a training saves it that has the model in memory: experts are packed.
        packed = directory / f"{name}_in_memory"
        packed.mkdir()
        save_file({key: tensor.contiguous() for key, tensor in model.state_dict().items()
                   if not (key == "lm_head.weight" and model.config.tie_word_embeddings)},
                  packed / "model.safetensors")


def check(expected: Path, shown: Path) -> None:
    """Loads a directory as users do, and compares each tensor and what the model answers."""
    tensors, logits = torch.load(expected)
    model, info = AutoModelForCausalLM.from_pretrained(shown, dtype="auto",
                                                       output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[kind], f"{kind}: {info[kind]}"
    found = model.state_dict()
    assert set(found) == set(tensors), set(found) ^ set(tensors)
    for name, want in tensors.items():
        assert found[name].dtype == want.dtype, name
        assert torch.equal(found[name], want), name
    assert torch.equal(model.eval()(TOKENS).logits, logits), "other logits"
    print(len(tensors), "tensors equal, logits equal")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        check(Path(sys.argv[2]), Path(sys.argv[3]))
