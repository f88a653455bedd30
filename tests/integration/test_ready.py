# SPDX-License-Identifier: Apache-2.0
"""reshardfs status --ready: one line and an exit code for probes, wherever the mount is seen from, and
never a wait for one that does not answer."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    SOON,
    Settings,
    command,
    mounted,
    mountpoint_guard,
    one_line,
    processes_of,
    run,
    run_unittests,
    scratch,
    wait_until,
)

DATA = encode_checkpoint([Record("w", "Float32", (2,), b"abcdefgh")])


class Ready(unittest.TestCase):
    @contextlib.contextmanager
    def place(self) -> Iterator[tuple[Path, Path]]:
        """A source and where it is mounted."""
        with scratch() as directory:
            source = directory / "m.ckpt"
            source.write_bytes(DATA)
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                result = run("mount", source, mountpoint)
                self.assertEqual(result.code, 0, result.stderr)
                yield source, mountpoint

    def assert_says(self, mountpoint: Path, code: int, text: str) -> None:
        begin = time.monotonic()
        result = run("status", "--ready", mountpoint)
        self.assertLess(time.monotonic() - begin, SOON)
        self.assertEqual((result.code, result.stderr), (code, ""), result.stdout)
        self.assertEqual(result.stdout.count("\n"), 1, result.stdout)
        self.assertTrue(result.stdout.startswith(f"{mountpoint}: {text}"), result.stdout)

    def test_of_a_mount(self) -> None:
        with self.place() as (_, mountpoint):
            self.assert_says(mountpoint, 0, "ready\n")
            # For images without the program.
            ready = mountpoint / ".reshardfs/ready"
            self.assertEqual(ready.read_text(), "ready\n")
            self.assertEqual(stat.S_IMODE(ready.stat().st_mode), 0o444)
            command("umount", mountpoint)
            self.assert_says(mountpoint, 1, "not ready: no checkpoint is mounted here\n")

    def test_of_no_mount(self) -> None:
        with scratch() as directory:
            fake = directory / ".reshardfs"
            fake.mkdir()
            (fake / "ready").write_text("ready\n")
            for path in (directory, Path("/proc")):
                self.assert_says(path, 1, "not ready: no checkpoint is mounted here\n")
            self.assert_says(directory / "none", 1, "not ready: No such file or directory\n")

    def test_of_a_source_that_has_changed(self) -> None:
        with self.place() as (source, mountpoint):
            with open(source, "r+b") as file:
                file.write(DATA[:8])
            os.utime(source, (1, 1))
            self.assert_says(mountpoint, 1, f"not ready: {source}: ")
            text = (mountpoint / ".reshardfs/ready").read_text()
            self.assertIn(str(source), text)
            self.assertEqual(text.count("\n"), 1)

    def test_of_a_source_whose_file_was_replaced(self) -> None:
        """What is open is still what it was."""
        with self.place() as (source, mountpoint):
            other = source.with_name("other")
            other.write_bytes(DATA * 2)
            other.rename(source)
            self.assert_says(mountpoint, 0, "ready\n")

    def test_of_a_dead_mount(self) -> None:
        with self.place() as (_, mountpoint):
            (pid,) = processes_of(mountpoint)
            os.kill(pid, signal.SIGKILL)
            self.assertTrue(wait_until(lambda: not processes_of(mountpoint)))
            self.assert_says(mountpoint, 1, "not ready: the process of the mount has ended\n")
            command("umount", mountpoint)

    def test_of_a_mount_that_does_not_answer(self) -> None:
        with self.place() as (_, mountpoint):
            (pid,) = processes_of(mountpoint)
            os.kill(pid, signal.SIGSTOP)
            try:
                self.assert_says(mountpoint, 1, "not ready: it does not answer\n")
                # A path inside leads to the same wait.
                self.assert_says(mountpoint / "rank_0", 1, "not ready: it does not answer\n")
                probe = [str(Settings.binary), "status", "--ready", str(mountpoint)]
                with subprocess.Popen(probe, stdout=subprocess.DEVNULL) as process:
                    process.kill()
                    self.assertEqual(process.wait(SOON), -signal.SIGKILL)
            finally:
                os.kill(pid, signal.SIGCONT)
            self.assert_says(mountpoint, 0, "ready\n")

    def test_of_all_steps(self) -> None:
        with scratch() as directory:
            folder = directory / "rank_0"
            folder.mkdir()
            (folder / "net-1_1.ckpt").write_bytes(DATA)
            with mounted(directory, "--step", "all") as mountpoint:
                self.assert_says(mountpoint, 0, "ready\n")
                self.assert_says(mountpoint / "latest", 0, "ready\n")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make namespaces")
    def test_of_a_container_that_sees_the_mount_alone(self) -> None:
        """Neither the process of the mount, nor the place that it was mounted at."""
        with self.place() as (_, mountpoint):
            elsewhere = mountpoint.parent / "elsewhere"
            elsewhere.mkdir()
            words = " ".join(map(shlex.quote, [str(Settings.binary), "status", "--ready",
                                               str(elsewhere)]))
            script = (f"mount --bind {shlex.quote(str(mountpoint))} {shlex.quote(str(elsewhere))}; "
                      f"umount {shlex.quote(str(mountpoint))}; {words}")
            space = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation",
                     "private"]
            if subprocess.run([*space, "true"], capture_output=True, check=False).returncode:
                self.skipTest("no namespaces can be made")
            done = subprocess.run([*space, "sh", "-c", script], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (0, f"{elsewhere}: ready\n", ""))

    def test_needs_a_mount_point(self) -> None:
        result = run("status", "--ready")
        self.assertEqual(result.code, 2)
        self.assertIn("MOUNTPOINT", one_line(result))


if __name__ == "__main__":
    run_unittests()
