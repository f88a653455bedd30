# SPDX-License-Identifier: Apache-2.0
"""Element types: what NumPy, PyTorch and MindSpore call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._errors import Error

if TYPE_CHECKING:
    import numpy as np

# NumPy has no bfloat16 and no 8-bit floating types: bytes of that width stand for them, as in .npy files.
_RAW = {"bfloat16": "<V2", "float8_e5m2": "|V1", "float8_e4m3fn": "|V1", "float8_e8m0fnu": "|V1",
        "float8_e4m3fnuz": "|V1", "float8_e5m2fnuz": "|V1"}
# Elements of these share bytes, which those of no array do.
_PACKED = ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
_NAMED = {"int4": "int8"}


def numpy_dtype(name: str, parameter: str | None = None) -> np.dtype:
    """The type of ml_dtypes where NumPy has none, if that is installed.

    Raises Error for packed types."""
    import numpy as np
    if name in _PACKED:
        place = "" if parameter is None else f"parameter '{parameter}': "
        raise Error(f"{place}NumPy has no elements of type {name}, which share bytes; read() gives the bytes",
                    "unsupported", parameter=parameter, hint="read() gives the bytes")
    if name in _RAW:
        try:
            import ml_dtypes
            made: np.dtype = np.dtype(getattr(ml_dtypes, name))
            return made
        except (ImportError, AttributeError):
            return np.dtype(_RAW[name])
    return np.dtype(_NAMED.get(name, name)).newbyteorder("<")
