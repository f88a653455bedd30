# SPDX-License-Identifier: Apache-2.0
"""What callers hand over, checked before the engine sees it: its bindings would refuse it in words about
themselves."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any

from ._errors import WrongType, WrongValue


def is_bool(value: Any) -> bool:
    """Python's, NumPy's and PyTorch's: the latter are integers for operator.index(), too."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


def integer(value: Any, what: str) -> int:
    """A number, such as one of NumPy's; a truth value is none."""
    if not is_bool(value):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise WrongType(f"{what} is an integer, not {type(value).__name__}")


def thread_count(value: Any) -> int:
    """At most as many as the engine can count."""
    number = integer(value, "threads")
    if number < 0:
        raise WrongValue(f"threads is 0 or more, not {number}")
    return min(number, (1 << 31) - 1)


def path_text(value: Any, what: str) -> str:
    """A path inside of a checkpoint's files."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise WrongType(f"{what} is text or a path, not {type(value).__name__}")
    return os.fsdecode(value)


def name_text(value: Any) -> str:
    """The name of a tensor."""
    if isinstance(value, str):
        return value
    raise WrongType(f"the name of a tensor is text, not {type(value).__name__}")


def name_list(value: Any) -> list[str]:
    """Names of tensors. One text would be taken for a list of its letters."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise WrongType(f"names is a list of names, not {type(value).__name__}")
    return [name_text(name) for name in value]


def encoded(text: str) -> bytes | None:
    """As the engine has names and paths; None of what no file can have, such as half a surrogate pair."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return None
