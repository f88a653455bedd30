# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python module have in common."""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from ckpt_format import Record
from make_checkpoint import GeneratedSet, Parallel, make_set
from mounted import parse_binary, scratch
from web_server import Request

import reshardfs

T = TypeVar("T")
WAIT_SECONDS = 60.0


def run_unittests_without_mounts() -> None:
    """As run_unittests() where nothing needs to be mounted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_binary(parser)
    unittest.main(argv=[sys.argv[0], "-v", *args.tests])


def class_context(case: type[unittest.TestCase], manager: contextlib.AbstractContextManager[T]) -> T:
    """As enterClassContext() of Python 3.11."""
    entered = manager.__enter__()
    case.addClassCleanup(manager.__exit__, None, None, None)
    return entered


class Gate:
    """A rule of a web server: while it is closed, requests wait, and are counted."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Semaphore(0)

    def __call__(self, _: Request) -> bool:
        if not self.open.is_set():
            self.waiting.release()
            self.open.wait(WAIT_SECONDS)
        return False


@contextlib.contextmanager
def small_set(src: str = "tp=4", dst: str = "tp=2,pp=2", *, seed: int = 5, scale: int = 1) -> Iterator[GeneratedSet]:
    with scratch() as directory:
        yield make_set(directory / "set", Parallel.parse(src), Parallel.parse(dst), seed=seed, scale=scale)


def options_of(made: GeneratedSet) -> dict[str, str]:
    return {"src_strategy": str(made.src_strategy), "dst_strategy": str(made.dst_strategy)}


@contextlib.contextmanager
def opened(made: GeneratedSet, **more: object) -> Iterator[reshardfs.Checkpoint]:
    with reshardfs.open(made.source, **{**options_of(made), **more}) as checkpoint:
        yield checkpoint


def check_tensors(test: unittest.TestCase, state: reshardfs.State, records: dict[str, Record]) -> None:
    """The state has the records of a file, with their types, shapes and bytes."""
    test.assertEqual(set(state), set(records))
    buffers = state.read()
    for name, record in records.items():
        tensor = state[name]
        test.assertEqual(bytes(memoryview(buffers[name])), record.content, name)
        test.assertEqual(tensor.nbytes, len(record.content), name)
        test.assertEqual(tensor.dtype, record.type.lower(), name)
        if tensor.is_array:
            test.assertEqual(tensor.shape, tuple(record.shape), name)


def arrays_only(records: dict[str, Record]) -> dict[str, Record]:
    return {name: record for name, record in records.items() if record.type != "str"}


ROOT = Path(__file__).resolve().parents[2]
