# SPDX-License-Identifier: Apache-2.0
"""Stands in for packages that a program imports and that no case needs."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

# verl imports these, and its merger needs none.
OF_VERL = ("ray", "tensordict", "omegaconf", "hydra", "codetiming", "pandas", "datasets", "peft", "torchdata", "wandb",
           "pylatexenc", "dill")


class Nothing:
    """Also a base class, a generic one, a decorator and a context."""

    def __class_getitem__(cls, _: object) -> type:
        return cls

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __call__(self, *words: object, **_: object) -> object:
        return words[0] if words else None

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Module(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Nothing,), {})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []


def stand_in(*names: str) -> None:
    sys.meta_path.append(Finder(names))
