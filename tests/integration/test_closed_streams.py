# SPDX-License-Identifier: Apache-2.0
"""Standard descriptors that are closed when the program is started, as cron, init and containers
may do: what is opened next must not get their numbers."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from itertools import chain, combinations
from pathlib import Path

# First, because it finds the modules of tests/data.
from refusals import Refusals

from ckpt_format import by_name
from mounted import (
    COMMAND_SECONDS,
    Settings,
    assert_gone,
    clean_up,
    is_mounted,
    processes_of,
    rank_files,
    run,
    run_unittests,
    wait_until,
)

STREAMS = {0: "stdin", 1: "stdout", 2: "stderr"}
COMBINATIONS = list(chain.from_iterable(combinations(STREAMS, count) for count in (1, 2, 3)))
DONE = 0
IO_ERROR = 3


class ClosedStreams(Refusals):
    def start(self, closed: tuple[int, ...], *words: str | Path) -> subprocess.Popen[bytes]:
        """The program with these closed, and the others in files `stdin`, `stdout`, `stderr`."""
        def prepare() -> None:
            for number in closed:
                os.close(number)

        directory = self.made.directory
        (directory / "stdin").touch()
        with open(directory / "stdin", "rb") as stdin, open(directory / "stdout", "wb") as stdout, \
                open(directory / "stderr", "wb") as stderr:
            return subprocess.Popen([str(Settings.binary), *map(str, words)], stdin=stdin,
                                    stdout=stdout, stderr=stderr, preexec_fn=prepare)

    def run_closed(self, closed: tuple[int, ...], *words: str | Path, code: int = DONE,
                   or_code: int | None = None) -> str:
        """@return what has come on standard output, if that is open."""
        process = self.start(closed, *words)
        try:
            self.assertIn(process.wait(COMMAND_SECONDS), (code, or_code), self.printed("stderr"))
        finally:
            process.kill()
            process.wait()
        return self.printed("stdout")

    def printed(self, name: str) -> str:
        return (self.made.directory / name).read_text(errors="replace")

    def copy_of_source(self) -> Path:
        """It is spoilt by check_mount()."""
        copy = self.made.directory / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        return shutil.copytree(self.made.source, copy)

    def check_mount(self, source: Path, log: Path | None) -> None:
        """Every byte, and at last an error that is logged."""
        for rank, path in rank_files(self.mountpoint).items():
            self.assertEqual(by_name(path.read_bytes()), self.made.expected(rank))
        status = json.loads((self.mountpoint / ".reshardfs/status.json").read_text())
        self.assertEqual([status["pid"]], processes_of(self.mountpoint))
        if log is None:
            return
        self.assertTrue(wait_until(lambda: "mounted" in log.read_text()))
        for path in source.rglob("rank_*/*"):
            os.utime(path)
        with self.assertRaises(OSError) as caught:
            rank_files(self.mountpoint)[0].read_bytes()
        self.assertEqual(caught.exception.errno, errno.ESTALE)
        self.assertIn("rank_0", log.read_text())
        os.kill(status["pid"], signal.SIGHUP)
        self.assertTrue(wait_until(lambda: "the log continues here" in log.read_text()),
                        log.read_text())

    def each(self, body: Callable[[tuple[int, ...]], None]) -> None:
        for closed in COMBINATIONS:
            with self.subTest(closed=[STREAMS[number] for number in closed]):
                try:
                    body(closed)
                finally:
                    clean_up(self.mountpoint)

    def mount_words(self, source: Path, log: Path | None) -> list[str | Path]:
        words = ["mount", source, self.mountpoint, *self.strategies(), "--direct-io", "-v"]
        return words + (["--log-file", log] if log else [])

    def test_mount_in_the_background(self) -> None:
        def mount(closed: tuple[int, ...]) -> None:
            # The first file that is opened takes the number: the log, or a source.
            for log in (self.made.directory / f"log{closed}", None):
                source = self.copy_of_source()
                self.run_closed(closed, *self.mount_words(source, log))
                self.check_mount(source, log)
                self.assertEqual(run("umount", self.mountpoint).code, DONE)
                assert_gone(self.mountpoint)

        self.each(mount)

    def test_mount_in_the_foreground(self) -> None:
        def mount(closed: tuple[int, ...]) -> None:
            for log in (self.made.directory / f"log{closed}", None):
                source = self.copy_of_source()
                process = self.start(closed, *self.mount_words(source, log), "-f")
                try:
                    self.assertTrue(wait_until(lambda: is_mounted(self.mountpoint)))
                    self.check_mount(source, log)
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(process.wait(COMMAND_SECONDS), DONE)
                finally:
                    process.kill()
                    process.wait()
                assert_gone(self.mountpoint)

        self.each(mount)

    def test_a_mount_that_is_refused(self) -> None:
        """The exit code tells, and the message where there is somewhere to write it."""
        def mount(closed: tuple[int, ...]) -> None:
            self.run_closed(closed, "mount", self.made.directory / "nothing", self.mountpoint, code=2)
            if 2 not in closed:
                self.assertIn("nothing", self.printed("stderr"))
            self.assertEqual(processes_of(self.mountpoint), [])

        self.each(mount)

    def test_export(self) -> None:
        def export(closed: tuple[int, ...]) -> None:
            out = self.made.directory / f"out{closed}"
            words = ["export", self.made.source, out, *self.strategies(), "--checksum"]
            for _ in range(2):  # the second one reads what is there
                text = self.run_closed(closed, *words)
                self.assertEqual("written to" in text, 1 not in closed, text)
            for rank, path in rank_files(out).items():
                self.assertEqual(by_name(path.read_bytes()), self.made.expected(rank))
            sums = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=out,
                                  stdout=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False)
            self.assertEqual(sums.returncode, 0)

        self.each(export)

    def test_commands_that_print(self) -> None:
        source = self.made.source
        commands = {
            "hash": ["hash", source, *self.strategies()],
            "verify": ["verify", source, "--src-strategy", self.made.src_strategy],
            "status": ["status", "--json"],
            "plan": ["plan", source, *self.strategies()],
        }
        for name, words in commands.items():
            usual = run(*words).stdout

            def command(closed: tuple[int, ...], words=words, name=name, usual=usual) -> None:
                # Other tests may have mounts, and stalled ones.
                text = self.run_closed(closed, *words, or_code=1 if name == "status" else None)
                if name != "status":
                    self.assertEqual(text, "" if 1 in closed else usual)

            with self.subTest(name):
                self.each(command)

    def test_a_checkpoint_that_is_damaged(self) -> None:
        """The exit code of a check is all that cron sees."""
        path = self.source(1)
        path.write_bytes(path.read_bytes()[:-1])
        self.each(lambda closed: self.run_closed(
            closed, "verify", self.made.source, "--src-strategy", self.made.src_strategy, code=1))

    def test_cat(self) -> None:
        words = ["cat", self.made.source, "rank_1/checkpoint_1.ckpt", *self.strategies()]

        def cat(closed: tuple[int, ...]) -> None:
            if 1 in closed:  # there is nowhere to write its bytes to
                self.run_closed(closed, *words, code=IO_ERROR)
                return
            self.run_closed(closed, *words)
            data = (self.made.directory / "stdout").read_bytes()
            self.assertEqual(by_name(data), self.made.expected(1))

        self.each(cat)

    def test_a_full_disk_is_no_closed_stream(self) -> None:
        for words in (["hash", self.made.source, *self.strategies()], ["--help"],
                      ["inspect", self.made.source]):
            with self.subTest(words[0]), open("/dev/full", "wb") as full:
                done = subprocess.run([str(Settings.binary), *map(str, words)], stdout=full,
                                      stderr=subprocess.PIPE, timeout=COMMAND_SECONDS, check=False)
                self.assertEqual(done.returncode, IO_ERROR)
                self.assertIn(b"standard output: cannot write", done.stderr)


if __name__ == "__main__":
    run_unittests()
