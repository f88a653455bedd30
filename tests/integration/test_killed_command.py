# SPDX-License-Identifier: Apache-2.0
"""A command that is ended before its mount is ready: nothing is mounted later, and no process stays."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from faulty_source import FaultFs, FaultySource, faulty, run_unittests_with_faults  # noqa: E402
from mounted import (  # noqa: E402
    Settings,
    assert_gone,
    is_mounted,
    mountpoint_guard,
    processes_of,
    run,
    scratch,
    wait_until,
)

DATA = encode_checkpoint([Record("w", "UInt8", (1 << 20,), bytes(range(256)) * 4096)])
SECONDS = 60
# What runs the command and reads its messages, as Python's mount() does.
CALLER = """
import os, subprocess, sys
ours, theirs = os.pipe()
subprocess.Popen(sys.argv[1:], pass_fds=(theirs,), env=dict(os.environ, RESHARDFS_MESSAGES=str(theirs)),
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.close(theirs)
os.read(ours, 1)
"""


class KilledCommand(unittest.TestCase):
    @contextlib.contextmanager
    def stalled(self) -> Iterator[tuple[FaultySource, Path]]:
        """A source whose reads stall, and a mount point."""
        with scratch() as directory, scratch() as place:
            (directory / "m.ckpt").write_bytes(DATA)
            mountpoint = place / "mnt"
            mountpoint.mkdir()
            with faulty(FaultFs.program, directory) as source, mountpoint_guard(mountpoint):
                source.set("m.ckpt stall")
                try:
                    yield source, mountpoint
                finally:
                    source.set()

    def assert_nothing_comes(self, source: FaultySource, mountpoint: Path) -> None:
        """While the source stalls, and when it goes on."""
        self.assertTrue(wait_until(lambda: not processes_of(mountpoint), SECONDS),
                        f"processes {processes_of(mountpoint)} are there still")
        self.assertFalse(is_mounted(mountpoint))
        source.set()
        self.assertEqual((is_mounted(mountpoint), processes_of(mountpoint)), (False, []))

    def check(self, words: list[str | Path], number: int) -> None:
        """The command is ended while it waits for its source."""
        with self.stalled() as (source, mountpoint), open(mountpoint.parent / "said", "w") as said:
            with subprocess.Popen([*map(str, words), str(source.path / "m.ckpt"), str(mountpoint)],
                                  stdin=subprocess.DEVNULL, stdout=said, stderr=said) as command:
                self.assertTrue(wait_until(lambda: source.stalled() > 0, SECONDS), "nothing reads the source")
                command.send_signal(number)
                self.assertEqual(command.wait(SECONDS), -number)
            self.assert_nothing_comes(source, mountpoint)

    def test_of_a_mount(self) -> None:
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
            for options in ([], ["--supervise"]):
                with self.subTest(signal=number, options=options):
                    self.check([Settings.binary, "mount", *options], number)

    def test_of_run(self) -> None:
        """Its command does not begin. Ctrl-C counts, too, which no command is there yet to get."""
        ignoring = ["sh", "-c", 'trap "" TERM; exec "$@"', "sh"]
        for words, number in (([], signal.SIGKILL), ([], signal.SIGTERM), (ignoring, signal.SIGKILL), ([], None)):
            with self.subTest(words=words, signal=number), self.stalled() as (source, mountpoint):
                begun = mountpoint.parent / "begun"
                ours, terminal = os.openpty()
                command = subprocess.Popen(
                    [*words, str(Settings.binary), "run", str(source.path / "m.ckpt"), str(mountpoint), "--", "touch",
                     str(begun)], stdin=terminal, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
                os.close(terminal)
                with command:
                    self.assertTrue(wait_until(lambda: source.stalled() > 0, SECONDS), "nothing reads the source")
                    if number is None:
                        os.write(ours, b"\x03")
                    else:
                        command.send_signal(number)
                    ended = 128 + (number or signal.SIGINT)
                    self.assertEqual(command.wait(SECONDS), -number if number == signal.SIGKILL else ended)
                os.close(ours)
                self.assert_nothing_comes(source, mountpoint)
                self.assertFalse(begun.exists())

    def test_of_the_helper_of_mount(self) -> None:
        with scratch() as directory:
            helper = directory / "mount.reshardfs"
            helper.symlink_to(Settings.binary)
            self.check([helper], signal.SIGKILL)

    def test_of_a_caller_that_ignores_sigterm(self) -> None:
        """As a shell that traps it does: the child ends all the same."""
        shell = ["sh", "-c", 'trap "" TERM HUP; exec "$@"', "sh"]
        self.check([*shell, Settings.binary, "mount"], signal.SIGKILL)

    def test_of_a_program_that_reads_the_messages_of_the_command(self) -> None:
        with self.stalled() as (source, mountpoint):
            words = [str(Settings.binary), "mount", str(source.path / "m.ckpt"), str(mountpoint)]
            with subprocess.Popen([sys.executable, "-c", CALLER, *words]) as caller:
                self.assertTrue(wait_until(lambda: source.stalled() > 0, SECONDS), "nothing reads the source")
                caller.kill()
            self.assert_nothing_comes(source, mountpoint)

    def test_one_that_is_let_go_mounts(self) -> None:
        with self.stalled() as (source, mountpoint):
            words = [str(Settings.binary), "mount", str(source.path / "m.ckpt"), str(mountpoint)]
            with subprocess.Popen(words) as command:
                self.assertTrue(wait_until(lambda: source.stalled() > 0, SECONDS))
                source.set()
                self.assertEqual(command.wait(SECONDS), 0)
            self.assertTrue(is_mounted(mountpoint))
            self.assertEqual((mountpoint / "rank_0/checkpoint_0.ckpt").read_bytes(), DATA)
            self.assertEqual(run("umount", mountpoint).code, 0)
            assert_gone(mountpoint)

    def test_of_a_process_that_is_to_take_over(self) -> None:
        """It ends with the one that has the mount."""
        for options in ([], ["--replace"]):
            with self.subTest(options=options), self.stalled() as (source, mountpoint):
                source.set()
                self.assertEqual(run("mount", source.path / "m.ckpt", mountpoint).code, 0)
                (server,) = processes_of(mountpoint)
                source.forget_pages()
                source.set("m.ckpt stall")
                words = [str(Settings.binary), "reload", *options, str(mountpoint)]
                with subprocess.Popen(words, stderr=subprocess.DEVNULL) as reload:
                    self.assertTrue(wait_until(lambda: source.stalled() > 0, SECONDS))
                    os.kill(server, signal.SIGKILL)
                    self.assertTrue(wait_until(lambda: not set(processes_of(mountpoint)) - {reload.pid}, SECONDS))
                    self.assertEqual(reload.wait(SECONDS), 3)
                source.set()
                self.assertEqual(run("umount", mountpoint).code, 0)
                assert_gone(mountpoint)


if __name__ == "__main__":
    run_unittests_with_faults()
