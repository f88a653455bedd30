# SPDX-License-Identifier: Apache-2.0
"""What the tests of export share: sets to export, and what has come of it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from make_large import make_large  # noqa: E402
from mounted import COMMAND_SECONDS, Result, Settings, one_line, run, scratch  # noqa: E402

MANIFEST = ".reshardfs-export.jsonl"
DONE = 0
BAD_INPUT = 2
IO_ERROR = 3


def start(*words: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(Settings.binary), *map(str, words)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def files_below(directory: Path) -> dict[str, Path]:
    """Every file, hidden ones too, by its path below the directory."""
    return {str(path.relative_to(directory)): path
            for path in sorted(directory.rglob("*")) if path.is_file()}


def partial_files(directory: Path) -> list[str]:
    """With their journals."""
    return [name for name in files_below(directory) if ".reshardfs-partial" in name or ".reshardfs-blocks" in name]


def data_files(directory: Path) -> dict[str, Path]:
    return {name: path for name, path in files_below(directory).items()
            if name not in (MANIFEST, "SHA256SUMS")}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class SmallSet(unittest.TestCase):
    """Four ranks, tensor parallel, to two."""

    made: GeneratedSet
    root: Path
    out: Path

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.made = make_set(self.root, Parallel(tp=4), Parallel(tp=2), layers=1, seed=5)
        self.out = self.root / "out"

    def export(self, *options: str | Path, code: int = DONE) -> Result:
        result = run("export", self.made.source, self.out, *self.made.options(), *options)
        self.assertEqual(result.code, code, result.stderr)
        return result

    def refused(self, *words: str, options: tuple[str | Path, ...] = (),
                code: int = BAD_INPUT) -> None:
        line = one_line(self.export(*options, code=code))
        for word in words:
            self.assertIn(word, line)

    def check_sums(self, count: int) -> None:
        done = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=self.out,
                              capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count(": OK\n"), count)


class LargeSet(unittest.TestCase):
    """36 MiB in 64 KiB blocks, so that there are many places to stop at."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = cls.enterClassContext(scratch())
        make_large(cls.root, 1, 4, 1, 18, 1, 2, rows=256, columns=1024)
        cls.words = ["--src-strategy", cls.root / "src.ckpt", "--dst-strategy", cls.root / "dst.ckpt",
                     "--memory", "256K", "-j", "4", "--views", "ranks,strategy", "--checksum"]
        cls.reference = cls.root / "reference"
        begun = time.monotonic()
        result = run("export", cls.root / "src", cls.reference, *cls.words)
        cls.seconds = time.monotonic() - begun
        assert result.code == DONE, result.stderr
        cls.expected = {name: sha256(path) for name, path in data_files(cls.reference).items()}
        sums = (cls.reference / "SHA256SUMS").read_text().splitlines()
        assert sorted(line.split("  ")[1] for line in sums) == sorted(cls.expected)
        cls.sums = sums

    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())
        self.out = self.directory / "out"

    def arguments(self, out: Path | None = None) -> list[str | Path]:
        return ["export", self.root / "src", out or self.out, *self.words]

    def check_names(self) -> None:
        """What has its name is complete."""
        for name, path in data_files(self.out).items():
            if not name.endswith(("-partial", "-blocks")):
                self.assertEqual(sha256(path), self.expected[name], name)

    def resume(self) -> None:
        result = run(*self.arguments())
        self.assertEqual(result.code, DONE, result.stderr)
        self.check_names()
        self.assertEqual(data_files(self.out).keys(), self.expected.keys())
        self.assertEqual((self.out / "SHA256SUMS").read_text().splitlines(), self.sums)
