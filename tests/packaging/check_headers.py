# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone and includes the standard library and public headers only."""

import re
import subprocess

import report


def compile_alone(compiler, include, header):
    """The compiler's messages; empty if it has none."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
               "-I", str(include), "-x", "c++", "-"]
    done = subprocess.run(command, input=f'#include "{header}"\n', text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout if done.returncode else ""


def foreign_includes(text):
    for header in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, re.MULTILINE):
        if not re.fullmatch(r"[a-z_]+|reshardfs/[a-z_]+\.h", header):
            yield header


def main():
    arguments = report.arguments("compiler")
    include = arguments.root / "include"
    headers = sorted(include.glob("reshardfs/*.h"))
    problems = [] if headers else ["there are no public headers"]
    for path in headers:
        name = str(path.relative_to(include))
        problems += [f"{name}: includes {h}" for h in foreign_includes(path.read_text())]
        messages = compile_alone(arguments.compiler, include, name)
        if messages:
            problems.append(f"{name} does not compile alone:\n{messages}")
    report.finish(problems, f"{len(headers)} public headers stand alone")


main()
