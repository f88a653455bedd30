# SPDX-License-Identifier: Apache-2.0
"""A mount as a service: readiness, the log, and what SIGHUP does."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mounted import (  # noqa: E402
    Settings,
    assert_gone,
    is_mounted,
    mountpoint_guard,
    processes_of,
    run,
    run_unittests,
    scratch,
    wait_until,
)

DATA = encode_checkpoint([Record("w", "Float32", (2,), b"abcdefgh")])
FILE = "rank_0/checkpoint_0.ckpt"


@contextlib.contextmanager
def place() -> Iterator[Path]:
    with scratch() as directory:
        (directory / "m.ckpt").write_bytes(DATA)
        (directory / "mnt").mkdir()
        with mountpoint_guard(directory / "mnt"):
            yield directory


@contextlib.contextmanager
def foreground(directory: Path, *words: str | Path, **settings) -> Iterator[subprocess.Popen]:
    """A mount in a session of its own, so that no terminal is its."""
    with subprocess.Popen(
        [Settings.binary, "mount", "-f", directory / "m.ckpt", directory / "mnt", *words],
        stdin=subprocess.DEVNULL, start_new_session=True, **settings
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # nothing, if it has been waited for


class Manager:
    """What a service manager has: a socket on which its services say how they are."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        self.socket.settimeout(20)
        self.environment = {**os.environ, "NOTIFY_SOCKET": address}

    def next(self) -> list[str]:
        """But for what it is given to keep; the test of hand-overs has that."""
        while (lines := self.socket.recv(4096).decode().split("\n"))[0].startswith("FDSTORE"):
            pass
        return lines

    def is_silent(self) -> bool:
        self.socket.settimeout(0.2)
        try:
            self.socket.recv(4096)
        except TimeoutError:
            return True
        return False


class Readiness(unittest.TestCase):
    def test_is_told_when_the_mount_answers(self) -> None:
        for kind in ("path", "abstract"):
            with self.subTest(kind), place() as directory:
                manager = Manager(f"@{directory}" if kind == "abstract" else f"{directory}/notify")
                with foreground(directory, env=manager.environment) as process:
                    first, *rest = manager.next()
                    self.assertEqual(first, "READY=1")
                    self.assertTrue(is_mounted(directory / "mnt"))
                    self.assertEqual((directory / "mnt" / FILE).read_bytes(), DATA)
                    self.assertEqual(rest, [f"STATUS=1 target rank of {directory}/m.ckpt at "
                                            f"{directory}/mnt"])
                    process.send_signal(signal.SIGHUP)
                    self.assertEqual(manager.next()[0], "RELOADING=1")
                    self.assertEqual(manager.next(), ["READY=1"])
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(manager.next(), ["STOPPING=1"])
                    self.assertEqual(process.wait(60), 0)
                    self.assertTrue(manager.is_silent())
                assert_gone(directory / "mnt")

    def test_is_not_told_of_a_mount_that_failed(self) -> None:
        with place() as directory:
            (directory / "m.ckpt").write_bytes(DATA[:-1])
            manager = Manager(f"{directory}/notify")
            with foreground(directory, env=manager.environment, stderr=subprocess.PIPE) as process:
                self.assertEqual(process.wait(60), 2)
                process.stderr.read()
            self.assertTrue(manager.is_silent())

    def test_a_source_that_comes_late_is_waited_for(self) -> None:
        """As at boot, before the file system that it is on."""
        with place() as directory:
            source, late = directory / "m.ckpt", directory / "late.ckpt"
            source.rename(late)
            manager = Manager(f"{directory}/notify")
            with foreground(directory, env=manager.environment, stderr=subprocess.PIPE) as process:
                self.assertEqual(manager.next(), [f"STATUS=waiting for {source}"])
                self.assertIsNone(process.poll())
                late.rename(source)
                self.assertEqual(manager.next()[0], "READY=1")
                self.assertEqual((directory / "mnt" / FILE).read_bytes(), DATA)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 0)
                self.assertEqual(process.stderr.read().count(b"not there yet; waiting for it"), 1)
            assert_gone(directory / "mnt")

    def test_waiting_for_a_source_ends_with_a_signal(self) -> None:
        with place() as directory:
            (directory / "m.ckpt").unlink()
            manager = Manager(f"{directory}/notify")
            with foreground(directory, env=manager.environment, stderr=subprocess.DEVNULL) as process:
                self.assertEqual(manager.next(), [f"STATUS=waiting for {directory}/m.ckpt"])
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), -signal.SIGTERM)

    def test_nobody_else_waits_for_a_source(self) -> None:
        with place() as directory:
            (directory / "m.ckpt").unlink()
            with foreground(directory, stderr=subprocess.PIPE) as process:
                self.assertEqual(process.wait(60), 2)
                self.assertIn(b"no such file or directory", process.stderr.read())

    def test_a_bad_option_is_not_waited_with(self) -> None:
        with place() as directory:
            (directory / "m.ckpt").unlink()
            manager = Manager(f"{directory}/notify")
            with foreground(directory, "--views", "nothing", env=manager.environment,
                            stderr=subprocess.PIPE) as process:
                self.assertEqual(process.wait(60), 2)
                process.stderr.read()
            self.assertTrue(manager.is_silent())

    def test_a_manager_that_is_not_there_is_no_error(self) -> None:
        with place() as directory:
            for address in (f"{directory}/nobody", "@", "", "relative", "/" + "x" * 200):
                with self.subTest(address), foreground(
                    directory, env={**os.environ, "NOTIFY_SOCKET": address}
                ) as process:
                    self.assertTrue(wait_until(lambda: is_mounted(directory / "mnt")))
                    self.assertEqual((directory / "mnt" / FILE).read_bytes(), DATA)
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(process.wait(60), 0)


class Log(unittest.TestCase):
    def cause_an_error(self, directory: Path) -> None:
        """One line in the log, of level error."""
        source = directory / "m.ckpt"
        time.sleep(0.02)  # a kernel may round times to a few milliseconds
        source.write_bytes(DATA)
        with contextlib.suppress(OSError), open(directory / "mnt" / FILE, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.read()

    def test_goes_on_in_a_new_file_after_sighup(self) -> None:
        """As logrotate asks for it: rename, then signal."""
        with place() as directory:
            log, old = directory / "log", directory / "log.1"
            # Not as an absolute path: a daemon leaves its working directory.
            here = os.path.relpath(log)
            mounted = run("mount", directory / "m.ckpt", directory / "mnt", "-v", "--log-file", here,
                          "--direct-io")
            self.assertEqual(mounted.code, 0, mounted.stderr)
            (pid,) = processes_of(directory / "mnt")
            log.rename(old)
            before = old.read_text()
            self.assertIn("mounted 1 target rank", before)
            os.kill(pid, signal.SIGHUP)
            self.assertTrue(wait_until(lambda: log.exists() and log.stat().st_size > 0))
            self.assertIn("info: the log continues here, at level info", log.read_text())
            self.cause_an_error(directory)
            self.assertTrue(wait_until(lambda: " error: " in log.read_text()), log.read_text())
            self.assertEqual(old.read_text(), before)
            self.assertTrue(is_mounted(directory / "mnt"))
            self.assertEqual(run("umount", directory / "mnt").code, 0)

    def test_stays_where_it_is_if_the_new_file_cannot_be_opened(self) -> None:
        with place() as directory:
            folder, moved = directory / "logs", directory / "moved"
            folder.mkdir()
            mounted = run("mount", directory / "m.ckpt", directory / "mnt", "--log-file",
                          folder / "log")
            self.assertEqual(mounted.code, 0, mounted.stderr)
            (pid,) = processes_of(directory / "mnt")
            folder.rename(moved)
            folder.touch()  # so that no folder can be made of it
            os.kill(pid, signal.SIGHUP)
            self.assertTrue(wait_until(lambda: "continues unchanged" in (moved / "log").read_text()))
            self.assertEqual((directory / "mnt" / FILE).read_bytes(), DATA)
            self.assertEqual(run("umount", directory / "mnt").code, 0)

    def test_level_is_read_again_from_the_configuration(self) -> None:
        with place() as directory:
            config, log = directory / "c.toml", directory / "log"

            def lines_after(text: str, line: str) -> str:
                before = len(log.read_text()) if log.exists() else 0
                config.write_text(text)
                os.kill(pid, signal.SIGHUP)
                wait_until(lambda: line in log.read_text()[before:])
                return log.read_text()[before:]

            config.write_text("log-level = 'info'\n[mount.m]\nlog-level = 'error'\n"
                              f"source = '{directory}/m.ckpt'\nmountpoint = '{directory}/mnt'\n")
            start = run("mount", "m", "--config", os.path.relpath(config), "--log-file", log)
            self.assertEqual(start.code, 0, start.stderr)
            (pid,) = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and
                      self.command_line(entry).startswith(f"{Settings.binary} mount m --config")]
            self.assertEqual(log.read_text(), "")
            self.assertIn("at level debug", lines_after("[mount.m]\nlog-level = 'debug'", "debug"))
            self.assertIn("at level info", lines_after("verbose = true\n[mount.m]", "info"))
            self.assertIn("no log level 'loud'", lines_after("log-level = 'loud'", "loud"))
            self.assertIn("line 1", lines_after("log-level =", "continues unchanged"))
            self.assertIn("at level info", lines_after("log-level = 'info'", "info"))
            self.assertEqual(lines_after("log-level = 'error'", "never"), "")
            self.assertEqual(run("umount", directory / "mnt").code, 0)

    @staticmethod
    def command_line(pid: str) -> str:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return ""

    def test_command_line_wins_over_the_configuration(self) -> None:
        with place() as directory:
            config, log = directory / "c.toml", directory / "log"
            config.write_text("quiet = true")
            words = ("mount", directory / "m.ckpt", directory / "mnt", "--config", config,
                     "--log-file", log, "-v")
            self.assertEqual(run(*words).code, 0)
            (pid,) = processes_of(directory / "mnt")
            self.assertIn("mounted 1", log.read_text())
            before = log.read_text()
            os.kill(pid, signal.SIGHUP)
            self.assertTrue(wait_until(lambda: "at level info" in log.read_text()[len(before):]))
            self.assertEqual(run("umount", directory / "mnt").code, 0)

    def test_journal_gets_priorities(self) -> None:
        with place() as directory:
            with open(directory / "err", "wb+") as err:
                stat = os.fstat(err.fileno())
                for stream, prefix in ((f"{stat.st_dev}:{stat.st_ino}", "<6>"),
                                       (f"{stat.st_dev}:{stat.st_ino + 1}", ""), ("x", "")):
                    with self.subTest(stream):
                        err.truncate(0)
                        err.seek(0)
                        with foreground(directory, "-v", stderr=err,
                                        env={**os.environ, "JOURNAL_STREAM": stream}) as process:
                            self.assertTrue(wait_until(lambda: b"mounted" in self.text(directory)))
                            process.send_signal(signal.SIGTERM)
                            process.wait(60)
                        lines = self.text(directory).decode().splitlines()
                        self.assertTrue(lines)
                        for line in lines:
                            self.assertTrue(line.startswith(f"{prefix}reshardfs: info: "), line)
                (directory / "m.ckpt").write_bytes(b"damaged")
                err.truncate(0)
                err.seek(0)
                journal = f"{stat.st_dev}:{stat.st_ino}"
                with foreground(directory, stderr=err,
                                env={**os.environ, "JOURNAL_STREAM": journal}) as process:
                    self.assertEqual(process.wait(60), 2)
                self.assertTrue(self.text(directory).startswith(b"<3>reshardfs: "))

    @staticmethod
    def text(directory: Path) -> bytes:
        return (directory / "err").read_bytes()


class Hangup(unittest.TestCase):
    def test_ends_no_daemon_and_no_service(self) -> None:
        with place() as directory:
            self.assertEqual(run("mount", directory / "m.ckpt", directory / "mnt").code, 0)
            (pid,) = processes_of(directory / "mnt")
            for _ in range(3):
                os.kill(pid, signal.SIGHUP)
                time.sleep(0.05)
                self.assertEqual((directory / "mnt" / FILE).read_bytes(), DATA)
            self.assertEqual(run("umount", directory / "mnt").code, 0)
            assert_gone(directory / "mnt")

    def test_unmounts_when_the_terminal_goes_away(self) -> None:
        with place() as directory:
            pid, terminal = pty.fork()
            if pid == 0:
                os.execv(Settings.binary, [Settings.binary, "mount", "-f", directory / "m.ckpt",
                                           directory / "mnt"])
            self.assertTrue(wait_until(lambda: is_mounted(directory / "mnt")))
            self.assertEqual((directory / "mnt" / FILE).read_bytes(), DATA)
            os.close(terminal)
            self.assertTrue(wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid))
            assert_gone(directory / "mnt")


if __name__ == "__main__":
    run_unittests()
