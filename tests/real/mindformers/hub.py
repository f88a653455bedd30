# SPDX-License-Identifier: Apache-2.0
"""Small models as Hugging Face has them: a config.json, and random tensors under its names."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

Config = dict[str, Any]
Tensors = dict[str, np.ndarray]
LATENT = ("deepseek_v3", "telechat3_moe")
ARCHITECTURES = {"qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM", "telechat3": "TeleChat3ForCausalLM",
                 "deepseek_v3": "DeepseekV3ForCausalLM", "telechat3_moe": "TeleChat3MoeForCausalLM",
                 "llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}


@dataclass
class Model:
    family: str
    config: Config
    tensors: Tensors

    def with_aliases(self) -> Tensors:
        return self.tensors | {name: self.tensors[of] for name, of in aliases(self.config).items()}

    def write(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(self.config, indent=2))
        save_file(self.tensors, directory / "model.safetensors", metadata={"format": "pt"})


def random_config(family: str, rng: random.Random) -> Config:
    groups = rng.choice((1, 2, 4))
    config: Config = {
        "architectures": [ARCHITECTURES[family]], "model_type": family, "dtype": "float32", "hidden_act": "silu",
        "vocab_size": 8 * rng.randint(3, 9), "hidden_size": 24 * rng.randint(1, 2),
        "intermediate_size": 8 * rng.randint(2, 6), "num_hidden_layers": rng.randint(1, 3),
        "num_attention_heads": groups * rng.choice((1, 2, 3)), "num_key_value_heads": groups,
        "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "attention_bias": False,
        "tie_word_embeddings": family == "qwen3" and rng.random() < 0.3,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }
    experts = rng.choice((2, 4, 6))
    if family in LATENT:
        config |= {
            "num_key_value_heads": config["num_attention_heads"], "q_lora_rank": rng.choice((None, 8, 12, 20)),
            "kv_lora_rank": 4 * rng.randint(1, 4), "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
            "v_head_dim": rng.choice((4, 6, 8)), "n_routed_experts": experts, "n_shared_experts": rng.randint(1, 2),
            "first_k_dense_replace": rng.randint(0, config["num_hidden_layers"] - 1),
            "num_nextn_predict_layers": rng.randint(0, 1), "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
            "moe_intermediate_size": 8 * rng.randint(1, 3), "routed_scaling_factor": 2.5, "norm_topk_prob": True,
        }
    elif family in ("llama", "qwen2"):
        config["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
    else:
        config["head_dim"] = rng.choice((8, 16))
    if family == "qwen3_moe":
        config |= {"num_experts": experts, "num_experts_per_tok": 2, "moe_intermediate_size": 8 * rng.randint(1, 3),
                   "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
    return config


def layers(config: Config) -> range:
    """With those of multi-token prediction."""
    return range(config["num_hidden_layers"] + config.get("num_nextn_predict_layers", 0))


def experts(config: Config) -> int:
    return int(config.get("n_routed_experts", config.get("num_experts", 0)))


def is_dense(config: Config, layer: int) -> bool:
    return not experts(config) or layer < config.get("first_k_dense_replace", 0)


def attention(config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, heads, groups = (config[name] for name in ("hidden_size", "num_attention_heads", "num_key_value_heads"))
    if "kv_lora_rank" in config:
        nope, rope, values = (config[name] for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        queries, latent = config["q_lora_rank"], config["kv_lora_rank"]
        if queries is None:
            yield "q_proj", (heads * (nope + rope), hidden)
        else:
            yield "q_a_proj", (queries, hidden)
            yield "q_a_layernorm", (queries,)
            yield "q_b_proj", (heads * (nope + rope), queries)
        yield "kv_a_proj_with_mqa", (latent + rope, hidden)
        yield "kv_a_layernorm", (latent,)
        yield "kv_b_proj", (heads * (nope + values), latent)
        yield "o_proj", (hidden, heads * values)
        return
    size = config["head_dim"]
    yield "q_proj", (heads * size, hidden)
    yield "k_proj", (groups * size, hidden)
    yield "v_proj", (groups * size, hidden)
    yield "o_proj", (hidden, heads * size)
    if config["model_type"].startswith("qwen3"):
        yield "q_norm", (size,)
        yield "k_norm", (size,)


def gated(start: str, inner: int, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{start}.gate_proj.weight", (inner, hidden)
    yield f"{start}.up_proj.weight", (inner, hidden)
    yield f"{start}.down_proj.weight", (hidden, inner)


def mlp(config: Config, layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden = config["hidden_size"]
    if is_dense(config, layer):
        yield from gated("mlp", config["intermediate_size"], hidden)
        return
    yield "mlp.gate.weight", (experts(config), hidden)
    for expert in range(experts(config)):
        yield from gated(f"mlp.experts.{expert}", config["moe_intermediate_size"], hidden)
    if "n_shared_experts" in config:
        yield "mlp.gate.e_score_correction_bias", (experts(config),)
        inner = config["n_shared_experts"] * config["moe_intermediate_size"]
        yield from gated("mlp.shared_experts", inner, hidden)


def shapes(config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (vocabulary, hidden)
    for layer in layers(config):
        start = f"model.layers.{layer}"
        yield f"{start}.input_layernorm.weight", (hidden,)
        yield f"{start}.post_attention_layernorm.weight", (hidden,)
        for name, shape in attention(config):
            yield f"{start}.self_attn.{name}.weight", shape
        if config["model_type"] == "qwen2":
            for name, shape in list(attention(config))[:3]:
                yield f"{start}.self_attn.{name}.bias", shape[:1]
        for name, shape in mlp(config, layer):
            yield f"{start}.{name}", shape
        if layer >= config["num_hidden_layers"]:
            yield f"{start}.enorm.weight", (hidden,)
            yield f"{start}.hnorm.weight", (hidden,)
            yield f"{start}.eh_proj.weight", (hidden, 2 * hidden)
            yield f"{start}.shared_head.norm.weight", (hidden,)


def aliases(config: Config) -> dict[str, str]:
    """Second names that files may have: what they name is one tensor."""
    found = {"lm_head.weight": "model.embed_tokens.weight"} if config["tie_word_embeddings"] else {}
    for layer in layers(config)[config["num_hidden_layers"]:]:
        found[f"model.layers.{layer}.embed_tokens.weight"] = "model.embed_tokens.weight"
        head = found.get("lm_head.weight", "lm_head.weight")
        found[f"model.layers.{layer}.shared_head.head.weight"] = head
    return found


def random_model(family: str, seed: int, **more: object) -> Model:
    rng = random.Random(seed)
    config = random_config(family, rng) | more
    values = np.random.default_rng(seed)
    tensors = {name: values.standard_normal(shape).astype("f4") for name, shape in shapes(config)}
    if rng.random() < 0.5:
        tensors |= {name: tensors[of] for name, of in aliases(config).items()}
    return Model(family, config, tensors)
