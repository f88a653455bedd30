# SPDX-License-Identifier: Apache-2.0
"""Programs that wait for a mount: what does not need a stalled source gets its answer while half of
all sources stall, and whoever is killed is gone, whatever it waits for."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

from faulty_source import KEEPS_NOTHING, FaultFs, FaultySource, faulty, run_unittests_with_faults
from mounted import (
    COMMAND_SECONDS,
    Settings,
    clean_up,
    is_mounted,
    is_sanitized,
    mount_entry,
    mounted,
    mountpoint_guard,
    one_line,
    processes_of,
    run,
    scratch,
    status_of,
    wait_until,
)
from two_arrays import HALVES, Layout, TwoArrays, metric, mounted_file

RANKS = 8
SHAPE = (1024, 8192)
EIGHTHS = Layout((RANKS,), ((0,), ()))
# While a source stalls an answer is right or never comes: this only ends a test that has failed.
LONG = 30.0

READER = """
import mmap, os, sys
direct, length, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
file = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
buffer = mmap.mmap(-1, length)
print("begins", flush=True)
print(os.preadv(file, [buffer], 0), flush=True)
"""


def start_reader(path: Path, length: int, direct: bool) -> subprocess.Popen[bytes]:
    """A process that reads the beginning of a file in one call, as the kernel splits it."""
    reader = subprocess.Popen([sys.executable, "-c", READER, str(int(direct)), str(length), path],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"begins\n"
    return reader


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


class Waiting(unittest.TestCase):
    # What is wrong with the source while it is being mounted.
    rules_at_mount: tuple[str, ...] = ()
    storage: tuple[str, ...] = KEEPS_NOTHING
    made: TwoArrays
    source: FaultySource
    stack: contextlib.ExitStack

    @contextlib.contextmanager
    def mount(self, *options: str | Path) -> Iterator[Path]:
        with contextlib.ExitStack() as self.stack:
            directory = self.stack.enter_context(scratch())
            self.made = TwoArrays(directory, EIGHTHS, HALVES, SHAPE)
            self.source = self.stack.enter_context(faulty(FaultFs.program, self.made.source))
            self.source.set(*self.rules_at_mount)
            self.source.forget_pages()
            yield self.stack.enter_context(
                mounted(self.source.path, *self.made.options(), *self.storage, "--log-file",
                        directory / "log", *options))

    def stall(self, *patterns: str) -> None:
        self.source.set(*(f"{pattern} stall" for pattern in patterns))
        self.source.forget_pages()

    def start_readers(self, mountpoint: Path, count: int) -> list[subprocess.Popen[bytes]]:
        """Readers of what needs the stalled half of the sources, through the page cache and past
        it, each with several requests under way."""
        paths = [mounted_file(mountpoint, 0),
                 mountpoint / "merged/checkpoint_merged.ckpt",
                 mountpoint / "merged/checkpoint_merged.safetensors",
                 mountpoint / "merged/params/w.npy"]
        readers = []
        for i in range(count):
            readers.append(start_reader(paths[i % len(paths)], 4 << 20, direct=i % 2 == 1))
            self.stack.callback(end, readers[-1])
        return readers

    def in_flight(self, mountpoint: Path) -> float:
        return metric(mountpoint, "reads_in_flight")

    def test_what_needs_no_stalled_source_is_answered(self) -> None:
        with self.mount() as mountpoint:
            self.stall(*(f"rank_{rank}/*" for rank in range(RANKS // 2)))
            readers = self.start_readers(mountpoint, 48)
            assert wait_until(lambda: self.in_flight(mountpoint) >= 48, LONG)
            for name in ("source.txt", "destination.txt"):
                text = mountpoint / "strategy" / name
                if text.exists():
                    self.assertGreater(len(text.read_bytes()), 0)
            self.assertIn("reads_in_flight", (mountpoint / ".reshardfs/metrics").read_text())
            self.assertIn("<html", (mountpoint / ".reshardfs/report.html").read_text())
            for path in sorted(mountpoint.rglob("*")):
                path.lstat()
            (status,) = json.loads(status_of("--json", mountpoint).stdout)["mounts"]
            self.assertEqual(status["state"], "live")
            # Of the other half of the sources, all bytes.
            self.assertEqual(mounted_file(mountpoint, 1).read_bytes(), self.made.expected(1))
            self.assertTrue(all(reader.poll() is None for reader in readers))
            self.source.set()
            for reader in readers:
                self.assertEqual(reader.communicate(timeout=LONG)[0].strip(), b"4194304")

    def test_killed_readers_are_gone(self) -> None:
        with self.mount() as mountpoint:
            self.stall("rank_0/*")
            for direct in (False, True):
                readers = [start_reader(mounted_file(mountpoint, 0), 4 << 20, direct)
                           for _ in range(6)]
                for reader in readers:
                    self.stack.callback(end, reader)
                # In the page cache they wait for the same pages.
                requests = len(readers) if direct else 1
                assert wait_until(lambda: self.in_flight(mountpoint) >= requests, LONG)
                for i, reader in enumerate(readers):
                    reader.send_signal(signal.SIGKILL if i % 2 else signal.SIGTERM)
                for i, reader in enumerate(readers):
                    reader.communicate(timeout=LONG)
                    self.assertEqual(reader.returncode, -(signal.SIGKILL if i % 2 else signal.SIGTERM))
                # The source stalls still: others get all bytes of what is elsewhere.
                self.assertEqual(mounted_file(mountpoint, 1).read_bytes(), self.made.expected(1))
            self.source.set()
            self.assertTrue(wait_until(lambda: self.in_flight(mountpoint) == 0, LONG), "something is left waiting")
            self.assertEqual(self.source.stalled(), 0)
            self.assertEqual(mounted_file(mountpoint, 0).read_bytes(), self.made.expected(0))

    def test_a_killed_lister_of_a_step_that_is_looked_at_is_gone(self) -> None:
        with self.mount("--step", "all") as mountpoint:
            (step,) = os.listdir(mountpoint / "steps")
            self.stall("*")
            listers = []
            for _ in range(20):
                listers.append(subprocess.Popen(["ls", mountpoint / "steps" / step],
                                                stdout=subprocess.DEVNULL))
                self.stack.callback(end, listers[-1])
            # Some of them wait for the same, others for their turn.
            (daemon,) = processes_of(mountpoint)
            assert wait_until(lambda: all(in_request(lister) for lister in listers), LONG)
            for lister in listers:
                lister.send_signal(signal.SIGKILL)
            for lister in listers:
                lister.wait(LONG)
            self.assertEqual(processes_of(mountpoint), [daemon])
            self.source.set()
            self.assertIn("rank_0", os.listdir(mountpoint / "steps" / step))

    def test_ends_with_sources_stalled_and_leaves_nothing(self) -> None:
        for how in (signal.SIGTERM, signal.SIGKILL, None):
            with self.subTest(how=how), self.mount() as mountpoint:
                self.stall(*(f"rank_{rank}/*" for rank in range(RANKS // 2)))
                readers = self.start_readers(mountpoint, 16)
                assert wait_until(lambda: self.in_flight(mountpoint) >= 16, LONG)
                (daemon,) = processes_of(mountpoint)
                if how is None:
                    subprocess.run(["umount", "-l", mountpoint], timeout=LONG, check=True)
                    for reader in readers:
                        end(reader)
                else:
                    os.kill(daemon, how)
                    for reader in readers:
                        reader.communicate(timeout=LONG)
                self.source.set()
                self.assertTrue(wait_until(lambda: not processes_of(mountpoint), LONG))
                if is_mounted(mountpoint):  # of a killed one the kernel keeps the place
                    self.assertEqual(how, signal.SIGKILL)
                    clean_up(mountpoint)
                # For the fixture, which unmounts.
                mount = ["mount", self.source.path, mountpoint, "--views", "merged"]
                self.assertEqual(run(*mount, "--src-strategy", self.made.strategies[0]).code, 0)

    def test_a_failure_that_comes_again_is_counted(self) -> None:
        with self.mount("--direct-io") as mountpoint:
            log = self.made.source.parent / "log"
            self.source.set("rank_0/* error=5")
            self.source.forget_pages()
            path = mounted_file(mountpoint, 0)
            before = len(log.read_text().splitlines())
            choose = random.Random(1)
            with open(path, "rb", buffering=0) as file:
                for _ in range(500):
                    with self.assertRaises(OSError):
                        os.pread(file.fileno(), 4096, choose.randrange(1 << 20))
            lines = log.read_text().splitlines()[before:]
            self.assertEqual(len(lines), 1, lines[:3])
            self.assertIn("rank_0/m-1_1.ckpt", lines[0])
            self.source.set()
            run("umount", mountpoint)
            self.assertTrue(wait_until(lambda: "499 times more" in log.read_text(), LONG),
                            log.read_text())
            self.assertEqual(run("mount", self.source.path, mountpoint, "--views", "merged",
                                 "--src-strategy", self.made.strategies[0]).code, 0)


def in_request(process: subprocess.Popen[bytes]) -> bool:
    """Whether it sleeps in a request to a file system."""
    try:
        wait = Path(f"/proc/{process.pid}/wchan").read_text()
    except OSError:
        return False
    return "fuse" in wait or "request_wait" in wait


class Starting(unittest.TestCase):
    @contextlib.contextmanager
    def place(self) -> Iterator[tuple[TwoArrays, Path]]:
        with scratch() as directory:
            made = TwoArrays(directory, EIGHTHS, HALVES, (64, 64))
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                yield made, mountpoint

    def test_a_signal_before_the_mount_is_ready_is_a_failure(self) -> None:
        if shutil.which("strace") is None or is_sanitized(Settings.binary):
            self.skipTest("strace cannot hold this program")
        for background in (True, False):
            with self.place() as (made, mountpoint):
                # The kernel's first request is taken late.
                mount = subprocess.Popen(
                    ["strace", "-f", "-qq", "-o", made.source.parent / "calls", "-e", "trace=readv",
                     "-P", "/dev/fuse", "-e", "inject=readv:delay_enter=2s", Settings.binary, "mount",
                     made.source, mountpoint, *made.options(), *([] if background else ["-f"])],
                    stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                try:
                    if not wait_until(lambda: is_mounted(mountpoint), LONG):
                        self.skipTest("strace cannot hold this program")
                    daemon = max(processes_of(mountpoint))
                    os.kill(daemon, signal.SIGTERM)
                    _, errors = mount.communicate(timeout=COMMAND_SECONDS)
                finally:
                    mount.kill()
                    mount.wait()
                self.assertEqual(mount.returncode, 3, errors)
                self.assertIn("a signal ended the mount before it was ready", errors)
                self.assertFalse(is_mounted(mountpoint))

    def test_of_mounts_at_once_one_is_made(self) -> None:
        for _ in range(5):
            with self.place() as (made, mountpoint):
                commands = [subprocess.Popen(
                    [Settings.binary, "mount", made.source, mountpoint, *made.options()],
                    stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(8)]
                errors = [each.communicate(timeout=COMMAND_SECONDS)[1] for each in commands]
                codes = sorted(each.returncode for each in commands)
                self.assertEqual(codes, [0] + 7 * [2], errors)
                self.assertEqual(sum(mountpoint == Path(line.split(" ")[4]) for line in
                                     Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()), 1)
                self.assertEqual(len(processes_of(mountpoint)), 1)
                self.assertIsNotNone(mount_entry(mountpoint))
                result = run("mount", made.source, mountpoint, *made.options())
                self.assertIn("already", one_line(result))
                self.assertEqual(run("umount", mountpoint).code, 0)


if __name__ == "__main__":
    run_unittests_with_faults()
