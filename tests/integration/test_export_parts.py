# SPDX-License-Identifier: Apache-2.0
"""An export to an object store that goes on inside of an object, with the parts that a process before
it has sent: only with those that are what they are to be."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

# First, because it finds the modules of tests/data.
from export_tests import DONE, IO_ERROR, MANIFEST, data_files

from command_tests import run_command_tests
from make_large import make_large
from memory_store import BUCKET, MemoryStore, error, serving
from mounted import COMMAND_SECONDS, Result, Settings, one_line, run, scratch
from s3_proxy import Answer, Dropped, Pass, Request

PART = 8 << 20
PREFIX = "run/out"
ONE_AFTER_ANOTHER = ("-j1", "--memory", "8MiB")


class Parts(unittest.TestCase):
    """Two ranks of several parts each."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.data = cls.enterClassContext(scratch())
        make_large(cls.data, 1, 4, 1, 20, 1, 2, rows=512, columns=1024)
        cls.options = ["--src-strategy", cls.data / "src.ckpt", "--dst-strategy", cls.data / "dst.ckpt"]
        whole = cls.data / "whole"
        result = run("export", cls.data / "src", whole, *cls.options)
        assert result.code == DONE, result.stderr
        cls.expected = {f"{PREFIX}/{name}": path.read_bytes()
                        for name, path in data_files(whole).items()}
        cls.first, cls.second = sorted(cls.expected)
        cls.counts = {key: -(-len(body) // PART) for key, body in cls.expected.items()}
        assert min(cls.counts.values()) > 4

    def setUp(self) -> None:
        self.source = self.data / "src"
        self.store = MemoryStore()
        Settings.environment = self.enterContext(serving(self.store))
        self.addCleanup(setattr, Settings, "environment", {})

    def words(self, *options: str) -> list[str | Path]:
        return ["export", self.source, f"s3://{BUCKET}/{PREFIX}", *self.options,
                *ONE_AFTER_ANOTHER, *options]

    def export(self, *options: str, code: int = DONE) -> Result:
        result = run(*self.words(*options))
        self.assertEqual(result.code, code, result.stderr)
        return result

    def part(self, key: str, number: int) -> bytes:
        return self.expected[key][(number - 1) * PART:number * PART]

    def begin(self, key: str, *numbers: int) -> str:
        """As a process does that is killed then."""
        return self.store.begin(key, {number: self.part(key, number) for number in numbers})

    def refuse_parts_from(self, number: int, answer: Answer) -> None:
        """Counted over all objects."""
        parts = 0

        def fault(request: Request, pass_on: Pass) -> Answer:
            nonlocal parts
            parts += request.is_part
            return answer if request.is_part and parts >= number else pass_on(request)

        self.store.fault = fault

    def pass_all(self) -> None:
        self.store.fault = lambda request, pass_on: pass_on(request)
        self.store.requests.clear()

    def stopped(self, after: int, number: int) -> bytes:
        """Is given a signal after some parts, while it waits for the answer to the next one."""
        started = threading.Event()

        def fault(request: Request, pass_on: Pass) -> Answer:
            nonlocal parts
            parts += request.is_part
            if parts == after + 1 and request.is_part:
                started.wait()
                process.send_signal(number)
                if number == signal.SIGKILL:
                    process.wait()
                    raise Dropped
            return pass_on(request)

        parts = 0
        self.store.fault = fault
        variables = {**os.environ, **Settings.environment}
        process = subprocess.Popen([str(Settings.binary), *map(str, self.words())],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, env=variables)
        started.set()
        with process:
            _, complaint = process.communicate(timeout=COMMAND_SECONDS)
        self.assertEqual(process.returncode,
                         -number if number == signal.SIGKILL else 128 + number, complaint)
        self.pass_all()
        return complaint

    def missing(self, *there: tuple[str, int]) -> list[tuple[str, int]]:
        return [(key, number) for key, count in sorted(self.counts.items())
                for number in range(1, count + 1) if (key, number) not in there]

    def check_sent(self, expected: list[tuple[str, int]]) -> None:
        self.assertEqual(sorted(self.store.sent_parts()), sorted(expected))

    def check_objects(self) -> None:
        self.assertEqual(self.store.uploads, {})
        found = {key: body for key, (body, _) in self.store.objects.items()
                 if not key.endswith(MANIFEST)}
        self.assertTrue(found == self.expected, found.keys())
        for key, count in self.counts.items():
            self.assertTrue(self.store.objects[key][1].endswith(f"-{count}"))

    def check_summary(self, result: Result, parts: int) -> None:
        mebibytes = parts * PART >> 20
        self.assertRegex(result.stdout,
                         rf"; {mebibytes}(\.0)? MiB of unfinished files were there already, checked")


class Behind(Parts):
    def test_does_not_take_back_a_complete_share(self) -> None:
        """As of a node that was thought to be lost."""
        then: dict[str, tuple[bytes, str]] = {}

        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.is_part and not self.others_have_begun:
                self.others_have_begun = True
                for index in range(2):
                    self.export("--share", f"{index}/2")
                then.update(self.store.objects)
            return pass_on(request)

        self.others_have_begun = False
        self.store.fault = fault
        result = self.export("--share", "0/2", code=IO_ERROR)
        self.assertIn("another process has aborted the upload", result.stderr)
        self.assertTrue(any('"complete"' in body.decode() for key, (body, _) in then.items() if "0-of-2" in key))
        self.assertEqual(self.store.objects, then)
        self.pass_all()
        result = self.export("--share", "0/2")
        self.assertEqual(self.store.sent_parts(), [])
        self.assertEqual(self.store.objects, then)


class GoesOn(Parts):
    def test_killed(self) -> None:
        self.stopped(3, signal.SIGKILL)
        self.assertEqual([sorted(upload.parts) for upload in self.store.uploads.values()], [[1, 2, 3]])
        self.assertEqual(set(self.store.objects), {f"{PREFIX}/{MANIFEST}"})
        result = self.export()
        self.check_sent(self.missing(*((self.first, number) for number in (1, 2, 3))))
        self.check_objects()
        self.check_summary(result, 3)
        self.assertEqual(result.stderr, "")

    def test_killed_in_the_second_object(self) -> None:
        """The first one is not in the manifest yet, which is written now and then."""
        self.stopped(self.counts[self.first] + 2, signal.SIGKILL)
        self.assertIn(self.first, self.store.objects)
        self.check_summary(self.export(), 2)
        self.check_sent(self.missing((self.second, 1), (self.second, 2)))
        self.check_objects()

    def test_interrupted(self) -> None:
        """What it was sending when the signal came is there, too."""
        complaint = self.stopped(3, signal.SIGTERM)
        self.assertIn(b"repeat the command to resume; the parts that were sent stay in the store",
                      complaint)
        [upload] = self.store.uploads.values()
        sent = len(upload.parts)
        self.assertEqual(sorted(upload.parts), list(range(1, sent + 1)))
        self.assertGreater(sent, 3)
        self.check_summary(self.export(), sent)
        self.check_objects()

    def test_killed_again_and_again(self) -> None:
        for _ in range(3):
            self.stopped(1, signal.SIGKILL)
        self.check_summary(self.export(), 3)
        self.check_objects()

    def test_all_parts_but_not_the_object(self) -> None:
        self.begin(self.first, *range(1, self.counts[self.first] + 1))
        self.export()
        self.check_sent(self.missing(*((self.first, number)
                                       for number in range(1, self.counts[self.first] + 1))))
        self.check_objects()

    def test_a_list_of_several_pages(self) -> None:
        self.store.page = 2
        self.begin(self.second, 1, 2, 4, 5)
        self.check_summary(self.export(), 4)
        self.check_sent(self.missing(*((self.second, number) for number in (1, 2, 4, 5))))
        self.check_objects()
        lists = [request for request in self.store.requests
                 if request.method == "GET" and "uploadId=" in request.path]
        self.assertEqual(len(lists), 2)

    def test_several_threads(self) -> None:
        self.begin(self.first, 2, 4)
        self.begin(self.second, 1, 3)
        result = self.export("-j8", "--memory", "256MiB")
        self.check_summary(result, 4)
        self.check_sent(self.missing((self.first, 2), (self.first, 4), (self.second, 1),
                                     (self.second, 3)))
        self.check_objects()

    def test_the_upload_with_most_parts(self) -> None:
        """The others are aborted."""
        self.begin(self.first, 1)
        self.begin(self.first, 1, 2, 3)
        self.begin(self.first, 4, 5)
        self.check_summary(self.export(), 3)
        self.check_objects()

    def test_shares(self) -> None:
        """Each goes on with what is its own, and touches nothing else."""
        for key in (self.first, self.second):
            self.begin(key, 1, 2)
        foreign = self.store.begin(f"{PREFIX}/elsewhere", {1: b"mine"})
        self.check_summary(self.export("--share", "0/2"), 2)
        self.assertEqual(len(self.store.uploads), 2)
        self.check_summary(self.export("--share", "1/2"), 2)
        self.check_sent(self.missing(*((key, number) for key in (self.first, self.second)
                                       for number in (1, 2))))
        self.assertEqual(list(self.store.uploads), [foreign])


class SendsAgain(Parts):
    def check_again(self, upload: str, sent: set[int]) -> Result:
        """Of the first object's parts 1 to 3, these are sent once more, to the same upload."""
        self.assertIn(upload, self.store.uploads)
        result = self.export()
        self.check_objects()
        there = {1, 2, 3} - sent
        self.check_sent(self.missing(*((self.first, number) for number in there)))
        completions = [self.store.query_of(request)["uploadId"] for request in self.store.requests
                       if request.is_completion]
        self.assertIn(upload, completions)
        return result

    def begun(self) -> tuple[str, dict[int, bytes]]:
        upload = self.begin(self.first, 1, 2, 3)
        return upload, self.store.uploads[upload].parts

    def test_other_bytes(self) -> None:
        upload, parts = self.begun()
        parts[2] = parts[2][:-1] + bytes([parts[2][-1] ^ 1])
        result = self.check_again(upload, {2})
        self.check_summary(result, 2)
        self.assertIn("1 part that an interrupted export has left did not match", result.stderr)
        self.assertIn(self.first.removeprefix(f"{PREFIX}/"), result.stderr)

    def test_another_size(self) -> None:
        upload, parts = self.begun()
        parts[1], parts[3] = parts[1][:-1], parts[3] + b"x"
        self.check_again(upload, {1, 3})

    def test_parts_that_changed_places(self) -> None:
        upload, parts = self.begun()
        parts[1], parts[2] = parts[2], parts[1]
        self.assertFalse(parts[1] == parts[2])
        self.check_again(upload, {1, 2})

    def test_etags_that_are_no_checksums(self) -> None:
        self.store.has_sums = False
        upload, _ = self.begun()
        result = self.check_again(upload, {1, 2, 3})
        self.assertNotIn("unfinished files", result.stdout)
        self.assertIn("3 parts that an interrupted export has left did not match", result.stderr)


class BeginsAnew(Parts):
    def check_anew(self, *uploads: str) -> Result:
        result = self.export()
        self.check_objects()
        self.check_sent(self.missing())
        self.assertNotIn("unfinished files", result.stdout)
        aborted = [self.store.query_of(request)["uploadId"] for request in self.store.requests
                   if request.method == "DELETE" and "uploadId=" in request.path]
        self.assertEqual(sorted(aborted), sorted(uploads))
        return result

    def test_parts_of_another_size(self) -> None:
        body = self.expected[self.first]
        self.check_anew(self.store.begin(
            self.first, {number + 1: body[number * 5 << 20:(number + 1) * 5 << 20]
                         for number in range(4)}))

    def test_parts_beyond_the_end(self) -> None:
        """Not all stores complete an upload that has parts which are not named."""
        upload = self.begin(self.first, 1, 2)
        self.store.uploads[upload].parts[10_000] = b"x" * PART
        self.check_anew(upload)

    def test_uploads_without_parts(self) -> None:
        self.check_anew(self.begin(self.first), self.begin(self.second), self.begin(self.first))

    def test_an_upload_that_needs_other_checksums(self) -> None:
        upload = self.begin(self.first, 1, 2)
        self.store.uploads[upload].checksum = "SHA256"
        self.check_anew(upload)

    def test_a_file_that_is_complete(self) -> None:
        """Whoever has begun it again, nobody goes on."""
        self.export()
        self.begin(self.first, 1, 2)
        self.pass_all()
        self.assertIn("2 files were there already", self.export().stdout)
        self.assertEqual(self.store.uploads, {})
        self.assertEqual(self.store.sent_parts(), [])

    def refuse(self, is_meant: Callable[[Request], bool], answer: Answer) -> None:
        self.store.fault = lambda request, pass_on: (
            answer if is_meant(request) else pass_on(request))

    def test_a_list_of_parts_that_is_refused(self) -> None:
        for answer in (error(403, "AccessDenied"), error(501, "NotImplemented"),
                       Answer(200, [], b"<html/>")):
            with self.subTest(answer.body):
                self.pass_all()
                self.store.objects.clear()
                uploads = self.begin(self.first, 1, 2), self.begin(self.second, 1)
                self.refuse(lambda request: request.method == "GET" and "uploadId=" in request.path,
                            answer)
                result = self.check_anew(*uploads)
                self.assertIn("cannot be listed, and are sent again", one_line(result))

    def test_a_list_of_uploads_that_is_refused(self) -> None:
        upload = self.begin(self.first, 1, 2)
        self.refuse(lambda request: request.method == "GET" and "uploads=" in request.path,
                    error(403, "AccessDenied"))
        result = self.export()
        self.assertIn("incomplete uploads may be left in the store", one_line(result))
        self.check_sent(self.missing())
        del self.store.uploads[upload]
        self.check_objects()


class Failures(Parts):
    def lose(self, is_meant: Callable[[Request], bool]) -> str:
        """The upload is not there any more when such a request comes."""
        def fault(request: Request, pass_on: Pass) -> Answer:
            if is_meant(request):
                self.store.uploads.clear()
            return pass_on(request)

        self.store.fault = fault
        line = one_line(self.export(code=IO_ERROR))
        self.assertEqual(set(self.store.objects), {f"{PREFIX}/{MANIFEST}"})
        self.pass_all()
        return line

    def test_an_upload_that_is_lost(self) -> None:
        for what, is_meant in (("part", lambda request: request.is_part),
                               ("completion", lambda request: request.is_completion)):
            with self.subTest(what):
                self.store.objects.clear()
                self.begin(self.first, 1, 2)
                line = self.lose(is_meant)
                self.assertIn(f"s3://{BUCKET}/{self.first}: ", line)
                self.assertIn("aborted the upload", line)
                self.assertIn("run the same command again, which begins this object anew", line)
                self.assertNotIn("stay in the store", line)
                self.assertNotIn("unfinished files", self.export().stdout)
                self.check_objects()

    def test_lost_between_two_lists(self) -> None:
        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.method == "GET" and "uploadId=" in request.path:
                self.store.uploads.clear()
            return pass_on(request)

        self.begin(self.first, 1, 2)
        self.store.fault = fault
        self.assertEqual(self.export().stderr, "")
        self.check_objects()

    def test_errors_for_good(self) -> None:
        self.refuse_parts_from(4, error(403, "ExpiredToken"))
        line = one_line(self.export(code=IO_ERROR))
        self.assertRegex(line, "ExpiredToken.*the parts that were sent stay in the store")
        self.assertIn("run the same command again", line)
        self.pass_all()
        self.check_summary(self.export(), 3)
        self.check_sent(self.missing(*((self.first, number) for number in (1, 2, 3))))
        self.check_objects()

    def test_an_upload_that_the_store_does_not_go_on_with(self) -> None:
        """It is aborted, so that the next run does not meet it again."""
        for what, is_meant in (("part", lambda request: request.is_part),
                               ("completion", lambda request: request.is_completion)):
            with self.subTest(what):
                self.store.objects.clear()
                self.begin(self.first, 1, 2)
                self.store.fault = lambda request, pass_on, is_meant=is_meant: (
                    error(400, "InvalidRequest") if is_meant(request) else pass_on(request))
                line = one_line(self.export(code=IO_ERROR))
                self.assertIn(f"s3://{BUCKET}/{self.first}: the server answers 400", line)
                self.assertNotIn("stay in the store", line)
                self.assertEqual(self.store.uploads, {})
                self.pass_all()
                self.export()
                self.check_objects()

    def test_nothing_stays_of_what_has_no_parts(self) -> None:
        self.refuse_parts_from(1, error(403, "AccessDenied"))
        self.assertNotIn("stay in the store", one_line(self.export(code=IO_ERROR)))
        self.assertEqual(self.store.uploads, {})

    def test_a_source_that_changes(self) -> None:
        """The same command cannot go on with these parts."""
        self.source = self.enterContext(scratch()) / "src"
        shutil.copytree(self.data / "src", self.source)

        def fault(request: Request, pass_on: Pass) -> Answer:
            if request.is_part and not changed.is_set():
                changed.set()
                for path in self.source.rglob("*.*"):
                    if path.is_file():
                        os.utime(path, ns=(1, 1))
            return pass_on(request)

        changed = threading.Event()
        self.store.fault = fault
        line = one_line(self.export(code=IO_ERROR))
        self.assertRegex(line, re.compile("chang", re.IGNORECASE))
        self.assertNotIn("stay in the store", line)
        self.assertEqual(self.store.uploads, {})


if __name__ == "__main__":
    run_command_tests()
