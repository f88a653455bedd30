# SPDX-License-Identifier: Apache-2.0
"""vLLM's loader of weights, plugins and their settings, as they are, without the engine, which needs a GPU and a hundred
packages: all other modules of vLLM are played."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path

import absent

REAL = ("vllm.config.load", "vllm.config.utils", "vllm.envs", "vllm.logger", "vllm.logging_utils",
        "vllm.model_executor.model_loader", "vllm.model_executor.model_loader.base_loader",
        "vllm.model_executor.model_loader.default_loader",
        "vllm.model_executor.model_loader.ep_weight_filter", "vllm.model_executor.parameter", "vllm.plugins",
        "vllm.scalar_type",
        "vllm.model_executor.layers.quantization.compressed_tensors.schemes.compressed_tensors_wNa16",
        "vllm.model_executor.layers.quantization.utils.marlin_utils")
FOLDER = Path(importlib.util.find_spec("vllm").submodule_search_locations[0])


class Finder(absent.Finder):
    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        is_real = name in REAL or name.startswith("vllm.logging_utils.")
        return None if is_real else super().find_spec(name, path, target)

    def exec_module(self, module: types.ModuleType) -> None:
        # A package's real modules are found in it.
        module.__path__ = [str(FOLDER.joinpath(*module.__name__.split(".")[1:]))]


sys.meta_path.insert(0, Finder(("vllm", "compressed_tensors")))
