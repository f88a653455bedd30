# SPDX-License-Identifier: Apache-2.0
"""Which Pythons the package has a module for."""

from __future__ import annotations

import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_FOLDER = Path(__file__).parent


def missing() -> str:
    """What to say where there is none for this Python; nothing where there is."""
    if any((_FOLDER / f"_core{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
        return ""
    found = sorted((int(version[1]), int(version[2])) for path in _FOLDER.glob("_core.*")
                   if (version := re.match(r"_core\.cpython-(\d)(\d+)-", path.name)))
    text = f"reshardfs has no module for {sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
    if found:
        text += f" here, but for {', '.join(f'{major}.{minor}' for major, minor in found)}: use one of these"
    if (program := _FOLDER / "bin/reshardfs").exists():
        text += f"; the command needs no Python: {program}"
    return text
