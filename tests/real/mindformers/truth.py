# SPDX-License-Identifier: Apache-2.0
"""What the parameters of a network of MindFormers are, of a model of Hugging Face: without MindFormers' converters
and without reshardfs."""

from __future__ import annotations

from dataclasses import dataclass

import hub
import numpy as np
from hub import Model, Tensors

SPLIT = {"q_proj": "linear_q_proj", "q_a_proj": "linear_q_down_proj", "q_b_proj": "linear_q_up_proj",
         "q_a_layernorm": "q_layernorm", "kv_a_proj_with_mqa": "linear_kv_down_proj",
         "kv_b_proj": "linear_kv_up_proj", "kv_a_layernorm": "kv_layernorm", "o_proj": "linear_proj"}
JOINED = {"q_b_proj": "linear_qb", "q_a_layernorm": "q_layernorm", "kv_b_proj": "linear_kvb",
          "kv_a_layernorm": "k_layernorm", "o_proj": "linear_proj"}
GROUPED = {"o_proj": "linear_proj", "q_norm": "q_layernorm", "k_norm": "k_layernorm"}


@dataclass(frozen=True)
class Settings:
    """Of a training, which no shape shows."""

    interleaved: bool = True
    contiguous: bool = False
    joined: bool = True
    pynative: bool = False  # context.mode: 1, where experts have a dimension of their own


def parameters(model: Model, settings: Settings) -> Tensors:
    config, tensors = model.config, model.tensors
    found = {"embedding.word_embeddings.weight": tensors["model.embed_tokens.weight"],
             "decoder.final_layernorm.weight": tensors["model.norm.weight"]}
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    if not shares_head(model):
        found["output_layer.weight"] = tensors[head]
    for layer in hub.layers(config):
        start = f"model.layers.{layer}."
        inside = {name[len(start):]: tensor for name, tensor in tensors.items() if name.startswith(start)}
        number = layer - config["num_hidden_layers"]
        if number >= 0:
            for name in ("enorm", "hnorm", "eh_proj"):
                found[f"mtp.layers.{number}.{name}.weight"] = inside[f"{name}.weight"]
            found[f"mtp.layers.{number}.final_layernorm.weight"] = inside["shared_head.norm.weight"]
        target = f"decoder.layers.{layer}." if number < 0 else f"mtp.layers.{number}.transformer_layer."
        found[f"{target}input_layernorm.weight"] = inside["input_layernorm.weight"]
        found[f"{target}pre_mlp_layernorm.weight"] = inside["post_attention_layernorm.weight"]
        inner = attention(model, settings, inside)
        found |= {f"{target}self_attention.{name}.weight": tensor for name, tensor in inner.items()}
        found |= {f"{target}mlp.{name}": tensor for name, tensor in mlp(model, settings, inside).items()}
    return {name: np.ascontiguousarray(tensor) for name, tensor in found.items()}


def shares_head(model: Model) -> bool:
    """Only these networks obey tie_word_embeddings; others have a head beside the embedding."""
    return model.family.startswith("qwen3") and bool(model.config["tie_word_embeddings"])


def attention(model: Model, settings: Settings, inside: Tensors) -> Tensors:
    matrices = {name.split(".")[1]: tensor for name, tensor in inside.items() if name.startswith("self_attn.")}
    if model.family in hub.LATENT:
        if not settings.joined:
            return {SPLIT[name]: tensor for name, tensor in matrices.items()}
        queries = matrices.pop("q_a_proj" if "q_a_proj" in matrices else "q_proj")
        both = np.concatenate([queries, matrices.pop("kv_a_proj_with_mqa")])
        return {"linear_qkv": both, **{JOINED[name]: tensor for name, tensor in matrices.items()}}
    parts = [matrices.pop(f"{name}_proj") for name in "qkv"]
    both = np.concatenate(parts) if settings.contiguous else by_groups(model, parts)
    return {"linear_qkv": both, **{GROUPED[name]: tensor for name, tensor in matrices.items()}}


def by_groups(model: Model, parts: list[np.ndarray]) -> np.ndarray:
    """Queries, keys and values of a group beside each other."""
    groups = model.config["num_key_value_heads"]
    cut = [np.split(tensor, groups) for tensor in parts]
    return np.concatenate([tensor[group] for group in range(groups) for tensor in cut])


def gate_and_up(settings: Settings, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    if not settings.interleaved:
        return np.concatenate([gate, up])
    return np.stack([gate, up], 1).reshape(-1, gate.shape[1])


def mlp(model: Model, settings: Settings, inside: Tensors) -> Tensors:
    found = {}
    for here, there in (("mlp.", ""), ("mlp.shared_experts.", "shared_experts.")):
        if f"{here}gate_proj.weight" in inside:
            found[f"{there}linear_fc1.weight"] = gate_and_up(
                settings, inside[f"{here}gate_proj.weight"], inside[f"{here}up_proj.weight"])
            found[f"{there}linear_fc2.weight"] = inside[f"{here}down_proj.weight"]
    if "mlp.gate.weight" not in inside:
        return found
    found["router.weight"] = inside["mlp.gate.weight"]
    if "mlp.gate.e_score_correction_bias" in inside:
        place = "expert_bias" if settings.pynative else "router.expert_bias"
        found[place] = inside["mlp.gate.e_score_correction_bias"]
    experts = range(hub.experts(model.config))
    gate, up, down = (np.stack([inside[f"mlp.experts.{expert}.{name}_proj.weight"].T for expert in experts])
                      for name in ("gate", "up", "down"))
    for name, tensor in (("weight1", np.concatenate([gate, up], 2)), ("weight2", down)):
        found[f"experts.{name}"] = tensor if settings.pynative else tensor.reshape(-1, tensor.shape[2])
    return found
