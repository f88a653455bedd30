# SPDX-License-Identifier: Apache-2.0
"""Every golden case through Python, those of Checkpoint 2.0 and of model maps, too: the files are
those that a mount shows, and the tensors of each rank are those of its file."""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

import run_golden
import test_checkpoint2
import test_goldenmap
from ckpt_format import by_name
from format_files import read_safetensors
from mounted import MountFailed, Result, parse_binary, scratch
from test_python_tensors import random_index

import reshardfs

FLAGS = ("--check-crc", "--crc", "--allow-unmatched")


def keywords(words: list[str | Path]) -> dict[str, object]:
    """A command line's options as those of open()."""
    found: dict[str, list[object]] = {}
    rest = iter(words)
    for word in rest:
        name = str(word).removeprefix("--").replace("-", "_")
        value = True if word in FLAGS else next(rest)
        found[name] = [*found[name], value] if name in found else [value]
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def contents(path: Path) -> dict[str, bytes]:
    if path.suffix == ".ckpt":
        return {name: record.content for name, record in by_name(path.read_bytes()).items()}
    return {name: array.tobytes() for name, (_, array) in read_safetensors(path)[0].items()}


def check_rank(checkpoint: reshardfs.Checkpoint, rank: int, path: Path) -> None:
    """The tensors are those of the file, whole and in parts."""
    state = checkpoint.rank(rank)
    buffers = state.read()
    rng = random.Random(rank)
    for name, content in contents(path).items():
        run_golden.check(bytes(buffers.pop(name)) == content, f"rank {rank}: tensor '{name}' differs from the file")
        check_boxes(state[name], rng)
    # A .ckpt file has no parameters without elements, and a safetensors file no texts.
    more = [name for name, content in buffers.items() if len(content) and state[name].is_array]
    run_golden.check(not more, f"rank {rank}: more than the file: {more}")


def check_boxes(tensor: reshardfs.Tensor, rng: random.Random) -> None:
    if not tensor.is_array:
        return
    whole = tensor.numpy()
    for _ in range(3):
        index = random_index(rng, tensor.shape)
        run_golden.check(tensor[index].tobytes() == whole[index].tobytes(), f"tensor '{tensor.name}'[{index}] differs")


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
            for path in (directory / f"rank_{rank}").glob("*.*"):
                check_rank(checkpoint, rank, path)
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
    parser.add_argument(run_golden.ONE_FORM, action="store_true", help="as of run_golden.py")
    args = parse_binary(parser)
    for module in (run_golden, test_goldenmap, test_checkpoint2):
        module.mounted = written
    run_golden.refused = refused
    code = run_golden.run_cases(args.cases)
    if args.cases:
        return code
    tests = unittest.TestSuite([test_goldenmap.GoldenMap("test_tensors_are_those_of_the_original"),
                                test_checkpoint2.Golden("test_mounts")])
    return code or 1 - unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
