# SPDX-License-Identifier: Apache-2.0
"""The options of functions, for help() and editors: as the stub of the module has them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


@cache
def _stub() -> dict[str, list[tuple[str, str]]]:
    """By function: its keyword arguments with their types."""
    import ast
    try:
        with open(os.path.join(os.path.dirname(__file__), "__init__.pyi"), encoding="utf-8") as file:
            text = file.read()
    except OSError:  # not among what was installed
        return {}
    return {node.name: [(each.arg, ast.unparse(each.annotation) if each.annotation else "Any")
                        for each in node.args.kwonlyargs]
            for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


@cache
def _complete(own: inspect.Signature, name: str) -> inspect.Signature:
    known = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    names = {each.name for each in known}
    options = [inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
               for option, annotation in _stub().get(name, []) if option not in names]
    return own.replace(parameters=[*known, *options])


class _WithOptions(inspect.Signature):
    """Finds out the options when it is asked for them: to read the stub takes longer than to import the rest."""

    __slots__ = ("_name", "_own")

    def __init__(self, own: inspect.Signature, name: str) -> None:
        super().__init__(return_annotation=own.return_annotation)
        self._own = own
        self._name = name

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:  # type: ignore[override]
        return _complete(self._own, self._name).parameters

    def replace(self, **members: Any) -> inspect.Signature:  # type: ignore[override]
        return _complete(self._own, self._name).replace(**members)

    def __reduce__(self) -> Any:
        return _complete(self._own, self._name).__reduce__()


def with_options(function: Callable[..., Any]) -> inspect.Signature:
    """The function's signature with its options by name."""
    return _WithOptions(inspect.signature(function), function.__name__)
