# SPDX-License-Identifier: Apache-2.0
"""Values of options, as the engine's table of options takes them."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from typing import Any, Optional

from ._arguments import is_bool
from ._errors import WrongType

# Name, texts (None: True), and whether these are numbers.
Value = tuple[str, Optional[list[bytes]], bool]


def checked(text: str) -> bytes:
    """As the engine has it. Paths may be no UTF-8."""
    if "\0" in text:
        raise ValueError("embedded null byte")
    return os.fsencode(text)


def values_of(options: Mapping[str, Any]) -> list[Value]:
    """None and False: not given; True: a flag."""
    values: list[Value] = []
    for name, value in options.items():
        if value is None or (is_bool(value) and not value):
            continue
        if is_bool(value):
            values.append((name, None, False))
            continue
        items = list(value) if isinstance(value, (list, tuple, range, set, frozenset)) else [value]
        are_numbers = bool(items) and all(isinstance(item, numbers.Real) for item in items)
        values.append((name, [checked(_text_of(name, item)) for item in items], are_numbers))
    return values


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, numbers.Real):
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)
    if isinstance(value, (str, bytes)):
        return os.fsdecode(value)
    if isinstance(value, os.PathLike):
        # No word such as "none" or "tp=4".
        return os.path.abspath(os.fsdecode(value))
    raise WrongType(f"the option '{name}' is text, a number, a path or a list of these, not "
                    + type(value).__name__)
