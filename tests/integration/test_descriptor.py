# SPDX-License-Identifier: Apache-2.0
"""A mount point that is /dev/fd/N: a privileged parent mounts, and hands the descriptor over to a
daemon that has no privileges at all."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    NOBODY,
    UNPRIVILEGED,
    Settings,
    assert_gone,
    command,
    is_mounted,
    mountpoint_guard,
    run,
    run_unittests,
    scratch,
    status_of,
    wait_until,
)

DATA = encode_checkpoint([Record("w", "Float32", (1000,), bytes(range(250)) * 16)])
MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
EXAMPLE = Path(__file__).resolve().parents[2] / "packaging/deploy/kubernetes/helper/mount_descriptor.py"
FILE = "rank_0/checkpoint_0.ckpt"


def mount_descriptor(mountpoint: Path) -> int:
    """What fusermount3 does, and a container's runtime or a storage driver would."""
    descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = (f"fd={descriptor},rootmode=40000,user_id={NOBODY},group_id={NOBODY},"
               "default_permissions,allow_other")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"handed-over", bytes(mountpoint), b"fuse.reshardfs",
                  MS_RDONLY | MS_NOSUID | MS_NODEV, options.encode()):
        error = ctypes.get_errno()
        os.close(descriptor)
        raise OSError(error, os.strerror(error))
    return descriptor


class HandedOver(unittest.TestCase):
    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("needs root to mount for another user")
        if shutil.which("setpriv") is None:
            self.skipTest("setpriv is not installed")

    @contextlib.contextmanager
    def place(self) -> Iterator[tuple[Path, Path]]:
        """A source and a mount point."""
        with scratch() as directory:
            directory.chmod(0o755)
            (directory / "m.ckpt").write_bytes(DATA)
            shutil.copy(Settings.binary, directory / "reshardfs")
            (directory / "mnt").mkdir()
            with mountpoint_guard(directory / "mnt"):
                yield directory, directory / "mnt"

    def words(self, directory: Path, descriptor: int, *more: str) -> list[str]:
        return [*UNPRIVILEGED, str(directory / "reshardfs"), "mount", str(directory / "m.ckpt"),
                f"/dev/fd/{descriptor}", *more]

    @contextlib.contextmanager
    def foreground(self, directory: Path, descriptor: int) -> Iterator[subprocess.Popen]:
        with subprocess.Popen(self.words(directory, descriptor, "-f"), stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, pass_fds=(descriptor,)) as process:
            try:
                yield process
            finally:
                process.kill()  # nothing, if it has been waited for

    def check_reads(self, mountpoint: Path) -> int:
        """@return the process that serves it."""
        self.assertEqual((mountpoint / FILE).read_bytes(), DATA)
        pid = json.loads((mountpoint / ".reshardfs/status.json").read_text())["pid"]
        status = Path(f"/proc/{pid}/status").read_text()
        self.assertIn(f"\nUid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n", status)
        for kind in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertIn(f"\n{kind}:\t{0:016x}\n", status)
        return pid

    def assert_ends(self, pid: int) -> None:
        self.assertTrue(wait_until(lambda: not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in
                                   Path(f"/proc/{pid}/status").read_text()), f"{pid} lives on")

    def test_foreground(self) -> None:
        with self.place() as (directory, mountpoint):
            descriptor = mount_descriptor(mountpoint)
            with self.foreground(directory, descriptor) as process:
                os.close(descriptor)
                self.assertEqual(self.check_reads(mountpoint), process.pid)
                command("umount", mountpoint)
                self.assertEqual(process.wait(60), 0)
                self.assertEqual(process.stderr.read(), b"")
            assert_gone(mountpoint)

    def test_background(self) -> None:
        with self.place() as (directory, mountpoint):
            descriptor = mount_descriptor(mountpoint)
            with open(directory / "out", "wb+") as out:
                done = subprocess.run(self.words(directory, descriptor), stdin=subprocess.DEVNULL,
                                      stdout=out, stderr=out, pass_fds=(descriptor,),
                                      timeout=COMMAND_SECONDS, check=False)
            os.close(descriptor)
            self.assertEqual((done.returncode, (directory / "out").read_bytes()), (0, b""))
            pid = self.check_reads(mountpoint)
            listed = status_of(mountpoint, "--json")
            self.assertEqual(listed.code, 0, listed.stderr)
            self.assertEqual(json.loads(listed.stdout)["mounts"][0]["status"]["pid"], pid)
            self.assertEqual(run("umount", mountpoint).code, 0)
            self.assert_ends(pid)
            assert_gone(mountpoint)

    def test_passes_to_another_process(self) -> None:
        for more in ([], ["--supervise"]):
            with self.subTest(more=more), self.place() as (directory, mountpoint):
                descriptor = mount_descriptor(mountpoint)
                done = subprocess.run(self.words(directory, descriptor, *more), stdin=subprocess.DEVNULL,
                                      pass_fds=(descriptor,), timeout=COMMAND_SECONDS, check=False)
                os.close(descriptor)
                self.assertEqual(done.returncode, 0)
                pid = self.check_reads(mountpoint)
                with open(mountpoint / FILE, "rb", buffering=0) as file:
                    reloaded = run("reload", mountpoint)
                    self.assertEqual(reloaded.code, 0, reloaded.stderr)
                    self.assertNotEqual(self.check_reads(mountpoint), pid)
                    self.assert_ends(pid)
                    if more:
                        os.kill(self.check_reads(mountpoint), signal.SIGKILL)
                    self.assertEqual(file.read(), DATA)
                pid = self.check_reads(mountpoint)
                command("umount", mountpoint)
                self.assert_ends(pid)
                assert_gone(mountpoint)

    def test_sigterm_ends_the_daemon_and_leaves_the_mount_to_its_owner(self) -> None:
        with self.place() as (directory, mountpoint):
            descriptor = mount_descriptor(mountpoint)
            with self.foreground(directory, descriptor) as process:
                os.close(descriptor)
                self.check_reads(mountpoint)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 0)
            self.assertTrue(is_mounted(mountpoint))
            self.assertEqual(status_of(mountpoint).code, 1)
            self.assertEqual(run("umount", mountpoint).code, 0)

    @contextlib.contextmanager
    def example(self, directory: Path, mountpoint: Path) -> Iterator[subprocess.Popen]:
        """The program that is installed as an example mounts, and runs the daemon."""
        words = [sys.executable, "-B", str(EXAMPLE), str(mountpoint), "--",
                 *self.words(directory, 3, "-f")]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                line = f" {mountpoint} "
                self.assertTrue(wait_until(lambda: any(
                    line in mount and " fuse.reshardfs " in mount
                    for mount in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines())))
                yield process
            finally:
                process.terminate()  # nothing, if it has been waited for

    def test_the_example_hands_over_and_unmounts(self) -> None:
        for ends in ("umount", "SIGTERM", "SIGKILL of the daemon"):
            with self.subTest(ends), self.place() as (directory, mountpoint):
                with self.example(directory, mountpoint) as process:
                    pid = self.check_reads(mountpoint)
                    if ends == "umount":
                        command("umount", mountpoint)
                    elif ends == "SIGTERM":
                        process.send_signal(signal.SIGTERM)
                    else:
                        os.kill(pid, signal.SIGKILL)
                    code = 128 + signal.SIGKILL if ends.startswith("SIGKILL") else 0
                    self.assertEqual((process.wait(60), process.stderr.read()), (code, b""))
                self.assert_ends(pid)
                assert_gone(mountpoint)

    def test_the_example_leaves_what_was_mounted_before(self) -> None:
        with self.place() as (directory, mountpoint):
            command("mount", "-t", "tmpfs", "below", mountpoint)
            try:
                with self.example(directory, mountpoint) as process:
                    self.check_reads(mountpoint)
                    command("umount", mountpoint)
                    self.assertEqual(process.wait(60), 0, process.stderr.read())
                self.assertTrue(is_mounted(mountpoint))
            finally:
                command("umount", mountpoint)

    def test_the_example_reports_what_it_cannot_mount(self) -> None:
        with self.place() as (directory, mountpoint):
            done = subprocess.run([sys.executable, "-B", str(EXAMPLE), str(directory / "none"), "true"],
                                  capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (1, f"mount_descriptor: {directory}/none: No such file or directory\n"))

    def test_what_is_no_descriptor_of_a_mount_is_said(self) -> None:
        with self.place() as (directory, mountpoint):
            fuse = os.open("/dev/fuse", os.O_RDWR)
            null = os.open("/dev/null", os.O_RDWR)
            for descriptor, passed, says in (
                (null, (null,), "does not refer to /dev/fuse"),
                (fuse, (fuse,), "belongs to no live mount"),
                (fuse, (), "no such descriptor is open"),
                (1, (), "standard stream"),
            ):
                for flags in ((), ("-f",), ("--check-only",)):
                    with self.subTest(says, flags=flags):
                        words = self.words(directory, descriptor, *flags)
                        done = subprocess.run(words, pass_fds=passed, capture_output=True,
                                              text=True, timeout=COMMAND_SECONDS, check=False)
                        self.assertEqual(done.returncode, 2, done.stderr)
                        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                        self.assertIn(f"/dev/fd/{descriptor}: ", done.stderr)
                        self.assertIn(says, done.stderr)
            os.close(fuse)
            os.close(null)
            self.assertFalse(is_mounted(mountpoint))

    def test_bad_input_ends_it_and_the_mount_is_dead(self) -> None:
        with self.place() as (directory, mountpoint):
            (directory / "m.ckpt").write_bytes(DATA[:-1])
            descriptor = mount_descriptor(mountpoint)
            done = subprocess.run(self.words(directory, descriptor), capture_output=True, text=True,
                                  pass_fds=(descriptor,), timeout=COMMAND_SECONDS, check=False)
            os.close(descriptor)
            self.assertEqual(done.returncode, 2, done.stderr)
            with self.assertRaises(OSError):
                os.listdir(mountpoint)
            command("umount", mountpoint)


if __name__ == "__main__":
    run_unittests()
