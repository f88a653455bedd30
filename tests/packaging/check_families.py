# SPDX-License-Identifier: Apache-2.0
"""docs/support.md has the table of families that packaging/family_table.py makes of the maps and their tests, and
each cell of it has a test."""

import family_table
import report


def main():
    root = report.arguments().root
    text = (root / "docs/support.md").read_text()
    stated = text.partition(family_table.BEGIN)[2].partition(family_table.END)[0].strip("\n").splitlines()
    made = family_table.markdown().splitlines()
    problems = [f"docs/support.md has no such row: {row}" for row in made if row not in stated]
    problems += [f"docs/support.md has a row that is not made: {row}" for row in stated if row not in made]
    problems += [f"no test shows what config/maps states: {cell}" for cell in family_table.untested()]
    report.finish(problems, f"{len(made)} rows, as packaging/family_table.py prints them")


main()
