# SPDX-License-Identifier: Apache-2.0
"""No source file is longer than 600 lines, and each says its licence in the first two lines."""

import report

MAX_LINES = 600
CODE = {".h", ".cpp", ".py", ".sh", ".cmake", ".proto"}


def project_files(root):
    for folder in ("src", "include", "tests", "packaging", "proto"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and (path.suffix in CODE or path.name == "CMakeLists.txt"):
                yield path


def main():
    arguments = report.arguments()
    problems, count = [], 0
    for path in project_files(arguments.root):
        name = str(path.relative_to(arguments.root))
        lines = path.read_text().splitlines()
        count += 1
        if len(lines) > MAX_LINES:
            problems.append(f"{name}: {len(lines)} lines, more than {MAX_LINES}")
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
            problems.append(f"{name}: no SPDX line at its start")
    report.finish(problems, f"{count} files checked")


main()
