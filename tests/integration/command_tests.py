# SPDX-License-Identifier: Apache-2.0
"""What tests of commands share that need no mount."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import unittest
from pathlib import Path
from typing import Any

from mounted import COMMAND_SECONDS, Settings, one_line, parse_binary, run


def run_command_tests() -> None:
    """The main program: --binary, and names of tests."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    arguments = parse_binary(parser)
    unittest.main(argv=[sys.argv[0], "-v", *arguments.tests])


def terminal_output(ours: int) -> bytes:
    """All that a program writes to a pseudo-terminal, whose side of ours is closed then."""
    data = b""
    try:
        while part := os.read(ours, 65536):
            data += part
    except OSError:
        pass  # EIO: the other end is closed
    finally:
        os.close(ours)
    return data


def on_terminal(*words: str | Path, columns: int = 80, lines: int = 24,
                **variables: str | None) -> list[str]:
    """The lines that a terminal of that size is given.

    @param variables of the environment; None takes one out.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    changed = {"COLUMNS": None, "LINES": None} | variables
    environment = {key: value for key, value in (os.environ | changed).items() if value is not None}
    process = subprocess.Popen([str(Settings.binary), *map(str, words)], stdin=subprocess.DEVNULL,
                               stdout=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    data = terminal_output(ours)
    _, errors = process.communicate(timeout=COMMAND_SECONDS)
    if process.returncode or errors:
        raise AssertionError(f"exit code {process.returncode}: {errors!r}")
    return data.decode().replace("\r\n", "\n").splitlines()


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
