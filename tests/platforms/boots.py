# SPDX-License-Identifier: Apache-2.0
"""The program of the tarball under kernels of Debian that this machine does not have, in machines that qemu emulates: each
boots with a few files in memory, and does all that steps.sh does, mounts and a hand-over among it. Prints a table of
what was tried.

    boots.py --packages DIR [CASE...]

DIR has tarballs, as package.sh makes them. A case is one of those that --help lists; default: all of them. Needs Debian's
qemu-system-x86, qemu-system-arm and cpio, and no root. Kernels come from Debian's archive, and are kept in build/boots. A
machine that takes ten minutes for a step has failed.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from platform_cases import KERNELS, Kernel
from platform_sets import Failed, Packages, Row, make_sample, mirror, run

CACHE = Path(__file__).resolve().parents[2] / "build/boots"
SUITES = ("bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid", "experimental")
OF_GUEST = "bookworm"  # its C library and busybox
MINUTES = 10
TOOLS = ("apt-get", "cpio", "dpkg-deb", "setpriv")
MEMORY = "2G"


@dataclass(frozen=True)
class Machine:
    """As Debian and qemu know it."""

    debian: str
    flavours: dict[int, str]  # by KiB of a page
    qemu: tuple[str, ...]
    console: str


MACHINES = {
    "x86_64": Machine("amd64", {4: "cloud-amd64"}, ("qemu-system-x86_64", "-machine", "q35"), "ttyS0"),
    "aarch64": Machine("arm64", {4: "cloud-arm64", 16: "arm64-16k"}, ("qemu-system-aarch64", "-machine", "virt"), "ttyAMA0")}

# Where FUSE is a module, the kernel has none at first.
INIT = """#!/bin/busybox sh
export PATH=/bin:/opt/reshardfs/bin HOME=/work LC_ALL=C
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /mnt
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
end() { echo "boots: $*"; poweroff -f; }
echo  # the firmware has left its line open
echo "boots: kernel $(uname -r) $(uname -m) $(grep -m1 KernelPageSize /proc/self/smaps | tr -dc 0-9)"
if [ -e /fuse.ko ]; then
  said=$(reshardfs mount /work/source /mnt --src-strategy /work/source/src_strategy.ckpt --dst-strategy tp=2 2>&1)
  case "$? $said" in 3*"there is no /dev/fuse"*"reshardfs export"*) ;; *) end "without FUSE: $said" ;; esac
  insmod /fuse.ko
fi
sh -x /work/steps.sh /work mount reshardfs || end failed
end passed
"""


class Archive:
    """Debian's packages of another architecture, with lists that nothing else reads."""

    def __init__(self, architecture: str, work: Path) -> None:
        place = work / f"apt-{architecture}"
        for name in ("lists/partial", "parts", "cache/archives/partial"):
            (place / name).mkdir(parents=True)
        (place / "sources").write_text("".join(f"deb {mirror()} {suite} main\n" for suite in SUITES))
        settings = {"Dir::Etc::SourceList": place / "sources", "Dir::Etc::SourceParts": place / "parts",
                    "Dir::State::Lists": place / "lists", "Dir::Cache": place / "cache", "Dir::State::status": "/dev/null",
                    "APT::Architecture": architecture, "APT::Architectures": architecture, "Acquire::Languages": "none",
                    "APT::Sandbox::User": "root", "Acquire::Retries": 3}
        self.options = [f"--option={name}={value}" for name, value in settings.items()]
        self.folder = CACHE / architecture
        self.folder.mkdir(parents=True, exist_ok=True)
        run("apt-get", *self.options, "update")
        self.names = run("apt-cache", *self.options, "pkgnames", "linux-").split()

    def fetch(self, package: str) -> Path:
        """NAME or NAME/SUITE; apt takes no file again that is there."""
        run("apt-get", *self.options, "download", package, cwd=self.folder)
        return max(self.folder.glob(package.partition("/")[0] + "_*.deb"), key=lambda path: path.stat().st_mtime)

    def release(self, series: str, flavour: str) -> str | None:
        """The newest kernel of a series, or of all of them: what `uname -r` will say."""
        wanted = rf"linux-image-({re.escape(series)}[0-9][\w.+]*(?:-[\w.+]+)?-{flavour})"
        found = [match[1] for name in self.names if (match := re.fullmatch(wanted, name))]
        found.sort(key=lambda release: [int(number) for number in re.findall(r"\d+", release.removesuffix(flavour))])
        return found[-1] if found else None


def unpack_kernel(archive: Archive, release: str, work: Path) -> tuple[Path, Path | None]:
    """The kernel, and its module for FUSE, if that is one. Newer packages are divided."""
    place = work / "kernel"
    place.mkdir()
    for kind in ("image", "binary", "modules"):
        if f"linux-{kind}-{release}" in archive.names:
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive.fetch(f"linux-{kind}-{release}")],
                                  stdout=subprocess.PIPE) as opened:
                subprocess.run(["tar", "-C", place, "-x", "--wildcards", "*/vmlinuz*", "*/fuse.ko*"], stdin=opened.stdout,
                               stderr=subprocess.DEVNULL, check=False)  # it misses what the others have
    module = next(place.rglob("fuse.ko*"), None)
    if module and module.suffix == ".xz":
        module.with_suffix("").write_bytes(lzma.decompress(module.read_bytes()))
        module = module.with_suffix("")
    return next(place.rglob("vmlinuz*")), module


def make_files(archive: Archive, tree: Path, module: Path | None, work: Path) -> Path:
    """What the machine has in its memory, packed for its kernel."""
    root = work / "root"
    for package in ("libc6", "busybox-static"):
        run("dpkg-deb", "-x", archive.fetch(f"{package}/{OF_GUEST}"), root)
    for unused in ("usr", *(str(path.relative_to(root)) for path in root.glob("lib/*/gconv"))):
        shutil.rmtree(root / unused)
    shutil.copytree(tree, root / "opt/reshardfs", symlinks=True)
    make_sample(root / "work")
    if module:
        shutil.copy(module, root / "fuse.ko")
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    packed = work / "files.cpio"
    run("sh", "-euc", 'cd "$0" && find . | cpio --quiet -o -H newc -R 0:0 >"$1"', root, packed)
    return packed


def console(machine: subprocess.Popen[bytes]) -> Iterator[str]:
    """Its lines, until it ends. Only steps of the test count as news: a kernel that hangs may print for ever."""
    assert machine.stdout
    pending, until = b"", time.monotonic() + 60 * MINUTES
    while select.select([machine.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
        block = os.read(machine.stdout.fileno(), 1 << 16)
        if not block:
            return
        *lines, pending = (pending + block).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace").rstrip()
            if text.startswith(("+ ", "boots: ")):
                until = time.monotonic() + 60 * MINUTES
            yield text
    raise Failed(f"no step in {MINUTES} minutes")


def boot(case: Kernel, kernel: Path, files: Path, release: str) -> None:
    machine = MACHINES[case.machine]
    # It ends with this process, however this ends.
    command = ["setpriv", "--pdeathsig", "KILL", *machine.qemu, "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", MEMORY,
               "-nodefaults", "-no-user-config", "-no-reboot", "-nographic", "-serial", "stdio", "-kernel", str(kernel),
               "-initrd", str(files), "-append", f"console={machine.console} panic=-1 quiet"]
    said: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as started:
        try:
            said.extend(console(started))
        except Failed as failure:
            raise Failed("\n".join([f"{case.name}: {failure}", *said[-40:]])) from None
        finally:
            started.kill()
    wanted = f"boots: kernel {release} {case.machine} {case.pages}"
    if wanted not in said or "boots: passed" not in said:
        raise Failed("\n".join([f"{case.name}: no '{wanted}', or not passed", *said[-40:]]))


def try_kernel(case: Kernel, archive: Archive, tree: Path) -> Row | str:
    """Or why it is skipped."""
    machine = MACHINES[case.machine]
    release = archive.release(case.series, machine.flavours[case.pages])
    if release is None:
        return f"Debian's archive has no kernel {case.series}* of the flavour {machine.flavours[case.pages]}"
    with tempfile.TemporaryDirectory(prefix="reshardfs-boot-") as made:
        work = Path(made)
        kernel, module = unpack_kernel(archive, release, work)
        files = make_files(archive, tree, module, work)
        begun = time.monotonic()
        boot(case, kernel, files, release)
        return Row(f"{case.machine}, Linux {release}, pages of {case.pages} KiB", "tarball",
                   f"mount, {time.monotonic() - begun:.0f} s")


def problems(machine: str, packages: Packages) -> Iterator[str]:
    if not packages.tree:
        yield f"there is no tarball for {machine}"
    for tool in (*TOOLS, MACHINES[machine].qemu[0]):
        if not shutil.which(tool):
            yield f"there is no {tool}"


def try_machine(machine: str, cases: list[Kernel], folder: Path, work: Path) -> None:
    packages = Packages(folder, machine, work)
    cannot = "; ".join(problems(machine, packages))
    archive = None
    if not cannot:
        try:
            archive = Archive(MACHINES[machine].debian, work)
        except Failed as failure:
            cannot = f"Debian's archive: {failure}"
    for case in cases:
        result = cannot
        if archive and packages.tree:
            outcome = try_kernel(case, archive, packages.tree)
            if isinstance(outcome, Row):
                print(outcome, flush=True)
                continue
            result = outcome
        print(f"skipped: {case.name}: {result}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", type=Path, required=True)
    names = [case.name for case in KERNELS]
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(names))
    given = parser.parse_args()
    if unknown := set(given.cases) - set(names):
        parser.error(f"no cases: {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # cleans up
    with tempfile.TemporaryDirectory(prefix="reshardfs-boots-") as made:
        print(Row.HEAD, flush=True)
        try:
            for machine in MACHINES:
                cases = [case for case in KERNELS if case.machine == machine and case.name in (given.cases or names)]
                if cases:
                    try_machine(machine, cases, given.packages.resolve(), Path(made))
        except Failed as failure:
            raise SystemExit(f"FAILED: {failure}") from None


if __name__ == "__main__":
    main()
