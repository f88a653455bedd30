# SPDX-License-Identifier: Apache-2.0
"""The change time of a source file moves: links, names and attributes leave it readable; a writer who
sets the modification time back does not. On each file system that watches are trusted on."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import shutil
import subprocess
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import by_name  # noqa: E402
from faulty_source import FaultFs, faulty, run_unittests_with_faults  # noqa: E402
from file_systems import attached, file_system  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from mounted import errno_name, mounted, rank_files, scratch  # noqa: E402

Action = Callable[[Path], None]


@contextlib.contextmanager
def ext4(directory: Path) -> Iterator[Path]:
    with file_system("ext4", directory, 64 << 20) as place:
        yield place


@contextlib.contextmanager
def tmpfs(directory: Path) -> Iterator[Path]:
    with attached(directory / "tmpfs", "-t", "tmpfs", "tmpfs") as place:
        yield place


@contextlib.contextmanager
def overlay(directory: Path) -> Iterator[Path]:
    """Files in its upper layer. Both layers are in a file system that can hold them."""
    with tmpfs(directory) as layers:
        with overlay_of(layers, layers / "merged") as place:
            yield place


@contextlib.contextmanager
def overlay_of(layers: Path, place: Path) -> Iterator[Path]:
    for name in ("lower", "upper", "work"):
        (layers / name).mkdir(exist_ok=True)
    options = f"lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work"
    with attached(place, "-t", "overlay", "-o", options, "overlay"):
        yield place


def keeping_times(change: Action) -> Action:
    """Sets the modification time back afterwards."""

    def run(path: Path) -> None:
        before = path.stat()
        change(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return run


@keeping_times
def rewrite(path: Path) -> None:
    """In place: every byte becomes another."""
    data = bytes(byte ^ 0xFF for byte in path.read_bytes())
    with open(path, "r+b") as file:
        file.write(data)


def truncate_and_fill(path: Path) -> None:
    size = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, size)


def link(path: Path) -> None:
    backup = path.with_name("backup")
    backup.unlink(missing_ok=True)
    os.link(path, backup)


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.with_name("moved").rename(path)


def note(path: Path) -> None:
    try:
        os.setxattr(path, "user.note", os.urandom(8))
    except OSError as error:
        if error.errno != errno.ENOTSUP:  # tmpfs before Linux 6.6
            raise


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(bytes(path.stat().st_size))
    other.rename(path)


class Daemon:
    """A mount of a set of two ranks, of which one file is changed."""

    def __init__(self, case: unittest.TestCase, made: GeneratedSet, mountpoint: Path) -> None:
        self.case, self.made = case, made
        self.file = made.source_files(1)[0]
        self.shown = rank_files(mountpoint)[0]
        self.expect_served("before anything")

    def answer(self) -> str:
        try:
            data = self.shown.read_bytes()
        except OSError as error:
            return errno_name(error)
        return "served" if by_name(data) == self.made.expected(0) else "WRONG BYTES"

    def expect_served(self, after: str) -> None:
        self.case.assertEqual(self.answer(), "served", after)

    def expect_refused(self, after: str) -> None:
        # Once more: it is not to be forgotten.
        self.case.assertEqual((self.answer(), self.answer()), ("ESTALE", "ESTALE"), after)


@contextlib.contextmanager
def served(case: unittest.TestCase, directory: Path) -> Iterator[Daemon]:
    """A new set in the directory."""
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    made = make_set(directory, Parallel(tp=2), Parallel(tp=1), layers=1)
    with mounted(made.source, *made.options(), "--direct-io") as mountpoint:
        yield Daemon(case, made, mountpoint)


class OnEachFileSystem(unittest.TestCase):
    file_system: Callable[[Path], contextlib.AbstractContextManager[Path]]

    def setUp(self) -> None:
        if type(self) is OnEachFileSystem:
            self.skipTest("for the file systems below")
        if os.geteuid() != 0:
            self.skipTest("mounting a file system needs root")
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        scratched = stack.enter_context(scratch())
        self.outside = scratched
        self.directory = stack.enter_context(type(self).file_system(scratched))

    def serve(self) -> contextlib.AbstractContextManager[Daemon]:
        return served(self, self.directory)

    def test_links_names_and_attributes(self) -> None:
        with self.serve() as daemon:
            for change in (move, note, lambda path: path.chmod(0o600), link, move, link,
                           lambda path: os.chown(path, 1, 1), lambda path: os.chown(path, 0, 0)):
                change(daemon.file)
                daemon.expect_served(getattr(change, "__name__", "?"))
            os.utime(daemon.file, ns=(1, daemon.file.stat().st_mtime_ns))
            daemon.expect_served("access time")

    def test_directories_above(self) -> None:
        with self.serve() as daemon:
            above = daemon.file.parent
            for directory in (above, above.parent):
                directory.rename(directory.with_name("elsewhere"))
                daemon.expect_served(f"{directory} renamed")
                directory.with_name("elsewhere").rename(directory)
            daemon.expect_served("and back")
            rewrite(daemon.file)
            daemon.expect_refused("rewritten")

    def test_deleted(self) -> None:
        for delete in (Path.unlink, replace):
            with self.subTest(delete.__name__), self.serve() as daemon:
                with open(daemon.file, "r+b") as writer:
                    before = os.fstat(writer.fileno())
                    delete(daemon.file)
                    daemon.expect_served("deleted")
                    daemon.expect_served("deleted, once more")
                    writer.write(b"other bytes")
                    writer.flush()
                    os.utime(writer.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
                    daemon.expect_refused("written by who had it open")

    def test_rewritten_and_dated_back(self) -> None:
        ways: dict[str, tuple[Action, ...]] = {
            "alone": (rewrite,),
            "after a link": (link, rewrite),
            "before a link": (rewrite, link),
            "through a link": (link, lambda path: rewrite(path.with_name("backup"))),
            "before its name changes": (rewrite, move),
            "before it is deleted": (rewrite, Path.unlink),
            "before it is replaced": (rewrite, replace),
            "truncated and filled": (keeping_times(truncate_and_fill),),
            "another owner": (rewrite, lambda path: path.chmod(0o600)),
        }
        for name, changes in ways.items():
            with self.subTest(name), self.serve() as daemon:
                for change in changes[:-1]:
                    change(daemon.file)
                if changes[0] is link:
                    daemon.expect_served("linked")
                changes[-1](daemon.file)
                daemon.expect_refused(name)
                if daemon.file.with_name("backup").exists():
                    daemon.file.with_name("backup").unlink()
                    daemon.expect_refused("the link is gone")

    def test_modification_time_set_back_alone(self) -> None:
        with self.serve() as daemon:
            before = daemon.file.stat()
            os.utime(daemon.file, ns=(0, before.st_mtime_ns - 10**9))
            daemon.expect_refused("an older time")
            os.utime(daemon.file, ns=(0, before.st_mtime_ns))
            daemon.expect_refused("the same time again")

    def test_written_through_a_map(self) -> None:
        with self.serve() as daemon:
            before = daemon.file.stat()
            with open(daemon.file, "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
                pages[-100:] = bytes(100)
                os.utime(daemon.file, ns=(before.st_atime_ns, before.st_mtime_ns))
                daemon.expect_refused("the map is still there")
            daemon.expect_refused("the map is gone")

    def test_written_asynchronously(self) -> None:
        """The kernel tells nobody of such a write before the file is closed."""
        with self.serve() as daemon:
            before = daemon.file.stat()
            with open(daemon.file, "r+b", buffering=0) as file:
                if not write_asynchronously(file.fileno(), bytes(100), before.st_size - 100):
                    self.skipTest("there are no asynchronous requests")
                os.utime(daemon.file, ns=(before.st_atime_ns, before.st_mtime_ns))
                daemon.expect_refused("still open")
            daemon.expect_refused("closed")

    def test_from_another_place(self) -> None:
        """A bind mount, and the namespace of another container, show the same file."""
        with self.serve() as daemon:
            with attached(self.outside / "bound", "--bind", self.directory) as bound:
                other = bound / daemon.file.relative_to(self.directory)
                link(other)
                daemon.expect_served("linked by the other way")
                rewrite(other)
                daemon.expect_refused("rewritten by the other way")
        with self.serve() as daemon:
            script = ("import os, sys; p = sys.argv[1]; s = os.stat(p); f = open(p, 'r+b');"
                      "f.write(b'x' * 1000); f.close();"
                      "os.utime(p, ns=(s.st_atime_ns, s.st_mtime_ns))")
            # In a chroot the root is no mount, whose propagation could be changed.
            subprocess.run(["unshare", "-m", "--propagation", "unchanged", sys.executable, "-c", script,
                            str(daemon.file)], check=True)
            daemon.expect_refused("rewritten in another namespace")


class Iocb(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("operation", ctypes.c_uint16), ("priority", ctypes.c_int16),
                ("file", ctypes.c_uint32), ("buffer", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("offset", ctypes.c_int64), ("reserved", ctypes.c_uint64),
                ("more", ctypes.c_uint32), ("event", ctypes.c_uint32)]


def write_asynchronously(file: int, data: bytes, offset: int) -> bool:
    """With io_submit() of Linux on x86-64."""
    setup, submit, events, write = 206, 209, 208, 1
    if os.uname().machine != "x86_64":
        return False
    system = ctypes.CDLL(None, use_errno=True).syscall
    context = ctypes.c_ulong(0)
    if system(setup, 1, ctypes.byref(context)) != 0:
        return False
    buffer = ctypes.create_string_buffer(data, len(data))
    request = Iocb(operation=write, file=file, buffer=ctypes.addressof(buffer), bytes=len(data),
                   offset=offset)
    requests = (ctypes.POINTER(Iocb) * 1)(ctypes.pointer(request))
    done = ctypes.create_string_buffer(32)
    return (system(submit, context, ctypes.c_long(1), requests) == 1
            and system(events, context, ctypes.c_long(1), ctypes.c_long(1), done, None) == 1)


class Ext4(OnEachFileSystem):
    file_system = staticmethod(ext4)


class Tmpfs(OnEachFileSystem):
    file_system = staticmethod(tmpfs)


class Overlay(OnEachFileSystem):
    file_system = staticmethod(overlay)


class LowerLayer(unittest.TestCase):
    """Files of an overlay that are in its lower layer until somebody changes them."""

    def check(self, change: Action, answer: str, of_layer: bool = False) -> None:
        if os.geteuid() != 0:
            self.skipTest("mounting a file system needs root")
        with scratch() as directory, tmpfs(directory) as layers:
            (layers / "lower").mkdir()
            made = make_set(layers / "lower", Parallel(tp=2), Parallel(tp=1), layers=1)
            place = layers / "merged"
            source = place / made.source.relative_to(layers / "lower")
            with overlay_of(layers, place), \
                    mounted(source, *made.options(), "--direct-io") as mountpoint:
                daemon = Daemon(self, made, mountpoint)
                file = place / daemon.file.relative_to(layers / "lower")
                change(daemon.file if of_layer else file)
                getattr(daemon, f"expect_{answer}")("changed")

    def test_copied_up_for_links_and_attributes(self) -> None:
        for change in (lambda path: path.chmod(0o600), link, move, note, Path.unlink):
            with self.subTest(change):
                self.check(change, "served")

    def test_copied_up_for_a_writer(self) -> None:
        self.check(rewrite, "refused")

    def test_written_below_the_overlay(self) -> None:
        """Which the kernel leaves undefined, and tells nobody of."""
        self.check(rewrite, "refused", of_layer=True)
        self.check(lambda path: path.chmod(0o600), "refused", of_layer=True)


class WhereAWatchProvesNothing(unittest.TestCase):
    """A file system whose files others can change without a word: here, one in user space."""

    def test_links(self) -> None:
        for change in (link, note, lambda path: path.chmod(0o600), rewrite):
            with self.subTest(change), scratch() as directory:
                made = make_set(directory, Parallel(tp=2), Parallel(tp=1), layers=1)
                with faulty(FaultFs.program, made.source) as source, \
                        mounted(source.path, *made.options(), "--direct-io") as mountpoint:
                    daemon = Daemon(self, made, mountpoint)
                    change(daemon.file)
                    daemon.expect_refused("changed")


if __name__ == "__main__":
    run_unittests_with_faults()
