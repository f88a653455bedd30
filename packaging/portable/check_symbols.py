# SPDX-License-Identifier: Apache-2.0
"""Refuses a product that needs a newer glibc than the packages promise, or a symbol that nothing has:

    check_symbols.py PRODUCT...
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OLDEST = (2, 28)
# Of the Python that loads a module.
OF_PYTHON = re.compile(r"_?Py")


def problems(product: Path) -> Iterator[str]:
    """By the table of dynamic symbols: number, value, size, type, binding, visibility, section, name@version."""
    listed = subprocess.run(["readelf", "--wide", "--dyn-syms", str(product)], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        found = re.match(r"\s*\d+: (?:\S+\s+){3}(\w+)\s+\S+\s+UND ([^@\s]+)(?:@+(\S+))?", line)
        if not found:
            continue
        binding, name, version = found[1], found[2], found[3] or ""
        numbers = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if numbers and (int(numbers[1]), int(numbers[2])) > OLDEST:
            yield f"needs {name} of glibc {numbers[1]}.{numbers[2]}"
        elif not version and binding != "WEAK" and not OF_PYTHON.match(name):
            yield f"needs {name}, which nothing has"


def main() -> None:
    found = [f"{Path(product).name} {problem}" for product in sys.argv[1:] for problem in problems(Path(product))]
    if found:
        raise SystemExit("\n".join([*found, "Portable packages run with glibc {}.{}: do without it, or add it to "
                                    "packaging/portable/old_glibc.cpp".format(*OLDEST)]))


main()
