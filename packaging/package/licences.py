# SPDX-License-Identifier: Apache-2.0
"""Collects the copyright files of all that is inside a product of a build:

    licences.py BUILD TARGET FOLDER
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import build_facts


def collect(build: Path, target: str, folder: Path) -> None:
    """Into FOLDER, one for each source package."""
    for package in build_facts.contained(build, target):
        if package.copyright_file is None:
            raise SystemExit(f"the package {package.name} has no copyright file")
        shutil.copyfile(package.copyright_file, folder / f"{package.source}.txt")
    for name, _, licence in build_facts.of_pypi(build, target):
        shutil.copyfile(licence, folder / f"{name}.txt")


def main() -> None:
    folder = Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    collect(Path(sys.argv[1]).resolve(), sys.argv[2], folder)


if __name__ == "__main__":
    main()
