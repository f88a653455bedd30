# SPDX-License-Identifier: Apache-2.0
"""Packages are upgraded and downgraded under systemd while programs read: services hand their mounts over, nobody sees an
error, nothing is restarted or asked, and the packages say what they did. Boots a container of systemd-nspawn on a copy
of this system in memory (an overlay), so that nothing of this system changes.

With --system and --package instead of --build, on a copy of another Debian, with a package made for it: a directory of
debootstrap with systemd, dbus, fuse3, python3 and all that the package depends on."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import report
from debian_versions import newer_version

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "data"), str(TESTS / "integration")]

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from own_namespace import LIBC, copy_of, let_go_of_copies, mount, mount_cgroups  # noqa: E402

SKIP = 77
SECONDS = 540
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
# In the container.
FOLDER = Path("/opt/upgrade")
UNIT = f"""[Unit]
Description=Test of upgrades
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -B {FOLDER}/upgrade_steps.py {FOLDER} {FOLDER}/old.deb {FOLDER}/new.deb
ExecStopPost=/bin/systemctl --no-block --force halt
TimeoutStartSec={SECONDS - 60}
"""


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "needs root for a container"
    for name in ("systemd-nspawn", "dpkg-deb"):
        if shutil.which(name) is None:
            return f"{name} is not installed"
    if not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    if not Path("/lib/systemd/systemd").exists():
        return "systemd is not installed"
    return None


def built_package(build: Path, folder: Path) -> Path:
    done = subprocess.run(["cpack", "--config", str(build / "CPackConfig.cmake"), "-B", str(folder / "pack"),
                           "-D", "CPACK_COMPONENTS_ALL=runtime"], capture_output=True, text=True, check=False)
    found = list((folder / "pack").glob("reshardfs_*.deb"))
    if done.returncode or len(found) != 1:
        raise SystemExit(f"cpack: {done.stdout}{done.stderr}")
    return found[0]


def prepare(root: Path, old: Path, new: Path) -> None:
    folder = root / FOLDER.relative_to("/")
    folder.mkdir(parents=True)
    shutil.copy(old, folder / "old.deb")
    shutil.copy(new, folder / "new.deb")
    shutil.copy(Path(__file__).with_name("upgrade_steps.py"), folder)
    (folder / "m.ckpt").write_bytes(encode_checkpoint([Record("w", "UInt8", (1 << 20,), bytes(range(256)) * 4096)]))
    (root / "etc/systemd/system/upgrade-test.service").write_text(UNIT)
    # Not that of this system, whose programs are none of the container's.
    (root / "etc/machine-id").write_text("")
    (root / "etc/fstab").write_text("")
    # No index of all manual pages after each step.
    (root / "var/lib/man-db/auto-update").unlink(missing_ok=True)
    for path in (root / "usr/local").rglob("*reshardfs*"):
        if path.is_file() or path.is_symlink():
            path.unlink()


def run(root: Path, log: Path) -> dict[str, object]:
    # In a namespace of processes that ends with it: the container's first process ends by no signal but its own rules.
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "unchanged",
             "systemd-nspawn", f"--directory={root}", "--boot", "--register=no", "--keep-unit", "--private-network",
             f"--machine=reshardfs-upgrade-{os.getpid()}", "--bind=/dev/fuse", "--property=DeviceAllow=/dev/fuse",
             "systemd.unit=upgrade-test.service"]
    with open(log, "wb") as out:
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as process:
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                pass
            finally:
                process.kill()
    result = root / FOLDER.relative_to("/") / "result.json"
    if not result.exists():
        raise SystemExit(f"the container gave no result: {log.read_text(errors='replace')[-4000:]}")
    return json.loads(result.read_text())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--system", type=Path, default=Path("/"))
    parser.add_argument("--package", type=Path)
    arguments = parser.parse_args()
    if (arguments.build is None) == (arguments.package is None):
        parser.error("give either --build or --package")
    if problem := why_not():
        print(f"skipped: {problem}")
        sys.exit(SKIP)
    # What is mounted from here on is not seen elsewhere, and ends with this program.
    if LIBC.unshare(CLONE_NEWNS):
        print("skipped: no mount namespace can be made")
        sys.exit(SKIP)
    mount("none", Path("/"), "", flags=MS_REC | MS_PRIVATE)
    let_go_of_copies()
    try:
        mount_cgroups()
    except OSError as error:
        print(f"skipped: {error}")
        sys.exit(SKIP)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="reshardfs-test-") as made:
        folder = Path(made)
        old = built_package(arguments.build.resolve(), folder) if arguments.build else arguments.package.resolve()
        with copy_of(arguments.system.resolve(), folder / "memory") as root:
            prepare(root, old, newer_version(old, folder))
            result = run(root, folder / "log")
    report.finish(result["problems"], f"upgraded and downgraded with readers: {result['figures']}")


main()
