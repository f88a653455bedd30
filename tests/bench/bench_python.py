#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures reads of a whole rank into NumPy through the Python module against a plain file.

"native" is open().read() of a file with the same bytes, and numpy.frombuffer. Both take turns in one
process, sources are in the page cache, and each figure is the median of --rounds rounds. The last column
is what the process had at most beyond the result, in MiB.

    PYTHONPATH=build/release/python tests/bench/bench_python.py
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

import reshardfs  # noqa: E402

ROWS, COLUMNS, WHOLE = ((0,), ()), ((), (0,)), ((), ())
TARGETS = {"the same cut": (4, False), "two ranks of four": (2, False), "the whole": (1, False),
           "columns to rows": (4, True)}
PEAK = """
import re, sys, reshardfs
state = reshardfs.open(sys.argv[1], src_strategy=sys.argv[2], dst_strategy=sys.argv[3]).rank(0)
state.numpy([next(iter(state))])
def status(key):
    return int(re.search(key + r":\\s*(\\d+)", open("/proc/self/status").read())[1])
before = status("VmRSS")
kept = state.numpy()
print((status("VmHWM") - before) / 1024 - state.nbytes / 2**20)
"""


def layouts(ranks: int, turned: bool) -> dict[str, Layout]:
    """Weights that are cut along rows and along columns by turns, as in a model."""
    cuts = (COLUMNS, ROWS) if turned else (ROWS, COLUMNS)
    return {f"layer.{number}.weight": Layout((ranks,), cuts[number % 2] if ranks > 1 else WHOLE)
            for number in range(16)}


def write_set(top: Path, width: int) -> None:
    arrays = {name: np.random.default_rng(1).integers(0, 255, (width, width * 4), np.uint8).view("<f4")
              for name in layouts(4, False)}
    for rank in range(4):
        path = top / f"set/rank_{rank}/m-1_1.ckpt"
        path.parent.mkdir(parents=True)
        path.write_bytes(encode_checkpoint([record_of(name, "Float32", shard(arrays[name], layout, rank))
                                            for name, layout in layouts(4, False).items()]))
    write_protobuf(Strategy([layouts(4, False)]), top / "src.ckpt")


def medians(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begun = time.perf_counter()
            result = call()
            times[name].append(time.perf_counter() - begun)
            del result
    return {name: statistics.median(found) for name, found in times.items()}


def measure(top: Path, target: str, rounds: int) -> None:
    ranks, turned = TARGETS[target]
    strategy = top / f"{ranks}{turned}.ckpt"
    write_protobuf(Strategy([layouts(ranks, turned)]), strategy)
    options = {"src_strategy": str(top / "src.ckpt"), "dst_strategy": str(strategy)}
    with reshardfs.open(top / "set", **options) as checkpoint:
        state, native = checkpoint.rank(0), top / "native"
        with checkpoint.file("rank_0/checkpoint_0.ckpt") as file:
            native.write_bytes(file.read())
        found = medians({"native": lambda: np.frombuffer(native.read_bytes(), np.uint8),
                         "numpy()": state.numpy,
                         "one thread": lambda: state.numpy(threads=1),
                         "each": lambda: [state[name].numpy() for name in state]}, rounds)
        peak = float(subprocess.run([sys.executable, "-c", PEAK, str(top / "set"), *options.values()], check=True,
                                    capture_output=True, text=True).stdout)
        ratios = "".join(f"{found['native'] / found[name]:>12.2f}" for name in list(found)[1:])
        print(f"{target:<20}{state.nbytes / 2**20:>8.0f}{state.nbytes / found['native'] / 1e9:>10.2f}{ratios}{peak:>10.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--width", type=int, default=2048, help="of the square matrices")
    parser.add_argument("--directory", type=Path, help="where the sets go; default: a temporary one")
    args = parser.parse_args()
    print(f"{'target':<20}{'MiB':>8}{'GB/s':>10}{'numpy()':>12}{'one thread':>12}{'each':>12}{'MiB more':>10}")
    with tempfile.TemporaryDirectory(dir=args.directory) as top:
        write_set(Path(top), args.width)
        for target in TARGETS:
            measure(Path(top), target, args.rounds)


if __name__ == "__main__":
    main()
