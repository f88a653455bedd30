# SPDX-License-Identifier: Apache-2.0
"""Small models of transformers in the forms of vLLM, of Megatron's ranks, Meta, torchtitan and MindFormers' legacy
networks, and back: what these have is written down here by heads and rows, without a map."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import core_names
import torch
from core_names import Tensors
from judge import Counts, exported, require_same
from product import Refused, reshardfs
from safetensors.torch import load_file
from through_maps import config_of, model_of

PADDED = 64


def padded(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor, tensor.new_zeros(PADDED - len(tensor), tensor.shape[1])])


def join_queries_keys_values(out: Tensors, config: Any, begin: str, to: str) -> None:
    """Of a layer, by groups of heads."""
    for kind in ("weight", "bias"):
        if f"{begin}self_attn.q_proj.{kind}" in out:
            q, k, v = (out.pop(f"{begin}self_attn.{name}_proj.{kind}") for name in "qkv")
            out[f"{begin}{to}.{kind}"] = core_names.by_groups(config, q, k, v)


def by_ranks(ranks: int, parts: list[torch.Tensor], copies: tuple[int, ...]) -> torch.Tensor:
    """Each rank's rows of each part, of which several ranks may have the same."""
    rows = [[list(part.chunk(ranks // copy))[rank // copy] for part, copy in zip(parts, copies, strict=True)]
            for rank in range(ranks)]
    return torch.cat([part for rank in rows for part in rank])


def gate_and_up(hf: Tensors, begin: str, ranks: int) -> torch.Tensor:
    return by_ranks(ranks, [hf.pop(f"{begin}mlp.{name}_proj.weight") for name in ("gate", "up")], (1, 1))


def layers(config: Any) -> list[str]:
    return [f"model.layers.{number}." for number in range(config.num_hidden_layers)]


def vllm(config: Any, hf: Tensors, ranks: int) -> Tensors:
    """A rank has a copy of the key head of its query heads."""
    out = dict(hf)
    copies = max(1, ranks // config.num_key_value_heads)
    for begin in layers(config):
        for kind in ("weight", "bias"):
            if f"{begin}self_attn.q_proj.{kind}" in out:
                parts = [out.pop(f"{begin}self_attn.{name}_proj.{kind}") for name in "qkv"]
                out[f"{begin}self_attn.qkv_proj.{kind}"] = by_ranks(ranks, parts, (1, copies, copies))
        out[f"{begin}mlp.gate_up_proj.weight"] = gate_and_up(out, begin, ranks)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        out[name] = padded(out[name])
    return out


CORE = {"model.embed_tokens.": "embedding.word_embeddings.", "lm_head.": "output_layer.", "model.norm.": "decoder.final_layernorm.",
        "model.layers.": "decoder.layers.", "post_attention_layernorm.": "pre_mlp_layernorm.", "self_attn.o_proj.": "self_attention.linear_proj.",
        "self_attn.q_norm.": "self_attention.q_layernorm.", "self_attn.k_norm.": "self_attention.k_layernorm.",
        "mlp.down_proj.": "mlp.linear_fc2."}


def core_ranks(config: Any, hf: Tensors, ranks: int) -> Tensors:
    """With the names of Megatron-Core's own layers."""
    out = dict(hf)
    for begin in layers(config):
        join_queries_keys_values(out, config, begin, "self_attention.linear_qkv")
        out[f"{begin}mlp.linear_fc1.weight"] = gate_and_up(out, begin, ranks)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        out[name] = padded(out[name])
    return core_names.renamed(out, CORE)


META = {"model.embed_tokens.": "tok_embeddings.", "model.norm.": "norm.", "model.layers.": "layers.", "lm_head.": "output.",
        "input_layernorm.": "attention_norm.", "post_attention_layernorm.": "ffn_norm.", "self_attn.o_proj.": "attention.wo.",
        "self_attn.q_proj.": "attention.wq.", "self_attn.k_proj.": "attention.wk.", "self_attn.v_proj.": "attention.wv.",
        "mlp.gate_proj.": "feed_forward.w1.", "mlp.down_proj.": "feed_forward.w2.", "mlp.up_proj.": "feed_forward.w3."}
TITAN = {**META, "lm_head.": "lm_head.", **{f"self_attn.{name}_proj.": f"attention.qkv_linear.w{name}." for name in "qkv"},
         "self_attn.q_norm.": "attention.q_norm.", "self_attn.k_norm.": "attention.k_norm."}


def in_pairs(config: Any, hf: Tensors) -> Tensors:
    """Rows of queries and keys: what is half a head apart becomes neighbours."""
    half = config.head_dim // 2
    order = [start + part * half for start in range(half) for part in range(2)]
    out = dict(hf)
    for name, tensor in hf.items():
        if re.search(r"\.[qk]_proj\.", name):
            out[name] = torch.cat([head[order] for head in tensor.split(config.head_dim)])
    return out


def meta(config: Any, hf: Tensors, ranks: int) -> Tensors:
    return core_names.renamed(in_pairs(config, hf), META)


def titan(config: Any, hf: Tensors, ranks: int) -> Tensors:
    return core_names.renamed(hf if config.model_type.startswith("qwen3") else in_pairs(config, hf), TITAN)


LEGACY = {"model.embed_tokens.weight": "model.tok_embeddings.embedding_weight", "model.norm.": "model.norm_out.",
          "input_layernorm.": "attention_norm.", "post_attention_layernorm.": "ffn_norm.",
          **{f"self_attn.{name}_proj.": f"attention.w{name}." for name in "qkvo"}, "mlp.gate_proj.": "feed_forward.w1.",
          "mlp.down_proj.": "feed_forward.w2.", "mlp.up_proj.": "feed_forward.w3."}


def legacy(config: Any, hf: Tensors, ranks: int) -> Tensors:
    return core_names.renamed(hf, LEGACY)


def legacy_joined(config: Any, hf: Tensors, ranks: int) -> Tensors:
    """Rows of gate and up in turn."""
    out = dict(hf)
    for begin in layers(config):
        join_queries_keys_values(out, config, begin, "attention.w_qkv")
        gate, up = (out.pop(f"{begin}mlp.{name}_proj.weight") for name in ("gate", "up"))
        out[f"{begin}feed_forward.w_gate_hidden.weight"] = torch.stack([gate, up], 1).flatten(0, 1)
    return core_names.renamed(out, LEGACY)


def legacy_experts(config: Any, hf: Tensors, ranks: int, transposed: bool = False) -> Tensors:
    out = {name: tensor for name, tensor in hf.items() if ".block_sparse_moe." not in name}
    for begin, layer in zip(layers(config), core_names.layers_of(hf, "model."), strict=True):
        out[f"{begin}feed_forward.router.dense.weight"] = layer["block_sparse_moe.gate.weight"]
        for name in ("w1", "w2", "w3"):
            joined = core_names.experts(layer, "block_sparse_moe.experts.", name)
            out[f"{begin}feed_forward.ffn.{name}.weight"] = joined.transpose(1, 2).contiguous() if transposed else joined
    return core_names.renamed(out, LEGACY)


def legacy_transposed(config: Any, hf: Tensors, ranks: int) -> Tensors:
    return legacy_experts(config, hf, ranks, transposed=True)


# By the map.
FORMS: dict[str, Callable[[Any, Tensors, int], Tensors]] = {
    "megatron-ranks-llama": core_ranks, "vllm-llama": vllm, "vllm-llama-no-scales": vllm, "meta-llama": meta,
    "torchtitan-llama": titan, "torchtitan-qwen3": titan, "mindformers-llama": legacy,
    "mindformers-llama-qkv-concat": legacy_joined, "mindformers-mixtral": legacy_experts, "mindformers-mixtral-gmm": legacy_transposed}
SIZES = ("tp=1", "tp=2", "tp=4", "tp=2,pp=2")


def both_ways(directory: Path, name: str, family: str, seed: int) -> Counts:
    """Through the map, and back; and cut for ranks, and joined again."""
    config = config_of(family, random.Random(seed))
    hub = directory / "hub"
    model_of(config, seed).save_pretrained(hub)
    saved = load_file(hub / "model.safetensors")
    words = ("--map", name, *(("--map-var", f"padded_vocab={PADDED}") if name == "megatron-ranks-llama" else ()))
    counts = {"cut and joined": 0, "refused for heads": 0}
    # Ranks of Megatron-LM count the layers of their stage, which names of whole models do not.
    for sizes in SIZES[:3] if FORMS[name] is core_ranks else SIZES:
        (directory / "shown.safetensors").unlink(missing_ok=True)
        ranks = int(sizes[3])
        expected = FORMS[name](config, saved, ranks)
        own = ("--map-var", f"tp={ranks}") if FORMS[name] in (vllm, core_ranks) else ()
        said = f"{name} of {family}, {sizes}"
        parts, whole = directory / f"parts {sizes}", directory / f"whole {sizes}"
        try:
            require_same(exported(hub, directory, *words, *own), expected, said)
            reshardfs("export", hub, parts, *words, "--dst-strategy", sizes, "--views", "ranks",
                      *(("--stage-layers", f"{config.num_hidden_layers - 1},1") if "pp" in sizes else ()))
        except Refused as error:
            assert re.search("cannot share|cannot be shared out|fewer key heads than ranks", str(error)), error
            counts["refused for heads"] += 1
            continue
        (directory / "shown.safetensors").rename(directory / "theirs.safetensors")
        back = (*words, *own, "--model-config", hub)
        require_same(exported(directory / "theirs.safetensors", directory, *back), saved, f"{said}, back")
        (directory / "theirs.safetensors").unlink()
        reshardfs("export", parts, whole, "--src-strategy", parts / ".reshardfs-export.jsonl", "--views", "ranks")
        found = {key: tensor for path in whole.glob("rank_0/*.safetensors") for key, tensor in load_file(path).items()}
        require_same(found, expected, f"{said}, joined")
        counts["cut and joined"] += 1
    assert counts["cut and joined"] > 0
    return {f"transformers: in the form of {name.split('-')[0]}, {what}": count for what, count in counts.items()}
