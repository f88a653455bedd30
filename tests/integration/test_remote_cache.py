# SPDX-License-Identifier: Apache-2.0
"""The cache on disk: what was fetched once is not fetched again, and nothing wrong is given out."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
from pathlib import Path

from mounted import mounted, run_unittests, wait_until
from remote_tests import MANY, SMALL, Remote
from two_arrays import COLUMNS, HALVES, ROWS, Layout, TwoArrays, metric
from web_server import of_ranges, status


class Cache(Remote):
    """Blocks on the local disk."""

    def setUp(self) -> None:
        super().setUp()
        self.set_up(ROWS, HALVES, MANY)
        self.cache = self.root / "cache"

    def options(self) -> tuple[str, ...]:
        return (*SMALL, "--cache-dir", str(self.cache), "--cache-size", "1GiB")

    def fill(self) -> None:
        with self.mount(*self.options()) as mountpoint:
            self.assert_all_right(mountpoint)
            total = 2 * len(self.made.expected(0))
            # Blocks are written behind the reader's back.
            self.assertTrue(wait_until(
                lambda: metric(mountpoint, "cache_written_bytes_total") >= 0.9 * total, 30))

    def test_what_was_read_is_not_fetched_again(self) -> None:
        self.fill()
        self.server.bytes_sent = 0
        with self.mount(*self.options()) as mountpoint:
            self.assert_all_right(mountpoint)
            self.assertGreater(metric(mountpoint, "cache_hits_total"), 0)
            shown = json.loads((mountpoint / ".reshardfs/status.json").read_text())
            self.assertGreater(shown["storage"]["cache_hits"], 0)
        self.assertLess(self.server.bytes_sent, 0.2 * 2 * len(self.made.expected(0)))

    def test_columns_come_from_the_cache_too(self) -> None:
        self.fill()
        for layout in (COLUMNS, Layout((1,), ((), ()))):
            made = TwoArrays(self.root / f"other{len(list(self.root.iterdir()))}", ROWS, layout, MANY)
            self.server.bytes_sent = 0
            with mounted(self.url, *made.options(), *self.options()) as mountpoint:
                for rank in range(layout.device_count):
                    self.assertEqual(self.read(mountpoint, rank), made.expected(rank))
            self.assertLess(self.server.bytes_sent, 0.2 * 2 * len(self.made.expected(0)))

    def test_another_version_is_fetched(self) -> None:
        self.fill()
        content = bytearray(self.made.file(1).read_bytes())
        content[-1000:] = bytes(1000)
        self.made.file(1).write_bytes(content)
        with self.mount(*self.options()) as mountpoint:
            got = self.read(mountpoint)
            self.assertNotEqual(got, self.made.expected(0))
            self.assertEqual(got.count(bytes(1000)), 1)
            self.assertEqual(self.read(mountpoint, 1), self.made.expected(1))

    def test_bad_blocks_are_fetched_again(self) -> None:
        self.fill()
        numbers = random.Random(5)
        blocks = [path for path in self.cache.rglob("*") if path.is_file() and
                  path.stat().st_size > 1 << 19]
        self.assertGreater(len(blocks), 30)
        for path in blocks:
            with path.open("r+b") as file:
                file.seek(numbers.randrange(path.stat().st_size))
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1 << numbers.randrange(8)]))
        with self.mount(*self.options()) as mountpoint:
            self.assert_all_right(mountpoint)
            self.assertGreaterEqual(metric(mountpoint, "cache_bad_total"), 0.9 * len(blocks))

    def test_weak_versions_are_not_kept(self) -> None:
        self.server.etags = "weak"
        with self.mount(*self.options()) as mountpoint:
            self.assert_all_right(mountpoint)
            self.assertEqual(metric(mountpoint, "cache_written_bytes_total"), 0)

    def test_without_permission_nothing_is_given_out(self) -> None:
        self.fill()
        self.server.rules = [of_ranges(status(403))]
        self.refused("access is denied", options=self.options())

    def test_several_mounts_share_one(self) -> None:
        with contextlib.ExitStack() as stack:
            mounts = [stack.enter_context(self.mount(*self.options())) for _ in range(4)]
            results: list[bool] = []

            def read(mountpoint: Path) -> None:
                results.append(all(self.read(mountpoint, rank) == self.made.expected(rank)
                                   for rank in range(2)))

            readers = [threading.Thread(target=read, args=(mountpoint,)) for mountpoint in mounts]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
            self.assertEqual(results, [True] * 4)

    def test_places_that_will_not_do(self) -> None:
        file = self.root / "file"
        file.write_text("")
        self.refused(str(file), options=("--cache-dir", str(file)))
        self.refused("too small", options=("--cache-dir", str(self.cache), "--cache-size", "1MiB"))


if __name__ == "__main__":
    run_unittests()
