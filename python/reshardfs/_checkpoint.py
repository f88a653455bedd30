# SPDX-License-Identifier: Apache-2.0
"""A checkpoint under another strategy."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from typing import Any

from . import _core, _forks
from ._arguments import encoded, integer, name_text, path_text
from ._boxes import Reads, lazy, read_into_all
from ._errors import Error, UnknownName, WrongIndex
from ._files import open_file
from ._html import counted, page_of_checkpoint
from ._pickling import kept
from ._tensor import State, Tensor, whole_state
from ._values import Value, checked, values_of


class Checkpoint:
    """What `reshardfs mount` would show of a checkpoint, without a mount. See open().

    A context manager: at its end the checkpoint is closed. Any number of threads may use it. In a process that
    was forked, and where a pickle of it is loaded, it is opened again, which fails if a file has changed.
    """

    def __init__(self, source: bytes, values: Sequence[Value], identity: bytes = b"") -> None:
        self._source = source
        self._known = _forks.opened(source, values, identity)

    @property
    def _core(self) -> _core.Checkpoint:
        """Of this process."""
        self._known = _forks.here(self._known)
        return self._known

    @property
    def source(self) -> str:
        """As it was named."""
        return os.fsdecode(self._source)

    @property
    def ranks(self) -> list[int]:
        """The target ranks, or those of the option `ranks`."""
        return self._known.ranks

    @property
    def warnings(self) -> list[str]:
        """What the command would warn of, one line each."""
        return self._known.warnings

    @property
    def notes(self) -> list[str]:
        """Choices made, one line each."""
        return self._known.notes

    @property
    def step(self) -> str:
        """The step that was taken; empty if the file names have none."""
        return self._known.step

    @property
    def steps(self) -> list[str]:
        """All steps that were found, oldest first."""
        return self._known.steps

    def rank(self, rank: int) -> State:
        """The tensors of a target rank, none of them read.

        Raises Error, which then is an IndexError, too, if there is no such rank."""
        number = integer(rank, "a rank")
        if not 0 <= number < self._known.rank_count:
            last = self._known.rank_count - 1
            ranks = f"ranks 0-{last}" if last else "rank 0"
            raise WrongIndex(f"there is no target rank {number}: the target has {ranks}")
        return State(self._core.tensors(number), number, self._core)

    @property
    def merged(self) -> State:
        """The tensors of the whole model, none of them read.

        Where there is no such whole, its use raises Error."""
        return whole_state(self._core)

    def read_into_all(self, parts: Iterable[tuple[Tensor | str, Any]], *, prefix: str = "",
                      threads: int = 0) -> Reads:
        """Fills the buffer of each (tensor, buffer) with the tensor's elements, in C order.

        A tensor is one of this checkpoint, a box of one, or the name of one of the whole model, behind `prefix`. A
        buffer can be written, has exactly as many bytes, and its elements may lie apart, as those of a part of an
        array do. All are read by the same threads, in the order of the source's files. If a read fails, what the
        buffers contain is unknown.

        threads: how many read; by default one for each processor, but two at least."""
        return read_into_all(self.merged, parts, name_text(prefix), threads)

    def prefetch(self, tensors: Iterable[Tensor | str], *, prefix: str = "") -> None:
        """Begins to fetch what is to be read soon, and returns at once. Files are fetched into the memory of the
        system, and what a server has into that of the process. Errors are left to the read.

        tensors: as those of read_into_all()."""
        _core.prefetch([lazy(self.merged, tensor, name_text(prefix))._open() for tensor in tensors])

    def metadata(self) -> dict[str, str]:
        """What the headers of the source's safetensors files state beside the tensors (`__metadata__`), but for
        what each save writes anew, such as the format. Empty where there is nothing of that."""
        return self._core.metadata()

    def files(self) -> dict[str, int]:
        """The files of a mount, with their sizes in bytes."""
        return dict(self._core.files())

    def file(self, path: str | os.PathLike[str]) -> io.BufferedReader:
        """A file of a mount, such as "rank_3/checkpoint_3.ckpt", opened for reading in binary.

        Raises Error if there is no such file."""
        return open_file(self._core, path_text(path, "the path of a file"))

    def picture(self, name: str) -> str:
        """From which source rank each part of a parameter's slices comes: an SVG document.

        Raises Error if there is no parameter of this name."""
        data = encoded(name_text(name))
        if data is None:
            raise UnknownName(f"the target has no parameter {name!r}", "missing", parameter=name)
        return self._core.draw_parameter(data)

    def close(self) -> None:
        """Closes the source. Its tensors and files cannot be read any more."""
        self._known.close()

    @property
    def closed(self) -> bool:
        return self._known.closed

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return Checkpoint, kept(self._core)

    def __repr__(self) -> str:
        state = "closed" if self.closed else counted(len(self.ranks), "rank")
        return f"<reshardfs.Checkpoint {self.source!r}: {state}>"

    def _repr_html_(self) -> str:
        return page_of_checkpoint(self.source, self._core)


def open_checkpoint(source: str | os.PathLike[str], **options: Any) -> Checkpoint:
    path = os.fspath(source)
    if not isinstance(path, str):
        raise Error("the source is a path or a URL, as text")
    return Checkpoint(checked(path), values_of(options))
