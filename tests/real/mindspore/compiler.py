# SPDX-License-Identifier: Apache-2.0
"""Strategies that MindSpore's compiler writes now: equal to those that are kept, and converted like them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import judge
import pairs
from layouts import read_strategy

SCRIPT = Path(__file__).resolve().with_name("compile_strategy.py")


def compiled(directory: Path, name: str) -> list[Path]:
    """d2t4p2oall: data 2, model 4, stages 2, the optimizer cuts into all replicas; o2: into 2. A file a stage."""
    sizes = {"d": 1, "t": 1, "p": 1, "o": 0}
    at = 0
    while at < len(name):
        letter, rest = name[at], name[at + 1:]
        number = "all" if rest.startswith("all") else "".join(c for i, c in enumerate(rest) if rest[:i + 1].isdigit())
        sizes[letter] = -1 if number == "all" else int(number)
        at += 1 + len(number)
    files = []
    for stage in range(sizes["p"]):
        out = directory / f"strategy_{stage}.ckpt"
        wanted = {"data": sizes["d"], "model": sizes["t"], "stages": sizes["p"], "optimizer": sizes["o"],
                  "rank": stage * sizes["d"] * sizes["t"]}
        done = subprocess.run([sys.executable, str(SCRIPT), str(out), json.dumps(wanted)], cwd=directory,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=120, check=False)
        assert done.returncode == 0, f"{name}, stage {stage}: {done.stdout.decode(errors='replace')[-2000:]}"
        files.append(out)
    return files


def strategies_now(directory: Path, source: str, target: str, kind: str, seed: int) -> dict[str, int]:
    for side, name in (("src", source), ("dst", target)):
        folder = directory / f"{side}_strategies"
        folder.mkdir()
        for now, kept in zip(compiled(folder, name), pairs.real_files(name)):
            assert read_strategy(now) == read_strategy(kept), f"{name}: the compiler's {now} is not {kept}"
    pair = pairs.real_pair(directory, source, target, kind, seed)
    pairs.save_source(directory, pair)
    return judge.convert(directory, pair, seed)
