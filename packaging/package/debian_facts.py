# SPDX-License-Identifier: Apache-2.0
"""What dpkg, apt and the copyright files know of installed packages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# By source package: of libraries whose copyright file speaks of more than the library.
LIBRARY_LICENCES = {
    "fuse3": "LGPL-2.1-only",
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "protobuf": "BSD-3-Clause",
    "pybind11": "BSD-3-Clause",
    "utf8proc": "MIT AND Unicode-DFS-2015",
    "yaml-cpp": "MIT",
}
# Names of Debian's copyright files, in lower case, as SPDX has them.
LICENCE_NAMES = {
    "apache-2.0": "Apache-2.0", "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "curl": "curl",
    "expat": "MIT", "expat with embedded exception": "MIT", "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later",
    "gpl-3": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later", "isc": "ISC", "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later", "mit": "MIT", "zlib": "Zlib",
}
UNKNOWN = "NOASSERTION"
FIELDS = ("binary:Package", "Version", "source:Package", "source:Version", "Architecture", "Maintainer", "Homepage")


@dataclass(frozen=True)
class Package:
    """One that is installed."""

    name: str
    version: str
    source: str
    source_version: str
    architecture: str
    maintainer: str
    homepage: str
    root: Path

    @property
    def copyright_file(self) -> Path | None:
        found = self.root / "usr/share/doc" / self.name / "copyright"
        return found if found.exists() else None

    @property
    def licence(self) -> str:
        """An expression of SPDX, or UNKNOWN."""
        source = re.sub(r"^gcc-\d+$", "gcc", self.source)
        return LIBRARY_LICENCES.get(source) or stated_licence(self.copyright_file)


def stated_licence(copyright_file: Path | None) -> str:
    """That of the stanza 'Files: *', where the file has the machine-readable form."""
    text = copyright_file.read_text("utf-8", "replace") if copyright_file else ""
    if not re.match(r"Format(-Specification)?:", text):
        return UNKNOWN
    found = re.search(r"^Files:\s*\*\s*\n(?:.+\n)*?License:[ \t]*(.+)$", text, re.M)
    return LICENCE_NAMES.get(found[1].strip().lower(), UNKNOWN) if found else UNKNOWN


def printed(*words: str, root: Path = Path("/")) -> str:
    """What a command of dpkg prints of the system below root. No error where it finds only some of the names."""
    where = [] if root == Path("/") else [f"--admindir={root}/var/lib/dpkg"]
    return subprocess.run([words[0], *where, *words[1:]], check=False, capture_output=True, text=True).stdout


def packages(names: Iterable[str] | None = None, root: Path = Path("/")) -> list[Package]:
    """Those of these names; with None, all. Sorted by name."""
    if names is not None and not (names := sorted(set(names))):
        return []
    text = printed("dpkg-query", "-W", "-f=${db:Status-Status}\t" + "\t".join(f"${{{field}}}" for field in FIELDS) + "\n",
                   *(names or ()), root=root)
    found = []
    for line in text.splitlines():
        status, name, *rest = line.split("\t")
        if status == "installed":
            found.append(Package(name.partition(":")[0], *rest, root))
    return sorted(found, key=lambda package: (package.name, package.architecture))


def owners(paths: Iterable[Path | str]) -> dict[str, str]:
    """The package that each file belongs to; files of none are left out."""
    # A file may be listed by its path before /usr was merged.
    wanted = {alias: str(path) for path in paths
              for alias in (str(path), str(path).removeprefix("/usr"), str(Path(path).resolve()),
                            str(Path(path).resolve()).removeprefix("/usr"))}
    found: dict[str, str] = {}
    names = sorted(wanted)
    for start in range(0, len(names), 500):
        for line in printed("dpkg", "-S", *names[start:start + 500]).splitlines():
            listed, _, path = line.rpartition(": ")
            if path in wanted and not line.startswith("diversion "):
                found[wanted[path]] = listed.split(",")[0].partition(":")[0]
    return found


def digests_in_archive(found: Iterable[Package]) -> dict[Package, str]:
    """SHA-256 of each .deb, where apt's lists have this version."""
    wanted = {(package.name, package.version): package for package in found}
    done = subprocess.run(["apt-cache", "show", "--all-versions", *sorted({name for name, _ in wanted})],
                          check=False, capture_output=True, text=True)
    digests = {}
    for record in done.stdout.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|SHA256): (\S+)$", record, re.M))
        package = wanted.get((fields.get("Package", ""), fields.get("Version", "")))
        if package and "SHA256" in fields and fields.get("Architecture") == package.architecture:
            digests[package] = fields["SHA256"]
    return digests
