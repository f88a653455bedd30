# SPDX-License-Identifier: Apache-2.0
"""Checkpoints under another parallel strategy, without a mount and without a conversion.

    import reshardfs
    ckpt = reshardfs.open("ckpt", src_strategy="train.ckpt", dst_strategy="tp=4")
    state = ckpt.rank(3)                    # a mapping; nothing is read yet
    rows = state["model.embed.weight"][10:20, :]

The options of all functions are those of the command of the same name (open() takes those of `mount`
about the source and the target), with '_' for '-': see `reshardfs mount --help`, or help(reshardfs.open).
What the command refuses raises Error with the same words, save that options are keyword arguments there. What it would warn of while it reads, such as a replica that was
read in place of a file that fails, goes to the logger "reshardfs".
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

try:
    from . import _core
except ImportError:
    from ._modules import missing
    if problem := missing():
        raise ImportError(problem) from None
    raise

_core.require_main_interpreter()

from . import _command  # noqa: E402
from ._checkpoint import Checkpoint, open_checkpoint  # noqa: E402
from ._errors import CannotShare, Error, UnknownName, WrongIndex, WrongType, WrongValue  # noqa: E402
from ._signatures import with_options  # noqa: E402
from ._tensor import State, Tensor  # noqa: E402

__all__ = ["CannotShare", "Checkpoint", "Error", "State", "Tensor", "UnknownName", "WrongIndex", "WrongType",
           "WrongValue", "diff", "export", "inspect", "mount", "open", "plan", "verify"]
__version__: str = _core.version
# As they are called, not where they are.
for _public in (CannotShare, Checkpoint, Error, State, Tensor, UnknownName, WrongIndex, WrongType, WrongValue):
    _public.__module__ = __name__
# Model maps are beside the command.
with contextlib.suppress(Error):
    _core.set_program(os.fsencode(os.path.realpath(_command.program())))


def open(source: str | os.PathLike[str], **options: Any) -> Checkpoint:  # noqa: A001
    """Opens a checkpoint, and checks it as `reshardfs mount` does; reads next to none of its data.

    source: a directory, a file or a URL. options: see `reshardfs mount --help`, such as
    src_strategy="train.ckpt", dst_strategy="tp=4", ranks=[0, 1], include=["*.weight"].
    """
    return open_checkpoint(source, **options)


@contextlib.contextmanager
def mount(source: str | os.PathLike[str], mountpoint: str | os.PathLike[str] | None = None,
          **options: Any) -> Iterator[str]:
    """Mounts a checkpoint for as long as the block lasts, and gives the path.

    mountpoint: a directory that exists; by default, a temporary one.
    """
    for name in ("foreground", "check_only"):
        if options.get(name):
            raise Error(f"mount() takes no option '{name}'")
    with contextlib.ExitStack() as stack:
        if mountpoint is None:
            path = stack.enter_context(tempfile.TemporaryDirectory(prefix="reshardfs-"))
        else:
            path = os.fspath(mountpoint)
        words = _command.words_of(options)
        try:
            _command.run(["mount", *words, "--", os.fspath(source), path])
        except KeyboardInterrupt:
            with contextlib.suppress(Error):
                _command.run(["umount", "--if-mounted", "--", path])
            raise
        stack.callback(_command.run, ["umount", "--", path])
        yield path


def inspect(path: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """What a checkpoint is and has: what `reshardfs inspect --json` prints. Reads none of its data, save with
    stats=True."""
    return _command.run_json(["inspect", *_command.words_of(options), "--", os.fspath(path)], good=(0, 1))


def plan(source: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Who reads how much from whom: what `reshardfs plan --json` prints. With rank=3, of that rank."""
    return _command.run_json(["plan", *_command.words_of(options), "--", os.fspath(source)])


def verify(source: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Reads a whole checkpoint and checks it: what `reshardfs verify --json` prints. A damaged one is no
    exception: see "good" and "problems" of the result."""
    return _command.run_json(["verify", *_command.words_of(options), "--", os.fspath(source)], good=(0, 1))


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Compares two checkpoints by value: what `reshardfs diff --json` prints. A difference is no
    exception: see "equal" of the result."""
    return _command.run_json(["diff", *_command.words_of(options), "--", os.fspath(a),
                              os.fspath(b)], good=(0, 1))


def export(source: str | os.PathLike[str], outdir: str | os.PathLike[str], *,
           progress: Callable[[Mapping[str, Any]], None] | None = None, **options: Any) -> None:
    """Writes the files of a mount to a directory or an object store, or the whole model to one `.safetensors` or
    `.ckpt` file, as `reshardfs export` does.

    progress: is called several times a second with "phase", "bytes", "total_bytes", "files",
    "total_files" and "file". What it raises ends the export, which a later one resumes.
    """
    if progress is not None and not callable(progress):
        raise WrongType(f"progress is a function, not {type(progress).__name__}")
    listen = progress or (lambda values: None)
    _command.run(["export", *_command.words_of(options), "--", os.fspath(source), os.fspath(outdir)],
                 listen)


_functions: tuple[Callable[..., Any], ...] = (diff, export, inspect, mount, open, plan, verify)
for _function in _functions:
    _function.__signature__ = with_options(_function)  # type: ignore[attr-defined]
