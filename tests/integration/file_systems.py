# SPDX-License-Identifier: Apache-2.0
"""File systems of their own for tests, where they may be mounted."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def attached(place: Path, *words: str | Path) -> Iterator[Path]:
    """Something mounted at `place`, if that is allowed."""
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *map(str, words), str(place)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise unittest.SkipTest(f"mount {' '.join(map(str, words))}: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextlib.contextmanager
def file_system(kind: str, directory: Path, size: int) -> Iterator[Path]:
    """A new one in a file of `size` bytes, which takes space where it is written only."""
    if shutil.which(f"mkfs.{kind}") is None:
        raise unittest.SkipTest(f"there is no mkfs.{kind}")
    image = directory / "image"
    with open(image, "wb") as file:
        file.truncate(size)
    subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True, stdout=subprocess.DEVNULL)
    with attached(directory / kind, "-o", "loop", image) as place:
        yield place
