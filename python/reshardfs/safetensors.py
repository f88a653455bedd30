# SPDX-License-Identifier: Apache-2.0
"""A checkpoint for programs that are written for safetensors.safe_open()."""

from __future__ import annotations

import os
from typing import Any

from ._checkpoint import Checkpoint, open_checkpoint
from ._errors import WrongValue
from ._tensor import State, Tensor


class Slice:
    """Part of a tensor by an index, as safe_open().get_slice() gives it."""

    _NAMES = {"bool": "BOOL", "bfloat16": "BF16", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3",
              "int4": "I8", "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ",
              "float8_e5m2fnuz": "F8_E5M2FNUZ", "float4_e2m1fn": "F4", "float6_e2m3fn": "F6_E2M3",
              "float6_e3m2fn": "F6_E3M2"}

    def __init__(self, lazy: Tensor, framework: str, device: Any) -> None:
        self._lazy, self._framework, self._device = lazy, framework, device

    def get_shape(self) -> list[int]:
        return list(self._lazy.shape)

    def get_dtype(self) -> str:
        """As a header of safetensors has it: "F32", "BF16", ..."""
        name = self._lazy.dtype
        return self._NAMES.get(name) or name[0].upper() + "".join(filter(str.isdigit, name))

    def __getitem__(self, index: Any) -> Any:
        array = self._lazy[index]
        return array if self._framework == "numpy" else _torch_of(array, self._lazy, self._device)


class safe_open:  # noqa: N801: as safetensors has it
    """The tensors of a target rank, or, without a rank, of the whole model; as of a safetensors file.

    source: an opened checkpoint, the tensors of a rank, or what open() takes, with its options.
    framework: "pt" for PyTorch, "np" for NumPy. A context manager.
    """

    def __init__(self, source: Checkpoint | State | str | os.PathLike[str], framework: str = "np",
                 device: Any = "cpu", *, rank: int | None = None, **options: Any) -> None:
        known = {"pt": "torch", "torch": "torch", "pytorch": "torch", "np": "numpy", "numpy": "numpy"}
        if not isinstance(framework, str) or framework not in known:
            raise WrongValue(f"there is no framework '{framework}'; it is 'pt' or 'np'")
        self._framework, self._device = known[framework], device
        self._opened: Checkpoint | None = None
        if isinstance(source, State):
            self._state = source
            return
        if isinstance(source, Checkpoint):
            checkpoint = source
        else:
            checkpoint = self._opened = open_checkpoint(source, **options)
        self._state = checkpoint.merged if rank is None else checkpoint.rank(rank)

    def keys(self) -> list[str]:
        """The names of all arrays; a safetensors file has no texts and maps."""
        return self._state.arrays()

    def offset_keys(self) -> list[str]:
        return self.keys()

    def metadata(self) -> dict[str, str]:
        """What the source's headers state, with the format of this framework."""
        return {**self._state.metadata(), "format": "pt" if self._framework == "torch" else "np"}

    def get_tensor(self, name: str) -> Any:
        lazy = self._state[name]
        if self._framework == "numpy":
            return lazy.numpy()
        from . import torch
        return torch.tensor(lazy).to(self._device)

    def get_slice(self, name: str) -> Slice:
        return Slice(self._state[name], self._framework, self._device)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened is not None:
            self._opened.close()


def _torch_of(array: Any, lazy: Tensor, device: Any) -> Any:
    import numpy as np
    import torch

    from .torch import _dtype
    whole = np.ascontiguousarray(array)
    # A copy of what has no dimensions is an array of one.
    flat = torch.from_numpy(whole.reshape(-1).view(np.uint8)) if whole.size else torch.empty(0, dtype=torch.uint8)
    return flat.view(_dtype(lazy)).reshape(array.shape).to(device)
