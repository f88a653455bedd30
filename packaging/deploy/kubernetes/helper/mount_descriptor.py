#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mounts for a daemon that has no privileges, such as one in a container.

As root: opens /dev/fuse, mounts it, and runs COMMAND, which inherits the descriptor as number 3, so
that its mount point is /dev/fd/3. Unmounts when COMMAND ends. Unmounting (umount MOUNTPOINT) ends
COMMAND in turn, and so does SIGTERM or SIGINT to this program.

    mount_descriptor.py /mnt/tp4 -- podman run --rm --preserve-fds=1 -v /data/ckpt:/ckpt:ro \\
        reshardfs mount /ckpt /dev/fd/3 --foreground --dst-strategy tp=4
"""

import argparse
import ctypes
import os
import re
import signal
import subprocess
import sys

MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
MNT_DETACH = 2
NUMBER = 3
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(mountpoint: str, user: int, group: int) -> int:
    """Opens /dev/fuse and mounts it at `mountpoint`, for all users of the machine.
    @return the descriptor, which no program inherits."""
    descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = (f"fd={descriptor},rootmode=40000,user_id={user},group_id={group},"
               "default_permissions,allow_other")
    if LIBC.mount(b"reshardfs", os.fsencode(mountpoint), b"fuse.reshardfs",
                  MS_RDONLY | MS_NOSUID | MS_NODEV, options.encode()):
        error = ctypes.get_errno()
        os.close(descriptor)
        raise OSError(error, os.strerror(error), mountpoint)
    return descriptor


def device_at(mountpoint: str, kind: str = "") -> str | None:
    """The device number of what is mounted at `mountpoint`, if it is of that type; looking there could
    wait for the daemon."""
    found = None
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            fields = line.split(" ")
            path = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
            if path == mountpoint:
                # The last one is on top.
                found = fields[2] if kind in ("", fields[fields.index("-") + 1]) else None
    return found


def unmount(mountpoint: str, device: str | None) -> None:
    """Whatever still uses the mount. Leaves alone what has another device number: if unmounting was
    what ended the daemon, something else may be mounted there."""
    if device is not None and device_at(mountpoint) == device:
        LIBC.umount2(os.fsencode(mountpoint), MNT_DETACH)


def main() -> int:
    """@return the exit code of COMMAND, as a shell gives it."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uid", type=int, default=0, help="user that mount(8) names as the owner")
    parser.add_argument("--gid", type=int, default=0, help="group that mount(8) names as the owner")
    parser.add_argument("mountpoint", metavar="MOUNTPOINT")
    parser.add_argument("command", metavar="COMMAND", nargs="+")
    arguments = parser.parse_args()
    mountpoint = os.path.realpath(arguments.mountpoint)
    try:
        descriptor = mount(mountpoint, arguments.uid, arguments.gid)
    except OSError as error:
        sys.exit(f"mount_descriptor: {error.filename}: {error.strerror}")
    device = device_at(mountpoint)
    if descriptor != NUMBER:
        os.dup2(descriptor, NUMBER)
        os.close(descriptor)
    try:
        with subprocess.Popen(arguments.command, pass_fds=(NUMBER,)) as child:
            # The mount belongs to the child alone: it ends with the last descriptor.
            os.close(NUMBER)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda sent, _: child.send_signal(sent))
            code = child.wait()
            return code if code >= 0 else 128 - code
    except OSError as error:
        sys.exit(f"mount_descriptor: {error}")
    finally:
        unmount(mountpoint, device)


if __name__ == "__main__":
    sys.exit(main())
