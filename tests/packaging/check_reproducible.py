# SPDX-License-Identifier: Apache-2.0
"""What can be checked of reproducible packages without a second build: the same build tree gives the same bytes in
another directory, at another time and in another time zone; nothing in a package names the folder of the build; each has
its bill of materials, and the image its labels. That two builds in different directories give the same bytes,
'packaging/package.sh --check' checks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import report

try:
    import jsonschema
except ImportError:
    print("there is no python3-jsonschema")
    sys.exit(77)

EPOCH = 1_700_000_000
LABELS = ("title", "description", "licenses", "vendor", "version", "revision", "created", "url", "source")


def printed(*words: str | Path, **environment: str) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def pack(build: Path, folder: Path, **environment: str) -> dict[str, Path]:
    folder.mkdir(parents=True)
    printed("cpack", "--config", build / "CPackConfig.cmake", "-B", folder, SOURCE_DATE_EPOCH=str(EPOCH), **environment)
    return {path.name: path for path in folder.glob("*.deb")}


def members(package: Path) -> dict[str, tuple[object, ...]]:
    """What of each file of a package shows."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            out: dict[str, tuple[object, ...]] = {}
            for entry in archive:
                file = archive.extractfile(entry) if entry.isfile() else None
                out[entry.name] = (entry.mode, entry.mtime, entry.uid, entry.gid, entry.linkname, file and file.read())
    return out


def difference_problems(first: dict[str, Path], second: dict[str, Path]) -> Iterator[str]:
    if first.keys() != second.keys():
        yield f"packages: {sorted(first)} and {sorted(second)}"
        return
    for name, package in first.items():
        if package.read_bytes() == second[name].read_bytes():
            continue
        one, other = members(package), members(second[name])
        different = sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))
        yield f"{name}: two packages of one build differ in {', '.join(different) or 'the order of files or the control file'}"


def content_problems(package: Path, folders: list[bytes]) -> Iterator[str]:
    found = members(package)
    for path, (mode, mtime, uid, gid, _, content) in found.items():
        if (uid, gid) != (0, 0):
            yield f"{path}: belongs to {uid}:{gid}"
        if int(str(mode)) & 0o022 and content is not None:
            yield f"{path}: mode {mode:o}"
        if int(str(mtime)) > EPOCH:
            yield f"{path}: is newer than SOURCE_DATE_EPOCH"
        for folder in folders:
            if isinstance(content, bytes) and folder in content:
                yield f"{path}: names {folder.decode()}"


def is_binary(name: str) -> bool:
    """Whether a package of this name is installed, and not only its source."""
    return subprocess.run(["dpkg-query", "-W", name], capture_output=True, check=False).returncode == 0


def bill_problems(package: Path, schema: dict[str, object], name: str, needed: set[str]) -> Iterator[str]:
    """Of the one that the package has inside."""
    content = members(package).get(f"./usr/share/doc/{name}/{name}.spdx.json", (b"",))[-1]
    if not content:
        yield "has no bill of materials inside"
        return
    assert isinstance(content, bytes)
    bill = json.loads(content)
    for error in jsonschema.Draft7Validator(schema).iter_errors(bill):
        yield f"SPDX: {'/'.join(map(str, error.absolute_path))}: {error.message}"
    names = {entry["SPDXID"]: entry["name"] for entry in bill["packages"]}
    related = {names[relation["relatedSpdxElement"]]: relation["relationshipType"] for relation in bill["relationships"]
               if relation["relatedSpdxElement"] in names}
    for library in sorted(needed - related.keys()):
        yield f"its bill of materials lacks {library}"
    # What dpkg itself found that the package needs must be in it, by its name or by what it provides.
    installed = sorted(filter(is_binary, related))
    provided = printed("dpkg-query", "-W", "-f=${Provides}\n", *installed) if installed else ""
    there = related.keys() | set(re.findall(r"[a-z0-9][a-z0-9+.-]+", re.sub(r"\(.*?\)", "", provided)))
    depends = printed("dpkg-deb", "-f", package, "Depends").replace("\n", "")
    if "libstdc++6" in depends and "STATIC_LINK" in related.values():
        yield "its bill of materials has static libraries, but it needs the shared ones"
    for library in re.findall(r"(?:^|, )([a-z0-9][a-z0-9+.-]+)", depends):
        if library not in there and not library.endswith("reshardfs"):
            yield f"its bill of materials lacks {library}, on which it depends"


def image_problems(root: Path, folder: Path) -> Iterator[str]:
    """Of an image with one small file, made twice."""
    (folder / "content").write_text("content")
    with tarfile.open(folder / "root.tar", "w") as archive:
        archive.add(folder / "content", "content")
    images = []
    for name in ("image", "deeper/image"):
        image = folder / name / "i.oci.tar"
        image.parent.mkdir(parents=True)
        printed(sys.executable, "-B", root / "packaging/package/oci_image.py", "--version", "1.0", "--architecture", "amd64",
                folder / "root.tar", image, SOURCE_DATE_EPOCH=str(EPOCH), RESHARDFS_URL="https://example.org",
                RESHARDFS_REVISION="abc")
        images.append(image.read_bytes())
    if images[0] != images[1]:
        yield "two images of one system differ"
    with tarfile.open(folder / "image/i.oci.tar") as archive:
        def read(name: str) -> dict:
            file = archive.extractfile(name)
            assert file
            return json.load(file)

        def blob(descriptor: dict) -> dict:
            return read("blobs/" + descriptor["digest"].replace(":", "/"))

        manifest = blob(read("index.json")["manifests"][0])
        labels = blob(manifest["config"])["config"]["Labels"]
    wanted = {f"org.opencontainers.image.{name}" for name in LABELS}
    if wanted != labels.keys() or not all(labels.values()):
        yield f"the image has the labels {labels}"
    recipe = (root / "packaging/deploy/Containerfile").read_text()
    for label in sorted(wanted):
        if f"{label}=" not in recipe:
            yield f"Containerfile: has no label {label}"
    version = re.search(r"^project\(reshardfs VERSION (\S+)", (root / "CMakeLists.txt").read_text(), re.M)
    if not version or f'image.version="{version[1]}"' not in recipe:
        yield "Containerfile: has another version"


def main() -> None:
    arguments = report.arguments("build")
    root, build = arguments.root.resolve(), Path(arguments.build).resolve()
    schema = json.loads((root / "tests/packaging/spdx_schema.json").read_text())
    os.umask(0o022)  # as deb.sh does
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        first = pack(build, folder / "first", TZ="UTC", LC_ALL="C.UTF-8")
        time.sleep(1.1)
        second = pack(build, folder / "another/one", TZ="Asia/Shanghai", LC_ALL="C")
        problems = list(difference_problems(first, second))
        folders = [str(path).encode() for path in (root, build, folder)]
        for name, package in sorted(first.items()):
            of = name.partition("_")[0]
            needed = {"libc6", "nlohmann-json3-dev"} if of != "libreshardfs-dev" else set()
            problems += [f"{name}: {text}" for text in (*content_problems(package, folders),
                                                        *bill_problems(package, schema, of, needed))]
        if not first:
            problems.append("cpack has made no packages")
        problems += image_problems(root, folder)
    report.finish(problems, f"{len(first)} packages, made twice")


main()
