# SPDX-License-Identifier: Apache-2.0
"""The cases of transformers, accelerate and verl. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator

from jobs import Form, Job

# By map, the types that go through it. packaging/family_table.py reads these tables.
MAPPED = {
    "megatron-llama": ("llama", "mistral", "qwen2", "qwen3"), "megatron-gemma3": ("gemma3_text",),
    "megatron-qwen3-moe": ("qwen3_moe",), "megatron-mixtral": ("mixtral",), "megatron-minimax-m2": ("minimax_m2",),
    "megatron-gpt-oss": ("gpt_oss",), "megatron-glm4-moe": ("glm4_moe",),
    "megatron-deepseek-v3": ("deepseek_v3", "glm4_moe_lite", "kimi_k2"),
    "megatron-deepseek-v32": ("deepseek_v32", "glm_moe_dsa"), "megatron-deepseek-v4": ("deepseek_v4",),
    "megatron-qwen3-next": ("qwen3_next",), "megatron-qwen35": ("qwen3_5_text", "qwen3_5_moe_text"),
    "megatron-gemma4": ("gemma4_text",), "megatron-nemotron-h": ("nemotron_h",)}
# Models that see, whose text models go through vision-language and the map.
SEEING = {"megatron-gemma3": ("gemma3",), "megatron-deepseek-v3": ("kimi_k25",),
          "megatron-minimax-m3": ("minimax_m3_vl",), "megatron-qwen35": ("qwen3_5",)}
# Those of other_forms.py.
OTHER_FORMS = {
    "megatron-ranks-llama": ("llama", "mistral", "qwen2", "qwen3"), "vllm-llama": ("llama", "mistral", "qwen2", "qwen3"),
    "vllm-llama-no-scales": ("llama", "mistral", "qwen2", "qwen3"), "meta-llama": ("llama", "mistral"),
    "torchtitan-llama": ("llama",), "torchtitan-qwen3": ("qwen3",), "mindformers-llama": ("llama", "mistral", "qwen2"),
    "mindformers-llama-qkv-concat": ("llama", "mistral", "qwen2"), "mindformers-mixtral": ("mixtral",),
    "mindformers-mixtral-gmm": ("mixtral",)}
# Of each kind of names and forms one, and of those that people train now all.
FAMILIES = ("bailing_hybrid", "deepseek_v3", "deepseek_v32", "deepseek_v4", "ernie4_5_moe", "exaone_moe", "gemma3",
            "gemma4", "glm4v_moe", "glm5_next", "glm_moe_dsa", "gpt_oss", "granitemoe", "hy_v3", "kimi_k25",
            "kimi_linear", "llama", "llama4", "llava", "minimax_m2", "minimax_m3_vl", "mistral3", "mixtral", "nemotron_h", "olmo3",
            "olmo_hybrid", "phi3", "phimoe", "qwen2_5_vl", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next",
            "sarvam_moe", "smollm3", "step3p7")
MORE_FAMILIES = ("afmoe", "apertus", "arcee", "aria", "aria_text", "axk1", "axk2", "aya_vision", "beam", "bloom",
                 "cohere2_moe", "deepseek_v2", "dots1", "ernie4_5", "exaone4", "falcon", "flex_olmo", "flint", "fuyu",
                 "gemma4_unified", "glm4", "glm46v", "glm4_moe", "glm4_moe_lite", "got_ocr2", "granite",
                 "granitemoeshared", "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v4", "jamba", "kimi_k2", "kolibri1",
                 "lfm2", "lfm3", "llava_next", "llava_next_video", "llava_onevision", "mellum", "mimo_v2_flash",
                 "minimax", "ministral3", "mistral4", "mistral_large4", "mllama", "olmoe", "opt", "paligemma",
                 "phi4_multimodal", "pp_chart2table", "qwen2_moe", "qwen3_5_moe_text", "qwen3_vl", "qwen3_vl_moe",
                 "sarvam_mla", "seed_oss", "solar_open", "starcoder2", "video_llava", "vipllava")
# Of golden_precision, those that have all tensors of a model.
QUANTIZED = ("ct_fp8_mixed", "ct_int8_w8a8", "ct_mxfp4", "ct_nvfp4", "ct_w4a16_asym_odd", "ct_w4a16_sym", "dsv4_flash",
             "gptoss_mxfp4", "hf_fp8_packed", "hf_mxfp8", "mo_nvfp4")


def pairs_of(table: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Each map with each of its types."""
    for name, families in table.items():
        for family in families:
            yield name, family


def jobs(program: str, form: Form) -> Iterator[Job]:
    rng = random.Random(form.seed)
    for name in QUANTIZED:
        yield Job(f"quantized {name}", "judge.quantized", {"name": name})
    for name in ("verl", "accelerate", "whole_model"):
        for _ in range(max(2, form.pairs // 20)):
            seed = rng.randrange(1 << 30)
            yield Job(f"{name} {seed}", f"judge.{name}", {"seed": seed})
    yield Job("family plans of tensor parallelism", "families.plans")
    for name in FAMILIES if form.short else FAMILIES + MORE_FAMILIES:
        seed = rng.randrange(1 << 30)
        yield Job(f"family {name} {seed}", "families.forms", {"model_type": name, "seed": seed})
    for name, family in pairs_of(MAPPED):
        for _ in range(max(1, form.pairs // 40)):
            seed = rng.randrange(1 << 30)
            yield Job(f"{name} of {family} {seed}", "through_maps.megatron", {"name": name, "family": family, "seed": seed})
    for name, family in pairs_of(OTHER_FORMS):
        seed = rng.randrange(1 << 30)
        yield Job(f"{name} of {family} {seed}", "other_forms.both_ways", {"name": name, "family": family, "seed": seed})
    for name, family in pairs_of(SEEING):
        yield Job(f"{name} of {family} that sees", "through_maps.seeing", {"name": name, "family": family, "seed": form.seed})
    for what in ("mindspore", "blocks", "mxfp4"):
        yield Job(f"live model of {what}", f"live_sources.{what}")
    for stage in (2, 3):
        yield Job(f"live model of DeepSpeed {stage}", "live_sources.deepspeed", {"stage": stage})
    yield Job("without a mount", "without_mount.fsspec")
