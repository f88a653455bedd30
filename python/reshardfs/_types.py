# SPDX-License-Identifier: Apache-2.0
"""Element types: what NumPy, PyTorch and MindSpore call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

# NumPy has no bfloat16 and no 8-bit floating types: bytes of that width stand for them, as in .npy files.
_RAW = {"bfloat16": "<V2", "float8_e5m2": "|V1", "float8_e4m3fn": "|V1"}
_NAMED = {"int4": "int8"}


def numpy_dtype(name: str) -> np.dtype:
    """The type of ml_dtypes where NumPy has none, if that is installed."""
    import numpy as np
    if name in _RAW:
        try:
            import ml_dtypes
            return np.dtype(getattr(ml_dtypes, name))
        except ImportError:
            return np.dtype(_RAW[name])
    return np.dtype(_NAMED.get(name, name)).newbyteorder("<")
