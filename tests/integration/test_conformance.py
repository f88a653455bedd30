# SPDX-License-Identifier: Apache-2.0
"""Runs the suite of tests/conformance on every storage backend, from every server there is."""

from __future__ import annotations

import json
import os
import shlex
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance_suite import SuiteTest, run_suite_tests
from mounted import scratch
from nginx_server import nginx
from object_store import Store, object_store
from web_server import Request, cut, reset, serving, sometimes, status

LARGE_BYTES = (3 << 20) + 123
LARGE, BEFORE, AFTER, REMOVED = 1, 2, 3, 4  # as place.h has them
MANY = 2345
ODD_NAMES = ["%41", "100%", "a b", "a&b", "a'b", "a+b", "a,b;c", "a=b", "h#i", "j?k", "~", "é"]
# When the first version of a file was written: the second is not to have the same time.
FIRST_TIME = 1_700_000_000

PUT = """
import sys
sys.path.insert(0, {folder!r})
from object_store import Store
Store({endpoint!r}).client().{call}
"""


def large(salt: int) -> bytes:
    """The bytes of place.h's byte_at()."""
    import numpy as np
    at = np.arange(LARGE_BYTES, dtype=np.uint64)
    mixed = at * 31 + (at >> 8) * 7 + (at >> 16) * 13 + salt * 101
    return (mixed & 0xff).astype(np.uint8).tobytes()


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (FIRST_TIME, FIRST_TIME))


def write_changing(root: Path) -> None:
    """What a run of the suite uses up."""
    write(root / "changing", large(BEFORE))
    write(root / "removed", large(REMOVED))


def make_files(root: Path) -> None:
    write(root / "empty", b"")
    write(root / "one", b"1")
    write(root / "large", large(LARGE))
    write(root / "nested-x", b"x")
    write(root / "nested.d/file", b"x")
    write(root / "nested/file", b"x")
    write(root / "nested/a b/é+%/deep", b"deep")
    write(root / "many/z/file", b"x")
    for name in ODD_NAMES:
        write(root / "names" / name, name.encode())
    for i in range(MANY):
        write(root / f"many/n_{i:04}", f"n_{i:04}".encode())
    write_changing(root)


class Conformance(SuiteTest):
    directory: Path
    root: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = cls.enterClassContext(scratch())
        cls.root = cls.directory / "root"
        make_files(cls.root)
        (cls.directory / "after").write_bytes(large(AFTER))

    def setUp(self) -> None:
        write_changing(self.root)

    def passes(self, location: str | Path, *options: str, in_place: bool = False) -> None:
        self.good(self.suite(f"--location={location}", *options, *self.changes(in_place)))

    def changes(self, in_place: bool) -> list[str]:
        """What replaces a file, and what removes one.

        @param in_place: a file that is open does not become the one that takes its name.
        """
        quoted = {name: shlex.quote(str(path)) for name, path in
                  (("after", self.directory / "after"), ("new", self.root.parent / "new"),
                   ("changing", self.root / "changing"), ("removed", self.root / "removed"))}
        change = "cat {after} >{changing}" if in_place else "cp {after} {new} && mv {new} {changing}"
        return ["--change=" + change.format(**quoted), "--remove=rm {removed}".format(**quoted)]

    def test_files(self) -> None:
        self.passes(self.root, in_place=True)

    def test_files_read_as_slow_ones(self) -> None:
        self.passes(self.root, "--slow-files", in_place=True)

    def test_web_server(self) -> None:
        with serving(self.root) as server:
            self.passes(server.url)

    def test_web_server_with_pages(self) -> None:
        with serving(self.root, html=True) as server:
            self.passes(server.url + "/")

    def test_web_server_that_tells_times_alone(self) -> None:
        for etags in ("weak", "none"):
            with self.subTest(etags), serving(self.root, etags=etags) as server:
                write_changing(self.root)
                self.passes(server.url)

    def test_web_server_that_heeds_no_conditions(self) -> None:
        """Its answers tell of which version they are."""
        for etags in ("strong", "weak"):
            with (self.subTest(etags),
                  serving(self.root, etags=etags, conditions=False) as server):
                write_changing(self.root)
                self.passes(server.url)

    def test_web_server_that_hides_versions(self) -> None:
        """It heeds no conditions, and only the first answer tells the version: nobody could tell
        that another one is mixed in."""

        def careless(request: Request) -> bool:
            if not {"if-match", "if-unmodified-since"} & set(request.headers):
                return False
            assert request.range is not None
            first, last = request.range
            data = (self.root / request.path.lstrip("/")).read_bytes()
            request.handler.answer(206, data[first:last + 1], {
                "Content-Range": f"bytes {first}-{last}/{len(data)}"})
            return True

        for etags in ("strong", "weak"):
            with (self.subTest(etags),
                  serving(self.root, etags=etags, rules=[careless]) as server):
                done = self.suite(f"--location={server.url}", "--gtest_filter=*ReadsInARow")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("does not state which version", done.stdout)

    def test_web_server_that_fails_often(self) -> None:
        """It refuses, hangs up, and ends in the middle of what it tells."""

        def cut_large(request: Request) -> bool:
            return request.path == "/large" and request.range is not None and cut(request)

        rules = [sometimes(0.08, status(503)), sometimes(0.08, reset, seed=2),
                 sometimes(0.2, cut_large, seed=3)]
        with serving(self.root, rules=rules) as server:
            self.passes(server.url)

    def test_list_of_urls(self) -> None:
        """Names to URLs: signed ones, of a server that lists nothing."""
        with serving(self.root) as server:
            names = sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*")
                           if path.is_file())
            urls = {name: f"{server.url}/{urllib.parse.quote(name)}?signature=a%2Fb" for name in names}
            listed = self.directory / "list.json"
            listed.write_text(json.dumps(urls))
            self.passes(listed)
            self.assertLess({request.query for request in server.requests}, {"signature=a%2Fb", ""})

    def test_list_of_urls_on_a_server(self) -> None:
        """An array, which the server has, too."""
        with serving(self.root) as server, serving(self.directory) as lists:
            urls = [f"{server.url}/{urllib.parse.quote(str(path.relative_to(self.root)))}"
                    for path in sorted(self.root.rglob("*")) if path.is_file()]
            (self.directory / "array.json").write_text(json.dumps(urls))
            self.passes(f"{lists.url}/array.json?signature=x")

    def test_nginx(self) -> None:
        with nginx(self.root) as server:
            self.passes(server.http)

    def test_nginx_with_pages(self) -> None:
        with nginx(self.root, listing="html") as server:
            self.passes(server.http)

    def test_nginx_with_certificates(self) -> None:
        with nginx(self.root) as server:
            self.passes(server.https, f"--ca-file={server.authority}")
            with self.subTest("not trusted"):
                done = self.suite(f"--location={server.https}", "--gtest_filter=*ListsTheRoot")
                self.assertEqual(done.returncode, 1)
                self.assertIn("certificate is not trusted", done.stdout)
                self.assertIn("--ca-file", done.stdout)
            with self.subTest("of another name"):
                address = server.https.replace("localhost", "127.0.0.2")
                done = self.suite(f"--location={address}", "--gtest_filter=*ListsTheRoot",
                                  f"--ca-file={server.authority}")
                self.assertEqual(done.returncode, 1)

    def test_object_store(self) -> None:
        with object_store() as store:
            self.upload(store)
            for location in ("s3://conformance/sets/a b", "s3://whole"):
                with self.subTest(location):
                    bucket, _, prefix = location.removeprefix("s3://").partition("/")
                    prefix += "/" if prefix else ""
                    self.passes_in_store(store, bucket, prefix, location)

    def upload(self, store: Store) -> None:
        client = store.client()
        for bucket, prefix in (("conformance", "sets/a b/"), ("whole", "")):
            client.create_bucket(Bucket=bucket)

            def put(path: Path, bucket: str = bucket, prefix: str = prefix) -> None:
                client.put_object(Bucket=bucket, Key=prefix + str(path.relative_to(self.root)),
                                  Body=path.read_bytes())

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(put, [path for path in self.root.rglob("*") if path.is_file()]))
        client.close()

    def passes_in_store(self, store: Store, bucket: str, prefix: str, location: str) -> None:
        folder = str(Path(__file__).resolve().parent)
        calls = {
            "change": f"put_object(Bucket={bucket!r}, Key={prefix + 'changing'!r}, "
                      f"Body=open({str(self.directory / 'after')!r}, 'rb').read())",
            "remove": f"delete_object(Bucket={bucket!r}, Key={prefix + 'removed'!r})",
        }
        options = []
        for option, call in calls.items():
            script = self.directory / f"{option}.py"
            script.write_text(PUT.format(folder=folder, endpoint=store.endpoint, call=call))
            options.append(f"--{option}={shlex.quote(sys.executable)} -B {shlex.quote(str(script))}")
        self.good(self.suite(f"--location={location}", *options, environment=store.environment))


if __name__ == "__main__":
    run_suite_tests()
