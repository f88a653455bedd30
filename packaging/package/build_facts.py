# SPDX-License-Identifier: Apache-2.0
"""What of others is in the products of a build: headers that were compiled in, libraries that were linked."""

from __future__ import annotations

import platform
import re
import subprocess
from functools import cache
from pathlib import Path

import debian_facts

# They come with every compiler. What of libstdc++ is in a product is named by libraries().
OF_COMPILER = re.compile(r"(linux-libc-dev|libc6-dev|lib(gcc|stdc\+\+)-\d+-dev)(-\w+-cross)?|libpython3[\w.]*-dev")
# Their headers declare, and leave nothing in a product.
ONLY_DECLARE = {"libcurl4-openssl-dev", "libexpat1-dev", "libfuse3-dev", "libssl-dev", "libutf8proc-dev", "zlib1g-dev"}


def printed(*words: str | Path) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


@cache
def inputs(build: Path, target: str) -> list[str]:
    """All that a target is made of, directly and indirectly."""
    return printed("ninja", "-C", build, "--quiet", "-t", "inputs", target).split()


@cache
def headers(build: Path, target: str) -> frozenset[str]:
    """Packages of which a product has inline functions and templates."""
    objects = [name for name in inputs(build, target) if name.endswith(".o")]
    listed = printed("ninja", "-C", build, "--quiet", "-t", "deps", *objects)
    owners = debian_facts.owners(set(re.findall(r"^    (/usr/\S+)", listed, re.M)))
    return frozenset(name for name in owners.values()
                     if not OF_COMPILER.fullmatch(name) and name not in ONLY_DECLARE)


def archives(build: Path, target: str) -> list[Path]:
    """Static libraries from outside of the build that a target is linked with."""
    found = [Path(name) for name in inputs(build, target) if name.startswith("/") and name.endswith(".a")]
    # Those that glibc has for programs from before it was one library have nothing in them.
    found = [path for path in found if not path.is_relative_to(build) and path.stat().st_size > len("!<arch>\n")]
    if found:  # portable.cmake then has the compiler's, too; that for another machine type is of the same sources
        found.append(Path(printed("g++", "-print-file-name=libstdc++.a").strip()).resolve())
    return found


def needed(program: Path) -> list[str]:
    """Sonames of shared libraries."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", printed("readelf", "-d", "-W", program))


def machine(program: Path) -> str:
    """As 'uname -m' has it."""
    named = printed("readelf", "-h", program)
    return "aarch64" if "AArch64" in named else "x86_64"


def places(program: Path) -> dict[str, Path]:
    """Where this system has the shared libraries that a program needs, and those that they need; of a program for
    another machine type, its own of the same name."""
    if machine(program) == platform.machine():
        found = re.findall(r"^\s*(\S+) => (/\S+)", printed("ldd", program), re.M)
        return {name: Path(path) for name, path in found}
    folder = Path("/usr/lib", f"{platform.machine()}-linux-gnu")
    return {name: folder / name for name in needed(program) if (folder / name).exists()}


def parts(build: Path) -> Path | None:
    """What portable/parts.sh has made, for this build."""
    found = re.search(r"^RESHARDFS_PORTABLE:PATH=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)
    return Path(found[1]) if found else None


def portable_products(build: Path) -> list[str]:
    """Targets: the program, the engine and the modules, those that were built."""
    found = [*build.glob("portable/bin/reshardfs"), *build.glob("portable/lib/*.so"), *sorted(build.glob("portable/_core*.so"))]
    if not found:
        raise SystemExit(f"{build} has no portable program: build the target 'portable' (packaging/portable.cmake)")
    return [str(path.relative_to(build)) for path in found]


def lines_of(build: Path, name: str) -> list[list[str]]:
    """Words of a list that portable/parts.sh has written."""
    folder = parts(build)
    if folder is None or not (folder / name).exists():
        return []
    return [line.split() for line in (folder / name).read_text().splitlines()]


def of_pypi(build: Path, target: str) -> list[tuple[str, str, Path]]:
    """What of PyPI is compiled into a product: name, version, licence."""
    folder = parts(build)
    if folder is None or not target.startswith("portable/_core"):
        return []
    return [(name, version, folder / name / "LICENSE") for name, version in lines_of(build, "pypi")]


def linked_packages(build: Path, target: str) -> set[str]:
    """Packages of the static libraries that a target is linked with, or of the headers that these belong to."""
    named = {words[0]: words[1] for words in lines_of(build, "sources") + lines_of(build, "taken")}
    linked = archives(build, target)
    names = {named[path.name] for path in linked if path.name in named}
    return names | set(debian_facts.owners(path for path in linked if path.name not in named).values())


def contained(build: Path, target: str) -> list[debian_facts.Package]:
    """Packages of which something is inside a product."""
    return debian_facts.packages(headers(build, target) | linked_packages(build, target))
