# SPDX-License-Identifier: Apache-2.0
"""Runs reshardfs, and mounts with it, from inside an environment. Runs in old Pythons too."""

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys

from worker import Skip

PROGRAM = os.environ.get("RESHARDFS", "reshardfs")
SECONDS = 120


class Refused(AssertionError):
    """reshardfs ended with an error."""


class Hangs(Exception):
    """A call of the program does not end. Not a TimeoutError, which waiting for a child takes for its end."""


def reshardfs(*words):
    """The standard output; raises if the command fails."""
    command = [PROGRAM] + [str(word) for word in words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=SECONDS, check=False)
    if done.returncode:
        raise Refused("%s: exit code %d: %s" % (" ".join(command), done.returncode,
                                                done.stderr.decode(errors="replace").strip()))
    return done.stdout.decode(errors="replace")


def require_module():
    if "RESHARDFS_MODULE" not in os.environ:
        raise Skip(os.environ.get("RESHARDFS_NO_MODULE", "no module was named"))


def module():
    """The package reshardfs, for this Python."""
    require_module()
    if os.environ["RESHARDFS_MODULE"] not in sys.path:
        sys.path.insert(0, os.environ["RESHARDFS_MODULE"])
    import reshardfs as package

    return package


def unmount(mountpoint):
    """Lazily if need be: MindSpore may map a file for as long as its process lives."""
    gc.collect()
    words = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    try:
        reshardfs("umount", mountpoint)
    except Refused as error:
        if "in use" not in str(error):
            raise
        subprocess.run(words + [str(mountpoint)], stdin=subprocess.DEVNULL, timeout=SECONDS, check=True)


@contextlib.contextmanager
def limited(seconds=60):
    """Ends a call of the program that hangs, by raising Hangs: some of them fork, and their children then wait for
    locks that nobody holds."""
    def ring(*_):
        raise Hangs("no end in sight")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        for child in multiprocessing.active_children():
            child.kill()


@contextlib.contextmanager
def mounted(source, mountpoint, *options):
    mountpoint.mkdir()
    # Its output goes nowhere: a daemon that kept a pipe open would block.
    done = subprocess.run([PROGRAM, "mount", str(source), str(mountpoint)] + [str(word) for word in options],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          timeout=SECONDS, check=False)
    if done.returncode:
        raise Refused("mount %s %s: exit code %d" % (source, " ".join(map(str, options)), done.returncode))
    try:
        yield mountpoint
    finally:
        unmount(mountpoint)
