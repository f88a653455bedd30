# SPDX-License-Identifier: Apache-2.0
"""Networks of MindFormers for training, built as a training builds them: of its YAML file and a config.json."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stand_ins  # before MindFormers
import mindspore as ms
import numpy as np
import yaml
from files import SAFETENSORS_TYPES, Entry
from hub import Model, Tensors
from mindformers import AutoModelForCausalLM, MindFormerConfig
from mindformers.core.context.build_context import build_context, set_context
from truth import Settings

assert stand_ins
MAPS = {"qwen3": "mindformers-qwen3", "qwen3_moe": "mindformers-qwen3-moe", "telechat3": "mindformers-telechat3",
        "deepseek_v3": "mindformers-deepseek-v3", "telechat3_moe": "mindformers-telechat3-moe"}
KEYS = {"interleaved": "use_interleaved_weight_layout_mlp", "contiguous": "use_contiguous_weight_layout_attention",
        "joined": "mla_qkv_concat"}
# What a training counts beside its weights.
COUNTERS = (".mlp.router.fi_accu", ".mlp.router.expert_load", ".mlp.tokens_per_expert")
RUN = {"use_legacy": False, "run_mode": "finetune", "use_parallel": False,
       "context": {"mode": 0, "device_target": "CPU"},
       "parallel": {"parallel_mode": "STAND_ALONE", "full_batch": True},
       "parallel_config": {"data_parallel": 1, "model_parallel": 1, "pipeline_stage": 1}}
TYPES = {**dict.fromkeys(("params_dtype", "compute_dtype", "layernorm_compute_dtype", "softmax_compute_dtype",
                          "rotary_dtype"), "float32"), "seq_length": 16, "moe_grouped_gemm": True}

build_context({**RUN, "context": dict(RUN["context"])})


@contextlib.contextmanager
def in_mode(mode: int) -> Iterator[None]:
    set_context(mode=mode)
    try:
        yield
    finally:
        set_context(mode=0)


def applies(setting: str, family: str) -> bool:
    """Experts are never interleaved, and Qwen3-MoE has no layers without them."""
    return {"interleaved": family != "qwen3_moe", "joined": family in ("deepseek_v3", "telechat3_moe"),
            "contiguous": family in ("qwen3", "qwen3_moe", "telechat3")}[setting]


class Training:
    """A model, and settings of which the YAML file states some; the others have the defaults of the release.
    PyNative networks (mode 1) have these defaults whatever the file states; only `contrary` states another."""

    def __init__(self, directory: Path, model: Model, seed: int, mode: int = 0, contrary: str = "") -> None:
        rng = random.Random(seed)
        self.model, self.mode = model, mode
        self.hub = directory / "hub"
        self.yaml = directory / "run.yaml"
        stated = {name: rng.choice((True, False, None)) for name in KEYS if applies(name, model.family)}
        if mode == 1:
            stated = {name: None if value is None else getattr(Settings(), name) for name, value in stated.items()}
        self.stated = {name: value for name, value in stated.items() if value is not None}
        self.settings = Settings(**self.stated, pynative=mode == 1)
        if contrary:
            self.stated[contrary] = not getattr(self.settings, contrary)
        more: dict[str, Any] = {KEYS[name]: value for name, value in self.stated.items()}
        if "kv_lora_rank" in model.config:
            more["qk_layernorm"] = True
            if model.family == "telechat3_moe":  # the program does not take them from its config.json
                more |= {"qk_head_dim": model.config["qk_nope_head_dim"],
                         "qk_pos_emb_head_dim": model.config["qk_rope_head_dim"]}
        if model.config.get("tie_word_embeddings"):
            more["untie_embeddings_and_output_weights"] = False
        model.write(self.hub)
        run = {**RUN, "pretrained_model_dir": str(self.hub), "model": {"model_config": {**TYPES, **more}},
               "context": {**RUN["context"], "mode": mode}}
        self.yaml.write_text(yaml.safe_dump(run))

    def network(self) -> ms.nn.Cell:
        with in_mode(self.mode):
            return AutoModelForCausalLM.from_config(MindFormerConfig(str(self.yaml)))

    def words(self) -> list[str]:
        """For reshardfs: joined has no default."""
        words = ["--map", MAPS[self.model.family], "--model-config", str(self.hub), "--training-config",
                 str(self.yaml), "--map-var", "release=2.1"]
        if "joined" not in self.stated and applies("joined", self.model.family):
            words += ["--map-var", f"joined={int(self.settings.joined)}"]
        return words


def is_counter(name: str) -> bool:
    return name.endswith(COUNTERS)


def weights(network: ms.nn.Cell) -> dict[str, Entry]:
    """Without counters."""
    return {name: entry(parameter) for name, parameter in network.parameters_dict().items() if not is_counter(name)}


def entry(parameter: ms.Parameter) -> Entry:
    return Entry(str(parameter.dtype), tuple(parameter.shape), parameter.asnumpy().tobytes())


def entries(tensors: Tensors) -> dict[str, Entry]:
    names = {"float32": "F32", "int32": "I32"}
    return {name: Entry(SAFETENSORS_TYPES[names[str(tensor.dtype)]], tuple(tensor.shape), tensor.tobytes())
            for name, tensor in tensors.items()}


def load(network: ms.nn.Cell, path: Path) -> None:
    """Strictly: only counters are not in the file."""
    missing, unused = ms.load_param_into_net(network, ms.load_checkpoint(str(path), format="safetensors"),
                                             strict_load=True)
    missing = [name for name in missing if not is_counter(name)]
    assert not missing and not unused, f"not loaded: {missing}; without a parameter: {unused}"


def fill(network: ms.nn.Cell, tensors: Tensors, seed: int) -> None:
    """With the tensors, and counters at random."""
    values = np.random.default_rng(seed)
    for name, parameter in network.parameters_dict().items():
        value = values.standard_normal(parameter.shape).astype("f4") if is_counter(name) else tensors[name]
        parameter.set_data(ms.Tensor(value))
