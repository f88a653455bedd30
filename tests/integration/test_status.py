# SPDX-License-Identifier: Apache-2.0
"""reshardfs status: what is mounted, and never a wait for a mount that does not answer."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from command_tests import on_terminal  # noqa: E402
from make_checkpoint import Parallel, make_set  # noqa: E402
from mounted import (  # noqa: E402
    SOON,
    Result,
    Settings,
    mounted,
    mountpoint_guard,
    one_line,
    processes_of,
    rank_files,
    run,
    run_unittests,
    scratch,
    wait_until,
)

DATA = encode_checkpoint([Record("w", "Float32", (2,), b"abcdefgh")])


@contextlib.contextmanager
def mounted_at(name: str) -> Iterator[Path]:
    with scratch() as directory:
        (directory / "a source.ckpt").write_bytes(DATA)
        mountpoint = directory / name
        mountpoint.mkdir()
        with mountpoint_guard(mountpoint):
            result = run("mount", directory / "a source.ckpt", mountpoint)
            assert result.code == 0, result.stderr
            yield mountpoint


class Status(unittest.TestCase):
    def status(self, code: int, *words: str | Path) -> Result:
        begin = time.monotonic()
        result = run("status", *words)
        self.assertLess(time.monotonic() - begin, SOON)
        self.assertEqual(result.code, code, result.stdout + result.stderr)
        return result

    def one(self, code: int, mountpoint: Path) -> dict:
        (mount,) = json.loads(self.status(code, mountpoint, "--json").stdout)["mounts"]
        self.assertEqual(mount["mountpoint"], str(mountpoint))
        return mount

    def test_of_a_live_mount(self) -> None:
        with scratch() as directory:
            made = make_set(directory, Parallel(tp=4), Parallel(tp=2), layers=1)
            with mounted(made.source, *made.options()) as mountpoint:
                size = len(rank_files(mountpoint)[1].read_bytes())
                mount = self.one(0, mountpoint)
                self.assertEqual((mount["state"], mount["source"]), ("live", str(made.source)))
                status = mount["status"]
                self.assertEqual([status["pid"]], processes_of(mountpoint))
                self.assertEqual(status["shown_ranks"], 2)
                self.assertIn(status["uptime_seconds"], range(60))
                self.assertGreaterEqual(status["activity"]["bytes_delivered"], size)
                heading, line = self.status(0, mountpoint).stdout.splitlines()
                self.assertEqual(heading.split()[0], "MOUNTPOINT")
                for word in (str(mountpoint), str(made.source), str(status["pid"]), "live", " -> "):
                    self.assertIn(word, line)

    def test_lists_all_with_their_states(self) -> None:
        # Blanks, backslashes and line feeds are escaped in the kernel's list.
        with mounted_at("with blank\\ and\nline") as first, mounted_at("dead") as second:
            (pid,) = processes_of(second)
            os.kill(pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not processes_of(second)))
            result = json.loads(self.status(1, "--json").stdout)
            states = {mount["mountpoint"]: mount["state"] for mount in result["mounts"]}
            self.assertEqual((states[str(first)], states[str(second)]), ("live", "dead"))
            text = self.status(1).stdout
            self.assertIn(f"dead: reshardfs umount {second}", text)
            # Of other tests there may be mounts, too.
            self.assertRegex(text, r"(?m)^.*with blank.* live\b")
            self.assertIsNone(self.one(1, second)["status"])
            self.assertEqual(self.one(0, first)["state"], "live")
            self.assertEqual(run("umount", second).code, 0)
            self.assertEqual(run("umount", first).code, 0)

    def test_fits_the_terminal(self) -> None:
        with scratch() as directory:
            made = make_set(directory, Parallel(tp=4), Parallel(tp=2), layers=1)
            with mounted(made.source, *made.options()) as mountpoint:
                lines = on_terminal("status", mountpoint, columns=60)
                self.assertEqual(lines[0], f"{mountpoint}  live")
                self.assertEqual(lines[1], f"    source {made.source}")
                (pid,) = processes_of(mountpoint)
                self.assertIn(f"2 ranks, process {pid}, up", " ".join(map(str.strip, lines[2:])))
                self.assertLessEqual(max(map(len, lines[2:])), 60)
                self.assertIn("MOUNTPOINT", on_terminal("status", mountpoint, columns=400)[0])

    def test_names_the_source_by_its_whole_path(self) -> None:
        with scratch() as directory:
            (directory / "model.ckpt").write_bytes(DATA)
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                result = run("mount", os.path.relpath(directory / "model.ckpt"), mountpoint)
                self.assertEqual(result.code, 0, result.stderr)
                self.assertEqual(self.one(0, mountpoint)["source"], str(directory / "model.ckpt"))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
    def test_folds_mounts_of_other_users(self) -> None:
        """Root's mounts keep others out, who see where they are and no more."""
        with mounted_at("one") as one, mounted_at("two") as two:
            for path in (one, two):
                path.parent.chmod(0o755)
            text = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                   str(Settings.binary), "status"], capture_output=True, text=True,
                                  check=True, timeout=60).stdout
            line = text.splitlines()[-1]
            self.assertRegex(line, r"^\d+ mounts of other users, which only they can ask: ")
            self.assertIn(str(one), line)
            self.assertIn(str(two), line)

    def test_of_a_mount_that_does_not_answer(self) -> None:
        with mounted_at("mnt") as mountpoint:
            (pid,) = processes_of(mountpoint)
            link = mountpoint.parent / "link"
            link.symlink_to(mountpoint)
            os.kill(pid, signal.SIGSTOP)
            try:
                self.assertEqual(self.one(1, mountpoint)["state"], "stalled")
                self.assertIn("does not answer", self.status(1, mountpoint).stdout)
                self.status(1)
                result = self.status(3, mountpoint / "rank_0/a")
                self.assertIn("does not answer", one_line(result))
                self.assertIn(run("status", link).code, (1, 3))
            finally:
                os.kill(pid, signal.SIGCONT)
            self.assertEqual(self.one(0, mountpoint)["state"], "live")
            self.assertEqual(run("umount", mountpoint).code, 0)

    def test_finds_it_under_any_spelling(self) -> None:
        with mounted_at("mnt") as mountpoint:
            (mountpoint.parent / "link").symlink_to(mountpoint)
            for spelling in (f"{mountpoint}/", mountpoint.parent / "link",
                             mountpoint.parent / "x/../mnt", os.path.relpath(mountpoint)):
                self.status(0, spelling)
            self.assertEqual(run("umount", mountpoint).code, 0)

    def test_of_what_is_not_mounted(self) -> None:
        with scratch() as directory:
            for path in (directory, directory / "nowhere", Path("/proc")):
                result = self.status(2, path)
                self.assertIn("no checkpoint is mounted here", one_line(result))
                self.assertEqual(result.stdout, "")

    def test_of_all_steps(self) -> None:
        with scratch() as directory:
            folder = directory / "rank_0"
            folder.mkdir()
            (folder / "net-1_1.ckpt").write_bytes(DATA)
            with mounted(directory, "--step", "all") as mountpoint:
                self.assertEqual(self.one(0, mountpoint)["status"]["step"], "all")
                self.assertIn("live", self.status(0, mountpoint).stdout)


if __name__ == "__main__":
    run_unittests()
