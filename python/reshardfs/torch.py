# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as PyTorch's tensors. Nothing but this module imports torch."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch

from . import _core
from ._arguments import name_list, thread_count
from ._checkpoint import Checkpoint, open_checkpoint
from ._errors import Error
from ._staging import BLOCK_BYTES, BLOCKS, transfer
from ._tensor import State, Tensor
from ._torch_targets import TURN_BYTES, Part, dtype_of, fill

if TYPE_CHECKING:
    from ._dcp import DcpReader as DcpReader


def __getattr__(name: str) -> Any:
    """What needs torch.distributed, which takes long to import, and which some builds lack."""
    if name != "DcpReader":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._dcp import DcpReader
    return DcpReader


def _made(tensor: Tensor, buffer: memoryview) -> torch.Tensor:
    """Shares the buffer's memory."""
    dtype = dtype_of(tensor)
    if not len(buffer):
        return torch.empty(tensor.shape, dtype=dtype)
    return torch.frombuffer(buffer, dtype=torch.uint8).view(dtype).reshape(tensor.shape)


def tensor(lazy: Tensor) -> torch.Tensor:
    """A tensor of a checkpoint, read."""
    dtype_of(lazy)
    return _made(lazy, lazy.read())


def load(source: Checkpoint | State | str | os.PathLike[str], rank: int | None = None, *,
         device: Any = "cpu", names: Iterable[str] | None = None, threads: int = 0,
         **options: Any) -> dict[str, torch.Tensor]:
    """A state_dict with the tensors of a target rank, or, without a rank, of the whole model.

    source: an opened checkpoint, the tensors of a rank, or what open() takes, with its options.
    names: the tensors to load; by default all but texts and maps. On the CPU they share the memory that
    was read into. On a CUDA device, reading goes on while the blocks before are copied, and the host holds
    two blocks of 64 MiB of pinned memory. threads: how many read; by default one for each processor, but two
    at least.
    """
    if isinstance(source, State):
        return _load(source, device, names, threads)
    if isinstance(source, Checkpoint):
        state = source.merged if rank is None else source.rank(rank)
        return _load(state, device, names, threads)
    with open_checkpoint(source, **options) as checkpoint:
        return load(checkpoint, rank, device=device, names=names, threads=threads)


def _load(state: State, device: Any, names: Iterable[str] | None,
          threads: int) -> dict[str, torch.Tensor]:
    tensors = {name: state[name] for name in (state.arrays() if names is None else name_list(names))}
    for lazy in tensors.values():
        dtype_of(lazy)
    place = torch.device(device)
    if place.type == "cuda":
        with torch.cuda.device(place):
            copies = _Cuda(tensors.values(), place)
            transfer(tensors.values(), copies, threads=_threads(threads))
            return {name: copies.tensors[name].view(dtype_of(lazy)).reshape(lazy.shape)
                    for name, lazy in tensors.items()}
    if place.type == "cpu":
        buffers = state.read(tensors, threads=threads)
        return {name: _made(lazy, buffers[name]) for name, lazy in tensors.items()}
    # In turns, so that the host never has all of it.
    loaded: dict[str, torch.Tensor] = {}
    for names_of_turn in _turns(tensors):
        buffers = state.read(names_of_turn, threads=threads)
        for name in names_of_turn:
            loaded[name] = _made(tensors[name], buffers.pop(name)).to(device)
    return loaded


def stream(source: Checkpoint | State | str | os.PathLike[str], rank: int | None = None, *,
           names: Iterable[str] | None = None, threads: int = 0,
           **options: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Each name with its tensor on the CPU, one after the other in the order of the source's files. While those of a turn of
    256 MiB are used, the next ones are read: the memory holds two turns. The arguments are those of load()."""
    if not isinstance(source, (Checkpoint, State)):
        with open_checkpoint(source, **options) as checkpoint:
            yield from stream(checkpoint, rank, names=names, threads=threads)
        return
    if isinstance(source, Checkpoint):
        source = source.merged if rank is None else source.rank(rank)
    every = [source[name] for name in (source.arrays() if names is None else name_list(names))]
    tensors = {every[at].name: every[at] for at in _core.in_order_of_sources([lazy._open() for lazy in every])}
    for lazy in every:
        dtype_of(lazy)
    with ThreadPoolExecutor(1) as ahead:
        waiting: Future[dict[str, torch.Tensor]] | None = None
        for turn_names in _turns(tensors):
            following = ahead.submit(_load, source, "cpu", turn_names, threads)
            if waiting:
                yield from waiting.result().items()
            waiting = following
        if waiting:
            yield from waiting.result().items()


def load_state_dict(model: torch.nn.Module, source: Checkpoint | State | str | os.PathLike[str],
                    rank: int | None = None, *, strict: bool = True, prefix: str = "", device: Any = "cpu",
                    threads: int = 0, **options: Any) -> Any:
    """Fills a model's parameters and buffers in place, and returns or raises what model.load_state_dict() does of
    missing and unexpected names and of shapes; with strict=True, then nothing is read.

    What is on the device "meta" gets memory on `device`. prefix: is before each name of the checkpoint in the model.
    Elements of other floating types are rounded as Tensor.to() does. Tensors that several devices have parts of
    are loaded with DcpReader. The other arguments are those of load()."""
    if not isinstance(source, (Checkpoint, State)):
        with open_checkpoint(source, **options) as checkpoint:
            return load_state_dict(model, checkpoint, rank, strict=strict, prefix=prefix, device=device,
                                   threads=threads)
    if "assign" not in inspect.signature(model.load_state_dict).parameters:
        raise Error(f"load_state_dict() needs PyTorch 2.1 or later, and this is {torch.__version__}", "unsupported")
    if isinstance(source, Checkpoint):
        source = source.merged if rank is None else source.rank(rank)
    tensors = {prefix + name: source[name] for name in source.arrays()}
    own = model.state_dict(keep_vars=True)
    for name, value in own.items():
        if hasattr(value, "device_mesh"):
            raise Error(f"parameter '{name}': several devices have parts of it; load it with "
                        "torch.distributed.checkpoint.load() and reshardfs.torch.DcpReader", "unsupported",
                        parameter=name)
    fitting = {name: own[name] for name, lazy in tensors.items()
               if isinstance(own.get(name), torch.Tensor) and tuple(own[name].shape) == lazy.shape}
    # Of what does not fit, PyTorch sees names and shapes alone.
    state: dict[str, torch.Tensor] = {name: fitting[name] if name in fitting else
                                      torch.empty(lazy.shape, device="meta") for name, lazy in tensors.items()}
    if strict and not (len(fitting) == len(tensors) == len(own)):
        return model.load_state_dict(state, strict=True, assign=True)
    made: dict[int, torch.Tensor] = {}
    for name, value in fitting.items():
        if value.is_meta:
            # What several modules share stays shared.
            state[name] = made.setdefault(id(value), _with_memory(value, device))
    with torch.no_grad():
        fill([Part(tensors[name], state[name].detach()) for name in fitting], threads)
    return model.load_state_dict(state, strict=strict, assign=True)


def _with_memory(value: torch.Tensor, device: Any) -> torch.Tensor:
    made = torch.empty_like(value, device=device, requires_grad=False)
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=value.requires_grad)
    return made


def _threads(threads: int) -> int:
    return thread_count(threads) or max(2, len(os.sched_getaffinity(0)))


class _Cuda:
    """Copies on a stream of their own, from pinned memory. See Device."""

    def __init__(self, tensors: Iterable[Tensor], device: torch.device) -> None:
        self.tensors = {lazy.name: torch.empty(lazy.nbytes, dtype=torch.uint8, device=device) for lazy in tensors}
        largest = min(BLOCK_BYTES, max(sum(lazy.nbytes for lazy in tensors), 1))
        self._memory = [torch.empty(largest, dtype=torch.uint8, pin_memory=True) for _ in range(BLOCKS)]
        cuda: Any = torch.cuda  # some versions have types for its classes, others none
        self._stream = cuda.Stream(device)
        self._events = [cuda.Event() for _ in range(BLOCKS)]
        # The allocator may have given memory that work on the current stream still uses.
        self._stream.wait_stream(torch.cuda.current_stream(device))

    def memory(self, block: int) -> memoryview:
        return memoryview(self._memory[block].numpy())

    def copy(self, block: int, begin: int, name: str, offset: int, length: int) -> None:
        with torch.cuda.stream(self._stream):
            self.tensors[name][offset:offset + length].copy_(self._memory[block][begin:begin + length],
                                                             non_blocking=True)

    def copied(self, block: int) -> None:
        self._events[block].record(self._stream)

    def wait(self, block: int) -> None:
        self._events[block].synchronize()


def _turns(tensors: dict[str, Tensor]) -> Iterable[list[str]]:
    turn: list[str] = []
    size = 0
    for name, lazy in tensors.items():
        if turn and size + lazy.nbytes > TURN_BYTES:
            yield turn
            turn, size = [], 0
        turn.append(name)
        size += lazy.nbytes
    if turn:
        yield turn
