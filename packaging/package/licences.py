# SPDX-License-Identifier: Apache-2.0
"""Collects the copyright files of all that is inside a product of a build:

    licences.py BUILD TARGET FOLDER
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import build_facts
import debian_facts


def collect(build: Path, target: str, bundled: Iterable[Path], folder: Path) -> None:
    """Into FOLDER, one for each source package. bundled: shared libraries that go with the product."""
    found = build_facts.contained(build, target)
    found += debian_facts.packages(debian_facts.owners(bundled).values())
    for package in found:
        if package.copyright_file is None:
            raise SystemExit(f"the package {package.name} has no copyright file")
        shutil.copyfile(package.copyright_file, folder / f"{package.source}.txt")


def main() -> None:
    folder = Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    collect(Path(sys.argv[1]).resolve(), sys.argv[2], [], folder)


if __name__ == "__main__":
    main()
