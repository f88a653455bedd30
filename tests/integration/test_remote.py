# SPDX-License-Identifier: Apache-2.0
"""Sources on web servers: right bytes whatever the server does, or an error; never a wait without
an end, never bytes of two versions.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
from mounted import errno_name, mounted, run, run_unittests, wait_until
from remote_tests import MANY, SHAPE, SMALL, Remote
from nginx_server import nginx
from two_arrays import COLUMNS, HALVES, ROWS, Layout, metric, mounted_file
from make_large import make_large  # two_arrays has put its directory on the path
from format_files import write_safetensors
from web_server import cut, late, of_ranges, reset, serving, sometimes, status


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
                together.wait(60)
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

    def test_the_beginning_of_the_next_shard_is_fetched(self) -> None:
        """By who reads one to its end, as loaders of models do; by nobody who reads here and there."""
        size, count = 4 << 20, 5
        directory = self.root / "shards"
        directory.mkdir()
        arrays = {f"w{number}": ("U8", np.full(size, number, np.uint8)) for number in range(count)}
        write_safetensors(directory / "model.safetensors", arrays)
        first = (directory / "model.safetensors").stat().st_size - count * size
        with serving(directory) as server, mounted(f"{server.url}/model.safetensors", "--views", "merged",
                                                   "--shard-size", str(size + 1)) as mountpoint:
            def is_fetched(number: int) -> bool:
                """Its middle: what is next to another's end may come with that."""
                place = first + number * size + size // 2
                return any(request.range and request.range[0] <= place <= request.range[1]
                           for request in server.requests)

            def shard(number: int) -> Path:
                return mountpoint / f"merged/model-{number + 1:05d}-of-{count:05d}.safetensors"

            with shard(2).open("rb", buffering=0) as file:
                for place in (3 << 20, 1 << 20):
                    self.assertEqual(os.pread(file.fileno(), 4096, place), bytes([2]) * 4096)
            self.assertEqual(shard(0).read_bytes()[-size:], bytes(size))
            self.assertTrue(wait_until(lambda: is_fetched(1)), "it is not fetched")
            self.assertFalse(is_fetched(3) or is_fetched(4))

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


class Silence:
    """A rule: the server says nothing until it is released."""

    def __init__(self) -> None:
        self.met, self.released = threading.Event(), threading.Event()

    def __call__(self, _: object) -> bool:
        self.met.set()
        self.released.wait(60)
        return False


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
        silence = Silence()
        with self.mount(*SMALL) as mountpoint:
            self.server.rules = [of_ranges(silence)]
            reader = subprocess.Popen(["cat", mounted_file(mountpoint, 0)],
                                      stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            try:
                self.assertTrue(silence.met.wait(60))
                reader.send_signal(signal.SIGKILL)
                begun = time.monotonic()
                reader.wait(60)
                self.assertLess(time.monotonic() - begun, 30)
                # What needs no source is answered meanwhile.
                self.assertEqual(sorted(os.listdir(mountpoint / "rank_0")), ["checkpoint_0.ckpt"])
            finally:
                silence.released.set()
                self.server.rules = []
            self.assert_all_right(mountpoint)

    def test_an_unmount_does_not_wait_for_a_silent_server(self) -> None:
        self.set_up(ROWS, HALVES, MANY)
        silence = Silence()
        try:
            with self.mount(*SMALL) as mountpoint:
                self.server.rules = [of_ranges(silence)]
                with subprocess.Popen(["cat", mounted_file(mountpoint, 0)],
                                      stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as reader:
                    self.assertTrue(silence.met.wait(60))
                    reader.kill()
                # mounted() unmounts, and waits for the process to be gone.
        finally:
            silence.released.set()


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
                (self.root / "log").unlink(missing_ok=True)
                with self.mount("--direct-io", *SMALL) as mountpoint:
                    self.server.rules = [lie(headers)]
                    # Whoever found it, and whether it has been found before.
                    for _ in range(2):
                        with self.assertRaises(OSError):
                            self.read(mountpoint)
                    lines = self.log.read_text().splitlines()
                    self.assertTrue(lines)
                    for line in lines:
                        self.assertIn(words, line)

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
            self.assertNotIn("secret", Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))

    def test_no_command_shows_a_signature(self) -> None:
        self.set_up(Layout((1,), ((), ())), HALVES)
        file = f"{self.url}/rank_0/m-1_1.ckpt"
        rules = self.root / "rules.toml"
        for command in (["inspect"], ["inspect", "--json"], ["verify"], ["verify", "--json"],
                        ["diff", file], ["diff", file, "--json"],
                        ["strategy", "guess", "-O", str(rules)]):
            done = run(*command, f"{file}?sig=secret")
            with self.subTest(command=command):
                self.assertIn("m-1_1.ckpt", done.stdout + done.stderr)
                self.assertNotIn("secret", done.stdout + done.stderr)
        if rules.exists():
            self.assertNotIn("secret", rules.read_text())

    def test_what_is_no_list_is_refused(self) -> None:
        for entries, words in ((3, "not a list of URLs"), ([1], "not a URL"), ([], "no URLs"),
                               (["/etc/passwd"], "not a URL"), ({"../x": self.url}, "'../x'"),
                               ({"weight_map": {}}, "name its directory")):
            with self.subTest(words):
                self.refused(words, url=str(self.list_of(entries)))


class Nginx(Remote):
    """Another server, and TLS."""

    def test_plain_and_secure(self) -> None:
        with nginx(self.server.root) as server:
            with self.mount(url=f"{server.http}/set") as mountpoint:
                self.assert_all_right(mountpoint)
            secure = f"{server.https}/set"
            trusted = ("--ca-file", str(server.authority))
            with self.mount(*trusted, url=secure) as mountpoint:
                self.assert_all_right(mountpoint)
            self.refused("certificate is not trusted", "--ca-file", url=secure)
            self.refused("from https to http", url=f"{server.https}/down", options=trusted)


if __name__ == "__main__":
    run_unittests()
