# SPDX-License-Identifier: Apache-2.0
"""vLLM's loader of weights, with reshardfs instead of files of safetensors."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import reshardfs
import reshardfs.torch
import torch
from torch import nn
from vllm.config import ModelConfig
from vllm.config.load import LoadConfig
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader


@register_model_loader("reshardfs")
class ReshardfsLoader(DefaultModelLoader):
    """Gives each worker the whole tensors in the order of the source, as vLLM's own loader does, which says what is
    missing. config.json and the tokenizer are those of the model that vLLM was called with."""

    def __init__(self, load_config: LoadConfig) -> None:
        given = load_config.model_loader_extra_config
        if not isinstance(given, dict) or not isinstance(given.get("source"), str) or not given["source"]:
            raise ValueError("--load-format reshardfs needs --model-loader-extra-config '{\"source\": DIR}', beside which "
                             "may stand the options of reshardfs.open(), such as \"map\"")
        # vLLM's loader refuses what it does not know.
        plain = copy.copy(load_config)
        plain.model_loader_extra_config = {}
        super().__init__(plain)
        self._options: dict[str, Any] = {"weights_only": True, **given}

    def download_model(self, model_config: ModelConfig) -> None:
        pass

    # Of vLLM's loaders that filter experts.
    local_expert_ids: set[int] | None = None

    def get_all_weights(self, model_config: ModelConfig, model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
        if getattr(model, "secondary_weights", ()):
            raise ValueError(f"{type(model).__name__} takes weights from a second model, which --load-format reshardfs "
                             "cannot give: mount the checkpoint, and serve its hf/")
        options = dict(self._options)
        if "map" in options and Path(model_config.model).is_dir():
            options.setdefault("model_config", model_config.model)
        with reshardfs.open(options.pop("source"), **options) as checkpoint:
            names = checkpoint.merged.arrays()
            if self.local_expert_ids is not None:  # and vLLM wants no others read
                from vllm.model_executor.model_loader.ep_weight_filter import should_skip_weight

                names = [name for name in names if not should_skip_weight(name, self.local_expert_ids)]
            yield from reshardfs.torch.stream(checkpoint, names=names)
