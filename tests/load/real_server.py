# SPDX-License-Identifier: Apache-2.0
"""A mount whose source is on a real NFS server, and a cache under a real quota, in a virtual machine of its own: the
server is stopped, restarted and given its disk anew while programs read, and every byte is compared. For machines whose
kernel has neither NFS nor quotas, which containers share.

    real_server.py --package reshardfs_*.deb [--suite bookworm]

As root, with debootstrap, cpio and qemu-system-x86; takes minutes, as the processor is emulated. So it is not one of the
tests."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from base_system import make_system  # noqa: E402
from ckpt_format import Record, encode_checkpoint  # noqa: E402

STEPS = Path(__file__).with_name("real_server_steps.py")
PACKAGES = ("linux-image-cloud-amd64", "nfs-kernel-server", "nfs-common", "quota", "e2fsprogs", "fuse3", "iproute2", "kmod",
            "mount", "procps", "python3", "util-linux")
MODULES = ("virtio_pci", "virtio_blk", "ext4", "fuse", "nfsd", "nfsv4", "quota_v2")
INIT = f"""#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
ln -sf /proc/self/mounts /etc/mtab
for module in {' '.join(MODULES)}; do modprobe "$module"; done
ip link set lo up
python3 -u -B /steps.py
echo "the steps ended with $?"
echo o > /proc/sysrq-trigger
sleep 60
"""
# What the machine does not need, of which memory would be full.
LEFT_OUT = ("./boot", "./usr/share/doc", "./usr/share/locale", "./var/lib/apt", "./var/cache/apt")
SECONDS = 1800


def make_root(root: Path, suite: str, package: Path) -> None:
    make_system(root, suite, package, PACKAGES)
    shutil.copy(STEPS, root / "steps.py")
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    (root / "m.ckpt").write_bytes(encode_checkpoint([Record("w", "UInt8", (1 << 26,), os.urandom(1 << 26))]))


def boot(root: Path, folder: Path) -> str:
    (kernel,) = root.glob("boot/vmlinuz-*")
    left_out = " -o ".join(f"-path {path}" for path in LEFT_OUT)
    subprocess.run(["sh", "-c", rf"find . -xdev \( {left_out} \) -prune -o -print0 | "
                    f"cpio --null --create --format=newc --quiet > {folder}/initrd"], cwd=root, check=True)
    with open(folder / "disk", "wb") as disk:
        disk.truncate(1 << 30)
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "qemu64", "-smp", "2", "-m", "4G", "-kernel", str(kernel),
             "-initrd", f"{folder}/initrd", "-append", "console=ttyS0 quiet panic=-1", "-drive",
             f"file={folder}/disk,format=raw,if=virtio", "-nographic", "-no-reboot", "-nic", "none"]
    said = []
    with subprocess.Popen(["timeout", str(SECONDS), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          errors="replace") as machine:
        assert machine.stdout is not None
        for line in machine.stdout:
            print(line.rstrip(), flush=True)
            said.append(line)
    return "".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description="Mounts a source on a real NFS server, in a virtual machine.")
    parser.add_argument("--package", type=Path, required=True, help="reshardfs_*.deb, made for the suite")
    parser.add_argument("--suite", default="bookworm")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("this needs root")
    for program in ("debootstrap", "cpio", "qemu-system-x86_64"):
        if shutil.which(program) is None:
            parser.error(f"{program} is not installed")
    with tempfile.TemporaryDirectory(prefix="reshardfs-server-") as made:
        folder = Path(made)
        make_root(folder / "root", arguments.suite, arguments.package.resolve())
        said = boot(folder / "root", folder)
    if "the steps ended with 0" not in said:
        sys.exit("the steps have failed (see above)")


if __name__ == "__main__":
    main()
