#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs fuzzers for a while, with the corpus as seeds, and prints what they did.

New inputs go to a directory of the run, not to the corpus: `--merge` adds those that reach code
that nothing else does. An input that crashes, hangs (1 s) or needs too much memory stays in the
working directory, and the exit code is 1. `--self-test` runs a fuzzer that has a planted bug, and
fails unless the bug is found and told in this way.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MEMORY_MIB = 256
# What the sanitizers need beside.
SANITIZER_MIB = 1024


def limits(name: str) -> list[str]:
    return ["-timeout=1", f"-rss_limit_mb={MEMORY_MIB + SANITIZER_MIB}",
            f"-malloc_limit_mb={MEMORY_MIB}", "-max_len=16384", f"-artifact_prefix={name}-",
            # By far more inputs in the same time.
            "-entropic=0", "-print_funcs=0"]


def environment() -> dict[str, str]:
    """Where memory came from is told in one line, and what was freed is kept for a shorter time:
    both are a good part of a short run's time."""
    options = "malloc_context_size=1:quarantine_size_mb=16:" + os.environ.get("ASAN_OPTIONS", "")
    return {**os.environ, "ASAN_OPTIONS": options}


def run(fuzzer: Path, corpus: Path, seconds: int, jobs: int) -> tuple[int, bool]:
    """Executions, and whether nothing was found."""
    name = fuzzer.name.removeprefix("fuzz_")
    with tempfile.TemporaryDirectory(prefix="reshardfs-fuzz-") as new:
        done = subprocess.run(
            [str(fuzzer), f"-max_total_time={seconds}", f"-fork={jobs}", "-ignore_timeouts=0",
             *limits(name), new, str(corpus / name)],
            capture_output=True, text=True, errors="replace", check=False, env=environment())
        counts = [int(n) for n in re.findall(r"^#(\d+):", done.stderr, re.MULTILINE)]
        if done.returncode:
            print(done.stderr[-4000:], file=sys.stderr)
        return max(counts, default=0), done.returncode == 0


def merge(fuzzer: Path, corpus: Path, more: list[Path]) -> None:
    name = fuzzer.name.removeprefix("fuzz_")
    (corpus / name).mkdir(parents=True, exist_ok=True)
    # The fewest files, and by the code that they reach alone: not by how often they do.
    subprocess.run([str(fuzzer), "-set_cover_merge=1", "-use_counters=0", "-use_cmp=0",
                    *limits(name), str(corpus / name),
                    *(str(path / name) for path in more)], check=True, stderr=subprocess.DEVNULL)


def self_test(fuzzer: Path, seconds: int) -> int:
    """Runs this program as users do, from a directory of its own and without any seed."""
    with tempfile.TemporaryDirectory(prefix="reshardfs-fuzz-") as work:
        corpus = Path(work) / "corpus"
        (corpus / fuzzer.name.removeprefix("fuzz_")).mkdir(parents=True)
        done = subprocess.run(
            [sys.executable, "-B", str(Path(__file__).resolve()), "--corpus", str(corpus),
             "--seconds", str(seconds), "--jobs", "1", str(fuzzer.resolve())],
            cwd=work, capture_output=True, text=True, errors="replace", check=False)
        inputs = list(Path(work).glob("planted-crash-*"))
    print(done.stdout + done.stderr)
    problems = []
    if done.returncode != 1:
        problems.append(f"exit code {done.returncode}, expected 1")
    if "FOUND SOMETHING" not in done.stdout:
        problems.append("nothing was said to be found")
    if "the planted bug" not in done.stderr:
        problems.append("what was found is not the planted bug")
    if not inputs:
        problems.append("the input that crashes was not kept")
    print("; ".join(problems) or f"the planted bug was found: {inputs[0].name}")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fuzzers", nargs="+", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--merge", type=Path, action="append",
                        help="add the useful inputs of a directory, which has one for each fuzzer")
    parser.add_argument("--self-test", action="store_true",
                        help="the fuzzer has a planted bug: fail unless it is found")
    arguments = parser.parse_args()
    if arguments.self_test:
        return max(self_test(fuzzer, arguments.seconds) for fuzzer in arguments.fuzzers)
    if arguments.corpus is None:
        parser.error("--corpus is needed")
    good = True
    for fuzzer in arguments.fuzzers:
        if arguments.merge:
            merge(fuzzer, arguments.corpus, arguments.merge)
            continue
        executions, clean = run(fuzzer, arguments.corpus, arguments.seconds, arguments.jobs)
        print(f"{fuzzer.name:24} {executions:>12,} executions, "
              f"{'nothing found' if clean else 'FOUND SOMETHING'}", flush=True)
        good = good and clean
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
