# SPDX-License-Identifier: Apache-2.0
"""Many source files: under a small limit of open files, and with indexes left for later."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import by_name  # noqa: E402
from make_large import make_large  # noqa: E402
from mounted import (  # noqa: E402
    Settings,
    errno_name,
    mounted,
    processes_of,
    run,
    run_unittests,
    scratch,
)

LIMIT = 256


def options(root: Path) -> list[str]:
    return ["--src-strategy", str(root / "src.ckpt"), "--dst-strategy", str(root / "dst.ckpt")]


@contextlib.contextmanager
def open_file_limit(directory: Path, limit: int) -> Iterator[None]:
    """The program may have `limit` files open and cannot raise that."""
    before = Settings.binary
    script = directory / "limited"
    script.write_text(f'#!/bin/sh\nulimit -n {limit}\nexec {shlex.quote(str(before))} "$@"\n')
    script.chmod(0o755)
    Settings.binary = script
    try:
        yield
    finally:
        Settings.binary = before


class ManyFiles(unittest.TestCase):
    def test_more_files_than_may_be_open(self) -> None:
        with scratch() as root:
            make_large(root, dp=128, tp=8, stages=1, parameters=30, dst_dp=2, dst_tp=4)
            with mounted(root / "src", *options(root)) as mountpoint:
                expected = [f.read_bytes() for f in sorted(mountpoint.glob("rank_*/*.ckpt"))]
            self.assertEqual(len(expected), 8)
            with open_file_limit(root, LIMIT):
                with mounted(root / "src", *options(root)) as mountpoint:
                    found = [f.read_bytes() for f in sorted(mountpoint.glob("rank_*/*.ckpt"))]
                    (daemon,) = processes_of(mountpoint)
                    self.assertLess(len(os.listdir(f"/proc/{daemon}/fd")), LIMIT)
            self.assertTrue(found == expected)

    def test_a_file_that_was_replaced_while_it_was_closed(self) -> None:
        with scratch() as root:
            make_large(root, dp=128, tp=8, stages=1, parameters=30, dst_dp=2, dst_tp=4)
            with open_file_limit(root, LIMIT):
                with mounted(root / "src", *options(root)) as mountpoint:
                    for folder in (root / "src").iterdir():
                        file = next(folder.iterdir())
                        file.with_suffix(".new").write_bytes(file.read_bytes())
                        file.with_suffix(".new").rename(file)
                    with self.assertRaises(OSError) as caught:
                        (mountpoint / "rank_0" / "checkpoint_0.ckpt").read_bytes()
                    self.assertEqual(errno_name(caught.exception), "ESTALE")


class ManyParameters(unittest.TestCase):
    def test_a_damaged_file_fails_the_reads_that_need_it(self) -> None:
        with scratch() as root:
            make_large(root, dp=16, tp=8, stages=1, parameters=3000, dst_dp=8, dst_tp=8)
            # In the middle of a name, far from all that every file is looked at for.
            file = root / "src" / "rank_77" / "net-1_1.ckpt"
            data = bytearray(file.read_bytes())
            damaged = data.index(b"adam_v.model.layers.50.attention.wk.weight")
            data[damaged] = 0xFF
            file.write_bytes(data)
            with mounted(root / "src", *options(root)) as mountpoint:
                readable, failed = 0, []
                for rank in range(64):
                    path = mountpoint / f"rank_{rank}" / f"checkpoint_{rank}.ckpt"
                    try:
                        by_name(path.read_bytes())
                        readable += 1
                    except OSError as error:
                        failed.append(errno_name(error))
                self.assertEqual(set(failed), {"EIO"})
                self.assertGreater(readable, 0)
            refused = run("plan", root / "src", *options(root), "--rank", "0", "--check-crc")
            self.assertEqual(refused.code, 2)
            self.assertIn("rank_77", refused.stderr)


if __name__ == "__main__":
    run_unittests()
