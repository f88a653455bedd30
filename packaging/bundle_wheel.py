# SPDX-License-Identifier: Apache-2.0
"""Packs a build's Python module and command into a wheel:

    bundle_wheel.py BUILD OUTDIR

What package.sh builds needs nothing but glibc, and libcurl, which is only loaded for URLs. With another
build, the shared libraries that not every Linux has go into the wheel. They get names of their own, so that
no library of the same name that another module has loaded is taken for them; those of the C++ compiler are
then the system's, as PEP 600 has it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packaging/package"))
import licences  # noqa: E402  (beside package.sh)

OF_SYSTEM = re.compile(r"(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s)\.so\.\d+")


def printed(*words: str | Path) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def needed(path: Path) -> list[str]:
    return printed("patchelf", "--print-needed", path).split()


def place_of(library: str, user: Path) -> Path:
    for line in printed("ldd", user).splitlines():
        found = re.match(rf"\s*{re.escape(library)} => (/\S+)", line)
        if found:
            return Path(found[1]).resolve()
    raise SystemExit(f"{user} needs {library}, which is nowhere")


class Bundle:
    """The directory reshardfs/ of the wheel, whose libraries are in lib/."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.libraries: dict[str, str] = {}  # name to its name in the bundle
        self.sources: list[Path] = []  # of these

    def add(self, source: Path, name: str) -> None:
        """A program or a module, with the libraries that it needs."""
        target = self.top / name
        self._copy(source, target)
        target.chmod(0o755)
        self._bind(source, target, "$ORIGIN/" + os.path.relpath("lib", Path(name).parent))

    def _copy(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        printed("strip", "--strip-unneeded", target)

    def _bind(self, source: Path, target: Path, path: str) -> None:
        for library in needed(target):
            if not OF_SYSTEM.fullmatch(library):
                printed("patchelf", "--replace-needed", library, self._library(library, source), target)
        if self.libraries:
            printed("patchelf", "--set-rpath", path, target)

    def _library(self, library: str, user: Path) -> str:
        if library not in self.libraries:
            source = place_of(library, user)
            stem, _, rest = library.partition(".")
            self.sources.append(source)
            digest = hashlib.sha256(source.read_bytes()).hexdigest()[:8]
            name = self.libraries[library] = f"{stem}-{digest}.{rest}"
            target = self.top / "lib" / name
            self._copy(source, target)
            target.chmod(0o755)
            printed("patchelf", "--set-soname", name, target)
            self._bind(source, target, "$ORIGIN")
        return self.libraries[library]

    def glibc(self) -> tuple[int, int]:
        """The oldest one that has all symbols."""
        found = [(2, 17)]
        for path in (*self.top.glob("lib/*"), *self.top.glob("bin/*"), *self.top.glob("*.so")):
            text = printed("objdump", "-T", path)
            found += [(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", text)]
        return max(found)


def write_wheel(tree: Path, wheel: Path, facts: str) -> None:
    """Every file with the same time, and a list of their hashes."""
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
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
    build, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    (source_facts,) = (build / "python").glob("reshardfs-*.dist-info")
    facts = source_facts.name
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        bundle = Bundle(tree / "reshardfs")
        (module,) = (build / "python/reshardfs").glob("_core*.so")
        bundle.add(module.resolve(), module.name)
        bundle.add((build / "bin/reshardfs").resolve(), "bin/reshardfs")
        for path in (ROOT / "python/reshardfs").iterdir():
            if path.suffix in (".py", ".pyi") or path.name == "py.typed":
                shutil.copyfile(path, tree / "reshardfs" / path.name)
        shutil.copytree(ROOT / "config/maps", tree / "reshardfs/share/reshardfs/maps")
        shutil.copytree(source_facts, tree / facts)
        (tree / facts / "licenses").mkdir()
        shutil.copyfile(ROOT / "LICENSE", tree / facts / "licenses/LICENSE")
        licences.collect(build, f"python/reshardfs/{module.name}", bundle.sources, tree / facts / "licenses")
        python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        machine = sysconfig.get_platform().partition("-")[2].replace("-", "_")
        tag = "{}-{}-manylinux_{}_{}_{}".format(python, python, *bundle.glibc(), machine)
        (tree / facts / "WHEEL").write_text(
            f"Wheel-Version: 1.0\nGenerator: reshardfs\nRoot-Is-Purelib: false\nTag: {tag}\n")
        (tree / facts / "INSTALLER").unlink(missing_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        write_wheel(tree, out / f"{facts.removesuffix('.dist-info')}-{tag}.whl", facts)


if __name__ == "__main__":
    main()
