#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test programs, commands and a whole mount under valgrind's memcheck, and prints what it found.

    run_memcheck.py --binary build/release/bin/reshardfs build/release/tests/unit_base ...

Errors and leaks make the exit code 1; their reports stay in --reports.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "data")]

from ckpt_format import by_name  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from mounted import (  # noqa: E402
    Settings,
    is_mounted,
    mountpoint_guard,
    parse_settings,
    run,
    scratch,
    wait_until,
)

FOUND = 99
# Everything takes some thirty times as long.
PROGRAM_SECONDS = 3600
MOUNT_SECONDS = 120
# Tests that are left out.
UNSUITED = Path(__file__).with_name("unsuited.txt")


@dataclass(frozen=True)
class Outcome:
    name: str
    seconds: float
    code: int
    errors: int
    lost_bytes: int
    suppressed: int
    tests: int = 0
    wanted: int = 0  # the exit code

    @property
    def good(self) -> bool:
        return self.code == self.wanted and self.errors == 0 and self.lost_bytes == 0


def valgrind(report: Path) -> list[str]:
    return ["valgrind", "--tool=memcheck", "--leak-check=full", "--show-leak-kinds=definite,possible",
            "--errors-for-leak-kinds=definite,possible", f"--error-exitcode={FOUND}",
            "--num-callers=30", "--child-silent-after-fork=yes", f"--log-file={report}",
            f"--suppressions={Path(__file__).with_name('third_party.supp')}"]


def outcome(name: str, begin: float, code: int, report: Path, output: str = "",
            wanted: int = 0) -> Outcome:
    text = report.read_text(errors="replace")
    summary = re.findall(r"ERROR SUMMARY: ([\d,]+) errors from .*suppressed: ([\d,]+) from", text)
    # One that was killed, or has crashed, has no summary.
    errors, suppressed = (int(n.replace(",", "")) for n in summary[-1]) if summary else (1, 0)
    lost = sum(int(n.replace(",", "")) for n in
               re.findall(r"(?:definitely|indirectly|possibly) lost: ([\d,]+) bytes", text))
    passed = re.search(r"\[  PASSED  \] (\d+) tests?", output)
    return Outcome(name, time.monotonic() - begin, code, errors, lost, suppressed,
                   int(passed.group(1)) if passed else 0, wanted)


class Memcheck:
    def __init__(self, reports: Path) -> None:
        self.reports = reports
        self.outcomes: list[Outcome] = []
        reports.mkdir(parents=True, exist_ok=True)

    def run(self, name: str, words: list[str | Path], wanted: int = 0) -> None:
        report = self.reports / f"{name}.txt"
        begin = time.monotonic()
        done = subprocess.run([*valgrind(report), *map(str, words)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=PROGRAM_SECONDS, check=False)
        (self.reports / f"{name}.out").write_text(done.stdout)
        self.note(outcome(name, begin, done.returncode, report, done.stdout, wanted))

    def note(self, found: Outcome) -> None:
        self.outcomes.append(found)
        tests = f"{found.tests} tests, " if found.tests else ""
        print(f"{found.name:24} {found.seconds:6.0f} s, {tests}{found.errors} errors, "
              f"{found.lost_bytes} bytes lost, {found.suppressed} suppressed"
              f"{'' if found.good else f'  WRONG: exit code {found.code}, see {self.reports}/{found.name}.*'}",
              flush=True)

    def program(self, path: Path) -> None:
        """A test program of GoogleTest."""
        unsuited = [line for line in UNSUITED.read_text().splitlines() if line and line[0] != "#"]
        self.run(path.name, [path, f"--gtest_filter=-{':'.join(unsuited)}"])

    def commands(self, made: GeneratedSet, directory: Path) -> None:
        source, options = made.source, made.options()
        out = directory / "out"
        conversion = [source, *options]
        for name, words in {
            "inspect": ["inspect", source, "--src-strategy", made.src_strategy, "--stats"],
            "plan": ["plan", *conversion, "--json"],
            "plan_picture": ["plan", *conversion, "--svg", directory / "traffic.svg"],
            "verify": ["verify", source, "--src-strategy", made.src_strategy],
            "export": ["export", source, out, *options, "--checksum", "--format", "ckpt,safetensors"],
            "export_again": ["export", source, out, *options, "--checksum", "--format", "ckpt,safetensors"],
            "diff": ["diff", source, out, "--a-strategy", made.src_strategy, "--b-strategy",
                     made.dst_strategy, "--b-pattern", "rank_{rank}/checkpoint_{rank}.ckpt"],
            "hash": ["hash", *conversion],
            "cat": ["cat", *conversion, "rank_0/checkpoint_0.ckpt"],
            "report": ["report", *conversion, "-O", directory / "report.html"],
            "strategy_show": ["strategy", "show", made.src_strategy],
            "strategy_convert": ["strategy", "convert", made.src_strategy, "-O", directory / "rules.toml"],
        }.items():
            self.run(name, [Settings.binary, *words])
        self.run("refusal", [Settings.binary, "inspect", directory / "nothing"], wanted=2)

    def mount(self, made: GeneratedSet, directory: Path) -> None:
        """A whole life: mounted, listed, read by several ways, unmounted."""
        mountpoint, report = directory / "mnt", self.reports / "mount.txt"
        mountpoint.mkdir()
        begin = time.monotonic()
        with mountpoint_guard(mountpoint), (self.reports / "mount.out").open("wb") as output:
            process = subprocess.Popen(
                [*valgrind(report), str(Settings.binary), "mount", "-f", str(made.source),
                 str(mountpoint), *made.options(), "--params", "--format", "ckpt,safetensors"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            try:
                assert wait_until(lambda: is_mounted(mountpoint), MOUNT_SECONDS), "it has not mounted"
                self.use(made, mountpoint)
                result = run("umount", mountpoint)
                assert result.code == 0, result.stderr
                code = process.wait(MOUNT_SECONDS)
            finally:
                process.kill()
                process.wait()
        self.note(outcome("mount", begin, code, report))

    @staticmethod
    def use(made: GeneratedSet, mountpoint: Path) -> None:
        for rank in range(made.dst.rank_count):
            path = mountpoint / f"rank_{rank}/checkpoint_{rank}.ckpt"
            assert by_name(path.read_bytes()) == made.expected(rank), path
        for path in sorted(mountpoint.rglob("*")):
            if path.is_file():
                assert len(path.read_bytes()) == path.stat().st_size, path
                for name in os.listxattr(path):
                    os.getxattr(path, name)
        for name in ("status.json", "metrics", "plan.json", "report.html", "version"):
            (mountpoint / ".reshardfs" / name).read_bytes()
        assert not (mountpoint / "nothing").exists()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Path, help="test programs")
    parser.add_argument("--reports", type=Path, required=True, help="a directory for what was found")
    settings = parse_settings(parser)
    if shutil.which("valgrind") is None:
        parser.error("valgrind is not installed")
    Settings.mount_seconds = 10 * MOUNT_SECONDS
    memcheck = Memcheck(settings.reports)
    with scratch() as directory:
        made = make_set(directory, Parallel(tp=4, dp=2, opt=-1), Parallel(tp=2, dp=2), layers=1)
        memcheck.mount(made, directory)
        memcheck.commands(made, directory)
    for program in settings.programs:
        memcheck.program(program)
    bad = [found.name for found in memcheck.outcomes if not found.good]
    total = sum(found.tests for found in memcheck.outcomes)
    print(f"{total} tests, {len(memcheck.outcomes)} runs: "
          f"{'nothing found' if not bad else 'FOUND SOMETHING in ' + ', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
