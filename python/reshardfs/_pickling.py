# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in pickles: how each was opened, and which files it had; no bytes of these, and no secrets."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from . import _core, _forks

# Source, options and the identity of all files, as open() of the engine takes them.
Kept = tuple[bytes, tuple[Any, ...], bytes]

# One object for each checkpoint, so that a pickle of many tensors has it once.
_kept: WeakKeyDictionary[_core.Checkpoint, Kept] = WeakKeyDictionary()
# What tensors of pickles read from, by process: nobody can close it. Two threads may open one twice.
_opened: WeakValueDictionary[tuple[int, Kept], _core.Checkpoint] = WeakValueDictionary()


def kept(checkpoint: _core.Checkpoint) -> Kept:
    """Raises Error if the checkpoint is closed, or was opened with a secret in a URL."""
    found = _kept.get(checkpoint)
    if found is None:
        found = _kept.setdefault(checkpoint, checkpoint.kept())
    return found


def opened(how: Kept) -> _core.Checkpoint:
    """The same for all pickles of a checkpoint, while any of its tensors is in use.

    Raises Error if a file is not as it was."""
    key = (os.getpid(), how)
    found = _opened.get(key)
    return _opened.setdefault(key, _forks.opened(*how)) if found is None else found
