# SPDX-License-Identifier: Apache-2.0
"""Compares the bills of materials of two directories of packages, and prints the components whose versions differ:

    changed_packages.py FIRST SECOND
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def versions(folder: Path) -> dict[tuple[str, str], str]:
    """By the name of the bill and that of the component."""
    return {(path.name, entry["name"]): entry.get("versionInfo", "")
            for path in folder.glob("*.spdx.json") for entry in json.loads(path.read_text())["packages"]}


def main() -> None:
    first, second = (versions(Path(name)) for name in sys.argv[1:])
    changed = {f"{key[1]} {first.get(key, 'absent')} and {second.get(key, 'absent')}"
               for key in first.keys() | second.keys() if first.get(key) != second.get(key)}
    print(", ".join(sorted(changed)))


main()
