# SPDX-License-Identifier: Apache-2.0
"""Tensors on their way to a device, through a few blocks of the host's memory: while one block is copied to
the device, the next is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from ._tensor import Tensor

BLOCKS = 2
BLOCK_BYTES = 64 << 20
# What one thread reads at once.
PART_BYTES = 8 << 20


class Device(Protocol):
    """Where the bytes go."""

    def memory(self, block: int) -> memoryview:
        """The host's memory of a block: writable bytes, as many as transfer() says."""
        ...

    def copy(self, block: int, begin: int, name: str, offset: int, length: int) -> None:
        """Begins to copy bytes of a block to an offset of a tensor; may return before they are there."""

    def copied(self, block: int) -> None:
        """All copies from the block have begun."""

    def wait(self, block: int) -> None:
        """Returns when all copies from the block have ended."""


@dataclass(frozen=True)
class Part:
    """A box of a tensor whose bytes follow upon each other in it, from an offset on."""

    tensor: Tensor
    begin: tuple[int, ...]
    end: tuple[int, ...]
    offset: int
    length: int

    def read_into(self, memory: memoryview) -> None:
        self.tensor._open().box(self.begin, self.end).read_into(memory)


def parts(tensor: Tensor, most: int) -> Iterator[Part]:
    """An array in order, in parts of at most `most` bytes, or of one element."""
    shape = tensor.shape
    if not tensor.nbytes:
        return
    if not shape:
        yield Part(tensor, (), (), 0, tensor.nbytes)
        return
    # The dimension that is cut, and the bytes of all its indices together.
    cut, size = 0, tensor.nbytes
    while cut + 1 < len(shape) and size // shape[cut] > most:
        size //= shape[cut]
        cut += 1
    step = size // shape[cut]
    at_once = max(1, most // step)
    rest = shape[cut + 1:]
    offset = 0
    for outer in itertools.product(*map(range, shape[:cut])):
        for first in range(0, shape[cut], at_once):
            last = min(first + at_once, shape[cut])
            length = (last - first) * step
            yield Part(tensor, (*outer, first, *(0 for _ in rest)), (*(index + 1 for index in outer), last, *rest),
                       offset, length)
            offset += length


def _blocks(tensors: Iterable[Tensor], block_bytes: int, part_bytes: int) -> Iterator[list[tuple[int, Part]]]:
    """Parts, each with its place in the block."""
    block: list[tuple[int, Part]] = []
    used = 0
    for tensor in tensors:
        for part in parts(tensor, min(part_bytes, block_bytes)):
            if used + part.length > block_bytes:
                yield block
                block, used = [], 0
            block.append((used, part))
            used += part.length
    if block:
        yield block


def transfer(tensors: Iterable[Tensor], device: Device, *, threads: int, blocks: int = BLOCKS,
             block_bytes: int = BLOCK_BYTES, part_bytes: int = PART_BYTES) -> None:
    """Reads arrays, and copies them to the device. Returns when all copies have ended.

    The host's memory of a block is written again only after wait() for it. block_bytes: no less than an element
    has."""
    in_use: set[int] = set()
    try:
        with ThreadPoolExecutor(threads) as readers:
            for number, block in enumerate(_blocks(tensors, block_bytes, part_bytes)):
                slot = number % blocks
                if slot in in_use:
                    device.wait(slot)
                    in_use.remove(slot)
                memory = device.memory(slot)
                reads = [readers.submit(part.read_into, memory[place:place + part.length])
                         for place, part in block]
                try:
                    for read in reads:
                        read.result()
                except BaseException:
                    for read in reads:
                        read.cancel()
                    raise
                in_use.add(slot)
                for place, part in block:
                    device.copy(slot, place, part.tensor.name, part.offset, part.length)
                device.copied(slot)
    finally:
        # Until then a copy may read the host's memory.
        for slot in sorted(in_use):
            device.wait(slot)
