# SPDX-License-Identifier: Apache-2.0
"""The cases of transformers, accelerate and verl. Imported by the driver: the standard library only."""

from __future__ import annotations

import random
from collections.abc import Iterator

from jobs import Form, Job

# Those of through_maps.py.
SEEING = ("kimi_k25", "minimax_m3", "qwen3_5")
MAPPED = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "deepseek_v32", "glm_moe_dsa", "nemotron_h",
          "deepseek_v4", "gemma4_text")
# Of each kind of names and forms one, and of those that people train now all.
FAMILIES = ("bailing_hybrid", "deepseek_v3", "deepseek_v32", "deepseek_v4", "ernie4_5_moe", "exaone_moe", "gemma3",
            "gemma4", "glm4v_moe", "glm5_next", "glm_moe_dsa", "gpt_oss", "granitemoe", "hy_v3", "kimi_k25",
            "kimi_linear", "llama", "llama4", "llava", "minimax_m2", "mistral3", "mixtral", "nemotron_h", "olmo3",
            "olmo_hybrid", "phi3", "phimoe", "qwen2_5_vl", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next",
            "sarvam_moe", "smollm3", "step3p7")
MORE_FAMILIES = ("afmoe", "apertus", "arcee", "aria", "aria_text", "axk1", "axk2", "aya_vision", "beam", "bloom", "cohere2_moe",
                 "deepseek_v2", "dots1", "ernie4_5", "exaone4", "falcon", "flex_olmo", "flint", "fuyu", "gemma4_unified",
                 "glm4", "glm46v", "glm4_moe", "glm4_moe_lite", "got_ocr2", "granite", "granitemoeshared",
                 "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v4", "jamba", "kolibri1", "lfm2", "lfm3", "llava_next",
                 "llava_onevision", "mellum", "mimo_v2_flash", "minimax", "ministral3", "mistral4", "mistral_large4", "mllama",
                 "olmoe", "opt", "paligemma", "phi4_multimodal", "qwen2_moe", "qwen3_vl", "qwen3_vl_moe", "sarvam_mla", "seed_oss",
                 "solar_open", "starcoder2", "video_llava", "vipllava")
# Of golden_precision, those that have all tensors of a model.
QUANTIZED = ("ct_fp8_mixed", "ct_int8_w8a8", "ct_mxfp4", "ct_nvfp4", "ct_w4a16_asym_odd", "ct_w4a16_sym", "dsv4_flash",
             "gptoss_mxfp4", "hf_fp8_packed", "hf_mxfp8", "mo_nvfp4")


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
    for family in MAPPED:
        for _ in range(max(1, form.pairs // 40)):
            seed = rng.randrange(1 << 30)
            yield Job(f"{family} {seed}", "through_maps.megatron", {"family": family, "seed": seed})
    for family in SEEING:
        yield Job(f"{family} that sees", "through_maps.seeing", {"family": family, "seed": form.seed})
    for what in ("mindspore", "blocks", "mxfp4"):
        yield Job(f"live model of {what}", f"live_sources.{what}")
    for stage in (2, 3):
        yield Job(f"live model of DeepSpeed {stage}", "live_sources.deepspeed", {"stage": stage})
    yield Job("without a mount", "without_mount.fsspec")
