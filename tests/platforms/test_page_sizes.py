# SPDX-License-Identifier: Apache-2.0
"""Pages of 16 and 64 KiB, as kernels of aarch64 have them: a library that is preloaded says so. The layers that count in
pages pass their unit tests, and the program does all that steps.sh does."""

from __future__ import annotations

import argparse
import os
import subprocess
import unittest
from pathlib import Path

from mounted import fuse_problem, parse_binary, scratch
from platform_cases import PAGES
from platform_sets import make_sample

SECONDS = 300.0
# A test that looks into the kernel's own table of pages.
OF_KERNEL = "RequestTableTest.HasTheMemoryForARequestBeforeItComes"


class PageSizes(unittest.TestCase):
    binary: Path
    library: Path
    unit_tests: list[Path]

    def run_with(self, kib: int, *words: str | Path) -> None:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS, check=False,
                              env={**os.environ, "LD_PRELOAD": str(self.library), "RESHARDFS_TEST_PAGE_BYTES": str(kib << 10)})
        self.assertEqual(done.returncode, 0, f"{kib} KiB: {' '.join(map(str, words))}\n{done.stdout[-4000:]}{done.stderr}")

    def test_the_library_is_believed(self) -> None:
        said = subprocess.run(["getconf", "PAGESIZE"], capture_output=True, text=True, check=True, timeout=SECONDS,
                              env={**os.environ, "LD_PRELOAD": str(self.library), "RESHARDFS_TEST_PAGE_BYTES": "65536"})
        self.assertEqual(said.stdout.strip(), "65536")

    def test_units(self) -> None:
        for kib in PAGES:
            for program in self.unit_tests:
                with self.subTest(program=program.name, kib=kib):
                    self.run_with(kib, program, "--gtest_brief=1", f"--gtest_filter=-{OF_KERNEL}")

    def test_program(self) -> None:
        mode = "files" if fuse_problem() else "mount"
        for kib in PAGES:
            with self.subTest(kib=kib), scratch() as directory:
                folder = directory / "work"
                make_sample(folder)
                self.run_with(kib, folder / "steps.sh", folder, mode, self.binary)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--unit-test", type=Path, action="append", default=[])
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_binary(parser)
    PageSizes.binary, PageSizes.library, PageSizes.unit_tests = args.binary, args.library, args.unit_test
    unittest.main(argv=["test_page_sizes.py", "-v", *args.tests])


if __name__ == "__main__":
    main()
