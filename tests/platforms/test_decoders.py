# SPDX-License-Identifier: Apache-2.0
"""Runs the unit test of the decoders of quantized weights as a program for aarch64, whose vectors the compiler makes of
the plain code: compares every code and scale with the same values as here."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOOGLETEST = Path("/usr/src/googletest/googletest")
COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64-static"
SKIPPED = 77


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generated", type=Path, required=True, help="headers that CMake has made")
    generated = parser.parse_args().generated
    if not (shutil.which(COMPILER) and shutil.which(EMULATOR) and GOOGLETEST.is_dir()):
        print(f"needs {COMPILER}, {EMULATOR} and the sources of GoogleTest")
        return SKIPPED
    source = ROOT / "src"
    files = [ROOT / "tests/unit/checkpoint/codes_test.cpp", source / "checkpoint/quantized/codes.cpp",
             source / "checkpoint/quantized/codes_avx2.cpp", source / "base/cast.cpp", source / "base/dtype.cpp",
             GOOGLETEST / "src/gtest-all.cc", GOOGLETEST / "src/gtest_main.cc"]
    folders = [source, ROOT / "include", generated, GOOGLETEST, GOOGLETEST / "include"]
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "codes_test"
        subprocess.run([COMPILER, "-std=c++20", "-O2", "-static", "-ffunction-sections", "-Wl,--gc-sections",
                        *(f"-I{folder}" for folder in folders), *files, "-o", program], check=True)
        return subprocess.run([EMULATOR, program], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
