# SPDX-License-Identifier: Apache-2.0
"""What tests of platforms share: packages, and the folder that steps.sh works in."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from make_checkpoint import Parallel, make_set

HERE = Path(__file__).resolve().parent
SECONDS = 900.0


class Failed(Exception):
    """A step; its text is what the step printed."""


def run(*words: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=SECONDS, cwd=cwd,
                          env={**os.environ, **environment})
    if done.returncode:
        raise Failed(f"{' '.join(map(str, words))}: rc {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def mirror() -> str:
    """Of Debian, as apt knows it here."""
    listed = run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian")
    return listed.split()[0]


@dataclass(frozen=True)
class Row:
    """Of the table of what was tried."""

    HEAD: ClassVar = "| system | package | tried |\n|---|---|---|"
    system: str
    package: str
    result: str

    def __str__(self) -> str:
        return f"| {self.system} | {self.package} | {self.result} |"


class Packages:
    """A wheel and a tarball of one machine type, those that are there; the tarball is unpacked."""

    def __init__(self, folder: Path, machine: str, work: Path) -> None:
        self.machine = machine
        self.wheel = next(folder.glob(f"*_{machine}.whl"), None)
        tarball = next(folder.glob(f"*-linux-{machine}.tar.gz"), None)
        self.tree = work / tarball.name.removesuffix(".tar.gz") if tarball else None
        if tarball:
            run("tar", "-C", work, "-xzf", tarball)


def make_sample(folder: Path) -> None:
    """With a checkpoint of four ranks, and the scripts."""
    folder.mkdir(parents=True)
    made = make_set(folder / "set", Parallel.parse("tp=4"), Parallel.parse("tp=2"), seed=3)
    strategy = made.src_strategy.read_bytes()
    made.source.rename(folder / "source")
    (folder / "source/src_strategy.ckpt").write_bytes(strategy)
    for script in ("steps.sh", "python_steps.py"):
        shutil.copy(HERE / script, folder)
