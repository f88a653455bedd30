# SPDX-License-Identifier: Apache-2.0
"""Sources that fail, stall and answer in pieces, below a real mount: an error is the right one and
belongs to what it touches, bytes are right or there is an error, and all is well when it is over."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import random
import signal
import sys
import threading
import time
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from faulty_source import FaultySource, faulty  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from mounted import (  # noqa: E402
    assert_gone,
    errno_name,
    mounted,
    parse_settings,
    processes_of,
    run,
    scratch,
)
from strategy_files import Strategy, write_protobuf  # noqa: E402

RANKS = 4
SHAPE = (256, 4096)
ROWS = Layout((RANKS,), ((0,), ()))
COLUMNS = Layout((RANKS,), ((), (0,)))
HALVES = Layout((2,), ((0,), ()))
REPLICAS = Layout((2, RANKS // 2), ((1,), ()))

fault_fs = Path("fault_fs")


class Faults(unittest.TestCase):
    source: FaultySource
    log: Path

    @contextlib.contextmanager
    def mount(self, src: Layout, dst: Layout, *options: str,
              below: tuple[str, ...] = ()) -> Iterator[Path]:
        """A set of `w` and `v` on RANKS ranks behind fault_fs, mounted with --direct-io: what the
        kernel has cached of a mounted file would hide the faults."""
        rng = np.random.default_rng(3)
        self.full = {name: rng.integers(0, 256, SHAPE, dtype=np.uint8) for name in ("w", "v")}
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(scratch())
            for rank in range(RANKS):
                (directory / f"set/rank_{rank}").mkdir(parents=True)
                (directory / f"set/rank_{rank}/m-1_1.ckpt").write_bytes(encode_checkpoint(
                    [record_of(n, "UInt8", np.ascontiguousarray(shard(a, src, rank)))
                     for n, a in self.full.items()]))
            for name, layout in (("src", src), ("dst", dst)):
                write_protobuf(Strategy([{"w": layout, "v": layout}]), directory / f"{name}.ckpt")
            self.log = directory / "log"
            self.source = stack.enter_context(faulty(fault_fs, directory / "set", *below))
            yield stack.enter_context(mounted(
                self.source.path, "--src-strategy", directory / "src.ckpt", "--dst-strategy",
                directory / "dst.ckpt", "--direct-io", "--log-file", self.log, *options))

    def faults(self, *rules: str) -> None:
        self.source.set(*rules)
        self.source.forget_pages()

    @staticmethod
    def file(mountpoint: Path, rank: int) -> Path:
        return mountpoint / f"rank_{rank}/checkpoint_{rank}.ckpt"

    def expected(self, dst: Layout, rank: int) -> bytes:
        return encode_checkpoint([record_of(n, "UInt8", np.ascontiguousarray(shard(a, dst, rank)))
                                  for n, a in self.full.items()])

    def assert_fails(self, path: Path, code: int) -> None:
        with self.assertRaises(OSError) as caught:
            path.read_bytes()
        self.assertEqual(errno_name(caught.exception), errno.errorcode[code])

    def metric(self, mountpoint: Path, name: str) -> float:
        return sum(float(line.rsplit(" ", 1)[1])
                   for line in (mountpoint / ".reshardfs/metrics").read_text().splitlines()
                   if line.startswith(f"reshardfs_{name}"))

    def test_an_error_belongs_to_the_ranges_that_need_the_file(self) -> None:
        with self.mount(ROWS, HALVES) as mountpoint:
            whole = [self.expected(HALVES, rank) for rank in range(2)]
            self.assertEqual(self.file(mountpoint, 0).read_bytes(), whole[0])
            failed = self.metric(mountpoint, "read_errors_total")
            # The end of rank 1's file is the end of rank 0's second parameter.
            size = (self.source.path / "rank_1/m-1_1.ckpt").stat().st_size
            self.faults(f"rank_1/* error={errno.EIO} from={size - 4096}")
            self.assert_fails(self.file(mountpoint, 0), errno.EIO)
            self.assertGreater(self.metric(mountpoint, "read_errors_total"), failed)
            with open(self.file(mountpoint, 0), "rb", buffering=0) as file:
                self.assertEqual(file.read(100_000), whole[0][:100_000])
            self.assertEqual(self.file(mountpoint, 1).read_bytes(), whole[1])
            self.assertIn("rank_1/m-1_1.ckpt", self.log.read_text())
            self.faults()
            self.assertEqual(self.file(mountpoint, 0).read_bytes(), whole[0])

    def test_columns_fail_and_come_back(self) -> None:
        with self.mount(ROWS, COLUMNS) as mountpoint:
            whole = self.expected(COLUMNS, 3)
            self.faults(f"rank_2/* error={errno.EIO}")
            self.assert_fails(self.file(mountpoint, 3), errno.EIO)
            self.faults()
            self.assertEqual(self.file(mountpoint, 3).read_bytes(), whole)

    def test_a_replica_stands_in(self) -> None:
        # Ranks 0, 1 hold the upper half of the rows and 2, 3 the lower: REPLICAS' second axis cuts
        # nothing.
        with self.mount(REPLICAS, COLUMNS) as mountpoint:
            whole = [self.expected(COLUMNS, rank) for rank in range(RANKS)]
            self.faults(f"rank_0/* error={errno.EIO}")
            for rank in range(RANKS):
                self.assertEqual(self.file(mountpoint, rank).read_bytes(), whole[rank])
            self.assertGreater(self.metric(mountpoint, "replica_reads_total"), 0)
            self.assertEqual(self.metric(mountpoint, "read_errors_total"), 0)
            self.assertRegex(self.log.read_text(), "replica instead: .*rank_0/m-1_1.ckpt")
            self.faults(f"rank_[01]/* error={errno.EIO}")
            self.assert_fails(self.file(mountpoint, 3), errno.EIO)
            self.faults()
            self.assertEqual(self.file(mountpoint, 3).read_bytes(), whole[3])

    def test_a_replica_stands_in_for_a_file_that_changed(self) -> None:
        with self.mount(REPLICAS, COLUMNS) as mountpoint:
            whole = self.expected(COLUMNS, 1)
            source = self.log.parent / "set/rank_2/m-1_1.ckpt"
            with open(source, "r+b") as file:
                file.seek(1000)
                file.write(bytes(100_000))
            self.source.forget_pages()
            self.assertEqual(self.file(mountpoint, 1).read_bytes(), whole)
            with open(self.log.parent / "set/rank_3/m-1_1.ckpt", "ab") as file:
                file.write(b"x")
            self.assert_fails(self.file(mountpoint, 1), errno.ESTALE)

    def test_answers_in_pieces(self) -> None:
        with self.mount(ROWS, COLUMNS, below=("--direct-io",)) as mountpoint:
            self.faults("* short=777")
            for rank in range(RANKS):
                self.assertEqual(self.file(mountpoint, rank).read_bytes(),
                                 self.expected(COLUMNS, rank))

    def test_random_errors_never_give_wrong_bytes(self) -> None:
        with self.mount(ROWS, COLUMNS, below=("--direct-io",)) as mountpoint:
            whole = [self.expected(COLUMNS, rank) for rank in range(RANKS)]
            self.faults(f"* chance=0.1 error={errno.EIO}", "* chance=0.3 short=1000")
            good = [0] * RANKS
            bad: list[str] = []

            def read_randomly(rank: int) -> None:
                choose = random.Random(rank)
                with open(self.file(mountpoint, rank), "rb", buffering=0) as file:
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
                self.assertEqual(self.file(mountpoint, rank).read_bytes(), whole[rank])

    def test_a_stalled_source_holds_up_only_its_readers(self) -> None:
        with self.mount(ROWS, HALVES, "--params") as mountpoint:
            self.faults("rank_0/* stall")
            results: list[bytes] = []
            waiting = [threading.Thread(
                target=lambda: results.append(self.file(mountpoint, 0).read_bytes()))
                for _ in range(24)]
            for thread in waiting:
                thread.start()
            time.sleep(0.5)
            begin = time.monotonic()
            self.assertEqual(self.file(mountpoint, 1).read_bytes(), self.expected(HALVES, 1))
            for rank in range(2):
                self.assertEqual(sorted(os.listdir(mountpoint / f"rank_{rank}/params")),
                                 ["v.npy", "w.npy"])
                os.stat(mountpoint / f"rank_{rank}/params/w.npy")
            (mountpoint / ".reshardfs/status.json").read_text()
            self.assertLess(time.monotonic() - begin, 5)
            self.assertTrue(all(thread.is_alive() for thread in waiting))
            self.faults()
            for thread in waiting:
                thread.join(30)
            self.assertEqual(results, [self.expected(HALVES, 0)] * len(waiting))

    def test_ends_while_a_source_is_stalled(self) -> None:
        with self.mount(ROWS, HALVES) as mountpoint:
            self.faults("rank_0/* stall")
            failures: list[int | None] = []

            def read() -> None:
                try:
                    self.file(mountpoint, 0).read_bytes()
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
                thread.join(20)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertEqual(len(failures), len(readers))
            self.faults()
            assert_gone(mountpoint)
            # For the fixture, which unmounts.
            self.assertEqual(run("mount", self.source.path, mountpoint, "--views",
                                 "merged", "--src-strategy",
                                 self.log.parent / "src.ckpt").code, 0)


def main() -> None:
    global fault_fs
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault-fs", type=Path, required=True)
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    args = parse_settings(parser)
    fault_fs = args.fault_fs.resolve()
    unittest.main(argv=[sys.argv[0], "-v", *args.tests])


if __name__ == "__main__":
    main()
