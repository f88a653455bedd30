# SPDX-License-Identifier: Apache-2.0
"""export, hash and cat: the files of a mount without mounting, whatever stops the program."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

from command_tests import run_command_tests, terminal_output
from export_tests import (
    BAD_INPUT,
    DONE,
    IO_ERROR,
    MANIFEST,
    LargeSet,
    SmallSet,
    data_files,
    files_below,
    partial_files,
    sha256,
    start,
)
# Before the modules of tests/data, which it finds.
from run_golden import case_options, comparison, variants

import numpy as np
from golden_cases import CONVERSION_APIS, MUST_FAIL, MUST_WORK, load_cases
from make_large import make_large
from mounted import COMMAND_SECONDS, Result, Settings, one_line, run, scratch, wait_until

KILLS = 50
DISPLAY_SECONDS = 0.2  # more than the interval of ProgressDisplay


@contextlib.contextmanager
def small_disk(directory: Path, options: str) -> Iterator[Path]:
    directory.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", directory],
                          stderr=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False)
    if done.returncode:
        raise unittest.SkipTest("nothing can be mounted here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], timeout=COMMAND_SECONDS, check=False)


class Golden(unittest.TestCase):
    def test_every_conversion(self) -> None:
        """What the original has written, byte for byte; in any form of the strategies."""
        done = 0
        for case in load_cases():
            if case.api not in CONVERSION_APIS or case.name in (*MUST_FAIL, *MUST_WORK):
                continue
            for form, src, dst in variants(case):
                with self.subTest(case.name, form=form), scratch() as directory:
                    out = directory / "out"
                    result = run("export", case.source, out, *case_options(case, src, dst))
                    self.assertEqual(result.code, DONE, result.stderr)
                    expected = case.expected_files()
                    names = {f"rank_{rank}/{case.prefix}{rank}.{case.output_format}"
                             for rank in expected}
                    self.assertEqual(data_files(out).keys(), names)
                    for rank, path in expected.items():
                        got = next((out / f"rank_{rank}").iterdir())
                        comparison(case)(got.read_bytes(), path.read_bytes())
                    done += 1
        self.assertGreater(done, 30)


class Export(SmallSet):
    def test_writes_the_rank_files_alone(self) -> None:
        self.export()
        self.assertEqual(list(files_below(self.out)),
                         [MANIFEST, "rank_0/checkpoint_0.ckpt", "rank_1/checkpoint_1.ckpt"])

    def test_all_views(self) -> None:
        self.export("--views", "ranks,merged,params,unified,strategy", "--params", "--checksum")
        names = data_files(self.out)
        for name in ("merged/checkpoint_merged.ckpt", "merged/params.json", "merged/model.safetensors.index.json",
                     "rank_1/params/global_step.npy", "strategy/source.json"):
            self.assertIn(name, names)
        self.assertTrue(any(name.startswith("unified/") for name in names))
        self.check_sums(len(names))

    def test_checksums_can_be_asked_for_later(self) -> None:
        self.export()
        self.export("--checksum")
        self.check_sums(2)

    def test_sums_of_ranks_that_were_written_without(self) -> None:
        self.export()
        result = self.export("--checksum", "--ranks", "1")
        self.assertIn("SHA256SUMS lacks 1 file that an export without --checksum has written", one_line(result))
        self.check_sums(1)
        self.assertEqual(self.export("--checksum").stderr, "")
        self.check_sums(2)

    def test_a_damaged_file_is_found(self) -> None:
        """Whichever sum the manifest has, and whichever is wanted."""
        for first in ((), ("--checksum",)):
            for second in ((), ("--checksum",)):
                shutil.rmtree(self.out, ignore_errors=True)
                self.export(*first)
                file = self.out / "rank_1/checkpoint_1.ckpt"
                whole = file.read_bytes()
                file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
                self.refused("rank_1/checkpoint_1.ckpt", "already exists with different contents", options=second)
                self.export(*second, "--force")
                self.assertEqual(file.read_bytes(), whole)
                self.assertIn("2 files were there already", self.export(*second).stdout)

    def test_repeated(self) -> None:
        self.export("--checksum")
        before = {name: path.stat().st_mtime_ns for name, path in data_files(self.out).items()}
        result = self.export("--checksum")
        self.assertIn("2 files were there already", result.stdout)
        after = {name: path.stat().st_mtime_ns for name, path in data_files(self.out).items()}
        self.assertEqual(before, after)

    def test_umask(self) -> None:
        old = os.umask(0o027)
        try:
            self.export("--checksum")
        finally:
            os.umask(old)
        for name, path in files_below(self.out).items():
            self.assertEqual(path.stat().st_mode & 0o777, 0o640, name)

    def test_quiet(self) -> None:
        result = self.export("-q")
        self.assertEqual((result.stdout, result.stderr), ("", ""))
        self.assertEqual(self.export().stdout.count("\n"), 1)

    def test_progress_on_a_terminal(self) -> None:
        """One line that is written again and goes away; none with -q."""
        large = self.root / "large"
        make_large(large, 1, 4, 1, 18, 1, 2, rows=512, columns=2048)
        for quiet in (False, True):
            words = [Settings.binary, "export", large / "src", self.root / f"out{quiet}",
                     "--src-strategy", large / "src.ckpt", "--dst-strategy", large / "dst.ckpt",
                     "--memory", "64K", "-j1", *(["-q"] if quiet else [])]
            shown = run_on_terminal([str(word) for word in words], self.root / f"out{quiet}")
            if quiet:
                self.assertEqual(shown, "")
            else:
                self.assertNotIn("\n", shown)
                self.assertTrue(shown.endswith("\r\x1b[K"), shown)
                self.assertRegex(shown, r"writing [0-9.]+ .iB/144\.0 MiB \(\d+%\), .*iB/s, .*rank_")

    def test_inside_the_source(self) -> None:
        self.out = self.made.source / "out"
        self.refused("inside the source")
        self.assertFalse(self.out.exists())
        self.out = self.root
        self.refused("inside the output directory")

    def test_a_url_that_has_lost_a_slash(self) -> None:
        """As pathlib.Path("s3://bucket/out") has."""
        before = os.getcwd()
        os.chdir(self.enterContext(scratch()))
        try:
            result = run("export", self.made.source, "s3:/bucket/out", *self.made.options())
            self.assertEqual(result.code, BAD_INPUT)
            self.assertRegex(one_line(result), "s3:/bucket/out: is a URL that has lost a slash; run: reshardfs "
                                               "export [^ ]+ s3://bucket/out ")
            self.assertEqual(os.listdir(), [])
            self.assertEqual(run("export", self.made.source, "./s3:/out", *self.made.options()).code, DONE)
            self.assertEqual(run("export", self.made.source, "s3:/out", *self.made.options()).code, DONE)
        finally:
            os.chdir(before)

    def test_no_directory(self) -> None:
        self.out.touch()
        self.refused("out", "directory")

    def test_foreign_file(self) -> None:
        path = self.out / "rank_1/checkpoint_1.ckpt"
        path.parent.mkdir(parents=True)
        path.write_text("precious")
        self.refused(str(path), "--force")
        self.assertEqual(path.read_text(), "precious")
        self.assertEqual(list(data_files(self.out)), ["rank_1/checkpoint_1.ckpt"])
        self.export("--force")
        self.assertNotEqual(path.read_bytes()[:8], b"precious")

    def test_other_options(self) -> None:
        self.export()
        self.refused("unmatched", "--force", options=("--unmatched", "source"))
        self.export("--unmatched", "source", "--force")

    def test_changed_source(self) -> None:
        self.export()
        path = self.made.source_files(2)[0]
        os.utime(path)
        self.refused(path.name, "modification time", "--force")

    def test_two_at_once(self) -> None:
        self.out.mkdir()
        fd = os.open(self.out, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            self.refused("another export")
        finally:
            os.close(fd)
        self.export()

    def test_wrong_options(self) -> None:
        for options in (("-j", "0"), ("-j", "x"), ("--memory", "much"), ("--memory", "-1"),
                        ("--views", "all"), ("surplus",), ("--no-such-option",)):
            with self.subTest(options):
                self.refused(options[-1], options=options)
        self.assertIn("OUTDIR", one_line(run("export", self.made.source)))
        self.assertEqual(run("export", self.made.source).code, BAD_INPUT)
        self.assertFalse(self.out.exists())

    def test_help_has_an_example(self) -> None:
        for command in ("export", "hash", "cat"):
            self.assertIn(f"  reshardfs {command} ckpt", run(command, "--help").stdout)


def run_on_terminal(words: list[str], out: Path) -> str:
    """What the program writes to standard error if that is a terminal. It stops when it has begun to write, until the
    time of its display has come."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=follower)
    os.close(follower)
    while process.poll() is None and not any(out.glob("rank_*/*")):
        pass
    process.send_signal(signal.SIGSTOP)
    time.sleep(DISPLAY_SECONDS)
    process.send_signal(signal.SIGCONT)
    shown = terminal_output(leader)
    if process.wait(COMMAND_SECONDS):
        raise AssertionError(f"exit code {process.returncode}: {shown!r}")
    return shown.decode()


class SingleFile(SmallSet):
    """The whole model under a name of its own."""

    def whole(self, name: str, *options: str | Path, code: int = DONE) -> Result:
        result = run("export", self.made.source, self.root / name, *self.made.options()[:2], *options)
        self.assertEqual(result.code, code, result.stderr)
        return result

    def test_has_what_the_merged_view_has(self) -> None:
        self.assertEqual(self.made.options()[0], "--src-strategy")
        for suffix in ("ckpt", "safetensors"):
            with self.subTest(suffix):
                result = self.whole(f"model.{suffix}")
                self.assertIn("1 file written", result.stdout)
                self.whole(f"out-{suffix}", "--views", "merged", "--format", suffix)
                merged = self.root / f"out-{suffix}/merged/checkpoint_merged.{suffix}"
                self.assertEqual((self.root / f"model.{suffix}").read_bytes(), merged.read_bytes())
        self.assertEqual(partial_files(self.root), [])
        self.assertFalse((self.root / MANIFEST).exists())

    def test_is_not_replaced_unasked(self) -> None:
        (self.root / "model.ckpt").write_text("mine")
        self.assertIn("already exists; --force", one_line(self.whole("model.ckpt", code=BAD_INPUT)))
        self.assertEqual((self.root / "model.ckpt").read_text(), "mine")
        self.whole("model.ckpt", "--force")
        self.assertGreater((self.root / "model.ckpt").stat().st_size, 1000)

    def test_a_directory_of_such_a_name_is_one(self) -> None:
        (self.root / "run.ckpt").mkdir()
        self.whole("run.ckpt")
        self.assertTrue((self.root / "run.ckpt" / MANIFEST).exists())

    def test_refuses_what_is_for_directories(self) -> None:
        for option in (("--views", "ranks"), ("--checksum",), ("--share", "1/2"), ("--ranks", "0"), ("--format", "ckpt"),
                       ("--dst-strategy", "tp=2")):
            with self.subTest(option):
                self.assertIn(f"{option[0]} is for a directory", one_line(self.whole("m.ckpt", *option, code=BAD_INPUT)))
        self.assertFalse((self.root / "m.ckpt").exists())

    def test_places_where_it_cannot_be(self) -> None:
        inside = run("export", self.made.source, self.made.source / "m.ckpt", *self.made.options()[:2])
        self.assertEqual(inside.code, BAD_INPUT)
        self.assertIn("inside the source", one_line(inside))
        self.assertNotEqual(self.whole("none/m.ckpt", code=BAD_INPUT).stderr, "")

    def test_leaves_nothing_where_the_disk_is_full(self) -> None:
        with small_disk(self.root / "small", "size=64k") as disk:
            with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
                while filler.write(bytes(4096)) > 0:
                    pass
            result = run("export", self.made.source, disk / "m.ckpt", *self.made.options()[:2])
            self.assertEqual(result.code, IO_ERROR)
            self.assertEqual([path.name for path in disk.iterdir()], ["filler"])


class Stopped(LargeSet):
    """Ended in any way, and continued."""

    def test_killed_at_random_points_and_resumed(self) -> None:
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        chance = random.Random(seed)
        early = 0
        longest = self.seconds
        for number in range(KILLS):
            process = start(*self.arguments())
            time.sleep(chance.uniform(0, longest))
            # How long one takes depends on what else the machine does.
            if process.poll() is None:
                early += 1
                longest *= 1.05
            else:
                longest *= 0.9
            process.kill()
            process.communicate()
            with self.subTest(number, seed=seed):
                if self.out.exists():
                    self.check_names()
                # Some are killed again before they are finished.
                if chance.random() < 0.6:
                    self.resume()
                    shutil.rmtree(self.out)
        self.resume()
        self.assertGreater(early, KILLS // 3, "most runs were over before they were killed")

    def stopped_by(self, number: signal.Signals) -> tuple[int, str]:
        process = start(*self.arguments(), "-j1", "--memory", "64K")
        wait_until(lambda: process.poll() is not None or
                   (self.out.exists() and bool(partial_files(self.out))))
        process.send_signal(number)
        _, complaint = process.communicate(timeout=COMMAND_SECONDS)
        return process.returncode, complaint.decode()

    def test_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                # It may have been finished before the signal came.
                for _ in range(10):
                    shutil.rmtree(self.out, ignore_errors=True)
                    code, complaint = self.stopped_by(number)
                    if code:
                        break
                self.assertEqual(code, 128 + number)
                self.assertEqual(complaint.count("\n"), 1)
                self.assertIn("interrupted", complaint)
                # What it had written of one file, and the sums of that.
                self.assertIn(len(partial_files(self.out)), (0, 2))
                self.check_names()
                self.resume()
                self.assertEqual(partial_files(self.out), [])

    def test_not_enough_space(self) -> None:
        with small_disk(self.directory / "disk", "size=20m") as disk:
            self.out = disk / "out"
            result = run(*self.arguments())
            self.assertEqual(result.code, IO_ERROR)
            line = one_line(result)
            for word in ("not enough space", "needed", "available"):
                self.assertIn(word, line)
            self.assertEqual(data_files(self.out), {})

    def test_disk_becomes_full(self) -> None:
        """There is just enough space at the start, but others take it."""
        needed = sum(path.stat().st_size for path in data_files(self.reference).values())
        with small_disk(self.directory / "disk", "size=60m") as disk:
            self.out = disk / "out"
            for _ in range(10):
                shutil.rmtree(self.out, ignore_errors=True)
                with open(disk / "others", "wb") as others:
                    space = os.statvfs(disk)
                    os.posix_fallocate(others.fileno(), 0,
                                       space.f_bavail * space.f_frsize - needed - (1 << 20))
                process = start(*self.arguments(), "-j1", "--memory", "64K")
                wait_until(lambda: self.out.exists() and bool(partial_files(self.out)))
                with open(disk / "others", "ab", buffering=0) as others, \
                        contextlib.suppress(OSError):
                    while others.write(b"x" * (1 << 20)):
                        pass
                _, complaint = process.communicate(timeout=COMMAND_SECONDS)
                if process.returncode:
                    break
                (disk / "others").unlink()
            self.assertEqual(process.returncode, IO_ERROR)
            self.assertIn("No space left", complaint.decode())
            self.assertEqual(complaint.count(b"\n"), 1)
            self.assertEqual(partial_files(self.out), [])
            self.check_names()
            (disk / "others").unlink()
            self.resume()

    def test_no_more_files(self) -> None:
        with small_disk(self.directory / "disk", "size=60m,nr_inodes=5") as disk:
            self.out = disk / "out"
            result = run(*self.arguments())
            self.assertEqual(result.code, IO_ERROR)
            self.assertIn("No space left", one_line(result))
            self.assertEqual(partial_files(self.out), [])

    def test_file_size_limit(self) -> None:
        """As the full disk, but for any user."""
        limit = 1 << 20
        done = subprocess.run(
            [str(word) for word in (Settings.binary, *self.arguments())], capture_output=True,
            text=True, timeout=COMMAND_SECONDS, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, IO_ERROR)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(partial_files(self.out), [])
        self.check_names()
        self.resume()

    def test_source_that_changes_meanwhile(self) -> None:
        source = self.directory / "src"
        shutil.copytree(self.root / "src", source)
        words: list[str | Path] = ["export", source, self.out, *self.words]
        for _ in range(100):  # until one is changed before it is read for the last time
            shutil.rmtree(self.out, ignore_errors=True)
            process = start(*words, "-j1", "--memory", "64K")
            wait_until(lambda: process.poll() is not None or
                       (self.out.exists() and bool(partial_files(self.out))))
            for path in source.glob("rank_*/*"):
                os.truncate(path, path.stat().st_size)
            _, complaint = process.communicate(timeout=COMMAND_SECONDS)
            if process.returncode:
                break
        self.assertEqual(process.returncode, IO_ERROR)
        self.assertIn("changed", complaint.decode())
        self.assertEqual(partial_files(self.out), [])


class Hash(SmallSet):
    def hash(self, *words: str, code: int = DONE) -> Result:
        result = run("hash", self.made.source, *words, *self.made.options())
        self.assertEqual(result.code, code, result.stderr)
        return result

    def test_is_what_sha256sum_says_of_the_export(self) -> None:
        views = ("--views", "ranks,merged,params,unified,strategy")
        self.export(*views)
        for jobs in ("1", "5"):
            lines = self.hash(*views, "-j", jobs).stdout.splitlines()
            got = {line[66:]: line[:64] for line in lines}
            self.assertEqual(got, {n: sha256(p) for n, p in data_files(self.out).items()})

    def test_rank_files_by_default_in_their_order(self) -> None:
        lines = self.hash().stdout.splitlines()
        self.assertEqual([line[64:] for line in lines],
                         ["  rank_0/checkpoint_0.ckpt", "  rank_1/checkpoint_1.ckpt"])

    def test_chosen_files(self) -> None:
        names = ["strategy/source.json", "./rank_1/checkpoint_1.ckpt", "merged/params.json"]
        lines = self.hash(*names).stdout.splitlines()
        self.assertEqual([line[66:] for line in lines],
                         [name.removeprefix("./") for name in names])

    def test_no_such_file(self) -> None:
        line = one_line(self.hash("rank_7/x.ckpt", code=BAD_INPUT))
        self.assertIn("rank_7/x.ckpt", line)
        self.assertIn("rank_0/checkpoint_0.ckpt", line)


class Cat(SmallSet):
    def cat(self, *words: str, code: int = DONE) -> bytes:
        done = subprocess.run(
            [str(Settings.binary), "cat", self.made.source, *self.made.options(), *words],
            capture_output=True, timeout=COMMAND_SECONDS, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            return done.stderr
        self.assertEqual(done.stderr, b"")
        return done.stdout

    def test_files(self) -> None:
        self.export("--views", "ranks,merged,params,unified,strategy")
        for name, path in data_files(self.out).items():
            self.assertEqual(self.cat(name), path.read_bytes(), name)

    def test_control_files(self) -> None:
        self.assertIn("ranks", json.loads(self.cat(".reshardfs/plan.json")))

    def test_parameters(self) -> None:
        for name, record in self.made.merged().items():
            if record.type == "str":
                self.assertIn(name.encode(), self.cat("--param", name, code=BAD_INPUT))
                continue
            self.assertEqual(self.cat("--param", name), record.content, name)
            array = np.load(io.BytesIO(self.cat("--param", name, "--npy")))
            self.assertEqual(array.tobytes(), record.content, name)
            self.assertEqual(array.shape, tuple(record.shape), name)

    def test_wrong_arguments(self) -> None:
        self.assertIn(b"nothing", self.cat("--param", "nothing", code=BAD_INPUT))
        self.assertIn(b"rank_9/x", self.cat("rank_9/x", code=BAD_INPUT))
        self.assertIn(b"--param", self.cat(code=BAD_INPUT))
        self.assertIn(b"--param", self.cat("rank_0/checkpoint_0.ckpt", "--npy", code=BAD_INPUT))
        self.assertIn(b"--param", self.cat("rank_0/checkpoint_0.ckpt", "--param", "x",
                                           code=BAD_INPUT))

    def test_terminal(self) -> None:
        leader, follower = pty.openpty()
        words = [str(Settings.binary), "cat", str(self.made.source), "rank_0/checkpoint_0.ckpt"]
        done = subprocess.run([*words, *self.made.options()], stdin=subprocess.DEVNULL,
                              stdout=follower, stderr=subprocess.PIPE, timeout=COMMAND_SECONDS,
                              check=False)
        os.close(follower)
        os.close(leader)
        self.assertEqual(done.returncode, BAD_INPUT)
        self.assertIn(b"terminal", done.stderr)

    def test_reader_that_goes_away(self) -> None:
        large = self.root / "large"
        make_large(large, 1, 4, 1, 18, 1, 2, rows=64, columns=1024)
        process = subprocess.Popen(
            [str(Settings.binary), "cat", large / "src", "rank_0/checkpoint_0.ckpt",
             "--src-strategy", large / "src.ckpt", "--dst-strategy", large / "dst.ckpt"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout and process.stderr
        self.assertEqual(len(process.stdout.read(100)), 100)
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
        self.assertEqual(process.wait(COMMAND_SECONDS), DONE)

    def test_full_disk(self) -> None:
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [str(Settings.binary), "cat", self.made.source, "merged/checkpoint_merged.ckpt",
                 *self.made.options()], stdout=full, stderr=subprocess.PIPE,
                timeout=COMMAND_SECONDS, check=False)
        self.assertEqual(done.returncode, IO_ERROR)
        self.assertIn(b"No space left", done.stderr)


if __name__ == "__main__":
    run_command_tests()
