# SPDX-License-Identifier: Apache-2.0
"""A mount whose program can be replaced by another one: for tests of mounts that pass from one process
to another."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from faulty_source import FaultFs, forget_pages  # noqa: E402
from mounted import (  # noqa: E402
    Settings,
    assert_gone,
    mountpoint_guard,
    parse_settings,
    run,
    scratch,
    wait_until,
)

DATA = encode_checkpoint([Record("w", "UInt8", (1 << 20,), bytes(range(256)) * 4096)])
OTHER = encode_checkpoint([Record("w", "UInt8", (1 << 20,), bytes(range(255, -1, -1)) * 4096)])
FILE = "rank_0/checkpoint_0.ckpt"
STATUS = ".reshardfs/status.json"
# Which version of the hand-over the program has.
OWN = "2 2"


class StandIn:
    """What the command line of a test program chooses."""

    program = Path()


# A program that takes part in the hand-over up to a step, and then does something else.
SCRIPT = """#!/usr/bin/python3
import array, json, os, signal, socket, sys, time
LIMIT, DEED, OLD = {limit!r}, {deed!r}, {old!r}
HELLO, OFFER, READY, MOUNT, LIVE, FAILED = range(6)
talk = socket.socket(fileno=int(sys.argv[sys.argv.index("--take-over") + 1]))
def say(step, **more):
    talk.send(json.dumps(dict(step=step, oldest=2, newest=2, crash=False, text="a script") | more).encode())
def hear():
    data, rights, _, _ = talk.recvmsg(65536, socket.CMSG_SPACE(64))
    for _, _, found in rights:
        descriptors.extend(array.array("i", found[:len(found) - len(found) % 4]))
    return json.loads(data)
descriptors = []
def act(step):
    if step != LIMIT:
        return
    if "old" in DEED and os.getppid() == OLD:
        os.kill(OLD, signal.SIGKILL)
    if "refuse" in DEED:
        say(FAILED, text="for a reason of its own")
    if "nonsense" in DEED:
        talk.send(b"nonsense")
    if "take" in DEED:  # a request, as a process that serves does
        import select
        select.select([descriptors[0]], [], [], 20)
        os.read(descriptors[0], 2 << 20)
    if "end" in DEED:
        os.kill(os.getpid(), signal.SIGKILL)
    if "stay" in DEED:
        open(sys.argv[0] + ".stays", "w").close()
        time.sleep(3600)
    sys.exit(7)
act("start")
say(HELLO)
act("hello")
hear()
act("offer")
say(READY)
act("ready")
descriptors.clear()  # those of the offer
hear()
act("mount")
say(LIVE)
act("live")
"""


class Place:
    """A source, a mount point, and a program that can be replaced by another one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.source = directory / "m.ckpt"
        self.mountpoint = directory / "mnt"
        self.log_file = directory / "log"
        self.program = directory / "bin/reshardfs"
        self.source.write_bytes(DATA)
        self.mountpoint.mkdir()
        self.gate = -1
        self.program.parent.mkdir()
        self.install(Settings.binary)

    def install(self, program: Path) -> None:
        """As a package does: by a rename."""
        new = self.program.with_suffix(".new")
        new.symlink_to(program)
        new.rename(self.program)

    def install_stand_in(self, versions: str, resends: bool = True) -> None:
        (self.program.parent / "stand-in").write_text(f"{versions} {int(resends)}")
        self.install(StandIn.program)

    def install_script(self, limit: str, deed: str, old: int = 0) -> None:
        new = self.program.with_suffix(".new")
        new.write_text(SCRIPT.format(limit=limit, deed=deed, old=old))
        new.chmod(0o755)
        new.rename(self.program)

    def install_held(self) -> None:
        """The program, which does nothing until release()."""
        fifo, new = self.program.with_suffix(".held"), self.program.with_suffix(".new")
        if not fifo.exists():
            os.mkfifo(fifo)
        new.write_text(f'#!/bin/sh\nread word <{fifo}\nexec {Settings.binary} "$@"\n')
        new.chmod(0o755)
        new.rename(self.program)

    def held(self) -> int:
        """The process that waits for release(); from then on another program may be installed."""
        def has_come() -> bool:
            with contextlib.suppress(OSError):  # ENXIO: not so far
                self.gate = os.open(self.program.with_suffix(".held"), os.O_WRONLY | os.O_NONBLOCK)
            return self.gate >= 0

        assert wait_until(has_come), "no process has come so far"
        (process,) = self.successors()
        return process

    def release(self) -> None:
        """What is held goes on, if it is there still."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.gate, b"go\n")
        os.close(self.gate)
        self.gate = -1

    def successors(self) -> list[int]:
        """The processes of scripts that were started to take the mount over."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                ours = os.fsencode(self.program) in words and b"--take-over" in words
                if ours and os.readlink(entry / "exe") != str(Settings.binary):
                    found.append(int(entry.name))
        return found

    def staying_script(self) -> int:
        """The process of install_script(STEP, "stay"), when it has come to that step."""
        sign = self.program.with_name(self.program.name + ".stays")
        assert wait_until(sign.exists), "no script has come so far"
        sign.unlink()
        (script,) = self.successors()
        return script

    def words(self, *options: str | Path) -> list[str]:
        return [str(self.program), "mount", str(self.source), str(self.mountpoint), "--log-file",
                str(self.log_file), *map(str, options)]

    def run(self, *words: str | Path):
        before, Settings.binary = Settings.binary, self.program
        try:
            return run(*words)
        finally:
            Settings.binary = before

    def status(self) -> dict:
        return json.loads((self.mountpoint / STATUS).read_text())

    def pid(self) -> int:
        return self.status()["pid"]

    def mount(self) -> dict:
        return self.status()["mount"]

    def reload(self, code: int = 0) -> str:
        """With the program under test, whatever is installed. @return what it says."""
        result = run("reload", self.mountpoint)
        assert result.code == code, f"exit code {result.code}: {result.stderr}"
        return result.stdout + result.stderr

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def read(self) -> bytes:
        path = self.mountpoint / FILE
        forget_pages(path)
        return path.read_bytes()


@contextlib.contextmanager
def place() -> Iterator[Place]:
    with scratch() as directory:
        with mountpoint_guard(directory / "mnt"):
            yield Place(directory)


@contextlib.contextmanager
def unmounted_at_end(made: Place) -> Iterator[None]:
    """By whoever serves it then."""
    yield
    result = run("umount", made.mountpoint)
    assert result.code == 0, result.stderr
    assert_gone(made.mountpoint)


@contextlib.contextmanager
def mounted(*options: str | Path, program: str | None = None, resends: bool = True) -> Iterator[Place]:
    with place() as made:
        if program:
            made.install_stand_in(program, resends)
        result = made.run(*made.words(*options)[1:])
        assert result.code == 0, result.stderr
        with unmounted_at_end(made):
            yield made


def in_flight(made: Place) -> int:
    """Reads that the process has taken and not answered."""
    text = (made.mountpoint / ".reshardfs/metrics").read_text()
    return int(re.search(r"^reshardfs_reads_in_flight\{[^}]*\} (\d+)$", text, re.MULTILINE)[1])


def run_handover_tests() -> None:
    """As run_unittests(), where --stand-in and --fault-fs name the programs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stand-in", type=Path, required=True)
    parser.add_argument("--fault-fs", type=Path, required=True)
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_settings(parser)
    os.environ["LSAN_OPTIONS"] = f"suppressions={Path(__file__).with_name('lsan.supp')}:print_suppressions=0"
    StandIn.program = args.stand_in.resolve()
    FaultFs.program = args.fault_fs.resolve()
    unittest.main(argv=[sys.argv[0], "-v", *args.tests])
