# SPDX-License-Identifier: Apache-2.0
"""What the checks share: arguments, and one line for each thing that is wrong."""

import argparse
import pathlib
import sys


def arguments(*names):
    """--root and the named options, all required."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    for name in names:
        parser.add_argument("--" + name, required=True)
    return parser.parse_args()


def finish(problems, checked):
    """Ends the program: prints the problems, or what was checked."""
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} wrong")
    print(checked)
