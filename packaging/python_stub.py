#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes python/reshardfs/__init__.pyi, whose functions have the options of the commands:

    packaging/python_stub.py build/release/bin/reshardfs >python/reshardfs/__init__.pyi
"""

from __future__ import annotations

import keyword
import sys
from pathlib import Path

import program_help

# About a program of its own, not about what it does.
ABOUT_PROGRAM = {"help", "verbose", "quiet"}
# About the log of a program, or what it prints.
PRINTING = {"json", "list", "tree", "depth", "why", "svg", "param", "log-level", "log-file", "log-format"}
PROGRESS = "progress: Callable[[Progress], object] | None = None"
# Function: the command with its options, those that it does not have, and the stub without options.
FUNCTIONS = {
    "open": ("cat", {*PRINTING, "npy", "config"}, "def open(source: _Path, *{options}) -> Checkpoint: ..."),
    "mount": ("mount", {"foreground", "check-only"},
              "def mount(source: _Path, mountpoint: _Path | None = None, *{options}) "
              "-> contextlib.AbstractContextManager[str]: ..."),
    "inspect": ("inspect", PRINTING, f"def inspect(path: _Path, *, {PROGRESS}{{options}}) -> Inspection: ..."),
    "plan": ("plan", {*PRINTING, "force"}, "def plan(source: _Path, *{options}) -> Plan: ..."),
    "verify": ("verify", PRINTING, f"def verify(source: _Path, *, {PROGRESS}{{options}}) -> Verification: ..."),
    "diff": ("diff", PRINTING, f"def diff(a: _Path, b: _Path, *, {PROGRESS}{{options}}) -> Difference: ..."),
    "export": ("export", PRINTING,
               f"def export(source: _Path, outdir: _Path, *, {PROGRESS}{{options}}) -> Exported: ..."),
}
# What stands for a number in --help, and options that it tells nothing of.
NUMBERS = {"N", "BYTES", "SECONDS", "SIZE", "INT", "UINT", "FLOAT", "MODE", "NODES", "USER", "GROUP", "NUM", "NUMBER",
           "jobs", "atol", "rtol", "read-ahead-kb"}
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by packaging/python_stub.py.
import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Literal

from ._answers import (
    Difference as Difference,
    Exported as Exported,
    Inspection as Inspection,
    Plan as Plan,
    Progress as Progress,
    Verification as Verification,
)
from ._checkpoint import Checkpoint as Checkpoint
from ._errors import (
    CannotShare as CannotShare,
    Error as Error,
    UnknownName as UnknownName,
    WrongIndex as WrongIndex,
    WrongType as WrongType,
    WrongValue as WrongValue,
)
from ._tensor import State as State, Tensor as Tensor

_Path = str | os.PathLike[str]

__version__: str
'''


def type_of(option: program_help.Option) -> str:
    if not option.argument:
        return "bool"
    if option.long_name in ("ranks", "stage-layers"):
        return "str | Iterable[int]"
    if option.argument == "LIST":
        return "str | Iterable[str]"
    if option.choices and set(option.choices) == set(option.argument.split("|")):
        words = ", ".join(f'"{word}"' for word in option.choices)
        text = f"Literal[{words}]"
    elif any(word in option.argument for word in ("FILE", "DIR")):
        text = "_Path"
    elif option.argument in NUMBERS or option.long_name in NUMBERS:
        text = "int | float | str"
    else:
        text = "str"
    return f"{text} | Iterable[{text}]" if option.repeatable else text


def options_of(binary: str, function: str) -> list[program_help.Option]:
    command, without, _ = FUNCTIONS[function]
    options = program_help.read_help(binary, [command]).options
    return [option for option in options
            if option.names[-1].startswith("--") and option.long_name not in ABOUT_PROGRAM | without]


def stub(binary: str) -> str:
    parts = [HEAD]
    for function, (_, _, text) in FUNCTIONS.items():
        options = []
        for option in options_of(binary, function):
            name = option.long_name.replace("-", "_")
            assert not keyword.iskeyword(name), name
            options.append(f",\n    {name}: {type_of(option)} | None = None")
        parts.append(text.replace("{options}", "".join(options)) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(stub(str(Path(sys.argv[1]).resolve())))
