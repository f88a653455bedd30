# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as MindSpore's parameters. Nothing but this module imports mindspore."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import mindspore

from ._checkpoint import Checkpoint, open_checkpoint
from ._errors import Error
from ._tensor import State, Tensor
from ._types import numpy_dtype


def tensor(lazy: Tensor) -> mindspore.Tensor:
    """A tensor of a checkpoint, read."""
    return _made(lazy, lazy.read())


def load(source: Checkpoint | State | str | os.PathLike[str], rank: int | None = None, *,
         names: Iterable[str] | None = None, threads: int = 0,
         **options: Any) -> dict[str, mindspore.Parameter]:
    """What mindspore.load_checkpoint() returns for the file of a target rank, or, without a rank, of the
    whole model: a dictionary for load_param_into_net(). Its other arguments are those of
    reshardfs.torch.load()."""
    if isinstance(source, State):
        state = source
    elif isinstance(source, Checkpoint):
        state = source.merged if rank is None else source.rank(rank)
    else:
        with open_checkpoint(source, **options) as checkpoint:
            return load(checkpoint, rank, names=names, threads=threads)
    tensors = {name: state[name] for name in (state.arrays() if names is None else names)}
    buffers = state.read(tensors, threads=threads)
    return {name: mindspore.Parameter(_made(lazy, buffers[name]), name=name)
            for name, lazy in tensors.items()}


def load_into(net: Any, source: Checkpoint | State | str | os.PathLike[str], rank: int | None = None, *,
              strategy: Any = None, names: Iterable[str] | None = None, threads: int = 0,
              strict_load: bool = False, **options: Any) -> Any:
    """Fills a network with load_param_into_net(), whose answer it returns: the names of the network that got
    nothing, and those of the checkpoint that went nowhere.

    strategy: the target's, as dst_strategy of open(), unless the source is opened already. strict_load: as that of
    load_param_into_net(). The other arguments are those of load()."""
    if strategy is not None:
        if isinstance(source, (Checkpoint, State)):
            raise Error("the checkpoint is opened already: its strategy is dst_strategy of open()")
        options["dst_strategy"] = strategy
    parameters = load(source, rank, names=names, threads=threads, **options)
    return mindspore.load_param_into_net(net, parameters, strict_load=strict_load)


def _made(lazy: Tensor, buffer: Any) -> mindspore.Tensor:
    import numpy as np
    if lazy.dtype == "bfloat16":
        # The same bits with more behind them: MindSpore takes no array of bfloat16 everywhere.
        bits = np.frombuffer(buffer, "<u2").astype("<u4") << 16
        return mindspore.Tensor(bits.view("<f4").reshape(lazy.shape), mindspore.bfloat16)
    array = np.frombuffer(buffer, numpy_dtype(lazy.dtype)).reshape(lazy.shape)
    return mindspore.Tensor.from_numpy(array)
