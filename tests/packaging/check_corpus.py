# SPDX-License-Identifier: Apache-2.0
"""The corpus of the fuzzers: each fuzzer has one, which every build replays (tests fuzz_*); no input is there twice, and
all are small, so that they can be part of the sources."""

import hashlib
import re

import report

# That of the fuzzers themselves (run_fuzzers.py).
MOST_BYTES = 16384
MOST_IN_ALL = 2 << 20


def main():
    arguments = report.arguments()
    folder = arguments.root / "tests/fuzz"
    fuzzers = set(re.findall(r"^add_fuzz_target\((\w+)", (folder / "CMakeLists.txt").read_text(), re.MULTILINE))
    corpora = {path.name: sorted(path.iterdir()) for path in (folder / "corpus").iterdir()}
    problems = [f"tests/fuzz/corpus/{name}: only the {'fuzzer' if name in fuzzers else 'corpus'} is there"
                for name in sorted(fuzzers ^ corpora.keys())]
    total = 0
    for name, inputs in sorted(corpora.items()):
        seen = {}
        if not inputs:
            problems.append(f"tests/fuzz/corpus/{name}: is empty")
        for path in inputs:
            content = path.read_bytes()
            total += len(content)
            if len(content) > MOST_BYTES:
                problems.append(f"{path.relative_to(arguments.root)}: has {len(content)} bytes")
            same = seen.setdefault(hashlib.sha256(content).digest(), path)
            if same is not path:
                problems.append(f"{path.relative_to(arguments.root)}: is the same as {same.name}")
    if total > MOST_IN_ALL:
        problems.append(f"tests/fuzz/corpus: {total} bytes are too many")
    report.finish(problems, f"{sum(map(len, corpora.values()))} inputs of {len(fuzzers)} fuzzers, {total} bytes")


main()
