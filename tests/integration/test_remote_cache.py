# SPDX-License-Identifier: Apache-2.0
"""The cache on disk: what was fetched once is not fetched again, and nothing wrong is given out."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from mounted import NOBODY, Settings, mounted, run, run_unittests, wait_until
from object_store import object_store
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
                lambda: metric(mountpoint, "cache_written_bytes_total") >= 0.9 * total))

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

    def test_a_simulation_tells_what_is_fetched(self) -> None:
        for dst in (HALVES, COLUMNS, Layout((8,), ((0,), ()))):
            made = TwoArrays(self.root / f"other{len(list(self.root.iterdir()))}", ROWS, dst, MANY)
            told = json.loads(run("plan", made.source, *made.options(), "--simulate", "1",
                                  "--json").stdout)["total"]["fetched_bytes_with_cache"]
            # With room in memory for all: what the disk is too slow to keep is fetched once, too.
            cache = ("--cache-dir", str(self.root / f"cache{dst.device_count}"))
            with mounted(self.url, *made.options(), *cache) as mountpoint:
                for rank in range(dst.device_count):
                    self.assertEqual(self.read(mountpoint, rank), made.expected(rank))
                fetched = metric(mountpoint, "remote_bytes_total")
            self.assertLess(abs(fetched / told - 1), 0.03, f"{dst}: {fetched} bytes, {told}")

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


    def test_a_directory_that_somebody_else_has_taken_is_left_out(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can make what belongs to others")
        self.cache.mkdir(exist_ok=True)
        self.cache.chmod(0o1777)
        taken = self.cache / "reshardfs-0"
        for make in (taken.mkdir, taken.touch, lambda: taken.symlink_to("/tmp")):
            make()
            os.lchown(taken, NOBODY, NOBODY)
            result = run("inspect", self.made.source, "--cache-dir", self.cache)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertRegex(result.stderr, rf"^reshardfs: warning: no cache is used: {taken}: .*\n$")
            taken.rmdir() if taken.is_dir() and not taken.is_symlink() else taken.unlink()


@contextlib.contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    Settings.environment = variables
    try:
        yield
    finally:
        Settings.environment = {}


class Indexes(Remote):
    """What the files hold is found out once."""

    def setUp(self) -> None:
        super().setUp()
        self.cache = self.root / "cache"

    def options(self) -> tuple[str, ...]:
        return "--cache-dir", str(self.cache), "--cache-size", "1GiB"

    def requests(self, mountpoint: Path) -> int:
        return int(metric(mountpoint, "remote_requests_total"))

    def test_no_header_of_a_web_server_is_read_again(self) -> None:
        with self.mount(*self.options()):
            pass
        self.server.requests.clear()
        with self.mount(*self.options()) as mountpoint:
            # One tells of each file what version it is.
            self.assertEqual(sum(1 for request in self.server.requests if request.range), 4)
            self.assert_all_right(mountpoint)

    def test_one_list_of_a_store_is_enough(self) -> None:
        with object_store() as store:
            store.upload("bucket", self.made.source, "sets/")
            with environment(store.environment):
                with mounted("s3://bucket/sets", *self.made.options(), *self.options()) as first:
                    before = self.requests(first)
                    self.assertGreater(before, 4)
                with mounted("s3://bucket/sets", *self.made.options(), *self.options()) as second:
                    self.assertEqual(self.requests(second), 1)
                    self.assert_all_right(second)
                # Another version of one file is found in the list.
                content = bytearray(self.made.file(1).read_bytes())
                content[-1000:] = bytes(1000)
                self.made.file(1).write_bytes(content)
                store.upload("bucket", self.made.source, "sets/")
                with mounted("s3://bucket/sets", *self.made.options(), *self.options()) as third:
                    self.assertGreater(self.requests(third), 1)
                    self.assertEqual(self.read(third).count(bytes(1000)), 1)

    def test_who_has_lost_the_right_gets_nothing_from_the_cache(self) -> None:
        with object_store() as store:
            store.upload("bucket", self.made.source, "sets/")
            with environment(store.environment):
                with mounted("s3://bucket/sets", *self.made.options(), *self.options()) as mountpoint:
                    self.assert_all_right(mountpoint)
                deny = {"Version": "2012-10-17", "Statement": [{
                    "Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
                    "Resource": "arn:aws:s3:::bucket/*"}]}
                with contextlib.closing(store.client()) as client:
                    client.put_bucket_policy(Bucket="bucket", Policy=json.dumps(deny))
                # What the cache knows of the set's files is shown; none of their bytes is.
                with mounted("s3://bucket/sets", *self.made.options(), *self.options()) as mountpoint:
                    with self.assertRaises(OSError):
                        self.read(mountpoint)
                    self.assertEqual(metric(mountpoint, "cache_hits_total"), 0)

    def test_local_files_are_known_again_when_they_are_old_enough(self) -> None:
        source = self.made.source
        options = (source, *self.made.options(), *self.options())
        # A file that was just written may be written again within the same tick of its clock.
        newest = max(path.stat().st_ctime for path in source.rglob("*"))
        self.assertTrue(wait_until(lambda: time.time() > newest + 2.1))
        reads = []
        for _ in range(2):
            with mounted(*options) as mountpoint:
                reads.append(int(metric(mountpoint, "source_reads_total")))
                self.assert_all_right(mountpoint)
        self.assertGreater(reads[0], 2 + 4)
        # Of the two strategies: what is read tells this mount from others, too.
        self.assertEqual(reads[1], 2)
        # Another file of the same size.
        content = bytearray(self.made.file(2).read_bytes())
        content[-1000:] = bytes(1000)
        self.made.file(2).write_bytes(content)
        with mounted(*options) as mountpoint:
            self.assertGreater(int(metric(mountpoint, "source_reads_total")), 2)
            self.assertEqual(self.read(mountpoint, 1).count(bytes(1000)), 1)


if __name__ == "__main__":
    run_unittests()
