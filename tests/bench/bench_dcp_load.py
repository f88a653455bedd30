#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the ranks of dcp.load read of dcp/ and dcp-hf/, beside a directory that dcp.save wrote.

For FSDP2, tensor parallelism (TP) and both (2-D), prints by rank: its part in MB; the MB that it asked for with system
calls, and their ratio to its part; the MB that the mount delivered, which are fewer where reads repeat, and more where
the kernel reads ahead; the seconds, and their ratio to dcp.save's directory. Files in maps (dcp-hf) are read without
system calls, and a directory without a mount. --check fails (exit code 1) where a rank reads more than 1.3 times its
part with --dst-strategy, or else more than 1.1 of the model and more than of dcp.save's directory.
RESHARDFS_TORCH is the command of a Python with PyTorch 2, as for the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from cached_programs import torch_python  # noqa: E402
from mounted import SKIP, Settings, fuse_problem, mounted, scratch  # noqa: E402

PROGRAM = Path(__file__).resolve().parent / "dcp_load_ranks.py"
PYTHON = torch_python()
ROWS = '["*.q.weight", "*.k.weight", "*.v.weight", "*.gate.weight", "*.up.weight", "emb.weight", "head.weight"]'
COLUMNS = '["*.o.weight", "*.down.weight"]'
SAVED = "dcp.save"
LAYOUTS = ("FSDP2/2", "TP/2", "FSDP2/4", "TP/4", "2-D/4")


def rules(layout: str, ranks: int) -> str:
    def rule(match: str, cut: str) -> str:
        return f"[[rule]]\nmatch = {match}\ncut = {cut}\n"

    if layout == "FSDP2":
        return f'[devices]\naxes = ["dp={ranks}"]\n' + rule('["*"]', '["dp"]')
    if layout == "TP":
        return (f'[devices]\naxes = ["tp={ranks}"]\nunmatched = "replicate"\n' + rule(ROWS, '["tp"]')
                + rule(COLUMNS, '["", "tp"]'))
    return (f'[devices]\naxes = ["dp=2", "tp={ranks // 2}"]\n' + rule(ROWS, '[["tp", "dp"]]')
            + rule(COLUMNS, '["dp", "tp"]') + rule('["*"]', '["dp"]'))


def way(name: str, mountpoint: Path, form: str) -> dict[str, Any]:
    return {"name": name, "form": form, "directory": str(mountpoint / form),
            "metrics": str(mountpoint / ".reshardfs/metrics")}


def measure(model: Path, root: Path, layout: str, ranks: int, rounds: int) -> dict[str, Any]:
    saved = root / f"{layout}{ranks}"
    strategy = root / "rules.toml"
    strategy.write_text(rules(layout, ranks))
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(mounted(model, "--views", "dcp,dcp-hf"))
        cut = stack.enter_context(mounted(model, "--views", "dcp,dcp-hf", "--dst-strategy", strategy))
        shards = stack.enter_context(mounted(model, "--views", "dcp", "--dcp-shards", str(ranks)))
        ways = [{"name": SAVED, "form": "dcp", "directory": str(saved), "metrics": ""},
                way("dcp", plain, "dcp"), way("dcp --dcp-shards", shards, "dcp"),
                way("dcp --dst-strategy", cut, "dcp"), way("dcp-hf", plain, "dcp-hf"),
                way("dcp-hf --dst-strategy", cut, "dcp-hf")]
        job = root / "job.json"
        job.write_text(json.dumps({"model": str(model), "layout": layout, "ranks": ranks,
                                   "saved": str(saved), "rounds": rounds, "ways": ways}))
        result = subprocess.run([*PYTHON, "-B", PROGRAM, "load", job], text=True, check=False,
                                stdout=subprocess.PIPE)
    if result.returncode != 0:
        raise SystemExit(1)
    found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return {one["name"]: one["ranks"] for one in found}


def show(title: str, found: dict[str, Any]) -> None:
    for name, every in found.items():
        for rank, one in enumerate(every):
            parts = [f"{what} {one[key] / 1e6:6.1f} MB {one[key] / one['own']:5.2f}"
                     for what, key in (("asked", "asked"), ("delivered", "delivered"))
                     if one[key] > one["own"] / 2]
            ratio = one["seconds"] / found[SAVED][rank]["seconds"]
            print(f"{title:8} {name:22} rank {rank}: own {one['own'] / 1e6:5.1f} MB,", ", ".join(parts),
                  f"{one['seconds']:6.2f} s {ratio:5.2f}", flush=True)


def problems(title: str, found: dict[str, Any], model: int) -> list[str]:
    lines = []
    for name, every in found.items():
        if name == SAVED:
            continue
        for rank, one in enumerate(every):
            # The kernel fetches what programs ask for once, and asks for maps itself.
            read = one["delivered"] if "hf" in name else one["asked"]
            limit = (1.3 * one["own"] if "strategy" in name
                     else max(1.1 * model, found[SAVED][rank]["asked"]))
            if not one["own"] <= read <= limit:
                lines.append(f"{title} {name}: rank {rank} of {one['own']} bytes reads {read}, "
                             f"and may read {limit:.0f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True, type=Path, help="the reshardfs program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=LAYOUTS)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    Settings.binary = arguments.binary
    with scratch() as root:
        model = root / "model.safetensors"
        made = subprocess.run([*PYTHON, "-B", PROGRAM, "make", model], text=True, check=False,
                              stderr=subprocess.PIPE)
        problem = fuse_problem()
        if made.returncode != 0:
            problem = (made.stderr.strip().splitlines() or ["no PyTorch"])[-1]
        if problem:
            print(f"skipped: {problem}; RESHARDFS_TORCH names a Python that has PyTorch 2")
            raise SystemExit(SKIP)
        wrong = []
        for layout in arguments.layouts:
            name, _, ranks = layout.partition("/")
            found = measure(model, root, name, int(ranks), arguments.rounds)
            show(layout, found)
            wrong += problems(layout, found, model.stat().st_size)
    print("\n".join(wrong))
    raise SystemExit(1 if wrong and arguments.check else 0)


if __name__ == "__main__":
    main()
