# SPDX-License-Identifier: Apache-2.0
"""Sources behind a network that loses packets, or all of some connections."""

from __future__ import annotations

import os
import random
import time

from mounted import mounted, run_unittests
from network import network
from remote_tests import MANY, SMALL, Remote
from two_arrays import COLUMNS, HALVES, ROWS, TwoArrays, metric, mounted_file
from web_server import serving


class Losses(Remote):
    def setUp(self) -> None:
        super().setUp()
        self.network = self.enterContext(network())
        directory = self.root / "behind"
        directory.mkdir()
        self.made = TwoArrays(directory, ROWS, HALVES, MANY)
        self.server = self.enterContext(serving(directory, behind=self.network))

    def random_reads(self, mountpoint, seconds: float) -> int:  # noqa: ANN001
        numbers = random.Random(7)
        expected = [self.made.expected(rank) for rank in range(2)]
        count = 0
        end = time.monotonic() + seconds
        with (mounted_file(mountpoint, 0).open("rb", buffering=0) as first,
              mounted_file(mountpoint, 1).open("rb", buffering=0) as second):
            while time.monotonic() < end:
                rank = numbers.randrange(2)
                offset = numbers.randrange(len(expected[rank]))
                got = os.pread((first, second)[rank].fileno(), 4096, offset)
                self.assertEqual(got, expected[rank][offset:offset + 4096])
                count += 1
        return count

    def test_lost_packets(self) -> None:
        with self.mount(*SMALL) as mountpoint:
            self.network.drop("numgen random mod 100 < 2", "numgen random mod 100 < 2")
            self.assert_all_right(mountpoint)
            self.assertGreater(self.random_reads(mountpoint, 3), 5)

    def test_columns_of_a_network_that_loses_packets(self) -> None:
        made = TwoArrays(self.root / f"other{len(list(self.root.iterdir()))}", ROWS, COLUMNS, MANY)
        self.network.drop("numgen random mod 100 < 1", "numgen random mod 100 < 1")
        with mounted(self.url, *made.options(), *SMALL) as mountpoint:
            for rank in range(COLUMNS.device_count):
                self.assertEqual(self.read(mountpoint, rank), made.expected(rank))

    def test_half_open_connections_are_given_up(self) -> None:
        """The other side has gone without a word: what it was asked for is asked for again."""
        with self.mount(*SMALL, "--remote-timeout", "12") as mountpoint:
            self.assertEqual(self.read(mountpoint), self.made.expected(0))
            ports = {request.handler.client_address[1] for request in self.server.requests}
            listed = ", ".join(map(str, sorted(ports)))
            self.network.drop(f"tcp sport {{ {listed} }}", f"tcp dport {{ {listed} }}")
            before = metric(mountpoint, "remote_retries_total")
            self.assertEqual(self.read(mountpoint, 1), self.made.expected(1))
            self.assertGreater(metric(mountpoint, "remote_retries_total"), before)

    def test_a_dead_network_is_an_error(self) -> None:
        with self.mount(*SMALL, "--remote-timeout", "3") as mountpoint:
            self.network.drop("meta l4proto tcp", "meta l4proto tcp")
            with self.assertRaises(OSError):
                self.read(mountpoint)


if __name__ == "__main__":
    run_unittests()
