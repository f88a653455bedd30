# SPDX-License-Identifier: Apache-2.0
"""The integration tests that ask for PyTorch 2, with the one of this environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from product import PROGRAM

TESTS = Path(__file__).resolve().parents[2] / "integration"


def run(directory: Path, name: str) -> None:
    words = [sys.executable, "-B", TESTS / f"{name}.py", "--binary", PROGRAM]
    done = subprocess.run(words, env={**os.environ, "RESHARDFS_TORCH": sys.executable, "TMPDIR": str(directory)},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout[-3000:]}"
    assert "\nOK" in done.stdout, f"some were skipped: {done.stdout[-3000:]}"
