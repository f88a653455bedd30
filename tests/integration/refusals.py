# SPDX-License-Identifier: Apache-2.0
"""What all tests of wrong input share: a good set to break, and what a proper refusal is."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import by_name  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from mounted import (  # noqa: E402
    is_mounted,
    mounted,
    mountpoint_guard,
    one_line,
    processes_of,
    rank_files,
    run,
    scratch,
    wait_until,
)

WEIGHT = "model.layers.0.attention.wq.weight"
# However hostile the input is, it must be refused in this time.
REFUSED_SECONDS = 60.0

# A word that the message must have; of a tuple one is enough.
Word = str | tuple[str, ...]
Options = list[str | Path]


class Refusals(unittest.TestCase):
    """Four ranks, tensor parallel, to two; each test breaks one thing."""

    SRC = Parallel(tp=4)
    DST = Parallel(tp=2)
    made: GeneratedSet
    mountpoint: Path

    def setUp(self) -> None:
        directory = self.enterContext(scratch())
        self.made = make_set(directory, self.SRC, self.DST, layers=1, seed=2)
        self.mountpoint = directory / "mnt"
        self.mountpoint.mkdir()
        self.enterContext(mountpoint_guard(self.mountpoint))

    def other_set(self, src: Parallel, dst: Parallel, **options: object) -> GeneratedSet:
        """Another set takes the place of the usual one."""
        directory = self.enterContext(scratch())
        self.made = make_set(directory, src, dst, **options)  # type: ignore[arg-type]
        return self.made

    def source(self, rank: int) -> Path:
        return self.made.source_files(rank)[0]

    def strategies(self, src: Path | None = None, dst: Path | None = None) -> Options:
        """The options for the set's own strategies, or others in their place."""
        return ["--src-strategy", src or self.made.src_strategy,
                "--dst-strategy", dst or self.made.dst_strategy]

    def refused_words(self, arguments: Options, *words: Word, code: int = 2) -> str:
        """Runs the program; it must fail with one line on standard error that has the words."""
        result = run(*arguments, seconds=REFUSED_SECONDS)
        self.assertEqual(result.code, code, f"standard error: {result.stderr!r}")
        line = one_line(result)
        for word in words:
            choices = (word,) if isinstance(word, str) else word
            self.assertTrue(any(choice in line for choice in choices),
                            f"none of {choices} in: {line}")
        self.assertTrue(line.isprintable(), f"control characters in: {line!r}")
        self.assertFalse(is_mounted(self.mountpoint), "something is mounted")
        self.assertEqual(processes_of(self.mountpoint), [], "a process was left")
        return line

    def refused(self, *words: Word, options: Options | None = None, code: int = 2) -> str:
        """Like refused_words(), for mounting the set."""
        options = self.strategies() if options is None else options
        arguments = ["mount", self.made.source, self.mountpoint, *options]
        return self.refused_words(arguments, *words, code=code)

    def works(self, *options: str) -> None:
        """The set as it is can be mounted, and shows what it must."""
        with mounted(self.made.source, *self.strategies(), *options) as mountpoint:
            for rank, path in rank_files(mountpoint).items():
                self.assertEqual(by_name(path.read_bytes()), self.made.expected(rank))

    @contextlib.contextmanager
    def dead_mount(self) -> Iterator[Path]:
        """A mount whose daemon was killed: everything below it gives ENOTCONN."""
        with scratch() as directory:
            mountpoint = directory / "dead"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                result = run("mount", self.made.source, mountpoint, *self.strategies())
                self.assertEqual(result.code, 0, result.stderr)
                for pid in processes_of(mountpoint):
                    os.kill(pid, signal.SIGKILL)
                self.assertTrue(wait_until(lambda: not processes_of(mountpoint)))
                yield mountpoint
