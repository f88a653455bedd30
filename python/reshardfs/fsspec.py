# SPDX-License-Identifier: Apache-2.0
"""The files of a mount for fsspec, without a mount: `reshardfs://`, which fsspec knows once the package
is installed.

    fsspec.open("reshardfs://rank_3/checkpoint_3.ckpt", source="ckpt", src_strategy="train.ckpt",
                dst_strategy="tp=4")
"""

from __future__ import annotations

import io
from typing import Any

from fsspec.spec import AbstractFileSystem

from ._checkpoint import Checkpoint, open_checkpoint
from ._errors import Error
from ._files import names_below


class ReshardFileSystem(AbstractFileSystem):
    """source: an opened checkpoint, or what reshardfs.open() takes, with its options."""

    protocol = "reshardfs"
    root_marker = ""

    def __init__(self, source: Any, **options: Any) -> None:
        own = {key: options.pop(key) for key in list(options)
               if key in ("use_listings_cache", "skip_instance_cache", "asynchronous", "loop")}
        super().__init__(**own)
        self.checkpoint = source if isinstance(source, Checkpoint) else open_checkpoint(source, **options)
        self._files = list(self.checkpoint.files().items())

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        try:
            found = names_below(self._files, self._strip_protocol(path))
        except Error as error:
            raise FileNotFoundError(str(error)) from error
        return found if detail else [entry["name"] for entry in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path).strip("/")
        found: list[dict[str, Any]] = self.ls(path)
        if len(found) == 1 and found[0]["name"] == path:
            return found[0]
        return {"name": path, "size": 0, "type": "directory"}

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BufferedReader:
        if mode != "rb":
            raise OSError(30, f"the files are read-only: mode {mode!r}", path)
        self.info(path)
        return self.checkpoint.file(self._strip_protocol(path).strip("/"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        with self._open(path) as file:
            size = file.seek(0, io.SEEK_END)
            begin = 0 if start is None else start + size * (start < 0)
            stop = size if end is None else end + size * (end < 0)
            file.seek(begin)
            return file.read(max(0, stop - begin))

    def created(self, path: str) -> Any:
        raise NotImplementedError("files that are computed have no time of creation")
