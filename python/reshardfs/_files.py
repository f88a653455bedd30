# SPDX-License-Identifier: Apache-2.0
"""The files of a mount, without a mount."""

from __future__ import annotations

import io
import operator
import os
from typing import Any

from . import _core
from ._arguments import encoded
from ._errors import Error

# What small reads are made of.
_BLOCK_BYTES = 1 << 20


class _RawFile(io.RawIOBase):
    def __init__(self, file: _core.File, name: str) -> None:
        super().__init__()
        self._file = file
        self._place = 0
        self.name = name
        self.mode = "rb"

    def readable(self) -> bool:
        self._require_open()
        return True

    def seekable(self) -> bool:
        self._require_open()
        return True

    def tell(self) -> int:
        self._require_open()
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._require_open()
        offset, whence = operator.index(offset), operator.index(whence)
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._file.size}
        if whence not in base:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        place = base[whence] + offset
        if place < 0:
            raise ValueError(f"a place before the file's first byte: {place}")
        if place >> 63:
            raise ValueError(f"a place behind those of any file: {place}")
        self._place = place
        return place

    def readinto(self, buffer: Any) -> int:
        self._require_open()
        with memoryview(buffer).cast("B") as view:
            if view.readonly:
                raise TypeError("readinto() takes a buffer that can be written to")
            count = max(0, min(len(view), self._file.size - self._place))
            if count:
                self._file.read_into(self._place, count, view)
        self._place += count
        return count

    def readall(self) -> bytes:
        self._require_open()
        left = self._file.read(self._place, max(0, self._file.size - self._place))
        self._place += len(left)
        return left

    def _require_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def open_file(checkpoint: _core.Checkpoint, path: str) -> io.BufferedReader:
    data = encoded(path)
    if data is None:
        raise Error(f"the conversion has no file {path!r}", "missing", path)
    file = checkpoint.file(data)
    return io.BufferedReader(_RawFile(file, path), _BLOCK_BYTES)


def names_below(files: list[tuple[str, int]], path: str) -> list[dict[str, Any]]:
    """What a directory has, as fsspec tells it; a file has itself.

    Raises Error if there is nothing of that name."""
    path = path.strip("/")
    found: dict[str, dict[str, Any]] = {}
    for name, size in files:
        if name == path:
            return [{"name": name, "size": size, "type": "file"}]
        if path and not name.startswith(path + "/"):
            continue
        rest = name[len(path) + 1 if path else 0:]
        head, slash, _ = rest.partition("/")
        below = f"{path}/{head}" if path else head
        found[below] = {"name": below, "size": 0 if slash else size, "type": "directory" if slash else "file"}
    if not found and path:
        raise Error(f"there is no file '{path}'", "missing", path)
    return list(found.values())
