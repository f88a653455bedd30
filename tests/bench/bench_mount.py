#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a mount against plain files in the same run.

Prints a table and, with --json FILE, the same figures as JSON. The sources are in the page cache,
but for the lines that say "cold". What is called native reads a plain file with the same bytes as
the mounted one. "first" reads the mounted file after the kernel has dropped its pages of it,
"again" with the pages cached. Native and mounted reads take turns, and each figure is the median of
--rounds rounds. With --against, another reshardfs takes turns too.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable, Iterable, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from bench_readers import (  # noqa: E402
    drop_pages,
    load_arrays,
    read_anew,
    read_at_once,
    read_direct,
    read_direct_or_killed,
    read_fresh,
    read_hot,
    read_mapped,
    read_one_mib,
    read_parallel,
    read_small,
)
from bench_sets import MIB, Layout, SourceSet, columns, rows  # noqa: E402
from faulty_source import faulty  # noqa: E402

GIB = 1 << 30
Figures = dict[str, float]


class Samples:
    """Figures of many rounds; gives their medians."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def note(self, key: str, value: float) -> None:
        self._values.setdefault(key, []).append(value)

    def rate(self, key: str, work: Callable[[], int]) -> float:
        """GiB/s of work that tells how many bytes it has read."""
        begin = time.perf_counter()
        count = work()
        rate = count / (time.perf_counter() - begin) / GIB
        self.note(key, rate)
        return rate

    def medians(self) -> Figures:
        return {key: statistics.median(values) for key, values in self._values.items()}


class Mount:
    """A mounted source; ends the daemon and removes the mount point on exit."""

    def __init__(self, binary: str, source: SourceSet, target: pathlib.Path,
                 options: Iterable[str] = (), root: pathlib.Path | None = None) -> None:
        """`root`: where the source is seen, if not in its own place."""
        self.binary = binary
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-mnt-"))
        command = [binary, "mount", str(root or source.root), str(self.path), "--src-strategy",
                   str(source.strategy), "--dst-strategy", str(target), *options]
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

    def rank_file(self, rank: int) -> pathlib.Path:
        return next((self.path / f"rank_{rank}").glob("*.ckpt"))

    def memory_mib(self, key: str) -> float:
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
        raise KeyError(key)

    def cpu_seconds(self) -> float:
        """Of all threads, with a resolution of nanoseconds."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def faults(self) -> int:
        """Pages that were mapped, by all threads so far. On some virtual machines, each costs much."""
        return int(pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[7])

    def counter(self, name: str) -> float:
        """The sum of all its samples."""
        total: float | None = None
        for line in (self.path / ".reshardfs/metrics").read_text().splitlines():
            if line.startswith(f"reshardfs_{name}{{"):
                total = (total or 0) + float(line.rsplit(" ", 1)[1])
        if total is None:
            raise KeyError(name)
        return total

    def __enter__(self) -> "Mount":
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([self.binary, "umount", str(self.path)], check=True)
        self.path.rmdir()


READERS: list[tuple[str, Callable[[pathlib.Path], int]]] = [
    ("hot", read_hot), ("fresh", read_fresh), ("mmap", read_mapped), ("4k", read_small)]

CEILING_READERS = [*READERS,
                   ("16 threads", lambda path: read_parallel(path, 2 * MIB, 16, False)),
                   ("16 threads direct", lambda path: read_parallel(path, 2 * MIB, 16, True))]


# --- measurements ------------------------------------------------------------------------------


def time_to_first_byte(mount: Mount) -> float:
    begin = time.perf_counter()
    with open(mount.rank_file(0), "rb", buffering=0) as file:
        file.read(1)
    return time.perf_counter() - begin


def measure_file(samples: Samples, mount: Mount, label: str) -> None:
    """All kinds of readers of one rank's file, and the daemon's CPU time for a GiB."""
    mounted = mount.rank_file(0)
    size = mounted.stat().st_size
    for name, reader in READERS:
        drop_pages([mounted])
        before = mount.cpu_seconds()
        faults = mount.faults()
        samples.rate(f"{label}{name}", lambda: reader(mounted))
        if name == "hot":
            samples.note(f"{label}cpu_s_per_gib", (mount.cpu_seconds() - before) / size * GIB)
            samples.note(f"{label}faults_per_mib", (mount.faults() - faults) / size * MIB)
            samples.rate(f"{label}again", lambda: read_hot(mounted))


def measure_ranks(samples: Samples, mount: Mount, label: str, ranks: int) -> None:
    """All ranks, one after the other and at once."""
    files = [mount.rank_file(rank) for rank in range(ranks)]
    drop_pages(files)
    samples.rate(f"{label}ranks_in_turn", lambda: sum(read_at_once([file]) for file in files))
    drop_pages(files)
    read = mount.counter("source_read_bytes_total")
    delivered = mount.counter("read_bytes_total")
    samples.rate(f"{label}ranks_at_once", lambda: read_at_once(files))
    samples.note(f"{label}amplification", (mount.counter("source_read_bytes_total") - read) /
                 (mount.counter("read_bytes_total") - delivered))


def case_figures(binaries: dict[str, str], source: SourceSet, target: Layout, rounds: int,
                 options: list[str]) -> Figures:
    """One source under one target; the key of each figure begins with its binary's label."""
    samples = Samples()
    strategy = source.write_strategy("dst", target)
    mounts = {label: Mount(binary, source, strategy, options)
              for label, binary in binaries.items()}
    try:
        for label, mount in mounts.items():
            samples.note(f"{label}mount_s", mount.seconds)
            samples.note(f"{label}first_byte_s", time_to_first_byte(mount))
        plain = source.root / "plain"
        shutil.copyfile(mounts[""].rank_file(0), plain)
        read_hot(plain)
        for _ in range(rounds):
            for name, reader in READERS:
                samples.rate(f"native_{name}", lambda: reader(plain))
            for label, mount in mounts.items():
                measure_file(samples, mount, label)
                measure_ranks(samples, mount, label, target.ranks)
        plain.unlink()
        for label, mount in mounts.items():
            samples.note(f"{label}peak_mib", mount.memory_mib("VmHWM"))
            samples.note(f"{label}anonymous_mib", mount.memory_mib("RssAnon"))
    finally:
        for mount in mounts.values():
            mount.__exit__()
    return samples.medians()


def cold_figures(binary: str, source: SourceSet, target: Layout, rounds: int) -> Figures:
    """Reading all target ranks against reading all source files, none of them cached."""
    samples = Samples()
    os.sync()
    for _ in range(rounds):
        drop_pages(source.files())
        samples.rate("native", lambda: sum(read_hot(file) for file in source.files()))
        for way in ("in_turn", "at_once"):
            with Mount(binary, source, source.write_strategy("dst", target)) as mount:
                files = [mount.rank_file(rank) for rank in range(target.ranks)]
                drop_pages(source.files())
                if way == "at_once":
                    samples.rate(way, lambda: read_at_once(files))
                else:
                    samples.rate(way, lambda: sum(read_hot(file) for file in files))
    return samples.medians()


def direct_figures(binaries: dict[str, str], scratch: pathlib.Path, rounds: int) -> Figures:
    """GiB/s of readers with O_DIRECT, one to eight requests under way for each."""
    samples = Samples()
    for name, source_layout, target in (("rows", rows(8), rows(4)),
                                        ("columns", columns(8), columns(4))):
        source = SourceSet(scratch / "direct", source_layout, 4, (8192, 8192))
        strategy = source.write_strategy("dst", target)
        mounts = {label: Mount(binary, source, strategy) for label, binary in binaries.items()}
        try:
            for _ in range(rounds):
                for label, mount in mounts.items():
                    file = mount.rank_file(0)
                    for block, threads in ((1, 1), (8, 1), (1, 8), (8, 4)):
                        samples.rate(f"{label}{name}_{block}_mib_{threads}_threads",
                                     lambda: read_direct(file, block * MIB, threads))
        finally:
            for mount in mounts.values():
                mount.__exit__()
        shutil.rmtree(source.root)
    return samples.medians()


def reader_figures(binary: str, scratch: pathlib.Path, rounds: int) -> Figures:
    """1, 2 and 4 readers of different ranks and of the same one, and numpy.load."""
    source = SourceSet(scratch / "readers", rows(8), 8, (8192, 8192))
    samples = Samples()
    with Mount(binary, source, source.write_strategy("dst", rows(4)), ["--params"]) as mount:
        files = [mount.rank_file(rank) for rank in range(4)]
        plain = [scratch / f"plain_{rank}" for rank in range(4)]
        for file, copy in zip(files, plain):
            shutil.copyfile(file, copy)
        arrays, plain_arrays = mount.path / "rank_0/params", scratch / "params"
        shutil.copytree(arrays, plain_arrays)
        for _ in range(rounds):
            for count in (1, 2, 4):
                samples.rate(f"native_{count}_ranks", lambda: read_at_once(plain[:count]))
                drop_pages(files)
                samples.rate(f"{count}_ranks", lambda: read_at_once(files[:count]))
                drop_pages(files)
                samples.rate(f"{count}_of_one_rank", lambda: read_at_once(files[:1] * count))
            for block, direct in ((2, False), (2, True), (16, True)):
                # As loaders that stream from many threads, and as those that read aligned into the memory
                # of accelerators. A plain file is read through the page cache, or the disk is measured.
                label = f"16_threads_{block}_mib" + ("_direct" if direct else "")
                samples.rate(f"native_{label}", lambda: read_parallel(plain[0], block * MIB, 16, False))
                drop_pages(files[:1])
                samples.rate(label, lambda: read_parallel(files[0], block * MIB, 16, direct))
            for mode in (None, "r"):
                label = "numpy_mmap" if mode else "numpy"
                samples.rate(f"native_{label}", lambda: load_arrays(plain_arrays, mode))
                drop_pages(arrays.glob("*.npy"))
                samples.rate(label, lambda: load_arrays(arrays, mode))
    shutil.rmtree(source.root)
    for copy in plain:
        copy.unlink()
    shutil.rmtree(plain_arrays)
    return samples.medians()


def mount_figures(binary: str, scratch: pathlib.Path, rounds: int) -> Figures:
    """Seconds to mount 64 ranks x 1,000 parameters, and what the daemon then holds."""
    source = SourceSet(scratch / "many", rows(64), 1000, (64, 512))
    target = source.write_strategy("dst", rows(32))
    samples = Samples()
    for _ in range(rounds):
        with Mount(binary, source, target) as mount:
            samples.note("mount_s", mount.seconds)
            samples.note("first_byte_s", time_to_first_byte(mount))
            samples.note("peak_mib", mount.memory_mib("VmHWM"))
            samples.note("anonymous_mib", mount.memory_mib("RssAnon"))
    shutil.rmtree(source.root)
    return samples.medians()


def metadata_figures(binary: str, scratch: pathlib.Path, rounds: int) -> Figures:
    """Microseconds an entry in a directory of 20,000."""
    entries = 20_000
    source = SourceSet(scratch / "names", rows(1), entries, (1, 8))
    samples = Samples()

    def per_entry(key: str, work: Callable[[], object]) -> None:
        begin = time.perf_counter()
        work()
        samples.note(key, (time.perf_counter() - begin) / entries * 1e6)

    for _ in range(rounds):
        with Mount(binary, source, source.write_strategy("dst", rows(1))) as mount:
            folder = mount.path / "merged/params"
            paths = [folder / f"{name}.npy" for name in source.names]
            per_entry("lookup_us", lambda: [os.stat(path) for path in paths])
            per_entry("lookup_again_us", lambda: [os.stat(path) for path in paths])
            per_entry("readdir_us", lambda: os.listdir(folder))
            per_entry("readdir_again_us", lambda: os.listdir(folder))
    shutil.rmtree(source.root)
    return samples.medians()


def memory_figures(binary: str, scratch: pathlib.Path) -> Figures:
    """The daemon's peak memory after all target ranks of a small and a large source were read."""
    figures = {}
    for label, height in (("256_mib", 1024), ("8_gib", 32768)):
        for way, layout, target in (("8_to_4", columns(8), columns(4)),
                                    ("1_to_8", columns(1), columns(8))):
            source = SourceSet(scratch / label, layout, 4, (height, 65536), sparse=True)
            with Mount(binary, source, source.write_strategy("dst", target)) as mount:
                read_at_once([mount.rank_file(rank) for rank in range(target.ranks)])
                figures[f"peak_mib_{label}_{way}"] = mount.memory_mib("VmHWM")
                figures[f"anonymous_mib_{label}_{way}"] = mount.memory_mib("RssAnon")
            shutil.rmtree(source.root)
    return figures


def ceiling_figures(binary: str, server: str, scratch: pathlib.Path, rounds: int) -> Figures:
    """A rank file of long runs against a FUSE server that answers from a constant buffer."""
    source = SourceSet(scratch / "ceiling", rows(8), 8, (8192, 8192))
    samples = Samples()
    with Mount(binary, source, source.write_strategy("dst", rows(4))) as mount:
        file = mount.rank_file(0)
        place = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-constant-"))
        served = subprocess.Popen([server, str(place), str(file.stat().st_size)])
        try:
            while not os.path.ismount(place):
                time.sleep(0.01)
            constant = place / "constant"
            read_ahead_of(place).write_text(read_ahead_of(mount.path).read_text())
            for _ in range(rounds):
                for label, path in (("constant ", constant), ("mount ", file)):
                    for name, reader in CEILING_READERS:
                        drop_pages([path])
                        samples.rate(label + name, lambda: reader(path))
        finally:
            subprocess.run(["umount", str(place)], check=True)
            served.wait()
            place.rmdir()
    shutil.rmtree(source.root)
    figures = samples.medians()
    for name, _ in CEILING_READERS:
        figures[f"ratio {name}"] = figures[f"mount {name}"] / figures[f"constant {name}"]
    return figures


def read_ahead_of(mountpoint: pathlib.Path) -> pathlib.Path:
    device = mountpoint.stat().st_dev
    return pathlib.Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")


def stalled_figures(binary: str, fault_fs: str, scratch: pathlib.Path) -> Figures:
    """Milliseconds for what the kernel does not have, while half of all source files do not answer,
    and 32 readers through the page cache and 32 past it wait for them; and until these are gone
    when they are killed."""
    readers = 64
    source = SourceSet(scratch / "stalled", rows(readers), 200, (readers, 64 << 10))
    took: dict[str, list[float]] = {}

    def measure(key: str, work: Callable[[], object]) -> None:
        begin = time.perf_counter()
        work()
        took.setdefault(key, []).append((time.perf_counter() - begin) * 1e3)

    with faulty(pathlib.Path(fault_fs), source.root) as slow, \
            Mount(binary, source, source.write_strategy("dst", rows(readers)),
                  ["--params"], root=slow.path) as mount:
        files = [mount.rank_file(rank) for rank in range(readers)]
        slow.forget_pages()
        slow.set(*(f"rank_{rank}/* stall" for rank in range(readers // 2)))
        pool = concurrent.futures.ThreadPoolExecutor(readers)
        waiting = [pool.submit(read_hot, file) for file in files[:readers // 2]]
        killed = [read_direct_or_killed(file) for file in files[:readers // 2]]
        while mount.counter("reads_in_flight") < readers:
            time.sleep(0.01)
        for rank in range(readers):
            folder = mount.path / f"rank_{rank}/params"
            measure("readdir", lambda: os.listdir(folder))
            for name in source.names[:50]:
                path = folder / f"{name}.npy"
                measure("lookup", lambda: os.stat(path))
                measure("open", lambda: os.close(os.open(path, os.O_RDONLY)))
            measure("metrics", (mount.path / ".reshardfs/metrics").read_bytes)
            measure("source_txt", lambda: read_anew(mount.path / "strategy/source.txt"))
        for _ in range(20):
            measure("status", lambda: subprocess.run([binary, "status"], check=False,
                                                     stdout=subprocess.DEVNULL))
        for file in files[readers // 2:]:
            drop_pages([file])
            measure("mib_of_another_source", lambda: os.close(read_one_mib(file)))
        for child in killed:
            os.kill(child, signal.SIGKILL)
            measure("killed", lambda: os.waitpid(child, 0))
        still_waiting = sum(not reader.done() for reader in waiting)
        slow.set()
        for reader in waiting:
            reader.result()
        pool.shutdown()
    shutil.rmtree(source.root)
    figures: Figures = {"readers_waiting": still_waiting}
    for key, values in took.items():
        values.sort()
        figures[f"{key}_p50_ms"] = values[len(values) // 2]
        figures[f"{key}_p99_ms"] = values[len(values) * 99 // 100]
        figures[f"{key}_max_ms"] = values[-1]
    return figures


def job_figures(binary: str, scratch: pathlib.Path, rounds: int) -> Figures:
    """Seconds until all target ranks were read: mounted, and exported first. Sources are cached."""
    samples = Samples()
    for name, layout, target in (("rows", rows(8), rows(4)), ("columns", columns(8), columns(4))):
        source = SourceSet(scratch / "job", layout, 8, (16384, 16384))
        strategy = source.write_strategy("dst", target)
        out = scratch / "exported"
        for file in source.files():
            read_hot(file)
        for _ in range(rounds):
            begin = time.perf_counter()
            with Mount(binary, source, strategy) as mount:
                read_at_once([mount.rank_file(rank) for rank in range(target.ranks)])
            samples.note(f"{name} mount_s", time.perf_counter() - begin)
            begin = time.perf_counter()
            subprocess.run([binary, "export", str(source.root), str(out), "--views", "ranks", "-q",
                            "--src-strategy", str(source.strategy),
                            "--dst-strategy", str(strategy)], check=True)
            read_at_once(sorted(out.glob("rank_*/*.ckpt")))
            samples.note(f"{name} export_s", time.perf_counter() - begin)
            shutil.rmtree(out)
        shutil.rmtree(source.root)
    figures = samples.medians()
    for name in ("rows", "columns"):
        figures[f"{name} ratio"] = figures[f"{name} mount_s"] / figures[f"{name} export_s"]
    return figures


# --- cases and output --------------------------------------------------------------------------


Case = tuple[str, Layout, Layout, tuple[int, int], str, list[str]]


def cases(tensor_bytes: int) -> Iterator[Case]:
    """Name, source and target layout, shape, element type, more options."""

    def shape(width: int, element: int = 1) -> tuple[int, int]:
        return tensor_bytes // width // element, width

    no_cut = (-1, -1)
    yield "rows, 8 to 4", rows(8), rows(4), shape(16384), "UInt8", []
    for run in (32768, 2048, 256, 32):
        # Source slices have `run` bytes of each row; the target's rows hold two of them.
        yield f"columns, 8 to 4, {run} B runs", columns(8), columns(4), shape(run * 8), "UInt8", []
        yield (f"columns, 1 to 8, {run} B of {run * 8} B rows", columns(1), columns(8),
               shape(run * 8), "UInt8", [])
    yield "columns, 2 to 4, 256 B of 512 B rows", columns(2), columns(4), shape(1024), "UInt8", []
    yield "2-D, 2 x 4 to 4 x 2", Layout((2, 4), (1, 0)), Layout((4, 2), (1, 0)), shape(8192), \
        "UInt8", []
    yield "optimizer shard 8 to columns 4", Layout((8,), no_cut, 8), columns(4), shape(4096), \
        "UInt8", []
    yield "pipeline 2 x rows 4 to rows 4", rows(4, 2), rows(4), shape(8192), "UInt8", []
    yield "cast Float32 to BFloat16, rows 8 to 4", rows(8), rows(4), shape(4096, 4), "Float32", \
        ["--cast", "*:fp32->bf16"]
    yield "cast Float32 to Float64, rows 8 to 4", rows(8), rows(4), shape(4096, 4), "Float32", \
        ["--cast", "*:fp32->fp64"]


HEADINGS = ("hot", "again", "fresh", "mmap", "4k", "cpu_s_per_gib", "faults_per_mib",
            "ranks_in_turn", "ranks_at_once", "amplification")


def print_case(name: str, labels: Iterable[str], figures: Figures) -> None:
    for label in labels:
        cells = []
        for key in HEADINGS:
            value = figures[label + key]
            native = figures.get(f"native_{'hot' if key == 'again' else key}")
            cells.append(f"{value:6.2f}" + (f" ({value / native:4.2f})" if native else "       "))
        print(f"{(label + ' ' + name).strip():46} {figures['native_hot']:7.2f} {' '.join(cells)}",
              flush=True)


def print_group(name: str, figures: Figures) -> None:
    for key, value in figures.items():
        print(f"{name + ' ' + key:46} {value:9.3f}", flush=True)


def main() -> None:
    # So that a run which is stopped unmounts too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True, help="the reshardfs program")
    parser.add_argument("--against", help="another one that takes turns with it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tensor-mib", type=int, default=128, help="size of each parameter")
    parser.add_argument("--parameters", type=int, default=8)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--groups", 
                        default="cases,readers,direct,cold,mount,metadata,memory,ceiling,stalled,"
                                "job")
    parser.add_argument("--constant-server", help="the program, for the group 'ceiling'")
    parser.add_argument("--fault-fs", help="the program, for the group 'stalled'")
    parser.add_argument("--mount-option", action="append", default=[],
                        help="for the cases, such as --mount-option=--direct-io")
    parser.add_argument("--scratch", help="a directory for the files; default: the system's")
    parser.add_argument("--json", help="write the figures here too")
    arguments = parser.parse_args()
    binaries = {"": arguments.binary}
    if arguments.against:
        binaries["other "] = arguments.against
    groups = arguments.groups.split(",")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-", dir=arguments.scratch))
    figures: dict[str, Figures] = {}
    try:
        chosen = [case for case in cases(arguments.tensor_mib * MIB) if arguments.only in case[0]]
        if "cases" in groups:
            print("GiB/s, and in brackets the ratio to native\n" + f"{'':46} {'native':>7} " +
                  " ".join(f"{heading[:13]:>13}" for heading in HEADINGS))
        for name, layout, target, shape, dtype, options in chosen:
            if not {"cases", "cold"} & set(groups):
                break
            source = SourceSet(scratch / "set", layout, arguments.parameters, shape, dtype)
            if "cases" in groups:
                figures[name] = case_figures(binaries, source, target, arguments.rounds,
                                             [*options, *arguments.mount_option])
                print_case(name, binaries, figures[name])
            if "cold" in groups and not options:
                cold = cold_figures(arguments.binary, source, target, arguments.rounds)
                figures[f"cold {name}"] = cold
                print_group(f"cold {name}", cold)
            shutil.rmtree(source.root)
        for name, measure in (("readers", reader_figures), ("mount", mount_figures),
                              ("metadata", metadata_figures), ("job", job_figures)):
            if name in groups:
                figures[name] = measure(arguments.binary, scratch, arguments.rounds)
                print_group(name, figures[name])
        if "direct" in groups:
            figures["direct"] = direct_figures(binaries, scratch, arguments.rounds)
            print_group("direct", figures["direct"])
        if "ceiling" in groups and arguments.constant_server:
            figures["ceiling"] = ceiling_figures(arguments.binary, arguments.constant_server,
                                                 scratch, arguments.rounds)
            print_group("ceiling", figures["ceiling"])
        if "stalled" in groups and arguments.fault_fs:
            figures["stalled"] = stalled_figures(arguments.binary, arguments.fault_fs, scratch)
            print_group("stalled", figures["stalled"])
        if "memory" in groups:
            figures["memory"] = memory_figures(arguments.binary, scratch)
            print_group("memory", figures["memory"])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
