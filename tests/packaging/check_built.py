# SPDX-License-Identifier: Apache-2.0
"""Every source file of the layers and the tests is compiled by some target, and every test program
in Python is run by some test: one that nobody registered cannot fail."""

import json
import pathlib
import re
import subprocess

import report

# Built by the test that is about it, against an installed copy.
BUILT_ELSEWHERE = "tests/example"


def sources_of(file):
    """The file, or what CMake has put together in it (RESHARDFS_UNITY)."""
    if "/Unity/unity_" not in file:
        return [pathlib.Path(file).resolve()]
    included = re.findall(r'^#include "([^"]+)"', pathlib.Path(file).read_text(), re.MULTILINE)
    return [pathlib.Path(path).resolve() for path in included]


def not_compiled(root, build):
    """The .cpp files that are in no target."""
    commands = json.loads((build / "compile_commands.json").read_text())
    compiled = {source for command in commands for source in sources_of(command["file"])}
    benchmarks = any("tests/bench" in command["file"] for command in commands)
    count, problems = 0, []
    for folder in ("src", "tests"):
        for path in sorted((root / folder).rglob("*.cpp")):
            name = str(path.relative_to(root))
            if name.startswith(BUILT_ELSEWHERE) or (
                    name.startswith("tests/bench") and not benchmarks):
                continue
            count += 1
            if path.resolve() not in compiled:
                problems.append(f"{name}: is in no target")
    return count, problems


def commands_of_tests(build):
    """All words of all commands that ctest runs."""
    listed = subprocess.run(["ctest", "--show-only=json-v1", "--test-dir", str(build)],
                            capture_output=True, text=True, check=True).stdout
    return {pathlib.Path(word).resolve()
            for test in json.loads(listed)["tests"] for word in test.get("command", [])
            if word.endswith(".py")}


def not_run(root, build):
    """The test_*.py and check_*.py that no test runs."""
    run = commands_of_tests(build)
    scripts = sorted(path for pattern in ("test_*.py", "check_*.py")
                     for path in (root / "tests").rglob(pattern))
    return len(scripts), [f"{path.relative_to(root)}: is run by no test"
                          for path in scripts if path.resolve() not in run]


def main():
    arguments = report.arguments("build")
    build = pathlib.Path(arguments.build)
    sources, problems = not_compiled(arguments.root, build)
    scripts, more = not_run(arguments.root, build)
    report.finish(problems + more, f"{sources} files are built, {scripts} scripts are run")


main()
