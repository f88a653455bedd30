# SPDX-License-Identifier: Apache-2.0
"""Small models of the types that transformers has, in the form of files on the hub and in its own: what maps make of
one is the other, and tensor parallelism cuts them as the types' plans say."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import torch
import transformers
from product import Refused, reshardfs
from safetensors.torch import load_file
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

Counts = dict[str, int]
Tensors = dict[str, torch.Tensor]

CAUSAL = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
SEEING = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
MAPS = Path(__file__).resolve().parents[3] / "config/maps"
TABLE = MAPS / "parts/transformers-tp.toml"

# Where files have w1, w2 and w3 as in Mixtral.
OTHER_MAPS = {name: "packed-experts-mixtral" for name in ("minimax", "minimax_m2", "mixtral")}
# Releases with a type of their own, and the class of another.
CLASSES_OF = {"kimi_k2": "deepseek_v3"}
# transformers 5.24.0 saves DeepSeek-V4 with a prefix that the released files do not have, and with another name for the
# norm of keys.
RELEASED = {"model.embed_tokens.weight": "embed.weight", "model.norm.weight": "norm.weight"}
# What the plans of these types say of attention is less than what maps to frameworks that train them state.
STATED_BY_MAPS = {"deepseek_v3", "glm4_moe_lite", "gpt_oss", "kimi_k2", "kimi_k25"}
# Of which transformers has no plan, and vLLM has classes.
CUT_BY_VLLM = {"bloom", "falcon", "opt"}

SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 32, "max_position_embeddings": 64, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
    "num_experts": 3, "num_local_experts": 3, "n_routed_experts": 3, "moe_num_experts": 3, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "moe_shared_expert_intermediate_size": 16,
    "n_shared_experts": 1, "dense_intermediate_size": 48, "shared_intermediate_size": 16, "projector_hidden_size": 32,
    "merged_hidden_size": 128, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16,
    "qk_head_dim": 16, "index_n_heads": 2, "index_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 16, "mamba_num_heads": 4, "mamba_head_dim": 16,
    "ssm_state_size": 8, "n_groups": 2, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 32,
    "new_decoder_architecture": True, "num_kv_heads": 2}
VISION_SIZES: dict[str, Any] = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "depth": 1, "num_attention_heads": 2,
    "num_heads": 2, "image_size": 16, "patch_size": 4, "out_hidden_size": 32, "num_position_embeddings": 16,
    "position_embedding_size": 16, "projection_dim": 32, "init_pos_emb_height": 4, "init_pos_emb_width": 4}

# What the defaults of a class have no layers of.
KINDS = {"minimax_m3_vl": {"layer_types": ["full_attention", "minimax_m3_sparse"], "mlp_layer_types": ["dense", "sparse"]}}


def both_kinds(layers: list[str]) -> list[str]:
    kinds = list(dict.fromkeys(layers))
    return (kinds + kinds)[:2]


def shrink(config: transformers.PretrainedConfig, sizes: dict[str, Any]) -> None:
    values = config.__dict__
    for key, size in sizes.items():
        if key in values and not isinstance(values[key], (list, dict)):
            try:
                setattr(config, key, size)
            except (AttributeError, TypeError, ValueError):
                pass  # it follows from others
    for key, value in list(values.items()):
        if isinstance(value, transformers.PretrainedConfig):
            shrink(value, VISION_SIZES if "vision" in key else SIZES)
        elif key in ("layer_types", "mlp_layer_types", "layers_block_type") and isinstance(value, list):
            values[key] = both_kinds(value)


def small_model(model_type: str, seed: int) -> torch.nn.Module:
    model_type = CLASSES_OF.get(model_type, model_type)
    name = SEEING.get(model_type) or CAUSAL[model_type]
    config = CONFIG_MAPPING[model_type]()
    shrink(config, SIZES)
    for key, kinds in KINDS.get(model_type, {}).items():
        setattr(config.text_config, key, kinds)
    config.architectures = [name]
    model = getattr(transformers, name)(config).to(torch.bfloat16)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            if parameter.is_floating_point():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def tensors_of(directory: Path) -> Tensors:
    return {name: tensor for path in sorted(directory.glob("*.safetensors"))
            for name, tensor in load_file(path).items()}


def require_same(found: Tensors, expected: Tensors, where: str) -> None:
    assert found.keys() == expected.keys(), f"{where}: {sorted(found.keys() ^ expected.keys())[:8]}"
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, f"{where}: {name} is {found[name].dtype}"
        assert found[name].shape == tensor.shape, f"{where}: {name} is {tuple(found[name].shape)}"
        equal = torch.equal(found[name].view(torch.uint8), tensor.view(torch.uint8)) if tensor.dim() else \
            torch.equal(found[name], tensor)
        assert equal, f"{where}: {name} has other values"


def as_released(model_type: str, tensors: Tensors) -> Tensors:
    """What a file on the hub has of it."""
    names = {name: name for name in tensors}
    for name in names:
        if model_type == "deepseek_v4":
            new = RELEASED.get(name, name.removeprefix("model.").replace("hc_head.hc_", "hc_head_"))
            names[name] = new.replace(".attn.norm.", ".attn.kv_norm.")
        elif model_type == "kimi_k25":
            names[name] = name.replace("language_model.model.blocks.", "language_model.model.layers.")
    return {names[name]: tensor for name, tensor in tensors.items()}


def shown(source: Path, output: Path, *words: Any) -> Tensors:
    reshardfs("export", source, output, "--views", "ranks", *words)
    return tensors_of(output / "rank_0")


def refusal(*words: Any) -> str:
    """What the command says; empty if it succeeds."""
    try:
        reshardfs(*words)
    except Refused as error:
        return str(error)
    return ""


def expected_dimension(style: str, name: str, shape: tuple[int, ...]) -> int | None:
    if style.startswith("colwise") or style == "embedding_rowwise":
        return max(0, len(shape) - 2)
    if style.startswith("rowwise") or style == "embedding_colwise":
        return None if name.endswith(".bias") else len(shape) - 1
    return None


def style_of(name: str, plan: dict[str, str]) -> str:
    module = name.removesuffix(".weight").removesuffix(".bias")
    return plan.get(".".join("*" if part.isdigit() else part for part in module.split(".")), "")


def require_plan(model: torch.nn.Module, whole: Tensors, part: Tensors, where: str) -> int:
    plan = {str(key): str(style) for key, style in (model._tp_plan or {}).items()}
    count = 0
    for name, tensor in whole.items():
        style = style_of(name, plan)
        if ".experts." in name or style.startswith("packed"):
            continue  # expert parallelism cuts them
        shape = list(tensor.shape)
        dimension = expected_dimension(style, name, tuple(shape))
        if dimension is not None and shape != [1] * len(shape):
            shape[dimension] //= 2
            count += 1
        assert list(part[name].shape) == shape, f"{where}: {name} is cut to {tuple(part[name].shape)}, {style or 'whole'}"
    return count


def in_parts(model: torch.nn.Module, form: Path, directory: Path, names: bool) -> str:
    """tp=2, and back; what it is refused for."""
    words = refusal("export", form, directory / "parts", "--dst-strategy", "tp=2")
    if words:
        assert "'tp=2' does not say how to cut" in words, words
        return words
    back = directory / "whole"
    reshardfs("export", directory / "parts", back, "--views", "hf", "--src-strategy",
              directory / "parts/.reshardfs-export.jsonl")
    whole = tensors_of(form)
    require_same(tensors_of(back / "hf"), whole, f"{form.name} in two parts, and back")
    if names:
        require_plan(model, whole, tensors_of(directory / "parts/rank_0"), form.name)
    return ""


def forms(directory: Path, model_type: str, seed: int) -> Counts:
    counts: Counts = {}

    def count(what: str) -> None:
        counts[what] = counts.get(what, 0) + 1

    model = small_model(model_type, seed)
    hub, packed = directory / "hub", directory / "packed"
    model.save_pretrained(hub, save_original_format=True)
    model.save_pretrained(packed, save_original_format=False)
    for form in (hub, packed) if model_type in CLASSES_OF else ():
        config = json.loads((form / "config.json").read_text())
        (form / "config.json").write_text(json.dumps({**config, "model_type": model_type}))
    for form in (hub, packed):
        place = directory / f"in-{form.name}"
        refused = in_parts(model, form, place, form is packed and model_type not in STATED_BY_MAPS | CUT_BY_VLLM)
        count("families: tp=2 is refused" if refused else "families: tp=2 and back, cut as the plan says")
    files, own = tensors_of(hub), tensors_of(packed)
    name = OTHER_MAPS.get(model_type, "packed-experts")
    is_stated = model_type in tomllib.loads((MAPS / f"{name}.toml").read_text())["types"]
    if files.keys() == own.keys():
        assert not is_stated, f"{name} is for {model_type}, which has one form"
        return counts
    words = refusal("plan", hub, "--map", name)
    if words:
        assert not is_stated, words
        assert "is not for model_type" in words or "no rule of the map takes" in words, words
        assert refusal("plan", packed, "--map", "auto"), "--map auto takes a map of another type"
        count("families: no map is for the type")
        return counts
    require_same(shown(hub, directory / "there", "--map", name), own, "as in memory")
    require_same(shown(packed, directory / "back", "--map", name), as_released(model_type, files), "as on the hub")
    require_same(shown(packed, directory / "auto", "--map", "auto"), as_released(model_type, files), "--map auto")
    count("families: both forms by maps, and by --map auto")
    return counts


def plans(directory: Path) -> Counts:
    """The table has what the configuration classes state."""
    del directory
    table = tomllib.loads(TABLE.read_text())
    count = 0
    # Those of vLLM, which name a source, are those of vllm/judge.py.
    tables = [plan for plan in table["plan"] if "source" not in plan]
    for model_type in {one for plan in tables for one in plan["types"]}:
        own = [plan for plan in tables if model_type in plan["types"]]
        for key, style in CONFIG_MAPPING[model_type].base_model_tp_plan.items():
            if ".experts" in key or key in table["embeddings"]:
                continue
            found = {part for part in ("rows", "columns", "packed") for plan in own
                     if any(matches(pattern, key) for pattern in plan.get(part, ()))}
            wanted = "packed" if style.startswith("packed") else \
                {0: "rows", 1: "columns"}.get(expected_dimension(style, key, (2, 2)), "")
            assert found == ({wanted} if wanted else set()), f"{model_type}: {key} is '{style}', and the table says {found}"
            count += 1
    return {"families: modules whose cuts are those of the plan": count}


def matches(pattern: str, key: str) -> bool:
    words = re.sub(r"\\{w:([^}]*)\\}", lambda found: f"({found[1]})", re.escape(pattern).replace(r"\|", "|"))
    return re.fullmatch(re.sub(r"\\{\w+\\}", r"\\*", words), key) is not None
