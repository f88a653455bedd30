# SPDX-License-Identifier: Apache-2.0
"""Sources that fail, stall and answer in pieces, below a real mount: an error is the right one and
belongs to what it touches, bytes are right or there is an error, and all is well when it is over."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import threading
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faulty_source import KEEPS_NOTHING, FaultFs, FaultySource, faulty, run_unittests_with_faults
from mounted import (
    assert_gone,
    errno_name,
    mounted,
    processes_of,
    run,
    scratch,
)
from two_arrays import (
    COLUMNS,
    HALVES,
    RANKS,
    REPLICAS,
    ROWS,
    Layout,
    TwoArrays,
    metric,
    mounted_file,
)

SHAPE = (256, 4096)



class Faults(unittest.TestCase):
    made: TwoArrays
    source: FaultySource
    log: Path

    @contextlib.contextmanager
    def mount(self, src: Layout, dst: Layout, *options: str,
              below: tuple[str, ...] = ()) -> Iterator[Path]:
        """A set behind fault_fs, mounted with --direct-io: what the kernel has cached of a mounted
        file would hide the faults."""
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(scratch())
            self.made = TwoArrays(directory, src, dst, SHAPE)
            self.log = directory / "log"
            self.source = stack.enter_context(faulty(FaultFs.program, self.made.source, *below))
            yield stack.enter_context(mounted(self.source.path, *self.made.options(), "--direct-io",
                                              *KEEPS_NOTHING, "--log-file", self.log, *options))

    def faults(self, *rules: str) -> None:
        self.source.set(*rules)
        self.source.forget_pages()

    def assert_fails(self, path: Path, code: int) -> None:
        with self.assertRaises(OSError) as caught:
            path.read_bytes()
        self.assertEqual(errno_name(caught.exception), errno.errorcode[code])

    def test_an_error_belongs_to_the_ranges_that_need_the_file(self) -> None:
        with self.mount(ROWS, HALVES) as mountpoint:
            whole = [self.made.expected(rank) for rank in range(2)]
            self.assertEqual(mounted_file(mountpoint, 0).read_bytes(), whole[0])
            failed = metric(mountpoint, "read_errors_total")
            # The end of rank 1's file is the end of rank 0's second parameter.
            size = (self.source.path / "rank_1/m-1_1.ckpt").stat().st_size
            self.faults(f"rank_1/* error={errno.EIO} from={size - 4096}")
            self.assert_fails(mounted_file(mountpoint, 0), errno.EIO)
            self.assertGreater(metric(mountpoint, "read_errors_total"), failed)
            with open(mounted_file(mountpoint, 0), "rb", buffering=0) as file:
                self.assertEqual(file.read(100_000), whole[0][:100_000])
            self.assertEqual(mounted_file(mountpoint, 1).read_bytes(), whole[1])
            self.assertIn("rank_1/m-1_1.ckpt", self.log.read_text())
            self.faults()
            self.assertEqual(mounted_file(mountpoint, 0).read_bytes(), whole[0])

    def test_columns_fail_and_come_back(self) -> None:
        with self.mount(ROWS, COLUMNS) as mountpoint:
            whole = self.made.expected(3)
            self.faults(f"rank_2/* error={errno.EIO}")
            self.assert_fails(mounted_file(mountpoint, 3), errno.EIO)
            self.faults()
            self.assertEqual(mounted_file(mountpoint, 3).read_bytes(), whole)

    def test_a_replica_stands_in(self) -> None:
        # Ranks 0, 1 hold the upper half of the rows and 2, 3 the lower: REPLICAS' second axis cuts
        # nothing.
        with self.mount(REPLICAS, COLUMNS) as mountpoint:
            whole = [self.made.expected(rank) for rank in range(RANKS)]
            self.faults(f"rank_0/* error={errno.EIO}")
            for rank in range(RANKS):
                self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), whole[rank])
            self.assertGreater(metric(mountpoint, "replica_reads_total"), 0)
            self.assertEqual(metric(mountpoint, "read_errors_total"), 0)
            self.assertRegex(self.log.read_text(), "replica instead: .*rank_0/m-1_1.ckpt")
            self.faults(f"rank_[01]/* error={errno.EIO}")
            self.assert_fails(mounted_file(mountpoint, 3), errno.EIO)
            self.faults()
            self.assertEqual(mounted_file(mountpoint, 3).read_bytes(), whole[3])

    def test_a_replica_stands_in_for_a_file_that_changed(self) -> None:
        with self.mount(REPLICAS, COLUMNS) as mountpoint:
            whole = self.made.expected(1)
            source = self.made.file(2)
            with open(source, "r+b") as file:
                file.seek(1000)
                file.write(bytes(100_000))
            self.source.forget_pages()
            self.assertEqual(mounted_file(mountpoint, 1).read_bytes(), whole)
            with open(self.made.file(3), "ab") as file:
                file.write(b"x")
            self.assert_fails(mounted_file(mountpoint, 1), errno.ESTALE)

    def test_answers_in_pieces(self) -> None:
        with self.mount(ROWS, COLUMNS, below=("--direct-io",)) as mountpoint:
            self.faults("* short=777")
            for rank in range(RANKS):
                self.assertEqual(mounted_file(mountpoint, rank).read_bytes(),
                                 self.made.expected(rank))

    def test_random_errors_never_give_wrong_bytes(self) -> None:
        with self.mount(ROWS, COLUMNS, below=("--direct-io",)) as mountpoint:
            whole = [self.made.expected(rank) for rank in range(RANKS)]
            self.faults(f"* chance=0.1 error={errno.EIO}", "* chance=0.3 short=1000")
            good = [0] * RANKS
            bad: list[str] = []

            def read_randomly(rank: int) -> None:
                choose = random.Random(rank)
                with open(mounted_file(mountpoint, rank), "rb", buffering=0) as file:
                    for _ in range(300):
                        offset = choose.randrange(len(whole[rank]))
                        length = choose.randrange(1, 100_000)
                        try:
                            data = os.pread(file.fileno(), length, offset)
                        except OSError as error:
                            if error.errno != errno.EIO:
                                bad.append(str(error))
                        else:
                            good[rank] += 1
                            # A kernel may end a read early where an error follows.
                            if not data or data != whole[rank][offset: offset + len(data)]:
                                bad.append(f"rank {rank}, {length} bytes at {offset}")

            with ThreadPoolExecutor(RANKS) as pool:
                list(pool.map(read_randomly, range(RANKS)))
            self.assertEqual(bad, [])
            self.assertGreater(min(good), 0)
            self.faults()
            for rank in range(RANKS):
                self.assertEqual(mounted_file(mountpoint, rank).read_bytes(), whole[rank])

    def test_a_stalled_source_holds_up_only_its_readers(self) -> None:
        with self.mount(ROWS, HALVES, "--params") as mountpoint:
            self.faults("rank_0/* stall")
            results: list[bytes] = []
            waiting = [threading.Thread(
                target=lambda: results.append(mounted_file(mountpoint, 0).read_bytes()))
                for _ in range(24)]
            for thread in waiting:
                thread.start()
            time.sleep(0.5)
            begin = time.monotonic()
            self.assertEqual(mounted_file(mountpoint, 1).read_bytes(), self.made.expected(1))
            for rank in range(2):
                self.assertEqual(sorted(os.listdir(mountpoint / f"rank_{rank}/params")),
                                 ["v.npy", "w.npy"])
                os.stat(mountpoint / f"rank_{rank}/params/w.npy")
            (mountpoint / ".reshardfs/status.json").read_text()
            self.assertLess(time.monotonic() - begin, 30)
            self.assertTrue(all(thread.is_alive() for thread in waiting))
            self.faults()
            for thread in waiting:
                thread.join(60)
            self.assertEqual(results, [self.made.expected(0)] * len(waiting))

    def test_ends_while_a_source_is_stalled(self) -> None:
        with self.mount(ROWS, HALVES) as mountpoint:
            self.faults("rank_0/* stall")
            failures: list[int | None] = []

            def read() -> None:
                try:
                    mounted_file(mountpoint, 0).read_bytes()
                except OSError as error:
                    failures.append(error.errno)

            readers = [threading.Thread(target=read) for _ in range(8)]
            for thread in readers:
                thread.start()
            time.sleep(0.3)
            (daemon,) = processes_of(mountpoint)
            begin = time.monotonic()
            os.kill(daemon, signal.SIGTERM)
            os.kill(daemon, signal.SIGTERM)
            for thread in readers:
                thread.join(60)
            self.assertLess(time.monotonic() - begin, 30)
            self.assertEqual(len(failures), len(readers))
            self.faults()
            assert_gone(mountpoint)
            # For the fixture, which unmounts.
            self.assertEqual(run("mount", self.source.path, mountpoint, "--views",
                                 "merged", "--src-strategy",
                                 self.made.strategies[0]).code, 0)


if __name__ == "__main__":
    run_unittests_with_faults()
