# SPDX-License-Identifier: Apache-2.0
"""Checkpoint 2.0 with one byte of metadata.json changed, or with its end missing: reshardfs refuses
it, or gives what a reader gives that shares nothing with it.

By default a part of the bytes, another with each seed; --all takes all of them.
"""

from __future__ import annotations

import argparse
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from checkpoint2 import Refused, read_iteration, read_tensors  # noqa: E402
from mounted import parse_binary, run, scratch  # noqa: E402
from random_checkpoint2 import RandomSet  # noqa: E402

MALFORMED = (Refused, ValueError, TypeError, KeyError, AttributeError, SyntaxError, IndexError,
             RecursionError, OverflowError, MemoryError)


def metadata_of(root: Path) -> Path:
    return next(root.glob("iteration_*/metadata.json"))


class Damage:
    """Copies of a set's directory, one for each thread, in which metadata.json alone is written."""

    def __init__(self, root: Path, source: Path) -> None:
        self.root, self.source = root, source
        self.good = metadata_of(source).read_bytes()
        self.refused = self.same = self.other = 0
        self.failures: list[str] = []

    def copy(self, number: int) -> Path:
        root = self.root / str(number)
        directory = root / metadata_of(self.source).parent.name
        directory.mkdir(parents=True)
        for path in metadata_of(self.source).parent.glob("*.safetensors"):
            (directory / path.name).hardlink_to(path)
        return directory

    def judge(self, directory: Path, data: bytes, what: str) -> None:
        (directory / "metadata.json").write_bytes(data)
        out = directory.parent / "out"
        result = run("export", directory, out, "--views", "ranks", "--force")
        if result.code == 2:
            self.refused += 1
            if result.stderr.count("\n") != 1 + result.stderr.count("warning: "):
                self.failures.append(f"{what}: {result.stderr}")
            return
        if result.code:
            self.failures.append(f"{what}: exit code {result.code}: {result.stderr}")
            return
        got = read_tensors(out / "rank_0/checkpoint_0.safetensors")
        try:
            want = read_iteration(directory)
        except MALFORMED as error:
            self.failures.append(f"{what}: taken, but the reference refuses it: {error!r}")
            return
        # Names that metadata.json does not have any more may be shown besides.
        wrong = [name for name, (dtype, array) in want.items()
                 if name not in got or got[name][0] != dtype
                 or got[name][1].shape != array.shape or got[name][1].tobytes() != array.tobytes()]
        if wrong:
            self.failures.append(f"{what}: {wrong} differ")
        elif data == self.good:
            self.same += 1
        else:
            self.other += 1


def variants(data: bytes, rng: random.Random, all_of_them: bool) -> list[tuple[str, bytes]]:
    out = [("unchanged", data)]
    for at in range(len(data)):
        if not all_of_them and rng.random() > 0.04:
            continue
        byte = data[at]
        others = {byte ^ 1, byte ^ 0x20, rng.randrange(256)}
        if chr(byte).isdigit():
            others |= {ord(rng.choice("0123456789")), ord("-")}
        if not all_of_them:
            others = {rng.choice(sorted(others))}
        out += [(f"byte {at} is {other:#x}", data[:at] + bytes([other]) + data[at + 1:])
                for other in others - {byte}]
        out.append((f"cut off at {at}", data[:at]))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    settings = parse_binary(parser)
    print(f"seed {settings.seed}", flush=True)
    rng = random.Random(settings.seed)
    # Regular ones with all slices, with some left out, and one whose ranks are in any order.
    wanted = [(True, True), (True, False), (False, True)]
    failed = 0
    with scratch() as root:
        while wanted:
            made = RandomSet(rng.randrange(1 << 30), 3)
            if (made.regular, made.redundant) != wanted[0] or not 2 <= made.world <= 4:
                continue
            wanted.pop(0)
            source = root / f"set{len(wanted)}"
            made.write(source)
            damage = Damage(root / f"copies{len(wanted)}", source)
            cases = variants(damage.good, rng, settings.all)
            with ThreadPoolExecutor(2) as pool:
                copies = [damage.copy(i) for i in range(2)]
                done = [pool.submit(lambda i=i: [damage.judge(copies[i], data, what)
                                                 for what, data in cases[i::2]]) for i in range(2)]
                for future in done:
                    future.result()
            print(f"{len(cases)} variants of {len(damage.good)} bytes: {damage.refused} refused, "
                  f"{damage.other} read as the reference does", flush=True)
            assert damage.same == 1, "the set itself cannot be read"
            for failure in damage.failures[:10]:
                print(f"FAILED, seed {settings.seed}: {failure}", flush=True)
            failed += len(damage.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
