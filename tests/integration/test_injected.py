# SPDX-License-Identifier: Apache-2.0
"""System calls of a live daemon that fail, injected by strace: a reader gets the right bytes or an
error, and all is well when it is over.

Short reads are not injected: strace would only change what a call returns, with nothing read. They
are in test_faulty.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mounted import (
    Settings,
    assert_gone,
    errno_name,
    is_sanitized,
    mounted,
    mountpoint_guard,
    open_file_limit,
    processes_of,
    run,
    run_unittests,
    scratch,
    wait_until,
)
from two_arrays import COLUMNS, HALVES, ROWS, Layout, TwoArrays, metric, mounted_file
from make_large import make_large  # two_arrays has put its directory on the path

SHAPE = (512, 4096)
REQUEST = 16 << 10  # bytes
MANIFEST = ".reshardfs-export.jsonl"
WHOLE = Layout((1,), ((), ()))
# Of what does not fail: a traced process is slow on a machine that has other work.
SECONDS = 60.0


def require_strace(program: Path) -> None:
    if shutil.which("strace") is None:
        raise unittest.SkipTest("strace is not installed")
    if is_sanitized(program):
        raise unittest.SkipTest("sanitizers need the calls that fail here")


@dataclass
class Injection:
    """What strace has done to a process, when it is over."""

    count: int = 0  # calls that were made to fail


@contextlib.contextmanager
def injected(pid: int, calls: str, what: str, *more: str) -> Iterator[Injection]:
    """While in the context, calls of the process do `what`; see -e inject in strace(1)."""
    injection = Injection()
    with tempfile.TemporaryDirectory(prefix="reshardfs-test-") as directory:
        output, messages = Path(directory) / "calls", Path(directory) / "messages"
        with messages.open("wb") as file:
            tracer = subprocess.Popen(
                ["strace", "-f", "-p", str(pid), "-o", str(output), *more, "-e", f"trace={calls}",
                 "-e", f"inject={calls}:{what}"], stdin=subprocess.DEVNULL, stderr=file)
        try:
            attached = wait_until(
                lambda: "attached" in messages.read_text() or tracer.poll() is not None, SECONDS)
            if not attached or tracer.poll() is not None:
                raise unittest.SkipTest(f"strace cannot attach: {messages.read_text().strip()}")
            yield injection
        finally:
            # It detaches, and the process goes on.
            tracer.send_signal(signal.SIGINT)
            tracer.wait(SECONDS)
            injection.count = output.read_text(errors="replace").count("(INJECTED)")


class Injected(unittest.TestCase):
    made: TwoArrays
    log: Path
    daemon: int

    def setUp(self) -> None:
        require_strace(Settings.binary)

    @contextlib.contextmanager
    def mount(self, src: Layout, dst: Layout) -> Iterator[Path]:
        with scratch() as directory:
            self.made = TwoArrays(directory, src, dst, SHAPE)
            self.log = directory / "log"
            with mounted(self.made.source, *self.made.options(), "--direct-io", "--log-file",
                         self.log) as mountpoint:
                (self.daemon,) = processes_of(mountpoint)
                yield mountpoint
                self.assertEqual(processes_of(mountpoint), [self.daemon])

    def assert_all_right(self, mountpoint: Path) -> None:
        for rank in range(self.made.dst.device_count):
            self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), self.made.expected(rank))

    def read(self, mountpoint: Path, rank: int) -> str:
        """ "" if all bytes are right, or the error.

        By reads that are one request each: of one that is split the kernel gives what came before
        the error, and asks again. And there are enough of them for each thread of the daemon to
        have some.
        """
        expected = self.made.expected(rank)
        try:
            with mounted_file(mountpoint, rank).open("rb", buffering=0) as file:
                self.assertEqual(os.fstat(file.fileno()).st_size, len(expected))
                for offset in range(0, len(expected), REQUEST):
                    got = os.pread(file.fileno(), REQUEST, offset)
                    self.assertEqual(got, expected[offset:offset + REQUEST])
        except OSError as error:
            return errno_name(error)
        return ""

    def read_at_once(self, mountpoint: Path, readers: int) -> list[str]:
        """Whole files by many threads; what each has got."""
        results: list[str] = []
        ranks = self.made.dst.device_count
        threads = [threading.Thread(target=lambda rank: results.append(self.read(mountpoint, rank)),
                                    args=(number % ranks,)) for number in range(readers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()  # the mount's guard frees those that would wait for ever
        self.assertEqual(len(results), readers, "a reader got wrong bytes")
        return results

    def errors_under(self, mountpoint: Path, calls: str, what: str, *more: str) -> list[str]:
        """Of reading every file while calls fail; some must."""
        with injected(self.daemon, calls, what, *more) as injection:
            errors = [self.read(mountpoint, rank) for rank in range(self.made.dst.device_count)]
        self.assertGreater(injection.count, 0, "no call has failed")
        return errors

    def test_single_reads_of_the_source_fail(self) -> None:
        # strace counts the calls of each thread for itself.
        for src, dst, number in ((ROWS, HALVES, 1), (ROWS, HALVES, 5), (ROWS, COLUMNS, 3)):
            with self.subTest(number=number), self.mount(src, dst) as mountpoint:
                self.assert_all_right(mountpoint)
                errors = self.errors_under(mountpoint, "pread64", f"error=EIO:when={number}")
                self.assertIn("EIO", errors)
                self.assertLessEqual(set(errors), {"", "EIO"})
                failed = metric(mountpoint, "read_errors_total")
                self.assertGreaterEqual(failed, errors.count("EIO"))
                self.assertRegex(self.log.read_text(), r"/rank_[0-3]/m-1_1\.ckpt.*Input/output error")
                self.assert_all_right(mountpoint)
                self.assertEqual(metric(mountpoint, "read_errors_total"), failed)

    def test_each_file_in_turn_fails(self) -> None:
        """Only what needs that file fails, and the log names it."""
        with self.mount(ROWS, HALVES) as mountpoint:
            for rank in range(4):
                errors = self.errors_under(mountpoint, "pread64", "error=EIO", "-P",
                                           str(self.made.file(rank)))
                self.assertEqual(errors[rank // 2], "EIO")
                self.assertEqual(errors[1 - rank // 2], "")
                self.assertIn(str(self.made.file(rank)), self.log.read_text())
                self.assertNotIn(str(self.made.file((rank + 1) % 4)), self.log.read_text())
                self.log.write_text("")
                self.assert_all_right(mountpoint)

    def test_other_errors_of_a_read(self) -> None:
        for error, expected in (("EAGAIN", "EIO"), ("ENOMEM", "ENOMEM"), ("ESTALE", "ESTALE"),
                                ("ETIMEDOUT", "ETIMEDOUT"), ("EACCES", "EACCES"), ("ENXIO", "EIO")):
            with self.subTest(error), self.mount(ROWS, HALVES) as mountpoint:
                errors = self.errors_under(mountpoint, "pread64", f"error={error}:when=2")
                self.assertIn(expected, errors)
                self.assertLessEqual(set(errors), {"", expected})
                self.assertIn("m-1_1.ckpt", self.log.read_text())
                self.assert_all_right(mountpoint)

    def test_interrupted_reads_are_made_again(self) -> None:
        with self.mount(ROWS, COLUMNS) as mountpoint:
            errors = self.errors_under(mountpoint, "pread64", "error=EINTR:when=1+2")
            self.assertEqual(errors, [""] * 4)
            self.assertEqual(self.log.read_text(), "")

    def test_a_source_that_cannot_be_examined(self) -> None:
        """Bytes that nobody could check are not given out."""
        calls = "fstat,newfstatat,statx"
        with self.mount(ROWS, HALVES) as mountpoint:
            errors = self.errors_under(mountpoint, calls, "error=EIO", "-P", str(self.made.file(3)))
            self.assertEqual(errors, ["", "EIO"])
            self.assertIn(str(self.made.file(3)), self.log.read_text())
            self.assert_all_right(mountpoint)

    @contextlib.contextmanager
    def mount_to_be_ended(self) -> Iterator[Path]:
        """A mount that is gone at the end of the context."""
        with scratch() as directory:
            self.made = TwoArrays(directory, ROWS, HALVES, SHAPE)
            self.log, mountpoint = directory / "log", directory / "mnt"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                result = run("mount", self.made.source, mountpoint, *self.made.options(),
                             "--direct-io", "--log-file", self.log)
                self.assertEqual(result.code, 0, result.stderr)
                (self.daemon,) = processes_of(mountpoint)
                yield mountpoint
                assert_gone(mountpoint, SECONDS)

    def test_requests_that_are_interrupted_on_their_way(self) -> None:
        """What the kernel says where a request was withdrawn, or a signal came."""
        for error in ("EINTR", "EAGAIN", "ENOENT"):
            with self.subTest(error), self.mount_to_be_ended() as mountpoint:
                # strace stays until the end: a thread that waits for requests is hardly ever
                # outside of this call, and where strace lets go within it, it returns ENOSYS.
                with injected(self.daemon, "readv", f"error={error}:when=1+3", "-P",
                              "/dev/fuse") as injection:
                    self.assert_all_right(mountpoint)
                    self.assertEqual(run("umount", mountpoint).code, 0)
                    assert_gone(mountpoint, SECONDS)
                self.assertGreater(injection.count, 5)
                self.assertEqual(self.log.read_text(), "")

    def test_requests_that_cannot_be_taken(self) -> None:
        """The mount ends, its readers get an error, and the log says why."""
        with self.mount_to_be_ended() as mountpoint:
            with injected(self.daemon, "readv", "error=ENOSYS:when=3", "-P", "/dev/fuse"):
                for rank in range(2):
                    # As long as it ends; then there is no such file.
                    self.assertIn(self.read(mountpoint, rank), ("ENOTCONN", "ECONNABORTED", "ENOENT"))
                assert_gone(mountpoint, SECONDS)
            self.assertRegex(self.log.read_text(), r"error: the mount has ended: /dev/fuse: .*"
                             r"Function not implemented\n\Z")

    def test_no_memory_for_a_map(self) -> None:
        """Columns are then read in the other way."""
        with self.mount(WHOLE, COLUMNS) as mountpoint:
            errors = self.errors_under(mountpoint, "mmap", "error=ENOMEM", "-P",
                                       str(self.made.file(0)))
            self.assertEqual(errors, [""] * 4)

    def test_no_memory(self) -> None:
        """No map succeeds, neither for buffers nor for stacks of threads."""
        with self.mount(ROWS, HALVES) as mountpoint:
            with injected(self.daemon, "mmap", "error=ENOMEM") as injection:
                errors = self.read_at_once(mountpoint, 12)
            self.assertLessEqual(set(errors), {"", "ENOMEM"})
            self.assertGreater(injection.count, 0)
            self.assert_all_right(mountpoint)

    def test_no_more_threads(self) -> None:
        """Those that are there do the work."""
        with self.mount(ROWS, HALVES) as mountpoint:
            with injected(self.daemon, "clone3,clone", "error=EAGAIN"):
                self.assertEqual(self.read_at_once(mountpoint, 12), [""] * 12)
                # And say so, but not at each request. Later it may be said again: strace lets go of
                # one thread after the other, so that one starts a thread before another cannot.
                self.assertRegex(self.log.read_text(), r"\A.*cannot start another thread.*\n\Z")
            self.assert_all_right(mountpoint)

    def test_files_that_must_be_opened_again(self) -> None:
        """With more source files than may be open at once."""
        with scratch() as root, open_file_limit(root, 256):
            make_large(root, dp=128, tp=8, stages=1, parameters=30, dst_dp=2, dst_tp=4)
            options = ["--src-strategy", str(root / "src.ckpt"), "--dst-strategy",
                       str(root / "dst.ckpt"), "--direct-io", "--log-file", str(root / "log")]
            with mounted(root / "src", *options) as mountpoint:
                (self.daemon,) = processes_of(mountpoint)
                path = mountpoint / "rank_0/checkpoint_0.ckpt"
                whole = path.read_bytes()
                # The program has more open than was thought: what is idle is closed for it.
                with injected(self.daemon, "openat,open", "error=EMFILE:when=1+2") as injection:
                    self.assertEqual(path.read_bytes(), whole)
                self.assertGreater(injection.count, 0)
                self.assertEqual((root / "log").read_text(), "")
                for error, expected in (("EMFILE", "EIO"), ("ENFILE", "EIO"), ("ENOMEM", "ENOMEM"),
                                        ("EACCES", "EACCES"), ("EIO", "EIO")):
                    with self.subTest(error):
                        with injected(self.daemon, "openat,open", f"error={error}") as injection:
                            with self.assertRaises(OSError) as caught:
                                path.read_bytes()
                        self.assertEqual(errno_name(caught.exception), expected)
                        self.assertGreater(injection.count, 0)
                        self.assertEqual(path.read_bytes(), whole)

    def test_many_errors_at_random(self) -> None:
        """Readers at random places while every seventh call fails: right bytes, or an error."""
        with self.mount(ROWS, COLUMNS) as mountpoint:
            wrong: list[str] = []
            good = [0] * 4

            def work(rank: int) -> None:
                rng, whole = random.Random(rank), self.made.expected(rank)
                with mounted_file(mountpoint, rank).open("rb", buffering=0) as file:
                    for _ in range(150):
                        offset, length = rng.randrange(len(whole)), rng.randrange(1, 100_000)
                        try:
                            got = os.pread(file.fileno(), length, offset)
                        except OSError as error:
                            if errno_name(error) != "EIO":
                                wrong.append(errno_name(error))
                            continue
                        good[rank] += 1
                        if not got or got != whole[offset:offset + len(got)]:
                            wrong.append(f"rank {rank}, {length} bytes at {offset}")

            with injected(self.daemon, "pread64,mmap,fstat,newfstatat", "error=EIO:when=5+7", "-P",
                          str(self.made.file(1)), "-P", str(self.made.file(2))) as injection:
                threads = [threading.Thread(target=work, args=(rank,)) for rank in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            self.assertEqual(wrong, [])
            self.assertGreater(min(good), 0)
            self.assertGreater(injection.count, 20)
            self.assert_all_right(mountpoint)


class Commands(unittest.TestCase):
    """Commands whose own calls fail, from their start on."""

    def setUp(self) -> None:
        require_strace(Settings.binary)
        self.directory = self.enterContext(scratch())
        self.made = TwoArrays(self.directory, ROWS, COLUMNS, SHAPE)
        self.out = self.directory / "out"
        source, strategy = str(self.made.source), str(self.made.strategies[0])
        self.export = ["export", source, str(self.out), *self.made.options()]
        self.readers = [
            ["hash", source, *self.made.options()],
            ["cat", source, *self.made.options(), "rank_1/checkpoint_1.ckpt"],
            ["verify", source, "--src-strategy", strategy],
            ["diff", source, source, "--a-strategy", strategy, "--b-strategy", strategy],
            ["inspect", source, "--src-strategy", strategy, "--stats"],
        ]

    def run_under(self, words: list[str], path: Path, *injections: str) -> tuple[int, str]:
        """The exit code and what was said, of a command for which calls on a file fail."""
        log = self.directory / "calls"
        traced = ",".join(injection.partition(":")[0] for injection in injections)
        inject = [word for injection in injections for word in ("-e", f"inject={injection}")]
        done = subprocess.run(
            ["strace", "-f", "-o", log, "-P", path, "-e", f"trace={traced}", *inject,
             Settings.binary, *words],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        said = (done.stderr + (done.stdout if words[0] == "verify" else b"")).decode()
        if "PTRACE" in said:
            self.skipTest(f"strace cannot trace: {said}")
        self.assertIn("(INJECTED)", log.read_text(errors="replace"), "no call has failed")
        return done.returncode, said

    def assert_exported(self, all_of_them: bool) -> None:
        """What has its final name is right; and nothing is left of what has not."""
        found = [path for path in self.out.rglob("*") if path.is_file()]
        self.assertFalse([path for path in found if "partial" in path.name])
        files = [path for path in found if path.name.startswith("checkpoint")]
        for path in files:
            rank = int(path.parent.name.removeprefix("rank_"))
            self.assertEqual(path.read_bytes(), self.made.expected(rank))
        self.assertEqual(len(files) == 4, all_of_them)
        shutil.rmtree(self.out, ignore_errors=True)

    def test_a_source_that_fails(self) -> None:
        path = self.made.file(2)
        # The first newfstatat looks whether it is a file; fstat(3) is another call or the same,
        # depending on the C library.
        examined = ["fstat,statx:error=EIO", "newfstatat:error=EIO:when=2+"]
        for injections in (["pread64:error=EIO"], examined):
            for words in [*self.readers, self.export]:
                with self.subTest(injections=injections, command=words[0]):
                    code, said = self.run_under(words, path, *injections)
                    self.assertEqual(code, 3, said)
                    self.assertRegex(said, "rank_2/m-1_1.ckpt: .*Input/output error")
            self.assert_exported(False)

    def test_a_source_whose_reads_are_interrupted(self) -> None:
        for words in [*self.readers, self.export]:
            with self.subTest(command=words[0]):
                code, said = self.run_under(words, self.made.file(2),
                                            "pread64:error=EINTR:when=1+2")
                self.assertEqual(code, 0, said)
        self.assert_exported(True)

    def test_a_target_that_fails(self) -> None:
        partial = self.out / "rank_2/.checkpoint_2.ckpt.reshardfs-partial"
        for calls, error in (("write,pwrite64", "ENOSPC"), ("write,pwrite64", "EIO"),
                             ("fsync,fdatasync", "EIO"), ("rename,renameat,renameat2", "EIO")):
            with self.subTest(calls=calls, error=error):
                # It is renamed within its directory, which is open.
                path = partial.parent if "rename" in calls else partial
                code, said = self.run_under(self.export, path, f"{calls}:error={error}")
                self.assertEqual(code, 3, said)
                self.assertIn("rank_2/checkpoint_2.ckpt: cannot ", said)
                self.assert_exported(False)

    def test_a_target_that_knows_no_flags_of_rename(self) -> None:
        """NFS has none of them; where there are no hard links either, a plain rename has to do."""
        no_links = ["-e", "inject=linkat:error=EPERM"]
        for more in ([], no_links):
            for error in ("EINVAL", "ENOSYS", "EOPNOTSUPP"):
                with self.subTest(error, more=more):
                    inject = ["-e", f"inject=renameat2:error={error}", *more]
                    self.trace(inject, self.export)
                    self.assert_exported(True)
                    self.write_and_replace(inject)

    def trace(self, inject: list[str], words: list[str], code: int = 0) -> str:
        done = subprocess.run(
            ["strace", "-f", "-o", "/dev/null", "-e", "trace=renameat2,linkat", *inject,
             Settings.binary, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
            check=False)
        said = done.stderr.decode()
        if "PTRACE" in said:
            self.skipTest(f"strace cannot trace: {said}")
        self.assertEqual(done.returncode, code, said)
        return said

    def write_and_replace(self, inject: list[str]) -> None:
        """Each command that writes a file; and none replaces one unless it is told to."""
        source, strategy = str(self.made.source), str(self.made.strategies[0])
        commands = {
            "report.html": ["report", source, *self.made.options(), "-O"],
            "plan.svg": ["plan", source, *self.made.options(), "--svg"],
            "strategy.json": ["strategy", "convert", strategy, "-O"],
        }
        directory = self.directory / "written"
        directory.mkdir()
        for name, words in commands.items():
            path = directory / name
            self.trace(inject, [*words, str(path)])
            self.assertGreater(path.stat().st_size, 0)
            path.write_text("mine")
            said = self.trace(inject, [*words, str(path)], code=2)
            self.assertIn(f"{name}: exists already; --force replaces it", said)
            self.assertEqual(path.read_text(), "mine")
            self.trace(inject, [*words, str(path), "--force"])
            self.assertNotEqual(path.read_bytes(), b"mine")
        self.assertEqual(sorted(path.name for path in directory.iterdir()), sorted(commands))
        shutil.rmtree(directory)

    def test_a_target_whose_writes_are_interrupted(self) -> None:
        manifest = self.out / MANIFEST
        for path in (self.out / "rank_2/.checkpoint_2.ckpt.reshardfs-partial", manifest):
            with self.subTest(path.name):
                code, said = self.run_under(self.export, path,
                                            "write,pwrite64:error=EINTR:when=1+2")
                self.assertEqual(code, 0, said)
                # Of the conversion, of the strategy, and of each file.
                self.assertEqual(len(manifest.read_text().splitlines()), 2 + 4)
                self.assert_exported(True)


if __name__ == "__main__":
    run_unittests()
