# SPDX-License-Identifier: Apache-2.0
"""The Pythons that tests/real has installed, for tests that want PyTorch."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

REAL = str(Path(__file__).resolve().parents[1] / "real")
sys.path.insert(0, REAL)

from environments import Environments, Unavailable  # noqa: E402
from programs import named  # noqa: E402

sys.path.remove(REAL)  # its folders have the names of programs

INSTALL_SECONDS = 3600


def cached_python(program: str, *, install: bool = False) -> list[str]:
    """Its command, if it is installed, or may and can be."""
    try:
        return [str(Environments(install, INSTALL_SECONDS).python(named(program)))]
    except Unavailable:
        return []


def torch_python() -> list[str]:
    """RESHARDFS_TORCH, or else a Python with PyTorch 2, or this one."""
    return shlex.split(os.environ.get("RESHARDFS_TORCH", "")) or cached_python("deepspeed-0.19.8") or [sys.executable]
