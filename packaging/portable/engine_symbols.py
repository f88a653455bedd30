# SPDX-License-Identifier: Apache-2.0
"""Writes the linker script of the engine's library, which shows what the Python modules ask for and the library has:

    engine_symbols.py --nm NM --out FILE --archives ARCHIVE... --objects OBJECT...
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

# The linker wants each version that symbols of a static libfuse3 have.
FUSE_VERSIONS = ("3.0", "3.1", "3.2", "3.12", "3.17")


def names(nm: str, kind: str, files: list[str]) -> set[str]:
    listed = subprocess.run([nm, "--format=posix", kind, *files], check=True, capture_output=True, text=True).stdout
    return {line.split()[0].partition("@")[0] for line in listed.splitlines() if len(line.split()) > 1}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--archives", nargs="+", required=True)
    parser.add_argument("--objects", nargs="+", required=True)
    given = parser.parse_args()
    asked = names(given.nm, "--undefined-only", given.objects)
    shown = sorted(name for name in asked & names(given.nm, "--defined-only", given.archives) if name != "__dso_handle")
    lines = ["EXTERN(", *shown, ")", "VERSION {", "RESHARDFS_ENGINE { global:", *(f"{name};" for name in shown), "local: *; };",
             *(f"FUSE_{version} {{ local: *; }};" for version in FUSE_VERSIONS), "}"]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("\n".join(lines) + "\n")


main()
