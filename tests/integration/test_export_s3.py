# SPDX-License-Identifier: Apache-2.0
"""export to an S3-compatible store: what comes there is what a local export writes, whoever is
killed, and whatever becomes of requests. Skipped where no store is installed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import signal
import subprocess
import threading
import unittest
import urllib.parse
from pathlib import Path
from typing import Any

# First, because it finds the modules of tests/data.
from export_tests import BAD_INPUT, DONE, IO_ERROR, MANIFEST

from command_tests import run_command_tests
from make_checkpoint import GeneratedSet, Parallel, make_set
from make_large import make_large
from mounted import COMMAND_SECONDS, Result, Settings, one_line, run, scratch
from object_store import Store, object_store
from s3_proxy import Answer, Dropped, Pass, Request, proxy
from share_tests import results

BUCKET = "bucket"
PART = 8 << 20
store: Store


def setUpModule() -> None:
    global store
    store = unittest.enterModuleContext(object_store())
    Settings.environment = store.environment
    with contextlib.closing(store.client()) as client:
        client.create_bucket(Bucket=BUCKET)


class S3Export(unittest.TestCase):
    source: list[str | Path]
    """SOURCE, and the options of the conversion."""

    def setUp(self) -> None:
        self.client = self.enterContext(contextlib.closing(store.client()))
        self.root = self.enterContext(scratch())
        self.prefix = f"{self.id().split('.')[-1]}/out"
        self.target = f"s3://{BUCKET}/{self.prefix}"

    def words(self, *options: str | Path, target: str | Path | None = None) -> list[str | Path]:
        return ["export", self.source[0], target or self.target, *self.source[1:], *options]

    def export(self, *options: str | Path, code: int = DONE,
               target: str | Path | None = None) -> Result:
        result = run(*self.words(*options, target=target))
        self.assertEqual(result.code, code, result.stderr)
        return result

    def refused(self, *words: str, options: tuple[str | Path, ...] = (), code: int = BAD_INPUT,
                target: str | None = None) -> None:
        line = one_line(self.export(*options, code=code, target=target))
        for word in words:
            self.assertIn(word, line)

    def start(self, *options: str, endpoint: str | None = None) -> subprocess.Popen[bytes]:
        variables = {**os.environ, **Settings.environment}
        if endpoint:
            variables["AWS_ENDPOINT_URL"] = endpoint
        return subprocess.Popen([str(Settings.binary), *map(str, self.words(*options))],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=variables)

    def local(self, *options: str) -> dict[str, str]:
        """What is written to a directory: names and sums."""
        directory = self.root / "whole"
        self.export("--checksum", "--force", *options, target=directory)
        return results(directory)

    def listed(self, prefix: str | None = None) -> dict[str, dict[str, Any]]:
        prefix = self.prefix + "/" if prefix is None else prefix
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return {each["Key"].removeprefix(prefix): each
                for page in pages for each in page.get("Contents", [])}

    def versions(self) -> dict[str, tuple[str, Any]]:
        return {name: (each["ETag"], each["LastModified"]) for name, each in self.listed().items()}

    def read(self, name: str) -> bytes:
        answer = self.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}")
        return answer["Body"].read()

    def put(self, name: str, text: bytes = b"mine") -> None:
        self.client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}", Body=text)

    def delete(self, name: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}")

    def contents(self) -> dict[str, str]:
        return {name: hashlib.sha256(self.read(name)).hexdigest() for name in self.listed()
                if not name.startswith(MANIFEST.removesuffix(".jsonl"))}

    def uploads(self) -> list[str]:
        answer = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=self.prefix)
        return [each["Key"] for each in answer.get("Uploads", [])]


class SmallSource(S3Export):
    """Four ranks to eight."""

    def setUp(self) -> None:
        super().setUp()
        self.made: GeneratedSet = make_set(self.root, Parallel(tp=4), Parallel(tp=8), layers=2,
                                           seed=6)
        self.source = [self.made.source, *self.made.options()]

class Whole(SmallSource):
    """By one process."""

    def test_the_same_as_in_a_directory(self) -> None:
        result = self.export("--checksum")
        self.assertRegex(result.stdout, f"of 8 files written to {self.target} in")
        self.assertEqual(self.contents(), self.local())

    def test_all_views(self) -> None:
        views = ("--views", "ranks,merged,params,unified,iteration,strategy", "--params", "--format",
                 "ckpt,safetensors")
        self.export("--checksum", *views)
        self.assertEqual(self.contents(), self.local(*views))

    def test_done_again_changes_nothing(self) -> None:
        self.export("--checksum")
        before = self.versions()
        result = self.export("--checksum")
        self.assertIn("8 files were there already", result.stdout)
        self.assertEqual(self.versions(), before)

    def test_is_a_source(self) -> None:
        self.export("--checksum")
        self.local()
        result = run("verify", self.target, "--src-strategy", self.made.dst_strategy, "--against",
                     self.root / "whole" / "SHA256SUMS")
        self.assertEqual(result.code, DONE, result.stdout + result.stderr)

    def test_from_store_to_store(self) -> None:
        expected = self.local()
        store.upload(BUCKET, Path(self.made.source), f"{self.prefix}-source/")
        self.source[0] = f"s3://{BUCKET}/{self.prefix}-source"
        self.export("--checksum")
        self.assertEqual(self.contents(), expected)

    def test_whole_bucket(self) -> None:
        self.client.create_bucket(Bucket="whole")
        self.export(target="s3://whole")
        self.assertEqual(len(self.client.list_objects_v2(Bucket="whole")["Contents"]), 9)

    def test_ranks_one_after_another(self) -> None:
        self.export("--checksum", "--ranks", "0-2")
        self.export("--checksum", "--ranks", "3-7")
        self.assertEqual(self.contents(), self.local())

    def test_an_object_in_the_way(self) -> None:
        name = "rank_3/checkpoint_3.ckpt"
        self.put(name)
        self.refused(f"{self.target}/{name}", "already exists", "--force")
        self.assertEqual(set(self.listed()), {name})
        self.export("--force", "--checksum")
        self.assertEqual(self.contents(), self.local())
        # One that was replaced is not lost, unless that is wanted.
        self.put(name)
        self.refused(name, "no longer the object")
        self.assertEqual(self.read(name), b"mine")
        self.assertIn("of 1 file written", self.export("--force", "--checksum").stdout)
        self.assertEqual(self.contents(), self.local())

    def test_a_file_that_was_lost(self) -> None:
        self.export("--checksum")
        self.delete("rank_3/checkpoint_3.ckpt")
        self.assertIn("of 1 file written", self.export("--checksum").stdout)
        self.assertEqual(self.contents(), self.local())

    def test_another_conversion(self) -> None:
        self.export("--checksum")
        before = self.versions()
        self.refused(f"{self.target}/{MANIFEST}", "different: crc", "--force", options=("--crc",))
        self.refused("different: crc", options=("--crc", "--share", "0/2"))
        self.assertEqual(self.versions(), before)
        self.export("--crc", "--force", "--checksum")
        self.assertEqual(self.contents(), self.local("--crc"))

    def test_sums_of_something_else(self) -> None:
        self.put("SHA256SUMS")
        self.refused("SHA256SUMS", "already exists", options=("--checksum",))
        self.refused("SHA256SUMS", "already exists", options=("--share", "0/2"))
        self.export("--share", "0/2", "--force")
        self.assertNotIn("SHA256SUMS", self.listed())
        self.export("--share", "1/2", "--force")
        self.assertEqual(self.contents(), self.local())

    def test_other_rank_directories(self) -> None:
        self.put("rank_9/x")
        result = self.export()
        self.assertIn("'rank_9' under the prefix does not belong", result.stderr)

    def test_targets_that_are_none(self) -> None:
        self.refused("s3://nowhere/x", "no such bucket", target="s3://nowhere/x")
        self.refused("https://host/x", "s3://BUCKET/PREFIX", target="https://host/x")
        self.refused("plain path", target=f"s3://{BUCKET}/a/../b")
        self.refused("plain path", target=f"s3://{BUCKET}/a//b")
        store.upload(BUCKET, Path(self.made.source), f"{self.prefix}/source/")
        self.source[0] = f"{self.target}/source"
        self.refused("the source", "inside the target")
        self.refused("inside the source", target=f"{self.target}/source/out")

    def test_access_denied(self) -> None:
        Settings.environment = store.environment | {"AWS_SECRET_ACCESS_KEY": "wrong"}
        try:
            self.refused(self.target, "access is denied", "check the access key", code=IO_ERROR)
        finally:
            Settings.environment = store.environment

    def test_no_room(self) -> None:
        """Told as such, whatever the status."""
        def full(request: Request, pass_on: Pass) -> Answer:
            if request.method != "PUT" or MANIFEST in request.path:
                return pass_on(request)
            return Answer(403, [], b"<Error><Code>QuotaExceeded</Code></Error>")

        with proxy(store.endpoint, full) as endpoint:
            _, complaint = self.start(endpoint=endpoint).communicate(timeout=COMMAND_SECONDS)
        self.assertIn(b"no room left", complaint)
        self.assertIn(f"{self.target}/rank_".encode(), complaint)
        self.export("--checksum")
        self.assertEqual(self.contents(), self.local())


class Shares(SmallSource):
    """By several that know nothing of each other."""

    def test_any_order(self) -> None:
        expected = self.local()
        for number, index in enumerate(random.sample(range(3), 3), 1):
            self.assertNotIn("SHA256SUMS", self.listed())
            said = self.export("--share", f"{index}/3").stdout
            self.assertIn("all shares are complete, see SHA256SUMS" if number == 3 else
                          "is not complete yet", said)
        self.assertEqual(self.contents(), expected)
        before = self.versions()
        for index in range(3):
            self.export("--share", f"{index}/3")
        self.assertEqual(self.versions(), before)

    def test_all_at_once(self) -> None:
        processes = [self.start("--share", f"{index}/4") for index in range(4)]
        said = [process.communicate(timeout=COMMAND_SECONDS) for process in processes]
        self.assertEqual([process.returncode for process in processes], [DONE] * 4, said)
        self.assertIn("all shares are complete", str(said))
        self.assertEqual(self.contents(), self.local())

    def test_two_writers_of_each(self) -> None:
        processes = [self.start("--share", f"{index % 2}/2") for index in range(4)]
        for process in processes:
            _, complaint = process.communicate(timeout=COMMAND_SECONDS)
            self.assertEqual((process.returncode, complaint), (DONE, b""))
        self.assertEqual(self.contents(), self.local())
        before = self.versions()
        self.export("--share", "0/2")
        self.assertEqual(self.versions(), before)

    def test_other_shares(self) -> None:
        self.export("--share", "0/4")
        self.refused("in 4 shares", "--share I/4", "--force", options=("--share", "0/2"))
        self.refused("other files", "--ranks", options=("--share", "1/4", "--ranks", "0-3"))
        # What is there is not written again.
        self.assertIn("were there already", self.export("--checksum").stdout)
        self.assertEqual(self.contents(), self.local())
        self.export("--share", "0/2", "--force")
        self.assertIn("all shares are complete", self.export("--share", "1/2").stdout)
        self.assertEqual(self.contents(), self.local())

    def test_a_share_that_lost_a_file(self) -> None:
        for index in range(2):
            self.export("--share", f"{index}/2")
        self.delete("rank_7/checkpoint_7.ckpt")
        self.delete("SHA256SUMS")
        self.assertIn("share 1/2 is not complete", self.export("--share", "0/2").stdout)
        self.assertNotIn("SHA256SUMS", self.listed())
        self.export("--share", "1/2")
        self.assertEqual(self.contents(), self.local())


class Large(S3Export):
    """Two ranks of more than two parts each. The store keeps in memory what all tests export."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.data = cls.enterClassContext(scratch())
        make_large(cls.data, 1, 4, 1, 12, 1, 2, rows=512, columns=1024)
        cls.source = [cls.data / "src", "--src-strategy", cls.data / "src.ckpt", "--dst-strategy",
                      cls.data / "dst.ckpt"]
        whole = cls.data / "whole"
        result = run("export", cls.source[0], whole, *cls.source[1:], "--checksum")
        assert result.code == DONE, result.stderr
        cls.expected = results(whole)
        cls.parts = {path.name: -(-path.stat().st_size // PART) for path in whole.glob("rank_*/*")}
        assert min(cls.parts.values()) > 2

    def check(self) -> None:
        self.assertEqual(self.contents(), self.expected)
        self.assertEqual(self.uploads(), [])
        for name, each in self.listed().items():
            if name.startswith("rank_"):
                self.assertTrue(each["ETag"].endswith(f'-{self.parts[Path(name).name]}"'), each)

    def through(self, fault: Any, *options: str, code: int = DONE) -> str:
        """Exports through a proxy. @return what was said on standard error."""
        with proxy(store.endpoint, fault) as endpoint:
            process = self.start("--checksum", *options, endpoint=endpoint)
            _, complaint = process.communicate(timeout=COMMAND_SECONDS)
        self.assertEqual(process.returncode, code, complaint)
        return complaint.decode()

    def test_parts(self) -> None:
        self.export("--checksum")
        self.check()
        before = self.versions()
        self.export("--checksum", "-j1", "--memory", "8MiB")
        self.assertEqual(self.versions(), before)

    def test_memory(self) -> None:
        self.refused(self.target, "parts of 8 MiB", "--memory 8MiB", options=("--memory", "1MiB"))
        self.assertEqual(self.listed(), {})

    def stopped(self, number: int) -> None:
        """Is given a signal when the third part is sent, which is never answered."""
        process: subprocess.Popen[bytes]
        started = threading.Event()
        parts: list[Request] = []

        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.is_part:
                parts.append(request)
                if len(parts) == 3:
                    started.wait()
                    process.send_signal(number)
                    if number == signal.SIGKILL:
                        raise Dropped
            return pass_on(request)

        with proxy(store.endpoint, fault) as endpoint:
            process = self.start("--checksum", "-j1", "--memory", "8MiB", endpoint=endpoint)
            started.set()
            _, complaint = process.communicate(timeout=COMMAND_SECONDS)
        self.assertEqual(process.returncode, -number if number == signal.SIGKILL else 128 + number,
                         complaint)
        # Nothing has its name that is not complete.
        self.assertEqual(set(self.listed()), {MANIFEST})

    def test_killed(self) -> None:
        self.stopped(signal.SIGKILL)
        self.go_on()

    def test_interrupted(self) -> None:
        self.stopped(signal.SIGTERM)
        self.go_on()

    def test_killed_with_other_parts(self) -> None:
        """One has other bytes, or is beyond the end: this store completes no upload with such a part."""
        for number, there in ((2, "8.0 MiB of unfinished"), (1000, "written")):
            with self.subTest(part=number):
                self.stopped(signal.SIGKILL)
                left = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=self.prefix)["Uploads"][0]
                self.client.upload_part(Bucket=BUCKET, Key=left["Key"], UploadId=left["UploadId"],
                                        PartNumber=number, Body=b"other")
                self.assertIn(there, self.export("--checksum").stdout)
                self.check()
                for name in self.listed():
                    self.delete(name)

    def go_on(self) -> None:
        self.assertEqual(len(self.uploads()), 1)
        self.assertIn("of unfinished files were there already, checked",
                      self.export("--checksum").stdout)
        self.check()

    def test_killed_before_the_manifest(self) -> None:
        """A file that is complete, but of which no manifest tells, is the export's own."""
        completed = threading.Event()

        def fault(request: Request, pass_on: Pass) -> Answer:
            if completed.is_set():
                raise Dropped
            answer = pass_on(request)
            if request.is_completion:
                completed.set()
                process.kill()
            return answer

        with proxy(store.endpoint, fault) as endpoint:
            process = self.start("--checksum", "-j1", "--memory", "8MiB", endpoint=endpoint)
            process.communicate(timeout=COMMAND_SECONDS)
        self.assertEqual(len(self.listed()), 2)
        self.export("--checksum")
        self.check()

    def test_what_is_complete_is_kept(self) -> None:
        """After a signal the manifest has what was written."""
        completions: list[str] = []

        def fault(request: Request, pass_on: Pass) -> Answer:
            answer = pass_on(request)
            if request.is_completion:
                completions.append(request.path)
                process.terminate()
            return answer

        with proxy(store.endpoint, fault) as endpoint:
            process = self.start("--checksum", "-j1", "--memory", "8MiB", endpoint=endpoint)
            process.communicate(timeout=COMMAND_SECONDS)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertEqual(len(completions), 1)
        result = self.export("--checksum")
        self.assertIn("1 file", result.stdout)
        self.assertIn("was there already", result.stdout)
        self.check()

    def test_lost_answers(self) -> None:
        """The first answer to each request that writes does not arrive."""
        seen: set[str] = set()
        lock = threading.Lock()

        def fault(request: Request, pass_on: Pass) -> Answer:
            answer = pass_on(request)
            with lock:
                first = request.path not in seen
                seen.add(request.path)
            if first and (request.is_part or request.is_completion):
                raise Dropped
            return answer

        self.through(fault)
        self.check()

    def test_errors_that_pass(self) -> None:
        seen: set[tuple[str, str]] = set()
        lock = threading.Lock()

        def fault(request: Request, pass_on: Pass) -> Answer:
            with lock:
                first = (request.method, request.path) not in seen
                seen.add((request.method, request.path))
            if not first:
                return pass_on(request)
            if request.is_completion:
                return Answer(200, [], b"<?xml version='1.0'?>\n<Error><Code>InternalError</Code></Error>")
            return Answer(503, [], b"<Error><Code>SlowDown</Code></Error>")

        self.through(fault)
        self.check()

    def test_damaged_on_the_way(self) -> None:
        """The store refuses what is not what was signed."""
        damaged: list[str] = []

        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.is_part and not damaged:
                damaged.append(request.path)
                body = bytearray(request.body)
                body[len(body) // 2] ^= 1
                request = Request(request.method, request.path, request.headers, bytes(body))
                answer = pass_on(request)
                self.assertEqual(answer.status, 400)
                return answer
            return pass_on(request)

        self.through(fault)
        self.assertEqual(len(damaged), 1)
        self.check()

    def test_put_together_in_another_way(self) -> None:
        def fault(request: Request, pass_on: Pass) -> Answer:
            answer = pass_on(request)
            if request.is_completion:
                answer.body = f"<R><ETag>{'0' * 32}-6</ETag></R>".encode()
            return answer

        self.assertIn("has put other bytes together", self.through(fault, code=IO_ERROR))
        self.export("--checksum")
        self.check()

    def test_another_export_in_its_place(self) -> None:
        """Which a store cannot keep away is noticed at last."""
        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.is_completion:
                self.put(MANIFEST)
            return pass_on(request)

        said = self.through(fault, code=BAD_INPUT)
        self.assertIn("another export has begun in the place of this one", said)
        self.assertEqual(self.read(MANIFEST), b"mine")

    def test_a_share_that_another_process_completes(self) -> None:
        """Whoever is behind does not take back what is complete."""
        complete = threading.Event()

        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.is_part and not complete.is_set():
                complete.set()
                for index in range(2):
                    self.export("--share", f"{index}/2")
                self.versions_then = self.versions()
            return pass_on(request)

        said = self.through(fault, "--share", "0/2", "-j1", code=IO_ERROR)
        self.assertIn("another process has aborted the upload", said)
        self.assertEqual(self.versions(), self.versions_then)
        self.check()

    def test_stored_as_something_else(self) -> None:
        def fault(request: Request, pass_on: Pass) -> Answer:
            answer = pass_on(request)
            if request.is_part:
                answer.headers = [(name, '"' + "0" * 32 + '"' if name.lower() == "etag" else value)
                                  for name, value in answer.headers]
            return answer

        said = self.through(fault, code=IO_ERROR)
        self.assertIn("the checksums differ", said)
        self.assertIn(self.target, said)
        self.assertEqual(self.uploads(), [])
        self.assertEqual(set(self.listed()), {MANIFEST})

    def test_etags_that_are_no_checksums(self) -> None:
        """As of stores that encrypt: here, turned around on their way."""
        def turned(etag: str) -> str:
            return '"' + etag.strip('"')[::-1] + '"'

        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.is_completion:
                body = re.sub(r"&quot;(\w+)&quot;", lambda found: turned(found[1]),
                              request.body.decode()).encode()
                # What the signature does not cover any more is not passed on.
                self.completions.append(body)
                upload = re.search("uploadId=([^&]+)", request.path)
                assert upload
                key = urllib.parse.unquote(request.path.split("?")[0]).split("/", 2)[2]
                parts = [{"PartNumber": number, "ETag": etag} for number, etag in
                         enumerate(re.findall(r'"\w{32}"', body.decode()), 1)]
                done = self.client.complete_multipart_upload(
                    Bucket=BUCKET, Key=key, UploadId=urllib.parse.unquote(upload[1]),
                    MultipartUpload={"Parts": parts})
                # Ceph's gateway leaves the ETag out.
                return Answer(200, [], f"<R><Key>{done['Key']}</Key><ETag/></R>".encode())
            answer = pass_on(request)
            if request.is_part:
                answer.headers = [(name, turned(value) if name.lower() == "etag" else value)
                                  for name, value in answer.headers]
                answer.headers.append(("x-amz-server-side-encryption", "aws:kms"))
            return answer

        self.completions: list[bytes] = []
        self.through(fault)
        self.assertEqual(len(self.completions), 2)
        self.check()

    def test_shares_that_are_killed(self) -> None:
        killed = threading.Event()

        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.is_part and "partNumber=2" in request.path and not killed.is_set():
                killed.set()
                for process in processes:
                    process.kill()
                raise Dropped
            if killed.is_set():
                raise Dropped
            return pass_on(request)

        with proxy(store.endpoint, fault) as endpoint:
            processes = [self.start("--share", f"{index}/2", "-j2", endpoint=endpoint)
                         for index in range(2)]
            for process in processes:
                process.communicate(timeout=COMMAND_SECONDS)
        for index in range(2):
            self.export("--share", f"{index}/2")
        self.check()


if __name__ == "__main__":
    run_command_tests()
