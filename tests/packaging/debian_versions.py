# SPDX-License-Identifier: Apache-2.0
"""For tests of upgrades: the next version of a package."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def newer_version(package: Path, folder: Path) -> Path:
    """The same contents as the next version."""
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tree)], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: (.*)-1$", r"Version: \1-2", control.read_text(), flags=re.M))
    newer = folder / "new.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(newer)], check=True,
                   stdout=subprocess.DEVNULL)
    return newer


def version_of(package: Path) -> str:
    done = subprocess.run(["dpkg-deb", "--field", str(package), "Version"], check=True, capture_output=True, text=True)
    return done.stdout.strip()
