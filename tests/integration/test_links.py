# SPDX-License-Identifier: Apache-2.0
"""Symbolic links in a source, and what is no file there; and that nothing is ever written to it."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import by_name, encode_checkpoint, record_of  # noqa: E402
from make_checkpoint import Parallel, make_set  # noqa: E402
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    Settings,
    assert_gone,
    is_mounted,
    mounted,
    mountpoint_guard,
    one_line,
    rank_files,
    run,
    run_unittests,
    scratch,
    wait_until,
)


class Source(unittest.TestCase):
    """Two ranks, in `self.source`; `self.outside` is beside it."""

    def setUp(self) -> None:
        manager = scratch()
        self.directory = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        self.made = make_set(self.directory, Parallel(tp=2), Parallel(tp=1), layers=1)
        self.source = self.made.source
        self.outside = self.directory / "outside"
        self.outside.mkdir()
        self.file = self.made.source_files(1)[0]

    def link(self, path: Path, target: str | Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.symlink_to(target)

    def check_bytes(self, *options: str) -> None:
        with mounted(self.source, *self.made.options(), *options) as mountpoint:
            self.assertEqual(by_name(rank_files(mountpoint)[0].read_bytes()), self.made.expected(0))

    def check_refused(self, *words: str, options: tuple[str, ...] = ()) -> str:
        result = run("plan", self.source, *self.made.options(), *options)
        line = one_line(result)
        self.assertIn(result.code, (2, 3), line)
        self.assertEqual(result.stdout, "")
        for word in words:
            self.assertIn(word, line)
        return line

    def note(self) -> str:
        result = run("plan", self.source, *self.made.options(), "-v")
        self.assertEqual(result.code, 0, result.stderr)
        lines = [line for line in result.stderr.splitlines() if "symbolic link" in line]
        self.assertLessEqual(len(lines), 1, lines)
        quiet = run("plan", self.source, *self.made.options())
        self.assertNotIn("symbolic link", quiet.stderr)
        return lines[0] if lines else ""


class Followed(Source):
    def test_file_inside(self) -> None:
        self.file.rename(self.source / "elsewhere.bin")
        for target in ("../elsewhere.bin", self.source / "elsewhere.bin"):
            self.link(self.file, target)
            self.check_bytes()
            self.assertEqual(self.note(), "")

    def test_file_outside(self) -> None:
        shutil.move(self.file, self.outside / "real.ckpt")
        self.link(self.file, self.outside / "real.ckpt")
        self.check_bytes()
        note = self.note()
        self.assertIn(str(self.file.relative_to(self.source)), note)
        self.assertIn(str(self.outside / "real.ckpt"), note)

    def test_directory_outside(self) -> None:
        shutil.move(self.file.parent, self.outside / "rank_1")
        self.link(self.file.parent, self.outside / "rank_1")
        self.check_bytes()
        self.assertIn("rank_1 to " + str(self.outside / "rank_1"), self.note())

    def test_directory_inside(self) -> None:
        self.file.parent.rename(self.source / "one")
        self.link(self.source / "rank_1", "one")
        self.check_bytes()
        self.assertEqual(self.note(), "")

    def test_chain_and_all_files(self) -> None:
        """Several links are one note; a link over a link leads where the last one does."""
        for rank in range(2):
            (file,) = self.made.source_files(rank)
            shutil.move(file, self.outside / f"{rank}.ckpt")
            (self.outside / f"link{rank}").symlink_to(f"{rank}.ckpt")
            self.link(file, self.outside / f"link{rank}")
        self.check_bytes()
        note = self.note()
        self.assertIn(str(self.outside / "0.ckpt"), note)
        self.assertTrue(note.endswith(" and 1 more"), note)

    def test_hostile_target_is_escaped(self) -> None:
        target = self.outside / "evil\x1b[2J\n.ckpt"
        shutil.move(self.file, target)
        self.link(self.file, target)
        note = self.note()
        self.assertIn("evil\\x1b[2J\\n.ckpt", note)
        self.assertNotIn("\x1b", note)

    def test_changed_target(self) -> None:
        """A link that leads to another file afterwards changes nothing that is open."""
        shutil.move(self.file, self.outside / "real.ckpt")
        self.link(self.file, self.outside / "real.ckpt")
        with mounted(self.source, *self.made.options()) as mountpoint:
            self.link(self.file, "/etc/passwd")
            self.assertEqual(by_name(rank_files(mountpoint)[0].read_bytes()), self.made.expected(0))


class Refused(Source):
    def test_what_is_no_file(self) -> None:
        """Whatever a link leads to, it is not waited for, read without end, or opened."""
        os.mkfifo(self.outside / "fifo")
        for target, word in (
            ("/nowhere", "no such file"), (self.file.name, ""), (self.outside / "fifo", "not a regular"),
            ("/dev/zero", "not a regular"), ("/dev/tty", "not a regular"), ("/proc/self/mem", ""),
            ("/proc/self/pagemap", ""), ("/etc/passwd", ""),
        ):
            with self.subTest(str(target)):
                self.link(self.file, target)
                self.check_refused("rank_1", word)

    def test_directories(self) -> None:
        """A directory in a file's place is passed over: then the rank has no file."""
        for target in (self.outside, "/", "..", "."):
            with self.subTest(str(target)):
                self.link(self.file, target)
                self.check_refused("rank 1")
        for target in ("rank_1", ".", "..", "/proc/self/fd", "/nowhere", "/dev/null"):
            with self.subTest("directory " + target):
                self.link(self.source / "rank_1", target)
                self.check_refused("rank 1")

    def test_devices_are_not_opened(self) -> None:
        """Opening some of them does something."""
        if os.geteuid() != 0 or shutil.which("strace") is None:
            self.skipTest("needs root and strace")
        for target in ("/dev/zero", "/dev/tty"):
            self.link(self.file, target)
            calls = traced("plan", self.source, *self.made.options())
            if not calls:
                self.skipTest("strace cannot trace here")
            opened = [call for call in calls if self.file.name in call]
            self.assertTrue([call for call in opened if "/rank_0/" in call] or not opened, calls)
            self.assertFalse([call for call in opened if "/rank_1/" in call], target)

    def test_socket(self) -> None:
        self.file.unlink()
        here = os.getcwd()
        os.chdir(self.file.parent)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(self.file.name)
                self.check_refused("rank_1", "not a regular file")
        finally:
            os.chdir(here)


class NoSymlinks(Source):
    OPTION = ("--no-symlinks",)

    def test_a_source_without_links(self) -> None:
        self.check_bytes(*self.OPTION)

    def test_links_are_refused(self) -> None:
        shutil.copytree(self.source, self.outside, dirs_exist_ok=True)
        name = self.file.relative_to(self.source)
        for place, target in ((name, self.outside / name), (name, "/nowhere"), (name, "/dev/zero"),
                              (Path("rank_1"), self.outside / "rank_1"), (Path("rank_1"), "rank_0")):
            with self.subTest(place=str(place), target=str(target)):
                shutil.rmtree(self.source / "rank_1") if not (self.source / "rank_1").is_symlink() else \
                    (self.source / "rank_1").unlink()
                shutil.copytree(self.outside / "rank_1", self.source / "rank_1")
                self.link(self.source / place, target)
                line = self.check_refused(f"{self.source / place}: is a symbolic link", "--no-symlinks",
                                          options=self.OPTION)
                self.assertNotIn("nowhere", line)

    def test_strategies_below_the_source(self) -> None:
        """A file, a directory of stages and one in it, and rules: each below the source, once as it
        is and once as a link to where it was."""
        kept = self.source / "kept"
        kept.mkdir()
        rules = self.directory / "rules.toml"
        result = run("strategy", "convert", self.made.src_strategy, "-O", rules)
        self.assertEqual(result.code, 0, result.stderr)
        rules.write_text(re.sub("unmatched = .*", 'unmatched = "replicate"', rules.read_text()))
        target = self.made.options()[2:]
        stages = self.directory / "src_stages"
        for original in (self.made.src_strategy, stages, rules):
            strategy = kept / original.name
            words = ("plan", self.source, "--src-strategy", strategy, *target)
            if original.is_dir():
                shutil.copytree(original, strategy)
            else:
                shutil.copy(original, strategy)
            result = run(*words, "--no-symlinks")
            self.assertEqual(result.code, 0, result.stderr)
            inner = next(strategy.iterdir()) if original.is_dir() else strategy
            for link, leads_to in ((inner, original / inner.name if original.is_dir() else original),
                                   (strategy, original)):
                self.link(link, leads_to)
                self.assertEqual(run(*words).code, 0)
                refused = run(*words, "--no-symlinks")
                self.assertEqual(refused.code, 2, refused.stderr)
                self.assertIn("symbolic link", one_line(refused))
                self.assertIn(str(link.relative_to(self.source)), one_line(refused))
            self.link(strategy, "elsewhere")
            self.assertEqual(run(*words, "--no-symlinks").code, 2)

    def test_every_command(self) -> None:
        shutil.move(self.file, self.outside / "real.ckpt")
        self.link(self.file, self.outside / "real.ckpt")
        strategy = self.made.options()[:2]
        out = self.directory / "out"
        mountpoint = self.directory / "mnt"
        mountpoint.mkdir()
        for words in (("mount", self.source, mountpoint, *strategy), ("inspect", self.source),
                      ("verify", self.source, *strategy), ("export", self.source, out, *strategy),
                      ("hash", self.source, *strategy), ("plan", self.source, *strategy),
                      ("cat", self.source, "merged/params.json", *strategy),
                      ("diff", self.source, self.source, "--a-strategy", strategy[1]),
                      ("mount", self.source, mountpoint, "--step", "all", *strategy),
                      ("mount", self.source, mountpoint, "-o", "no_symlinks", *strategy)):
            with self.subTest(words[0]):
                more = () if "-o" in words else self.OPTION
                result = run(*words, *more)
                self.assertEqual(result.code, 2, result.stdout + result.stderr)
                self.assertIn("is a symbolic link", one_line(result))
                self.assertFalse(is_mounted(mountpoint))

    def test_exchanged_for_a_link(self) -> None:
        """Between the look and the opening: of the file, of its directory, of an index file."""
        secret = self.outside / "rank_1"
        secret.mkdir()
        data = encode_checkpoint([record_of("secret", "Float32", np.zeros(3, np.float32))])
        (secret / self.file.name).write_bytes(data)
        for place, target in ((self.file, secret / self.file.name), (self.file.parent, secret)):
            with self.subTest(place.name), exchanged(place, target):
                for _ in range(100):
                    result = run("inspect", self.source, *self.OPTION)
                    self.assertNotIn("secret", result.stdout)
                    if result.code:
                        # Each exchange moves the file's change time too.
                        self.assertRegex(one_line(result),
                                         "symbolic link|leads out of the source|"
                                         "been changed while it was in use")

    def test_sums_of_links(self) -> None:
        """Lists of sums name files of the source too."""
        (self.outside / "secret").write_text("secret")
        (self.source / "note").symlink_to(self.outside / "secret")
        sums = self.directory / "sums"
        sums.write_text("0" * 64 + "  note\n")
        result = run("verify", self.source, *self.made.options()[:2], "--against", sums, *self.OPTION)
        self.assertIn("symbolic link", result.stdout + result.stderr)
        self.assertNotIn(hashlib.sha256(b"secret").hexdigest(), result.stdout + result.stderr)

    def test_configuration(self) -> None:
        self.link(self.source / "rank_1", self.source / "rank_0")
        config = self.directory / "c.toml"
        config.write_text("no-symlinks = true\n")
        self.check_refused("is a symbolic link", options=("--config", str(config)))

    def test_the_source_itself_may_be_one(self) -> None:
        (self.directory / "link").symlink_to(self.source)
        self.source = self.directory / "link"
        self.check_bytes(*self.OPTION)

    def test_directories_of_hubs(self) -> None:
        """Caches of hubs are full of links; they are named by an index file."""
        from format_files import Tensors, random_array, write_safetensors  # noqa: PLC0415

        model: Tensors = {"w": ("F32", random_array(np.random.default_rng(1), "<f4", (3, 2)))}
        hub = self.directory / "hub"
        write_safetensors(self.outside / "blob", model)
        hub.mkdir()
        (hub / "model.safetensors").symlink_to(self.outside / "blob")
        for index in (None, '{"weight_map": {"w": "model.safetensors"}}'):
            if index:
                (hub / "model.safetensors.index.json").write_text(index)
            result = run("inspect", hub, "-v")
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("symbolic links lead out of the source: model.safetensors to ", result.stderr)
            result = run("inspect", hub, "--no-symlinks")
            self.assertEqual(result.code, 2)
            self.assertIn("model.safetensors: is a symbolic link", one_line(result))


@contextlib.contextmanager
def exchanged(place: Path, target: Path) -> Iterator[None]:
    """What stands at `place` is a link to `target` for half of the time."""
    other = place.parent.parent / "other"
    other.symlink_to(target)
    stop = threading.Event()
    exchange = 2  # RENAME_EXCHANGE
    system = ctypes.CDLL(None, use_errno=True)

    def run_loop() -> None:
        names = os.fsencode(place), os.fsencode(other)
        while not stop.is_set():
            if system.renameat2(-100, names[0], -100, names[1], exchange) != 0:
                return

    thread = threading.Thread(target=run_loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if place.is_symlink():
            system.renameat2(-100, os.fsencode(place), -100, os.fsencode(other), exchange)
        other.unlink()


WATCHED = "openat,openat2,open,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir," \
          "chmod,fchmod,fchmodat,chown,fchown,fchownat,truncate,ftruncate,utimensat,link,linkat," \
          "symlink,symlinkat,mknod,mknodat,setxattr,fsetxattr"


def tracing(directory: Path) -> list[str | Path]:
    """With a file for each thread: in one file calls of several stand in one another's middle."""
    return ["strace", "-ff", "-qq", "-s", "4096", "-e", f"trace={WATCHED}", "-o", directory / "trace",
            Settings.binary]


def calls_in(directory: Path) -> list[str]:
    return [line for log in directory.glob("trace.*") for line in log.read_text().splitlines()]


def traced(*words: str | Path) -> list[str]:
    """The calls of a command that open or change files; none where strace cannot trace."""
    with scratch() as directory:
        subprocess.run([*tracing(directory), *words], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=COMMAND_SECONDS,
                       check=False)
        return calls_in(directory)


class NeverWritten(Source):
    def test_source_is_opened_to_be_read(self) -> None:
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        mountpoint = self.directory / "mnt"
        mountpoint.mkdir()
        before = self.state()
        with mountpoint_guard(mountpoint):
            with subprocess.Popen(
                [*tracing(self.directory), "mount", "-f", self.source, mountpoint, *self.made.options(), "--params", "--format",
                 "ckpt,safetensors"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                # A sanitizer cannot look for leaks in a program that is traced.
                env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
            ) as tracer:
                wait_until(lambda: is_mounted(mountpoint) or tracer.poll() is not None)
                if not is_mounted(mountpoint):
                    self.skipTest("strace cannot trace here")
                try:
                    hidden = mountpoint / ".reshardfs"
                    for path in [*mountpoint.rglob("*"), *map(hidden.joinpath, os.listdir(hidden))]:
                        if path.is_file():
                            path.read_bytes()
                finally:
                    unmounted = run("umount", mountpoint).code
                self.assertEqual((unmounted, tracer.wait(60)), (0, 0))
            assert_gone(mountpoint)
        self.check_calls(calls_in(self.directory))
        self.assertEqual(self.state(), before)

    def check_calls(self, calls: list[str]) -> None:
        ours = [call for call in calls if f'"{self.source}' in call]
        files = [call for call in ours if ".ckpt" in call]
        self.assertGreaterEqual(len(files), 2, calls[-20:])
        for call in ours:
            found = re.search(r"(\w+)\((.*)\) = (-?\d+)", call)
            assert found, call
            self.assertIn(found[1], ("open", "openat", "openat2"), call)
            flags = set(re.search(r"O_[A-Z_|O]+", found[2])[0].split("|"))  # type: ignore[index]
            self.assertLessEqual({"O_RDONLY", "O_CLOEXEC"}, flags, call)
            self.assertFalse({"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"} & flags, call)

    def state(self) -> list[tuple[object, ...]]:
        found = []
        for path in [self.source, *sorted(self.source.rglob("*"))]:
            info = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            found.append((str(path), info.st_mode, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, data))
        return found

    def test_a_source_that_cannot_be_written(self) -> None:
        """Modes without write bits, and a file system that is mounted to be read."""
        for path in [self.source, *self.source.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.check_bytes()
        for path in [self.source, *self.source.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


if __name__ == "__main__":
    run_unittests()
