#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how a model in memory that several processes have in parts is filled from one file of safetensors.

For FSDP2, tensor parallelism (TP) and both (2-D), prints by rank: its part in MB; the MB that it read, and their ratio to
its part; the seconds. The ways are reshardfs.torch.DcpReader, without a mount, whose reads are counted by the engine;
dcp.load of dcp/ of a mount; safetensors' load_file and PyTorch's set_model_state_dict, in maps, which nothing counts; the
same with the streamer of Run:ai, of the file and of merged/ of the mount, if it is installed; and dcp.load of a directory
that dcp.save made of the file. The last lines have the seconds of the slowest ranks, and their
ratio to the last way with its conversion. Each load begins with nothing in memory.
Of the narrow model, TP cuts some matrices to pieces of less than 4 KiB; of the wide one to none.
--check bytes fails (exit code 1) where DcpReader reads more than 1.15 times a rank's part and no piece is less than 4 KiB;
--check all also where it takes more than half the time of a conversion and the load of its files.
RESHARDFS_TORCH is the command of a Python with PyTorch 2 and safetensors, as for the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from cached_programs import Unavailable, module_for, torch_python  # noqa: E402
from mounted import SKIP, Settings, fuse_problem, mounted, parse_binary, scratch  # noqa: E402

PROGRAM = Path(__file__).resolve().parent / "live_load_ranks.py"
LAYOUTS = ("FSDP2/2", "TP/2", "FSDP2/4", "TP/4", "2-D/4")
READER, CONVERTED = "DcpReader", "dcp.load, converted"
STREAMER = "runai-model-streamer-0.17.1"


class Ranks:
    """Processes of PyTorch 2, which have the module."""

    def __init__(self, links: Path) -> None:
        self.python = torch_python(STREAMER)
        module = module_for(self.python, Settings.binary.parents[1], links)
        paths = [module, PROGRAM.parent, PROGRAM.parents[1] / "data"]
        self.environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}

    def run(self, *words: str | Path) -> list[dict[str, Any]]:
        done = subprocess.run([*self.python, "-B", PROGRAM, *words], text=True, check=False,
                              capture_output=True, env=self.environment)
        if done.returncode:
            raise Unavailable(done.stderr.strip() or f"exit code {done.returncode}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def show(title: str, found: dict[str, Any]) -> None:
    for name, every in found.items():
        for rank, one in enumerate(every):
            read = "not counted" if one["read"] is None else f"{one['read'] / 1e6:6.1f} MB {one['read'] / one['own']:5.2f}"
            short = f", {one['short_bytes'] / 1e6:.1f} MB in short pieces" if name == READER else ""
            print(f"{title:14} {name:20} rank {rank}: own {one['own'] / 1e6:5.1f} MB, read {read}, {one['seconds']:6.2f} s{short}",
                  flush=True)
    slowest = {name: max(one["seconds"] for one in every) for name, every in found.items()}
    both = slowest[CONVERTED] + found[CONVERTED][0]["conversion"]
    for name, seconds in slowest.items():
        print(f"{title:14} {name:20} {seconds:6.2f} s, of a conversion and its load {seconds / both:5.2f}", flush=True)


def problems(title: str, found: dict[str, Any], by_time: bool) -> list[str]:
    lines = []
    for rank, one in enumerate(found[READER]):
        if not one["short_bytes"] and one["read"] > 1.15 * one["own"]:
            lines.append(f"{title}: rank {rank} of {one['own']} bytes reads {one['read']}")
    seconds = max(one["seconds"] for one in found[READER])
    both = max(one["seconds"] + one["conversion"] for one in found[CONVERTED])
    if by_time and seconds > both / 2:
        lines.append(f"{title}: takes {seconds:.2f} s, and a conversion and its load {both:.2f} s")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=LAYOUTS)
    parser.add_argument("--kinds", nargs="+", choices=("narrow", "wide"), default=("narrow", "wide"))
    parser.add_argument("--check", choices=("bytes", "all"))
    arguments = parse_binary(parser)
    wrong = []
    with scratch() as root:
        try:
            if problem := fuse_problem():
                raise Unavailable(problem)
            ranks = Ranks(root / "module")
            for kind in arguments.kinds:
                model = root / kind / "model.safetensors"
                model.parent.mkdir()
                ranks.run("make", model, kind)
                with mounted(model, "--views", "dcp,merged") as mountpoint:
                    for layout in arguments.layouts:
                        name, _, count = layout.partition("/")
                        job = root / "job.json"
                        job.write_text(json.dumps({
                            "model": str(model), "kind": kind, "layout": name, "ranks": int(count),
                            "mounted": str(mountpoint), "converted": str(root / "converted"),
                            "rounds": arguments.rounds}))
                        found = {one["name"]: one["ranks"] for one in ranks.run("load", job)}
                        if "streamer" not in found:
                            print(f"skipped: {STREAMER}: it is not installed")
                        show(f"{kind} {layout}", found)
                        wrong += problems(f"{kind} {layout}", found, arguments.check == "all")
        except Unavailable as reason:
            print(f"skipped: {reason}; RESHARDFS_TORCH names a Python that has PyTorch 2")
            raise SystemExit(SKIP) from None
    print("\n".join(wrong))
    raise SystemExit(1 if wrong and arguments.check else 0)


if __name__ == "__main__":
    main()
