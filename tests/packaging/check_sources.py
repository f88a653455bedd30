# SPDX-License-Identifier: Apache-2.0
"""Every source file of the tests and layers is compiled by some target, none is longer than 600
lines, and each says its licence in the first two lines."""

import json
import pathlib

import report

MAX_LINES = 600
CODE = {".h", ".cpp", ".py", ".sh", ".cmake", ".proto"}
# Built by the test that is about it, against an installed copy.
BUILT_ELSEWHERE = "tests/example"


def project_files(root):
    for folder in ("src", "include", "tests", "packaging", "proto"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and (path.suffix in CODE or path.name == "CMakeLists.txt"):
                yield path


def main():
    arguments = report.arguments("compile-commands")
    commands = json.loads(pathlib.Path(arguments.compile_commands).read_text())
    compiled = {pathlib.Path(command["file"]).resolve() for command in commands}
    benchmarks = any("tests/bench" in command["file"] for command in commands)
    problems, count = [], 0
    for path in project_files(arguments.root):
        name = str(path.relative_to(arguments.root))
        lines = path.read_text().splitlines()
        count += 1
        if len(lines) > MAX_LINES:
            problems.append(f"{name}: {len(lines)} lines, more than {MAX_LINES}")
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
            problems.append(f"{name}: no SPDX line at its start")
        optional = name.startswith(BUILT_ELSEWHERE) or (
            name.startswith("tests/bench") and not benchmarks)
        if path.suffix == ".cpp" and not optional and path.resolve() not in compiled:
            problems.append(f"{name}: is in no target")
    report.finish(problems, f"{count} files checked")


main()
