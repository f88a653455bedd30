# SPDX-License-Identifier: Apache-2.0
"""What tests of commands share that need no mount."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import unittest
from pathlib import Path
from typing import Any

from mounted import Settings, one_line, run


def run_command_tests() -> None:
    """The main program: --binary, and names of tests."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    parser.add_argument("--binary", type=Path, default=Settings.binary, help="the program to test")
    arguments = parser.parse_args()
    found = shutil.which(arguments.binary)
    if found is None:
        parser.error(f"no program at {arguments.binary}")
    Settings.binary = Path(found).resolve()
    unittest.main(argv=[sys.argv[0], "-v", *arguments.tests])


class CommandTest(unittest.TestCase):
    command = ""

    def says(self, code: int, *arguments: str | Path) -> str:
        """The standard output of the command, which must end with this exit code and nothing on
        standard error."""
        result = run(self.command, *arguments)
        self.assertEqual((result.code, result.stderr), (code, ""), result.stdout)
        return result.stdout

    def json(self, code: int, *arguments: str | Path) -> Any:
        result = run(self.command, *arguments, "--json")
        self.assertEqual(result.code, code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def refused(self, code: int, *arguments: str | Path, words: tuple[str, ...]) -> None:
        result = run(self.command, *arguments)
        self.assertEqual((result.code, result.stdout), (code, ""), result.stderr)
        line = one_line(result)
        for word in words:
            self.assertIn(word, line)
