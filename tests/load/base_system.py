# SPDX-License-Identifier: Apache-2.0
"""A minimal Debian in a directory, with all that a package needs, for systems that have no network of their own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

LONG = 600
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive"}
# All that is started and mounted so ends with the command.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private")


def call(*words: str | Path) -> None:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LONG)
    assert done.returncode == 0, f"{shlex.join(map(str, words))}: {done.returncode}: {done.stdout}{done.stderr}"


def bare_system(root: Path, suite: str) -> None:
    """Without any package that is not essential. It has the network; nothing starts services."""
    call(*ALONE, "debootstrap", "--variant=minbase", suite, root)
    shutil.copy("/etc/resolv.conf", root / "etc")
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)


def make_system(root: Path, suite: str, package: Path, packages: Iterable[str], then: str = "") -> None:
    """With the package and these of Debian's.

    @param then: what a shell of the system does afterwards."""
    bare_system(root, suite)
    shutil.copy(package, root / "package.deb")
    script = ("mount -t proc proc /proc; apt-get -q update; "
              f"apt-get -q -y install --no-install-recommends {' '.join(packages)} /package.deb; {then}")
    environment = (f"{name}={value}" for name, value in ENVIRONMENT.items())
    call(*ALONE, "chroot", root, "env", "-i", *environment, "sh", "-euc", script)
