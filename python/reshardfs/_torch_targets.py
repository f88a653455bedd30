# SPDX-License-Identifier: Apache-2.0
"""Fills PyTorch's tensors, wherever and however these are stored."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, List, NamedTuple

import torch

from ._arguments import thread_count
from ._boxes import SHORT_BYTES, Reads, read_pairs
from ._errors import Error
from ._tensor import Tensor
from . import _core

_NAMED = {"int4": "int8"}
# Of what is read at once where the model's own memory does not bound it.
TURN_BYTES = 256 << 20


def dtype_of(tensor: Tensor) -> torch.dtype:
    found = getattr(torch, _NAMED.get(tensor.dtype, tensor.dtype), None)
    if not isinstance(found, torch.dtype):
        raise Error(f"parameter '{tensor.name}': PyTorch {torch.__version__} has no elements of type "
                    f"{tensor.dtype}; leave it out with exclude=[{tensor.name!r}]", "unsupported",
                    parameter=tensor.name)
    return found


class Part(NamedTuple):
    """A tensor, or a box of one, and where its elements go."""

    source: Tensor
    target: torch.Tensor


class Converted(NamedTuple):
    """A tensor whose elements got another type, rounded as Tensor.to() does."""

    name: str
    source: torch.dtype
    target: torch.dtype


def fill(parts: Iterable[Part], threads: int) -> tuple[list[Converted], Reads]:
    """Returns what was converted and read, and tells the logger of it.

    Raises Error before anything is read where a part has another shape or a type that is not converted."""
    count = thread_count(threads)
    checked = list(parts)
    for part in checked:
        _require_alike(part)
    total = short = 0
    for turn in _turns(checked):
        pairs: list[tuple[_core.Tensor, Any]] = []
        staged: list[tuple[torch.Tensor, torch.Tensor]] = []
        for part in turn:
            memory = _memory(part.target) if dtype_of(part.source) == part.target.dtype else None
            if memory is None:
                packed = torch.empty(part.source.shape, dtype=dtype_of(part.source))
                staged.append((part.target, packed))
                memory = _memory(packed)
            pairs.append((part.source._open(), memory))
        reads = read_pairs(pairs, count)
        total += reads.bytes
        short += reads.short_bytes
        for target, packed in staged:
            target.copy_(packed)
    converted = {part.source.name: Converted(part.source.name, dtype_of(part.source), part.target.dtype)
                 for part in checked if dtype_of(part.source) != part.target.dtype}
    log = logging.getLogger("reshardfs")
    for each in converted.values():
        log.info("parameter '%s': converted from %s to %s", *each)
    if short:
        log.info("%d bytes are in pieces of less than %d bytes, and were read with some of what lies between these",
                 short, SHORT_BYTES)
    return list(converted.values()), Reads(total, short)


def _require_alike(part: Part) -> None:
    source, target = part
    place = f"parameter '{source.name}': "
    if tuple(target.shape) != source.shape:
        raise Error(f"{place}the checkpoint has shape {list(source.shape)}, and the model {list(target.shape)}",
                    "bad input", parameter=source.name)
    dtype = dtype_of(source)
    if dtype == target.dtype or (_is_plain_float(dtype) and _is_plain_float(target.dtype)):
        return
    raise Error(f"{place}the checkpoint has elements of type {dtype}, and the model of {target.dtype}; only floating "
                "types of 16 bits and more are converted", "unsupported", parameter=source.name,
                hint="build the model with elements of the checkpoint's type")


def _is_plain_float(dtype: torch.dtype) -> bool:
    return dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _memory(tensor: torch.Tensor) -> Any:
    """Its bytes as an array; None where a reader cannot write there."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return None
    whole = tensor.detach()
    if whole.dim() == 0:
        whole = whole.reshape(1)
    if whole.stride(-1) != 1:
        # With one element the stride says nothing.
        if not whole.is_contiguous():
            return None
        whole = whole.reshape(-1)
    if not whole.numel():
        return bytearray()
    return whole.view(torch.uint8).numpy()


def _turns(parts: Iterable[Part]) -> Iterator[List[Part]]:
    turn: list[Part] = []
    size = 0
    for part in parts:
        if turn and size + part.source.nbytes > TURN_BYTES:
            yield turn
            turn, size = [], 0
        turn.append(part)
        if dtype_of(part.source) != part.target.dtype or _memory(part.target) is None:
            size += part.source.nbytes
    if turn:
        yield turn
