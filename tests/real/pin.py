# SPDX-License-Identifier: Apache-2.0
"""Writes a requirements file with the hash of each file that pip may install:
`pin.py mindspore-2.10.0 --pythons 3.10,3.11 mindspore==2.10.0 safetensors==0.7.0`. Needs pip 23 or later, and
downloads nothing where the index has the packages' metadata. A second file, NAME.source.txt, has what is built from
its source (--source)."""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
# Libraries of the system that wheels may need, as their names have it.
PLATFORMS = (*(f"manylinux_2_{minor}" for minor in range(28, 16, -1)), "manylinux2014", "manylinux1", "linux")


def resolved(python: str, machine: str, words: list[str]) -> list[tuple[str, str, str]]:
    """(name, version, hash) of what pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report")
        platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
                        "--report", report, "--python-version", python, *platforms, "--only-binary", ":all:",
                        "--target", folder, *words], check=True)
        return [(item["metadata"]["name"].lower(), item["metadata"]["version"],
                 item["download_info"]["archive_info"]["hashes"]["sha256"])
                for item in json.loads(report.read_text())["install"]]


def source_of(word: str) -> tuple[str, str, str]:
    """(name, version, hash) of a package's source."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                        "--dest", folder, word], check=True)
        (file,) = Path(folder).iterdir()
        return (*word.split("=="), hashlib.sha256(file.read_bytes()).hexdigest())


def text_of(found: dict[str, dict[str, dict[str, set[str]]]], pythons: list[str], words: list[str]) -> str:
    """Of {name: {version: {python: hashes}}}."""
    lines = ["# SPDX-License-Identifier: Apache-2.0", f"# Written by {Path(__file__).name}, of {' '.join(words)}."]
    for name, versions in sorted(found.items()):
        for version, by_python in sorted(versions.items()):
            line = f"{name}=={version}"
            if list(by_python) != pythons:
                line += " ; " + " or ".join(f'python_version == "{python}"' for python in by_python)
            hashes = sorted(set().union(*by_python.values()))
            lines.append(" \\\n".join([line, *(f"    --hash=sha256:{value}" for value in hashes)]))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of the file")
    parser.add_argument("--pythons", required=True, help="such as 3.10,3.11")
    parser.add_argument("--machines", default="x86_64,aarch64")
    parser.add_argument("--alone", action="append", default=[], metavar="PACKAGE==VERSION",
                        help="without what it asks for; name what it needs")
    parser.add_argument("--source", action="append", default=[], metavar="PACKAGE==VERSION",
                        help="that the index has no built file of; name what it needs, and what builds it")
    parser.add_argument("words", nargs="+", help="requirements as pip takes them")
    args = parser.parse_args()
    pythons = args.pythons.split(",")
    found: dict[str, dict[str, dict[str, set[str]]]] = collections.defaultdict(
        lambda: collections.defaultdict(lambda: collections.defaultdict(set)))
    for python in pythons:
        for machine in args.machines.split(","):
            packages = resolved(python, machine, args.words)
            if args.alone:
                packages += resolved(python, machine, ["--no-deps", *args.alone])
            for name, version, value in packages:
                found[name][version][python].add(value)
    words = [*args.words, *(f"--alone {word}" for word in args.alone)]
    (REQUIREMENTS / f"{args.name}.txt").write_text(text_of(found, pythons, words))
    if args.source:
        sources = {name: {version: {python: {value} for python in pythons}}
                   for name, version, value in map(source_of, args.source)}
        text = text_of(sources, pythons, [f"--source {word}" for word in args.source])
        (REQUIREMENTS / f"{args.name}.source.txt").write_text(text)


if __name__ == "__main__":
    main()
