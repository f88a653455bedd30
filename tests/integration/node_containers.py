# SPDX-License-Identifier: Apache-2.0
"""A node with containers, as far as mounts see them: namespaces of mounts, processes and networks, a directory of
the node that mounts pass through in one direction or in both, and processes without privileges.

A mount namespace of the test itself is the node's. What is mounted in it ends with the test.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))
HELPER = Path(__file__).resolve().parents[2] / "packaging/deploy/kubernetes/helper"

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from mounted import Settings, is_mounted, scratch, wait_until  # noqa: E402
from own_namespace import let_go_of_copies  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 0x1000, 0x4000, 1 << 18, 1 << 20
# As in the manifests.
SIDECAR, READER = 10001, 1000
DATA = encode_checkpoint([Record("w", "UInt8", (1 << 20,), bytes(range(256)) * 4096)])
FILE = "rank_0/checkpoint_0.ckpt"
SECONDS = 60

# Reads files anew and one that stays open, past the page cache, until `count` is deleted. Writes there how often, and
# ends with a code that is not 0 at the first error or wrong byte.
READS = """
import os, sys, time
path, source, count = sys.argv[1:]
wanted = open(source, "rb").read()
def read(file):
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    got = b"".join(os.pread(file, 1 << 18, at) for at in range(0, len(wanted), 1 << 18))
    assert got == wanted, "other bytes than the source"
stays = os.open(path, os.O_RDONLY)
rounds, told = 0, open(count, "r+")
while os.fstat(told.fileno()).st_nlink:
    read(stays)
    fresh = os.open(path, os.O_RDONLY)
    read(fresh)
    os.close(fresh)
    assert os.listdir(os.path.dirname(path))
    rounds += 1
    os.pwrite(told.fileno(), str(rounds).encode(), 0)
    time.sleep(0.002)
"""


def _mount(source: str, target: str, flags: int) -> None:
    if LIBC.mount(source.encode(), target.encode(), None, flags, None):
        raise OSError(ctypes.get_errno(), "mount", target)


def become_a_node() -> None:
    """@throws OSError where this process has no right to."""
    if LIBC.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    _mount("none", "/", MS_REC | MS_PRIVATE)
    let_go_of_copies()


# In the namespaces of a container.
_IN_PLACE = '''
node=$0
mount -t tmpfs none /run
mkdir /run/reshardfs
mount --rbind "$node" /run/reshardfs
exec "$@"
'''


def as_user(user: int) -> list[str]:
    """Begins a command line. Root is privileged."""
    if user == 0:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
            "--no-new-privs", "--"]


class Container:
    """A process that is the first one of its namespaces."""

    def __init__(self, words: list[str], shared: Path, *, both_ways: bool = False, user: int = 0) -> None:
        """@param shared the directory of the node that is its /run/reshardfs"""
        # What Kubernetes calls Bidirectional and HostToContainer.
        propagation = "unchanged" if both_ways else "slave"
        self.outer = subprocess.Popen(
            ["unshare", "--mount", f"--propagation={propagation}", "--pid", "--fork", "--kill-child",
             "--ipc", "--net", "--uts", "sh", "-ec", _IN_PLACE, str(shared), *as_user(user), *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def first_process(self) -> int:
        children = Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children")
        assert wait_until(lambda: bool(children.read_text()), SECONDS)
        return int(children.read_text())

    def stop(self, number: int) -> tuple[int, str]:
        """@return the code with which it ends, and what it said."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.first_process(), number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        _, said = self.outer.communicate(timeout=SECONDS)
        return self.outer.returncode, said.decode()

    def run(self, words: list[str], user: int) -> int:
        """As a probe does, beside its process. @return the exit code."""
        return subprocess.run(["nsenter", f"--target={self.first_process()}", "--mount", "--pid", *as_user(user), *words],
                              stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=SECONDS).returncode

    def kill(self) -> None:
        """All of it, unless it has ended."""
        if self.outer.poll() is None:
            # Not its parent: setpriv(1) makes a process forget to die with that.
            self.stop(signal.SIGKILL)


class Node:
    """One node, with the directory that helper, sidecar and reader share."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.chmod(0o755)
        self.shared = directory / "node"
        self.mountpoint = self.shared / "mnt"
        self.socket = self.shared / "s/fuse.sock"
        self.source = directory / "m.ckpt"
        self.source.write_bytes(DATA)
        self.count = directory / "count"
        shutil.copy(Settings.binary, directory / "reshardfs")
        self.shared.mkdir()
        _mount(str(self.shared), str(self.shared), MS_BIND)
        _mount("none", str(self.shared), MS_SHARED)
        self.containers: list[Container] = []

    def _run(self, words: list[str], *, both_ways: bool = False, user: int = 0) -> Container:
        container = Container(words, self.shared, both_ways=both_ways, user=user)
        self.containers.append(container)
        return container

    def helper(self, *options: str) -> Container:
        """With the names of the DaemonSet."""
        return self.helper_with([f"--uid={SIDECAR}", f"--gid={SIDECAR}", *options, "/run/reshardfs/mnt",
                                 "/run/reshardfs/s/fuse.sock"])

    def helper_with(self, arguments: list[str]) -> Container:
        return self._run([sys.executable, "-B", str(HELPER / "hand_over.py"), *arguments], both_ways=True)

    def sidecar(self) -> Container:
        return self.sidecar_with(["mount", str(self.source), "--foreground", "--fuse-socket=/run/reshardfs/s/fuse.sock"])

    def sidecar_with(self, arguments: list[str]) -> Container:
        return self._run([str(self.directory / "reshardfs"), *arguments], user=SIDECAR)

    def reader(self) -> Container:
        self.count.write_text("0")
        self.count.chmod(0o666)
        return self._run([sys.executable, "-B", "-c", READS, f"/run/reshardfs/mnt/{FILE}", str(self.source),
                          str(self.count)], user=READER)

    def wait_for_reads(self, reader: Container, more: int = 20) -> None:
        """@throws AssertionError if the reader has ended."""
        before = int(self.count.read_text() or 0)
        assert wait_until(lambda: int(self.count.read_text() or 0) >= before + more
                          or reader.outer.poll() is not None, SECONDS), "the reader waits"
        assert reader.outer.poll() is None, f"the reader has ended: {reader.ended()}"

    def stop_reader(self, reader: Container) -> tuple[int, str]:
        self.count.unlink()
        return reader.ended()

    def wait_for_mount(self, there: bool) -> None:
        """On the node itself."""
        if not wait_until(lambda: is_mounted(self.mountpoint) == there, SECONDS):
            ended = [container.ended() for container in self.containers if container.outer.poll() is not None]
            raise AssertionError(f"mounted: {not there}; containers that have ended: {ended}")


@contextlib.contextmanager
def node() -> Iterator[Node]:
    with scratch() as directory:
        made = Node(directory)
        try:
            yield made
        finally:
            for container in made.containers:
                container.kill()
            while is_mounted(made.mountpoint):
                LIBC.umount2(os.fsencode(made.mountpoint), 2)
            LIBC.umount2(os.fsencode(made.shared), 2)
