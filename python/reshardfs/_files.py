# SPDX-License-Identifier: Apache-2.0
"""The files of a mount, without a mount."""

from __future__ import annotations

import io
import os
from typing import Any

from . import _core
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
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._require_open()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._file.size}
        if whence not in base:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if base[whence] + offset < 0:
            raise ValueError(f"a place before the file's first byte: {base[whence] + offset}")
        self._place = base[whence] + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        self._require_open()
        with memoryview(buffer).cast("B") as view:
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
    file = checkpoint.file(path)
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
