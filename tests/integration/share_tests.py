# SPDX-License-Identifier: Apache-2.0
"""What the tests of shared exports have in common: a set for 64 ranks, and tasks that are killed once."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import sys
import unittest
from pathlib import Path

# First, because it finds the modules of tests/data.
from export_tests import DONE, MANIFEST, files_below, partial_files, sha256

from make_large import make_large
from mounted import Settings, run, scratch, wait_until

RANKS = 64
TASKS = 4
SECONDS = 120.0


def results(directory: Path) -> dict[str, str]:
    """The sums of all files that are of use to somebody."""
    return {name: sha256(path) for name, path in files_below(directory).items()
            if not name.startswith(MANIFEST.removesuffix(".jsonl"))}


def killed_once(marker: Path, words: list[str]) -> int:
    """Runs a program; the first time it is killed as soon as it has begun to write a file.

    @return what a shell would: 137 if it was killed. The marker is given this, too.
    """
    if marker.exists():
        return subprocess.run(words, check=False).returncode
    marker.touch()
    libc = ctypes.CDLL(None)
    # mpirun kills this process when another rank has failed.
    process = subprocess.Popen(words, preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))
    descriptors = Path("/proc", str(process.pid), "fd")

    def writes() -> bool:
        try:
            return any(link.readlink().name.endswith("reshardfs-partial")
                       for link in descriptors.iterdir())
        except OSError:  # a descriptor that was closed meanwhile
            return False

    wait_until(lambda: process.poll() is not None or writes(), SECONDS)
    process.kill()
    code = process.wait()
    code = 128 - code if code < 0 else code
    marker.write_text(str(code))
    return code


class SharedExport(unittest.TestCase):
    """64 ranks that one process has exported, to compare with what tasks export together."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = cls.enterClassContext(scratch())
        make_large(cls.root, 1, 4, 1, 24, 4, 16, rows=512, columns=1024)
        cls.words = ["export", cls.root / "src", "--src-strategy", cls.root / "src.ckpt",
                     "--dst-strategy", cls.root / "dst.ckpt"]
        whole = cls.root / "whole"
        result = run(*cls.words[:2], whole, *cls.words[2:], "--checksum")
        assert result.code == DONE, result.stderr
        cls.expected = results(whole)
        assert len(cls.expected) == RANKS + 1

    def setUp(self) -> None:
        # Every user's tasks must get there.
        self.directory = self.enterContext(scratch())
        self.directory.chmod(0o755)
        self.out = self.directory / "out"

    def export(self) -> list[str]:
        """The command line of a task."""
        # In small blocks, so that there is time to kill it.
        words = [Settings.binary, *self.words[:2], self.out, *self.words[2:], "--share", "auto",
                 "-j1", "--memory", "64K"]
        return [str(word) for word in words]

    def task_script(self, number: str) -> Path:
        """A script that is killed once in each task; `number` is a shell's word for which it is."""
        program = self.directory / "task.py"
        program.write_text(
            f"import sys\nsys.path[:0] = {sys.path!r}\nfrom pathlib import Path\n"
            "from share_tests import killed_once\n"
            f"sys.exit(killed_once(Path({str(self.directory)!r}) / f'killed-{{sys.argv[1]}}', "
            f"{self.export()!r}))\n")
        script = self.directory / "task.sh"
        script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -B {program} {number}\n")
        script.chmod(0o755)
        return script

    def check_killed(self) -> None:
        """Each has been started and killed; nothing is wrong so far."""
        codes = [path.read_text() for path in self.directory.glob("killed-*")]
        self.assertEqual(len(codes), TASKS)
        self.assertIn("137", codes, "none was killed while it was writing")
        for name, path in files_below(self.out).items():
            if name in self.expected:
                self.assertEqual(sha256(path), self.expected[name], name)

    def check_complete(self) -> None:
        self.assertEqual(results(self.out), self.expected)
        self.assertEqual(partial_files(self.out), [])


def environment(**variables: str) -> dict[str, str]:
    """Without what Slurm or MPI have told whoever runs the tests."""
    mine = {name: value for name, value in os.environ.items()
            if not name.startswith(("SLURM", "OMPI", "PMI", "MPI"))}
    return mine | variables
