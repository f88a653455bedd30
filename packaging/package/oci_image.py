# SPDX-License-Identifier: Apache-2.0
"""Makes an image of a root file system, as podman, skopeo and docker load it (an archive of the OCI layout):

    oci_image.py --version VERSION --architecture ARCHITECTURE ROOT.tar IMAGE.oci.tar
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

LABELS = {"title": "reshardfs", "description": "Mounts a distributed checkpoint under another parallel strategy",
          "licenses": "Apache-2.0", "vendor": "The reshardfs authors"}
CONFIG = {"User": "10001:10001", "Entrypoint": ["reshardfs"], "Cmd": ["--help"],
          "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}


class Layout:
    """A folder of blobs, named by their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = folder / "blobs/sha256"
        self.blobs.mkdir(parents=True)

    def add_json(self, content: dict[str, Any], kind: str) -> dict[str, Any]:
        made = self.folder / "new"
        made.write_text(json.dumps(content, sort_keys=True, separators=(",", ":")))
        return self.add_file(made, kind)

    def add_file(self, path: Path, kind: str) -> dict[str, Any]:
        digest, size = digest_of(path), path.stat().st_size
        path.rename(self.blobs / digest)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": size}


def digest_of(path: Path) -> str:
    hashed = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


def compress(source: Path, target: Path) -> None:
    """Without name and time."""
    with open(source, "rb") as file, open(target, "wb") as raw, \
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=9) as out:
        shutil.copyfileobj(file, out, 1 << 20)


def pack(folder: Path, image: Path, moment: int) -> None:
    with tarfile.open(image, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.mtime = moment
            if path.is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            else:
                entry.size = path.stat().st_size
                with open(path, "rb") as file:
                    archive.addfile(entry, file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--architecture", required=True)
    parser.add_argument("root", type=Path)
    parser.add_argument("image", type=Path)
    given = parser.parse_args()
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    labels = LABELS | {"version": given.version, "created": created}
    if url := os.environ.get("RESHARDFS_URL"):
        labels |= {"url": url, "source": url}
    if revision := os.environ.get("RESHARDFS_REVISION"):
        labels["revision"] = revision
    labels = {f"org.opencontainers.image.{name}": value for name, value in labels.items()}
    with tempfile.TemporaryDirectory(dir=given.image.parent) as temporary:
        layout = Layout(Path(temporary, "layout"))
        packed = layout.folder / "layer"
        compress(given.root, packed)
        layer = layout.add_file(packed, "layer.v1.tar+gzip")
        config = layout.add_json({
            "architecture": given.architecture, "os": "linux", "created": created, "config": CONFIG | {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest_of(given.root)}"]},
            "history": [{"created": created, "created_by": "packaging/package.sh"}]}, "config.v1+json")
        manifest = layout.add_json({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
            "layers": [layer], "annotations": labels}, "manifest.v1+json")
        name = f"localhost/reshardfs:{given.version}"  # podman takes the first one, containerd the second
        manifest["annotations"] = {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name}
        manifest["platform"] = {"architecture": given.architecture, "os": "linux"}
        (layout.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        (layout.folder / "index.json").write_text(json.dumps(
            {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]},
            sort_keys=True))
        pack(layout.folder, given.image, moment)


if __name__ == "__main__":
    main()
