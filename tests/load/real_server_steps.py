# SPDX-License-Identifier: Apache-2.0
"""What real_server.py runs in its virtual machine, which has nothing of the project but the package and m.ckpt."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import threading
import time
from pathlib import Path

SERVED, REMOTE, MOUNT = Path("/srv"), Path("/mnt/nfs"), Path("/mnt/out")
QUOTED = SERVED / "quoted"
FILE = "rank_0/checkpoint_0.ckpt"
MIB = 1 << 20
LONG = 240
NOBODY = "65534"
WANTED = Path("/m.ckpt").read_bytes()
WAYS = {
    "hard": "hard",
    "soft": "soft,timeo=20,retrans=1",
}


def run(command: str, code: int | None = 0) -> str:
    done = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG, check=False)
    assert code is None or done.returncode == code, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def start_server() -> None:
    """Clients of before may come back for ten seconds, instead of ninety."""
    for name in ("nfsv4gracetime", "nfsv4leasetime"):
        run(f"echo 10 > /proc/fs/nfsd/{name}", None)
    run("exportfs -ra && rpc.nfsd --no-udp --no-nfs-version 3 --nfs-version 4.2 4")
    run("pgrep nfsdcld || nfsdcld")
    run("pgrep rpc.mountd || rpc.mountd --no-nfs-version 3 --no-udp")


def stop_server() -> None:
    run("rpc.nfsd 0; exportfs -ua; exportfs -f")


def forget_pages() -> None:
    run("sync; echo 3 > /proc/sys/vm/drop_caches")


class Reading(threading.Thread):
    """A MiB of an open file."""

    def __init__(self, fd: int, at: int) -> None:
        super().__init__()
        self.fd, self.at = fd, at
        self.result = ""
        self.start()

    def run(self) -> None:
        try:
            data = os.pread(self.fd, MIB, self.at)
        except OSError as error:
            self.result = errno.errorcode[error.errno]
        else:
            self.result = "right" if data == WANTED[self.at:self.at + MIB] else "wrong"

    def end(self) -> str:
        self.join(LONG)
        return self.result


def events(log: Path) -> list[str]:
    return [json.loads(line)["event"] for line in log.read_text().splitlines()]


def wait_for(condition, what: str) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def process_of_mount() -> int:
    return int(json.loads((MOUNT / ".reshardfs/status.json").read_text())["pid"])


def outages(way: str, cache: str) -> None:
    run(f"mount -t nfs -o vers=4.2,{WAYS[way]} 127.0.0.1:/ {REMOTE}")
    log = Path("/tmp/log")
    log.unlink(missing_ok=True)
    run(f"rm -rf /tmp/cache; reshardfs mount {REMOTE}/m.ckpt {MOUNT} -v --log-file {log} --log-format json --direct-io {cache}")
    path, process = MOUNT / FILE, process_of_mount()
    fd = os.open(path, os.O_RDONLY)
    assert Reading(fd, 0).end() == "right"
    # Stopped for longer than a read may take without a word in the log.
    forget_pages()
    stop_server()
    readings = [Reading(fd, (20 + i) * MIB) for i in range(4)]
    wait_for(lambda: "source_stalled" in events(log) or all(reading.result for reading in readings), "no stall in the log")
    assert set(os.listdir(MOUNT)) >= {"rank_0", "merged"}
    start_server()
    results = {reading.end() for reading in readings}
    assert results <= ({"right"} if way == "hard" else {"right", "EIO"}), results
    wait_for(lambda: events(log).count("stall_over") == events(log).count("source_stalled"), "no end of the stall")
    assert Reading(fd, 20 * MIB).end() == "right"
    # Restarted between two reads, and with the exported file system mounted anew.
    for between in (":", f"umount {SERVED} && mount -o usrquota /dev/vda {SERVED}"):
        forget_pages()
        stop_server()
        run(between)
        start_server()
        assert Reading(fd, 30 * MIB).end() == "right", between
    # A program that waits can be killed.
    forget_pages()
    stop_server()
    reader = subprocess.Popen(["cat", str(path)], stdout=subprocess.DEVNULL)
    time.sleep(2)
    reader.kill()
    reader.wait(20)
    start_server()
    assert path.read_bytes() == WANTED
    # Replaced on the server: what is open has its bytes as long as the server keeps them, and no others.
    run(f"cp /m.ckpt {SERVED}/new; echo x >> {SERVED}/new; mv {SERVED}/new {SERVED}/m.ckpt")
    forget_pages()
    assert Reading(fd, 40 * MIB).end() in ("right", "ESTALE")
    os.close(fd)
    run(f"cp /m.ckpt {SERVED}/new; mv {SERVED}/new {SERVED}/m.ckpt")
    assert process_of_mount() == process
    run(f"reshardfs umount {MOUNT}; umount {REMOTE}")
    print(f"{way} {cache}: {results}, {events(log)}")


def quota(blocks: int, inodes: int) -> None:
    """As an ordinary user who may have so many KiB, and so many files, beside a source of 64 MiB."""
    run(f"rm -rf {QUOTED}; mkdir -p {QUOTED} {MOUNT}; chown nobody {QUOTED} {MOUNT}")
    run(f"setquota -u nobody 0 {blocks} 0 {inodes} {SERVED}")
    user = f"cd {QUOTED}; HOME={QUOTED} setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"
    log = Path("/run/quota.log")
    log.write_text("")
    log.chmod(0o666)
    run(f"mount -t nfs -o vers=4.2 127.0.0.1:/ {REMOTE}")
    run(f"{user} reshardfs mount {REMOTE}/m.ckpt {MOUNT} -v --log-file {log} --log-format json --direct-io "
        f"--cache-dir {QUOTED}/cache --cache-size 512MiB")
    read = f"{user} cmp {MOUNT}/{FILE} /m.ckpt"
    run(read)
    forget_pages()
    run(read)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["event"] for line in told} <= {"mounted", "cache_failed", "conversion_note", "read_ahead_unset"}, told
    used = int(run(f"du -sk {QUOTED}").split()[0])
    assert 0 < used <= (blocks or used), used
    run(f"{user} reshardfs umount {MOUNT}; umount {REMOTE}")
    if blocks:
        said = run(f"{user} reshardfs export /m.ckpt {QUOTED}/out", 3)
        assert "quota" in said.lower(), said
        assert not (QUOTED / "out" / FILE).exists()
    print(f"quota of {blocks} KiB and {inodes} files: {used} KiB used, {[line['event'] for line in told]}")


def main() -> None:
    print(run("uname -r").strip(), run("reshardfs --version").strip())
    run(f"mkfs.ext4 -q -O quota /dev/vda; mkdir -p {REMOTE} {MOUNT}; mount -o usrquota /dev/vda {SERVED}; cp /m.ckpt {SERVED}")
    Path("/etc/exports").write_text(f"{SERVED} 127.0.0.1(rw,fsid=0,no_root_squash,no_subtree_check,insecure)\n")
    run("mkdir -p /var/lib/nfs/v4recovery; mount -t nfsd nfsd /proc/fs/nfsd; chmod 666 /dev/fuse; chmod 1777 /tmp")
    start_server()
    for way in WAYS:
        for cache in ("", "--cache-dir /tmp/cache"):
            outages(way, cache)
    quota(20_000, 0)
    quota(0, 40)


main()
