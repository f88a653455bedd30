# SPDX-License-Identifier: Apache-2.0
"""An export that was killed, was ended by a signal or whose source failed goes on inside the file that it was
writing."""

from __future__ import annotations

import random
import re
import signal
import time
import unittest
from pathlib import Path

from export_tests import DONE, IO_ERROR, files_below, partial_files, sha256, start
from make_large import make_large
from mounted import COMMAND_SECONDS, one_line, run, run_unittests, scratch
from web_server import Request, serving

JOURNAL = ".checkpoint_0.ckpt.reshardfs-blocks"
PARTIAL = ".checkpoint_0.ckpt.reshardfs-partial"
BLOCK = 64 << 10


class Inside(unittest.TestCase):
    """One file of 18 MiB in blocks of 64 KiB."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = cls.enterClassContext(scratch())
        make_large(cls.root, 1, 4, 1, 18, 1, 1, rows=256, columns=1024)
        cls.words = ["--src-strategy", cls.root / "src.ckpt", "--views", "ranks"]
        cls.small = ["--memory", "64K", "-j", "1"]
        cls.reference = cls.root / "reference"
        result = run("export", cls.root / "src", cls.reference, *cls.words)
        assert result.code == DONE, result.stderr
        cls.file = cls.reference / "rank_0/checkpoint_0.ckpt"
        cls.size = cls.file.stat().st_size
        assert cls.size > 100 * BLOCK

    def setUp(self) -> None:
        self.out = self.enterContext(scratch()) / "out"
        self.journal = self.out / "rank_0" / JOURNAL

    def blocks(self) -> int:
        """That the journal knows."""
        try:
            return max(0, self.journal.read_bytes().count(b"\n") - 1)
        except OSError:
            return 0

    def kill_after(self, blocks: int, *words: str | Path, source: str | Path = "",
                   number: signal.Signals = signal.SIGKILL) -> int:
        """@returns how many blocks it had written."""
        for _ in range(20):
            process = start("export", source or self.root / "src", self.out, *self.words,
                            *(words or self.small))
            limit = time.monotonic() + COMMAND_SECONDS
            while process.poll() is None and self.blocks() < blocks:
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.001)
            process.send_signal(number)
            _, complaint = process.communicate(timeout=COMMAND_SECONDS)
            if self.blocks() >= blocks:
                if number != signal.SIGKILL:
                    self.assertEqual(process.returncode, 128 + number)
                    self.assertEqual(complaint.count(b"\n"), 1, complaint)
                    self.assertIn(b"the blocks that were written stay", complaint)
                return self.blocks()
            # It was done before it could be killed.
            for path in files_below(self.out).values():
                path.unlink()
        self.fail("every export was done before it was killed")

    def resume(self, *words: str | Path, source: str | Path = "") -> int:
        """@returns the bytes that were there already, rounded up: the command prints tenths."""
        result = run("export", source or self.root / "src", self.out, *self.words,
                     *(words or self.small))
        self.assertEqual(result.code, DONE, result.stderr)
        self.said = result.stderr
        self.assertEqual(sha256(self.out / "rank_0/checkpoint_0.ckpt"), sha256(self.file))
        self.assertEqual(partial_files(self.out), [])
        found = re.search(r"; ([0-9.]+) (B|KiB|MiB) of unfinished files were there", result.stdout)
        if not found:
            return 0
        unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[found[2]]
        return int((float(found[1]) + 0.05) * unit)

    def test_goes_on_where_it_was_killed(self) -> None:
        for blocks in (1, 40, 100):
            with self.subTest(blocks=blocks):
                done = self.kill_after(blocks)
                kept = self.resume()
                self.assertGreaterEqual(kept, min(done * BLOCK, self.size))
                self.assertEqual(self.said, "")
                for path in files_below(self.out).values():
                    path.unlink()

    def test_goes_on_where_a_signal_ended_it(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                done = self.kill_after(60, number=number)
                self.assertGreaterEqual(self.resume(), done * BLOCK)
                self.assertEqual(self.said, "")
                for path in files_below(self.out).values():
                    path.unlink()

    def test_goes_on_where_the_source_failed(self) -> None:
        def fails(request: Request) -> bool:
            request.handler.answer(503)
            return True

        with serving(self.root) as server:
            source = f"{server.url}/src"
            for _ in range(20):
                process = start("export", source, self.out, *self.words, *self.small,
                                "--prefetch-memory", "8MiB", "--remote-timeout", "1")
                limit = time.monotonic() + COMMAND_SECONDS
                while process.poll() is None and self.blocks() < 10:
                    self.assertLess(time.monotonic(), limit)
                    time.sleep(0.001)
                server.rules = [fails]
                _, complaint = process.communicate(timeout=COMMAND_SECONDS)
                server.rules = []
                if process.returncode != DONE:
                    break
                # All was fetched before the server failed.
                for path in files_below(self.out).values():
                    path.unlink()
            self.assertEqual(process.returncode, IO_ERROR, complaint)
            self.assertIn(b"the blocks that were written stay", complaint)
            done = self.blocks()
            self.assertGreaterEqual(done, 10)
            self.assertGreaterEqual(self.resume(source=source), done * BLOCK)

    def test_reads_only_the_rest(self) -> None:
        with serving(self.root) as server:
            url = f"{server.url}/src"
            self.kill_after(self.size // BLOCK // 2, source=url)
            server.bytes_sent = 0
            kept = self.resume(source=url)
            self.assertGreater(kept, self.size * 0.45)
            # What is fetched ahead, and headers, come on top.
            self.assertLess(server.bytes_sent, self.size * 0.85)

    def test_killed_again_and_again(self) -> None:
        rng = random.Random(12)
        done = 0
        while done < self.size // BLOCK * 3 // 4:
            done = self.kill_after(done + rng.randrange(20, 60))
        kept = self.resume("--memory", "256K", "-j", "4")
        self.assertGreaterEqual(kept, min(done * BLOCK, self.size))

    def test_a_damaged_block_is_noticed(self) -> None:
        self.kill_after(60)
        partial = self.out / "rank_0" / PARTIAL
        with open(partial, "r+b") as file:
            for number in (3, 17):
                file.seek(number * BLOCK + 100)
                file.write(b"damaged")
        self.resume()
        self.assertIn("2 blocks", self.said)
        self.assertIn("rank_0/checkpoint_0.ckpt", self.said)
        self.assertEqual(self.said.count("\n"), 1)

    def test_what_does_not_belong_to_it_is_not_used(self) -> None:
        for damage in ("journal", "size", "link", "options", "block"):
            with self.subTest(damage):
                self.kill_after(20)
                partial = self.out / "rank_0" / PARTIAL
                words: list[str | Path] = list(self.small)
                if damage == "journal":
                    self.journal.write_bytes(b"\0" * 500)
                elif damage == "size":
                    with open(partial, "ab") as file:
                        file.write(b"x")
                elif damage == "link":
                    elsewhere = self.out.parent / "elsewhere"
                    partial.rename(elsewhere)
                    partial.symlink_to(elsewhere)
                    before = elsewhere.read_bytes()
                elif damage == "options":
                    # Another conversion in the same place.
                    words += ["--crc", "--force"]
                elif damage == "block":
                    self.journal.write_text(self.journal.read_text().replace(
                        f" {BLOCK}\n", f" {BLOCK * 1024}\n", 1))
                if damage == "options":
                    result = run("export", self.root / "src", self.out, *self.words, *words)
                    self.assertEqual(result.code, DONE, result.stderr)
                    self.assertNotIn("unfinished", result.stdout)
                    self.assertEqual(partial_files(self.out), [])
                else:
                    self.assertEqual(self.resume(*words), 0)
                if damage == "link":
                    self.assertEqual(elsewhere.read_bytes(), before)
                for path in files_below(self.out).values():
                    path.unlink()

    def test_an_error_leaves_nothing(self) -> None:
        self.kill_after(20)
        missing = self.root / "src/rank_2"
        missing.rename(self.root / "src/gone")
        try:
            result = run("export", self.root / "src", self.out, *self.words)
            self.assertNotEqual(result.code, DONE)
            one_line(result)
        finally:
            (self.root / "src/gone").rename(missing)
        self.resume()


if __name__ == "__main__":
    run_unittests()
