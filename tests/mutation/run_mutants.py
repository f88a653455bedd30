#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Do the tests notice when the code is wrong? Makes one small change after another in a layer, and
runs its tests against each.

A change that no test notices is printed as `survived`, or as `not reached`: a test is missing, or the change cannot
matter and belongs into equivalent.txt, with the reason. The exit code is 1 if too many survive.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutant_build
import mutator
from mounted_judges import MOUNTED

UNNOTICED = ("survived", "not reached")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def all_files(layers: list[str]) -> list[str]:
    """Headers last: their mutants take longer."""
    paths = [path for layer in layers for path in (ROOT / "src" / layer).rglob("*")
             if path.suffix in (".cpp", ".h")]
    return [str(path.relative_to(ROOT)) for path in sorted(paths, key=lambda p: (p.suffix == ".h",
                                                                                 str(p)))]


def read_equivalent(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Reasons by change, by file and line. See the head of equivalent.txt."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    changes: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            change, separator, reason = line.strip().partition(": ")
            if not separator or not reason:
                sys.exit(f"{path}: no reason in: {line}")
            changes.update(dict.fromkeys(change.split(" | "), reason))
        else:
            file, _, text = line.partition(": ")
            changes = found.setdefault((file, text), {})
    return found


class Equivalent:
    def __init__(self, path: Path | None):
        self.known = read_equivalent(path) if path else {}
        self.used: set[tuple[str, str, str]] = set()

    def reason(self, mutant: mutator.Mutant) -> str | None:
        changes = self.known.get((mutant.file, mutant.line_text), {})
        for change in (mutant.change, "*"):
            if change in changes:
                self.used.add((mutant.file, mutant.line_text, change))
                return changes[change]
        return None

    def unused(self, files: list[str]) -> list[str]:
        return [f"{file}: {text}: {change}" for (file, text), changes in self.known.items()
                for change in changes
                if file in files and (file, text, change) not in self.used]


def sample(mutants: list[mutator.Mutant], count: int, seed: int) -> list[mutator.Mutant]:
    """About `count`, of each file as large a share, and one at least."""
    chosen: list[mutator.Mutant] = []
    dice = random.Random(seed)
    by_file: dict[str, list[mutator.Mutant]] = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    for own in by_file.values():
        share = max(1, round(count * len(own) / len(mutants)))
        picked = sorted(dice.sample(range(len(own)), min(share, len(own))))
        chosen += [own[i] for i in picked]
    return chosen


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "mutants",
                        help="directory of its own build (default: build/mutants)")
    parser.add_argument("--layers", nargs="+", choices=mutant_build.JUDGES, default=["layout", "plan"])
    parser.add_argument("--files", nargs="+", metavar="FILE", help="such as src/plan/source/cell_grid.cpp")
    parser.add_argument("--sample", type=int, metavar="N", help="about N mutants, of every file")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--at-least", type=float, default=95, metavar="PERCENT",
                        help="must be killed (default: 95)")
    parser.add_argument("--integration", action="store_true",
                        help="let tests that mount judge what the layer's own do not kill; as root")
    parser.add_argument("--equivalent", type=Path, default=HERE / "equivalent.txt",
                        help="mutants that cannot change what the program does")
    parser.add_argument("--list", action="store_true", help="print the mutants, and build nothing")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the outcomes as JSON")
    parser.add_argument("--known", type=Path, metavar="FILE",
                        help="believe that report about those that were killed or did not compile")
    return parser.parse_args()


class Run:
    def __init__(self, options: argparse.Namespace, build: mutant_build.Build):
        self.options = options
        self.build = build
        self.results: list[tuple[mutator.Mutant, mutant_build.Verdict]] = []
        self.known: dict[tuple[str, ...], mutant_build.Verdict] = {}
        if options.known:
            for entry in json.loads(options.known.read_text()):
                if entry["outcome"] not in UNNOTICED:
                    self.known[tuple(entry["key"])] = mutant_build.Verdict(
                        entry["outcome"], entry["judge"], entry["slow"])

    def judge(self, mutant: mutator.Mutant) -> mutant_build.Verdict:
        return self.known.get(mutant.key()) or self.build.judge(mutant)

    def all(self, mutants: list[mutator.Mutant]) -> None:
        begin = time.monotonic()
        with ThreadPoolExecutor(self.options.jobs) as pool:
            for mutant, verdict in zip(mutants, pool.map(self.judge, mutants)):
                self.results.append((mutant, verdict))
                if verdict.outcome in UNNOTICED:
                    print(f"{mutant.file}:{mutant.line}: {verdict.outcome}: {mutant.change}\n"
                          f"    {mutant.line_text}", flush=True)
                if len(self.results) % 50 == 0:
                    print(f"# {len(self.results)} of {len(mutants)}, "
                          f"{time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)

    def write_report(self, path: Path) -> None:
        path.write_text(json.dumps(
            [{"key": mutant.key(), "line": mutant.line, "outcome": verdict.outcome,
              "judge": verdict.judge, "slow": verdict.slow}
             for mutant, verdict in self.results], indent=1))

    def finish(self, equivalent: Counter) -> float:
        """Prints a table; the share of mutants that were killed."""
        counts: dict[str, Counter] = {}
        for mutant, verdict in self.results:
            own = counts.setdefault(mutant.file, Counter())
            own[verdict.outcome] += 1
            own["by mounts"] += verdict.judge in MOUNTED
        total = sum(counts.values(), Counter())
        columns = ["killed", "by mounts", "survived", "not reached", "equivalent", "does not compile"]
        print(f"{'file':46}" + "".join(f"{name:>{len(name) + 2}}" for name in columns))
        for file, own, same in [*((file, own, equivalent[file]) for file, own in sorted(counts.items())),
                                ("all", total, equivalent.total())]:
            own["equivalent"] = same
            print(f"{file:46}" + "".join(f"{own[name]:>{len(name) + 2}}" for name in columns))
        by_judge = Counter(verdict.judge for _, verdict in self.results if verdict.judge)
        slow = sum(verdict.slow for _, verdict in self.results)
        print("killed by " + ", ".join(f"{judge}: {n}" for judge, n in by_judge.most_common()) +
              f"; {slow} by the time limit")
        judged = total["killed"] + sum(total[outcome] for outcome in UNNOTICED)
        percent = 100 * total["killed"] / judged if judged else 100
        print(f"{percent:.1f} % of {judged} killed")
        return percent


def main() -> int:
    options = arguments()
    files = options.files or all_files(options.layers)
    equivalent = Equivalent(options.equivalent)
    every = [mutant for file in files for mutant in mutator.mutants_of(file, (ROOT / file).read_text())]
    mutants = every
    if options.sample and options.sample < len(every):
        mutants = sample(every, options.sample, options.seed)
    left_out = Counter(mutant.file for mutant in mutants if equivalent.reason(mutant))
    mutants = [mutant for mutant in mutants if not equivalent.reason(mutant)]
    if not options.sample:
        unused = equivalent.unused(files)
        if unused:
            sys.exit(f"{options.equivalent}: no such mutant:\n" + "\n".join(unused))
    if options.list:
        for mutant in mutants:
            print(f"{mutant.file}:{mutant.line}: {mutant.change}")
        print(f"{len(mutants)} mutants, {left_out.total()} equivalent")
        return 0
    build = mutant_build.Build(ROOT, options.build.resolve(), every, options.jobs, options.integration)
    build.prepare()
    run = Run(options, build)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run.all(mutants)
    except KeyboardInterrupt:
        run.finish(left_out)
        sys.exit(f"stopped after {len(run.results)} of {len(mutants)}")
    finally:
        if options.report:
            run.write_report(options.report)
    return 0 if run.finish(left_out) >= options.at_least else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except mutant_build.BuildError as error:
        sys.exit(str(error))
