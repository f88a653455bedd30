# SPDX-License-Identifier: Apache-2.0
"""What each command that takes a source says of it."""

from __future__ import annotations

import re
from pathlib import Path

from mounted import Result, run

MERGED = "merged/checkpoint_merged.safetensors"
COMMANDS = ("inspect", "plan", "export", "verify", "diff", "hash", "cat", "mount")


def ask(command: str, source: Path, root: Path, *options: str | Path) -> Result:
    """@param root a directory of the test. @param options of the source, as most commands have them."""
    if command == "export":
        return run(command, source, root / "asked.safetensors", "--force", *options)
    if command == "cat":
        return run(command, source, MERGED, *options)
    if command == "mount":
        (root / "asked").mkdir(exist_ok=True)
        return run(command, source, root / "asked", "--check-only", *options)
    if command == "diff":
        both = [re.sub("^--(src-)?", f"--{side}-", str(word)) for side in "ab" for word in options]
        return run(command, source, source, *both)
    return run(command, source, *options)


def silent(source: Path, root: Path, words: str, *options: str | Path,
           commands: tuple[str, ...] = COMMANDS) -> dict[str, str]:
    """The commands that take the source without a word of what is wrong with it, and what they say.

    @param words a regular expression for standard error, and for what `verify` prints.
    """
    out = {}
    for command in commands:
        result = ask(command, source, root, *options)
        said = result.stderr + (result.stdout if command == "verify" else "")
        if result.code not in (0, 1, 2) or not re.search(words, said):
            out[command] = f"{result.code}: {said}"
    return out


def refusals(source: Path, root: Path, *options: str | Path,
             commands: tuple[str, ...] = COMMANDS) -> dict[str, str]:
    """The commands that do not take the source, or warn of it, and what they say."""
    out = {}
    for command in commands:
        result = ask(command, source, root, *options)
        if result.code != 0 or "warning" in result.stderr:
            out[command] = f"{result.code}: {result.stderr}{result.stdout}"
    return out
