#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mounts for daemons that have no privileges, and hands the descriptor to each over a Unix socket.

As root: listens on SOCKET. When 'reshardfs mount --fuse-socket SOCKET' connects, it opens /dev/fuse,
mounts it at MOUNTPOINT, and sends the descriptor (SCM_RIGHTS). The daemon keeps the connection as long
as it lives. When it has ended, however it did, the mount is taken away, and the next daemon may come.
SIGTERM or SIGINT to this program unmounts, which ends the daemon, too.

    hand_over.py --uid 10001 --gid 10001 /mnt/tp4 /run/reshardfs/tp4.sock &
    setpriv --reuid 10001 --regid 10001 --clear-groups \\
        reshardfs mount ckpt --foreground --fuse-socket /run/reshardfs/tp4.sock --dst-strategy tp=4
"""

import argparse
import contextlib
import os
import signal
import socket
import sys

from mount_descriptor import device_at, mount, unmount


ENDS = {signal.SIGTERM, signal.SIGINT}


def listen(path: str, user: int, group: int) -> socket.socket:
    """A socket that `user` and root may connect to. One that was left at `path` is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(mask)
    os.chown(path, user, group)
    listener.listen()
    return listener


def serve(connection: socket.socket, mountpoint: str, user: int, group: int) -> None:
    """Mounts for one daemon, and unmounts when it has ended."""
    # A signal between mounting and `try` would leave the mount behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        descriptor = mount(mountpoint, user, group)
        device = device_at(mountpoint)
    except OSError:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        raise
    try:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
            socket.send_fds(connection, [b"\0"], [descriptor])
        finally:
            # The mount belongs to the daemon alone: it ends with the last descriptor.
            os.close(descriptor)
        while connection.recv(4096):
            pass
    except OSError as error:
        print(f"hand_over: {mountpoint}: {error.strerror}", file=sys.stderr)
    finally:
        unmount(mountpoint, device)


def end(*_: object) -> None:
    sys.exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uid", type=int, default=0,
                        help="user of the daemons, who may connect and owns the mounts")
    parser.add_argument("--gid", type=int, default=0, help="group of the daemons")
    parser.add_argument("--once", action="store_true", help="end with the first daemon")
    parser.add_argument("mountpoint", metavar="MOUNTPOINT")
    parser.add_argument("socket", metavar="SOCKET")
    arguments = parser.parse_args()
    mountpoint = os.path.realpath(arguments.mountpoint)
    for number in ENDS:
        signal.signal(number, end)
    try:
        # What a helper that was killed has left; a daemon that serves it still ends.
        unmount(mountpoint, device_at(mountpoint, "fuse.reshardfs"))
        with listen(arguments.socket, arguments.uid, arguments.gid) as listener:
            while True:
                connection, _ = listener.accept()
                with connection:
                    serve(connection, mountpoint, arguments.uid, arguments.gid)
                if arguments.once:
                    return
    except OSError as error:
        sys.exit(f"hand_over: {error.filename or arguments.socket}: {error.strerror}")
    finally:
        with contextlib.suppress(OSError):
            os.unlink(arguments.socket)


if __name__ == "__main__":
    main()
