# SPDX-License-Identifier: Apache-2.0
"""Makes the environments that real programs run in: a venv for each requirements file, in a cache directory that
survives between runs. One may build on another, whose packages it sees where it has none of its own."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from programs import Program, named

FOLDER = Path(__file__).resolve().parent
# Written into an environment when everything is installed: one without it is unfinished.
MARKER = "complete"


class Unavailable(Exception):
    """The program cannot be had here, with the reason."""


def cache_directory() -> Path:
    chosen = os.environ.get("RESHARDFS_REAL_CACHE")
    if chosen:
        return Path(chosen).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "reshardfs" / "real"


def environment() -> dict[str, str]:
    """Without what is set for the Python of whoever runs the tests."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def find_python(versions: tuple[str, ...]) -> tuple[str, Path]:
    """The first of these versions, such as 3.11, that is on the machine, and its interpreter."""
    for version in versions:
        candidates = [Path("/usr/bin") / f"python{version}",
                      *sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))]
        on_path = shutil.which(f"python{version}")
        if on_path:
            candidates.insert(0, Path(on_path))
        for candidate in candidates:
            if candidate.exists() and version_of(candidate) == version:
                return version, candidate
    raise Unavailable(f"there is no Python {' or '.join(versions)}")


def version_of(python: Path) -> str | None:
    """None if it does not start: a shim of a version that is not installed, for example."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time makes an environment."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build_on(base: Path, directory: Path) -> None:
    """`directory` sees the packages of `base`, and what that sees, behind its own."""
    (own,) = directory.glob("lib/python*/site-packages")
    packages = base / own.relative_to(directory)
    further = packages / "base.pth"
    (own / "base.pth").write_text(f"{packages}\n{further.read_text() if further.exists() else ''}")


class Environments:
    """`install`: whether what is missing may be installed, within `seconds` for all together."""

    def __init__(self, install: bool, seconds: float) -> None:
        self.install = install
        self.end = time.monotonic() + seconds

    def python(self, program: Program, versions: tuple[str, ...] = ()) -> Path:
        """The interpreter of the environment of requirements/NAME.txt; of one of `versions` if they are given."""
        requirements = FOLDER / "requirements" / f"{program.name}.txt"
        version, python = find_python(versions or program.pythons)
        below = self.python(named(program.base), (version,)) if program.base else None
        source = requirements.with_suffix(".source.txt")
        texts = requirements.read_bytes() + (source.read_bytes() if source.exists() else b"")
        digest = hashlib.sha256(texts + f"{version} {os.uname().machine}{below or ''}".encode())
        directory = cache_directory() / f"{program.name}-{digest.hexdigest()[:16]}"
        found = directory / "bin/python"
        if not (directory / MARKER).exists():
            if not self.install:
                raise Unavailable("it is not installed, and RESHARDFS_REAL=1 is not set")
            directory.parent.mkdir(parents=True, exist_ok=True)
            with locked(directory.parent / f"{directory.name}.lock"):
                if not (directory / MARKER).exists():
                    self.make(directory, python, requirements, below)
        return found

    def check(self, python: Path, module: str) -> None:
        """Old programs need libraries that newer systems lack."""
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True, check=False,
                              timeout=600, env=environment())
        if done.returncode:
            raise Unavailable(f"it does not start: {done.stderr.strip().splitlines()[-1:]}")

    def make(self, directory: Path, python: Path, requirements: Path, below: Path | None) -> None:
        print(f"-- installing {requirements.stem} in {directory}", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        try:
            self.run([python, "-m", "venv", directory])
            if below:
                build_on(below.parents[1], directory)
            # The file lists all packages. What they ask for can contradict what they work with.
            pip = [directory / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                   "--no-input", "--no-deps", "--require-hashes"]
            self.run([*pip, "--only-binary", ":all:", "--requirement", requirements])
            source = requirements.with_suffix(".source.txt")
            if source.exists():  # what builds it is in the other file
                self.run([*pip, "--no-build-isolation", "--no-binary", ":all:", "--requirement", source])
        except Unavailable:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        (directory / MARKER).touch()

    def run(self, words: list[str | Path]) -> None:
        left = self.end - time.monotonic()
        if left <= 0:
            raise Unavailable("no time is left to install it")
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=left, check=False, env=environment(),
                                  stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise Unavailable("installing it took too long") from None
        if done.returncode:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Unavailable(f"it cannot be installed: {lines[-1] if lines else done.returncode}")


if __name__ == "__main__":
    sys.exit("run.py makes the environments that it needs")
