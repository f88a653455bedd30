# SPDX-License-Identifier: Apache-2.0
"""Copies the headers of the Pythons of this machine, for their modules in the wheel, and says which are not here; or
lists these Pythons:

    pythons.py OUT | --list

They are looked for on the PATH, in pyenv and uv, and among those that RESHARDFS_PYTHONS names (paths, with ':').
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VERSIONS = [f"3.{minor}" for minor in range(9, 15)]
FACTS = """
import sys, sysconfig
print("%d.%d" % sys.version_info[:2], sys.implementation.name, bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
      sysconfig.get_path("include"), sysconfig.get_config_h_filename(), sep="\\n")
"""


@dataclass(frozen=True)
class Python:
    """An interpreter with its headers."""

    program: Path
    include: Path
    settings: Path  # pyconfig.h


def candidates(version: str) -> Iterator[Path]:
    yield from map(Path, filter(None, os.environ.get("RESHARDFS_PYTHONS", "").split(":")))
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    for folder in (pyenv, uv):
        yield from sorted(folder.glob(f"*/bin/python{version}"))
    if found := shutil.which(f"python{version}"):
        yield Path(found)


def python(version: str) -> Python | None:
    """The first of this version that has its headers."""
    for program in candidates(version):
        done = subprocess.run([program, "-c", FACTS], capture_output=True, text=True, check=False)
        if done.returncode:
            continue
        found, name, without_gil, include, settings = done.stdout.splitlines()
        if (found, name, without_gil) == (version, "cpython", "False") and Path(include, "Python.h").exists():
            return Python(program, Path(include), Path(settings))
    return None


def main() -> None:
    found = {version: python(version) for version in VERSIONS}
    if sys.argv[1] == "--list":
        print(*(f"{version} {one.program}" for version, one in found.items() if one), sep="\n")
        return
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    for version, one in found.items():
        if one:
            shutil.copytree(one.include, out / version)
            # Debian's includes one by the machine's name.
            shutil.copyfile(one.settings, out / version / "pyconfig.h")
    if lacking := [version for version, one in found.items() if one is None]:
        print(f"== no headers of Python {', '.join(lacking)} here: the wheel has no module of these (RESHARDFS_PYTHONS "
              "names interpreters)")


main()
