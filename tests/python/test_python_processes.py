# SPDX-License-Identifier: Apache-2.0
"""Threads, forks, interpreters and signals."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from faulty_source import FaultFs, FaultySource, faulty, run_unittests_with_faults
from mounted import Settings, is_sanitized, scratch, wait_until
from python_sets import arrays_only, opened, small_set

import reshardfs

SECONDS = 60.0
THREADS = 16
# What an interrupted program does when it is told to, after it has said that it begins.
INTERRUPTED = """
import faulthandler, os, signal, sys, threading, time
import reshardfs
faulthandler.register(signal.SIGUSR1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
source, stall = sys.argv[1], sys.argv[3]
# A file system that the machine makes slow is read like a local disk, too: nothing is kept of it.
options = {{"src_strategy": sys.argv[2], "dst_strategy": "none", "prefetch_memory": 0}}
checkpoint = reshardfs.open(source, **options) if {opens} else None
state = checkpoint.merged if checkpoint else None
def go():
    global struck
    while os.path.exists(stall):
        time.sleep(0.01)
    time.sleep(0.3)
    struck = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
open(stall, "w").close()
threading.Thread(target=go).start()
while os.path.exists(stall):
    time.sleep(0.01)
try:
    {call}
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - struck)
"""
CALLS = {
    "a tensor": "state['lm_head.weight'].numpy()",
    "a box": "state['lm_head.weight'][1:3, 2:5]",
    "into a buffer": "state['lm_head.weight'].read_into(bytearray(state['lm_head.weight'].nbytes))",
    "all of it": "state.numpy()",
    "DLPack": "state['lm_head.weight'].__dlpack__()",
    "a file": "checkpoint.file('merged/checkpoint_merged.ckpt').read()",
    "opening": "reshardfs.open(source, **options)",
    "the command": "reshardfs.verify(source, src_strategy=options['src_strategy'])",
}


class Threads(unittest.TestCase):
    def test_many_over_one_handle(self) -> None:
        with small_set(scale=8) as made, opened(made) as checkpoint:
            states = {rank: (checkpoint.rank(rank), arrays_only(made.expected(rank))) for rank in checkpoint.ranks}
            barrier = threading.Barrier(THREADS)

            def work(number: int) -> int:
                rng = np.random.default_rng(number)
                barrier.wait(SECONDS)
                checked = 0
                for _ in range(150):
                    state, records = states[int(rng.integers(len(states)))]
                    name = str(rng.choice(list(records)))
                    array = records[name].array()
                    if array.ndim and rng.integers(2):
                        begin = int(rng.integers(len(array)))
                        same = state[name][begin:].tobytes() == array[begin:].tobytes()
                    else:
                        same = state[name].numpy().tobytes() == array.tobytes()
                    checked += same
                return checked

            with ThreadPoolExecutor(THREADS) as pool:
                self.assertEqual(list(pool.map(work, range(THREADS))), [150] * THREADS)

    def test_many_open_and_one_closes(self) -> None:
        with small_set(scale=8) as made, opened(made) as checkpoint:
            state = checkpoint.merged
            closed: list[str] = []

            def work(_: int) -> None:
                try:
                    while True:
                        state.numpy()
                except reshardfs.Error as error:
                    closed.append(str(error))

            with ThreadPoolExecutor(THREADS) as pool:
                futures = [pool.submit(work, number) for number in range(THREADS)]
                checkpoint.close()
                for future in futures:
                    future.result(SECONDS)
            self.assertEqual(set(closed), {"the checkpoint is closed"})

    def test_others_run_while_one_reads(self) -> None:
        """The interpreter is free while a read waits for its source."""
        with small_set("tp=2", "tp=1", scale=8) as made, faulty(FaultFs.program, made.source) as source, \
                reshardfs.open(source.path, src_strategy=made.src_strategy, dst_strategy="none",
                               prefetch_memory=0) as checkpoint:
            state = checkpoint.merged
            source.forget_pages()
            source.set("*.ckpt stall")
            thread = threading.Thread(target=state.read)
            thread.start()
            try:
                # This thread runs, or it would not see that the other one waits.
                self.assertTrue(wait_until(lambda: source.stalled() > 0, SECONDS))
                self.assertTrue(thread.is_alive())
            finally:
                source.set()
                thread.join(SECONDS)
            self.assertFalse(thread.is_alive())
            del state, thread  # what they have open would keep the source busy


class Forks(unittest.TestCase):
    def in_child(self, work: object) -> str:
        """What a forked child says; it must end by itself."""
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(theirs, str(work()).encode())  # type: ignore[operator]
            except BaseException as error:
                os.write(theirs, f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(0)
        os.close(theirs)
        with os.fdopen(ours) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        return said

    def test_what_was_opened_before_is_opened_again(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            state = checkpoint.rank(0)
            name = state.arrays()[0]
            tensor, want = state[name], bytes(state[name])
            texts = checkpoint.metadata()
            for call in (lambda: bytes(checkpoint.rank(0)[name]), lambda: bytes(tensor), lambda: bytes(state.read()[name]),
                         lambda: tensor.numpy().tobytes(), lambda: bytes(pickle.loads(pickle.dumps(tensor))),
                         lambda: tensor[0:].tobytes(), lambda: checkpoint.file("rank_0/checkpoint_0.ckpt").read(2) and want):
                self.assertEqual(self.in_child(lambda: call() == want), "True")
            self.assertEqual(self.in_child(lambda: state.metadata() == texts and checkpoint.metadata() == texts), "True")
            # The child of a child.
            self.assertEqual(self.in_child(lambda: bytes(tensor) == want and self.in_child(lambda: bytes(tensor) == want)),
                             "True")
            self.assertEqual(bytes(tensor), want)

    def test_closing_it_in_a_child_closes_it_there(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            state = checkpoint.rank(0)
            name = state.arrays()[0]

            def closed(use_first: bool) -> object:
                if use_first:
                    checkpoint.rank(0).read()
                checkpoint.close()
                return state[name].read()

            for use_first in (False, True):
                self.assertEqual(self.in_child(lambda: closed(use_first)), "Error: the checkpoint is closed")
            self.assertEqual(len(state[name].read()), state[name].nbytes)

    def test_a_child_refuses_files_that_have_changed(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            tensor = next(iter(checkpoint.rank(0).values()))
            for path in made.source.rglob("*.ckpt"):
                os.utime(path, ns=(1, 1))
            self.assertIn("there are other files now than when the checkpoint was opened", self.in_child(tensor.read))

    def test_files_that_were_opened_before_are_refused(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            file = checkpoint.file("rank_0/checkpoint_0.ckpt")
            self.assertEqual(self.in_child(file.read), "Error: the checkpoint was opened before this process was forked; "
                             "open it again here, or start processes with multiprocessing's 'spawn'")

    def test_opened_again_it_works(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            want = bytes(checkpoint.merged["lm_head.weight"])

            def again() -> bool:
                nonlocal checkpoint
                checkpoint.close()
                del checkpoint
                with opened(made) as mine:
                    return bytes(mine.merged["lm_head.weight"]) == want

            self.assertEqual(self.in_child(again), "True")

    def test_forked_while_others_read_and_open(self) -> None:
        if is_sanitized(Settings.binary):
            self.skipTest("AddressSanitizer's allocator keeps the locks of threads that a fork leaves behind")
        with small_set() as made, opened(made) as checkpoint:
            want = bytes(checkpoint.merged["lm_head.weight"])
            stop = threading.Event()

            def work() -> None:
                while not stop.is_set():
                    with opened(made) as mine:
                        mine.merged.read()

            def again() -> bool:
                signal.alarm(int(SECONDS))
                with opened(made) as mine:
                    return bytes(mine.merged["lm_head.weight"]) == want

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            try:
                for _ in range(20):
                    self.assertEqual(self.in_child(again), "True")
            finally:
                stop.set()
                for thread in threads:
                    thread.join(SECONDS)

    def test_the_parent_goes_on(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            self.in_child(lambda: 1)
            self.assertTrue(checkpoint.merged.numpy())


class Interpreters(unittest.TestCase):
    def test_another_one_is_refused(self) -> None:
        code = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
{first}
number = interpreters.create()
interpreters.run_string(number, "try:\\n import reshardfs\\nexcept ImportError as e: print(e, flush=True)")
interpreters.destroy(number)
import reshardfs
print(reshardfs.__name__)
"""
        for first in ("", "import reshardfs"):
            done = subprocess.run([sys.executable, "-c", code.format(first=first)], capture_output=True, text=True,
                                  timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            # Later versions of Python refuse it themselves.
            self.assertRegex(done.stdout, "^(reshardfs works in the main interpreter only|module .* does not support "
                                          "loading in subinterpreters)\nreshardfs\n$")


class Signals(unittest.TestCase):
    @contextmanager
    def stalling(self) -> Iterator[tuple[object, FaultySource]]:
        with small_set("tp=2", "tp=1", scale=8) as made, faulty(FaultFs.program, made.source) as source:
            yield made, source

    def line_of(self, process: subprocess.Popen[str]) -> str:
        """What it says; where that does not come, where each of its threads is."""
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        if ready:
            return process.stdout.readline()
        process.send_signal(signal.SIGUSR1)
        stderr, _, _ = select.select([process.stderr], [], [], SECONDS)
        os.set_blocking(process.stderr.fileno(), False)
        self.fail(f"it goes on in spite of SIGINT: {process.stderr.read() if stderr else ''}")

    def test_interrupt_ends_any_call(self) -> None:
        """While its source does not answer. How soon is told, and no test of this machine."""
        for what, call in CALLS.items():
            with self.subTest(what), self.stalling() as (made, source), scratch() as directory:
                opens = what not in ("opening", "the command")
                code = INTERRUPTED.format(call=call, opens=opens)
                flag = directory / "stall"
                process = subprocess.Popen(
                    [sys.executable, "-c", code, str(source.path), str(made.src_strategy), str(flag)],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                try:
                    deadline = time.monotonic() + SECONDS
                    while not flag.exists() and process.poll() is None and time.monotonic() < deadline:
                        time.sleep(0.01)
                    source.forget_pages()
                    source.set("*.ckpt stall")
                    flag.unlink()
                    said = self.line_of(process)
                    self.assertRegex(said, "^interrupted [0-9.]+\n", process.stderr.read() if not said else "")
                    # Its end waits for nobody either.
                    self.assertEqual(process.wait(SECONDS), 0)
                    print(f"{what}: {float(said.split()[1]):.3f} s ", end="", file=sys.stderr, flush=True)
                finally:
                    source.set()
                    process.kill()
                    process.communicate(timeout=SECONDS)

    def test_handlers_that_do_not_raise_run_meanwhile(self) -> None:
        with small_set(scale=256) as made, opened(made) as checkpoint:
            rung = 0

            def ring(*_: object) -> None:
                nonlocal rung
                rung += 1

            before = signal.signal(signal.SIGALRM, ring)
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            try:
                state = checkpoint.merged
                for _ in range(5):
                    for name, record in arrays_only(made.merged()).items():
                        self.assertEqual(state[name].numpy().tobytes(), record.content)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            self.assertGreater(rung, 0)


if __name__ == "__main__":
    run_unittests_with_faults()
