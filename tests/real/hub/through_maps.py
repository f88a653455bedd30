# SPDX-License-Identifier: Apache-2.0
"""Small models of transformers through the maps of Megatron-Core and back."""

from __future__ import annotations

import fnmatch
import json
import random
from pathlib import Path
from typing import Any

import core_names
import torch
import transformers
from families import as_released
from judge import Counts, exported, require_same
from product import Refused, reshardfs
from safetensors.torch import load_file, save_file

DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 6,
         "linear_conv_kernel_dim": 4}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 10}
SPARSE = {"num_key_value_heads": 4, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
          "v_head_dim": 6, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1,
          "topk_group": 1, "moe_intermediate_size": 12, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4}
MAMBA = {"mamba_num_heads": 4, "mamba_head_dim": 6, "n_groups": 2, "ssm_state_size": 8, "n_routed_experts": 4,
         "moe_intermediate_size": 12, "moe_shared_expert_intermediate_size": 8, "num_experts_per_tok": 2}
V4 = {"q_lora_rank": 12, "o_groups": 4, "o_lora_rank": 6, "n_routed_experts": 4, "n_shared_experts": 1, "hc_mult": 2,
      "num_experts_per_tok": 2, "moe_intermediate_size": 12, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4,
      "num_key_value_heads": 1, "partial_rotary_factor": 0.5}
ONE_EXPERT = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
              "moe_intermediate_size": 12, "first_k_dense_replace": 1, "num_nextn_predict_layers": 0}
LATENT = {**ONE_EXPERT, "num_key_value_heads": 4, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
          "v_head_dim": 6}
MIXTRAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
V4_LAYERS = ("sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention")
GEMMA4 = {"global_head_dim": 12, "vocab_size_per_layer_input": 60, "num_experts": 4, "top_k_experts": 2,
          "moe_intermediate_size": 6, "tie_word_embeddings": True}
# The class, and what it has beside the numbers of all.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "mistral": ("Mistral", {}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {}),
    "gemma3_text": ("Gemma3Text", {"tie_word_embeddings": True}),
    "qwen3_moe": ("Qwen3Moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12}),
    "mixtral": ("Mixtral", MIXTRAL),
    "minimax_m2": ("MiniMaxM2", MIXTRAL),
    "gpt_oss": ("GptOss", MIXTRAL),
    "glm4_moe": ("Glm4Moe", ONE_EXPERT),
    "glm4_moe_lite": ("Glm4MoeLite", {**LATENT, "q_lora_rank": 12}),
    "deepseek_v3": ("DeepseekV3", LATENT),
    "kimi_k2": ("DeepseekV3", {**LATENT, "q_lora_rank": 12}),
    "qwen3_next": ("Qwen3Next", {**DELTA, **MOE}),
    "qwen3_5_text": ("Qwen3_5Text", DELTA),
    "qwen3_5_moe_text": ("Qwen3_5MoeText", {**DELTA, **MOE}),
    "deepseek_v32": ("DeepseekV32", SPARSE),
    "glm_moe_dsa": ("GlmMoeDsa", SPARSE),
    "nemotron_h": ("NemotronH", MAMBA),
    "deepseek_v4": ("DeepseekV4", V4),
    "gemma4_text": ("Gemma4Text", GEMMA4),
}
# What is expected, and whether there is a form with HybridModel.
EXPECTED = {"nemotron_h": (core_names.nemotron, False), "deepseek_v4": (core_names.compressed, False),
            "gemma4_text": (core_names.gemma4, False)}
# Layers may be one tensor.
STACKED_LAYERS = {"llama", "mistral", "qwen2", "qwen3", "gemma3_text", "qwen3_moe", "mixtral", "minimax_m2", "gpt_oss"}
SIZES = ("tp=1", "tp=2", "tp=4", "tp=2,pp=2")
JOINED = ("*.mlp.linear_fc1.weight", "*.shared_experts.linear_fc1.weight")
# One norm for all heads, of which ranks have parts; others of the name are whole.
UNCUT = {"minimax_m2": ("*.q_layernorm.weight", "*.k_layernorm.weight")}
ENDS = ("mtp.*", "embedding.*", "output_layer.*", "lightning_indexers.*")

# Models that see: their classes, the numbers of the text model, and what its names begin with.
M3 = {"num_local_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "intermediate_size": 12,
      "dense_intermediate_size": 24, "shared_intermediate_size": 10, "index_n_heads": 2, "index_head_dim": 8,
      "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
      "mlp_layer_types": ["dense", "sparse", "sparse"]}
DENSE = {**DELTA, "layer_types": ["linear_attention", "full_attention", "linear_attention"]}
SEEING: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "minimax_m3_vl": ("MiniMaxM3VL", "MiniMaxM3SparseForConditionalGeneration", M3, "language_model.model."),
    "gemma3": ("Gemma3", "Gemma3ForConditionalGeneration", {"query_pre_attn_scalar": 8}, "language_model.model."),
    "kimi_k25": ("Kimi_K25", "Kimi_K25ForConditionalGeneration", {**SPARSE, "first_k_dense_replace": 1, "num_nextn_predict_layers": 0},
                 "language_model.model."),
    "qwen3_5": ("Qwen3_5", "Qwen3_5ForConditionalGeneration", DENSE, "model.language_model."),
}
EYE = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "depth": 1, "num_attention_heads": 2,
       "num_heads": 2, "image_size": 28, "patch_size": 14, "out_hidden_size": 16, "deepstack_visual_indexes": []}


def config_of(name: str, rng: random.Random) -> transformers.PretrainedConfig:
    kind, words = FAMILIES[name]
    layers = rng.randint(2, 5)
    own: dict[str, Any] = {}
    if "linear_num_key_heads" in words:
        own["layer_types"] = rng.sample(["linear_attention", "full_attention"] * layers, layers)
    if "index_topk" in words:
        own.update(first_k_dense_replace=1, mlp_layer_types=["dense"] + ["sparse"] * (layers - 1))
    if name == "deepseek_v3":
        own["q_lora_rank"] = rng.choice((None, 12))
    if name.startswith("glm4_moe"):
        own["mlp_layer_types"] = ["dense"] + ["sparse"] * (layers - 1)
    if name == "deepseek_v4":
        hashed = rng.randint(0, layers)
        own.update(layer_types=rng.choices(V4_LAYERS, k=layers), num_nextn_predict_layers=1,
                   mlp_layer_types=["hash_moe"] * hashed + ["moe"] * (layers - hashed))
    if name == "gemma4_text":
        kinds = ["sliding_attention", "full_attention"]
        has_experts, shares = rng.random() < 0.5, rng.random() < 0.6
        layers = 3 + rng.randint(0, 2) + 2 * shares
        own.update(layer_types=kinds + rng.choices(kinds, k=layers - 3) + kinds[1:], num_kv_shared_layers=2 * shares,
                   use_double_wide_mlp=rng.random() < 0.5, enable_moe_block=has_experts,
                   attention_k_eq_v=rng.random() < 0.5, num_global_key_value_heads=rng.choice((None, 1, 2, 4)),
                   hidden_size_per_layer_input=0 if has_experts else rng.choice((0, 4)))
    if name == "nemotron_h":
        own["hybrid_override_pattern"] = "".join(rng.choices("M*-E", k=layers))
    common = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
              "num_key_value_heads": rng.choice((1, 2, 4)), "head_dim": 8, "max_position_embeddings": 64,
              "num_hidden_layers": layers, "tie_word_embeddings": False, "dtype": rng.choice(("float32", "bfloat16")),
              "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return getattr(transformers, f"{kind}Config")(**{**common, **words, **own})


def model_of(config: transformers.PretrainedConfig, seed: int) -> torch.nn.Module:
    return filled(transformers.AutoModelForCausalLM.from_config(config), seed)


def filled(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Norms have values from which 1 can be subtracted without a rest."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.is_floating_point():
                tensor.copy_(1 + torch.randint(-60, 60, tensor.shape) / 128 if "norm" in name else torch.randn(tensor.shape))
    return model


def state_type(hub: Path, model_type: str) -> None:
    """Kimi K2's releases have the class of DeepSeek-V3, and a type of their own."""
    config = json.loads((hub / "config.json").read_text())
    (hub / "config.json").write_text(json.dumps({**config, "model_type": model_type}))


def with_next_layer(hub: Path) -> None:
    """DeepSeek-V4 as it was released, with the layer for multi-token prediction that transformers leaves out."""
    saved = as_released("deepseek_v4", load_file(hub / "model.safetensors"))
    for name, tensor in core_names.layers_of(saved, "")[-1].items():
        if "compressor" not in name and "indexer" not in name and "tid2eid" not in name:
            saved[f"mtp.0.{name}"] = torch.randn(tensor.shape).to(tensor.dtype)
    router = saved["mtp.0.ffn.gate.weight"]
    saved["mtp.0.ffn.gate.bias"] = torch.randn(len(router)).to(saved["hc_head_base"].dtype)
    for name in ("enorm.weight", "hnorm.weight", "norm.weight"):
        saved[f"mtp.0.{name}"] = torch.randn(router.shape[1]).to(router.dtype)
    for name in ("e_proj.weight", "h_proj.weight"):
        saved[f"mtp.0.{name}"] = torch.randn(router.shape[1], router.shape[1]).to(router.dtype)
    for name in ("hc_head_base", "hc_head_fn", "hc_head_scale"):
        saved[f"mtp.0.{name}"] = torch.randn_like(saved[name])
    save_file({name: tensor.contiguous() for name, tensor in saved.items()}, hub / "model.safetensors")


def in_ranks(hub: Path, directory: Path, words: tuple[str, ...], core: core_names.Tensors, layers: int,
             uncut: tuple[str, ...] = ()) -> Counts:
    """Cut for ranks, and joined again; or refused for heads that they cannot share."""
    counts = {"cut and joined": 0, "refused for heads": 0}
    for sizes in SIZES:
        # Ranks have gate and up in a form of their own, and networks differ in the stages of what is no layer.
        globs = (*((*JOINED, *uncut) if sizes != "tp=1" else uncut), *(ENDS if "pp" in sizes else ()))
        left_out = [glob for glob in globs if fnmatch.filter(core, glob)]
        wanted = {name: tensor for name, tensor in core.items()
                  if not any(fnmatch.fnmatchcase(name, glob) for glob in left_out)}
        parts, whole = directory / f"parts {sizes}", directory / f"whole {sizes}"
        try:
            reshardfs("export", hub, parts, *words, "--dst-strategy", sizes, "--views", "ranks",
                      *(word for glob in left_out for word in ("--exclude", glob)),
                      *(("--stage-layers", f"{layers - 1},1") if "pp" in sizes else ()))
        except Refused as error:
            assert "ranks cannot share equally" in str(error), error
            counts["refused for heads"] += 1
            continue
        reshardfs("export", parts, whole, "--src-strategy", parts / ".reshardfs-export.jsonl", "--views", "ranks")
        found = {name: tensor for path in whole.glob("rank_0/*.safetensors") for name, tensor in load_file(path).items()}
        require_same(found, wanted, sizes)
        counts["cut and joined"] += 1
    return {f"transformers: in Megatron-Core's names, {what}": count for what, count in counts.items()}


def megatron(directory: Path, name: str, family: str, seed: int) -> Counts:
    rng = random.Random(seed)
    config = config_of(family, rng)
    hub = directory / "hub"
    model_of(config, seed).save_pretrained(hub)
    state_type(hub, family)
    if family == "deepseek_v4":
        with_next_layer(hub)
    saved = load_file(hub / "model.safetensors")
    expect, has_hybrid = EXPECTED.get(family, (core_names.gpt, True))
    core = expect(config, saved, 64)
    chains = {(): core, ("--map", "megatron-hybrid"): core_names.hybrid(core)} if has_hybrid else {(): core}
    numbered: tuple[str, ...] = ()
    if family in STACKED_LAYERS:
        numbered = ("--map-var", "layers=numbered")
        chains |= {(): core_names.stacked(core), numbered: core}
    if family == "gemma4_text":
        numbered = ("--map-var", "layers=numbered")
        chains = {numbered: core}
        if config.num_kv_shared_layers == 0:
            chains["--map-var", "layers=stacked"] = core_names.stacked(core)
    for behind, expected in chains.items():
        there = ("--map", name, *behind, "--map-var", "padded_vocab=64")
        require_same(exported(hub, directory, *there), expected, " ".join(there))
        (directory / "shown.safetensors").rename(directory / "core.safetensors")
        # By chance, all layers may be alike.
        form = ("--map-var", "layers=numbered") if "megatron-hybrid" in behind and not numbered else ()
        back = (*behind, "--map", name, *form, "--model-config", hub)
        require_same(exported(directory / "core.safetensors", directory, *back), saved, " ".join(map(str, back)))
        (directory / "core.safetensors").unlink()
        (directory / "shown.safetensors").unlink()
    return {"transformers: as the modules of Megatron-Core have it, and back": len(chains),
            **in_ranks(hub, directory, ("--map", name, "--map-var", "padded_vocab=64", *numbered), core,
                       config.num_hidden_layers, UNCUT.get(family, ()))}


def seeing(directory: Path, name: str, family: str, seed: int) -> Counts:
    """The text model of a model that sees, alone and inside of Megatron-Bridge's."""
    kind, network, words, begin = SEEING[family]
    text = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "num_hidden_layers": 3, **words}
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=EYE, tie_word_embeddings=False,
                                                    projector_hidden_size=16, projection_hidden_size=16)
    hub = directory / "hub"
    filled(getattr(transformers, network)(config), seed).save_pretrained(hub)
    saved = as_released(family, load_file(hub / "model.safetensors"))
    save_file(saved, hub / "model.safetensors")
    names = core_names.text_of(saved, begin)
    assert len(names) < len(saved), "the model sees nothing"
    core = core_names.gpt(config.text_config, {inner: saved[name] for name, inner in names.items()}, 64)
    numbered = ("--map-var", "layers=numbered") if family == "gemma3" else ()
    for behind, expected in {(): core, ("--map", "megatron-vision-language"): core_names.seeing(core)}.items():
        there = ("--map", "vision-language", "--map", name, *behind, "--map-var", "padded_vocab=64", *numbered)
        require_same(exported(hub, directory, *there), expected, " ".join(there))
        (directory / "shown.safetensors").rename(directory / "core.safetensors")
        form = "older" if begin.startswith("language") else "newer"
        back = (*behind, "--map", name, "--map", "vision-language", "--map-var", f"names={form}", "--model-config", hub)
        require_same(exported(directory / "core.safetensors", directory, *back), {name: saved[name] for name in names},
                     " ".join(map(str, back)))
        (directory / "core.safetensors").unlink()
        (directory / "shown.safetensors").unlink()
    return {"transformers: the text model of one that sees, as Megatron-Bridge has it, and back": 2,
            **in_ranks(hub, directory, ("--map", "vision-language", "--map", name, "--map-var", "padded_vocab=64", *numbered),
                       core, 3)}
