# SPDX-License-Identifier: Apache-2.0
"""Checkpoints under another parallel strategy, without a mount and without a conversion.

    import reshardfs
    ckpt = reshardfs.open("ckpt", src_strategy="train.ckpt", dst_strategy="tp=4")
    state = ckpt.rank(3)                    # a mapping; nothing is read yet
    rows = state["model.embed.weight"][10:20, :]

The options of all functions are those of the command of the same name (open() takes those of `mount`
about the source and the target), with '_' for '-': see `reshardfs mount --help`, or help(reshardfs.open).
What the command refuses raises Error with the same words, save that options are keyword arguments there. What it
would warn of goes to the logger "reshardfs".
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

try:
    from . import _core
except ImportError:
    from ._modules import missing
    if problem := missing():
        raise ImportError(problem) from None
    raise

_core.require_main_interpreter()

from . import _program  # noqa: E402
from ._checkpoint import Checkpoint, open_checkpoint  # noqa: E402
from ._errors import CannotShare, Error, UnknownName, WrongIndex, WrongType, WrongValue  # noqa: E402
from ._signatures import with_options  # noqa: E402
from ._tensor import State, Tensor  # noqa: E402
from ._values import checked, values_of  # noqa: E402

if TYPE_CHECKING:
    from ._answers import Difference, Exported, Inspection, Plan, Progress, Verification

__all__ = ["CannotShare", "Checkpoint", "Difference", "Error", "Exported", "Inspection", "Plan", "Progress", "State",
           "Tensor", "UnknownName", "Verification", "WrongIndex", "WrongType", "WrongValue", "diff", "export",
           "inspect", "mount", "open", "plan", "verify"]
__version__: str = _core.version
# As they are called, not where they are.
for _public in (CannotShare, Checkpoint, Error, State, Tensor, UnknownName, WrongIndex, WrongType, WrongValue):
    _public.__module__ = __name__
# Model maps are beside the command.
with contextlib.suppress(Error):
    _core.set_program(os.fsencode(os.path.realpath(_program.program())))


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
    import tempfile

    from ._command import run
    with contextlib.ExitStack() as stack:
        if mountpoint is None:
            path = stack.enter_context(tempfile.TemporaryDirectory(prefix="reshardfs-"))
        else:
            path = os.fspath(mountpoint)
        words = _core.words("mount", [checked(os.fspath(source)), checked(path)], values_of(options))
        try:
            run(words)
        except KeyboardInterrupt:
            with contextlib.suppress(Error):
                run(["umount", "--if-mounted", "--", path])
            raise
        stack.callback(run, ["umount", "--", path])
        yield path


Listener = Callable[["Progress"], object]
_ANSWERS = ("Difference", "Exported", "Inspection", "Plan", "Progress", "Verification")


def __getattr__(name: str) -> Any:
    """The classes of answers, which whoever only reads does not need."""
    if name not in _ANSWERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _answers
    globals().update((each, getattr(_answers, each)) for each in _ANSWERS)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_ANSWERS})


def _answer(command: str, arguments: Sequence[str | os.PathLike[str]], options: Mapping[str, Any],
            progress: Listener | None) -> dict[str, Any]:
    """Runs a command in this process. What `progress` raises ends it."""
    import json

    from ._answers import progress_of
    if progress is not None and not callable(progress):
        raise WrongType(f"progress is a function, not {type(progress).__name__}")
    listen = None if progress is None else lambda *values: progress(progress_of(*values))
    printed = _core.run(command, [checked(os.fspath(each)) for each in arguments], values_of(options), listen)
    answer: dict[str, Any] = json.loads(printed)
    return answer


def inspect(path: str | os.PathLike[str], *, progress: Listener | None = None, **options: Any) -> Inspection:
    """What a checkpoint is and has. Reads none of its data, save with stats=True.

    progress: is called several times a second while data is read; what it raises ends the call."""
    from ._answers import Inspection
    return Inspection.of(_answer("inspect", [path], options, progress))


def plan(source: str | os.PathLike[str], **options: Any) -> Plan:
    """Who reads how much from whom. With rank=3, of that rank."""
    from ._answers import Plan
    return Plan.of(_answer("plan", [source], options, None))


def verify(source: str | os.PathLike[str], *, progress: Listener | None = None, **options: Any) -> Verification:
    """Reads a whole checkpoint and checks it. A damaged one is no exception: see `good` and `problems` of the
    result.

    progress: as for inspect()."""
    from ._answers import Verification
    return Verification.of(_answer("verify", [source], options, progress))


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str], *, progress: Listener | None = None,
         **options: Any) -> Difference:
    """Compares two checkpoints by value. A difference is no exception: see `equal` of the result.

    progress: as for inspect()."""
    from ._answers import Difference
    return Difference.of(_answer("diff", [a, b], options, progress))


def export(source: str | os.PathLike[str], outdir: str | os.PathLike[str], *, progress: Listener | None = None,
           **options: Any) -> Exported:
    """Writes the files of a mount to a directory or an object store, or the whole model to one `.safetensors` or
    `.ckpt` file, as `reshardfs export` does.

    progress: is called several times a second. What it raises ends the export, which a later one resumes, as
    Ctrl-C does.
    """
    from ._answers import Exported
    return Exported.of(_answer("export", [source, outdir], options, progress))


_functions: tuple[Callable[..., Any], ...] = (diff, export, inspect, mount, open, plan, verify)
for _function in _functions:
    _function.__signature__ = with_options(_function)  # type: ignore[attr-defined]
