# SPDX-License-Identifier: Apache-2.0
"""The table of sources and targets in README.md says yes only where docs/support.md names tests in the same cell, and
ctest runs these. README.zh-CN.md says the same."""

import json
import re
import subprocess

import report

README, CHINESE, TESTS = "README.md", "README.zh-CN.md", "docs/support.md"


def table_of(path, first):
    """Its rows, each a list of cells; the first column of the table is called so."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in path.read_text().splitlines() if line.startswith("|")]
    begin = next(number for number, row in enumerate(rows) if row[0] == first)
    end = next((number for number, row in enumerate(rows) if number > begin and len(row) != len(rows[begin])), None)
    return rows[begin:end]


def tests_of(build):
    listed = subprocess.run(["ctest", "--show-only=json-v1", "--test-dir", build],
                            capture_output=True, text=True, check=True).stdout
    return {test["name"] for test in json.loads(listed)["tests"]}


def problems_of(said, named, known):
    if [row[0] for row in said] != [row[0] for row in named] or said[0] != named[0]:
        yield f"{TESTS}: the rows or columns are not those of {README}"
        return
    for row, tests in list(zip(said, named))[2:]:
        for column, cell, names in zip(said[0][1:], row[1:], tests[1:]):
            place = f"from {row[0]}, {column}"
            found = re.findall(r"`(\w+)`", names)
            if (cell == "yes") != bool(found):
                yield f"{place}: {README} says '{cell}', and {TESTS} names {found or 'no test'}"
            for name in found:
                if name not in known:
                    yield f"{place}: ctest has no test '{name}'"


def main():
    arguments = report.arguments("build")
    said, named = table_of(arguments.root / README, "from"), table_of(arguments.root / TESTS, "from")
    problems = list(problems_of(said, named, tests_of(arguments.build)))
    chinese = table_of(arguments.root / CHINESE, "源")
    if [[cell == "yes" for cell in row] for row in said] != [[cell == "是" for cell in row] for row in chinese]:
        problems.append(f"{CHINESE}: its table does not say what that of {README} says")
    report.finish(problems, f"{sum(cell == 'yes' for row in said for cell in row)} cells")


main()
