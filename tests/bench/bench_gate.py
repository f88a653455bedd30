#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the speed of a mount and of the engine with recorded ratios: to a native read, and to a plain
copy, in the same run. A ratio that has fallen by more than a fifth fails. Run it by hand and before a
release, on a machine that does nothing else; --record writes the ratios anew.

Noise makes a run slower more often than faster: of several runs the best ratio counts, and the median is
recorded."""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "ratios.json"
# What may be lost.
TOLERANCE = 0.2
# Native figures that a mount's are compared with.
NATIVE = {"hot": "native_hot", "again": "native_hot", "fresh": "native_fresh", "mmap": "native_mmap",
          "4k": "native_4k"}
# One of each kind of cut: rows, long and short runs of columns, two dimensions, a cast.
CASES = ("rows, 8 to 4", "columns, 8 to 4, 2048 B runs", "columns, 1 to 8, 32 B of 256 B rows",
         "2-D, 2 x 4 to 4 x 2", "cast Float32 to BFloat16, rows 8 to 4")
# Of the engine, compared with a copy from memory; gathering with what it competes with.
COPY = "copy_from_memory/2048/2"

Ratios = dict[str, float]


def mount_ratios(binary: str, case: str, options: list[str]) -> Ratios:
    with tempfile.NamedTemporaryFile(suffix=".json") as figures:
        subprocess.run([sys.executable, "-B", str(HERE / "bench_mount.py"), "--binary", binary, "--groups",
                        "cases", "--only", case, "--rounds", "5", "--tensor-mib", "32", "--parameters", "4",
                        "--json", figures.name, *[f"--mount-option={option}" for option in options]],
                       check=True, stdout=subprocess.DEVNULL)
        found = json.loads(pathlib.Path(figures.name).read_text())
    return {f"{name}: {key}": values[key] / values[native]
            for name, values in found.items() if name == case
            for key, native in NATIVE.items() if key in values and values.get(native)}


def engine_ratios(program: str) -> Ratios:
    done = subprocess.run([program, "--benchmark_format=json", "--benchmark_min_time=0.1"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    times = {entry["name"]: entry["cpu_time"] for entry in json.loads(done.stdout)["benchmarks"]}
    ratios = {}
    for name, time in times.items():
        if name == COPY or name.startswith(("gather_with_gaps", "gather_one_by_one")):
            continue  # what is compared with
        base = name.replace("gather_mapped", "gather_with_gaps") if name.startswith("gather_mapped") else COPY
        ratios[f"engine: {name}"] = times[base] / time
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--engine", required=True, help="the program bench_engine")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--mount-option", action="append", default=[], help="to see a slower mount fail")
    arguments = parser.parse_args()
    all_runs: dict[str, list[float]] = {}
    for _ in range(arguments.runs):
        found = engine_ratios(arguments.engine)
        for case in CASES:
            found |= mount_ratios(arguments.binary, case, arguments.mount_option)
        for name, ratio in found.items():
            all_runs.setdefault(name, []).append(ratio)
    if arguments.record:
        medians = {name: round(statistics.median(ratios), 4) for name, ratios in all_runs.items()}
        RECORD.write_text(json.dumps(medians, indent=1) + "\n")
        print(f"{len(medians)} ratios written to {RECORD}")
        return
    recorded: Ratios = json.loads(RECORD.read_text())
    failed = 0
    for name, before in recorded.items():
        now = max(all_runs.get(name, []), default=None)
        if now is not None and now >= before * (1 - TOLERANCE):
            continue
        failed += 1
        print(f"{name}: {'is measured no more' if now is None else f'{now:.3f}, {now / before:.2f} of {before:.3f}'}")
    print(f"{failed} of {len(recorded)} ratios have fallen by more than {TOLERANCE:.0%}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
