# SPDX-License-Identifier: Apache-2.0
"""Packs what the target `portable` of a build has made into a wheel, for every Python whose module is there:

    bundle_wheel.py BUILD OUTDIR [--metadata BUILD]

It needs nothing but glibc 2.28 or later, and libcurl, which is only loaded for URLs. --metadata: where the Python
module's metadata is, if BUILD is for another machine type.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packaging/package"))
import build_facts  # noqa: E402  (beside package.sh)
import licences  # noqa: E402

GLIBC = "2_28"  # see portable/check_symbols.py


def add_product(source: Path, target: Path, machine: str) -> None:
    """Stripped."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([f"{machine}-linux-gnu-strip", "--strip-unneeded", "-o", target, source], check=True)
    target.chmod(0o755)


def write_wheel(tree: Path, wheel: Path, facts: str) -> None:
    """Every file with the same time, and a list of their hashes."""
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name: str, content: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content)

        for path in sorted(path for path in tree.rglob("*") if path.is_file()):
            name, content = str(path.relative_to(tree)), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
            add(name, content, 0o755 if os.access(path, os.X_OK) else 0o644)
        add(f"{facts}/RECORD", "".join([*record, f"{facts}/RECORD,,\n"]).encode(), 0o644)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--metadata", type=Path)
    given = parser.parse_args()
    build = given.build.resolve()
    (source_facts,) = ((given.metadata or build) / "python").glob("reshardfs-*.dist-info")
    facts = source_facts.name
    products = build_facts.portable_products(build)
    machine = build_facts.machine(build / products[0])
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for product in products:
            add_product(build / product, tree / "reshardfs" / Path(product).relative_to("portable"), machine)
        for path in (ROOT / "python/reshardfs").iterdir():
            if path.suffix in (".py", ".pyi") or path.name == "py.typed":
                shutil.copyfile(path, tree / "reshardfs" / path.name)
        shutil.copytree(ROOT / "config/maps", tree / "reshardfs/share/reshardfs/maps")
        shutil.copytree(source_facts, tree / facts)
        (tree / facts / "licenses").mkdir()
        shutil.copyfile(ROOT / "LICENSE", tree / facts / "licenses/LICENSE")
        for product in products:
            licences.collect(build, product, tree / facts / "licenses")
        tag = f"py3-none-manylinux_{GLIBC}_{machine}"
        (tree / facts / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nGenerator: reshardfs\nRoot-Is-Purelib: false\nTag: {tag}\n")
        (tree / facts / "INSTALLER").unlink(missing_ok=True)
        given.out.mkdir(parents=True, exist_ok=True)
        write_wheel(tree, given.out / f"{facts.removesuffix('.dist-info')}-{tag}.whl", facts)


if __name__ == "__main__":
    main()
