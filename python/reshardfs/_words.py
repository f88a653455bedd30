# SPDX-License-Identifier: Apache-2.0
"""What the command says of its options, in the words of Python: src_strategy= for --src-strategy."""

from __future__ import annotations

import re

# A command that is to be typed keeps its words.
_COMMAND = re.compile(r"('reshardfs [^']*'|run: reshardfs .*)")
_UNKNOWN = re.compile(r"^[a-z ]+ has no option '--([^']*)'")
# With its value, where that stands behind it: a placeholder, something quoted, a number or a choice.
_OPTION = re.compile(
    r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)"
    r"(?:=| (?=['A-Z0-9])| (?=(?:auto|error|first|forward|inverse|none|own|replicate|same|source)\b))?")


def argument(option: str) -> str:
    return option.replace("-", "_")


def in_python(text: str) -> str:
    """The text of an error, or a hint."""
    text = _UNKNOWN.sub(lambda found: f"there is no argument '{argument(found[1])}'", text)
    parts = _COMMAND.split(text)
    return "".join(part if number % 2 else _OPTION.sub(lambda found: argument(found[1]) + "=", part)
                   for number, part in enumerate(parts))
