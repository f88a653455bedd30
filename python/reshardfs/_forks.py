# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in forked processes, such as the workers of a DataLoader: each process opens its own at the first use.

What a fork copies cannot be used: the engine's threads, and the locks that they held, stay behind.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from . import _core
from ._errors import Error

_open: WeakSet[_core.Checkpoint] = WeakSet()
# How those of the process that has forked this one were opened, and what they are here.
_before: WeakKeyDictionary[_core.Checkpoint, tuple[Any, ...]] = WeakKeyDictionary()
_here: WeakKeyDictionary[_core.Checkpoint, _core.Checkpoint] = WeakKeyDictionary()
# The number of forks between the first process and this one.
generation = 0


def opened(source: bytes, values: Any, identity: bytes) -> _core.Checkpoint:
    """As open() of the engine."""
    checkpoint = _core.open(source, values, identity)
    _open.add(checkpoint)
    return checkpoint


def here(checkpoint: _core.Checkpoint) -> _core.Checkpoint:
    """The checkpoint of this process; what cannot be opened again is returned, and says why when it is used.

    Raises Error if a file has changed since it was opened first."""
    how = _before.get(checkpoint)
    if how is None or checkpoint.closed:
        return checkpoint
    found = _here.get(checkpoint)
    return _here.setdefault(checkpoint, opened(*how)) if found is None else found


def _before_fork() -> None:
    for checkpoint in list(_open):
        if checkpoint not in _before and not checkpoint.closed:
            try:
                _before[checkpoint] = checkpoint.kept_for_fork()
            except Error:  # it was closed by another thread, or its working directory is gone
                pass


def _after_fork() -> None:
    global generation
    generation += 1
    _open.clear()
    _here.clear()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
