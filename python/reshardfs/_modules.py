# SPDX-License-Identifier: Apache-2.0
"""Which systems and Pythons the package has a module for."""

from __future__ import annotations

import os
import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_FOLDER = Path(__file__).parent
OLDEST_GLIBC = (2, 28)


def _glibc() -> tuple[int, int] | None:
    """Of this system; None: it has another C library."""
    try:
        found = re.match(r"glibc (\d+)\.(\d+)", os.confstr("CS_GNU_LIBC_VERSION") or "")
    except ValueError:  # musl has no such name
        found = None
    return (int(found[1]), int(found[2])) if found else None


def missing() -> str:
    """What to say where there is none for this system or Python; nothing where there is."""
    glibc = _glibc()
    if glibc is None or glibc < OLDEST_GLIBC:
        has = "another C library (musl?)" if glibc is None else "glibc {}.{}".format(*glibc)
        return ("reshardfs needs glibc {}.{} or later, and this system has {}: use a system or an image of Debian 10, RHEL 8, "
                "Ubuntu 20.04 or later").format(*OLDEST_GLIBC, has)
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
