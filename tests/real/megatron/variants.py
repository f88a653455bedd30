# SPDX-License-Identifier: Apache-2.0
"""Networks of Megatron-Core whose attention is a variant load what maps make of models of transformers, strictly, and
compute what transformers computes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import forked
import model
import ranks
import torch
import training
import transformers
import truth
from megatron.core import dist_checkpointing
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.experimental_attention_variant_module_specs import (
    get_transformer_block_with_experimental_attention_variant_spec as gpt_spec,
)
from megatron.core.ssm.gated_delta_net import common
from megatron.core.transformer.experimental_attention_variant import dsa
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
from product import reshardfs
from settings import VOCABULARY, Settings, fields

Counts = dict[str, int]
# By variant: the class of transformers and what it has beside the numbers of all, what the network of Megatron-Core
# has beside those of Settings, and the map.
VARIANTS: dict[str, tuple[str, dict[str, Any], Settings, dict[str, Any], str]] = {
    "gated delta nets": (
        "Qwen3_5Text",
        {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 6,
         "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention", "full_attention"] * 2,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
                             "mrope_section": [1, 1, 0]}},
        Settings(family="qwen3", layers=4, numbered=True),
        {"experimental_attention_variant": "gated_delta_net", "linear_attention_freq": [1, 0, 1, 0],
         "linear_conv_kernel_dim": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 6, "linear_num_key_heads": 2,
         "linear_num_value_heads": 4, "attention_output_gate": True, "layernorm_zero_centered_gamma": True,
         "deterministic_mode": True},
        "megatron-qwen35"),
    "sparse attention": (
        "DeepseekV32",
        {"head_dim": 4, "num_key_value_heads": 4, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_nope_head_dim": 8,
         "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
         "n_group": 1, "topk_group": 1, "moe_intermediate_size": 12, "index_n_heads": 2, "index_head_dim": 8,
         "index_topk": 32, "first_k_dense_replace": 1, "num_hidden_layers": 3, "num_nextn_predict_layers": 0,
         "routed_scaling_factor": 2.5},
        Settings(family="deepseek-v3", layers=3, numbered=True),
        {"experimental_attention_variant": "dsa", "dsa_indexer_n_heads": 2, "dsa_indexer_head_dim": 8,
         "dsa_indexer_topk": 32},
        "megatron-deepseek-v32"),
}

# Of the HybridModels.
PATTERNS = {"gated delta nets": "G-*-G-*-", "sparse attention": "D-DEDE"}


def stand_in() -> None:
    """For flash-linear-attention, whose place Megatron-Core's own arithmetic takes but for this, and for a rotation of
    queries and keys of an indexer, which changes no product of the two."""
    os.environ["NVTE_ALLOW_NONDETERMINISTIC_ALGO"] = "0"
    common.HAVE_FLA = True
    dsa.rotate_activation = lambda value: value
    common.l2norm = lambda value, dim=-1, eps=1e-6: value * torch.rsqrt(value.pow(2).sum(dim, keepdim=True) + eps)


def build(variant: str, pattern: str) -> torch.nn.Module:
    _, _, settings, words, _ = VARIANTS[variant]
    stand_in()
    kind = MLATransformerConfig if settings.family == "deepseek-v3" else TransformerConfig
    config = kind(**{**fields(settings), **words}, activation_func=torch.nn.functional.silu,
                  params_dtype=torch.float32, pipeline_dtype=torch.float32, use_cpu_initialization=True,
                  hidden_dropout=0.0, attention_dropout=0.0, bias_activation_fusion=False, persist_layer_norm=False,
                  masked_softmax_fusion=False, apply_rope_fusion=False)
    config.hetereogenous_dist_checkpoint = True
    is_delta = "linear_num_key_heads" in words
    if pattern:
        from megatron.core.models.hybrid.hybrid_layer_specs import hybrid_stack_spec
        from megatron.core.models.hybrid.hybrid_model import HybridModel

        config.num_layers = len(pattern)
        return HybridModel(config, hybrid_stack_spec, settings.padded, 64, hybrid_layer_pattern=pattern,
                           parallel_output=False, share_embeddings_and_output_weights=False,
                           position_embedding_type="rope", rotary_base=10000, rotary_percent=0.5 if is_delta else 1.0)
    return GPTModel(config, gpt_spec(config), settings.padded, 64, parallel_output=False,
                    share_embeddings_and_output_weights=False, position_embedding_type="rope", rotary_base=10000,
                    rotary_percent=0.5 if is_delta else 1.0)


def compute(settings: Settings, variant: str, pattern: str, source: Path, output: Path) -> None:
    network = build(variant, pattern)
    state = dist_checkpointing.load({"model": training.state_of(network, settings)}, str(source), strict="raise_all")
    network.load_state_dict(state["model"])
    with torch.no_grad():
        logits = network.eval()(truth.tokens(), torch.arange(truth.LENGTH).unsqueeze(0), None)
    torch.save(logits[..., :VOCABULARY].float(), output)


@torch.no_grad()
def make_hub(variant: str, folder: Path, output: Path) -> None:
    name, words, *_ = VARIANTS[variant]
    config = getattr(transformers, f"{name}Config")(**{
        "vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "num_hidden_layers": 4,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "dtype": "float32",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, **words})
    network = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    torch.manual_seed(3)
    for parameter_name, parameter in (*network.named_parameters(), *network.named_buffers()):
        if parameter.is_floating_point() and "inv_freq" not in parameter_name:
            centre = 1 if parameter.dim() == 1 and ("linear_attn.norm" in parameter_name or "qwen" not in config.model_type
                                                    and "norm" in parameter_name) else 0
            parameter.copy_(centre + torch.randn(parameter.shape) * 0.2)
    network.save_pretrained(folder)
    torch.save(network.eval()(truth.tokens()).logits, output)


def variant_run(directory: Path, variant: str) -> Counts:
    _, _, settings, _, name = VARIANTS[variant]
    hub = directory / "hub"
    forked.alone(make_hub, variant, hub, directory / "theirs.pt")
    for pattern in ("", PATTERNS[variant]):
        start = directory / f"start{len(pattern)}"
        behind = ("--map", "megatron-hybrid", "--map-var", "num_attention_heads=4") if pattern else ()
        reshardfs("export", hub, start, "--map", name, *behind, "--views", "megatron", "--map-var",
                  f"padded_vocab={settings.padded}", "--map-var", "attention_states=0")
        ranks.run(settings, compute, variant, pattern, start / "megatron/release", directory / "own.pt")
        one, other = torch.load(directory / "theirs.pt"), torch.load(directory / "own.pt")
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4), f"{pattern}: logits differ by {(one - other).abs().max()}"
    return {"Megatron loads --views megatron of a variant of attention, and computes what transformers does": 2}
