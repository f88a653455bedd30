# SPDX-License-Identifier: Apache-2.0
"""The options of functions, for help() and editors: as the stub of the module has them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _stub() -> dict[str, list[tuple[str, str]]]:
    """By function: its keyword arguments with their types."""
    try:
        text = (Path(__file__).parent / "__init__.pyi").read_text(encoding="utf-8")
    except OSError:  # not among what was installed
        return {}
    return {node.name: [(each.arg, ast.unparse(each.annotation) if each.annotation else "Any")
                        for each in node.args.kwonlyargs]
            for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def with_options(function: Callable[..., Any]) -> inspect.Signature:
    """The function's signature with its options by name."""
    own = inspect.signature(function)
    known = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    names = {each.name for each in known}
    options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
               for name, annotation in _stub().get(function.__name__, []) if name not in names]
    return own.replace(parameters=[*known, *options])
