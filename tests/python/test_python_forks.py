# SPDX-License-Identifier: Apache-2.0
"""A fork while other threads of the process wait for servers, for slow files and for each other: the
child opens and reads what it likes, and ends."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import threading
import unittest
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from ckpt_format import Record, encode_checkpoint
from fake_store import listing
from faulty_source import FaultFs, faulty, run_unittests_with_faults
from mounted import Settings, is_sanitized, scratch, wait_until
from python_sets import Gate
from web_server import Request, serving

import reshardfs

SECONDS = 60
CHILDREN = 8
READERS = 6


def in_children(test: unittest.TestCase, work: Callable[[], object]) -> None:
    """Some children, one after another, say that `work` gave True. One that hangs is ended by a signal."""
    for number in range(CHILDREN):
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            try:
                os.write(theirs, str(work()).encode())
            except BaseException as error:
                os.write(theirs, f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        test.assertEqual((said, os.waitstatus_to_exitcode(status)), ("True", 0), f"child {number}")


@contextlib.contextmanager
def threads_at(work: Callable[[], object], count: int) -> Iterator[None]:
    """Threads that are at it; what they end with does not matter."""
    def run() -> None:
        with contextlib.suppress(reshardfs.Error):
            work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(SECONDS)


FILE = "rank_0/checkpoint_0.ckpt"
TENSORS, BYTES = 8, 4 << 20
# Less than one of them: what was read is not there any more.
OPTIONS = {"prefetch_memory": "8MiB"}


@contextlib.contextmanager
def large_source() -> Iterator[Path]:
    """A directory with one file, larger than what the process keeps."""
    with scratch() as directory:
        source = directory / "source"
        source.mkdir()
        (source / "rank_0").mkdir()
        (source / FILE).write_bytes(encode_checkpoint(
            [Record(f"w{i}", "UInt8", (BYTES,), bytes([i + 1]) * BYTES) for i in range(TENSORS)]))
        yield source


def read_all(source: str | Path, **options: object) -> bool:
    """Whether all tensors are what they should be."""
    with reshardfs.open(source, **{**OPTIONS, **options}) as checkpoint:  # type: ignore[arg-type]
        return all_right(checkpoint.rank(0))


def all_right(state: reshardfs.State) -> bool:
    arrays = state.numpy()
    return len(arrays) == TENSORS and all((arrays[f"w{i}"] == i + 1).all() for i in range(TENSORS))


def use_in_child(answer: Connection, checkpoint: reshardfs.Checkpoint, state: reshardfs.State,
                 pickled: bytes) -> None:
    """Says that it begins, and then whether the parent's objects, and a copy of its own, read the right bytes."""
    signal.alarm(SECONDS)
    answer.send("begun")
    said = [all_right(state), bool((state["w0"].numpy() == 1).all()), all_right(checkpoint.rank(0))]
    with pickle.loads(pickled) as own:
        answer.send([*said, all_right(own.rank(0))])


class Forks(unittest.TestCase):
    def setUp(self) -> None:
        if is_sanitized(Settings.binary):
            self.skipTest("AddressSanitizer's allocator keeps the locks of threads that a fork leaves behind")

    def fork_while_busy(self, source: str, healthy: str, gate: Gate) -> None:
        """Readers wait for a server at the fork; others wait with them for what it sends."""
        self.assertTrue(read_all(healthy))
        checkpoint = reshardfs.open(source, **OPTIONS)
        state = checkpoint.rank(0)
        self.assertTrue(all_right(state))
        gate.open.clear()
        try:
            with threads_at(state.read, READERS):
                try:
                    self.assertTrue(gate.waiting.acquire(timeout=SECONDS))
                    in_children(self, lambda: read_all(healthy))
                finally:
                    gate.open.set()
            # The parent is as it was.
            self.assertTrue(all_right(state))
        finally:
            checkpoint.close()

    def test_readers_wait_for_a_web_server(self) -> None:
        gate = Gate()
        with large_source() as source, serving(source) as healthy, serving(source, rules=[gate]) as slow:
            self.fork_while_busy(f"{slow.url}/{FILE}", f"{healthy.url}/{FILE}", gate)

    def test_readers_wait_for_a_store(self) -> None:
        """And then parent and children read from it: a process has one store."""
        gate = Gate()
        with large_source() as source:
            # Another bucket of the same store answers.
            shutil.copytree(source, source.parent / "other")

            def gate_of_one(request: Request) -> bool:
                return gate(request) if request.path.startswith(f"/{source.name}/") else False

            with serving(source.parent, rules=[gate_of_one, listing]) as store:
                os.environ.update({"AWS_ENDPOINT_URL": store.url, "AWS_ACCESS_KEY_ID": "key",
                                   "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"})
                self.fork_while_busy(f"s3://{source.name}/", "s3://other/", gate)
                gate.waiting = threading.Semaphore(0)
                self.both_read(f"s3://{source.name}/", gate)

    def both_read(self, source: str, gate: Gate) -> None:
        """Parent and children read at once what the parent opened and read before the fork. The parent waits
        for the server then, and the children open their own copies while it does."""
        context = multiprocessing.get_context("fork")
        with reshardfs.open(source, **OPTIONS) as checkpoint:
            state = checkpoint.rank(0)
            self.assertTrue(all_right(state))
            pickled = pickle.dumps(checkpoint)
            read: list[bool] = []
            gate.open.clear()
            reader = threading.Thread(target=lambda: read.append(all_right(state)))
            reader.start()
            pipes, children = [], []
            try:
                self.assertTrue(gate.waiting.acquire(timeout=SECONDS))
                for _ in range(CHILDREN):
                    ours, theirs = context.Pipe(duplex=False)
                    child = context.Process(target=use_in_child, args=(theirs, checkpoint, state, pickled))
                    child.start()
                    theirs.close()
                    pipes.append(ours)
                    children.append(child)
                for pipe in pipes:
                    self.assertTrue(pipe.poll(SECONDS))
                    self.assertEqual(pipe.recv(), "begun")
                self.assertEqual(read, [], "the parent waits still")
            finally:
                gate.open.set()
            reader.join(SECONDS)
            self.assertEqual(read, [True])
            for pipe, child in zip(pipes, children):
                self.assertTrue(pipe.poll(SECONDS))
                self.assertEqual(pipe.recv(), [True] * 4)
                child.join(SECONDS)
                self.assertEqual(child.exitcode, 0)
            self.assertTrue(all_right(state))

    def test_parent_and_children_read_from_a_web_server(self) -> None:
        gate = Gate()
        with large_source() as source, serving(source, rules=[gate]) as server:
            self.both_read(f"{server.url}/{FILE}", gate)

    def test_one_opens_a_list_of_urls(self) -> None:
        """The list is read, with the lock of the lists, from a server that does not answer."""
        gate = Gate()
        with large_source() as source, serving(source) as healthy, serving(source.parent, rules=[gate]) as slow:
            for name in ("first.json", "other.json"):
                (source.parent / name).write_text(json.dumps({FILE: f"{healthy.url}/{FILE}"}))
            gate.open.clear()
            with threads_at(lambda: read_all(f"{slow.url}/first.json"), 2):
                try:
                    self.assertTrue(gate.waiting.acquire(timeout=SECONDS))
                    in_children(self, lambda: read_all(source.parent / "other.json"))
                finally:
                    gate.open.set()

    def test_readers_wait_for_a_slow_file(self) -> None:
        with large_source() as directory, faulty(FaultFs.program, directory) as source:
            shown = source.path / FILE
            checkpoint = reshardfs.open(shown, **OPTIONS)
            state = checkpoint.rank(0)
            source.forget_pages()
            # From here on its reads count as slow: threads make them, ahead, through the pool.
            source.set("*.ckpt count=20 delay=0.02")
            self.assertTrue(all_right(state))
            source.forget_pages()
            source.set("*.ckpt stall")
            with threads_at(state.read, READERS):
                try:
                    self.assertTrue(wait_until(lambda: source.stalled() > 0, SECONDS))
                    in_children(self, lambda: read_all(directory / FILE))
                finally:
                    source.set()
            checkpoint.close()
            del state  # or it would keep the file open

    def test_threads_open_and_read_all_the_while(self) -> None:
        """Whatever lock one of them holds at a fork."""
        with large_source() as source, serving(source) as server:
            url = f"{server.url}/{FILE}"
            stop = threading.Event()

            def work() -> None:
                while not stop.is_set():
                    read_all(url, cache_dir=str(source.parent / "cache"))
                    read_all(source)

            with threads_at(work, READERS):
                try:
                    in_children(self, lambda: read_all(url) and read_all(source))
                finally:
                    stop.set()


if __name__ == "__main__":
    run_unittests_with_faults()
