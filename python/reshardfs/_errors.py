# SPDX-License-Identifier: Apache-2.0
"""The exceptions of reshardfs. Their texts are those of the command, with keyword arguments for options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._words import in_python


class Error(Exception):
    """What went wrong, in the words of the command `reshardfs`, save that its options are keyword arguments.

    Besides the text it has `kind` ("usage", "bad input", "missing", "unsupported", "io", "changed" or
    "internal"), and what is known of `path`, `parameter`, `rank`, `hint` and `errno`, else None.
    """

    def __init__(self, text: str, kind: str = "usage", path: str | None = None,
                 parameter: str | None = None, rank: int | None = None, hint: str | None = None,
                 errno: int | None = None) -> None:
        super().__init__(text, kind, path, parameter, rank, hint, errno)
        self.kind = kind
        self.path = path
        self.parameter = parameter
        self.rank = rank
        self.hint = hint
        self.errno = errno

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownName(Error, KeyError):
    """There is no tensor of this name. Also a KeyError, as of any mapping."""

    __str__ = Error.__str__


class WrongIndex(Error, IndexError):
    """A rank that the target does not have, or an index that a tensor does not take. Also an IndexError, as
    of any array."""

    __str__ = Error.__str__


class WrongType(Error, TypeError):
    """An argument of a type that a function does not take. Also a TypeError."""

    __str__ = Error.__str__


class WrongValue(Error, ValueError):
    """An argument of the right type that a function does not take. Also a ValueError."""

    __str__ = Error.__str__


class CannotShare(Error, BufferError):
    """A tensor that __dlpack__() cannot hand over as it is asked to. Also a BufferError."""

    __str__ = Error.__str__


def made(text: str, kind: str, path: str | None, parameter: str | None, rank: int | None,
         hint: str | None, errno: int | None) -> Error:
    """The exception for an error of the engine."""
    return Error(in_python(text), kind, path, parameter, rank, hint and in_python(hint), errno)


def of_message(message: Mapping[str, Any]) -> Error:
    """The exception for an error that the command tells of."""
    return made(message["text"], message["kind"], message["path"], message["parameter"],
                message["rank"], message["hint"], None)
