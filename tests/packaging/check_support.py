# SPDX-License-Identifier: Apache-2.0
"""Each cell of the table of sources and targets in docs/support.md names tests that ctest runs."""

import json
import re
import subprocess

import report

TESTS = "docs/support.md"


def rows_of(path):
    """Of its table, each a list of cells."""
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in path.read_text().splitlines() if line.startswith("|")]


def tests_of(build):
    listed = subprocess.run(["ctest", "--show-only=json-v1", "--test-dir", build],
                            capture_output=True, text=True, check=True).stdout
    return {test["name"] for test in json.loads(listed)["tests"]}


def problems_of(rows, known):
    for row in rows[2:]:
        for column, cell in zip(rows[0][1:], row[1:], strict=True):
            names = re.findall(r"`(\w+)`", cell)
            if not names or not known.issuperset(names):
                yield f"{TESTS}: from {row[0]}, {column}: ctest has not all of {names or 'no test'}"


def main():
    arguments = report.arguments("build")
    rows = rows_of(arguments.root / TESTS)
    report.finish(list(problems_of(rows, tests_of(arguments.build))), f"{len(rows[0]) * len(rows[2:])} cells")


main()
