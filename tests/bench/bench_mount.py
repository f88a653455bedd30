#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a mount against plain files in the same run.

Prints a table and, with --json FILE, the same figures as JSON. All sources are in the page cache.
"native" reads a plain file with the same bytes as the mounted one; "first" reads the mounted file
after the kernel has dropped its pages of it, "again" with the pages cached. Native and mounted
reads take turns, and each figure is the median of --rounds rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time
from typing import Callable, Iterator

MIB = 1 << 20


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def record_header(name: str, shape: list[int], content_bytes: int) -> bytes:
    """A .ckpt record of UInt8 up to its content."""
    dims = b"".join(b"\x08" + varint(d) for d in shape)
    tensor = dims + field(2, b"UInt8") + b"\x1a" + varint(content_bytes)
    tag = field(1, name.encode())
    tensor_length = len(tensor) + content_bytes
    value = tag + b"\x12" + varint(tensor_length)
    return b"\x0a" + varint(len(value) + tensor_length) + value + tensor


def strategy(names: list[str], devices: int, tensor_map: list[int]) -> bytes:
    """A MindSpore strategy that lays all parameters out alike."""

    def dims(number: int, values: list[int]) -> bytes:
        return field(number, b"".join(b"\x08" + varint(v & (1 << 64) - 1) for v in values))

    layouts = dims(1, [devices]) + dims(2, tensor_map) + dims(3, []) + dims(4, [])
    layouts += b"\x28\x00\x30\x00\x38\x00"
    out = b"\x08\x01"
    for name in names:
        out += field(3, field(1, name.encode()) + field(2, layouts))
    return out


class SourceSet:
    """`parameters` tensors of [rows, columns] bytes over `ranks` ranks, cut on rows or columns."""

    def __init__(self, root: pathlib.Path, ranks: int, parameters: int, rows: int, columns: int,
                 cut: str, sparse: bool = False) -> None:
        self.root, self.cut = root, cut
        self.names = [f"model.layers.{i}.weight" for i in range(parameters)]
        height = rows // ranks if cut == "row" else rows
        width = columns // ranks if cut == "column" else columns
        block = os.urandom(MIB)
        for rank in range(ranks):
            folder = root / f"rank_{rank}"
            folder.mkdir(parents=True)
            with open(folder / "net-1_1.ckpt", "wb") as out:
                for name in self.names:
                    out.write(record_header(name, [height, width], height * width))
                    if sparse:
                        out.seek(height * width, os.SEEK_CUR)
                        out.truncate()
                        continue
                    left = height * width
                    while left > 0:
                        out.write(block[:left])
                        left -= min(left, len(block))
        tensor_map = [0, -1] if cut == "row" else [-1, 0]
        (root / "src.ckpt").write_bytes(strategy(self.names, ranks, tensor_map))

    def target(self, ranks: int, cut: str) -> pathlib.Path:
        path = self.root / f"dst_{cut}_{ranks}.ckpt"
        path.write_bytes(strategy(self.names, ranks, [0, -1] if cut == "row" else [-1, 0]))
        return path


class Mount:
    """A mounted source; ends the daemon and removes the mount point on exit."""

    def __init__(self, binary: str, source: SourceSet, target: pathlib.Path,
                 options: list[str] | None = None) -> None:
        self.binary = binary
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-mnt-"))
        command = [binary, "mount", str(source.root), str(self.path), "--src-strategy",
                   str(source.root / "src.ckpt"), "--dst-strategy", str(target), *(options or [])]
        begin = time.perf_counter()
        subprocess.run(command, check=True)
        self.seconds = time.perf_counter() - begin
        self.pid = self._daemon()

    def _daemon(self) -> int:
        for status in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.path).encode() in status.read_bytes().split(b"\0"):
                    return int(status.parent.name)
            except OSError:
                continue
        raise RuntimeError("the daemon is not running")

    def status_kib(self, key: str) -> int:
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
        raise KeyError(key)

    def cpu_seconds(self) -> float:
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> "Mount":
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([self.binary, "umount", str(self.path)], check=True)
        self.path.rmdir()


def read_hot(path: pathlib.Path, block: int = MIB) -> int:
    """Reads the whole file into one buffer that is used again."""
    buffer = bytearray(block)
    total = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    return total


def read_fresh(path: pathlib.Path) -> int:
    """What MindSpore's loader does."""
    return len(path.read_bytes())


def drop_pages(path: pathlib.Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def gib_per_second(work: Callable[[], int]) -> float:
    begin = time.perf_counter()
    count = work()
    return count / (time.perf_counter() - begin) / (1 << 30)


def read_figures(binary: str, source: SourceSet, target: pathlib.Path, rounds: int,
                 scratch: pathlib.Path, options: list[str]) -> dict[str, float]:
    """Medians in GiB/s, daemon CPU seconds a GiB, of one rank file."""
    with Mount(binary, source, target, options) as mount:
        mounted = next((mount.path / "rank_0").iterdir())
        plain = scratch / "plain"
        shutil.copyfile(mounted, plain)
        read_hot(plain)
        samples: dict[str, list[float]] = {}

        def note(key: str, value: float) -> None:
            samples.setdefault(key, []).append(value)

        size = plain.stat().st_size
        for _ in range(rounds):
            note("native", gib_per_second(lambda: read_hot(plain)))
            drop_pages(mounted)
            before = mount.cpu_seconds()
            note("first", gib_per_second(lambda: read_hot(mounted)))
            note("daemon_cpu_s_per_gib", (mount.cpu_seconds() - before) / size * (1 << 30))
            note("again", gib_per_second(lambda: read_hot(mounted)))
            note("native_loader", gib_per_second(lambda: read_fresh(plain)))
            drop_pages(mounted)
            note("loader", gib_per_second(lambda: read_fresh(mounted)))
        plain.unlink()
    return {key: statistics.median(values) for key, values in samples.items()}


def mount_figures(binary: str, scratch: pathlib.Path, rounds: int) -> dict[str, float]:
    """Seconds to mount 64 ranks x 1,000 parameters, and what the daemon then holds."""
    source = SourceSet(scratch / "many", 64, 1000, 64, 512, "row")
    target = source.target(32, "row")
    seconds, memory = [], 0
    for _ in range(rounds + 1):
        with Mount(binary, source, target) as mount:
            seconds.append(mount.seconds)
            memory = mount.status_kib("VmHWM")
    shutil.rmtree(source.root)
    return {"mount_s": statistics.median(seconds[1:]), "daemon_peak_mib": memory / 1024}


def memory_figures(binary: str, scratch: pathlib.Path) -> dict[str, float]:
    """The daemon's peak memory after all target ranks of a small and a large source were read."""
    figures = {}
    for label, rows in (("256_mib", 32768 // 32), ("8_gib", 32768)):
        source = SourceSet(scratch / label, 8, 4, rows, 65536, "column", sparse=True)
        with Mount(binary, source, source.target(4, "column")) as mount:
            for file in sorted(mount.path.glob("rank_*/*")):
                read_hot(file)
            figures[f"peak_mib_{label}"] = mount.status_kib("VmHWM") / 1024
            figures[f"anonymous_mib_{label}"] = mount.status_kib("RssAnon") / 1024
        shutil.rmtree(source.root)
    return figures


def cases(quick: bool) -> Iterator[tuple[str, dict[str, object], tuple[int, str]]]:
    scale = 4 if quick else 1
    yield "row split, 8 to 4", {"ranks": 8, "parameters": 8, "rows": 8192 // scale,
                                "columns": 16384, "cut": "row"}, (4, "row")
    for run in (32768, 2048, 256, 32):
        # Source slices have `run` bytes of each row; the target's rows hold two of them.
        columns = run * 8
        rows = 128 * MIB // columns // scale
        yield f"column split, 8 to 4, {run} B runs", {
            "ranks": 8, "parameters": 8, "rows": rows, "columns": columns,
            "cut": "column"}, (4, "column")
        yield f"column split, 1 to 8, {run} B of {columns} B rows", {
            "ranks": 1, "parameters": 8, "rows": rows, "columns": columns,
            "cut": "column"}, (8, "column")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True, help="the reshardfs program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a quarter of the bytes")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--direct-io", action="store_true", help="mount with --direct-io")
    parser.add_argument("--json", help="write the figures here too")
    arguments = parser.parse_args()
    options = ["--direct-io"] if arguments.direct_io else []
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-"))
    figures: dict[str, dict[str, float]] = {}
    try:
        print(f"{'GiB/s (medians)':48} {'native':>7} {'first':>7} {'again':>7}  "
              f"{'first/native':>12} {'loader/native':>13} {'cpu s/GiB':>9}")
        for name, shape, (ranks, cut) in cases(arguments.quick):
            if arguments.only not in name:
                continue
            source = SourceSet(scratch / "set", **shape)  # type: ignore[arg-type]
            row = read_figures(arguments.binary, source, source.target(ranks, cut),
                               arguments.rounds, scratch, options)
            shutil.rmtree(source.root)
            figures[name] = row
            print(f"{name:48} {row['native']:7.2f} {row['first']:7.2f} {row['again']:7.2f}  "
                  f"{row['first'] / row['native']:12.2f} "
                  f"{row['loader'] / row['native_loader']:13.2f} "
                  f"{row['daemon_cpu_s_per_gib']:9.2f}", flush=True)
        if not arguments.only:
            figures["mount"] = mount_figures(arguments.binary, scratch, arguments.rounds)
            figures["memory"] = memory_figures(arguments.binary, scratch)
            for group in ("mount", "memory"):
                for key, value in figures[group].items():
                    print(f"{group + ' ' + key:48} {value:7.2f}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
