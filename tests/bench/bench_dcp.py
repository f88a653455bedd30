#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a mount of a torch.distributed.checkpoint set against one of safetensors files.

Both sets hold the same slices, and both mounts show the same target ranks. Prints GiB/s for whole
files of the safetensors mount, and the ratio of the other mount to it; "native" is the ratio of a
plain file. The sources are in the page cache. The reads take turns, and each figure is the median of
--rounds rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from bench_mount import Samples  # noqa: E402
from bench_readers import drop_pages, read_at_once, read_fresh, read_hot, read_mapped  # noqa: E402
from bench_sets import MIB, Layout, SourceSet, columns, rows  # noqa: E402

READERS = {"hot": read_hot, "fresh": read_fresh, "mmap": read_mapped}
CASES = {"rows, 8 to 8": (rows(8), rows(8)), "rows, 8 to 4": (rows(8), rows(4)),
         "columns, 8 to 4, 2048 B runs": (columns(8), columns(4)),
         "rows 8 to columns 4": (rows(8), columns(4))}
WIDTH = 16384


@contextlib.contextmanager
def mounted(binary: str, source: list[pathlib.Path], target: pathlib.Path) -> Iterator[list[pathlib.Path]]:
    """The files of the target's ranks. `source`: a directory, and its strategy if it wants one."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-mnt-"))
    strategy = ["--src-strategy", *source[1:]] if source[1:] else []
    try:
        subprocess.run([binary, "mount", source[0], place, *strategy, "--dst-strategy", target,
                        "--format", "safetensors"], check=True)
        try:
            yield sorted(place.glob("rank_*/*.safetensors"))
        finally:
            subprocess.run([binary, "umount", place], check=True)
    finally:
        place.rmdir()


def are_same(left: list[pathlib.Path], right: list[pathlib.Path]) -> bool:
    return len(left) == len(right) > 0 and all(
        subprocess.run(["cmp", "-s", *pair], check=False).returncode == 0
        for pair in zip(left, right))


def measure(binary: str, scratch: pathlib.Path, layouts: tuple[Layout, Layout], parameters: int,
            height: int, rounds: int) -> dict[str, float]:
    of_source, of_target = layouts
    made = SourceSet(scratch / "made", of_source, parameters, (height, WIDTH))
    source = made.write_strategy("src", of_source)
    target = made.write_strategy("dst", of_target)
    both = scratch / "both"
    subprocess.run([binary, "export", made.root, both, "--src-strategy", source, "--dst-strategy", source,
                    "--views", "ranks,dcp", "--format", "safetensors", "-q"], check=True)
    for old in made.files():
        old.unlink()
    samples = Samples()
    plain = scratch / "plain"
    with mounted(binary, [both, source], target) as flat, \
            mounted(binary, [both / "dcp"], target) as dcp:
        if not are_same(flat, dcp):
            raise RuntimeError("the two mounts do not show the same bytes")
        shutil.copyfile(flat[0], plain)
        for _ in range(rounds):
            for name, reader in READERS.items():
                samples.rate(f"native {name}", lambda: reader(plain))
                for label, files in (("safetensors", flat), ("dcp", dcp)):
                    drop_pages(files)
                    samples.rate(f"{label} {name}", lambda: reader(files[0]))
            for label, files in (("safetensors", flat), ("dcp", dcp)):
                drop_pages(files)
                samples.rate(f"{label} all ranks", lambda: read_at_once(files))
    for made_here in (made.root, both):
        shutil.rmtree(made_here)
    return samples.medians()


def main() -> None:
    # So that a run which is stopped unmounts too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True, help="the reshardfs program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tensor-mib", type=int, default=128, help="size of each parameter")
    parser.add_argument("--parameters", type=int, default=8)
    parser.add_argument("--scratch", help="a directory for the files; default: the system's")
    arguments = parser.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="reshardfs-bench-", dir=arguments.scratch))
    try:
        for name, layouts in CASES.items():
            figures = measure(arguments.binary, scratch, layouts, arguments.parameters,
                              arguments.tensor_mib * MIB // WIDTH, arguments.rounds)
            for reader in (*READERS, "all ranks"):
                base = figures[f"safetensors {reader}"]
                ratios = [f"{label} {figures[f'{label} {reader}'] / base:4.2f}"
                          for label in ("dcp", "native") if f"{label} {reader}" in figures]
                print(f"{name:30} {reader:10} {base:6.2f} GiB/s  ", *ratios, flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
