# SPDX-License-Identifier: Apache-2.0
"""Many tensors, or boxes of them, at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _core
from ._arguments import thread_count
from ._errors import UnknownName, WrongType
from ._tensor import State, Tensor

# Shorter pieces of a file take longer to ask for than to read, and are read with what lies between them.
SHORT_BYTES = 4096


class Reads(NamedTuple):
    """What read_into_all() has read."""

    bytes: int
    # Of these, what the source has in pieces of less than 4 KiB that lie apart, such as narrow bands of columns.
    # Only for these more may be read than was asked for: where the pieces lie close together.
    short_bytes: int


def lazy(state: State, wanted: Tensor | str, prefix: str = "") -> Tensor:
    """A tensor itself, or that of a name behind a prefix."""
    if isinstance(wanted, Tensor):
        return wanted
    if not isinstance(wanted, str):
        raise WrongType(f"a tensor is a Tensor or a name, not {type(wanted).__name__}")
    if not wanted.startswith(prefix):
        raise UnknownName(f"the name {wanted!r} does not begin with the prefix {prefix!r}", "missing", parameter=wanted)
    return state[wanted[len(prefix):]]


def read_into_all(state: State, parts: Iterable[tuple[Tensor | str, Any]], prefix: str, threads: int) -> Reads:
    count = thread_count(threads)
    pairs: list[tuple[_core.Tensor, Any]] = []
    for part in parts:
        if not isinstance(part, tuple) or len(part) != 2:
            raise WrongType(f"each part is a tensor and a buffer, not {type(part).__name__}")
        pairs.append((lazy(state, part[0], prefix)._open(), part[1]))
    return read_pairs(pairs, count)


def read_pairs(pairs: list[tuple[_core.Tensor, Any]], threads: int) -> Reads:
    _core.read_into_all(pairs, threads)
    return Reads(sum(tensor.nbytes for tensor, _ in pairs),
                 sum(tensor.bytes_in_short_runs(SHORT_BYTES) for tensor, _ in pairs))
