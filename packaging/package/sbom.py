# SPDX-License-Identifier: Apache-2.0
"""Writes a package's bill of materials (SPDX 2.3), beside it as PACKAGE.spdx.json, or as a file that goes into it:

    sbom.py --version VERSION --build BUILD [--target TARGET] [--root DIR] PACKAGE
    sbom.py --version VERSION --build BUILD [--target TARGET] [--depends LIST] [--root DIR] --inside NAME OUT

It lists what is inside the package and what the package needs, as dpkg knows it. --target is the product of
BUILD that the package has; --root a system of Debian that it contains, all of whose packages are listed;
--depends are packages that it needs and that no product shows. What goes into a package has no sum of it, and
none from apt's lists, which differ from machine to machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import build_facts
import debian_facts
from debian_facts import UNKNOWN, Package

COPYRIGHT = "2026 The reshardfs authors"


def identifier(text: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]", "-", text.replace("+", "plus"))


def supplier(maintainer: str) -> str:
    """As dpkg has it: 'Name <address>'."""
    found = re.match(r'"?([^"<]+?)"?\s*<([^>]+)>$', maintainer)
    return f"Organization: Debian, {found[1]} ({found[2]})" if found else UNKNOWN


class Document:
    """Packages, and how they relate."""

    def __init__(self, name: str, version: str, artefact: Path | None) -> None:
        """@param artefact None: the document goes into it."""
        moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
        self.inside = artefact is None
        self.main = identifier("Package-reshardfs")
        own: dict[str, Any] = {
            "SPDXID": self.main, "name": "reshardfs", "versionInfo": version,
            "supplier": "Organization: The reshardfs authors", "downloadLocation": UNKNOWN, "filesAnalyzed": False,
            "licenseConcluded": UNKNOWN, "licenseDeclared": "Apache-2.0", "copyrightText": COPYRIGHT}
        if artefact is not None:
            own["packageFileName"] = artefact.name
            own["checksums"] = [{"algorithm": "SHA256",
                                 "checksumValue": hashlib.sha256(artefact.read_bytes()).hexdigest()}]
        self.packages: dict[str, dict[str, Any]] = {self.main: own}
        self.of_archive: dict[Package, str] = {}
        self.relations: set[tuple[str, str, str]] = {("SPDXRef-DOCUMENT", "DESCRIBES", self.main)}
        self.head = {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
            "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment),
                             "creators": ["Organization: The reshardfs authors", "Tool: packaging/package/sbom.py"]}}

    def _add(self, name: str, version: str, package: Package, kind: str, digest: str) -> str:
        place = identifier(f"Package-{name}")
        entry: dict[str, Any] = {
            "SPDXID": place, "name": name, "versionInfo": version, "supplier": supplier(package.maintainer),
            "downloadLocation": UNKNOWN, "filesAnalyzed": False, "licenseConcluded": UNKNOWN,
            "licenseDeclared": package.licence, "copyrightText": UNKNOWN,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator":
                              f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={kind}"}]}
        if package.homepage:
            entry["homepage"] = package.homepage
        if digest:
            entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": digest}]
        self.packages[place] = entry
        return place

    def binary(self, package: Package) -> str:
        """A package of Debian, as it is installed here."""
        place = self._add(package.name, package.version, package, package.architecture, "")
        self.of_archive[package] = place
        return place

    def source(self, package: Package, digest: str) -> str:
        """A package of sources, which was compiled here."""
        return self._add(package.source, package.source_version, package, "source", digest)

    def of_pypi(self, name: str, version: str) -> str:
        place = identifier(f"Package-{name}")
        self.packages[place] = {
            "SPDXID": place, "name": name, "versionInfo": version, "downloadLocation": UNKNOWN, "filesAnalyzed": False,
            "licenseConcluded": UNKNOWN, "licenseDeclared": debian_facts.LIBRARY_LICENCES[name], "copyrightText": UNKNOWN,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:pypi/{name}@{version}"}]}
        return place

    def relate(self, kind: str, to: str) -> None:
        """What the package does with another; kinds that end in _OF have the other one first."""
        self.relations.add((to, kind, self.main) if kind.endswith("_OF") else (self.main, kind, to))

    def text(self) -> str:
        if not self.inside:
            for package, digest in debian_facts.digests_in_archive(self.of_archive).items():
                self.packages[self.of_archive[package]]["checksums"] = [
                    {"algorithm": "SHA256", "checksumValue": digest}]
        content = {
            "packages": [self.packages[place] for place in sorted(self.packages)],
            "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                              for a, kind, b in sorted(self.relations)]}
        # The same package has the same document.
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        space = uuid.uuid5(uuid.NAMESPACE_URL, f"{self.head['name']}?sha256={digest}")
        whole = {**self.head, **content,
                 "documentNamespace": f"https://spdx.org/spdxdocs/{self.head['name']}-{space}"}
        return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def add_product(document: Document, build: Path, target: str) -> None:
    """What is inside, what it is linked with, and what loads it."""
    # -dev package to the digest of its source
    compiled = {words[1]: words[3].strip("-") for words in build_facts.lines_of(build, "sources")}
    static = build_facts.linked_packages(build, target)
    for package in build_facts.contained(build, target):
        kind = "STATIC_LINK" if package.name in static else "CONTAINS"
        if package.name in compiled:
            document.relate(kind, document.source(package, compiled[package.name]))
        else:
            document.relate(kind, document.binary(package))
    for name, version, _ in build_facts.of_pypi(build, target):
        document.relate("CONTAINS", document.of_pypi(name, version))
    places = build_facts.places(build / target)
    owners = debian_facts.owners(places[name] for name in build_facts.needed(build / target) if name in places)
    for package in debian_facts.packages(owners.values()):
        document.relate("DYNAMIC_LINK", document.binary(package))
    # It is loaded for URLs.
    for package in debian_facts.packages(["libcurl4", "libcurl4t64"]):
        document.relate("OPTIONAL_DEPENDENCY_OF" if static else "DEPENDS_ON", document.binary(package))


def dependencies_of(deb: Path) -> str:
    return subprocess.run(["dpkg-deb", "-f", str(deb), "Depends"], check=True, capture_output=True, text=True).stdout


def add_dependencies(document: Document, depends: str) -> None:
    """What a field Depends names."""
    names = sorted(set(re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)", depends)))
    for package in debian_facts.packages(names):
        if not package.name.endswith("reshardfs"):
            document.relate("DEPENDS_ON", document.binary(package))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--depends", default="")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--inside", metavar="NAME")
    parser.add_argument("path", type=Path, metavar="PACKAGE | OUT")
    given = parser.parse_args()
    document = Document(given.inside or given.path.name, given.version, None if given.inside else given.path)
    for target in given.target:
        add_product(document, given.build.resolve(), target)
    is_deb = not given.inside and given.path.suffix == ".deb"
    add_dependencies(document, dependencies_of(given.path) if is_deb else given.depends)
    if given.root:
        for package in debian_facts.packages(root=given.root):
            if package.name != "reshardfs":
                document.relate("CONTAINS", document.binary(package))
    out = given.path if given.inside else given.path.with_name(given.path.name + ".spdx.json")
    out.write_text(document.text())


if __name__ == "__main__":
    main()
