# SPDX-License-Identifier: Apache-2.0
"""Sources that the daemon may not read: from the start, and from some time on. Root may read
everything, so it gives up that right here."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import unittest
from pathlib import Path

from mounted import (
    Settings,
    errno_name,
    mounted,
    one_line,
    run,
    run_unittests,
    scratch,
    started_by,
)
from two_arrays import HALVES, ROWS, TwoArrays, metric, mounted_file
from make_large import make_large  # two_arrays has put its directory on the path

SHAPE = (64, 1024)
FEW_FILES = 256
RIGHTS = "-dac_override,-dac_read_search"


def bound_by_permissions(directory: Path) -> contextlib.AbstractContextManager[None]:
    """The program may read what permissions let it read, and may have few files open."""
    drop = f"setpriv --bounding-set={RIGHTS} --inh-caps={RIGHTS}" if os.geteuid() == 0 else ""
    return started_by(directory, f"ulimit -n {FEW_FILES}", drop)


class Unreadable(unittest.TestCase):
    def setUp(self) -> None:
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            self.skipTest("setpriv is not installed")
        self.directory = self.enterContext(scratch())
        self.enterContext(bound_by_permissions(self.directory))
        unreadable = self.directory / "unreadable"
        unreadable.touch(0o000)
        if subprocess.run([Settings.binary, "inspect", unreadable], capture_output=True, text=True,
                          check=False).stderr.count("Permission denied") != 1:
            self.skipTest("permissions do not bind this user")

    def test_from_the_start(self) -> None:
        """Refused, with the name of what cannot be read."""
        made = TwoArrays(self.directory, ROWS, HALVES, SHAPE)
        (self.directory / "mnt").mkdir()
        for path in (made.file(2), made.file(2).parent, made.source, *made.strategies):
            with self.subTest(path.relative_to(self.directory)):
                mode = path.stat().st_mode
                path.chmod(0)
                try:
                    result = run("mount", made.source, self.directory / "mnt", *made.options())
                finally:
                    path.chmod(mode)
                self.assertEqual(result.code, 3, result.stderr)
                self.assertIn("Permission denied", one_line(result))
                self.assertIn(f"/{path.relative_to(self.directory)}", one_line(result))

    def test_other_permissions_are_no_change(self) -> None:
        """They move the change time, as writing does, but a watch tells that nobody wrote."""
        made = TwoArrays(self.directory, ROWS, HALVES, SHAPE)
        with mounted(made.source, *made.options(), "--direct-io") as mountpoint:
            for mode in (0o400, 0):
                made.file(1).chmod(mode)
                for rank in range(2):
                    self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), made.expected(rank))

    def test_what_is_open_stays_readable(self) -> None:
        made = TwoArrays(self.directory, ROWS, HALVES, SHAPE)
        with mounted(made.source, *made.options(), "--direct-io") as mountpoint:
            made.source.chmod(0)
            try:
                for rank in range(2):
                    self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), made.expected(rank))
            finally:
                made.source.chmod(0o755)

    def test_what_must_be_opened_again(self) -> None:
        """More source files than may be open: those that cannot be opened again fail, for as long
        as that lasts."""
        make_large(self.directory, dp=128, tp=8, stages=1, parameters=30, dst_dp=2, dst_tp=4)
        log = self.directory / "log"
        with mounted(self.directory / "src", "--src-strategy", self.directory / "src.ckpt",
                     "--dst-strategy", self.directory / "dst.ckpt", "--direct-io", "--log-file",
                     log) as mountpoint:
            path = mounted_file(mountpoint, 0)
            whole = path.read_bytes()
            self.assertEqual(metric(mountpoint, "read_errors_total"), 0)
            (self.directory / "src").chmod(0)
            try:
                with self.assertRaises(OSError) as caught:
                    path.read_bytes()
            finally:
                (self.directory / "src").chmod(0o755)
            self.assertEqual(errno_name(caught.exception), "EACCES")
            self.assertGreater(metric(mountpoint, "read_errors_total"), 0)
            self.assertRegex(log.read_text(), r"/src/rank_\d+/net-1_1\.ckpt.*Permission denied")
            self.assertEqual(path.read_bytes(), whole)


if __name__ == "__main__":
    run_unittests()
