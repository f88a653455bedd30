# SPDX-License-Identifier: Apache-2.0
"""The portable packages in systems that have nothing else: the program of the tarball and the wheel, with that system's own
Python, in Debian 11, 12 and 13; and the wheel with every Python of this machine. Prints a table of what was tried.

    test_platforms.py --packages DIR [--suites bullseye,bookworm,trixie] [--modules]

--packages: a folder with a wheel and a tarball, as package.sh makes them. With --build BUILD instead, they are made of
its target `portable`. --modules: also runs the tests of the Python module with each Python; they install packages of PyPI.
A wheel and a tarball of another machine type run with qemu-user, without mounts.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mounted import SKIP, fuse_problem
from platform_cases import PYTHONS, SUITES
from platform_sets import Failed, Packages, Row, make_sample, mirror, run

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build/userlands"
MACHINES = ("x86_64", "aarch64")
# What the tests of the module take, of versions that Python 3.9 has, too.
OF_TESTS = ("numpy", "ml_dtypes", "fsspec", "protobuf<5", "packaging")
MODULE_TESTS = ("tensors", "errors", "options", "files", "staging", "commands", "frameworks", "memory")


def packages_of_build(build: Path, folder: Path) -> None:
    """As package.sh makes them."""
    run(sys.executable, "-B", ROOT / "packaging/bundle_wheel.py", build, folder)
    run("bash", ROOT / "packaging/package/tarball.sh", "0", build, platform.machine(), folder, SOURCE_DATE_EPOCH="1700000000")


class Userland:
    """A minimal Debian with Python, as its own release has it."""

    def __init__(self, suite: str, root: Path) -> None:
        self.root = root
        kept = CACHE / f"{suite}.tar"
        if not kept.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            made = root.with_name(f"{suite}.made")
            run("debootstrap", "--variant=minbase", "--include=python3,python3-venv", suite, made, mirror())
            run("tar", "-C", made, "-cf", kept.with_suffix(".new"), "--exclude=./var/cache/apt", ".")
            kept.with_suffix(".new").rename(kept)
            shutil.rmtree(made)
        root.mkdir()
        run("tar", "-C", root, "-xf", kept)

    def run(self, *words: str) -> str:
        """With /proc, and with FUSE where there is."""
        inside = 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; exec chroot "$0" "$@"'
        return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-euc", inside,
                   self.root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", *words)


def fetch_uv(work: Path) -> Path | None:
    """A folder with uv and uvx, of PyPI. They need nothing but glibc."""
    place = work / "uv"
    run(sys.executable, "-m", "venv", place)
    try:
        run(place / "bin/pip", "--quiet", "--disable-pip-version-check", "install", "uv")
    except Failed as failure:
        print(f"skipped: uvx: {str(failure).splitlines()[-1]}")
        return None
    return place / "bin"


def try_uvx(system: Userland, programs: Path, wheel: Path) -> None:
    """As docs/install.md has it, from nothing."""
    for name in ("uv", "uvx"):
        shutil.copy(programs / name, system.root / "usr/local/bin")
    shown = system.run("/usr/local/bin/uvx", "--offline", "--no-index", "--find-links", "/tmp", "reshardfs", "demo")
    if "exactly the expected bytes" not in shown:
        raise Failed(f"uvx: {shown}")


def try_userland(suite: str, packages: Packages, work: Path, mode: str, uv: Path | None) -> Iterator[Row]:
    case, system = SUITES[suite], Userland(suite, work / suite)
    if (glibc := system.run("ldd", "--version").splitlines()[0].split()[-1]) != case.glibc:
        raise Failed(f"{case.system} is not known to have glibc {glibc}")
    if packages.tree:
        make_sample(system.root / "tmp/tarball")
        shutil.copytree(packages.tree, system.root / "opt/reshardfs", symlinks=True)
        system.run("/tmp/tarball/steps.sh", "/tmp/tarball", mode, "/opt/reshardfs/bin/reshardfs")
        yield Row(case.system, "tarball", mode)
    if packages.wheel:
        make_sample(system.root / "tmp/wheel")
        shutil.copy(packages.wheel, system.root / "tmp")
        system.run("python3", "-m", "venv", "/tmp/venv")
        system.run("/tmp/venv/bin/pip", "--quiet", "install", "--no-index", f"/tmp/{packages.wheel.name}")
        system.run("/tmp/wheel/steps.sh", "/tmp/wheel", mode, "/tmp/venv/bin/reshardfs")
        said = system.run("/tmp/venv/bin/python", "/tmp/wheel/python_steps.py", "/tmp/wheel")
        system.run("/tmp/venv/bin/pip", "--quiet", "uninstall", "-y", "reshardfs")
        if left := list((system.root / "tmp/venv").rglob("*reshardfs*")):
            raise Failed(f"left after removal: {left}")
        if not said.startswith(f"Python {case.python}:"):
            raise Failed(f"{case.system} is not known to have: {said}")
        yield Row(case.system, f"wheel, Python {case.python}", mode)
        if uv:
            try_uvx(system, uv, packages.wheel)
            yield Row(case.system, "wheel, uvx", "demo")
    shutil.rmtree(system.root)


def pythons(wheel: Path) -> dict[str, Path]:
    """Interpreters of this machine for which the wheel has a module."""
    listed = run(sys.executable, "-B", ROOT / "packaging/portable/pythons.py", "--list")
    found = dict(line.split(" ", 1) for line in listed.splitlines())
    named = run(sys.executable, "-m", "zipfile", "-l", wheel)
    return {version: Path(path) for version, path in found.items() if f"/_core.cpython-{version.replace('.', '')}-" in named}


def try_python(version: str, python: Path, wheel: Path, work: Path, with_modules: bool) -> Iterator[Row]:
    place = work / f"venv{version}"
    run(python, "-m", "venv", place)
    run(place / "bin/pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", wheel)
    folder = work / f"python{version}"
    make_sample(folder)
    run(folder / "steps.sh", folder, "files", place / "bin/reshardfs", PATH="/usr/bin:/bin")
    run(place / "bin/python", folder / "python_steps.py", folder, PATH="/usr/bin:/bin")
    yield Row("this machine", f"wheel, Python {version}", "files")
    if not with_modules:
        return
    run(place / "bin/pip", "--quiet", "--disable-pip-version-check", "install", *OF_TESTS)
    beside = ":".join(str(ROOT / name) for name in ("tests/integration", "tests/data", "packaging"))
    (binary,) = place.glob("lib/python*/site-packages/reshardfs/bin/reshardfs")
    for name in MODULE_TESTS:
        run(place / "bin/python", "-B", ROOT / f"tests/python/test_python_{name}.py", "--binary", binary, PYTHONPATH=beside,
            PATH=f"{binary.parent}:{os.environ['PATH']}")
    yield Row("this machine", f"wheel, Python {version}", f"tests of the module: {', '.join(MODULE_TESTS)}")


def try_with_qemu(packages: Packages, tree: Path, work: Path) -> Iterator[Row]:
    emulator = f"qemu-{packages.machine}-static"
    glibc = ROOT / f"build/portable/{packages.machine}/glibc"
    if not shutil.which(emulator) or not glibc.exists():
        print(f"skipped: {packages.machine}: needs {emulator}, and {glibc.relative_to(ROOT)} (packaging/portable/parts.sh)")
        return
    folder = work / "qemu"
    make_sample(folder)
    run(folder / "steps.sh", folder, "files", emulator, "-L", glibc, tree / "bin/reshardfs")
    yield Row(f"{packages.machine}, qemu-user", "tarball, glibc 2.31", "files")


def problems_of_machine() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "systems of their own need root"
    for tool in ("debootstrap", "unshare"):
        if not shutil.which(tool):
            yield f"there is no {tool}"


def rows(given: argparse.Namespace, packages: Packages, work: Path) -> Iterator[Row]:
    if not packages.wheel and not packages.tree:
        return
    if packages.machine != platform.machine():
        if packages.tree:
            yield from try_with_qemu(packages, packages.tree, work)
        return
    problem = fuse_problem()
    if problem:
        print(f"skipped: mounts: {problem}")
    cannot = list(problems_of_machine())
    uv = fetch_uv(work) if packages.wheel and not cannot else None
    for suite in given.suites.split(","):
        if cannot:
            print(f"skipped: {SUITES[suite].system}: {'; '.join(cannot)}")
        else:
            yield from try_userland(suite, packages, work, "files" if problem else "mount", uv)
    if packages.wheel:
        found = pythons(packages.wheel)
        for version in dict.fromkeys((*PYTHONS, *found)):
            if version in found:
                yield from try_python(version, found[version], packages.wheel, work, given.modules)
            else:
                print(f"skipped: Python {version}: it is not here, or the wheel has no module for it")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--modules", action="store_true")
    given = parser.parse_args()
    if given.build and not (given.build / "portable/bin/reshardfs").exists():
        print(f"skipped: {given.build} has no portable products (see CONTRIBUTING.md)")
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix="reshardfs-platforms-") as made:
        work = Path(made)
        folder = given.packages
        if given.build:
            folder = work / "packages"
            packages_of_build(given.build.resolve(), folder)
        try:
            print(Row.HEAD, flush=True)
            for machine in MACHINES:
                for row in rows(given, Packages(folder.resolve(), machine, work), work):
                    print(row, flush=True)
        except Failed as failure:
            raise SystemExit(f"FAILED: {failure}") from None


main()
