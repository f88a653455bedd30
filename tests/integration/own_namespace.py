# SPDX-License-Identifier: Apache-2.0
"""For tests that run in a mount namespace of their own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mounted import unescaped

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
CGROUPS = Path("/sys/fs/cgroup")


def mount(source: str, target: Path, kind: str, data: str = "", flags: int = 0) -> None:
    if LIBC.mount(source.encode(), os.fsencode(target), kind.encode(), flags, data.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def mount_cgroups() -> None:
    """As systemd wants them, also where this system has the older form."""
    if not (CGROUPS / "cgroup.controllers").exists():
        subprocess.run(["umount", "--recursive", CGROUPS], check=False, capture_output=True)
        mount("none", CGROUPS, "cgroup2")


@contextlib.contextmanager
def copy_of(system: Path, memory: Path) -> Iterator[Path]:
    """The files of a system, in `memory`/root; changes stay in memory, in `memory`/upper."""
    memory.mkdir()
    mount("none", memory, "tmpfs")
    try:
        for name in ("upper", "work", "root"):
            (memory / name).mkdir()
        root = memory / "root"
        mount("overlay", root, "overlay", f"lowerdir={system},upperdir={memory}/upper,workdir={memory}/work")
        try:
            yield root
        finally:
            LIBC.umount2(os.fsencode(root), MNT_DETACH)
    finally:
        LIBC.umount2(os.fsencode(memory), MNT_DETACH)


def let_go_of_copies() -> None:
    """A new namespace has a copy of every mount. One of FUSE would live on in it, with its process, after another
    test has unmounted the original."""
    with open("/proc/self/mounts", errors="surrogateescape") as table:
        entries = [line.split(" ") for line in table]
    for _, place, kind, *_ in reversed(entries):
        if kind.startswith("fuse"):
            # What is not a mount any more is gone already.
            LIBC.umount2(os.fsencode(unescaped(place)), MNT_DETACH)
