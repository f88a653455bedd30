# SPDX-License-Identifier: Apache-2.0
"""A source that shrinks or is rewritten while columns are copied out of maps of it: readers get the
right bytes or an error, never a mixture, and the daemon lives."""

from __future__ import annotations

import errno
import os
import sys
import threading
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from mounted import mounted, processes_of, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

RANKS = 8
ROUNDS = 6
COLUMNS = Layout((RANKS,), ((), (0,)))


class Readers:
    """Threads that read rank files whole, again and again, and keep what was wrong."""

    def __init__(self, mountpoint: Path, expected: list[bytes]) -> None:
        self.mountpoint, self.expected = mountpoint, expected
        self.stop = threading.Event()
        self.first_reads = threading.Semaphore(0)
        self.wrong: list[str] = []
        self.errors = 0
        self.good = 0
        self.threads = [threading.Thread(target=self.read, args=(rank,)) for rank in range(4)]

    def read(self, rank: int) -> None:
        path = self.mountpoint / f"rank_{rank}/checkpoint_{rank}.ckpt"
        while not self.stop.is_set():
            try:
                data = path.read_bytes()
            except OSError as error:
                if error.errno not in (errno.ESTALE, errno.EIO):
                    self.wrong.append(f"rank {rank}: {error}")
                self.errors += 1
                self.stop.wait(0.001)
            else:
                if data.endswith(self.expected[rank]):
                    self.good += 1
                else:
                    self.wrong.append(f"rank {rank}: wrong bytes")
            self.first_reads.release()

    def __enter__(self) -> Readers:
        for thread in self.threads:
            thread.start()
        for _ in self.threads:
            self.first_reads.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(60)


class ChangingSource(unittest.TestCase):
    def change_under_readers(self, change: str, direct_io: bool) -> None:
        full = np.random.default_rng(1).integers(0, 256, (4096, 64 * RANKS), dtype=np.uint8)
        expected = [np.ascontiguousarray(shard(full, COLUMNS, rank)).tobytes()
                    for rank in range(RANKS)]
        data = encode_checkpoint([record_of("w", "UInt8", full)])
        with scratch() as directory:
            source = directory / "m.ckpt"
            write_protobuf(Strategy([{"w": COLUMNS}]), directory / "dst.ckpt")
            options = ["--dst-strategy", directory / "dst.ckpt", "--views", "ranks"]
            if direct_io:
                options.append("--direct-io")
            for _ in range(ROUNDS):
                source.write_bytes(data)
                with mounted(source, *options) as mountpoint:
                    with Readers(mountpoint, expected) as readers:
                        before = readers.errors
                        if change == "truncate":
                            os.truncate(source, len(data) // 3)
                        else:
                            with open(source, "r+b") as file:
                                file.seek(100)
                                file.write(bytes(len(data) - 200))
                        while readers.first_reads.acquire(blocking=False):
                            pass  # reads that had ended
                        for _ in range(20):
                            readers.first_reads.acquire()
                    self.assertEqual(readers.wrong, [])
                    self.assertGreater(readers.good, 0)
                    if direct_io:
                        self.assertGreater(readers.errors, before)
                    self.assertEqual(len(processes_of(mountpoint)), 1, "the daemon is gone")
                    self.assertEqual(len(os.listdir(mountpoint)), RANKS)

    def test_truncated(self) -> None:
        self.change_under_readers("truncate", direct_io=True)

    def test_truncated_with_the_page_cache(self) -> None:
        self.change_under_readers("truncate", direct_io=False)

    def test_rewritten(self) -> None:
        self.change_under_readers("rewrite", direct_io=True)


if __name__ == "__main__":
    run_unittests()
