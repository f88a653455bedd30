# SPDX-License-Identifier: Apache-2.0
"""The types: mypy and pyright have nothing against the package, against a program that uses it well, and something
against each line of one that does not."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

from cached_programs import REAL
from mounted import scratch
from python_sets import ROOT, class_context, run_unittests_without_mounts

PACKAGE = ROOT / "python"
SECONDS = 300.0
GOOD = """
from __future__ import annotations

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
    box: reshardfs.Tensor = weight.box([0, 0], (1, 2))
    got: int = ckpt.read_into_all([(box, bytearray(8)), ("model.w", bytearray(16))], prefix="model.", threads=2).bytes
    ckpt.prefetch([box, "w"])
    array = weight[10:20, :]
    file: io.BufferedReader = ckpt.file("x")
    layer: list[str] = [*state.keys("model.layers.0.*")]
    metadata: dict[str, str] = ckpt.metadata()
with reshardfs.mount("ckpt", dst_strategy="tp=2") as path:
    text: str = path
plan: reshardfs.Plan = reshardfs.plan("ckpt", rank=3)
needed: tuple[int, ...] = plan.ranks[0].needed_ranks
also: Any = plan["needed_ranks"]
done: reshardfs.Exported = reshardfs.export("ckpt", "out", jobs=2, checksum=True,
                                            progress=lambda values: print(values.bytes, values["bytes"]))
try:
    good: bool = reshardfs.verify("ckpt", progress=print).completeness.stated
    shapes = [each.full_shape for each in reshardfs.inspect("ckpt").parameters]
    equal: bool = reshardfs.diff("a", "b", atol=1e-3).equal
except reshardfs.Error as error:
    hint: str | None = error.hint
"""
BAD = ('reshardfs.open("ckpt", dst_stratgy="tp=4")', 'reshardfs.open("ckpt", check_crc="yes")', 'reshardfs.open(3)',
       'reshardfs.open("ckpt", replicas="any")', 'reshardfs.open("ckpt").rank("x")', 'reshardfs.plan("c").x',
       'reshardfs.open("c").rank(0)[3]', 'reshardfs.mount("c", foreground=True)', 'reshardfs.plan("c", log_file="x")',
       'reshardfs.verify("c").good + "x"', 'reshardfs.export("a", "b", progress=lambda: None)',
       'reshardfs.open("c").merged.keys(3)', 'reshardfs.open("c").merged["w"].box(1, 2)')
FRAMEWORKS = {"_dcp.py", "_torch_targets.py", "torch.py", "mindspore.py", "safetensors.py", "fsspec.py"}


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


def pyright_python() -> str:
    """That has pyright: see tests/real. Skips the test where there is none."""
    sys.path.insert(0, REAL)
    try:
        from environments import Environments, Unavailable
        from programs import PYRIGHT
    finally:
        sys.path.remove(REAL)
    try:
        return str(Environments(os.environ.get("RESHARDFS_REAL") == "1", SECONDS).python(PYRIGHT))
    except Unavailable as reason:
        raise unittest.SkipTest(f"{PYRIGHT.name}: {reason}") from reason


class Pyright(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.python = pyright_python()
        cls.directory = class_context(cls, scratch())

    def errors(self, mode: str, *files: Path) -> list[dict[str, Any]]:
        config = self.directory / "pyrightconfig.json"
        # NumPy need not be there, so that types of arrays may be unknown.
        unknown = dict.fromkeys(("reportMissingImports", "reportMissingModuleSource", "reportUnknownMemberType",
                                 "reportUnknownVariableType", "reportUnknownArgumentType"), False)
        config.write_text(json.dumps({"include": [str(file) for file in files], "typeCheckingMode": mode, **unknown,
                                      "pythonVersion": "3.9", "executionEnvironments": [{"root": str(PACKAGE)}]}))
        done = subprocess.run([self.python, "-m", "basedpyright", "-p", config, "--outputjson", "--level", "error"],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        printed = json.loads(done.stdout)
        self.assertEqual(printed["summary"]["filesAnalyzed"], len(files), done.stderr)
        found: list[dict[str, Any]] = printed["generalDiagnostics"]
        return found

    def test_package(self) -> None:
        """Without what imports frameworks: where these are not installed, it would take the package's own modules of
        the same names for them."""
        files = [file for file in sorted((PACKAGE / "reshardfs").glob("*.py*")) if file.name not in FRAMEWORKS
                 and file.suffix in (".py", ".pyi")]
        self.assertEqual(self.errors("standard", *files), [])

    def test_programs(self) -> None:
        program = self.directory / "program.py"
        program.write_text(GOOD)
        self.assertEqual(self.errors("strict", program), [])
        program.write_text("import reshardfs\n" + "\n".join(BAD) + "\n")
        found = {each["range"]["start"]["line"] for each in self.errors("standard", program)}
        self.assertEqual(found, set(range(1, 1 + len(BAD))))


if __name__ == "__main__":
    run_unittests_without_mounts()
