# SPDX-License-Identifier: Apache-2.0
"""Runs a suite of tests/conformance; says whether all of it passed."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import unittest
from pathlib import Path

from mounted import parse_binary

SUITE_SECONDS = 300.0


class Programs:
    suite = Path("conformance")  # the command line names it


class SuiteTest(unittest.TestCase):
    def suite(self, *options: str, environment: dict[str, str] | None = None,
              seconds: float = SUITE_SECONDS) -> subprocess.CompletedProcess[str]:
        """Runs it, whatever comes of it."""
        # A proxy would be asked for what is on this machine.
        inherited = {name: value for name, value in os.environ.items()
                     if not name.lower().endswith("_proxy") and not name.startswith("AWS_")}
        return subprocess.run(
            [str(Programs.suite), "--gtest_color=no", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=seconds, check=False,
            env={**inherited, **(environment or {})})

    def good(self, done: subprocess.CompletedProcess[str]) -> None:
        problems = [line for line in done.stdout.splitlines()
                    if not line.startswith(("[ RUN", "[       OK", "[---"))]
        self.assertEqual(done.returncode, 0, "\n".join(problems[-80:]))
        self.assertNotIn("[  SKIPPED ]", done.stdout)
        self.assertGreater(done.stdout.count("[       OK ]"), 15)


def run_suite_tests() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--conformance", type=Path, required=True, help="the suite's program")
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_binary(parser)
    Programs.suite = args.conformance.resolve()
    unittest.main(argv=[sys.argv[0], "-v", *args.tests])
