# SPDX-License-Identifier: Apache-2.0
"""Models of transformers under the names of Megatron-Core, without reshardfs: by the modules of both programs."""

from __future__ import annotations

import re
from typing import Any

import torch

Tensors = dict[str, torch.Tensor]
SAME_MOE = {"mlp.gate.e_score_correction_bias": "mlp.router.expert_bias", "mlp.gate.weight": "mlp.router.weight",
            "mlp.shared_experts.down_proj.weight": "mlp.shared_experts.linear_fc2.weight",
            "mlp.shared_expert.down_proj.weight": "mlp.shared_experts.linear_fc2.weight",
            "mlp.shared_expert_gate.weight": "mlp.shared_experts.gate_weight"}
LATENT = {"q_a_proj": "linear_q_down_proj", "q_b_proj": "linear_q_up_proj", "kv_a_proj_with_mqa": "linear_kv_down_proj",
          "kv_b_proj": "linear_kv_up_proj", "q_a_layernorm": "q_layernorm", "kv_a_layernorm": "kv_layernorm",
          "o_proj": "linear_proj"}
INDEXER = {"wq_b": "linear_wq_b", "wk": "linear_wk", "weights_proj": "linear_weights_proj", "k_norm": "k_norm"}


GEMMA3 = {"post_attention": "self_attention.linear_proj.post_layernorm", "pre_feedforward": "mlp.linear_fc1.layer",
          "post_feedforward": "mlp.linear_fc2.post_layernorm"}
OF_ATTENTION = {"self_attn.q_norm.weight": "q_layernorm.weight", "self_attn.k_norm.weight": "k_layernorm.weight",
                "self_attn.o_proj.weight": "linear_proj.weight", "self_attn.o_proj.bias": "linear_proj.bias",
                "self_attn.sinks": "core_attention.softmax_offset",
                "input_layernorm.weight": "linear_qkv.layer_norm_weight"}


def by_groups(config: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gated: bool = False,
              groups: int = 0, size: int = 0) -> torch.Tensor:
    """A group's queries, perhaps their gates, its key and its value."""
    groups, size = groups or config.num_key_value_heads, size or config.head_dim
    heads = q.unflatten(0, (groups, -1, 2 if gated else 1, size))
    rows = [torch.cat([*heads[group].transpose(0, 1).flatten(0, 1), k.unflatten(0, (groups, size))[group],
                       v.unflatten(0, (groups, size))[group]]) for group in range(groups)]
    return torch.cat(rows)


def outside(hf: Tensors, begin: str, names: dict[str, str], rows: int) -> Tensors:
    out = {}
    for mine, theirs in names.items():
        if mine == "lm_head.weight" and mine not in hf:
            continue  # tied
        tensor = hf[mine if mine.startswith("lm_head") else begin + mine]
        if tensor.dim() == 2:  # padded
            tensor = torch.cat([tensor, tensor.new_zeros(rows - len(tensor), tensor.shape[1])])
        out[theirs] = tensor
    return out


def layers_of(hf: Tensors, begin: str) -> list[Tensors]:
    layers: dict[int, Tensors] = {}
    for name, tensor in hf.items():
        if found := re.fullmatch(re.escape(begin) + r"layers\.(\d+)\.(.*)", name):
            layers.setdefault(int(found[1]), {})[found[2]] = tensor
    return [layers[number] for number in range(len(layers))]


def experts(layer: Tensors, begin: str, *parts: str) -> torch.Tensor:
    count = sum(name.startswith(begin) and name.endswith(f".{parts[0]}.weight") for name in layer)
    return torch.stack([torch.cat([layer[f"{begin}{expert}.{part}.weight"] for part in parts])
                        for expert in range(count)])


def renamed(tensors: Tensors, names: dict[str, str]) -> Tensors:
    """With other texts; each name has one of them for each part."""
    out = {}
    for name, tensor in tensors.items():
        for mine, theirs in names.items():
            name = name.replace(mine, theirs)
        out[name] = tensor
    return out


def mixtral_names(layer: Tensors) -> Tensors:
    """With the names of others for experts."""
    return renamed(layer, {"block_sparse_moe.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
                           ".w1.": ".gate_proj.", ".w3.": ".up_proj.", ".w2.": ".down_proj.", "block_sparse_moe.": "mlp."})


def mlp(layer: Tensors) -> Tensors:
    layer = mixtral_names(layer)
    gate_up = torch.cat([layer[f"mlp.{part}_proj.weight"] for part in ("gate", "up")]) if "mlp.up_proj.weight" in layer else None
    if "pre_feedforward_layernorm.weight" in layer:  # of Gemma 3
        return {f"{theirs}_norm_weight" if theirs.endswith("layer") else f"{theirs}.weight": layer[f"{mine}_layernorm.weight"]
                for mine, theirs in GEMMA3.items()} | {
            "mlp.linear_fc1.weight": gate_up, "mlp.linear_fc2.weight": layer["mlp.down_proj.weight"]}
    norm = layer["post_attention_layernorm.weight"]
    if gate_up is not None:
        return {"mlp.linear_fc1.layer_norm_weight": norm, "mlp.linear_fc2.weight": layer["mlp.down_proj.weight"],
                "mlp.linear_fc1.weight": gate_up}
    if "mlp.experts.gate_up_proj" in layer:
        return {"pre_mlp_layernorm.weight": norm, **open_experts(layer)}
    out = {theirs: layer[mine] for mine, theirs in SAME_MOE.items() if mine in layer}
    out |= {"pre_mlp_layernorm.weight": norm,
            "mlp.experts.experts.linear_fc1.weight": experts(layer, "mlp.experts.", "gate_proj", "up_proj"),
            "mlp.experts.experts.linear_fc2.weight": experts(layer, "mlp.experts.", "down_proj")}
    for shared in ("mlp.shared_experts.", "mlp.shared_expert."):
        if f"{shared}up_proj.weight" in layer:
            out["mlp.shared_experts.linear_fc1.weight"] = torch.cat([layer[f"{shared}{part}_proj.weight"]
                                                                     for part in ("gate", "up")])
    return out


def open_experts(layer: Tensors) -> Tensors:
    """Of gpt-oss: columns of gate and up in turn."""
    out = {f"mlp.router.{kind}": layer[f"mlp.router.{kind}"] for kind in ("weight", "bias")}
    for begin, end in (("", "weight"), ("_bias", "bias")):
        both, down = layer[f"mlp.experts.gate_up_proj{begin}"], layer[f"mlp.experts.down_proj{begin}"]
        halves = [both[..., 0::2], both[..., 1::2]]
        if end == "weight":
            halves, down = [half.transpose(1, 2) for half in halves], down.transpose(1, 2).contiguous()
        out |= {f"mlp.experts.experts.linear_fc1.{end}": torch.cat(halves, 1), f"mlp.experts.experts.linear_fc2.{end}": down}
    return out


def latent(config: Any, layer: Tensors) -> Tensors:
    out = {"input_layernorm.weight": layer["input_layernorm.weight"]}
    if "self_attn.q_proj.weight" in layer:  # not compressed
        out["self_attention.linear_q_proj.weight"] = layer["self_attn.q_proj.weight"]
    # Without an indexer, norms are fused with what comes behind them.
    fused = {} if "self_attn.indexer.wk.weight" in layer else {
        "q_layernorm.weight": "linear_q_up_proj.layer_norm_weight", "kv_layernorm.weight": "linear_kv_up_proj.layer_norm_weight"}
    for mine, theirs in LATENT.items():
        name = f"{theirs}.weight"
        if f"self_attn.{mine}.weight" not in layer:
            continue
        out[f"self_attention.{fused.get(name, name)}"] = layer[f"self_attn.{mine}.weight"]
    for mine, theirs in INDEXER.items():
        for kind in ("weight", "bias"):
            if (tensor := layer.get(f"self_attn.indexer.{mine}.{kind}")) is not None:
                out[f"self_attention.core_attention.indexer.{theirs}.{kind}"] = tensor
    return out


def plain(config: Any, layer: Tensors, gated: bool = False) -> Tensors:
    out = {f"self_attention.{theirs}": layer[mine] for mine, theirs in OF_ATTENTION.items() if mine in layer}
    for kind in ("weight", "bias"):
        if f"self_attn.q_proj.{kind}" in layer:
            q, k, v = (layer[f"self_attn.{name}_proj.{kind}"] for name in "qkv")
            out[f"self_attention.linear_qkv.{kind}"] = by_groups(config, q, k, v, gated)
    return out


def gated(config: Any, layer: Tensors) -> Tensors:
    return plain(config, layer, gated=True)


def delta(config: Any, layer: Tensors) -> Tensors:
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    key, value = keys * config.linear_key_head_dim, values * config.linear_value_head_dim
    mine = {name.removeprefix("linear_attn."): tensor for name, tensor in layer.items() if "linear_attn." in name}
    if "in_proj_qkvz.weight" in mine:  # by key head
        lengths = [config.linear_key_head_dim] * 2 + [value // keys] * 2
        parts = mine["in_proj_qkvz.weight"].unflatten(0, (keys, -1)).split(lengths, 1)
        parts += mine["in_proj_ba.weight"].unflatten(0, (keys, -1)).split(values // keys, 1)
        parts = [part.flatten(0, 1) for part in parts]
    else:
        parts = [*mine["in_proj_qkv.weight"].split([key, key, value]),
                 *(mine[f"in_proj_{name}.weight"] for name in "zba")]
    out = {f"in_proj.weight.{name}": part for name, part in
           zip(("query", "key", "value", "z", "beta", "alpha"), parts, strict=True)}
    convolved = mine["conv1d.weight"].split([key, key, value])
    out |= {f"conv1d.weight.{name}": part for name, part in zip(("query", "key", "value"), convolved, strict=True)}
    out |= {name: mine[name] for name in ("A_log", "dt_bias", "out_proj.weight")}
    out["out_norm.weight"] = mine["norm.weight"] - 1
    out["in_proj.layer_norm_weight"] = layer["input_layernorm.weight"]
    return {f"self_attention.{name}": tensor for name, tensor in out.items()}


def gpt(config: Any, hf: Tensors, rows: int) -> Tensors:
    """The GPTModel of most families."""
    out = outside(hf, "model.", {"embed_tokens.weight": "embedding.word_embeddings.weight",
                                 "lm_head.weight": "output_layer.weight",
                                 "norm.weight": "decoder.final_layernorm.weight"}, rows)
    for number, layer in enumerate(layers_of(hf, "model.")):
        attention = (delta if any("linear_attn." in name for name in layer) else
                     latent if "self_attn.kv_a_layernorm.weight" in layer else
                     gated if config.model_type.startswith(("qwen3_next", "qwen3_5")) else plain)
        for name, tensor in (attention(config, layer) | mlp(layer)).items():
            out[f"decoder.layers.{number}.{name}"] = tensor
        for name, tensor in layer.items():
            if name.startswith("self_attn.index_"):
                out[f"lightning_indexers.{number}.{name.removeprefix('self_attn.index_')}"] = tensor
    return out


def text_of(saved: Tensors, begin: str) -> dict[str, str]:
    """The names in a model that sees, each with that in its text model."""
    names = {name: "model." + name.removeprefix(begin) for name in saved if name.startswith(begin)}
    return names | {name: "lm_head.weight" for name in ("language_model.lm_head.weight", "lm_head.weight") if name in saved}


def seeing(core: Tensors) -> Tensors:
    """Megatron-Bridge's names in a model that sees."""
    return {name if name.startswith("lightning_") else f"language_model.{name}": tensor for name, tensor in core.items()}


def nemotron(config: Any, hf: Tensors, rows: int) -> Tensors:
    """The HybridModel."""
    out = outside(hf, "backbone.", {"embeddings.weight": "embedding.word_embeddings.weight",
                                    "lm_head.weight": "output_layer.weight",
                                    "norm_f.weight": "decoder.final_norm.weight"}, rows)
    inner, state = config.mamba_num_heads * config.mamba_head_dim, config.n_groups * config.ssm_state_size
    for number, layer in enumerate(layers_of(hf, "backbone.")):
        mine = {name.removeprefix("mixer."): tensor for name, tensor in layer.items()}
        norm = mine.pop("norm.weight") if "A_log" not in mine else layer["norm.weight"]
        if "A_log" in mine:
            made = {f"mixer.{name}": mine[name] for name in ("A_log", "D", "dt_bias", "out_proj.weight")}
            made |= {"mixer.norm.weight": layer["mixer.norm.weight"], "mixer.in_proj.layer_norm_weight": norm}
            parts = mine["in_proj.weight"].split([inner, inner, state, state, config.mamba_num_heads])
            made |= {f"mixer.in_proj.weight.{name}": part for name, part in zip(("z", "x", "B", "C", "dt"), parts, strict=True)}
            for kind in ("weight", "bias"):
                parts = mine[f"conv1d.{kind}"].split([inner, state, state])
                made |= {f"mixer.conv1d.{kind}.{name}": part for name, part in zip("xBC", parts, strict=True)}
        elif "q_proj.weight" in mine:
            made = {"self_attention.linear_qkv.layer_norm_weight": norm,
                    "self_attention.linear_qkv.weight": by_groups(config, *(mine[f"{x}_proj.weight"] for x in "qkv")),
                    "self_attention.linear_proj.weight": mine["o_proj.weight"]}
        elif "gate.weight" in mine:
            made = {"pre_mlp_layernorm.weight": norm, "mlp.router.weight": mine["gate.weight"],
                    "mlp.router.expert_bias": mine["gate.e_score_correction_bias"],
                    "mlp.shared_experts.linear_fc1.weight": mine["shared_experts.up_proj.weight"],
                    "mlp.shared_experts.linear_fc2.weight": mine["shared_experts.down_proj.weight"],
                    "mlp.experts.experts.linear_fc1.weight": experts(mine, "experts.", "up_proj"),
                    "mlp.experts.experts.linear_fc2.weight": experts(mine, "experts.", "down_proj")}
        else:
            made = {"mlp.linear_fc1.layer_norm_weight": norm, "mlp.linear_fc1.weight": mine["up_proj.weight"],
                    "mlp.linear_fc2.weight": mine["down_proj.weight"]}
        out |= {f"decoder.layers.{number}.{name}": tensor for name, tensor in made.items()}
    return out


def hybrid(core: Tensors) -> Tensors:
    """Each attention before its MLP."""
    out = {}
    for name, tensor in core.items():
        if found := re.fullmatch(r"decoder\.layers\.(\d+)\.(.*)", name):
            half = found[2].startswith(("mlp.", "pre_mlp_layernorm."))
            name = f"decoder.layers.{2 * int(found[1]) + half}.{found[2]}"
        out[name.replace("final_layernorm", "final_norm")] = tensor
    return out


V4 = {"attn_norm": "input_layernorm", "ffn_norm": "pre_mlp_layernorm", "attn.wq_a": "self_attention.linear_q_down_proj",
      "attn.q_norm": "self_attention.q_layernorm", "attn.wq_b": "self_attention.linear_q_up_proj",
      "attn.wkv": "self_attention.linear_kv_proj", "attn.kv_norm": "self_attention.kv_layernorm",
      "attn.wo_b": "self_attention.linear_proj", "ffn.gate": "mlp.router",
      "ffn.shared_experts.w2": "mlp.shared_experts.linear_fc2"}
CORE_ATTENTION = "self_attention.core_attention."
COMPRESSOR = {"ape": "ape", "norm.weight": "norm.weight", "wkv.weight": "linear_wkv.weight", "wgate.weight": "linear_wgate.weight"}


def compressed_layer(layer: Tensors) -> Tensors:
    """Of DeepSeek-V4, with the names of its release."""
    out = {f"{theirs}.weight": layer[f"{mine}.weight"] for mine, theirs in V4.items()}
    out["self_attention.linear_o_group_proj"] = layer["attn.wo_a.weight"]
    out[f"{CORE_ATTENTION}attn_sink"] = layer["attn.attn_sink"]
    for begin in ("compressor.", "indexer.compressor."):
        out |= {CORE_ATTENTION + begin + theirs: layer[f"attn.{begin}{mine}"] for mine, theirs in COMPRESSOR.items()
                if f"attn.{begin}{mine}" in layer}
    out |= {f"{CORE_ATTENTION}indexer.linear_{name}.weight": layer[f"attn.indexer.{name}.weight"]
            for name in ("wq_b", "weights_proj") if f"attn.indexer.{name}.weight" in layer}
    out["mlp.experts.experts.linear_fc1.weight"] = experts(layer, "ffn.experts.", "w1", "w3")
    out["mlp.experts.experts.linear_fc2.weight"] = experts(layer, "ffn.experts.", "w2")
    out["mlp.shared_experts.linear_fc1.weight"] = torch.cat([layer[f"ffn.shared_experts.{name}.weight"] for name in ("w1", "w3")])
    for mine, theirs in {"attn": "self_attention", "ffn": "mlp"}.items():
        begin = f"{theirs}_hyper_connection."
        out |= {f"{begin}mapping_proj.weight": layer[f"hc_{mine}_fn"], f"{begin}bias": layer[f"hc_{mine}_base"]}
        parts = layer[f"hc_{mine}_scale"].split(1)
        out |= {f"{begin}alpha_{name}": part for name, part in zip(("pre", "post", "res"), parts, strict=True)}
    if "ffn.gate.tid2eid" in layer:  # by the token's number, where a bias would change nothing
        out["mlp.router.tid2eid"] = layer["ffn.gate.tid2eid"]
        out["mlp.router.expert_bias"] = layer["hc_ffn_scale"].new_zeros(len(layer["ffn.gate.weight"]))
    else:
        out["mlp.router.expert_bias"] = layer["ffn.gate.bias"]
    return out


def compressed(config: Any, hf: Tensors, rows: int) -> Tensors:
    """DeepSeek-V4, perhaps with one layer of multi-token prediction."""
    out = outside(hf, "", {"embed.weight": "embedding.word_embeddings.weight", "head.weight": "output_layer.weight",
                           "norm.weight": "decoder.final_layernorm.weight"}, rows)
    out |= {f"decoder.{name}": tensor for name, tensor in hf.items() if name.startswith("hc_head_")}
    for number, layer in enumerate(layers_of(hf, "")):
        out |= {f"decoder.layers.{number}.{name}": tensor for name, tensor in compressed_layer(layer).items()}
    mtp = {name.removeprefix("mtp.0."): tensor for name, tensor in hf.items() if name.startswith("mtp.0.")}
    if mtp:
        out |= {f"mtp.layers.0.transformer_layer.{name}": tensor for name, tensor in compressed_layer(mtp).items()}
        out |= {f"mtp.layers.0.{name}": tensor for name, tensor in mtp.items()
                if name.startswith(("enorm", "hnorm", "e_proj", "h_proj", "hc_head_"))}
        out["mtp.layers.0.final_layernorm.weight"] = mtp["norm.weight"]
    return out


GEMMA4 = {"dense": {"input_layernorm": "input_layernorm", "post_attention_layernorm": "post_self_attn_layernorm",
                    "pre_feedforward_layernorm": "pre_mlp_layernorm", "post_feedforward_layernorm": "post_mlp_layernorm",
                    "mlp.down_proj": "mlp.linear_fc2", "per_layer_input_gate": "per_layer_input_gate",
                    "per_layer_projection": "per_layer_projection",
                    "post_per_layer_input_norm": "post_per_layer_input_norm"},
          "experts": {"pre_feedforward_layernorm_2": "pre_mlp_layernorm",
                      "pre_feedforward_layernorm": "pre_shared_expert_layernorm",
                      "post_feedforward_layernorm_1": "mlp.post_shared_expert_layernorm",
                      "post_feedforward_layernorm_2": "mlp.post_moe_layernorm",
                      "post_feedforward_layernorm": "post_ffn_layernorm", "router.proj": "mlp.router",
                      "mlp.down_proj": "mlp.shared_experts.linear_fc2"}}


def gemma4_attention(config: Any, number: int, layer: Tensors) -> Tensors:
    """Zeros for keys and values of other layers; values that are keys, twice."""
    own = config.per_layer_config[number]
    q = layer["self_attn.q_proj.weight"]
    k = layer.get("self_attn.k_proj.weight", q.new_zeros(own.num_key_value_heads * own.head_dim, q.shape[1]))
    v = layer.get("self_attn.v_proj.weight", k)
    norm = layer["self_attn.q_norm.weight"]
    return {"linear_qkv.weight": by_groups(config, q, k, v, groups=own.num_key_value_heads, size=own.head_dim),
            "linear_proj.weight": layer["self_attn.o_proj.weight"], "q_layernorm.weight": norm,
            "k_layernorm.weight": layer.get("self_attn.k_norm.weight", torch.ones_like(norm))}


def stacked(core: Tensors) -> Tensors:
    """Layers of a kind in one tensor."""
    layers: dict[str, list[torch.Tensor]] = {}
    for name, tensor in core.items():
        layers.setdefault(re.sub(r"^decoder\.layers\.\d+\.", "decoder.layers.", name), []).append(tensor)
    return {name: torch.stack(tensors) if name.startswith("decoder.layers.") else tensors[0]
            for name, tensors in layers.items()}


def gemma4(config: Any, hf: Tensors, rows: int) -> Tensors:
    """Dense, or with experts beside the MLP."""
    out = outside(hf, "model.", {"embed_tokens.weight": "embedding.word_embeddings.weight",
                                 "norm.weight": "decoder.final_layernorm.weight"}, rows)
    out |= {theirs: hf[f"model.{mine}"] for mine, theirs in
            {"embed_tokens_per_layer.weight": "per_layer_embedding.weight",
             "per_layer_model_projection.weight": "per_layer_model_proj.weight",
             "per_layer_projection_norm.weight": "per_layer_proj_norm.weight"}.items() if f"model.{mine}" in hf}
    for number, layer in enumerate(layers_of(hf, "model.")):
        kind = "experts" if config.enable_moe_block else "dense"
        made = {f"{theirs}.weight": layer[f"{mine}.weight"] for mine, theirs in GEMMA4[kind].items() if f"{mine}.weight" in layer}
        made["layer_scalar"] = layer["layer_scalar"]
        attention = gemma4_attention(config, number, layer)
        gated_rows = torch.cat([layer["mlp.gate_proj.weight"], layer["mlp.up_proj.weight"]])
        if kind == "experts":
            attention |= {"linear_qkv.layer_norm_weight": layer["input_layernorm.weight"],
                          "linear_proj.post_layernorm.weight": layer["post_attention_layernorm.weight"]}
            made |= {f"mlp.router.{name}": layer[f"router.{name}"] for name in ("scale", "per_expert_scale")}
            made |= {"mlp.shared_experts.linear_fc1.weight": gated_rows,
                     "mlp.experts.experts.linear_fc1.weight": layer["experts.gate_up_proj"],
                     "mlp.experts.experts.linear_fc2.weight": layer["experts.down_proj"]}
        else:
            made["mlp.linear_fc1.weight"] = gated_rows
        suffix = "sliding" if config.layer_types[number] == "sliding_attention" else "global"
        made |= {f"self_attention_{suffix}.{name}": tensor for name, tensor in attention.items()}
        out |= {f"decoder.layers.{number}.{name}": tensor for name, tensor in made.items()}
    return out
