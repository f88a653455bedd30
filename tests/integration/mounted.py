# SPDX-License-Identifier: Apache-2.0
"""Runs reshardfs and mounts with it, and never leaves a mount or a process behind.

Every mount point is a fresh temporary directory, so a process is ours exactly if that path stands
in its command line: nothing else is ever signalled.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import errno
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SKIP = 77
COMMAND_SECONDS = 60.0
# `reshardfs status` has a patience of 2 s; machines may be busy.
SOON = 20.0
NOBODY = 65534
# Of no account: neither capabilities nor a way to get any back.
UNPRIVILEGED = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]


class Settings:
    """What the command line of a test program chooses."""

    binary: Path = Path(os.environ.get("RESHARDFS_BINARY", "reshardfs"))
    # A mount that lives longer is aborted, so that no reader can wait for ever.
    mount_seconds: float = 180.0
    # A directory whose files the program is to read from a server: in its command lines, a Path in
    # it becomes a URL below this one.
    served: tuple[Path, str] | None = None
    # What is set in the program's environment beside what is in the test's.
    environment: dict[str, str] = {}


def located(word: str | Path) -> str:
    """An argument of the program."""
    if isinstance(word, Path) and Settings.served:
        root, url = Settings.served
        if word.is_relative_to(root):
            return f"{url}/{word.relative_to(root)}"
    return str(word)


class MountFailed(AssertionError):
    def __init__(self, result: Result) -> None:
        super().__init__(f"exit code {result.code}: {result.stderr.strip()}")
        self.result = result


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str


def run(*arguments: str | Path, seconds: float = COMMAND_SECONDS) -> Result:
    """Runs the program. Its output goes to files: a daemon that kept a pipe open would block."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        done = subprocess.run(
            [str(Settings.binary), *map(located, arguments)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=seconds, check=False,
            env={**os.environ, **Settings.environment},
        )
        out.seek(0)
        err.seek(0)
        return Result(done.returncode, out.read().decode(errors="replace"),
                      err.read().decode(errors="replace"))


def in_shell(command: str, directory: Path) -> Result:
    """In a shell of that directory, as a user would paste it: `reshardfs` is the program."""
    environment = {**os.environ, "PATH": f"{Settings.binary.parent}:{os.environ['PATH']}"}
    # To files, as in run().
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                              cwd=directory, env=environment, check=False, timeout=COMMAND_SECONDS)
        out.seek(0)
        err.seek(0)
        return Result(done.returncode, out.read().decode(errors="replace"),
                      err.read().decode(errors="replace"))


@contextlib.contextmanager
def started_by(directory: Path, lines: str, prefix: str = "") -> Iterator[None]:
    """The program is started by a shell, after other lines, as the argument of another program."""
    before = Settings.binary
    script = directory / "started"
    script.write_text(f'#!/bin/sh\n{lines}\nexec {prefix} {shlex.quote(str(before))} "$@"\n')
    script.chmod(0o755)
    Settings.binary = script
    try:
        yield
    finally:
        Settings.binary = before


def open_file_limit(directory: Path, limit: int) -> contextlib.AbstractContextManager[None]:
    """The program may have `limit` files open and cannot raise that."""
    return started_by(directory, f"ulimit -n {limit}")


def command(*words: str | Path) -> str:
    """The output of another program, which must succeed and complain of nothing."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=COMMAND_SECONDS, check=False)
    if done.returncode or done.stderr:
        raise AssertionError(f"{words[0]}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


# --- what is mounted and what runs -----------------------------------------------------------


def unescaped(text: str) -> str:
    return os.fsdecode(os.fsencode(text).decode("unicode_escape").encode("latin-1"))


def mount_entry(mountpoint: Path) -> list[str] | None:
    """The fields of /proc/self/mountinfo of the topmost mount there; never touches the mount."""
    found = None
    # Other tests mount at names that are not UTF-8.
    for line in os.fsdecode(Path("/proc/self/mountinfo").read_bytes()).split("\n"):
        fields = line.split(" ")
        if len(fields) < 5:
            continue
        if unescaped(fields[4]) == str(mountpoint):
            found = fields
    return found


def code_of_status(printed: str) -> int:
    """The exit code of `reshardfs status` that printed this: it tells of all mounts of the machine, and another
    test may have a dead, a stalled or a changed one at this moment."""
    return int(bool(re.search(r"  (dead|stalled|source changed): ", printed)))


def is_mounted(mountpoint: Path) -> bool:
    return mount_entry(mountpoint) is not None


def processes_of(mountpoint: Path) -> list[int]:
    """The reshardfs processes with the mount point in their command line, zombies excluded."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (directory / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"reshardfs") and os.fsencode(mountpoint) in words:
                found.append(int(directory.name))
    return found


def is_sanitized(program: Path) -> bool:
    """Whether it was built with a sanitizer: its memory says nothing then."""
    code = program.read_bytes()
    return b"__asan_init" in code or b"__tsan_init" in code


@functools.cache
def longest_mount(program: Path) -> float:
    """Seconds that no test's mount lives."""
    return Settings.mount_seconds * (10 if is_sanitized(program) else 1)


def program_of(pid: int) -> Path:
    return Path(f"/proc/{pid}/exe")


def wait_until(condition: Callable[[], bool], seconds: float = COMMAND_SECONDS) -> bool:
    """Without seconds, for an event that comes: however busy the machine is."""
    end = time.monotonic() + seconds
    pause = 0.005
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    return True


def status_of(*words: str | Path) -> Result:
    """What `status` says of a mount that answers in the end: a busy machine may exceed its patience at first."""
    results: list[Result] = []

    def answers() -> bool:
        results.append(run("status", *words))
        return not re.search(r'stalled: it does not answer|"state": "stalled"', results[-1].stdout)

    wait_until(answers)
    return results[-1]


def assert_gone(mountpoint: Path, seconds: float = COMMAND_SECONDS) -> None:
    """Neither mounted nor served any more, within the time."""
    assert wait_until(lambda: not is_mounted(mountpoint), seconds), f"{mountpoint} is still mounted"
    gone = wait_until(lambda: not processes_of(mountpoint), seconds)
    assert gone, f"processes {processes_of(mountpoint)} still serve {mountpoint}"


def abort_connection(mountpoint: Path) -> None:
    """Frees every waiting reader: the kernel answers for the daemon."""
    entry = mount_entry(mountpoint)
    if entry is not None:
        number = entry[2].split(":")[1]
        with contextlib.suppress(OSError):
            Path(f"/sys/fs/fuse/connections/{number}/abort").write_text("1")


def clean_up(mountpoint: Path) -> None:
    """The last resort, for when an ordinary unmount has failed."""
    abort_connection(mountpoint)
    for pid in processes_of(mountpoint):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while is_mounted(mountpoint):
        done = subprocess.run(["umount", "-l", mountpoint], timeout=COMMAND_SECONDS, check=False)
        if done.returncode:
            break
    wait_until(lambda: not processes_of(mountpoint), 5)


# --- mounting --------------------------------------------------------------------------------


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A temporary directory that goes away with everything in it, unless something is mounted."""
    directory = Path(tempfile.mkdtemp(prefix="reshardfs-test-")).resolve()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def unless_done(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Runs the action, on a thread of its own, if the block takes longer."""
    watchdog = threading.Timer(seconds, action)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


@contextlib.contextmanager
def mountpoint_guard(mountpoint: Path) -> Iterator[None]:
    """Bounds the life of whatever is mounted there, and takes it away at the end in any case."""
    try:
        with unless_done(longest_mount(Settings.binary), lambda: clean_up(mountpoint)):
            yield
    finally:
        if is_mounted(mountpoint) or processes_of(mountpoint):
            clean_up(mountpoint)


@contextlib.contextmanager
def mounted(source: Path, *options: str | Path) -> Iterator[Path]:
    """Mounts a source in a directory of its own, and checks that unmounting leaves nothing."""
    with scratch() as directory:
        mountpoint = directory / "mnt"
        mountpoint.mkdir()
        with mountpoint_guard(mountpoint):
            result = run("mount", source, mountpoint, *options)
            if result.code:
                raise MountFailed(result)
            assert is_mounted(mountpoint), "the command returned before the mount was there"
            yield mountpoint
            result = run("umount", mountpoint)
            assert result.code == 0, f"umount: exit code {result.code}: {result.stderr}"
            assert_gone(mountpoint)


def rank_files(mountpoint: Path) -> dict[int, Path]:
    """The one data file of each rank directory; ranks must be contiguous from 0."""
    out = {}
    for directory in mountpoint.glob("rank_*"):
        names = os.listdir(directory)
        assert len(names) == 1, f"{directory.name} holds {names}, not exactly one file"
        out[int(directory.name.removeprefix("rank_"))] = directory / names[0]
    assert sorted(out) == list(range(len(out))), f"the rank directories are {sorted(out)}"
    return out


# --- test programs ---------------------------------------------------------------------------


def fuse_problem() -> str | None:
    """Why nothing can be mounted here, or nothing."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error.strerror}"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "not root, and there is no fusermount3"
    return None


def user_mount_problem() -> str | None:
    """Why a test cannot mount as another user, or nothing."""
    helper = shutil.which("fusermount3")
    if os.geteuid() != 0 or helper is None or shutil.which("setpriv") is None:
        return "needs root to become another user, fusermount3 and setpriv"
    if os.stat("/dev/fuse").st_mode & 0o006 != 0o006 or not os.stat(helper).st_mode & stat.S_ISUID:
        return "/dev/fuse is not open to users here, or fusermount3 is not setuid"
    return None


def parse_binary(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Adds --binary, reads the command line, and keeps which program to test."""
    parser.add_argument("--binary", type=Path, default=Settings.binary, help="the program to test")
    args = parser.parse_args()
    found = shutil.which(args.binary)
    if found is None:
        parser.error(f"no program at {args.binary}")
    Settings.binary = Path(found).resolve()
    return args


def parse_settings(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The same, and ends with code 77 where nothing can be mounted."""
    args = parse_binary(parser)
    problem = fuse_problem()
    if problem:
        print(f"skipped: {problem}")
        sys.exit(SKIP)
    return args


def run_unittests() -> None:
    """The main program of the unittest-style tests: every further word names a test to run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_settings(parser)
    unittest.main(argv=[sys.argv[0], "-v", *args.tests])


def errno_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))


def one_line(result: Result) -> str:
    """The only line on standard error."""
    lines: Sequence[str] = result.stderr.splitlines()
    assert len(lines) == 1, f"{len(lines)} lines on standard error, not one: {result.stderr!r}"
    return lines[0]
