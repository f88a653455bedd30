# SPDX-License-Identifier: Apache-2.0
"""A fork while other threads of the process wait for servers, for slow files and for each other: the
child opens and reads what it likes, and ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import unittest
from collections.abc import Callable, Iterator

from fake_store import listing
from faulty_source import FaultFs, faulty, run_unittests_with_faults
from mounted import Settings, is_sanitized, wait_until
from python_sets import options_of, small_set
from web_server import Request, serving

import reshardfs

SECONDS = 60
CHILDREN = 8
READERS = 6


class Gate:
    """A rule of a web server: while it is closed, requests wait, and are counted."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Semaphore(0)

    def __call__(self, _: Request) -> bool:
        if not self.open.is_set():
            self.waiting.release()
            self.open.wait(SECONDS)
        return False


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


def read_all(source: str, made: object, **options: object) -> dict[str, bytes]:
    with reshardfs.open(source, **{**options_of(made), **options}) as checkpoint:  # type: ignore[arg-type]
        return {name: bytes(memoryview(buffer)) for name, buffer in checkpoint.merged.read().items()}


class Forks(unittest.TestCase):
    def setUp(self) -> None:
        if is_sanitized(Settings.binary):
            self.skipTest("AddressSanitizer's allocator keeps the locks of threads that a fork leaves behind")

    def fork_while_busy(self, source: str, healthy: str, made: object, gate: Gate) -> None:
        """Readers wait for a server at the fork; others wait with them for what it sends."""
        want = read_all(healthy, made)
        self.assertEqual(want, read_all(source, made))
        checkpoint = reshardfs.open(source, **options_of(made))  # type: ignore[arg-type]
        state = checkpoint.merged
        gate.open.clear()
        try:
            with threads_at(state.read, READERS):
                try:
                    self.assertTrue(gate.waiting.acquire(timeout=SECONDS))
                    in_children(self, lambda: read_all(healthy, made) == want)
                finally:
                    gate.open.set()
            # The parent is as it was.
            self.assertEqual({name: bytes(memoryview(b)) for name, b in state.read().items()}, want)
        finally:
            checkpoint.close()

    def test_readers_wait_for_a_web_server(self) -> None:
        gate = Gate()
        with small_set("tp=2", "tp=1", scale=64) as made, serving(made.source) as healthy, \
                serving(made.source, rules=[gate]) as slow:
            self.fork_while_busy(slow.url, healthy.url, made, gate)

    def test_readers_wait_for_a_store(self) -> None:
        gate = Gate()
        with small_set("tp=2", "tp=1", scale=64) as made:
            bucket, root = made.source.name, made.source.parent
            # One store alone has the process: another prefix of it answers.
            (root / "other").mkdir()
            shutil.copytree(made.source, root / "other" / bucket)

            def gate_of_one(request: Request) -> bool:
                return gate(request) if request.path.startswith(f"/{bucket}/") else False

            with serving(root, rules=[gate_of_one, listing]) as store:
                os.environ.update({"AWS_ENDPOINT_URL": store.url, "AWS_ACCESS_KEY_ID": "key",
                                   "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"})
                self.fork_while_busy(f"s3://{bucket}/", f"s3://other/{bucket}/", made, gate)

    def test_one_opens_a_list_of_urls(self) -> None:
        """The list is read, with the lock of the lists, from a server that does not answer."""
        gate = Gate()
        with small_set("tp=2", "tp=1") as made, serving(made.source) as healthy, \
                serving(made.source.parent, rules=[gate]) as slow:
            place = made.source.parent
            files = [path for path in made.source.rglob("*") if path.is_file()]
            urls = {str(path.relative_to(made.source)): f"{healthy.url}/{path.relative_to(made.source)}"
                    for path in files}
            for name in ("first.json", "other.json"):
                (place / name).write_text(json.dumps(urls))
            want = read_all(str(made.source), made)
            gate.open.clear()
            with threads_at(lambda: read_all(f"{slow.url}/first.json", made), 2):
                try:
                    self.assertTrue(gate.waiting.acquire(timeout=SECONDS))
                    in_children(self, lambda: read_all(str(place / "other.json"), made) == want)
                finally:
                    gate.open.set()

    def test_readers_wait_for_a_slow_file(self) -> None:
        with small_set("tp=2", "tp=1", scale=64) as made, faulty(FaultFs.program, made.source) as source:
            want = read_all(str(made.source), made)
            checkpoint = reshardfs.open(source.path, **options_of(made))
            state = checkpoint.merged
            self.assertTrue(state.read())
            # From here on its reads count as slow: they are made by threads, ahead, through the pool.
            source.forget_pages()
            source.set("*.ckpt delay=0.02")
            self.assertTrue(state.read())
            source.forget_pages()
            source.set("*.ckpt stall")
            with threads_at(state.read, READERS):
                try:
                    self.assertTrue(wait_until(lambda: source.stalled() > 0, SECONDS))
                    in_children(self, lambda: read_all(str(made.source), made) == want)
                finally:
                    source.set()
            checkpoint.close()

    def test_threads_write_and_read_all_the_while(self) -> None:
        """Whatever lock one of them holds at a fork."""
        with small_set("tp=2", "tp=1") as made, serving(made.source) as healthy:
            want = read_all(str(made.source), made)
            stop = threading.Event()

            def work() -> None:
                while not stop.is_set():
                    read_all(healthy.url, made, cache_dir=str(made.source.parent / "cache"))
                    read_all(str(made.source), made)

            with threads_at(work, READERS):
                try:
                    in_children(self, lambda: read_all(healthy.url, made) == want
                                and read_all(str(made.source), made) == want)
                finally:
                    stop.set()


if __name__ == "__main__":
    run_unittests_with_faults()
