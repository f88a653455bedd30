# SPDX-License-Identifier: Apache-2.0
"""A source that goes away and comes back, as when its server is restarted: reads fail with the
source's error or wait meanwhile, and afterwards the same mount and the same open files give the right
bytes again."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sftp_server
from faulty_source import KEEPS_NOTHING, FaultFs, FaultySource, faulty, forget_pages, run_unittests_with_faults
from mounted import is_mounted, mounted, open_file_limit, processes_of, run, scratch, wait_until
from two_arrays import HALVES, MANY_ROWS, ROWS, TwoArrays, metric, mounted_file

SHAPE = (256, 4096)
LONG = 60.0
# What a network file system says while its server is gone: softly mounted, with the export taken
# back, after a timeout, of FUSE whose process has ended, and where there is no way to the server.
ERRORS = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN)
# Of the page cache past the daemon, of files that count as far, and with a cache on disk.
WAYS = {
    "direct": ("--direct-io", *KEEPS_NOTHING),
    "page cache": KEEPS_NOTHING,
    "far": ("--direct-io",),
    "cache on disk": ("--direct-io", "--cache-dir", "cache"),
}


class Outage(unittest.TestCase):
    made: TwoArrays
    source: FaultySource

    @contextlib.contextmanager
    def mount(self, *options: str | Path) -> Iterator[Path]:
        with contextlib.ExitStack() as stack:
            self.root = stack.enter_context(scratch())
            self.made = TwoArrays(self.root, ROWS, HALVES, SHAPE)
            self.source = stack.enter_context(faulty(FaultFs.program, self.made.source))
            options = tuple(self.root / "cache" if option == "cache" else option for option in options)
            yield stack.enter_context(mounted(self.source.path, *self.made.options(), "--log-file",
                                              self.root / "log", *options))

    def begins(self, code: int) -> None:
        """Whatever is asked of the source fails."""
        self.source.set(*(f"rank_*/* operation={operation} error={code}"
                          for operation in ("read", "open", "getattr")))

    def pid_of(self, mountpoint: Path) -> int:
        return int(json.loads(run("status", "--json", mountpoint).stdout)["mounts"][0]["status"]["pid"])

    def empty_cache(self) -> None:
        """What opening the source has left in it."""
        for path in (self.root / "cache").rglob("*"):
            if path.is_file() and path.name not in ("held", "sweep"):
                path.unlink(missing_ok=True)

    def drop(self, fd: int) -> None:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def assert_served(self, mountpoint: Path) -> None:
        for rank in range(2):
            self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), self.made.expected(rank))

    def test_errors_end_with_the_outage(self) -> None:
        for way, options in WAYS.items():
            for code in ERRORS:
                with self.subTest(way=way, code=errno.errorcode[code]), self.mount(*options) as mountpoint:
                    (daemon,) = processes_of(mountpoint)
                    if way == "cache on disk":
                        self.empty_cache()
                    whole = self.made.expected(0)
                    with open(mounted_file(mountpoint, 0), "rb", buffering=0) as file:
                        self.assertEqual(os.pread(file.fileno(), 4096, 0), whole[:4096])
                        self.source.forget_pages()
                        self.begins(code)
                        failures = set()
                        for offset in range(0, len(whole) - 4096, 65537):
                            self.drop(file.fileno())
                            try:
                                data = os.pread(file.fileno(), 4096, offset)
                            except OSError as error:
                                failures.add(errno.errorcode[error.errno])
                            else:  # what is kept is right
                                self.assertEqual(data, whole[offset:offset + 4096])
                        self.assertEqual(failures - {errno.errorcode[code], "EIO"}, set())
                        self.assertTrue(failures, "no read has met the outage")
                        # The mount itself answers.
                        self.assertIn("rank_0", os.listdir(mountpoint))
                        self.source.set()
                        # The same open file, and each file anew.
                        self.drop(file.fileno())
                        self.assertEqual(os.pread(file.fileno(), len(whole), 0)[:1 << 20], whole[:1 << 20])
                        for offset in range(0, len(whole), 1 << 20):
                            self.assertEqual(os.pread(file.fileno(), 1 << 20, offset),
                                             whole[offset:offset + (1 << 20)])
                    self.assert_served(mountpoint)
                    self.assertEqual(processes_of(mountpoint), [daemon])
                    self.assertEqual(run("status", "--ready", mountpoint).code, 0)

    def test_a_process_that_is_killed_beside_it_is_started_again(self) -> None:
        for code in ERRORS:
            for step in ((), ("--step", "all")):
                with self.subTest(code=errno.errorcode[code], step=step), \
                        self.mount("--supervise", "--direct-io", *KEEPS_NOTHING, *step) as mountpoint:
                    shown = mountpoint / "latest" if step else mountpoint
                    whole = self.made.expected(0)
                    with open(mounted_file(shown, 0), "rb", buffering=0) as file:
                        self.assertEqual(os.pread(file.fileno(), 4096, 0), whole[:4096])
                        daemon = self.pid_of(mountpoint)
                        self.source.forget_pages()
                        self.begins(code)
                        os.kill(daemon, signal.SIGKILL)
                        log = self.root / "log"
                        self.assertTrue(wait_until(lambda: "waits for its source" in log.read_text(), LONG))
                        self.assertTrue(is_mounted(mountpoint))
                        self.source.set()
                        self.assertEqual(os.pread(file.fileno(), len(whole), 0)[:1 << 20], whole[:1 << 20])
                    self.assert_served(shown)
                    self.assertNotIn("cannot take over", log.read_text())

    def test_a_mount_that_waits_for_its_source_can_be_unmounted(self) -> None:
        with self.mount("--supervise") as mountpoint:
            daemon = self.pid_of(mountpoint)
            self.begins(errno.EIO)
            os.kill(daemon, signal.SIGKILL)
            log = self.root / "log"
            self.assertTrue(wait_until(lambda: "waits for its source" in log.read_text(), LONG))
        # It has been unmounted meanwhile.
        self.assertTrue(wait_until(lambda: not processes_of(mountpoint), LONG))

    def test_stalls_end_with_the_outage(self) -> None:
        for way, options in WAYS.items():
            for operation in ("read", "getattr"):
                with self.subTest(way=way, operation=operation), self.mount(*options) as mountpoint:
                    whole = self.made.expected(0)
                    with open(mounted_file(mountpoint, 0), "rb", buffering=0) as file:
                        self.source.forget_pages()
                        self.source.set(f"rank_*/* operation={operation} stall",
                                        "rank_*/* operation=read stall")
                        self.drop(file.fileno())
                        got: list[bool] = []
                        readers = [threading.Thread(target=lambda offset: got.append(
                            os.pread(file.fileno(), 4096, offset) == whole[offset:offset + 4096]),
                            args=(i << 17,)) for i in range(8)]
                        for reader in readers:
                            reader.start()
                        self.assertTrue(wait_until(lambda: self.source.stalled() > 0, LONG))
                        # What is kept is right, and the others wait.
                        self.assertNotIn(False, got)
                        self.assertLess(len(got), len(readers))
                        self.source.set()
                        for reader in readers:
                            reader.join(LONG)
                        self.assertEqual(got, [True] * len(readers))
                    self.assert_served(mountpoint)

    def test_a_stall_is_in_the_log_with_its_end(self) -> None:
        with self.mount("--direct-io", *KEEPS_NOTHING, "-v", "--log-format", "json") as mountpoint:
            path = mounted_file(mountpoint, 0)
            log = self.root / "log"

            def told(event: str) -> list[dict[str, Any]]:
                lines = map(json.loads, log.read_text().splitlines())
                return [line for line in lines if line["event"] == event]

            with open(path, "rb", buffering=0) as file:
                self.source.forget_pages()
                self.source.set("rank_*/* operation=read stall")
                got: list[bytes] = []
                readers = [threading.Thread(target=lambda: got.append(os.pread(file.fileno(), 4096, 1 << 19)))
                           for _ in range(4)]
                for reader in readers:
                    reader.start()
                self.assertTrue(wait_until(lambda: bool(told("source_stalled")), LONG))
                self.assertEqual((got, told("stall_over")), ([], []))
                self.source.set()
                for reader in readers:
                    reader.join(LONG)
                self.assertEqual(len(got), 4)
                self.assertTrue(wait_until(lambda: bool(told("stall_over")), LONG))
            (begin,), (end,) = told("source_stalled"), told("stall_over")
            self.assertEqual((begin["level"], begin["operation"], begin["file"], begin["client_pid"]),
                             ("warning", "read", str(path.relative_to(mountpoint)), os.getpid()))
            self.assertGreaterEqual(begin["duration_seconds"], 10)
            self.assertGreaterEqual(end["duration_seconds"], begin["duration_seconds"] - 1)
            self.assertRegex(begin["message"], r"^read of '/rank_0/.*' has waited for the source for \d+ s$")

    def test_files_that_a_server_has_forgotten_are_opened_again(self) -> None:
        """As after a restart: what is open fails for ever, and opening it again works."""
        for way, options in WAYS.items():
            for code in (errno.EIO, errno.ESTALE, errno.ENOTCONN):
                with self.subTest(way=way, code=errno.errorcode[code]), self.mount(*options) as mountpoint:
                    if way == "cache on disk":
                        self.empty_cache()
                    whole = self.made.expected(0)
                    with open(mounted_file(mountpoint, 0), "rb", buffering=0) as file:
                        self.assertEqual(os.pread(file.fileno(), 4096, 0), whole[:4096])
                        self.source.forget_pages()
                        self.source.set(f"rank_*/* operation=read lost error={code}")
                        self.drop(file.fileno())
                        for offset in range(0, len(whole), 1 << 20):
                            self.assertEqual(os.pread(file.fileno(), 1 << 20, offset),
                                             whole[offset:offset + (1 << 20)])
                    self.assert_served(mountpoint)

    def test_files_without_a_descriptor_of_their_own_too(self) -> None:
        """Those beyond the limit of open files share some."""
        with scratch() as root:
            made = TwoArrays(root, MANY_ROWS, HALVES, SHAPE)
            with faulty(FaultFs.program, made.source) as source, open_file_limit(root, 40), \
                    mounted(source.path, *made.options(), "--direct-io", *KEEPS_NOTHING) as mountpoint:
                for _ in range(2):
                    # Read last before: its descriptor is still there.
                    with open(mounted_file(mountpoint, 1), "rb", buffering=0) as file:
                        file.seek(-4096, os.SEEK_END)
                        self.assertEqual(file.read(4096), made.expected(1)[-4096:])
                    for rank in range(2):
                        self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), made.expected(rank))
                    source.forget_pages()
                    source.set(f"rank_*/* operation=read lost error={errno.EIO}")

    def test_descriptors_are_not_left_open(self) -> None:
        with self.mount("--direct-io", *KEEPS_NOTHING) as mountpoint:
            (daemon,) = processes_of(mountpoint)
            before = len(os.listdir(f"/proc/{daemon}/fd"))
            for _ in range(20):
                self.source.forget_pages()
                self.source.set(f"rank_*/* operation=read lost error={errno.EIO}")
                self.assert_served(mountpoint)
            self.assertLessEqual(len(os.listdir(f"/proc/{daemon}/fd")), before + 2, "descriptors are left open")

    def test_a_file_that_is_another_one_is_not_taken_for_it(self) -> None:
        with self.mount("--direct-io", *KEEPS_NOTHING) as mountpoint:
            (daemon,) = processes_of(mountpoint)
            with open(mounted_file(mountpoint, 0), "rb", buffering=0) as file:
                self.assertTrue(os.pread(file.fileno(), 4096, 0))
                for rank in range(2):
                    path = self.made.file(rank)
                    status = path.stat()
                    other = path.with_suffix(".new")
                    other.write_bytes(bytes(status.st_size))
                    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
                    other.rename(path)
                self.source.forget_pages()
                self.source.set(f"rank_*/* operation=read lost error={errno.EIO}")
                with self.assertRaises(OSError) as caught:
                    os.pread(file.fileno(), 4096, 1 << 19)
                self.assertIn(caught.exception.errno, (errno.EIO, errno.ESTALE))
                self.assertEqual(processes_of(mountpoint), [daemon])

    def test_steps_go_on(self) -> None:
        with self.mount("--step", "all", *KEEPS_NOTHING) as mountpoint:
            (step,) = os.listdir(mountpoint / "steps")
            path = mountpoint / "steps" / step / "rank_0/checkpoint_0.ckpt"
            whole = self.made.expected(0)
            with open(path, "rb", buffering=0) as file:
                self.source.forget_pages()
                self.begins(errno.EIO)
                self.drop(file.fileno())
                with self.assertRaises(OSError):
                    os.pread(file.fileno(), 4096, 1 << 19)
                self.source.set()
                self.drop(file.fileno())
                self.assertEqual(os.pread(file.fileno(), 4096, 1 << 19), whole[1 << 19:(1 << 19) + 4096])
            self.assertEqual(path.read_bytes(), whole)

    @unittest.skipIf(sftp_server.why_not(), str(sftp_server.why_not()))
    def test_a_server_of_sshfs_that_is_restarted(self) -> None:
        with scratch() as root, contextlib.ExitStack() as stack:
            made = TwoArrays(root, ROWS, HALVES, SHAPE)
            server = sftp_server.SftpServer()
            stack.callback(server.stop)
            remote = stack.enter_context(sftp_server.sshfs(server, made.source, root / "remote"))
            log = root / "log"
            mountpoint = stack.enter_context(mounted(remote, *made.options(), "--direct-io", "--log-file", log,
                                                     *KEEPS_NOTHING))
            (daemon,) = processes_of(mountpoint)
            whole = made.expected(0)

            def read(offset: int) -> bytes:
                try:
                    return os.pread(file.fileno(), 1 << 20, offset)
                except OSError as error:
                    raise AssertionError(f"{error}; the log:\n{log.read_text()}") from error

            with open(mounted_file(mountpoint, 0), "rb", buffering=0) as file:
                for _ in range(3):
                    self.assertEqual(os.pread(file.fileno(), len(whole), 0)[:1 << 20], whole[:1 << 20])
                    for path in remote.rglob("m-*"):
                        forget_pages(path)
                    server.stop()
                    with self.assertRaises(OSError):
                        os.pread(file.fileno(), 1 << 20, 1 << 19)
                    self.assertIn("rank_0", os.listdir(mountpoint))
                    server.start()
                    for offset in range(0, len(whole), 1 << 20):
                        self.assertEqual(read(offset), whole[offset:offset + (1 << 20)])
            for rank in range(2):
                self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), made.expected(rank))
            self.assertEqual(processes_of(mountpoint), [daemon])

    def test_what_was_replaced_meanwhile_is_stale(self) -> None:
        with self.mount("--direct-io", *KEEPS_NOTHING) as mountpoint:
            with open(mounted_file(mountpoint, 0), "rb", buffering=0) as file:
                self.assertTrue(os.pread(file.fileno(), 4096, 0))
                self.source.forget_pages()
                self.begins(errno.EIO)
                content = bytearray(self.made.file(1).read_bytes())
                content[-100_000:] = bytes(100_000)
                with open(self.made.file(1), "r+b") as changed:
                    changed.write(content)
                self.source.set()
                for _ in range(2):  # and stays so
                    with self.assertRaises(OSError) as caught:
                        os.pread(file.fileno(), 1 << 20, len(self.made.expected(0)) - (1 << 19))
                    self.assertEqual(caught.exception.errno, errno.ESTALE)
            # Nothing else is.
            self.assertEqual(mounted_file(mountpoint, 1).read_bytes(), self.made.expected(1))
            self.assertGreater(metric(mountpoint, "read_errors_total"), 0)

    def test_a_fuse_source_that_is_mounted_again_is_another_one(self) -> None:
        """Its process has ended, and the new one's file system has another number."""
        with scratch() as root, contextlib.ExitStack() as stack:
            made = TwoArrays(root, ROWS, HALVES, SHAPE)
            place = root / "place"
            place.mkdir()

            def serve() -> subprocess.Popen[bytes]:
                served = subprocess.Popen([str(FaultFs.program), str(made.source), str(place), "-f"],
                                          stdin=subprocess.DEVNULL)
                self.assertTrue(wait_until(lambda: is_mounted(place), LONG))
                return served

            def end(served: subprocess.Popen[bytes]) -> None:
                served.kill()
                served.wait()
                subprocess.run(["umount", "-l", place], check=False, capture_output=True)

            first = serve()
            stack.callback(end, first)
            mountpoint = stack.enter_context(
                mounted(place, *made.options(), "--direct-io", *KEEPS_NOTHING))
            whole = made.expected(0)
            self.assertEqual(mounted_file(mountpoint, 0).read_bytes(), whole)
            end(first)
            with self.assertRaises(OSError) as caught:
                mounted_file(mountpoint, 0).read_bytes()
            self.assertIn(caught.exception.errno, (errno.ENOTCONN, errno.EIO, errno.ESTALE))
            stack.callback(end, serve())
            result = run("reload", "--replace", mountpoint)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertEqual(mounted_file(mountpoint, 0).read_bytes(), whole)


if __name__ == "__main__":
    run_unittests_with_faults()
