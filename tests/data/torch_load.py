# SPDX-License-Identifier: Apache-2.0
"""Loads a file with torch.load in every way that this PyTorch has, and tells what it got.

torch_load.py FILE: prints JSON: {"release", "ways": {way: {name: [type, shape, hexadecimal bytes, storage]}}}.
Tensors of one storage have the same number there. ImportError where there is no PyTorch."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import torch

warnings.simplefilter("ignore")
WAYS: dict[str, dict[str, Any]] = {
    "plain": {}, "weights": {"weights_only": True}, "objects": {"weights_only": False},
    "mapped": {"weights_only": True, "mmap": True}}


def bytes_of(tensor: torch.Tensor) -> str:
    if tensor.numel() == 0:
        return ""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hex()


def place_of(tensor: torch.Tensor) -> int:
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return int(storage.data_ptr())


def main() -> None:
    release = tuple(map(int, torch.__version__.split(".")[:2]))
    ways: dict[str, dict[str, list[Any]]] = {}
    for way, words in WAYS.items():
        if "mmap" in words and release < (2, 1):
            continue
        loaded = torch.load(sys.argv[1], **words)
        assert type(loaded).__name__ == "OrderedDict", type(loaded)
        places: dict[int, int] = {}
        ways[way] = {name: [str(tensor.dtype)[len("torch."):], list(tensor.shape), bytes_of(tensor),
                            places.setdefault(place_of(tensor), len(places)) if tensor.numel() else -1]
                     for name, tensor in loaded.items()}
        assert all(tensor.is_contiguous() and not tensor.requires_grad for tensor in loaded.values())
    print(json.dumps({"release": torch.__version__, "ways": ways}))


main()
