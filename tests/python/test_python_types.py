# SPDX-License-Identifier: Apache-2.0
"""The types: mypy has nothing against the package, against a program that uses it well, and something
against each line of one that does not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path

from mounted import scratch
from python_sets import ROOT, class_context, run_unittests_without_mounts

PACKAGE = ROOT / "python"
SECONDS = 300.0
GOOD = """
import io
from typing import Any
import reshardfs

with reshardfs.open("ckpt", src_strategy="train.ckpt", dst_strategy="tp=4", ranks=[0, 1],
                    include=["*.weight"], check_crc=True) as ckpt:
    state: reshardfs.State = ckpt.rank(3)
    names: list[str] = list(state)
    weight: reshardfs.Tensor = state["w"]
    shape: tuple[int, ...] = weight.shape
    count: int = weight.read_into(bytearray(weight.nbytes))
    array = weight[10:20, :]
    file: io.BufferedReader = ckpt.file("x")
with reshardfs.mount("ckpt", dst_strategy="tp=2") as path:
    text: str = path
plan: dict[str, Any] = reshardfs.plan("ckpt", rank=3)
reshardfs.export("ckpt", "out", progress=lambda values: print(values["bytes"]), jobs=2, checksum=True)
try:
    reshardfs.verify("ckpt")
except reshardfs.Error as error:
    hint: str | None = error.hint
"""
BAD = ('reshardfs.open("ckpt", dst_stratgy="tp=4")', 'reshardfs.open("ckpt", check_crc="yes")', 'reshardfs.open(3)',
       'reshardfs.open("ckpt", replicas="any")', 'reshardfs.open("ckpt").rank("x")', 'reshardfs.plan("c").x',
       'reshardfs.open("c").rank(0)[3]', 'reshardfs.mount("c", foreground=True)')


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class Types(unittest.TestCase):
    def mypy(self, *words: str | Path) -> str:
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
                               "--ignore-missing-imports", "--allow-subclassing-any", "--disable-error-code",
                               "type-arg", "--cache-dir", str(self.cache), *map(str, words)], capture_output=True, text=True,
                              timeout=SECONDS, check=False, cwd=PACKAGE)
        self.assertEqual(done.stderr, "")
        return done.stdout

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = class_context(cls, scratch())
        cls.cache = cls.directory / "cache"

    def test_package(self) -> None:
        self.assertTrue((PACKAGE / "reshardfs/py.typed").exists())
        self.assertEqual(self.mypy("-p", "reshardfs"), "")
        # Its stub is taken in place of this one.
        self.assertEqual(self.mypy("reshardfs/__init__.py"), "")

    def test_programs(self) -> None:
        program = self.directory / "program.py"
        program.write_text(GOOD)
        self.assertEqual(self.mypy(program), "")
        program.write_text("import reshardfs\n" + "\n".join(BAD) + "\n")
        found = {int(line.split(":")[1]) for line in self.mypy(program).splitlines() if "error:" in line}
        self.assertEqual(found, set(range(2, 2 + len(BAD))))


if __name__ == "__main__":
    run_unittests_without_mounts()
