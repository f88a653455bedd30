# SPDX-License-Identifier: Apache-2.0
"""Makes the cases tests/goldenmap/megatron_*, meta_llama*, telechat2_legacy* and packed_experts*: small models as
the hub has them, as Megatron-Core saves them in torch_dist checkpoints, as Meta released Llama, as MindFormers
trains TeleChat2, and as transformers 5 has them in memory, both ways.

The reference for these maps: written from what Megatron-Bridge, Megatron-Core, Meta, MindFormers and
transformers do, element by element, and not from the maps. Run it to write the cases anew; --check compares
them with those that are there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from format_files import read_safetensors, write_safetensors  # noqa: E402

TARGET = Path(__file__).resolve().parents[1] / "goldenmap"
BITS = {"BF16": "<u2", "F32": "<u4"}
BRIDGE = "NVIDIA-NeMo/Megatron-Bridge (August 2026)"
CORE = "NVIDIA/Megatron-LM (August 2026)"

Array = np.ndarray[Any, Any]
Tensors = dict[str, tuple[str, Array]]  # name to safetensors type and bits
HIDDEN, VOCAB, LAYERS = 8, 21, 2
WORDS = ("gate_proj", "up_proj", "down_proj")


class Hub:
    """The tensors of a model. No two elements of one type are equal."""

    def __init__(self) -> None:
        self.tensors: Tensors = {}
        self._next = {"BF16": 1, "F32": 0x3f800000}

    def add(self, name: str, *shape: int, dtype: str = "BF16") -> Array:
        count = int(np.prod(shape))
        first = self._next[dtype]
        self._next[dtype] += count
        assert dtype != "BF16" or self._next[dtype] < 0x7f80  # infinite from here on
        array = np.arange(first, first + count, dtype=BITS[dtype]).reshape(shape)
        self.tensors[name] = (dtype, array)
        return array


@dataclass
class Family:
    """One model, in both forms."""

    name: str
    map: str
    title: str
    original: str
    config: dict[str, Any]
    hub: Hub = field(default_factory=Hub)
    core: Tensors = field(default_factory=dict)
    variables: dict[str, int] = field(default_factory=lambda: {"vocab_multiple": 8})

    def put(self, name: str, array: Array, dtype: str = "BF16") -> None:
        """A tensor that Megatron has as a whole."""
        assert name not in self.core, name
        self.core[name] = (dtype, array)

    def put_layer(self, layer: int, rest: str, array: Array, dtype: str = "BF16") -> None:
        """Where all layers are of one form, they are the first axis of one tensor."""
        name = f"decoder.layers.{rest}"
        if name not in self.core:
            layers = int(self.config["num_hidden_layers"])
            self.core[name] = (dtype, np.zeros((layers, *array.shape), BITS[dtype]))
        self.core[name][1][layer] = array

    def put_numbered(self, layer: int, rest: str, array: Array, dtype: str = "BF16") -> None:
        self.put(f"decoder.layers.{layer}.{rest}", array, dtype)


Put = Callable[..., None]


def padded(array: Array, rows: int) -> Array:
    out = np.zeros((rows, *array.shape[1:]), array.dtype)
    for row in range(array.shape[0]):
        out[row] = array[row]
    return out


def grouped(query: Array, key: Array, value: Array, heads: int, groups: int) -> Array:
    """linear_qkv: for each group of heads the rows of its queries, its key, its value."""
    dim = query.shape[0] // heads
    rows: list[Array] = []
    for group in range(groups):
        for head in range(group * heads // groups, (group + 1) * heads // groups):
            rows += [query[head * dim + i] for i in range(dim)]
        rows += [key[group * dim + i] for i in range(dim)]
        rows += [value[group * dim + i] for i in range(dim)]
    return np.array(rows, query.dtype)


def above(gate: Array, up: Array) -> Array:
    """linear_fc1 as saved: all rows of gate, then all of up, for any number of ranks."""
    return np.array([*gate, *up], gate.dtype)


def stacked(parts: Iterator[Array]) -> Array:
    """The experts, as an axis in front."""
    return np.array(list(parts))


def ends(family: Family, head: bool = True) -> None:
    """What is outside of the layers."""
    hub, config = family.hub, family.config
    rows = -(-VOCAB // 8) * 8
    embedding = hub.add("model.embed_tokens.weight", VOCAB, HIDDEN)
    family.put("embedding.word_embeddings.weight", padded(embedding, rows))
    family.put("decoder.final_layernorm.weight", hub.add("model.norm.weight", HIDDEN))
    if head:
        assert not config["tie_word_embeddings"]
        family.put("output_layer.weight", padded(hub.add("lm_head.weight", VOCAB, HIDDEN), rows))


def attention(family: Family, put: Put, layer: int, at: str, *, bias: bool = False, output_bias: bool = False,
              norms: str = "") -> None:
    """norms: "head" for one norm of all heads, "full" for one as long as all heads together."""
    hub, config = family.hub, family.config
    heads, groups, dim = (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"])
    query = hub.add(f"{at}.self_attn.q_proj.weight", heads * dim, HIDDEN)
    key = hub.add(f"{at}.self_attn.k_proj.weight", groups * dim, HIDDEN)
    value = hub.add(f"{at}.self_attn.v_proj.weight", groups * dim, HIDDEN)
    put(layer, "self_attention.linear_qkv.weight", grouped(query, key, value, heads, groups))
    put(layer, "self_attention.linear_proj.weight",
        hub.add(f"{at}.self_attn.o_proj.weight", HIDDEN, heads * dim))
    if bias:
        query = hub.add(f"{at}.self_attn.q_proj.bias", heads * dim)
        key = hub.add(f"{at}.self_attn.k_proj.bias", groups * dim)
        value = hub.add(f"{at}.self_attn.v_proj.bias", groups * dim)
        put(layer, "self_attention.linear_qkv.bias", grouped(query, key, value, heads, groups))
    if output_bias:
        put(layer, "self_attention.linear_proj.bias", hub.add(f"{at}.self_attn.o_proj.bias", HIDDEN))
    for word, count in (("q", heads), ("k", groups)):
        if norms:
            length = dim if norms == "head" else count * dim
            put(layer, f"self_attention.{word}_layernorm.weight",
                hub.add(f"{at}.self_attn.{word}_norm.weight", length))


def two_norms(family: Family, put: Put, layer: int, at: str, *, experts: bool) -> None:
    """Transformer Engine fuses a norm with the linear layer behind it; a router is none."""
    put(layer, "self_attention.linear_qkv.layer_norm_weight",
        family.hub.add(f"{at}.input_layernorm.weight", HIDDEN))
    put(layer, "pre_mlp_layernorm.weight" if experts else "mlp.linear_fc1.layer_norm_weight",
        family.hub.add(f"{at}.post_attention_layernorm.weight", HIDDEN))


def dense(family: Family, put: Put, layer: int, at: str) -> None:
    ffn = family.config["intermediate_size"]
    gate = family.hub.add(f"{at}.mlp.gate_proj.weight", ffn, HIDDEN)
    up = family.hub.add(f"{at}.mlp.up_proj.weight", ffn, HIDDEN)
    put(layer, "mlp.linear_fc1.weight", above(gate, up))
    put(layer, "mlp.linear_fc2.weight", family.hub.add(f"{at}.mlp.down_proj.weight", HIDDEN, ffn))


def experts_of(family: Family, put: Put, layer: int, at: str, words: tuple[str, str, str] = WORDS, *,
               count: int, ffn: int) -> None:
    """at: what stands in front of the router's and the experts' names."""
    hub = family.hub
    put(layer, "mlp.router.weight", hub.add(f"{at}.gate.weight", count, HIDDEN))
    gates, ups, downs = [], [], []
    for expert in range(count):
        gates.append(hub.add(f"{at}.experts.{expert}.{words[0]}.weight", ffn, HIDDEN))
        ups.append(hub.add(f"{at}.experts.{expert}.{words[1]}.weight", ffn, HIDDEN))
        downs.append(hub.add(f"{at}.experts.{expert}.{words[2]}.weight", HIDDEN, ffn))
    put(layer, "mlp.experts.experts.linear_fc1.weight",
        stacked(above(gate, up) for gate, up in zip(gates, ups, strict=True)))
    put(layer, "mlp.experts.experts.linear_fc2.weight", stacked(iter(downs)))


def shared_experts(family: Family, put: Put, layer: int, at: str, rows: int) -> None:
    hub = family.hub
    gate = hub.add(f"{at}.mlp.shared_experts.gate_proj.weight", rows, HIDDEN)
    up = hub.add(f"{at}.mlp.shared_experts.up_proj.weight", rows, HIDDEN)
    put(layer, "mlp.shared_experts.linear_fc1.weight", above(gate, up))
    put(layer, "mlp.shared_experts.linear_fc2.weight",
        hub.add(f"{at}.mlp.shared_experts.down_proj.weight", HIDDEN, rows))


def expert_bias(family: Family, put: Put, layer: int, name: str, count: int) -> None:
    put(layer, "mlp.router.expert_bias", family.hub.add(name, count, dtype="F32"), "F32")


def latent_attention(family: Family, put: Put, layer: int, at: str) -> None:
    hub, config = family.hub, family.config
    heads, query, latent = config["num_attention_heads"], config["q_lora_rank"], config["kv_lora_rank"]
    plain, rotary, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    put(layer, "input_layernorm.weight", hub.add(f"{at}.input_layernorm.weight", HIDDEN))
    for rest, name, shape in (
            ("linear_q_down_proj.weight", "q_a_proj", (query, HIDDEN)),
            ("linear_q_up_proj.layer_norm_weight", "q_a_layernorm", (query,)),
            ("linear_q_up_proj.weight", "q_b_proj", (heads * (plain + rotary), query)),
            ("linear_kv_down_proj.weight", "kv_a_proj_with_mqa", (latent + rotary, HIDDEN)),
            ("linear_kv_up_proj.layer_norm_weight", "kv_a_layernorm", (latent,)),
            ("linear_kv_up_proj.weight", "kv_b_proj", (heads * (plain + value), latent)),
            ("linear_proj.weight", "o_proj", (HIDDEN, heads * value))):
        put(layer, f"self_attention.{rest}", hub.add(f"{at}.self_attn.{name}.weight", *shape))


def prediction(family: Family, number: int, at: str) -> Put:
    """What multi-token prediction has beside a layer; the function that puts the layer's tensors."""
    hub = family.hub
    for name in ("enorm", "hnorm"):
        family.put(f"mtp.layers.{number}.{name}.weight", hub.add(f"{at}.{name}.weight", HIDDEN))
    family.put(f"mtp.layers.{number}.eh_proj.weight", hub.add(f"{at}.eh_proj.weight", HIDDEN, 2 * HIDDEN))
    family.put(f"mtp.layers.{number}.final_layernorm.weight",
               hub.add(f"{at}.shared_head.norm.weight", HIDDEN))
    # Copies, which Megatron-Core does not save.
    hub.tensors[f"{at}.embed_tokens.weight"] = hub.tensors["model.embed_tokens.weight"]
    hub.tensors[f"{at}.shared_head.head.weight"] = hub.tensors["lm_head.weight"]

    def put(_layer: int, rest: str, array: Array, dtype: str = "BF16") -> None:
        family.put(f"mtp.layers.{number}.transformer_layer.{rest}", array, dtype)

    return put


def config_of(model_type: str, architecture: str, **keys: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, "torch_dtype": "bfloat16",
            "hidden_size": HIDDEN, "vocab_size": VOCAB, "num_hidden_layers": LAYERS,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
            "tie_word_embeddings": False, **keys}


def names(family: str, numbered: bool) -> tuple[str, str]:
    """Of the case and of its map."""
    case = f"megatron_{family}" + ("_numbered" if numbered else "")
    return case, case.replace("_", "-")


def putter(family: Family, numbered: bool) -> Put:
    return family.put_numbered if numbered else family.put_layer


# --- families --------------------------------------------------------------------------------


def llama_numbered() -> Family:
    config = config_of("qwen2", "Qwen2ForCausalLM", intermediate_size=12)
    family = Family("megatron_llama_numbered", "megatron-llama-numbered",
                    "Qwen2, Megatron-Core torch_dist",
                    f"the rules of {BRIDGE} qwen2_bridge.py, and of {CORE} transformer_block.py", config)
    put = family.put_numbered
    ends(family)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        two_norms(family, put, layer, at, experts=False)
        attention(family, put, layer, at, bias=True)
        dense(family, put, layer, at)
    return family


def qwen3_moe(*, numbered: bool = False) -> Family:
    config = config_of("qwen3_moe", "Qwen3MoeForCausalLM", num_experts=3, num_experts_per_tok=2,
                       intermediate_size=12, moe_intermediate_size=6, decoder_sparse_step=1, mlp_only_layers=[])
    family = Family(*names("qwen3_moe", numbered), "Qwen3-MoE, Megatron-Core torch_dist",
                    f"the rules of {BRIDGE} qwen3_moe_bridge.py, and of {CORE} transformer_block.py and "
                    "moe/experts.py", config)
    put = putter(family, numbered)
    ends(family)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        two_norms(family, put, layer, at, experts=True)
        attention(family, put, layer, at, norms="head")
        experts_of(family, put, layer, f"{at}.mlp", count=3, ffn=6)
    return family


def deepseek_v3() -> Family:
    config = config_of("deepseek_v3", "DeepseekV3ForCausalLM", num_key_value_heads=4, first_k_dense_replace=1,
                       n_routed_experts=3, n_shared_experts=2, num_experts_per_tok=2, intermediate_size=12,
                       moe_intermediate_size=6, num_nextn_predict_layers=1, q_lora_rank=6, kv_lora_rank=4,
                       qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=5)
    del config["head_dim"]
    family = Family("megatron_deepseek_v3", "megatron-deepseek-v3",
                    "DeepSeek-V3, Megatron-Core torch_dist: a dense layer, one of experts, and one of "
                    "multi-token prediction whose embedding and head are copies",
                    f"the rules of {BRIDGE} deepseek/common.py, and of {CORE} transformer_block.py, "
                    "multi_token_prediction.py and moe/experts.py", config)
    ends(family)
    for layer in range(LAYERS + 1):
        at, put = f"model.layers.{layer}", family.put_numbered
        if layer == LAYERS:
            put = prediction(family, 0, at)
        latent_attention(family, put, layer, at)
        norm = family.hub.add(f"{at}.post_attention_layernorm.weight", HIDDEN)
        if layer == 0:
            put(layer, "mlp.linear_fc1.layer_norm_weight", norm)
            dense(family, put, layer, at)
            continue
        put(layer, "pre_mlp_layernorm.weight", norm)
        experts_of(family, put, layer, f"{at}.mlp", count=3, ffn=6)
        expert_bias(family, put, layer, f"{at}.mlp.gate.e_score_correction_bias", 3)
        shared_experts(family, put, layer, at, 2 * 6)
    return family


def glm4_moe() -> Family:
    config = config_of("glm4_moe", "Glm4MoeForCausalLM", first_k_dense_replace=1, n_routed_experts=3,
                       n_shared_experts=1, num_experts_per_tok=2, intermediate_size=12,
                       moe_intermediate_size=6, num_nextn_predict_layers=1, attention_bias=True,
                       use_qk_norm=True)
    family = Family("megatron_glm4_moe", "megatron-glm4-moe",
                    "GLM-4.5, Megatron-Core torch_dist: a dense layer, one of experts, and one of multi-token "
                    "prediction whose embedding and head are copies",
                    f"the rules of {BRIDGE} glm45_bridge.py, and of {CORE} transformer_block.py, "
                    "multi_token_prediction.py and moe/experts.py", config)
    ends(family)
    for layer in range(LAYERS + 1):
        at, put = f"model.layers.{layer}", family.put_numbered
        if layer == LAYERS:
            put = prediction(family, 0, at)
        two_norms(family, put, layer, at, experts=layer > 0)
        attention(family, put, layer, at, bias=True, norms="head")
        if layer == 0:
            dense(family, put, layer, at)
            continue
        experts_of(family, put, layer, f"{at}.mlp", count=3, ffn=6)
        expert_bias(family, put, layer, f"{at}.mlp.gate.e_score_correction_bias", 3)
        shared_experts(family, put, layer, at, 6)
    return family


def mixtral(*, numbered: bool = False) -> Family:
    config = config_of("mixtral", "MixtralForCausalLM", num_local_experts=3, num_experts_per_tok=2,
                       intermediate_size=6)
    family = Family(*names("mixtral", numbered),
                    "Mixtral, Megatron-Core torch_dist",
                    "the rules of NVIDIA/Megatron-LM (2025) loader_mixtral_hf.py, and of "
                    f"{CORE} transformer_block.py and moe/experts.py", config)
    ends(family)
    for layer in range(LAYERS):
        at, put = f"model.layers.{layer}", putter(family, numbered)
        two_norms(family, put, layer, at, experts=True)
        attention(family, put, layer, at)
        experts_of(family, put, layer, f"{at}.block_sparse_moe", ("w1", "w3", "w2"), count=3, ffn=6)
    return family


def minimax_m2(*, numbered: bool = False) -> Family:
    config = config_of("minimax_m2", "MiniMaxM2ForCausalLM", num_local_experts=3, num_experts_per_tok=2,
                       intermediate_size=6, use_qk_norm=True)
    family = Family(*names("minimax_m2", numbered),
                    "MiniMax-M2, Megatron-Core torch_dist: norms of query and key over all heads, expert biases "
                    "in float32",
                    f"the rules of {BRIDGE} minimax_m2_bridge.py, and of {CORE} transformer_block.py and "
                    "moe/experts.py", config)
    ends(family)
    for layer in range(LAYERS):
        at, put = f"model.layers.{layer}", putter(family, numbered)
        two_norms(family, put, layer, at, experts=True)
        attention(family, put, layer, at, norms="full")
        moe = f"{at}.block_sparse_moe"
        experts_of(family, put, layer, moe, ("w1", "w3", "w2"), count=3, ffn=6)
        expert_bias(family, put, layer, f"{moe}.e_score_correction_bias", 3)
    return family


def gpt_oss(*, numbered: bool = False) -> Family:
    experts, ffn = 3, 6
    config = config_of("gpt_oss", "GptOssForCausalLM", num_local_experts=experts, num_experts_per_tok=2,
                       intermediate_size=ffn, attention_bias=True)
    family = Family(*names("gpt_oss", numbered),
                    "gpt-oss, Megatron-Core torch_dist: gate and up in turn and transposed, biases, sinks",
                    f"the rules of {BRIDGE} gpt_oss_bridge.py, and of {CORE} transformer_block.py and "
                    "moe/experts.py", config)
    ends(family)
    for layer in range(LAYERS):
        at, put, hub = f"model.layers.{layer}", putter(family, numbered), family.hub
        two_norms(family, put, layer, at, experts=True)
        attention(family, put, layer, at, bias=True, output_bias=True)
        put(layer, "self_attention.core_attention.softmax_offset", hub.add(f"{at}.self_attn.sinks", 4))
        put(layer, "mlp.router.weight", hub.add(f"{at}.mlp.router.weight", experts, HIDDEN))
        put(layer, "mlp.router.bias", hub.add(f"{at}.mlp.router.bias", experts))
        both = hub.add(f"{at}.mlp.experts.gate_up_proj", experts, HIDDEN, 2 * ffn)
        bias = hub.add(f"{at}.mlp.experts.gate_up_proj_bias", experts, 2 * ffn)
        down = hub.add(f"{at}.mlp.experts.down_proj", experts, ffn, HIDDEN)
        first = np.zeros((experts, 2 * ffn, HIDDEN), both.dtype)
        first_bias = np.zeros((experts, 2 * ffn), bias.dtype)
        second = np.zeros((experts, HIDDEN, ffn), down.dtype)
        for expert, row, column in np.ndindex(experts, ffn, HIDDEN):
            for half in range(2):
                first[expert, half * ffn + row, column] = both[expert, column, 2 * row + half]
                first_bias[expert, half * ffn + row] = bias[expert, 2 * row + half]
            second[expert, column, row] = down[expert, row, column]
        put(layer, "mlp.experts.experts.linear_fc1.weight", first)
        put(layer, "mlp.experts.experts.linear_fc1.bias", first_bias)
        put(layer, "mlp.experts.experts.linear_fc2.weight", second)
        put(layer, "mlp.experts.experts.linear_fc2.bias",
            hub.add(f"{at}.mlp.experts.down_proj_bias", experts, HIDDEN))
    return family


def gemma3() -> Family:
    config = config_of("gemma3_text", "Gemma3ForCausalLM", intermediate_size=12, query_pre_attn_scalar=4)
    del config["tie_word_embeddings"]  # what transformers leaves out: they are tied
    family = Family("megatron_gemma3", "megatron-gemma3",
                    "Gemma 3, Megatron-Core torch_dist: four norms, tied embeddings",
                    f"the rules of {BRIDGE} gemma3_bridge.py, and of {CORE} transformer_block.py", config)
    ends(family, head=False)
    for layer in range(LAYERS):
        at, put = f"model.layers.{layer}", family.put_layer
        for name, rest in (("input", "self_attention.linear_qkv.layer_norm_weight"),
                           ("post_attention", "self_attention.linear_proj.post_layernorm.weight"),
                           ("pre_feedforward", "mlp.linear_fc1.layer_norm_weight"),
                           ("post_feedforward", "mlp.linear_fc2.post_layernorm.weight")):
            put(layer, rest, family.hub.add(f"{at}.{name}_layernorm.weight", HIDDEN))
        attention(family, put, layer, at, norms="head")
        dense(family, put, layer, at)
    return family


def meta_llama() -> Family:
    """As Meta's files have it, joined: the two rows of a rotary pair are neighbours."""
    config = config_of("llama", "LlamaForCausalLM", intermediate_size=12)
    family = Family("meta_llama", "meta-llama", "Llama as Meta released it",
                    "the rules of huggingface/transformers (2024) convert_llama_weights_to_hf.py", config,
                    variables={})
    hub, dim = family.hub, int(config["head_dim"])
    family.put("tok_embeddings.weight", hub.add("model.embed_tokens.weight", VOCAB, HIDDEN))
    family.put("norm.weight", hub.add("model.norm.weight", HIDDEN))
    family.put("output.weight", hub.add("lm_head.weight", VOCAB, HIDDEN))
    for layer in range(LAYERS):
        at, meta = f"model.layers.{layer}", f"layers.{layer}"
        for word, other, heads in (("q", "wq", 4), ("k", "wk", 2)):
            rows = hub.add(f"{at}.self_attn.{word}_proj.weight", heads * dim, HIDDEN)
            pairs = np.zeros_like(rows)
            for head, pair, half in np.ndindex(heads, dim // 2, 2):
                pairs[head * dim + 2 * pair + half] = rows[head * dim + half * (dim // 2) + pair]
            family.put(f"{meta}.attention.{other}.weight", pairs)
        ffn = int(config["intermediate_size"])
        for name, other, rows_of, columns in (
                ("self_attn.v_proj", "attention.wv", 2 * dim, HIDDEN),
                ("self_attn.o_proj", "attention.wo", HIDDEN, 4 * dim),
                ("mlp.gate_proj", "feed_forward.w1", ffn, HIDDEN),
                ("mlp.down_proj", "feed_forward.w2", HIDDEN, ffn),
                ("mlp.up_proj", "feed_forward.w3", ffn, HIDDEN)):
            family.put(f"{meta}.{other}.weight", hub.add(f"{at}.{name}.weight", rows_of, columns))
        family.put(f"{meta}.attention_norm.weight", hub.add(f"{at}.input_layernorm.weight", HIDDEN))
        family.put(f"{meta}.ffn_norm.weight", hub.add(f"{at}.post_attention_layernorm.weight", HIDDEN))
    return family


def telechat2() -> Family:
    """The legacy network of MindFormers: other names alone."""
    config: dict[str, Any] = {"model_type": "telechat", "hidden_size": HIDDEN, "vocab_size": VOCAB, "n_layer": LAYERS,
                              "n_head": 4, "num_key_value_heads": 2, "ffn_hidden_size": 12}
    family = Family("telechat2_legacy", "mindformers-telechat2", "TeleChat2, legacy network of MindFormers",
                    "the rules of mindspore-ai/mindformers 1.9.0 research/telechat2/convert_weight.py", config,
                    variables={})
    hub, ffn = family.hub, 12
    family.put("model.tok_embeddings.embedding_weight", hub.add("transformer.word_embeddings.weight", VOCAB, HIDDEN))
    family.put("model.norm_out.weight", hub.add("transformer.ln_f.weight", HIDDEN))
    family.put("lm_head.weight", hub.add("lm_head.weight", VOCAB, HIDDEN))
    for layer in range(LAYERS):
        for name, other, shape in (("input_layernorm.weight", "attention_norm.weight", (HIDDEN,)),
                                   ("self_attention.query.weight", "attention.wq.weight", (HIDDEN, HIDDEN)),
                                   ("self_attention.key_value.weight", "attention.wk_v.weight", (HIDDEN, HIDDEN)),
                                   ("self_attention.dense.weight", "attention.wo.weight", (HIDDEN, HIDDEN)),
                                   ("self_attention.dense.bias", "attention.wo.bias", (HIDDEN,)),
                                   ("post_attention_layernorm.weight", "ffn_norm.weight", (HIDDEN,)),
                                   ("mlp.gate_proj.weight", "feed_forward.w1.weight", (ffn, HIDDEN)),
                                   ("mlp.up_proj.weight", "feed_forward.w3.weight", (ffn, HIDDEN)),
                                   ("mlp.down_proj.weight", "feed_forward.w2.weight", (HIDDEN, ffn)),
                                   ("mlp.down_proj.bias", "feed_forward.w2.bias", (HIDDEN,))):
            family.put(f"model.layers.{layer}.{other}", hub.add(f"transformer.h.{layer}.{name}", *shape))
    return family


def pack(hub: Tensors) -> Tensors:
    """The model as transformers 5 has it in memory: gate above up, experts as an axis in front."""
    out: Tensors = {}
    for name, (dtype, array) in hub.items():
        start, found, rest = name.partition(".experts.")
        start = start.replace(".block_sparse_moe", ".mlp")
        if not found:
            out[name.replace(".block_sparse_moe.", ".mlp.")] = (dtype, array)
            continue
        expert, word = int(rest.split(".")[0]), rest.split(".")[1]
        if word in ("down_proj", "w2"):
            target, first, rows = f"{start}.experts.down_proj", 0, array.shape[0]
        else:
            target, rows = f"{start}.experts.gate_up_proj", 2 * array.shape[0]
            first = array.shape[0] if word in ("up_proj", "w3") else 0
        if target not in out:
            count = 1 + max(int(other.split(".experts.")[1].split(".")[0]) for other in hub
                            if other.startswith(name.partition(".experts.")[0] + ".experts."))
            out[target] = (dtype, np.zeros((count, rows, array.shape[1]), array.dtype))
        for row in range(array.shape[0]):
            out[target][1][expert, first + row] = array[row]
    return out


def packed_case(family: Family, name: str, title: str) -> Family:
    return Family(name, name.replace("_", "-"), title,
                  "the rules of huggingface/transformers (November 2025) conversion_mapping.py", family.config,
                  family.hub, pack(family.hub.tensors), {})


def packed_experts() -> Family:
    return packed_case(deepseek_v3(), "packed_experts", "DeepSeek-V3 with packed experts")


def packed_experts_mixtral() -> Family:
    return packed_case(minimax_m2(), "packed_experts_mixtral", "MiniMax-M2 with packed experts")


FAMILIES: tuple[Callable[[], Family], ...] = (
    llama_numbered, qwen3_moe, partial(qwen3_moe, numbered=True), deepseek_v3, glm4_moe, mixtral,
    partial(mixtral, numbered=True), minimax_m2, partial(minimax_m2, numbered=True), gpt_oss,
    partial(gpt_oss, numbered=True), gemma3, meta_llama, telechat2, packed_experts, packed_experts_mixtral)


# --- files -----------------------------------------------------------------------------------


def write_case(family: Family, directory: Path, *, back: bool) -> None:
    name = family.name + ("_back" if back else "")
    case = directory / name
    case.mkdir(parents=True, exist_ok=True)
    source, expected = (family.core, family.hub.tensors) if back else (family.hub.tensors, family.core)
    write_safetensors(case / "src.safetensors", source)
    write_safetensors(case / "expected.safetensors", expected)
    (case / "config.json").write_text(json.dumps(family.config, indent=1) + "\n")
    (case / "map.toml").write_text(f'extends = "../../../config/maps/{family.map}.toml"\n')
    text: dict[str, Any] = {
        "name": name,
        "title": family.title + (", numbered layers" if "_numbered" in name else "")
                 + (", to Hugging Face" if back else ", to the other side"),
        "direction": "inverse" if back else "forward",
        "expected": "tests/data/megatron_families.py, by loops over indices",
        "original": family.original}
    if family.variables:
        text["vars"] = family.variables
    (case / "case.json").write_text(json.dumps(text, indent=1) + "\n")


def write_all(directory: Path) -> list[str]:
    names = []
    for make in FAMILIES:
        for back in (False, True):
            family = make()
            write_case(family, directory, back=back)
            names.append(family.name + ("_back" if back else ""))
    return names


def differing_files() -> list[str]:
    """Of the cases that are there, those that this program would write otherwise."""
    wrong = []
    with tempfile.TemporaryDirectory() as directory:
        for name in write_all(Path(directory)):
            for made in sorted((Path(directory) / name).iterdir()):
                there = TARGET / name / made.name
                if not there.exists() or made.read_bytes() != there.read_bytes():
                    wrong.append(f"{name}/{made.name}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; compare with what is there")
    if parser.parse_args().check:
        wrong = differing_files()
        for name in wrong:
            print(f"differs: {name}")
        return 1 if wrong else 0
    for name in write_all(TARGET):
        sizes = sum(file.stat().st_size for file in (TARGET / name).iterdir())
        tensors, _ = read_safetensors(TARGET / name / "expected.safetensors")
        print(f"{name}: {len(tensors)} tensors, {sizes} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
