# SPDX-License-Identifier: Apache-2.0
"""Commands as the README, the guides and the manual show them: takes them from the text, runs them one
after the other in a directory, and compares what they print with what is shown."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from documents import ROOT  # noqa: E402, F401
from mounted import (Settings, code_of_status, is_mounted, mountpoint_guard, run,  # noqa: E402, F401
                     run_unittests)

COMMAND_SECONDS = 120.0
# What the directory of a session is called in the texts.
SHOWN_DIRECTORY = "/data"


@dataclass(frozen=True)
class Shown:
    """A command on one line, and the lines below it; None: the text does not show what it prints."""

    command: str
    output: str | None = None

    @property
    def code(self) -> int:
        """An error is shown as one line of the program's own."""
        refused = self.output is not None and "reshardfs: " in self.output.split(" ")[0] + " "
        return 2 if refused else 0


def joined(lines: list[str]) -> Iterator[str]:
    """Lines that end with a backslash go on in the next one."""
    begun = ""
    for line in lines:
        begun += line.strip() if begun else line
        if begun.endswith("\\"):
            begun = begun[:-1].rstrip() + " "
        else:
            yield begun
            begun = ""


def in_script(block: str) -> list[Shown]:
    """The commands of a block of a shell's lines and comments."""
    lines = [re.sub(r"  +# .*", "", line) for line in block.splitlines()
             if line and not line.startswith("#")]
    return [Shown(line) for line in joined(lines)]


def in_console(block: str) -> list[Shown]:
    """Commands after '$ ', each with what it prints."""
    shown = []
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        lines = part.splitlines()
        end = next(i for i, line in enumerate(lines) if not line.endswith("\\"))
        (command,) = joined(lines[:end + 1])
        shown.append(Shown(command, "\n".join(lines[end + 1:])))
    return shown


def literal(page: str) -> list[str]:
    """What a page of the manual shows literally, without the marks of mdoc."""
    found = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed$", page, re.M | re.S)
    return [block.replace("\\&", "").replace("\\e", "\\").replace("\\(dq", '"') for block in found]


def matches(printed: str, shown: str, *, folded: bool) -> bool:
    """'...' stands for any lines, or for any words if folded: then lines end where the page is full. The
    time, owner and group of a file are whatever they are."""
    printed, shown = (re.sub(r"(-r[-\w]+ 1) \S+ \S+ +(\d+) \w+ +\d+ +[\d:]+ ", r"\1 USER GROUP \2 TIME ", text)
                      for text in (printed, shown))
    if folded:
        parts = (r"(?:\S+ )*" if word == "..." else re.escape(word + " ") for word in shown.split())
        return re.fullmatch("".join(parts), "".join(word + " " for word in printed.split())) is not None
    parts = ("(?:.*\n)*" if line == "..." else re.escape(line.rstrip() + "\n") for line in shown.splitlines())
    lines = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch("".join(parts), lines) is not None


def names_only(command: str) -> bool:
    """Whether it lists names, which a terminal shows in columns."""
    return re.fullmatch(r"ls( [^-]\S*)*", command) is not None


class Session:
    """A shell in a directory, which is shown as /data; /mnt is its directory mnt."""

    def __init__(self, test: unittest.TestCase, directory: Path) -> None:
        self.test = test
        self.top = self.directory = directory
        self.mountpoints: list[Path] = []
        self.stack = contextlib.ExitStack()
        test.addCleanup(self.close)

    def close(self) -> None:
        self.unmount_all()
        self.stack.close()

    def unmount_all(self) -> None:
        for mountpoint in self.mountpoints:
            if is_mounted(mountpoint):
                self.test.assertEqual(run("umount", mountpoint).code, 0)

    def placed(self, text: str) -> str:
        """With the names that paths have here, and as many layers as the sample of a model has."""
        text = text.replace("--stage-layers 20,16", "--stage-layers 1,1")
        return text.replace("/mnt/", f"{SHOWN_DIRECTORY}/mnt/").replace(SHOWN_DIRECTORY, str(self.top))

    def shown(self, printed: str) -> str:
        """With the names that paths have in the texts."""
        return printed.replace(f"{self.top}/mnt/", "/mnt/").replace(str(self.top), SHOWN_DIRECTORY)

    def prepare_mount(self, mountpoint: Path) -> None:
        """A mount point is unmounted in the end; one below /mnt is there, and is used again."""
        if mountpoint.is_relative_to(self.top / "mnt"):
            mountpoint.mkdir(parents=True, exist_ok=True)
            if is_mounted(mountpoint):
                self.test.assertEqual(run("umount", mountpoint).code, 0)
        if mountpoint not in self.mountpoints:
            self.mountpoints.append(mountpoint)
            self.stack.enter_context(mountpoint_guard(mountpoint))

    def print_of(self, command: str, code: int = 0) -> str:
        """What it prints; it must end with the code, and complain of nothing if that is 0."""
        placed = self.placed(command)
        if found := re.match(r"reshardfs (?:mount|run) [^-\s]\S* ([^-\s]\S*)", placed):
            self.prepare_mount(self.directory / found.group(1))
        if found := re.match(r"reshardfs demo (\w+)$", placed):
            # Another page has made it.
            shutil.rmtree(self.directory / found.group(1), ignore_errors=True)
        if found := re.match(r"reshardfs mount --config \S+ (\w+)", placed):
            self.prepare_mount(self.top / "mnt" / found.group(1))
        where = self.top / ".where"
        placed += f'\ncode=$?; pwd >"{where}"; exit $code'
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": str(self.top),
                       "PATH": f"{Settings.binary.parent}:{os.environ['PATH']}"}
        ended, printed, complaints = self.outcome(placed, environment)
        self.directory = Path(where.read_text().strip())
        where.unlink()
        if command == "reshardfs status":
            code = code_of_status(printed)
        self.test.assertEqual(ended, code, f"{command}\n{printed}{complaints}")
        return self.shown(printed + (complaints if code else ""))

    def outcome(self, placed: str, environment: dict[str, str]) -> tuple[int, str, str]:
        """The exit code, and what went to both outputs."""
        # Not to pipes: a daemon that kept one open would block.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            done = subprocess.run(["bash", "-c", placed], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=err, cwd=self.directory, env=environment, check=False,
                                  timeout=COMMAND_SECONDS)
            out.seek(0)
            err.seek(0)
            return done.returncode, out.read(), err.read()

    def run(self, shown: Shown, *, folded: bool = False, code: int | None = None) -> str:
        """Runs a command as it is shown, and compares what it prints."""
        printed = self.print_of(shown.command, shown.code if code is None else code)
        if shown.output is not None:
            same = matches(printed, shown.output, folded=folded or names_only(shown.command))
            self.test.assertTrue(same, f"{shown.command}\nshown:\n{shown.output}\nprinted:\n{printed}")
        return printed

    def check_with_mount(self, source: str, mountpoint: str, options: str) -> None:
        """What mount(8) does with a line of /etc/fstab, but -f: checks all, and mounts nothing."""
        Path(self.placed(mountpoint)).mkdir(parents=True, exist_ok=True)
        helper = self.top / "mount.reshardfs"
        helper.symlink_to(Settings.binary)
        self.print_of(f"/data/mount.reshardfs {source} {mountpoint} -f -o {options}")
        helper.unlink()

    def assert_parsed(self, command: str) -> None:
        """The program has this command, and each option of it."""
        if command == "reshardfs help COMMAND":
            self.test.assertEqual(run("help", "mount").stdout, run("mount", "-h").stdout)
            return
        words = [word for word in command.split() if re.fullmatch(r"[a-z]+", word)]
        for count in (2, 1):
            text = run(*words[1:1 + count], "--help")
            if text.code == 0:
                break
        self.test.assertEqual(text.code, 0, command)
        for option in re.findall(r" (--[a-z0-9-]+)", command):
            self.test.assertIn(option, text.stdout, command)
