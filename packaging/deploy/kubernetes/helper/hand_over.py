#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mounts for daemons that have no privileges, and hands the descriptor to each over a Unix socket.

As root: listens on SOCKET. When 'reshardfs mount --fuse-socket SOCKET' connects, it opens /dev/fuse,
mounts it at MOUNTPOINT, and sends the descriptor (SCM_RIGHTS). The daemon keeps the connection as long
as it lives. When it has ended, however it did, the mount is taken away, and the next daemon may come.
SIGTERM or SIGINT to this program unmounts, which ends the daemon, too.

With --keep, a mount outlives this program: SIGTERM and SIGINT leave it to its daemon, and the next
program that is started with --keep and these names takes it over. It waits until this one has ended.

    hand_over.py --uid 10001 --gid 10001 /mnt/tp4 /run/reshardfs/tp4.sock &
    setpriv --reuid 10001 --regid 10001 --clear-groups \\
        reshardfs mount ckpt --foreground --fuse-socket /run/reshardfs/tp4.sock --dst-strategy tp=4
"""

import argparse
import contextlib
import errno
import fcntl
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator

from mount_descriptor import device_at, mount, unmount


ENDS = {signal.SIGTERM, signal.SIGINT}
TYPE = "fuse.reshardfs"
# How soon the end of a daemon is noticed whose connection another helper had.
LOOK_SECONDS = 0.5


def make_directories(mountpoint: str, path: str, user: int, group: int) -> None:
    """The mount point, and the directory of the socket, which only `user` and root may enter."""
    # Not makedirs(): it would look into a mount whose daemon has ended.
    with contextlib.suppress(FileExistsError):
        os.mkdir(mountpoint)
    folder = os.path.dirname(path)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    os.chown(folder, user, group)
    os.chmod(folder, 0o700)


@contextlib.contextmanager
def alone(path: str) -> Iterator[None]:
    """Waits until no other program that keeps mounts uses this socket."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def listening(path: str, user: int, group: int) -> Iterator[socket.socket]:
    """A socket that `user` and root may connect to. One that was left at `path` is replaced."""
    # It gets its name when it is ready: a daemon that connects is never refused.
    made = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(made)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            mask = os.umask(0o177)
            try:
                listener.bind(made)
            finally:
                os.umask(mask)
            os.chown(made, user, group)
            listener.listen()
            os.rename(made, path)
            yield listener
    finally:
        for name in (made, path):
            with contextlib.suppress(OSError):
                os.unlink(name)


def is_served(mountpoint: str) -> bool:
    """Whether a daemon answers for what is mounted there. Waits as long as the daemon does."""
    try:
        os.statvfs(mountpoint)  # nothing keeps the answer: each one is the daemon's
    except OSError as error:
        return error.errno not in (errno.ENOTCONN, errno.ECONNABORTED)
    return True


def take_over(mountpoint: str, keep: bool) -> None:
    """Unmounts what another helper has left; with `keep`, when its daemon has ended."""
    device = device_at(mountpoint, TYPE)
    if device is None:
        return
    while keep and device_at(mountpoint, TYPE) == device and is_served(mountpoint):
        time.sleep(LOOK_SECONDS)
    unmount(mountpoint, device)


def lives(connection: socket.socket) -> bool:
    """Whether the daemon has its end still."""
    try:
        return connection.recv(4096, socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def serve(connection: socket.socket, mountpoint: str, user: int, group: int, keep: bool) -> None:
    """Mounts for one daemon, and unmounts when it has ended; with `keep`, not when this program ends first."""
    # A signal between mounting and `try` would leave the mount behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        descriptor = mount(mountpoint, user, group)
        device = device_at(mountpoint)
    except OSError:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        raise
    sent = False
    try:
        try:
            socket.send_fds(connection, [b"\0"], [descriptor])
            sent = True
        finally:
            # The mount belongs to the daemon alone: it ends with the last descriptor.
            os.close(descriptor)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        while connection.recv(4096):
            pass
    except OSError as error:
        print(f"hand_over: {mountpoint}: {error.strerror}", file=sys.stderr)
    finally:
        if not (keep and sent and lives(connection)):
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
    parser.add_argument("--keep", action="store_true",
                        help="leave the mount to its daemon at the end, and take over such a mount")
    parser.add_argument("--make-directories", action="store_true",
                        help="make MOUNTPOINT, and the directory of SOCKET for the user of the daemons alone")
    parser.add_argument("mountpoint", metavar="MOUNTPOINT")
    parser.add_argument("socket", metavar="SOCKET")
    arguments = parser.parse_args()
    mountpoint = os.path.realpath(arguments.mountpoint)
    for number in ENDS:
        signal.signal(number, end)
    try:
        if arguments.make_directories:
            make_directories(mountpoint, arguments.socket, arguments.uid, arguments.gid)
        with contextlib.ExitStack() as held:
            if arguments.keep:
                held.enter_context(alone(arguments.socket))
            listener = held.enter_context(listening(arguments.socket, arguments.uid, arguments.gid))
            # Daemons that connect meanwhile wait. Without --keep, a daemon that serves still ends.
            take_over(mountpoint, arguments.keep)
            while True:
                connection, _ = listener.accept()
                with connection:
                    serve(connection, mountpoint, arguments.uid, arguments.gid, arguments.keep)
                if arguments.once:
                    return
    except OSError as error:
        sys.exit(f"hand_over: {error.filename or arguments.socket}: {error.strerror}")


if __name__ == "__main__":
    main()
