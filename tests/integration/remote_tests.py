# SPDX-License-Identifier: Apache-2.0
"""What tests of sources on servers share: a set on a server of their own, and mounts of it."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Iterator
from pathlib import Path

from mounted import mounted, mountpoint_guard, one_line, run, scratch
from two_arrays import HALVES, ROWS, Layout, TwoArrays, mounted_file
from web_server import Server, serving

SHAPE = (512, 8192)  # two arrays of 4 MiB
# Two of 32 MiB: more than fits into SMALL, so that what is read must be fetched.
MANY = (4096, 8192)
SMALL = ("--prefetch-memory", "8MiB")


class Remote(unittest.TestCase):
    """A set on a server."""

    made: TwoArrays
    root: Path
    server: Server

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.set_up(ROWS, HALVES)

    def set_up(self, src: Layout, dst: Layout, shape: tuple[int, int] = SHAPE) -> None:
        directory = self.root / f"set{len(list(self.root.iterdir()))}"
        directory.mkdir()
        self.made = TwoArrays(directory, src, dst, shape)
        self.server = self.enterContext(serving(directory))

    @property
    def url(self) -> str:
        return f"{self.server.url}/set"

    @contextlib.contextmanager
    def mount(self, *options: str, url: str | None = None) -> Iterator[Path]:
        self.log = self.root / "log"
        with mounted(url or self.url, *self.made.options(), "--log-file", self.log,
                     *options) as mountpoint:
            yield mountpoint

    def read(self, mountpoint: Path, rank: int = 0) -> bytes:
        return mounted_file(mountpoint, rank).read_bytes()

    def assert_all_right(self, mountpoint: Path) -> None:
        for rank in range(self.made.dst.device_count):
            self.assertEqual(self.read(mountpoint, rank), self.made.expected(rank))

    def refused(self, *words: str, url: str | None = None, options: tuple[str, ...] = ()) -> str:
        """The one line of a mount that fails."""
        target = self.root / "mnt"
        target.mkdir(exist_ok=True)
        with mountpoint_guard(target):
            result = run("mount", url or self.url, target, *self.made.options(),
                         "--remote-timeout", "2", *options)
        self.assertIn(result.code, (2, 3), result.stderr)
        line = one_line(result)
        for word in words:
            self.assertIn(word, line)
        return line
