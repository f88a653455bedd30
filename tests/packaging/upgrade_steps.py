# SPDX-License-Identifier: Apache-2.0
"""What check_upgrade.py runs in a system of its own under systemd: installs, upgrades, downgrades and removes packages
while programs read, and writes what is wrong to a file: upgrade_steps.py FOLDER OLD.deb NEW.deb

Without anything of the project beside it: FOLDER has the packages and the source."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
    rounds += 1
    os.pwrite(told.fileno(), str(rounds).encode(), 0)
    time.sleep(0.005)
"""
CONFIG = """[mount.{name}]
source = "{folder}/m.ckpt"
mountpoint = "/mnt/{name}"
allow-other = {others}
"""
FILE = "rank_0/checkpoint_0.ckpt"
SERVICES = ("a", "b")
MOUNTS = (*SERVICES, "user")
SECONDS = 60
POLICY = Path("/usr/sbin/policy-rc.d")


class Steps:
    def __init__(self, folder: Path, old: str, new: str) -> None:
        self.folder, self.old, self.new = folder, old, new
        self.problems: list[str] = []
        self.readers: dict[str, subprocess.Popen] = {}
        self.figures: dict[str, object] = {}
        self.step = ""

    def expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(f"{self.step}: {problem}")

    def run(self, *words: str, code: int | None = 0) -> str:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)
        self.expect(code is None or done.returncode == code,
                    f"{' '.join(words)}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def configure(self, **others: bool) -> None:
        """The mounts for other users, or not."""
        Path("/etc/reshardfs.toml").write_text("".join(
            CONFIG.format(name=name, folder=self.folder, others=str(others.get(name, True)).lower()) for name in SERVICES))

    def pids(self) -> dict[str, int]:
        return {name: json.loads(Path(f"/mnt/{name}/.reshardfs/status.json").read_text())["pid"] for name in MOUNTS}

    def starts(self) -> dict[str, str]:
        """When each service became active, and how often it was restarted."""
        return {name: self.run("systemctl", "show", "--property=ActiveEnterTimestampMonotonic,NRestarts,ActiveState",
                               f"reshardfs@{name}") for name in SERVICES}

    def count(self, name: str) -> Path:
        return self.folder / f"count-{name}"

    def start_readers(self) -> None:
        for name in MOUNTS:
            self.count(name).write_text("0")
            self.readers[name] = subprocess.Popen(
                [sys.executable, "-c", READS, f"/mnt/{name}/{FILE}", str(self.folder / "m.ckpt"), str(self.count(name))],
                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def rounds(self) -> dict[str, int]:
        return {name: int(self.count(name).read_text() or 0) for name in MOUNTS}

    def wait_for_reads(self) -> None:
        """Every reader goes on."""
        before, end = self.rounds(), time.monotonic() + SECONDS
        while any(self.rounds()[name] < before[name] + 10 for name in MOUNTS) and time.monotonic() < end:
            if any(reader.poll() is not None for reader in self.readers.values()):
                break
            time.sleep(0.02)
        for name, reader in self.readers.items():
            self.expect(reader.poll() is None, f"the reader of {name} has ended")
            self.expect(self.rounds()[name] >= before[name] + 10, f"the reader of {name} waits")

    def stop_readers(self) -> None:
        self.figures["rounds"] = self.rounds()
        for name, reader in self.readers.items():
            self.count(name).unlink()
            _, said = reader.communicate(timeout=SECONDS)
            self.expect(reader.returncode == 0, f"the reader of {name}: {said.decode()}")

    def install(self, package: str, handed_over: tuple[str, ...], step: str) -> str:
        """While the readers read: these services pass to another process, and no other mount does."""
        self.step = step
        pids, starts, begin = self.pids(), self.starts(), time.monotonic()
        output = self.run("dpkg", "--force-unsafe-io", "--install", package)
        self.figures[step] = round(time.monotonic() - begin, 1)
        self.wait_for_reads()
        for name, pid in self.pids().items():
            self.expect((pid != pids[name]) == (name in handed_over),
                        f"{name}: process {pids[name]}, then {pid}: {output}")
            exe = os.readlink(f"/proc/{pid}/exe")
            self.expect((exe == "/usr/bin/reshardfs") == (name in handed_over), f"{name}: runs {exe}")
        for name in SERVICES:
            told = "was handed over" if name in handed_over else "goes on with the former program"
            self.expect(f"reshardfs@{name}.service {told}" in output, f"does not say that {name} {told}: {output}")
        self.expect(self.starts() == starts, f"restarted: {starts}, then {self.starts()}")
        self.expect("'reshardfs reload MOUNTPOINT'" in output, f"does not name the other mount: {output}")
        return output

    def all(self) -> None:
        self.figures["systemd"] = self.run("systemctl", "--version").split()[1]
        self.step = "installation"
        POLICY.unlink(missing_ok=True)
        output = self.run("dpkg", "--install", self.old)
        self.expect("reshardfs:" not in output, f"speaks of mounts where there are none: {output}")
        self.configure()
        for name in MOUNTS:
            Path(f"/mnt/{name}").mkdir(parents=True)
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "start", *(f"reshardfs@{name}" for name in SERVICES))
        self.run("reshardfs", "mount", str(self.folder / "m.ckpt"), "/mnt/user")
        self.start_readers()
        self.wait_for_reads()
        if self.problems:
            return
        self.install(self.new, SERVICES, "upgrade")
        self.install(self.old, SERVICES, "downgrade")
        self.install(self.old, SERVICES, "the same version again")
        self.configure(b=False)
        self.install(self.new, ("a",), "a mount that cannot be handed over")
        self.configure()
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
        self.install(self.old, (), "a machine whose policy forbids it")
        POLICY.unlink()
        self.install(self.new, SERVICES, "the next upgrade")
        self.step = "by hand"
        self.run("reshardfs", "reload", "/mnt/user")
        self.wait_for_reads()
        self.expect(os.readlink(f"/proc/{self.pids()['user']}/exe") == "/usr/bin/reshardfs", "/mnt/user: not handed over")
        self.step = "a crash after upgrades"
        pid = self.pids()["a"]
        os.kill(pid, signal.SIGKILL)
        self.wait_for_reads()
        self.expect(self.pids()["a"] != pid, "the same process")
        self.stop_readers()
        self.step = "removal"
        output = self.run("dpkg", "--purge", "reshardfs")
        self.expect("1 process(es) go on" in output, f"does not speak of the mount that is no service: {output}")
        self.run("umount", "/mnt/user")
        self.expect(" fuse.reshardfs " not in Path("/proc/mounts").read_text(errors="surrogateescape"), "mounts are left")
        left = [str(path) for folder in ("/usr", "/etc", "/var/lib") for path in Path(folder).rglob("*reshardfs*")
                if path.name != "reshardfs.toml" and self.folder not in path.parents]
        self.expect(not left, f"left: {left}")


def main() -> None:
    folder = Path(sys.argv[1])
    steps = Steps(folder, *sys.argv[2:])
    try:
        steps.all()
    except Exception as error:  # whatever it is, the machine outside must learn of it
        steps.problems.append(f"{steps.step}: {type(error).__name__}: {error}")
    if steps.problems:
        with contextlib.suppress(Exception):
            steps.problems.append(steps.run("journalctl", "--no-pager", "--lines=40", "--unit=reshardfs@*", code=None))
    (folder / "result.json").write_text(json.dumps({"problems": steps.problems, "figures": steps.figures}))


main()
