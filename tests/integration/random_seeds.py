# SPDX-License-Identifier: Apache-2.0
"""The command line of tests of random sets, each of which a seed makes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from mounted import Result, parse_binary, scratch

Check = Callable[[int, Path], str]


def unless_refused(damage: str, result: Result, lines: int = 1, *, fewest: int = 1) -> str:
    """What is wrong with the answer to a damaged set; empty: it is refused, in so many lines."""
    if result.code in (2, 3) and fewest <= result.stderr.count("\n") <= lines:
        return ""
    return f"{damage}: exit code {result.code}, {result.stderr}"


def run_seeds(check: Check) -> int:
    """Each set in a directory of its own; prints the seeds of those that fail.

    check: what is wrong with the set of a seed; empty: nothing. Returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parse_binary(parser)
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.sets):
        with scratch() as root:
            if problem := check(seed, root):
                failed += 1
                print(f"seed {seed}: {problem}", flush=True)
    print(f"{arguments.sets} sets from seed {arguments.seed}: {failed} failed")
    return 1 if failed else 0
