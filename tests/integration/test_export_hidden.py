# SPDX-License-Identifier: Apache-2.0
"""What else is in the place of an export: files that would be read instead, and what an export before it has
left there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from command_tests import run_command_tests  # noqa: E402
from export_tests import BAD_INPUT, DONE, MANIFEST, files_below, partial_files, start  # noqa: E402
from format_files import write_safetensors  # noqa: E402
from incomplete_sets import INDEX, config, model, write_counted  # noqa: E402
from make_large import make_large  # noqa: E402
from mounted import COMMAND_SECONDS, Result, one_line, run, scratch  # noqa: E402
from web_server import Request, of_ranges, serving  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
SHARD = "model-00001-of-00003.safetensors"


class Hidden(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "source"
        self.source.mkdir()
        write_safetensors(self.source / "model.safetensors", model(), {"format": "pt"})
        (self.source / "config.json").write_text(json.dumps(config()))
        self.out = self.root / "out"
        self.out.mkdir()

    def write(self, target: Path, *options: str | Path, code: int = DONE, source: Path | None = None) -> Result:
        result = run("export", source or self.source, target, *options)
        self.assertEqual(result.code, code, result.stdout + result.stderr)
        return result

    def assert_refused(self, target: Path, *options: str | Path, names: str) -> None:
        """With and without --force; nothing changes."""
        before = {name: path.read_bytes() for name, path in files_below(self.root).items()}
        for force in ((), ("--force",)):
            said = self.write(target, *options, *force, code=BAD_INPUT).stderr
            self.assertIn(names, said)
            self.assertIn("choose a directory of its own", said)
        after = {name: path.read_bytes() for name, path in files_below(self.root).items()}
        after.pop(f"out/{MANIFEST}", None)
        self.assertEqual(after, before)

    def test_a_single_file_beside_another_set(self) -> None:
        def of_index() -> str:
            write_counted(self.out, model(), 3)
            return SHARD

        def of_stale_index() -> str:
            write_counted(self.out, model(), 3)
            for path in self.out.glob("model-*"):
                path.unlink()
            return INDEX

        def of_names_that_count() -> str:
            write_counted(self.out, model(), 3, index=False)
            return SHARD

        def of_table() -> str:
            shutil.copytree(TESTS / "goldendcp/grid4_113/src", self.out, dirs_exist_ok=True)
            return ".distcp"

        def of_ranks_of_fsdp() -> str:
            for path in (TESTS / "goldentorch/fsdp2_w2_214/src").rglob("model_world_size_*.pt"):
                shutil.copy(path, self.out)
            return "model_world_size_2_rank_0.pt"

        for fill in (of_index, of_stale_index, of_names_that_count, of_table, of_ranks_of_fsdp):
            for name in ("model.safetensors", "model.ckpt", "model.pt"):
                if fill is of_stale_index and name == "model.safetensors":
                    continue  # which is read in place of the index
                with self.subTest(fill=fill.__name__, name=name):
                    shutil.rmtree(self.out)
                    self.out.mkdir()
                    self.assert_refused(self.out / name, names=fill())

    def test_a_single_file_that_is_not_hidden(self) -> None:
        for place, name in enumerate(("model.safetensors", "other.safetensors", "model.ckpt", "model.safetensors")):
            self.write(self.out / name, *(("--force",) if place == 3 else ()))
        self.assertEqual(set(files_below(self.out)), {"model.safetensors", "other.safetensors", "model.ckpt"})

    def test_a_single_file_beside_another_one(self) -> None:
        """Which is named, unless it is the source."""
        self.write(self.out / "model.safetensors")
        said = self.write(self.out / "model.pt").stderr
        self.assertIn("is read as 'model.safetensors', not as model.pt", said)
        for name in ("copy.pt", "copy.ckpt"):
            said = self.write(self.out / name, source=self.out / "model.safetensors").stderr
            self.assertNotIn("is read as", said)

    def test_ranks_in_directories_are_named(self) -> None:
        """A run's directory is a usual place for a file with its model."""
        for rank in range(2):
            (self.out / f"rank_{rank}").mkdir()
            write_safetensors(self.out / f"rank_{rank}/net_{rank}.safetensors", model(), {})
        said = self.write(self.out / "model.safetensors").stderr
        self.assertIn("is read as 'rank_0/net_0.safetensors', 'rank_1/net_1.safetensors', not as model.safetensors", said)

    def test_views(self) -> None:
        """A file that is not of the export in the directory of a view."""
        sharded = ("--views", "hf", "--shard-size", "300B")
        for name, options in (("hf/model.safetensors", sharded),
                              ("rank_0/other.safetensors", ("--views", "ranks")),
                              ("rank_7/checkpoint_7.safetensors", ("--views", "ranks")),
                              ("dcp/.metadata", ("--views", "hf,dcp"))):
            with self.subTest(name):
                shutil.rmtree(self.out)
                self.out.mkdir()
                foreign = self.out / name
                foreign.parent.mkdir(parents=True)
                if foreign.name == ".metadata":
                    # What is replaced by the export itself is in nobody's way.
                    foreign.write_bytes(b"\x80\x02N.")
                    self.assertIn("already exists", self.write(self.out, *options, code=BAD_INPUT).stderr)
                else:
                    write_safetensors(foreign, model(), {})
                    self.assert_refused(self.out, *options, names=foreign.name)

    def test_views_one_after_the_other(self) -> None:
        for view in ("ranks", "hf", "merged", "dcp"):
            self.assertEqual(self.write(self.out, "--views", view).stderr, "")
        for name in ("README.md", "hf/notes.txt"):
            (self.out / name).write_text("mine")
        self.assertEqual(self.write(self.out, "--views", "ranks,hf").stderr, "")

    def test_force_removes_what_another_export_has_written(self) -> None:
        self.write(self.out, "--views", "hf", "--shard-size", "300B")
        shards = {name for name in files_below(self.out) if "-of-" in name}
        self.assertGreater(len(shards), 1)
        (self.out / "hf/notes.txt").write_text("mine")
        changed = sorted(shards)[0]
        with open(self.out / changed, "ab") as file:
            file.write(b"longer now, so no longer the export's")
        os.utime(self.source / "model.safetensors")
        self.assertIn("--force", self.write(self.out, "--views", "hf", code=BAD_INPUT).stderr)
        said = self.write(self.out, "--views", "hf", "--force").stdout
        # With its index, but without the file that somebody has changed.
        self.assertIn(f"{len(shards) - 1} files of an earlier export removed", said)
        self.assertTrue((self.out / changed).exists())
        (self.out / changed).unlink()
        self.assertEqual(set(files_below(self.out)),
                         {MANIFEST, "hf/model-00001-of-00001.safetensors", "hf/model.safetensors.index.json",
                          "hf/config.json", "hf/notes.txt"})

    def test_force_removes_directories_of_ranks(self) -> None:
        rules = self.root / "rules.toml"
        for ranks, force in ((4, ()), (2, ("--force",))):
            rules.write_text(f'[devices]\naxes = ["tp={ranks}"]\nunmatched = "replicate"\n'
                             '[[rule]]\nmatch = ["*up_proj*"]\ncut = ["tp", ""]\n')
            self.write(self.out, "--dst-strategy", rules, *force)
            self.assertTrue((self.out / f"rank_{ranks - 1}").is_dir())
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), [MANIFEST, "rank_0", "rank_1"])

    def test_force_removes_no_source(self) -> None:
        """Of a file with two names, even if the other one is in the directory and in its manifest."""
        self.write(self.out, "--views", "hf", "--shard-size", "300B")
        shard = sorted((self.out / "hf").glob("model-*"))[0]
        linked = self.root / "linked"
        linked.mkdir()
        os.link(shard, linked / "model.safetensors")
        self.write(self.out, "--views", "hf", "--force", source=linked)
        self.assertTrue(shard.exists())


class Killed(unittest.TestCase):
    """A single file of some MiB in blocks of 64 KiB, from a server that can be made to wait."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = cls.enterClassContext(scratch())
        make_large(cls.root, 1, 4, 1, 18, 1, 1, rows=256, columns=1024)
        cls.server = cls.enterClassContext(serving(cls.root))
        cls.source = f"{cls.server.url}/src"
        cls.words = ["--src-strategy", cls.root / "src.ckpt", "--memory", "64K", "-j", "1", "--prefetch-memory", "1MiB"]

    def kill(self, target: Path, *options: str, number: signal.Signals = signal.SIGKILL, unanswered: bool = False) -> str:
        """Once it has written ten more blocks. The server answers no more then, so that it cannot end before.
        @param unanswered until it has ended. @returns what it said."""
        journal = target.parent / f".{target.name}.reshardfs-blocks"

        def blocks() -> int:
            return journal.read_bytes().count(b"\n") if journal.exists() else 0

        goal = blocks() + 10
        is_killed = threading.Event()

        def hold(_: Request) -> bool:
            if blocks() >= goal:
                is_killed.wait(COMMAND_SECONDS)
            return False

        self.server.rules = [of_ranges(hold)]
        try:
            process = start("export", self.source, target, *self.words, *options)
            limit = time.monotonic() + COMMAND_SECONDS
            while process.poll() is None and blocks() < goal:
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.001)
            self.assertIsNone(process.poll())
            process.send_signal(number)
            if not unanswered:
                is_killed.set()
            said = process.communicate(timeout=COMMAND_SECONDS)[1].decode()
            self.assertEqual(process.returncode, -number if number == signal.SIGKILL else 128 + number)
            return said
        finally:
            is_killed.set()
            self.server.rules = []

    def test_goes_on_where_it_was_killed(self) -> None:
        for name in ("x.safetensors", "x.ckpt", "x.pt"):
            out = self.enterContext(scratch())
            with self.subTest(name):
                for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
                    said = self.kill(out / name, number=number)
                    self.assertEqual(len(partial_files(out)), 2, "the file and its journal")
                self.assertIn("repeat the command to resume", said)
                result = run("export", self.source, out / name, *self.words)
                self.assertEqual(result.code, DONE, result.stderr)
                self.assertIn("of unfinished files were there already, checked", result.stdout)
                self.assertEqual(set(files_below(out)), {name})
                whole = self.enterContext(scratch()) / name
                self.assertEqual(run("export", self.source, whole, *self.words).code, DONE)
                self.assertEqual((out / name).read_bytes(), whole.read_bytes())

    def test_a_signal_ends_it_whether_the_source_answers_or_not(self) -> None:
        target = self.enterContext(scratch()) / "x.pt"
        self.assertIn("interrupted; ", self.kill(target, number=signal.SIGTERM, unanswered=True))
        self.assertEqual(len(partial_files(target.parent)), 2)

    def test_what_another_conversion_has_left_is_removed(self) -> None:
        out = self.enterContext(scratch())
        self.kill(out / "x.ckpt", "--crc")
        # As versions before this one called it.
        (out / ".x.ckpt.0123456789abcdef.reshardfs-partial").write_bytes(b"old")
        result = run("export", self.source, out / "x.ckpt", *self.words)
        self.assertNotIn("unfinished", result.stdout)
        self.assertEqual(set(files_below(out)), {"x.ckpt"})

    def test_two_at_once(self) -> None:
        out = self.enterContext(scratch())
        journal = out / ".x.pt.reshardfs-blocks"
        process = start("export", self.source, out / "x.pt", *self.words)
        limit = time.monotonic() + COMMAND_SECONDS
        while not journal.exists():
            self.assertLess(time.monotonic(), limit)
        process.send_signal(signal.SIGSTOP)
        try:
            line = one_line(run("export", self.source, out / "x.pt", *self.words))
            self.assertIn("another process is writing this file", line)
        finally:
            process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=COMMAND_SECONDS)
        self.assertEqual((process.returncode, said), (DONE, b""))
        self.assertEqual(set(files_below(out)), {"x.pt"})


if __name__ == "__main__":
    run_command_tests()
