#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does what README.md tells a reader to do, in a new minimal Debian: each command of its sh and console blocks, as it
stands there, in the checkout. Compares what they print with what the page shows, and says how long the set-up took.

    tests/packaging/play_readme.py [--suite trixie] [--tests]

As root, with debootstrap, /dev/fuse and the network; takes minutes, as it builds the program. The test `snippets` runs
the same blocks with a program that is built already, without the set-up."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "tests/load")]

from base_system import ALONE, ENVIRONMENT, bare_system, call  # noqa: E402
from documents import fenced  # noqa: E402
from mounted import SKIP, fuse_problem  # noqa: E402
from shown_commands import in_console, in_script, matches, names_only  # noqa: E402

CHECKOUT = "reshardfs"
LONG = "packaging/test.sh"
READERS = {"sh": in_script, "console": in_console}
# With no words that the caller's environment adds.
BASH = ("env", "-i", "-C", f"/{CHECKOUT}", *(f"{name}={value}" for name, value in ENVIRONMENT.items()), "bash", "-c")


def copy_checkout(to: Path) -> None:
    """What git has of it, with changes that are not committed."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def play(system: Path, tests: bool) -> int:
    """The number of commands. In namespaces that end with it, and all that it has mounted."""
    call("mount", "-t", "proc", "proc", system / "proc")
    call("mount", "--rbind", "/dev", system / "dev")
    count = 0
    for language, block in fenced((ROOT / "README.md").read_text()):
        for shown in READERS.get(language, lambda _: [])(block):
            if shown.command.startswith(LONG) and not tests:
                print(f"-- {shown.command}: left out, without --tests", flush=True)
                continue
            begun = time.monotonic()
            # Not to pipes: a daemon that kept one open would block.
            with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as complaints:
                code = subprocess.run(["chroot", system, *BASH, shown.command], stdin=subprocess.DEVNULL, stdout=out,
                                      stderr=complaints, check=False).returncode
                out.seek(0)
                complaints.seek(0)
                printed = out.read()
                assert code == shown.code, f"{shown.command}: exit code {code}\n{printed}{complaints.read()}"
            minutes, seconds = divmod(round(time.monotonic() - begun), 60)
            print(f"-- {shown.command}: {minutes} min {seconds} s", flush=True)
            if shown.output is not None:
                assert matches(printed, shown.output, folded=names_only(shown.command)), (
                    f"{shown.command}\nshown:\n{shown.output}\nprinted:\n{printed}")
            count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="bookworm", help="of Debian; default: bookworm")
    parser.add_argument("--tests", action="store_true", help=f"also {LONG}, which runs all tests")
    parser.add_argument("--in-system", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.in_system:
        print(f"{play(args.in_system, args.tests)} commands of README.md do what it says")
        return 0
    problem = fuse_problem() or ("it needs root" if os.geteuid() else None) or (
        None if shutil.which("debootstrap") else "debootstrap is not installed")
    if problem:
        print(f"skipped: {problem}")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="reshardfs-readme-") as directory:
        system = Path(directory)
        bare_system(system, args.suite)
        copy_checkout(system / CHECKOUT)
        # Outside these namespaces, nothing is mounted in the directory that is removed.
        return subprocess.run([*ALONE, sys.executable, "-B", __file__, *sys.argv[1:], "--in-system", system],
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
