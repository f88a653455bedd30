# SPDX-License-Identifier: Apache-2.0
"""The nodes of cluster_tasks.py: booted systems on one bridge, each a copy in memory of a base system."""

from __future__ import annotations

import contextlib
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from base_system import ENVIRONMENT, LONG, call  # noqa: E402
from own_namespace import CGROUPS, copy_of  # noqa: E402

BRIDGE, HOST, NETWORK = "cluster0", "10.77.0.1", "10.77.0"


def wait_for(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


def make_bridge() -> None:
    """In a network of its own, which ends with the program."""
    call("ip", "link", "set", "lo", "up")
    call("ip", "link", "add", BRIDGE, "type", "bridge")
    call("ip", "address", "add", f"{HOST}/24", "dev", BRIDGE)
    call("ip", "link", "set", BRIDGE, "up")


class Node:
    def __init__(self, name: str, number: int, base: Path, memory: Path) -> None:
        self.name, self.address = name, f"{NETWORK}.{10 + number}"
        self.base, self.memory = base, memory
        self.root, self.changes = memory / "root", memory / "upper"
        self.group = CGROUPS / f"{memory.parent.name}-{name}"
        self.leader = 0
        self._machine: subprocess.Popen[bytes] | None = None

    def boot(self) -> None:
        assert self._machine is None
        self.group.mkdir(exist_ok=True)
        words = ["systemd-nspawn", f"--directory={self.root}", "--boot", "--register=no", "--keep-unit", "--console=pipe",
                 f"--network-bridge={BRIDGE}", f"--machine={self.name}", f"--hostname={self.name}", "--bind=/dev/fuse",
                 "--property=DeviceAllow=/dev/fuse"]
        # Each in a group of its own, below which its services are.
        enter = f"echo $$ > {self.group}/cgroup.procs && exec \"$@\""
        with open(self.memory / "console", "ab") as console:
            self._machine = subprocess.Popen(["sh", "-c", enter, "sh", *words], stdin=subprocess.DEVNULL, stdout=console,
                                             stderr=console)
        wait_for(lambda: self._find_leader() or self._ended(), f"the start of {self.name}")
        assert self.leader, f"{self.name} does not start: {(self.memory / 'console').read_text(errors='replace')}"
        wait_for(lambda: self.says("systemctl is-active basic.target") == "active", self.name)
        wait_for(lambda: f"inet {self.address}/" in self.says("ip address show host0"), f"the address of {self.name}")

    def _ended(self) -> bool:
        return self._machine is not None and self._machine.poll() is not None

    def _find_leader(self) -> bool:
        """The first process of the system, which is a child of systemd-nspawn."""
        assert self._machine is not None
        pid = self._machine.pid
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                ids = Path(f"/proc/{child}/status").read_text().partition("\nNSpid:")[2].partition("\n")[0].split()
                if len(ids) > 1 and ids[-1] == "1":
                    self.leader = int(child)
        return self.leader != 0

    def power_off(self) -> None:
        """As one does: services are stopped, and file systems unmounted."""
        assert self._machine is not None
        self.run("systemctl poweroff", None)
        self._machine.wait(LONG)
        self._machine, self.leader = None, 0

    def kill(self) -> None:
        """With all of its processes."""
        remove_group(self.group)
        if self._machine is not None:
            self._machine.wait(LONG)

    def words(self, command: str) -> list[str]:
        """That run a command of a shell there."""
        return ["nsenter", "--target", str(self.leader), "--all", "env", "-i", *(f"{k}={v}" for k, v in ENVIRONMENT.items()),
                "sh", "-c", f"cd && {command}"]

    def run(self, command: str, code: int | None = 0) -> str:
        """@return what it prints."""
        done = subprocess.run(self.words(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=LONG)
        said = done.stdout + done.stderr
        assert code is None or done.returncode == code, f"{self.name}: {command}: {done.returncode}: {said}"
        return said

    def says(self, command: str) -> str:
        return self.run(command, None).strip()

    def lines(self, command: str) -> list[str]:
        return self.run(command).splitlines()

    def path(self, inside: str) -> Path:
        """A file there, as long as the system runs."""
        return Path(f"/proc/{self.leader}/root{inside}")

    def write(self, inside: str, text: str) -> None:
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def changed(self) -> set[str]:
        """All that the system has beside the base, and whatever is in its temporary file systems."""
        kept = {f"/{path.relative_to(self.changes)}" for path in self.changes.rglob("*")
                if not is_whiteout(path) and not is_folder(self.base / path.relative_to(self.changes))}
        passing = self.lines("find /run /tmp /dev -name '*reshardfs*'")
        return kept | set(passing)


def is_whiteout(path: Path) -> bool:
    """The mark of an overlay for a file of the base that was removed."""
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def remove_group(group: Path) -> None:
    """With what runs in it. Processes that were killed leave it a moment later."""
    def is_gone() -> bool:
        with contextlib.suppress(OSError):
            (group / "cgroup.kill").write_text("1")
            for path in sorted(group.rglob("*"), reverse=True):
                if path.is_dir():
                    path.rmdir()
            group.rmdir()
        return not group.exists()

    wait_for(is_gone, f"the end of the processes in {group}")


def prepare(node: Node) -> None:
    root = node.root
    (root / "etc/machine-id").write_text("")
    (root / "etc/hostname").write_text(f"{node.name}\n")
    (root / "etc/fstab").write_text("")
    folder = root / "etc/systemd/network"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "10-host0.network").write_text(f"[Match]\nName=host0\n[Network]\nAddress={node.address}/24\n")
    call("systemctl", f"--root={root}", "enable", "systemd-networkd", "systemd-networkd-wait-online")
    # They would look for the network of others.
    call("systemctl", f"--root={root}", "mask", "apt-daily.timer", "apt-daily-upgrade.timer")


@contextlib.contextmanager
def booted(base: Path, folder: Path, names: tuple[str, ...]) -> Iterator[list[Node]]:
    """Nodes on copies of the base system, which are in memory alone."""
    with contextlib.ExitStack() as stack:
        nodes = []
        for number, name in enumerate(names, 1):
            memory = folder / name
            stack.enter_context(copy_of(base, memory))
            node = Node(name, number, base, memory)
            prepare(node)
            stack.callback(node.kill)
            node.boot()
            nodes.append(node)
        yield nodes


def copy_in(node: Node, source: Path, inside: str) -> None:
    target = node.path(inside)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(0o644)
