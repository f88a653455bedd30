# SPDX-License-Identifier: Apache-2.0
"""What can be checked of the packages without making them: the bill of materials of what was built has all
that SPDX requires, the copyright file names whose code is in the products, portable packages have a static
library for all that the products need, and the wheel's metadata is complete."""

import email
import email.policy
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import report

try:
    import jsonschema
except ImportError:
    print("there is no python3-jsonschema")
    sys.exit(77)

SYSTEM = re.compile(r"ld-linux.*|libc|libm|libgcc_s|libstdc\+\+|lib[at]san|libubsan")
METADATA = ("Metadata-Version", "Name", "Version", "Summary", "Author", "License", "Requires-Python", "Classifier",
            "Description-Content-Type")


def bill_problems(root, build, targets):
    """The bill of a package that holds the targets."""
    schema = json.loads((root / "tests/packaging/spdx_schema.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "sample.whl")
        package.write_bytes(b"a package")
        subprocess.run([sys.executable, "-B", str(root / "packaging/package/sbom.py"), "--version", "1.0", "--build",
                        str(build), *(word for target in targets for word in ("--target", target)), str(package)],
                       check=True)
        bill = json.loads(Path(folder, "sample.whl.spdx.json").read_text())
    for error in jsonschema.Draft7Validator(schema).iter_errors(bill):
        yield f"SPDX: {'/'.join(map(str, error.absolute_path))}: {error.message}"
    known = [bill["SPDXID"], *(package["SPDXID"] for package in bill["packages"])]
    if len(known) != len(set(known)):
        yield "SPDX: an identifier stands for two packages"
    for relation in bill["relationships"]:
        for place in (relation["spdxElementId"], relation["relatedSpdxElement"]):
            if place not in known:
                yield f"SPDX: a relationship names {place}, which is not in the document"
    for package in bill["packages"]:
        if package["licenseDeclared"] == "NOASSERTION":
            yield f"SPDX: nothing states the licence of {package['name']}: add it to debian_facts.py"
        if not any(package["SPDXID"] in (relation["spdxElementId"], relation["relatedSpdxElement"])
                   for relation in bill["relationships"]):
            yield f"SPDX: {package['name']} relates to nothing"
    if not any(package["name"].startswith("nlohmann-json") for package in bill["packages"]):
        yield "SPDX: a header-only library is missing"


def copyright_problems(root, sources):
    text = (root / "packaging/debian/copyright").read_text()
    named = set(re.findall(r"^Files: ([a-z0-9+.-]+)/", text, re.M))
    used = set(re.findall(r"^License: (.+)$", text, re.M))
    texts = set(re.findall(r"^License: (.+)\n ", text, re.M))
    for name in sorted(sources - named):
        yield f"packaging/debian/copyright: does not name {name}, which is in a product"
    for name in sorted(named - sources):
        yield f"packaging/debian/copyright: names {name}, which is in no product"
    for name in sorted(used - texts):
        yield f"packaging/debian/copyright: has no text of {name}"


def sources_of(facts, names):
    """Source packages, without versions in their names."""
    return {re.sub(r"-\d+$", "", package.source) for package in facts.packages(names)}


def metadata_problems(build):
    (path,) = (build / "python").glob("reshardfs-*.dist-info/METADATA")
    parsed = email.message_from_string(path.read_text(), policy=email.policy.compat32)
    for field in METADATA:
        if not parsed.get(field):
            yield f"METADATA: has no {field}"
    if parsed.defects or not parsed.get_payload().strip():
        yield f"METADATA: {parsed.defects or 'has no description'}"
    for value in parsed.values():
        if value in ("UNKNOWN", "") or "@" in value:
            yield f"METADATA: {value!r} was not replaced"
    try:
        from packaging.metadata import Metadata  # of a newer python3-packaging
    except ImportError:
        return
    Metadata.from_email(path.read_text(), validate=True)


def main():
    arguments = report.arguments("build")
    root, build = arguments.root, Path(arguments.build).resolve()
    sys.path.insert(0, str(root / "packaging/package"))
    import build_facts
    import debian_facts

    modules = sorted(str(path.relative_to(build)) for path in (build / "python/reshardfs").glob("_core*.so"))
    targets = ["bin/reshardfs", *modules]
    problems = [*bill_problems(root, build, targets)]
    made = (root / "packaging/portable/parts.sh").read_text()
    linked = set(re.findall(r"^(?:build_library \S+ (?:lib)?|compile_object |take_library \S+ )([\w-]+)", made, re.M))
    needed = {re.sub(r"\.so[.\d]*$", "", name) for target in targets for name in build_facts.needed(build / target)}
    needed = {re.sub(r"-[\d.]+$", "", name) for name in needed if not SYSTEM.fullmatch(name)}
    # The full one, of which the lite one is a part.
    for name in sorted(needed - {f"lib{name}" for name in linked} - {"libprotobuf"}):
        problems.append(f"packaging/portable/parts.sh: makes no {name}, which the products need")
    # The linker's names of the libraries belong to the packages that have the headers, too.
    libraries = [path for name in linked for path in Path("/usr/lib").glob(f"*/lib{name}.so")]
    contained = set(debian_facts.owners(libraries).values())
    for target in targets:
        contained |= build_facts.headers(build, target)
    sources = sources_of(debian_facts, contained) | {"gcc"}
    if not modules:
        sources.add("pybind11")
    problems += copyright_problems(root, sources)
    if modules:
        problems += metadata_problems(build)
    report.finish(problems, f"{len(sources)} sources of others, {len(linked)} libraries")


main()
