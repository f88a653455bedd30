#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the load programs with random seeds, round after round, and adds up what they count: readers of all
kinds that compare each byte, upgrades, replaced contents, kills, sources that stall and fail, full disks, and
steps that come and go.

    soak.py --binary build/release/bin/reshardfs --verify-reads build/release/tests/load/verify_reads \\
        --fault-fs build/release/tests/faults/fault_fs --state soak --minutes 600

It may be stopped at any time (Ctrl-C ends it after the round, twice at once) and goes on from --state, which has
the seed, the counts and the output of each round in which something was wrong. The exit code is 1 if there was
any; `--summary` prints the counts alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LOAD = Path(__file__).resolve().parent
SKIPPED = 77
ROUND_SECONDS = 1800
# What a round runs, and how often it is chosen.
ROUNDS: dict[str, tuple[int, list[str]]] = {
    "readers": (3, ["load_mount.py", "--minutes", "0.5", "--megabytes", "80"]),
    "small reads": (2, ["load_mount.py", "--random-reads", "100000", "--megabytes", "40"]),
    "upgrades": (2, ["hand_over_load.py", "--upgrades", "60", "--replacements", "0", "--kills", "0"]),
    "replacements": (2, ["hand_over_load.py", "--upgrades", "0", "--replacements", "30", "--kills", "0"]),
    "kills": (2, ["hand_over_load.py", "--upgrades", "0", "--replacements", "0", "--kills", "60"]),
    "bad times": (3, ["bad_times.py", "--seconds", "30"]),
    "steps": (2, ["follow_job.py", "--steps", "600"]),
}


class State:
    """The seed and the counts, in a file that is replaced as a whole."""

    def __init__(self, directory: Path, seed: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._file = directory / "state.json"
        self.kept: dict[str, Any] = {"seed": seed, "rounds": 0, "seconds": 0.0, "failed": [], "kinds": {}}
        if self._file.exists():
            self.kept = json.loads(self._file.read_text())

    def add(self, kind: str, counts: dict[str, int], seconds: float, failed: bool) -> None:
        if failed:
            self.kept["failed"].append(self.kept["rounds"])
        self.kept["rounds"] += 1
        self.kept["seconds"] += seconds
        of_kind = self.kept["kinds"].setdefault(kind, {"rounds": 0})
        of_kind["rounds"] += 1
        for what, count in counts.items():
            of_kind[what] = of_kind.get(what, 0) + count
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self.kept, indent=1) + "\n")
        os.replace(new, self._file)

    def summary(self) -> str:
        kept = self.kept
        lines = [f"seed {kept['seed']}: {kept['rounds']:,} rounds in {kept['seconds'] / 3600:.1f} hours, "
                 f"{len(kept['failed'])} with something wrong" + (f": {kept['failed'][:20]}" if kept["failed"] else "")]
        total: dict[str, int] = {}
        for kind, counts in sorted(kept["kinds"].items()):
            lines.append(f"  {kind}: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
            for what, count in counts.items():
                total[what] = total.get(what, 0) + count
        lines.append(f"in all: {total.get('reads', 0):,} verified reads, {total.get('wrong', 0):,} wrong")
        return "\n".join(lines)


class Soak:
    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.state = State(settings.state, settings.seed)
        self.stops = 0
        self.running: subprocess.Popen[bytes] | None = None

    def stop(self, *_: object) -> None:
        self.stops += 1
        if self.stops > 1 and self.running is not None:
            self.running.send_signal(signal.SIGINT)

    def words(self, kind: str, seed: int, counts: Path) -> list[str]:
        words = [sys.executable, "-B", str(LOAD / ROUNDS[kind][1][0]), *ROUNDS[kind][1][1:], "--seed", str(seed),
                 "--counts", str(counts), "--binary", str(self.settings.binary)]
        program = ROUNDS[kind][1][0]
        if program in ("load_mount.py", "hand_over_load.py"):
            words += ["--verify-reads", str(self.settings.verify_reads)]
        if program == "bad_times.py":
            words += ["--fault-fs", str(self.settings.fault_fs)]
        return words

    def round(self) -> None:
        number = self.state.kept["rounds"]
        # The same for a number, however often the soak was stopped.
        rng = random.Random(f"{self.state.kept['seed']} {number}")
        kind = rng.choices(list(ROUNDS), [weight for weight, _ in ROUNDS.values()])[0]
        seed = rng.randrange(1 << 30)
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            counts, log = Path(scratch) / "counts.json", Path(scratch) / "log"
            with log.open("wb") as out:
                # Not of this terminal's group: Ctrl-C is to end the soak, not the round.
                self.running = subprocess.Popen(self.words(kind, seed, counts), stdin=subprocess.DEVNULL, stdout=out,
                                                stderr=subprocess.STDOUT, start_new_session=True)
                try:
                    code = self.running.wait(ROUND_SECONDS)
                except subprocess.TimeoutExpired:
                    self.running.kill()
                    code = self.running.wait()
            self.running = None
            if self.stops > 1:
                return  # it was broken off, and will be the next one again
            if code == SKIPPED:
                sys.exit(SKIPPED)
            found = json.loads(counts.read_text()) if counts.exists() else {}
            if code:
                (self.state.directory / f"round-{number}.log").write_bytes(log.read_bytes())
            self.state.add(kind, found, time.monotonic() - begin, failed=code != 0)
        print(f"round {number}, {kind}, seed {seed}: {'WRONG' if code else 'good'}; "
              + ", ".join(f"{count:,} {what}" for what, count in found.items()), flush=True)

    def run(self) -> None:
        end = time.monotonic() + self.settings.minutes * 60
        rounds = 0
        while not self.stops and time.monotonic() < end and rounds < self.settings.rounds:
            self.round()
            rounds += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, help="the program to test")
    parser.add_argument("--verify-reads", type=Path, required=True, help="the reader program")
    parser.add_argument("--fault-fs", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True, metavar="DIRECTORY", help="where it goes on")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of a new state")
    parser.add_argument("--summary", action="store_true", help="print the counts, and run nothing")
    settings = parser.parse_args()
    soak = Soak(settings)
    if not settings.summary:
        signal.signal(signal.SIGINT, soak.stop)
        signal.signal(signal.SIGTERM, soak.stop)
        soak.run()
    print(soak.state.summary())
    return 1 if soak.state.kept["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
