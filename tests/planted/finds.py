#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with a planted bug, which must be found: the program fails, and says these words.

    finds.py WORDS COMMAND...

The environment is that of the other tests, so that options which silence a sanitizer there
(ASAN_OPTIONS and the like) fail this test. Exit code 77 if the sanitizer cannot run here at all.
"""

import subprocess
import sys

# What a runtime says that this kernel does not let work, before the program's first line.
CANNOT_RUN = ("unexpected memory mapping", "LeakSanitizer has encountered a fatal error",
              "LeakSanitizer does not work under ptrace")


def main() -> int:
    words, *command = sys.argv[1:]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60,
                          check=False)
    said = done.stdout + done.stderr
    for reason in CANNOT_RUN:
        if reason in said and words not in said:
            print(f"skipped: {reason}")
            return 77
    if done.returncode == 0:
        print(f"the planted bug was not found: exit code 0, and\n{said}")
        return 1
    if words not in said:
        print(f"exit code {done.returncode}, but no '{words}' in\n{said}")
        return 1
    print(f"found: exit code {done.returncode}, '{words}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
