# SPDX-License-Identifier: Apache-2.0
"""What of others is in the products of a build: headers that were compiled in, libraries that were linked."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import debian_facts

# They come with every compiler. What of libstdc++ is in a product is named by libraries().
OF_COMPILER = re.compile(r"linux-libc-dev|libc6-dev|lib(gcc|stdc\+\+)-\d+-dev|libpython3[\w.]*-dev")
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
    if found:  # static.cmake then has the compiler's, too
        found.append(Path(printed("g++", "-print-file-name=libstdc++.a").strip()).resolve())
    return found


def needed(program: Path) -> list[str]:
    """Sonames of shared libraries."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", printed("readelf", "-d", "-W", program))


def places(program: Path) -> dict[str, Path]:
    """Where this system has the shared libraries that a program needs, and those that they need."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", printed("ldd", program), re.M)
    return {name: Path(path) for name, path in found}


def static_sources(build: Path) -> dict[str, str]:
    """What static_libraries.sh has compiled: library to the package whose source it took."""
    listed = build.parent / "static/sources"
    return dict(line.split()[:2] for line in listed.read_text().splitlines()) if listed.exists() else {}


def linked_packages(build: Path, target: str) -> set[str]:
    """Packages of the static libraries that a target is linked with, or of the headers that these belong to."""
    compiled = static_sources(build)
    linked = archives(build, target)
    names = {compiled[path.name] for path in linked if path.name in compiled}
    return names | set(debian_facts.owners(path for path in linked if path.name not in compiled).values())


def contained(build: Path, target: str) -> list[debian_facts.Package]:
    """Packages of which something is inside a product."""
    return debian_facts.packages(headers(build, target) | linked_packages(build, target))
