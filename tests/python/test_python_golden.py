# SPDX-License-Identifier: Apache-2.0
"""Every golden case through Python: the files are those that a mount shows, and the tensors of each rank
are those of its file."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import run_golden
from ckpt_format import by_name
from mounted import MountFailed, Result, parse_binary, scratch

import reshardfs

FLAGS = ("--check-crc", "--crc")


def keywords(words: list[str | Path]) -> dict[str, object]:
    """A command line's options as those of open()."""
    found: dict[str, object] = {}
    rest = iter(words)
    for word in rest:
        name = str(word).removeprefix("--").replace("-", "_")
        found[name] = True if word in FLAGS else next(rest)
    return found


def check_rank(checkpoint: reshardfs.Checkpoint, rank: int, path: str, content: bytes) -> None:
    if not path.endswith(".ckpt"):
        return
    state, records = checkpoint.rank(rank), by_name(content)
    buffers = state.read()
    for name, record in records.items():
        run_golden.check(bytes(memoryview(buffers.pop(name))) == record.content,
                         f"rank {rank}: tensor '{name}' differs from the file")
    # A .ckpt file has no parameters without elements.
    run_golden.check(not any(map(len, buffers.values())), f"rank {rank}: more than the file: {list(buffers)}")


@contextlib.contextmanager
def written(source: Path, *words: str | Path) -> Iterator[Path]:
    """In place of a mount: a directory with the files that Python gives."""
    try:
        checkpoint = reshardfs.open(source, **keywords(list(words)))
    except reshardfs.Error as error:
        raise MountFailed(Result(2, "", f"reshardfs: {error}\n")) from error
    with checkpoint, scratch() as directory:
        for name in checkpoint.files():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with checkpoint.file(name) as file:
                path.write_bytes(file.read())
        for rank in checkpoint.ranks:
            for path in (directory / f"rank_{rank}").iterdir():
                check_rank(checkpoint, rank, path.name, path.read_bytes())
        yield directory


def refused(words: tuple[str, ...], source: Path, options: list[str | Path]) -> None:
    try:
        reshardfs.open(source, **keywords(options)).close()
    except reshardfs.Error as error:
        run_golden.check(any(word in str(error) for word in words), f"none of {words} is in: {error}")
    else:
        raise AssertionError("nothing was raised")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", help="names; default: all")
    args = parse_binary(parser)
    run_golden.mounted, run_golden.refused = written, refused
    return run_golden.run_cases(args.cases)


if __name__ == "__main__":
    sys.exit(main())
