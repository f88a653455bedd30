# SPDX-License-Identifier: Apache-2.0
"""`reshardfs warm` and `mount --warm`: what they read is in the page cache, and so programs that read it later
wait for nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path

from faulty_source import KEEPS_NOTHING, FaultFs, FaultySource, cached_pages, faulty, run_unittests_with_faults
from mounted import (
    Settings,
    assert_gone,
    is_mounted,
    mounted,
    mountpoint_guard,
    processes_of,
    run,
    scratch,
    wait_until,
)
from two_arrays import COLUMNS, RANKS, ROWS, TwoArrays, metric, mounted_file

SHAPE = (256, 4096)
PAGE = os.sysconf("SC_PAGE_SIZE")


def share(path: Path) -> float:
    """Of the file, what is in the page cache."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return cached_pages(fd) / -(-os.fstat(fd).st_size // PAGE)
    finally:
        os.close(fd)


def warmers(mountpoint: Path) -> list[int]:
    """Processes of the program that have a file of the mount open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(fd).startswith(f"{mountpoint}/") for fd in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


class Warm(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())
        self.made = TwoArrays(self.directory, ROWS, COLUMNS, SHAPE)

    def mount(self, *options: str) -> contextlib.AbstractContextManager[Path]:
        return mounted(self.made.source, *self.made.options(), *options)

    def assert_cached(self, mountpoint: Path, *ranks: int) -> None:
        for rank in range(RANKS):
            self.assertEqual(share(mounted_file(mountpoint, rank)), 1.0 if rank in ranks else 0.0, rank)

    def test_what_was_read_is_not_read_again(self) -> None:
        with self.mount() as mountpoint:
            result = run("warm", mountpoint / "rank_1", mounted_file(mountpoint, 2))
            self.assertEqual((result.code, result.stderr), (0, ""))
            self.assertRegex(result.stdout, r"^read 2 files, 1.0 MiB in [0-9.]+ s \([0-9.]+ [KMG]iB/s\)\n$")
            self.assert_cached(mountpoint, 1, 2)
            before = metric(mountpoint, 'requests_total{operation="read"}')
            for rank in (1, 2):
                self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), self.made.expected(rank))
            # The metrics themselves are read, in requests of their own.
            own = metric(mountpoint, 'requests_total{operation="read"}')
            self.assertEqual(metric(mountpoint, 'requests_total{operation="read"}') - own, own - before)

    def test_each_file_once(self) -> None:
        with self.mount() as mountpoint:
            result = run("warm", "--jobs", "3", mountpoint / "rank_0", mounted_file(mountpoint, 0), mountpoint / "rank_0")
            self.assertIn("read 1 file,", result.stdout)
            self.assertEqual(run("warm", "-q", mountpoint / "rank_0").stdout, "")

    def test_a_mount_that_returns_is_warm(self) -> None:
        with self.mount("--warm", "rank_3", "--warm", "rank_0/checkpoint_0.ckpt") as mountpoint:
            self.assert_cached(mountpoint, 0, 3)

    def test_in_the_foreground_a_process_of_its_own_reads(self) -> None:
        for more in ([], ["--supervise"]):
            mountpoint = self.directory / "m"
            mountpoint.mkdir(exist_ok=True)
            with mountpoint_guard(mountpoint):
                served = subprocess.Popen([Settings.binary, "mount", "-f", self.made.source, mountpoint,
                                           *self.made.options(), "--warm", "rank_2", *more], stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True)
                self.assertTrue(wait_until(lambda: is_mounted(mountpoint)))
                self.assertTrue(wait_until(lambda: share(mounted_file(mountpoint, 2)) == 1.0))
                self.assertTrue(wait_until(lambda: not warmers(mountpoint)))
                self.assert_cached(mountpoint, 2)
                # Nobody is left for the process to wait for.
                children = Path(f"/proc/{served.pid}/task/{served.pid}/children").read_text().split()
                self.assertEqual(len(children), 1 if more else 0)
                self.assertEqual(run("umount", mountpoint).code, 0)
                out, errors = served.communicate(timeout=60)
                self.assertEqual((served.returncode, errors), (0, ""))
                self.assertIn("read 1 file,", out)

    def test_a_mount_that_fails_reads_nothing(self) -> None:
        mountpoint = self.directory / "m"
        mountpoint.mkdir()
        (self.made.file(1)).unlink()
        for more in ([], ["-f"]):
            result = run("mount", *more, self.made.source, mountpoint, *self.made.options(), "--warm", "rank_0")
            self.assertEqual((result.code, result.stdout), (2, ""))
            self.assertFalse(is_mounted(mountpoint))
            self.assertTrue(wait_until(lambda: not processes_of(mountpoint)))

    def test_what_is_not_there(self) -> None:
        with self.mount() as mountpoint:
            result = run("warm", mountpoint / "rank_9")
            self.assertEqual((result.code, result.stdout), (2, ""))
            self.assertIn(f"{mountpoint}/rank_9: no such file or directory", result.stderr)
            result = run("warm", "/dev/null")
            self.assertEqual(result.code, 2)
            self.assertIn("/dev/null: not a file or a directory", result.stderr)

    def test_what_holds_nothing(self) -> None:
        directory = self.directory / "d"
        (directory / "e").mkdir(parents=True)
        (directory / "empty").touch()
        (directory / "link").symlink_to(self.made.file(0))
        os.mkfifo(directory / "fifo")
        with self.mount() as mountpoint:
            for path in (directory, directory / "empty", mountpoint / ".reshardfs/status.json"):
                result = run("warm", mountpoint / "rank_0", path)
                self.assertEqual((result.code, result.stdout), (2, ""))
                self.assertEqual(result.stderr, f"reshardfs: {path}: holds nothing to read\n")

    @unittest.skipIf(os.geteuid() != 0, "needs to be root, to be somebody else")
    def test_a_directory_that_cannot_be_listed(self) -> None:
        closed = self.directory / "d/closed"
        closed.mkdir(parents=True, mode=0o700)
        for place in (self.directory, closed.parent):
            place.chmod(0o755)
        program = shutil.copy(Settings.binary, self.directory / "program")
        done = subprocess.run([program, "warm", closed.parent], user=65534, group=65534, extra_groups=[],
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertRegex(done.stderr, f"^reshardfs: {closed}: cannot .*: Permission denied[^\n]*\n$")

    def test_the_mount_stays_if_a_path_is_wrong(self) -> None:
        mountpoint = self.directory / "m"
        mountpoint.mkdir()
        with mountpoint_guard(mountpoint):
            result = run("mount", self.made.source, mountpoint, *self.made.options(), "--warm", "rank_9")
            self.assertEqual(result.code, 2)
            self.assertIn("rank_9: no such file or directory", result.stderr)
            self.assertIn(f"the mount at {mountpoint} stays", result.stderr)
            self.assertEqual(mounted_file(mountpoint, 0).read_bytes(), self.made.expected(0))
            self.assertEqual(run("umount", mountpoint).code, 0)
            assert_gone(mountpoint)

    def test_paths_that_lead_out_of_the_mount(self) -> None:
        for path in ("/rank_0", "..", "rank_0/../../x", ""):
            result = run("mount", self.made.source, self.directory, *self.made.options(), f"--warm={path}")
            self.assertEqual(result.code, 2, path)
            self.assertIn(f"--warm: '{path}' is not a path below the mount point", result.stderr)

    def test_a_mount_that_is_elsewhere(self) -> None:
        socket = f"listen:{self.directory}/socket"
        result = run("mount", self.made.source, "--fuse-socket", socket, *self.made.options(), "--warm", "rank_0")
        self.assertEqual(result.code, 2)
        self.assertIn("--warm needs a mount point that this process finds by its path", result.stderr)

    def test_more_than_there_is_memory_for(self) -> None:
        file = self.directory / "large"
        with file.open("wb") as opened:
            try:
                opened.truncate(1 << 43)  # nothing is allocated
            except OSError as error:
                self.skipTest(f"no file of 8 TiB here: {error}")
        result = run("warm", file)
        self.assertEqual((result.code, result.stdout), (2, ""))
        self.assertIn("1 file, 8.0 TiB: more than the available memory of", result.stderr)

    def test_a_mount_that_keeps_nothing(self) -> None:
        with self.mount("--direct-io") as mountpoint:
            result = run("warm", mountpoint / "rank_0")
            self.assertEqual(result.code, 0)
            self.assertIn("warning: the page cache of these files is empty: with --direct-io", result.stderr)

    @contextlib.contextmanager
    def faulty_mount(self) -> Iterator[tuple[Path, FaultySource]]:
        with faulty(FaultFs.program, self.made.source) as source, \
                mounted(source.path, *self.made.options(), *KEEPS_NOTHING) as mountpoint:
            source.forget_pages()
            yield mountpoint, source

    def test_a_file_that_fails_fails_alone(self) -> None:
        self.made = TwoArrays(self.directory / "rows", ROWS, ROWS, SHAPE)
        with self.faulty_mount() as (mountpoint, source):
            source.set(f"rank_2/* error={errno.EIO}")
            result = run("warm", *(mountpoint / f"rank_{rank}" for rank in range(RANKS)))
            self.assertEqual((result.code, result.stdout), (3, ""))
            self.assertIn(f"{mounted_file(mountpoint, 2)}: cannot read: Input/output error", result.stderr)
            self.assertEqual(result.stderr.count("cannot read"), 1)
            # The page cache of the file that fails has pages, too, which were not read.
            self.assertEqual([share(mounted_file(mountpoint, rank)) for rank in (0, 1, 3)], [1.0] * 3)
            source.set()
            self.assertEqual(run("warm", mountpoint / "rank_2").code, 0)
            self.assertEqual(mounted_file(mountpoint, 2).read_bytes(), self.made.expected(2))

    def test_a_source_that_stalls(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.faulty_mount() as (mountpoint, source):
                source.set("rank_0/* operation=read stall")
                warm = subprocess.Popen([Settings.binary, "warm", mountpoint / "rank_1"], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
                self.assertTrue(wait_until(lambda: source.stalled() > 0))
                warm.send_signal(number)
                self.assertEqual(warm.communicate(timeout=60), ("", ""))
                self.assertEqual(warm.returncode, -number)
                source.set()

    def test_progress(self) -> None:
        """On a terminal there is a line that goes away at the end."""
        with self.faulty_mount() as (mountpoint, source):
            source.set("rank_0/* operation=read stall")
            master, slave = os.openpty()
            warm = subprocess.Popen([Settings.binary, "warm", mountpoint / "rank_1"], stdout=subprocess.PIPE, stderr=slave)
            os.close(slave)
            seen = b""
            while b"rank_1" not in seen:
                seen += os.read(master, 1 << 16)
            self.assertIn(b"reading ", seen)
            source.set()
            warm.communicate(timeout=60)
            self.assertEqual(warm.returncode, 0)
            with contextlib.suppress(OSError):
                while more := os.read(master, 1 << 16):
                    seen += more
            os.close(master)
            self.assertTrue(seen.endswith(b"\r\x1b[K"))


if __name__ == "__main__":
    run_unittests_with_faults()
