# SPDX-License-Identifier: Apache-2.0
"""For tests that run in a mount namespace of their own."""

from __future__ import annotations

import ctypes
import os

from mounted import unescaped

MNT_DETACH = 2


def let_go_of_copies() -> None:
    """A new namespace has a copy of every mount. One of FUSE would live on in it, with its process, after another
    test has unmounted the original."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/mounts", errors="surrogateescape") as table:
        entries = [line.split(" ") for line in table]
    for _, place, kind, *_ in reversed(entries):
        if kind.startswith("fuse"):
            # What is not a mount any more is gone already.
            libc.umount2(os.fsencode(unescaped(place)), MNT_DETACH)
