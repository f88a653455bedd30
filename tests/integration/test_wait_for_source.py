# SPDX-License-Identifier: Apache-2.0
"""`mount --wait-for-source`: what is late is waited for, what is wrong is told at once, and the wait
ends when its time is over, with whatever ends the process, and beside a server that hangs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

from faulty_source import FaultFs, faulty, run_unittests_with_faults
from mounted import (
    Settings,
    assert_gone,
    is_mounted,
    mountpoint_guard,
    processes_of,
    run,
    scratch,
    wait_until,
)
from object_store import free_port, object_store
from test_service import Manager
from two_arrays import HALVES, ROWS, TwoArrays, mounted_file
from web_server import serving

SHAPE = (64, 64)
LONG = 60.0


class Mounting:
    """A `mount` that runs."""

    def __init__(self, directory: Path, words: tuple[str | Path, ...], **settings: object) -> None:
        self.messages = tempfile.TemporaryFile(dir=directory)
        self.process = subprocess.Popen([Settings.binary, "mount", *words], stdin=subprocess.DEVNULL,
                                        stdout=self.messages, stderr=self.messages,
                                        **settings)  # type: ignore[call-overload]

    def said(self) -> str:
        return os.pread(self.messages.fileno(), 1 << 20, 0).decode()

    def code(self, seconds: float = LONG) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.messages.close()


def users_of(directory: Path) -> list[str]:
    """Command lines of the program that name the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().split(b"\0")
            if line[0] == os.fsencode(Settings.binary) and any(os.fsencode(directory) in word for word in line):
                found.append(repr(line))
    return found


class Place(unittest.TestCase):
    root: Path
    mountpoint: Path
    made: TwoArrays

    @contextlib.contextmanager
    def place(self) -> Iterator[TwoArrays]:
        with scratch() as self.root:
            self.made = TwoArrays(self.root, ROWS, HALVES, SHAPE)
            self.mountpoint = self.root / "mnt"
            self.mountpoint.mkdir()
            with mountpoint_guard(self.mountpoint):
                yield self.made

    @contextlib.contextmanager
    def mounting(self, *words: str | Path, source: str | Path | None = None,
                 **settings: object) -> Iterator[Mounting]:
        mount = Mounting(self.root, (source or self.made.source, self.mountpoint, *words), **settings)
        try:
            yield mount
        finally:
            mount.close()

    def assert_served(self) -> None:
        for rank in range(2):
            self.assertEqual(mounted_file(self.mountpoint, rank).read_bytes(), self.made.expected(rank))

    def renamed(self, path: Path) -> Callable[[], None]:
        late = path.with_name("late-" + path.name)
        path.rename(late)

        def bring() -> None:
            late.rename(path)

        return bring


class Waiting(Place):
    def comes_late(self, take_away: Callable[[], Callable[[], None]], expected: str) -> None:
        with self.place() as made:
            bring = take_away()
            with self.mounting(*made.options(), "--wait-for-source", "1m") as mount:
                self.assertTrue(wait_until(lambda: "waiting" in mount.said(), LONG), mount.said())
                self.assertRegex(mount.said(), expected)
                self.assertIn("at most 60 s", mount.said())
                time.sleep(1.2)
                self.assertIsNone(mount.process.poll())
                self.assertFalse(is_mounted(self.mountpoint))
                bring()
                self.assertEqual(mount.code(), 0, mount.said())
                self.assertEqual(mount.said().count("waiting"), 1, mount.said())
                self.assert_served()

    def test_a_source(self) -> None:
        self.comes_late(lambda: self.renamed(self.made.source), r"/set: no such file or directory")

    def test_an_empty_directory(self) -> None:
        def empty() -> Callable[[], None]:
            bring = self.renamed(self.made.source)
            self.made.source.mkdir()

            def fill() -> None:
                self.made.source.rmdir()
                bring()

            return fill

        self.comes_late(empty, "is an empty directory|no checkpoint")

    def test_a_strategy(self) -> None:
        self.comes_late(lambda: self.renamed(self.made.strategies[0]), "no such file")
        self.comes_late(lambda: self.renamed(self.made.strategies[1]), "no such file")

    def test_the_file_of_a_rank(self) -> None:
        self.comes_late(lambda: self.renamed(self.made.file(1)), r"rank.1")

    def test_a_file_that_is_still_written(self) -> None:
        def cut() -> Callable[[], None]:
            content = self.made.file(1).read_bytes()
            self.made.file(1).write_bytes(content[:-100])

            def complete() -> None:
                self.made.file(1).write_bytes(content)

            return complete

        self.comes_late(cut, "rank_1/.*(damaged|complete)")

    def test_a_config_that_is_still_written(self) -> None:
        def cut_short() -> Callable[[], None]:
            config = self.made.source / "config.json"
            config.write_text('{"model_type": "llama", "num_hid')
            return lambda: self.replace(config, '{"model_type": "of no table"}')

        self.comes_late(cut_short, r"set/config.json ends before it is complete")

    def replace(self, path: Path, text: str) -> None:
        other = path.with_name(".other")
        other.write_text(text)
        other.rename(path)

    def test_in_a_file_of_options_and_for_mount(self) -> None:
        with self.place() as made:
            config = self.root / "r.toml"
            config.write_text(f'[mount.x]\nsource = "{made.source}"\nmountpoint = "{self.mountpoint}"\n'
                              f'src-strategy = "{made.strategies[0]}"\n'
                              f'dst-strategy = "{made.strategies[1]}"\nwait-for-source = "1m"\n')
            link = self.root / "mount.reshardfs"
            link.symlink_to(Settings.binary)
            words = f"wait_for_source=1m,src_strategy={made.strategies[0]},dst_strategy={made.strategies[1]}"
            commands: list[list[str | Path]] = [[Settings.binary, "mount", "--config", config, "x"],
                                                [link, made.source, self.mountpoint, "-o", words]]
            for command in commands:
                bring = self.renamed(made.source)
                timer = threading.Timer(1.5, bring)
                timer.start()
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, timeout=LONG, check=False)
                timer.join()
                self.assertEqual(done.returncode, 0)
                self.assert_served()
                self.assertEqual(run("umount", self.mountpoint).code, 0)

    def test_what_is_there_is_not_waited_for(self) -> None:
        with self.place() as made, self.mounting(*made.options(), "--wait-for-source", "0s") as mount:
            self.assertEqual(mount.code(), 0, mount.said())
            self.assertEqual(mount.said(), "")
            self.assert_served()

    def test_the_time_is_over(self) -> None:
        with self.place() as made:
            made.file(1).unlink()
            begin = time.monotonic()
            with self.mounting(*made.options(), "--wait-for-source", "3s") as mount:
                self.assertEqual(mount.code(), 3, mount.said())
                self.assertGreaterEqual(time.monotonic() - begin, 3)
                self.assertLess(time.monotonic() - begin, 30)
                last = mount.said().splitlines()[-1]
                self.assertRegex(last, r"^reshardfs: waited 3 s for the source in vain: .*rank.1")
            assert_gone(self.mountpoint)

    def test_programs_are_told_which_mount_waits(self) -> None:
        with self.place() as made:
            made.source.rename(self.root / "elsewhere")
            with self.mounting(*made.options(), "--wait-for-source", "1s", "--log-format", "json") as mount:
                self.assertEqual(mount.code(), 3, mount.said())
                lines = [json.loads(line) for line in mount.said().splitlines()]
            self.assertEqual([line["event"] for line in lines], ["source_awaited", "command_failed"])
            for line in lines:
                self.assertEqual((line["mount"], line["source"]), (str(self.mountpoint), str(made.source)))

    def test_what_no_waiting_mends_is_told_at_once(self) -> None:
        with self.place() as made:
            made.source.rename(self.root / "elsewhere")
            (self.root / "full").mkdir()
            (self.root / "full/file").touch()
            for mountpoint, words, expected in (
                    (self.mountpoint, ("--views", "nothing"), "--views"),
                    (self.mountpoint, ("--wait-for-source", "10"), "such as 90s or 10m"),
                    (self.root / "none", (), "mount point does not exist"),
                    (self.root / "full", (), "is not empty")):
                begin = time.monotonic()
                result = run("mount", made.source, mountpoint, "--wait-for-source", "1m", *words)
                self.assertEqual(result.code, 2, result.stderr)
                self.assertIn(expected, result.stderr)
                self.assertLess(time.monotonic() - begin, 20)
            result = run("mount", "gopher://x/y", self.mountpoint, "--wait-for-source", "1m")
            self.assertEqual(result.code, 2)

    def test_without_the_option_nobody_waits(self) -> None:
        with self.place() as made:
            made.source.rename(self.root / "elsewhere")
            self.assertEqual(run("mount", made.source, self.mountpoint).code, 2)
            check = run("mount", made.source, self.mountpoint, "--check-only", "--wait-for-source", "1m")
            self.assertEqual(check.code, 2)

    def test_a_signal_ends_it(self) -> None:
        with self.place() as made:
            made.source.rename(self.root / "elsewhere")
            for words in ((), ("-f",)):
                for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
                    with self.mounting(*made.options(), "--wait-for-source", "1h", *words) as mount:
                        self.assertTrue(wait_until(lambda: "waiting" in mount.said(), LONG))
                        mount.process.send_signal(ending)
                        self.assertEqual(mount.code(10), -ending)
                    self.assertTrue(wait_until(lambda: not processes_of(self.mountpoint)))
            assert_gone(self.mountpoint)


class Hanging(Place):
    """A server that does not answer."""

    def test_it_comes_back(self) -> None:
        with self.place() as made, faulty(FaultFs.program, made.source) as source:
            for operation in ("getattr", "read"):
                source.forget_pages()
                source.set(f"* operation={operation} stall")
                with self.mounting(*made.options(), "--wait-for-source", "2m", source=source.path) as mount:
                    self.assertTrue(wait_until(lambda: source.stalled() > 0, LONG))
                    self.assertTrue(wait_until(lambda: "no answer yet" in mount.said(), LONG), mount.said())
                    source.set()
                    self.assertEqual(mount.code(), 0, mount.said())
                    self.assert_served()
                    self.assertEqual(run("umount", self.mountpoint).code, 0)

    def test_the_time_is_over_beside_it(self) -> None:
        with self.place() as made, faulty(FaultFs.program, made.source) as source:
            source.forget_pages()
            source.set("* operation=read stall")
            with self.mounting(*made.options(), "--wait-for-source", "3s", source=source.path) as mount:
                self.assertEqual(mount.code(30), 3)
                self.assertRegex(mount.said(), "in vain: .*no answer yet")
            self.assertTrue(wait_until(lambda: not users_of(self.root), LONG))
            assert_gone(self.mountpoint)

    def test_a_signal_ends_it_beside_it(self) -> None:
        with self.place() as made, faulty(FaultFs.program, made.source) as source:
            source.forget_pages()
            source.set("* operation=read stall")
            with self.mounting(*made.options(), "--wait-for-source", "1h", source=source.path) as mount:
                self.assertTrue(wait_until(lambda: source.stalled() > 0, LONG))
                mount.process.terminate()
                self.assertEqual(mount.code(10), -signal.SIGTERM)
            # The process that waits for the source is gone, too.
            self.assertTrue(wait_until(lambda: not users_of(self.root), LONG))


class Servers(Place):
    def test_a_web_server(self) -> None:
        with self.place() as made:
            port = free_port()
            url = f"http://127.0.0.1:{port}"
            with self.mounting(*made.options(), "--wait-for-source", "2m", source=url) as mount:
                self.assertTrue(wait_until(lambda: "waiting" in mount.said(), LONG), mount.said())
                with serving(made.source, port=port):
                    self.assertEqual(mount.code(), 0, mount.said())
                    self.assert_served()
                    self.assertEqual(run("umount", self.mountpoint).code, 0)

    def test_a_store(self) -> None:
        with self.place() as made, object_store() as store:
            variables = {**os.environ, **store.environment}
            with self.mounting(*made.options(), "--wait-for-source", "2m", source="s3://bucket/set",
                               env=variables) as mount:
                self.assertTrue(wait_until(lambda: "no such bucket" in mount.said(), LONG), mount.said())
                store.upload("bucket", made.source, "set/")
                self.assertEqual(mount.code(), 0, mount.said())
                self.assert_served()
                self.assertEqual(run("umount", self.mountpoint).code, 0)

    def test_a_service_waits_for_its_server(self) -> None:
        """Without the option: the manager's patience is the limit."""
        with self.place() as made:
            port = free_port()
            manager = Manager(f"{self.root}/notify")
            with self.mounting("-f", *made.options(), source=f"http://127.0.0.1:{port}",
                               env=manager.environment) as mount:
                manager.socket.settimeout(LONG)
                self.assertRegex(manager.next()[0], r"^STATUS=waiting: http://127\.0\.0\.1")
                with serving(made.source, port=port):
                    self.assertEqual(manager.next()[0], "READY=1")
                    self.assert_served()
                    mount.process.terminate()
                    self.assertEqual(mount.code(), 0)
            manager.socket.close()


class Service(Place):
    def test_the_manager_hears_of_it(self) -> None:
        with self.place() as made:
            bring = self.renamed(made.source)
            manager = Manager(f"{self.root}/notify")
            with self.mounting("-f", *made.options(), "--wait-for-source", "1h",
                               env=manager.environment) as mount:
                lines = [manager.next()[0] for _ in range(3)]
                bring()
                self.assertIn("EXTEND_TIMEOUT_USEC=30000000", lines)
                self.assertTrue([line for line in lines if line.startswith("STATUS=waiting: ")], lines)
                while (line := manager.next()[0]) != "READY=1":
                    self.assertRegex(line, "^EXTEND_TIMEOUT_USEC=")
                mount.process.terminate()
                self.assertEqual(mount.code(), 0)
            manager.socket.close()


if __name__ == "__main__":
    run_unittests_with_faults()
