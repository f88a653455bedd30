# SPDX-License-Identifier: Apache-2.0
"""An export that finds something in its directory: of the same source or of one that only looks like
it, damaged, or put there to make it write elsewhere."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

# First, because it finds the modules of tests/data.
from export_tests import (
    BAD_INPUT,
    DONE,
    IO_ERROR,
    MANIFEST,
    LargeSet,
    SmallSet,
    data_files,
    files_below,
    sha256,
    start,
)

from command_tests import run_command_tests
from mounted import COMMAND_SECONDS, one_line, run, wait_until


class Identity(SmallSet):
    def test_copied_source(self) -> None:
        """Equal in all but inode numbers and change times: --force goes on, and writes nothing."""
        self.export("--checksum")
        copy = self.root / "copy"
        shutil.copytree(self.made.source, copy)
        shutil.rmtree(self.made.source)
        copy.rename(self.made.source)
        line = one_line(self.export(code=BAD_INPUT))
        self.assertRegex(line, "is a different file|different change time")
        self.assertIn("same bytes", line)
        for _ in range(2):
            result = self.export("--force", "--checksum")
            self.assertIn("0 B of 0 files written", result.stdout)
            self.assertIn("2 files were there already, checked", result.stdout)
            self.check_sums(2)
        self.export()

    def test_source_with_another_name(self) -> None:
        """A mere ln tells of no change of the bytes, but nobody can know."""
        self.export()
        path = self.made.source_files(1)[0]
        os.link(path, self.root / "backup")
        self.refused(path.name, "change time", "--force", "same bytes")

    def test_export_of_an_earlier_version(self) -> None:
        self.export()
        manifest = self.out / MANIFEST
        header, *lines = manifest.read_text().splitlines(keepends=True)
        old = json.loads(header)
        old["reshardfs_export"] = 1
        files = old["conversion"]["source files"]
        old["conversion"]["source files"] = [
            [file["path"], file["bytes"], file["mtime_ns"]] for file in files]
        manifest.write_text("".join([json.dumps(old) + "\n", *lines]))
        self.refused("earlier version", "--force")
        self.export("--force")
        self.export()

    def test_names_that_are_no_utf8(self) -> None:
        """It continues as with any other."""
        for rank in range(4):
            name = os.fsencode(self.made.source_files(rank)[0])
            os.rename(name, name.replace(b"model-", b"m\xff-"))
        pattern = ("--src-pattern", "rank_{rank}/*.ckpt")
        self.export(*pattern)
        self.assertIn("2 files were there already", self.export(*pattern).stdout)


class Foreign(SmallSet):
    def outside(self) -> Path:
        path = self.root / "outside"
        path.mkdir()
        (path / "victim").write_text("precious")
        return path

    def assert_untouched(self, outside: Path) -> None:
        self.assertEqual([path.name for path in outside.iterdir()], ["victim"])
        self.assertEqual((outside / "victim").read_text(), "precious")

    def test_links_in_the_directory(self) -> None:
        outside = self.outside()
        for name in ("rank_1", MANIFEST, "rank_1/checkpoint_1.ckpt", "SHA256SUMS"):
            for target in (outside, outside / "victim", self.root / "nowhere"):
                with self.subTest(name, target=target.name):
                    shutil.rmtree(self.out, ignore_errors=True)
                    (self.out / name).parent.mkdir(parents=True)
                    (self.out / name).symlink_to(target)
                    for options in ((), ("--force",)):
                        self.refused(name.split("/")[0], options=("--checksum", *options))
                    self.assert_untouched(outside)
                    self.assertEqual([path.name for path in self.out.iterdir()
                                      if path.name != MANIFEST], [name.split("/")[0]][:name != MANIFEST])
                    self.assertFalse((self.root / "nowhere").exists())

    def test_links_that_come_meanwhile(self) -> None:
        """A directory that is exchanged for a link again and again: nothing goes through it."""
        outside = self.outside()
        real, link = self.out / "rank_1", self.out / "link"
        real.mkdir(parents=True)
        link.symlink_to(outside)
        done = threading.Event()

        def exchange() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            while not done.is_set():
                libc.renameat2(-100, os.fsencode(real), -100, os.fsencode(link), 2)

        thread = threading.Thread(target=exchange)
        thread.start()
        try:
            for _ in range(60):
                result = run("export", self.made.source, self.out, *self.made.options(), "--force")
                self.assertIn(result.code, (DONE, BAD_INPUT, IO_ERROR), result.stderr)
                self.assert_untouched(outside)
        finally:
            done.set()
            thread.join()

    def test_manifest_with_another_name(self) -> None:
        """It is not even truncated."""
        outside = self.outside()
        self.out.mkdir()
        os.link(outside / "victim", self.out / MANIFEST)
        for options in ((), ("--force",)):
            self.refused(MANIFEST, "another name", options=options)
            self.assert_untouched(outside)
        (self.out / MANIFEST).unlink()
        self.export()
        os.link(self.out / MANIFEST, self.root / "backup")
        self.refused(MANIFEST, "another name")

    def test_manifest_that_is_no_file(self) -> None:
        self.out.mkdir()
        os.mkfifo(self.out / MANIFEST)
        self.refused(MANIFEST, "regular file")
        (self.out / MANIFEST).unlink()
        (self.out / MANIFEST).mkdir()
        self.refused(MANIFEST, "regular file")

    def test_manifest_whose_last_line_is_torn(self) -> None:
        self.export("--checksum")
        manifest = self.out / MANIFEST
        whole = manifest.read_bytes()
        last = whole.rindex(b"\n", 0, -1) + 1
        for length in (last, last + 1, len(whole) - 20, len(whole) - 1):
            with self.subTest(length - last):
                os.truncate(manifest, length)
                result = self.export("--checksum")
                self.assertIn("2 files were there already", result.stdout)
                self.check_sums(2)
                self.assertEqual(manifest.read_bytes(), whole)
                os.truncate(manifest, length)
                self.assertIn("2 files were there already", self.export().stdout)
                self.export("--checksum")

    def test_foreign_sums(self) -> None:
        self.out.mkdir()
        for text in ("0" * 64 + "  rank_0/checkpoint_0.ckpt\n", "mine", "x" * (1 << 20)):
            (self.out / "SHA256SUMS").write_text(text)
            self.refused("SHA256SUMS", "already exists", options=("--checksum",))
            self.assertEqual((self.out / "SHA256SUMS").read_text(), text)


class StoppedAndChanged(LargeSet):
    def test_source_rewritten_while_it_was_stopped(self) -> None:
        """With its size and modification time: two versions are never mixed."""
        source = self.directory / "src"
        shutil.copytree(self.root / "src", source)
        words: list[str | Path] = ["export", source, self.out, *self.words, "-j1", "--memory", "64K"]
        for _ in range(20):  # until one is stopped in the middle
            shutil.rmtree(self.out, ignore_errors=True)
            process = start(*words)
            wait_until(lambda: process.poll() is not None or
                       any(path.suffix == ".ckpt" for path in files_below(self.out).values()))
            process.kill()
            process.communicate()
            if 0 < sum(path.suffix == ".ckpt" for path in data_files(self.out).values()) < 2:
                break
        for path in source.glob("rank_*/*"):
            times = path.stat()
            with open(path, "r+b") as file:
                file.seek(-(1 << 20), os.SEEK_END)
                file.write(b"other bytes" * 1000)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        result = run(*words)
        self.assertEqual(result.code, BAD_INPUT, result.stderr)
        # Samples may have met what is other.
        self.assertRegex(one_line(result), "different change time|different contents")
        self.assertEqual(run(*words, "--force").code, DONE)
        done = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=self.out,
                              stdout=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False)
        self.assertEqual(done.returncode, 0)
        fresh = self.directory / "fresh"
        self.assertEqual(run("export", source, fresh, *self.words).code, DONE)
        self.assertEqual({name: sha256(path) for name, path in data_files(self.out).items()},
                         {name: sha256(path) for name, path in data_files(fresh).items()})

    def test_two_at_once(self) -> None:
        """One goes on, the other is refused; whichever."""
        both = [start(*self.arguments(), "-j1", "--memory", "64K") for _ in range(2)]
        results = [(process.communicate(timeout=COMMAND_SECONDS)[1], process.returncode)
                   for process in both]
        self.assertEqual(sorted(code for _, code in results), [DONE, BAD_INPUT], results)
        self.assertIn(b"another export", min(results, key=lambda result: -result[1])[0])
        self.check_names()
        self.resume()


if __name__ == "__main__":
    run_command_tests()
