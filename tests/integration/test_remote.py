# SPDX-License-Identifier: Apache-2.0
"""Sources on web servers: right bytes whatever the server does, or an error; never a wait without
an end, never bytes of two versions.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

from mounted import (
    Settings,
    errno_name,
    mounted,
    mountpoint_guard,
    one_line,
    run,
    run_unittests,
    scratch,
    wait_until,
)
from two_arrays import COLUMNS, HALVES, ROWS, Layout, TwoArrays, metric, mounted_file
from make_large import make_large  # two_arrays has put its directory on the path
from web_server import Server, cut, late, of_ranges, reset, serving, sometimes, status

SHAPE = (512, 8192)  # two arrays of 4 MiB
# Two of 32 MiB: more than fits into SMALL, so that what is read must be fetched.
MANY = (4096, 8192)
SMALL = ("--prefetch-memory", "8MiB")


class Remote(unittest.TestCase):
    """A set on a server."""

    made: TwoArrays
    root: Path
    server: Server

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.set_up(ROWS, HALVES)

    def set_up(self, src: Layout, dst: Layout, shape: tuple[int, int] = SHAPE) -> None:
        directory = self.root / f"set{len(list(self.root.iterdir()))}"
        directory.mkdir()
        self.made = TwoArrays(directory, src, dst, shape)
        self.server = self.enterContext(serving(directory))

    @property
    def url(self) -> str:
        return f"{self.server.url}/set"

    @contextlib.contextmanager
    def mount(self, *options: str, url: str | None = None) -> Iterator[Path]:
        self.log = self.root / "log"
        with mounted(url or self.url, *self.made.options(), "--log-file", self.log,
                     *options) as mountpoint:
            yield mountpoint

    def read(self, mountpoint: Path, rank: int = 0) -> bytes:
        return mounted_file(mountpoint, rank).read_bytes()

    def assert_all_right(self, mountpoint: Path) -> None:
        for rank in range(self.made.dst.device_count):
            self.assertEqual(self.read(mountpoint, rank), self.made.expected(rank))

    def refused(self, *words: str, url: str | None = None, options: tuple[str, ...] = ()) -> str:
        """The one line of a mount that fails."""
        target = self.root / "mnt"
        target.mkdir(exist_ok=True)
        with mountpoint_guard(target):
            result = run("mount", url or self.url, target, *self.made.options(),
                         "--remote-timeout", "2", *options)
        self.assertIn(result.code, (2, 3), result.stderr)
        line = one_line(result)
        for word in words:
            self.assertIn(word, line)
        return line


class Reading(Remote):
    def test_bytes_are_right_under_every_pair_of_layouts(self) -> None:
        for src in (ROWS, COLUMNS):
            for dst in (HALVES, COLUMNS, ROWS):
                with self.subTest(src=src, dst=dst):
                    self.set_up(src, dst)
                    with self.mount() as mountpoint:
                        self.assert_all_right(mountpoint)

    def test_lists_in_html_do_as_well(self) -> None:
        self.server.html = True
        with self.mount() as mountpoint:
            self.assert_all_right(mountpoint)

    def test_strategies_may_be_urls_too(self) -> None:
        options = [f"{self.server.url}/{path.name}" for path in self.made.strategies]
        with mounted(self.url, "--src-strategy", options[0], "--dst-strategy",
                     options[1]) as mountpoint:
            self.assert_all_right(mountpoint)

    def test_a_request_is_one_round_trip_deep(self) -> None:
        """A read that needs four sources asks all of them before any has answered."""
        self.set_up(ROWS, Layout((1,), ((), ())))
        with self.mount("--direct-io") as mountpoint:
            together = threading.Barrier(4)

            def meet(_: object) -> bool:
                together.wait(20)
                return False

            # Of one array each rank has a quarter: a read over all four.
            with mounted_file(mountpoint, 0).open("rb", buffering=0) as file:
                self.server.rules.append(of_ranges(meet))
                quarter = SHAPE[0] * SHAPE[1] // 4
                got = os.pread(file.fileno(), 3 * quarter, quarter // 2)
            self.server.rules.clear()
            want = self.made.expected(0)[quarter // 2:quarter // 2 + len(got)]
            self.assertEqual(got, want)
            self.assertGreater(len(got), 0)

    def test_columns_of_all_ranks_at_once_are_fetched_once(self) -> None:
        self.set_up(ROWS, COLUMNS, MANY)
        with self.mount("--views", "ranks") as mountpoint:
            self.server.bytes_sent = 0
            results: dict[int, bool] = {}

            def read(rank: int) -> None:
                results[rank] = self.read(mountpoint, rank) == self.made.expected(rank)

            readers = [threading.Thread(target=read, args=(rank,)) for rank in range(4)]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
            self.assertEqual(results, dict.fromkeys(range(4), True))
            total = sum(len(self.made.expected(rank)) for rank in range(4))
            self.assertLess(self.server.bytes_sent, 1.1 * total)

    def test_a_row_split_fetches_little_more_than_it_needs(self) -> None:
        self.set_up(ROWS, Layout((8,), ((0,), ())), MANY)
        with self.mount("--views", "ranks") as mountpoint:
            self.server.bytes_sent = 0
            self.assertEqual(self.read(mountpoint, 3), self.made.expected(3))
            self.assertLess(self.server.bytes_sent, 1.1 * len(self.made.expected(3)))

    def test_headers_are_not_fetched_one_by_one(self) -> None:
        """Layers are alike: where the next headers stand is known after two of them."""
        directory = self.root / "large"
        make_large(directory, 1, 2, 1, 600, 1, 1, rows=400, columns=512, sparse=True)
        with serving(directory, delay=0.01) as server:
            done = run("inspect", f"{server.url}/src")
            self.assertEqual((done.code, done.stderr), (0, ""))
            self.assertIn("600 parameters", done.stdout)
            size = sum(path.stat().st_size for path in directory.rglob("*.ckpt"))
            self.assertLess(server.lonely, 200)
            self.assertLess(server.bytes_sent, 0.7 * size)

    def test_export_and_verify(self) -> None:
        out = self.root / "out"
        for again in (False, True):
            done = run("export", self.url, out, *self.made.options())
            self.assertEqual((done.code, done.stderr), (0, ""))
            self.assertEqual("there already" in done.stdout, again)
            for rank in range(2):
                self.assertEqual((out / f"rank_{rank}/checkpoint_{rank}.ckpt").read_bytes(),
                                 self.made.expected(rank))
        done = run("verify", self.url, "--src-strategy", self.made.strategies[0])
        self.assertEqual((done.code, done.stderr), (0, ""))

    def test_status_and_metrics_count_what_was_fetched(self) -> None:
        with self.mount() as mountpoint:
            self.assert_all_right(mountpoint)
            self.assertGreaterEqual(metric(mountpoint, "source_read_bytes_total"),
                                    len(self.made.expected(0)))

    def test_the_local_mount_makes_no_request_and_loads_no_library(self) -> None:
        with mounted(self.made.source, *self.made.options()) as mountpoint:
            self.assert_all_right(mountpoint)
            status_json = json.loads((mountpoint / ".reshardfs/status.json").read_text())
            maps = Path(f"/proc/{status_json['pid']}/maps").read_text()
            self.assertNotIn("libcurl", maps)
        self.assertEqual(self.server.requests, [])


class Faults(Remote):
    def test_what_may_pass_is_tried_again(self) -> None:
        for rule in (status(503), status(429, {"Retry-After": "0"}), status(500), reset, cut):
            with self.subTest(rule=rule):
                self.set_up(ROWS, HALVES)
                self.server.rules = [of_ranges(sometimes(0.3, rule))]
                with self.mount() as mountpoint:
                    self.assert_all_right(mountpoint)
                self.server.rules = []

    def test_a_storm_of_faults_gives_no_wrong_byte(self) -> None:
        rules = [sometimes(0.05, rule, seed) for seed, rule in enumerate(
            (status(503), reset, cut, status(502), late(0.02)))]
        self.set_up(ROWS, HALVES, MANY)
        expected = [self.made.expected(rank) for rank in range(2)]
        numbers = random.Random(7)
        with self.mount("--direct-io", *SMALL) as mountpoint:
            self.server.rules = [of_ranges(rule) for rule in rules]
            wrong: list[str] = []

            def reader(seed: int) -> None:
                mine = random.Random(seed)
                rank = seed % 2
                with mounted_file(mountpoint, rank).open("rb", buffering=0) as file:
                    for _ in range(60):
                        offset = mine.randrange(len(expected[rank]))
                        size = mine.randrange(1, 300_000)
                        got = os.pread(file.fileno(), size, offset)
                        if got != expected[rank][offset:offset + size]:
                            wrong.append(f"{len(got)} bytes of rank {rank} at {offset}")

            readers = [threading.Thread(target=reader, args=(numbers.randrange(1000),))
                       for _ in range(8)]
            for thread in readers:
                thread.start()
            for thread in readers:
                thread.join()
            self.assertEqual(wrong, [])

    def test_what_does_not_pass_is_an_error_in_time(self) -> None:
        self.set_up(ROWS, HALVES, MANY)
        with self.mount("--remote-timeout", "2", *SMALL) as mountpoint:
            self.server.rules = [of_ranges(status(503))]
            begun = time.monotonic()
            with self.assertRaises(OSError) as failed:
                self.read(mountpoint)
            self.assertEqual(errno_name(failed.exception), "EIO")
            self.assertLess(time.monotonic() - begun, 30)
            self.assertIn("the server answers 503", self.log.read_text())
            self.server.rules = []
            self.assert_all_right(mountpoint)

    def test_a_server_that_ends_is_an_error_and_may_come_back(self) -> None:
        self.set_up(ROWS, HALVES, MANY)
        with self.mount("--remote-timeout", "1", *SMALL) as mountpoint:
            self.server.rules = [reset]
            with self.assertRaises(OSError):
                self.read(mountpoint)
            self.server.rules = []
            self.assert_all_right(mountpoint)

    def test_a_killed_reader_is_gone_while_the_server_is_silent(self) -> None:
        self.set_up(ROWS, HALVES, MANY)
        released = threading.Event()
        waiting = threading.Event()

        def hold(_: object) -> bool:
            waiting.set()
            released.wait(60)
            return False

        with self.mount(*SMALL) as mountpoint:
            self.server.rules = [of_ranges(hold)]
            reader = subprocess.Popen(["cat", mounted_file(mountpoint, 0)],
                                      stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            try:
                self.assertTrue(waiting.wait(20))
                reader.send_signal(signal.SIGKILL)
                begun = time.monotonic()
                reader.wait(20)
                self.assertLess(time.monotonic() - begun, 5)
                # What needs no source is answered meanwhile.
                self.assertEqual(sorted(os.listdir(mountpoint / "rank_0")), ["checkpoint_0.ckpt"])
            finally:
                released.set()
                self.server.rules = []
            self.assert_all_right(mountpoint)

    def test_an_unmount_does_not_wait_for_a_silent_server(self) -> None:
        self.set_up(ROWS, HALVES, MANY)
        released = threading.Event()
        waiting = threading.Event()

        def hold(_: object) -> bool:
            waiting.set()
            released.wait(60)
            return False

        try:
            with self.mount(*SMALL) as mountpoint:
                self.server.rules = [of_ranges(hold)]
                with subprocess.Popen(["cat", mounted_file(mountpoint, 0)],
                                      stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as reader:
                    self.assertTrue(waiting.wait(20))
                    reader.kill()
                # mounted() unmounts, and waits for the process to be gone.
        finally:
            released.set()


class Changes(Remote):
    def replace(self, rank: int) -> None:
        """By other bytes of the same size and time."""
        path = self.made.file(rank)
        found = path.stat()
        other = path.with_name("other")
        content = bytearray(path.read_bytes())
        content[-1000:] = bytes(1000)
        other.write_bytes(content)
        os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
        other.rename(path)

    def test_a_replaced_object_is_stale_and_never_mixed(self) -> None:
        self.set_up(ROWS, HALVES, MANY)
        with self.mount("--direct-io", *SMALL) as mountpoint:
            with mounted_file(mountpoint, 0).open("rb", buffering=0) as file:
                self.assertEqual(os.pread(file.fileno(), 4096, 0), self.made.expected(0)[:4096])
                self.replace(1)
                with self.assertRaises(OSError) as failed:
                    while os.pread(file.fileno(), 1 << 20, os.lseek(file.fileno(), 0, 1)):
                        os.lseek(file.fileno(), 1 << 20, os.SEEK_CUR)
                self.assertEqual(errno_name(failed.exception), "ESTALE")
            self.assertIn("rank_1/m-1_1.ckpt: has been replaced", self.log.read_text())
            # Those that need it not are not affected.
            self.assertEqual(self.read(mountpoint, 1), self.made.expected(1))

    def test_a_removed_object_is_stale(self) -> None:
        self.set_up(ROWS, HALVES, MANY)
        with self.mount(*SMALL) as mountpoint:
            self.made.file(0).unlink()
            with self.assertRaises(OSError) as failed:
                self.read(mountpoint)
            self.assertEqual(errno_name(failed.exception), "ESTALE")

    def test_weak_tags_leave_the_modification_time(self) -> None:
        for etags in ("weak", "none"):
            with self.subTest(etags):
                self.set_up(ROWS, HALVES, MANY)
                self.server.etags = etags
                with self.mount() as mountpoint:
                    self.assert_all_right(mountpoint)
                with self.mount("--direct-io", *SMALL) as mountpoint:
                    os.utime(self.made.file(0), (1, 1))
                    with self.assertRaises(OSError) as failed:
                        self.read(mountpoint)
                    self.assertEqual(errno_name(failed.exception), "ESTALE")

    def test_a_server_that_tells_no_version_is_refused(self) -> None:
        self.server.etags = "none"
        self.server.last_modified = False
        self.refused("neither a strong ETag nor a modification time")


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


class Refusals(Remote):
    def test_servers_without_ranges(self) -> None:
        def whole(request) -> bool:  # noqa: ANN001
            path = self.server.root / request.path.lstrip("/")
            if not path.is_file():
                return False
            request.handler.answer(200, path.read_bytes(), {"ETag": '"x"'})
            return True

        self.server.rules = [whole]
        self.refused("does not serve ranges")

    def test_answers_that_are_not_what_was_asked_for(self) -> None:
        def lie(headers: dict[str, str], body: bytes = b"x" * 100):  # noqa: ANN202
            def answer(request) -> bool:  # noqa: ANN001
                request.handler.answer(206, body, headers)
                return True
            return of_ranges(answer)

        self.set_up(ROWS, HALVES, MANY)
        size = self.made.file(0).stat().st_size
        for headers, words in (({"Content-Range": "bytes 0-99/100"}, "changed its size"),
                               ({"Content-Range": f"bytes 5-104/{size}"}, "another range"),
                               ({}, "another range"),
                               ({"Content-Encoding": "gzip"}, "encoding 'gzip'")):
            with self.subTest(words):
                self.set_up(ROWS, HALVES, MANY)
                with self.mount("--direct-io", *SMALL) as mountpoint:
                    self.server.rules = [lie(headers)]
                    with self.assertRaises(OSError):
                        self.read(mountpoint)
                    self.assertIn(words, self.log.read_text())

    def test_redirections(self) -> None:
        with serving(self.server.root) as other:
            def to_other(request) -> bool:  # noqa: ANN001
                request.handler.answer(302, headers={"Location": other.url + request.path})
                return True

            self.server.rules = [of_ranges(to_other)]
            with self.mount() as mountpoint:
                self.assert_all_right(mountpoint)
            self.assertTrue(other.requests)

        def in_a_circle(request) -> bool:  # noqa: ANN001
            request.handler.answer(302, headers={"Location": request.path})
            return True

        self.server.rules = [of_ranges(in_a_circle)]
        self.refused("redirects more than 5 times")

        def elsewhere(request) -> bool:  # noqa: ANN001
            request.handler.answer(302, headers={"Location": "file:///etc/passwd"})
            return True

        self.server.rules = [of_ranges(elsewhere)]
        self.refused("not http or https")

    def test_names_that_are_none(self) -> None:
        self.refused("no such file or directory", url=f"{self.server.url}/nothing")
        self.refused("user name", url=self.url.replace("http://", "http://me:secret@"))
        self.refused("'gs://' are not supported; available: http, https, s3",
                     url="gs://bucket/set")
        self.refused("check the URL", url="http://127.0.0.1:1/set")

    def test_no_secret_is_told(self) -> None:
        for line in (
                self.refused(url=self.url.replace("http://", "http://me:secret@")),
                self.refused(url=f"{self.server.url}/nothing.ckpt?X-Amz-Signature=secret")):
            self.assertNotIn("secret", line)


class Lists(Remote):
    def list_of(self, entries: object, name: str = "set.json") -> Path:
        path = self.root / name
        path.write_text(json.dumps(entries))
        return path

    def test_names_and_signed_urls(self) -> None:
        urls = {f"rank_{rank}/m-1_1.ckpt": f"{self.server.url}/set/rank_{rank}/m-1_1.ckpt?sig=secret{rank}"
                for rank in range(4)}
        for entries in (urls, list(urls.values())):
            with self.mount(url=str(self.list_of(entries))) as mountpoint:
                self.assert_all_right(mountpoint)
                shown = (mountpoint / ".reshardfs/status.json").read_text()
                self.assertNotIn("secret", shown + run("status", mountpoint).stdout)
        queries = {request.query for request in self.server.requests if request.range}
        self.assertEqual(queries, {f"sig=secret{rank}" for rank in range(4)})
        self.assertEqual(self.server.counts()["HEAD"], 0)

    def test_a_list_may_be_on_a_server(self) -> None:
        entries = [f"{self.server.url}/set/rank_{rank}/m-1_1.ckpt" for rank in range(4)]
        (self.server.root / "list.json").write_text(json.dumps(entries))
        with self.mount(url=f"{self.server.url}/list.json") as mountpoint:
            self.assert_all_right(mountpoint)

    def test_one_signed_file(self) -> None:
        self.set_up(Layout((1,), ((), ())), HALVES)
        with self.mount(url=f"{self.url}/rank_0/m-1_1.ckpt?sig=secret") as mountpoint:
            self.assert_all_right(mountpoint)
            self.assertNotIn("secret", Path("/proc/self/mountinfo").read_text())

    def test_what_is_no_list_is_refused(self) -> None:
        for entries, words in ((3, "not a list of URLs"), ([1], "not a URL"), ([], "no URLs"),
                               (["/etc/passwd"], "not a URL"), ({"../x": self.url}, "'../x'"),
                               ({"weight_map": {}}, "name its directory")):
            with self.subTest(words):
                self.refused(words, url=str(self.list_of(entries)))


@unittest.skipIf(shutil.which("nginx") is None, "nginx is not installed")
class Nginx(Remote):
    """Another server, and TLS."""

    @contextlib.contextmanager
    def nginx(self) -> Iterator[tuple[int, int, Path]]:
        """The ports of http and https, and the certificate."""
        from object_store import free_port
        directory = self.root / "nginx"
        directory.mkdir(exist_ok=True)
        plain, secure = free_port(), free_port()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
             "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", directory / "key",
             "-out", directory / "cert"], check=True, capture_output=True)
        temporary = "".join(f"{kind}_temp_path {directory}/tmp;" for kind in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (directory / "conf").write_text(
            f"user root; worker_processes 1; daemon off; pid {directory}/pid;"
            f"error_log {directory}/error.log; events {{ worker_connections 512; }}"
            f"http {{ access_log off; root {self.server.root}; autoindex on; {temporary}"
            f"autoindex_format json; server {{ listen 127.0.0.1:{plain};"
            f"listen 127.0.0.1:{secure} ssl; ssl_certificate {directory}/cert;"
            f"ssl_certificate_key {directory}/key;"
            f"location /down/ {{ return 302 http://127.0.0.1:{plain}/set/; }} }} }}")
        process = subprocess.Popen(["nginx", "-c", directory / "conf"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.assertTrue(wait_until(
                lambda: (directory / "pid").exists() and (directory / "pid").read_text().strip(),
                20), "nginx does not start")
            yield plain, secure, directory / "cert"
        finally:
            process.terminate()
            process.wait(20)

    def test_plain_and_secure(self) -> None:
        with self.nginx() as (plain, secure, certificate):
            with self.mount(url=f"http://127.0.0.1:{plain}/set") as mountpoint:
                self.assert_all_right(mountpoint)
            secure_url = f"https://localhost:{secure}/set"
            with self.mount("--ca-file", str(certificate), url=secure_url) as mountpoint:
                self.assert_all_right(mountpoint)
            self.refused("certificate is not trusted", "--ca-file", url=secure_url)
            self.refused("from https to http", url=f"https://localhost:{secure}/down",
                         options=("--ca-file", str(certificate)))


if __name__ == "__main__":
    run_unittests()
