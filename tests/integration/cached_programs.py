# SPDX-License-Identifier: Apache-2.0
"""The Pythons that tests/real has installed, for tests that want PyTorch, and the module of reshardfs for them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

REAL = str(Path(__file__).resolve().parents[1] / "real")
sys.path.insert(0, REAL)

from environments import Environments, Unavailable  # noqa: E402
from programs import named  # noqa: E402

sys.path.remove(REAL)  # its folders have the names of programs

INSTALL_SECONDS = 3600
CORE = Path(__file__).resolve().parents[2] / "python/core"


def cached_python(program: str, *, install: bool = False) -> list[str]:
    """Its command, if it is installed, or may and can be."""
    try:
        return [str(Environments(install, INSTALL_SECONDS).python(named(program)))]
    except Unavailable:
        return []


def torch_python(*programs: str) -> list[str]:
    """RESHARDFS_TORCH, or else a Python with PyTorch 2, that of one of the programs if it is, or may be, installed; or this
    one."""
    may_install = os.environ.get("RESHARDFS_REAL") == "1"
    chosen = shlex.split(os.environ.get("RESHARDFS_TORCH", ""))
    found = (cached_python(program, install=may_install and program in programs)
             for program in (*programs, "deepspeed-0.19.8"))
    return chosen or next(filter(None, found), [sys.executable])


def module_for(python: list[str], build: Path, links: Path) -> Path:
    """What PYTHONPATH has to have. Where the module was built for another Python, it gets links to that of the
    portable packages.

    @throws Unavailable with the reason.
    """
    asked = subprocess.run([*python, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"],
                           capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    name = f"_core{asked.stdout.strip()}"
    package = build / "python/reshardfs"
    if asked.returncode or not package.is_dir():
        raise Unavailable(f"{shlex.join(python)} does not start, or {package} was not built")
    if (package / name).exists():
        return package.parent
    portable = build / "portable"
    if not (portable / name).exists() or not (portable / "lib/libreshardfs_engine.so").exists():
        raise Unavailable(f"{package} and {portable} have no {name}; the target 'portable' makes it")
    made_of = (*(build / "src").rglob("*.a"), *CORE.iterdir())
    newest = max(path.stat().st_mtime for path in made_of)
    if (portable / name).stat().st_mtime < newest:
        raise Unavailable(f"{portable / name} is older than what it is made of; the target 'portable' makes it anew")
    here = links / "reshardfs"
    here.mkdir(parents=True)
    for path in (*package.glob("*.py"), portable / name, portable / "bin", portable / "lib", portable / "share"):
        (here / path.name).symlink_to(path.resolve())
    return links
