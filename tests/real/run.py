# SPDX-License-Identifier: Apache-2.0
"""Tests reshardfs with real programs: see README.md. The last line counts what passed, failed and was skipped."""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.util
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "integration"))

from cached_programs import cached_python, module_for
from environments import Environments, Unavailable
from jobs import Form, Job, Worker
from mounted import SKIP, Settings, clean_up, fuse_problem, parse_binary, unescaped, wait_until
from programs import PROGRAMS, Program

SHORT_SEED = 20261128
# For all installations together, where nothing is in the cache.
SHORT_INSTALLATION = 480.0
LONG_INSTALLATION = 3600.0


class Tally:
    """Counts of verdicts, and of what the cases themselves counted."""

    def __init__(self) -> None:
        self.verdicts: collections.Counter[str] = collections.Counter()
        self.counts: collections.Counter[str] = collections.Counter()

    def add(self, verdict: str, where: str, text: str = "") -> None:
        self.verdicts[verdict] += 1
        if verdict != "passed":
            print(f"{verdict}: {where}: {text}", flush=True)

    def summary(self) -> str:
        return ", ".join(f"{self.verdicts[verdict]} {verdict}" for verdict in ("passed", "failed", "skipped"))


def jobs_of(program: Program, form: Form) -> list[Job]:
    """Of cases.py in the program's folder, which has no package: the program itself may have its name."""
    path = FOLDER / program.folder / "cases.py"
    specification = importlib.util.spec_from_file_location(f"{program.folder}_cases", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return list(module.jobs(program.name, form))


def mounts_below(directory: Path) -> list[Path]:
    lines = os.fsdecode(Path("/proc/self/mountinfo").read_bytes()).splitlines()
    points = (Path(unescaped(line.split(" ")[4])) for line in lines if line)
    return [point for point in points if point.is_relative_to(directory)]


def processes_below(directory: Path) -> list[int]:
    """The mounts' processes that still serve something in the directory, mounted or not."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdigit() else [b""]
            below = any(word.startswith(os.fsencode(directory) + b"/") for word in words)
            if below and words[0].endswith(b"reshardfs"):
                found.append(int(process.name))
    return found


def leave_nothing(directory: Path, tally: Tally) -> None:
    """No mount and no process outlives the run; one that would is ended, and fails it."""
    for mountpoint in mounts_below(directory):
        clean_up(mountpoint)
        tally.add("failed", str(mountpoint), "was left mounted")
    if not wait_until(lambda: not processes_below(directory)):
        for process in processes_below(directory):
            os.kill(process, signal.SIGKILL)
            tally.add("failed", f"process {process}", "was left running")


def end_of_log(directory: Path) -> str:
    """What the program said last: its processes share one log."""
    with contextlib.suppress(OSError):
        lines = (directory / "log").read_text(errors="replace").splitlines()
        return "".join(f"\n   log: {line[:200]}" for line in lines[-25:])
    return ""


def judged(answer: dict, job: Job) -> tuple[str, str]:
    """The verdict, and what is to be said of it."""
    verdict, text = answer["verdict"], answer.get("text", "")
    if job.known and verdict == "failed" and job.symptom in text:
        return "skipped", f"fails as known: {job.known}"
    if job.known and verdict == "passed":
        return "failed", f"passes; it was known to fail: {job.known}"
    return verdict, text


def others(python: Path, directory: Path) -> dict[str, str]:
    """What cases of live models need beside the program: the module, or why there is none, and MindSpore."""
    found = {"RESHARDFS_MINDSPORE": "".join(cached_python("mindspore-2.10.0"))}
    try:
        module = module_for([str(python)], Settings.binary.parents[1], directory / "module")
        return {**found, "RESHARDFS_MODULE": str(module)}
    except Unavailable as reason:
        return {**found, "RESHARDFS_NO_MODULE": str(reason)}


def run_program(program: Program, python: Path, args: argparse.Namespace, form: Form, root: Path,
                tally: Tally) -> None:
    directory = root / program.name
    directory.mkdir()
    started = time.monotonic()
    passed = tally.verdicts["passed"]
    with Worker(python, FOLDER / program.folder, Settings.binary, directory, others(python, directory)) as worker:
        for number, job in enumerate(jobs_of(program, form)):
            if args.only not in job.name:
                continue
            place = directory / f"{number}"
            place.mkdir()
            answer = worker.answer(job, place)
            if answer["verdict"] == "crashed":  # a process of the program itself, once: so a second time counts
                print(f"crashed, and tried again: {program.name}: {job.name}: {answer['text']}{end_of_log(directory)}",
                      flush=True)
                shutil.rmtree(place)
                place.mkdir()
                answer = worker.answer(job, place)
                answer["verdict"] = answer["verdict"].replace("crashed", "failed")
            for mountpoint in mounts_below(place):
                clean_up(mountpoint)
                answer = {"verdict": "failed", "text": f"{mountpoint} was left mounted; {answer.get('text', '')}"}
            verdict, text = judged(answer, job)
            if verdict == "failed":
                text += (f"{end_of_log(directory)}\n   again: run.sh --seed {form.seed} --pairs {form.pairs} "
                         f"--program {program.name} --only '{job.name}'; kept: {place}")
            else:
                shutil.rmtree(place, ignore_errors=True)
            tally.add(verdict, f"{program.name}: {job.name}", text)
            tally.counts.update({f"{program.name}: {text}": count for text, count in
                                 answer.get("counts", {}).items()})
    print(f"-- {program.name}: {tally.verdicts['passed'] - passed} passed in {time.monotonic() - started:.0f} s",
          flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__)
    parser.add_argument("--short", action="store_true", help="the main programs, with fixed seeds, in minutes")
    parser.add_argument("--seed", type=int, help="of the random cases; the long form takes one by chance")
    parser.add_argument("--pairs", type=int, help="how many random pairs of strategies, of each kind")
    parser.add_argument("--program", default="", help="only programs with this in their names")
    parser.add_argument("--only", default="", help="only cases with this in their names")
    parser.add_argument("--cached", action="store_true",
                        help="install nothing unless RESHARDFS_REAL=1 is set; exit code 77 if nothing is there")
    return parse_binary(parser)


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of all that cleans up
    seed = args.seed if args.seed is not None else SHORT_SEED if args.short else random.randrange(1 << 30)
    form = Form(args.short, seed, args.pairs if args.pairs is not None else 40 if args.short else 250)
    print(f"-- seed {seed}, {Settings.binary}", flush=True)
    problem = fuse_problem()
    if problem:
        print(f"skipped: {problem}\n0 passed, 0 failed, 1 skipped")
        return SKIP if args.cached else 0
    environments = Environments(not args.cached or os.environ.get("RESHARDFS_REAL") == "1",
                                SHORT_INSTALLATION if args.short else LONG_INSTALLATION)
    tally = Tally()
    root = Path(tempfile.mkdtemp(prefix="reshardfs-real-")).resolve()
    try:
        for program in PROGRAMS:
            if args.program not in program.name or (args.short and not program.short):
                continue
            try:
                python = environments.python(program)
                environments.check(python, program.module)
            except Unavailable as reason:
                tally.add("skipped", program.name, str(reason))
                continue
            run_program(program, python, args, form, root, tally)
    finally:
        leave_nothing(root, tally)
        if not tally.verdicts["failed"]:
            shutil.rmtree(root, ignore_errors=True)
    for text, count in sorted(tally.counts.items()):
        print(f"{count:6} {text}")
    print(tally.summary())
    if tally.verdicts["failed"]:
        return 1
    return SKIP if args.cached and not tally.verdicts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
