#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what commands cost as the number of tensors grows.

Each set of 10^4, 10^5 and 10^6 small tensors has the names of a mixture of experts with the states
of its optimizer. The commands are inspect, plan, mount, verify, 'map check' with a map that is written for
these names, and "open": import and reshardfs.open in a Python that PYTHONPATH shows the module. Python's own start
is printed beside. "safetensors" is a model in safetensors files, shown as such, and "ckpt" the same
shown as .ckpt files; "ranks" are the .ckpt files of 8 ranks with rows of each tensor, shown to 4.
Prints a line for each command and size: seconds (the median and the range of --rounds), seconds of
processor, the highest memory of the process, and, for a mount, the memory that it holds afterwards,
in all and for each tensor. "of plan" compares the seconds of processor with those of plan, which depend less
on what else the machine does, and "exponent" says how they grow from the size before: 1 is linear. With
--against, another reshardfs takes turns.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from typing import Callable, Iterator

from bench_sets import record_header, rows, write_strategy

# Of tensors: a header holds fewer than 100,000,000 bytes, some 120 for each. The file that shows
# the model of "safetensors" holds all of them.
IN_A_FILE = 500_000
RANKS, TARGET_RANKS = 8, 4
ROWS, COLUMNS = 8, 2
ELEMENT = 4
# Of the names below: each gate becomes one tensor with its up.
MAP = """
[sides]
from = "this"
to = "that"
[[map]]
to = "layers.{layer}.attention.{p:q|k|v|o}"
from = "model.layers.{layer}.self_attn.{p:q|k|v|o}_proj.weight"
[[map]]
to = "layers.{layer}.router"
from = "model.layers.{layer}.mlp.gate.weight"
[[map]]
to = "layers.{layer}.experts.{expert}.w13"
from = ["model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight",
        "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"]
ops = ["concat 0"]
[[map]]
to = "left.{number}"
from = "left.{number}.weight"
[[map]]
to = "layers.{layer}.experts.{expert}.w2"
from = "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight"
"""
# Prints what the processor did for Python itself, for the import and for the call.
OPEN = """
import sys, time
marks = [time.process_time()]
import reshardfs
marks.append(time.process_time())
len(reshardfs.open(sys.argv[1], **eval(sys.argv[2])).merged)
marks.append(time.process_time())
print(marks[0], marks[1] - marks[0], marks[2] - marks[1])
"""
# The others are compared with the first one.
COMMANDS = ("plan", "inspect", "verify", "map check", "open", "mount")
STATES = ("", "exp_avg.", "exp_avg_sq.")
EXPERTS = 128
MIB = 1 << 20


def names(count: int) -> Iterator[str]:
    """The names of `count` tensors: whole layers, each weight with its states; and what is left."""
    weights = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
               "mlp.gate"]
    weights += [f"mlp.experts.{expert}.{part}" for expert in range(EXPERTS)
                for part in ("gate_proj", "up_proj", "down_proj")]
    layers, left = divmod(count, len(weights) * len(STATES))
    for layer in range(layers):
        for weight in weights:
            for state in STATES:
                yield f"{state}model.layers.{layer}.{weight}.weight"
    for number in range(left):
        yield f"left.{number}.weight"


def safetensors_header(tensors: list[str], size: int) -> bytes:
    text = ",".join(f'"{name}":{{"dtype":"F32","shape":[{ROWS},{COLUMNS}],'
                    f'"data_offsets":[{at * size},{(at + 1) * size}]}}'
                    for at, name in enumerate(tensors))
    header = ("{" + text + "}").encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header


@dataclasses.dataclass(frozen=True)
class Case:
    """A source, and the options of the commands that show it."""

    source: pathlib.Path
    options: list[str]


def make_files(root: pathlib.Path, count: int) -> pathlib.Path:
    """A model in as few files as hold their headers, and its index. The tensors are holes."""
    source = root / "files"
    if source.exists():
        return source
    source.mkdir(parents=True)
    size = ROWS * COLUMNS * ELEMENT
    files = -(-count // IN_A_FILE)
    all_names = list(names(count))
    places = {}
    for number in range(files):
        part = all_names[number * IN_A_FILE:(number + 1) * IN_A_FILE]
        name = (f"model-{number + 1:05}-of-{files:05}.safetensors" if files > 1
                else "model.safetensors")
        with open(source / name, "wb") as out:
            out.write(safetensors_header(part, size))
            out.truncate(out.tell() + len(part) * size)
        places.update(dict.fromkeys(part, name))
    if files > 1:
        index = {"metadata": {"total_size": count * size}, "weight_map": places}
        (source / "model.safetensors.index.json").write_text(json.dumps(index))
    return source


def make_safetensors(root: pathlib.Path, count: int) -> Case | None:
    return Case(make_files(root, count), []) if count <= IN_A_FILE else None


def make_ckpt(root: pathlib.Path, count: int) -> Case:
    return Case(make_files(root, count), ["--format", "ckpt"])


def make_ranks(root: pathlib.Path, count: int) -> Case:
    """Rows of 8 ranks for 4. The ranks' files have the same bytes."""
    source = root / "ranks"
    strategies = [root / "src.ckpt", root / "dst.ckpt"]
    case = Case(source, ["--src-strategy", str(strategies[0]),
                         "--dst-strategy", str(strategies[1])])
    if strategies[-1].exists():
        return case
    size = ROWS // RANKS * COLUMNS * ELEMENT
    all_names = list(names(count))
    first = source / "rank_0" / "net-1_1.ckpt"
    for rank in range(RANKS):
        (source / f"rank_{rank}").mkdir(parents=True)
    with open(first, "wb") as out:
        for name in all_names:
            out.write(record_header(name, "Float32", [ROWS // RANKS, COLUMNS], size) + bytes(size))
    for rank in range(1, RANKS):
        shutil.copyfile(first, source / f"rank_{rank}" / first.name)
    for strategy, ranks in zip(strategies, (RANKS, TARGET_RANKS)):
        write_strategy(strategy, rows(ranks), all_names)
    return case


# None: the case does not exist in this size.
CASES: dict[str, Callable[[pathlib.Path, int], Case | None]] = {
    "safetensors": make_safetensors, "ckpt": make_ckpt, "ranks": make_ranks}


@dataclasses.dataclass
class Cost:
    """Of one command: seconds, and bytes of memory."""

    seconds: float
    processor: float
    peak: float
    held: float | None = None  # by a mount
    parts: tuple[float, ...] = ()  # of "open": Python's own start, the import, the call


def status_bytes(pid: int, key: str) -> int:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def run_open(source: str, options: str) -> Cost:
    words = [sys.executable, "-c", OPEN, source, options]
    begin = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        printed = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, words)
    parts = tuple(map(float, printed.split()))
    return Cost(seconds, parts[1] + parts[2], usage.ru_maxrss * 1024, parts=parts)


def run_command(words: list[str]) -> Cost:
    begin = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, words)
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def daemon_of(mountpoint: pathlib.Path) -> int:
    """The process that serves the mount: of those that name it, the one with the most memory."""
    found = []
    for words in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(mountpoint).encode() in words.read_bytes().split(b"\0"):
                found.append((status_bytes(int(words.parent.name), "VmHWM"),
                              int(words.parent.name)))
        except (OSError, KeyError):
            continue
    return max(found)[1]


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_mount(binary: str, case: Case) -> Cost:
    mountpoint = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-"))
    begin = time.perf_counter()
    subprocess.run([binary, "mount", str(case.source), str(mountpoint), *case.options], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    try:
        pid = daemon_of(mountpoint)
        return Cost(seconds, cpu_seconds(pid), status_bytes(pid, "VmHWM"),
                    status_bytes(pid, "RssAnon"))
    finally:
        subprocess.run([binary, "umount", str(mountpoint)], check=True)
        mountpoint.rmdir()


def measure(binary: str, command: str, case: Case) -> Cost:
    source = str(case.source)
    if command == "mount":
        return run_mount(binary, case)
    if command == "open":
        names = [name.removeprefix("--").replace("-", "_") for name in case.options[::2]]
        words = dict(zip(names, case.options[1::2]))
        return run_open(source, repr(words))
    if command == "plan":
        return run_command([binary, command, source, *case.options])
    layout = case.options[:2] if "--src-strategy" in case.options else []
    if command == "map check":
        rules = case.source.parent / "rules.toml"
        rules.write_text(MAP)
        return run_command([binary, "map", "check", str(rules), "--source", source, *layout])
    return run_command([binary, command, source, *layout])


def report(label: str, count: int, costs: list[Cost], before: tuple[int, float] | None,
           plan: float | None) -> tuple[int, float]:
    seconds = [cost.seconds for cost in costs]
    processor = statistics.median(cost.processor for cost in costs)
    peak = statistics.median(cost.peak for cost in costs)
    line = (f"{label:24} {count:8} {statistics.median(seconds):8.3f} s"
            f" ({min(seconds):.3f}-{max(seconds):.3f}) cpu {processor:7.3f} s"
            f" peak {peak / MIB:7.1f} MiB {peak / count:7.0f} B/tensor")
    held = [cost.held for cost in costs if cost.held is not None]
    if held:
        line += (f" held {statistics.median(held) / MIB:7.1f} MiB"
                 f" {statistics.median(held) / count:7.0f} B/tensor")
    if costs[0].parts:
        medians = [statistics.median(cost.parts[i] for cost in costs) for i in range(3)]
        line += " python {:.3f} import {:.3f} open {:.3f} s".format(*medians)
    if plan is not None:
        line += f" of plan {processor / plan:5.2f}"
    if before is not None:
        grown = processor / max(before[1], 1 / os.sysconf("SC_CLK_TCK"))
        line += f" exponent {math.log(grown) / math.log(count / before[0]):.2f}"
    print(line, flush=True)
    return count, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--against", help="another reshardfs")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path,
                        help="a directory for the sets, which are kept and used again")
    arguments = parser.parse_args()
    binaries = {"": arguments.binary}
    if arguments.against:
        binaries = {"this ": arguments.binary, "that ": arguments.against}
    root = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-sets-"))
    before: dict[str, tuple[int, float]] = {}
    try:
        for name in arguments.cases:
            for count in arguments.sizes:
                # In a process of its own: the commands would begin with the memory that it takes.
                with concurrent.futures.ProcessPoolExecutor(1) as maker:
                    case = maker.submit(CASES[name], root / str(count), count).result()
                if case is None:
                    continue
                for command in arguments.commands:
                    costs: dict[str, list[Cost]] = {which: [] for which in binaries}
                    for _ in range(arguments.rounds):
                        for which, binary in binaries.items():
                            costs[which].append(measure(binary, command, case))
                    for which in binaries:
                        label = f"{which}{name} {command}"
                        plan = before.get(f"{which}{name} plan", (0, 0.0))
                        before[label] = report(label, count, costs[which], before.get(label),
                                               plan[1] if plan[0] == count else None)
    finally:
        if not arguments.keep:
            shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
