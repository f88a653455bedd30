# SPDX-License-Identifier: Apache-2.0
"""export --share: processes that know nothing of each other export one conversion, are killed and run
again, in any order and several at once, and leave what one process would have written."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# First, because it finds the modules of tests/data.
from export_tests import (
    BAD_INPUT,
    DONE,
    IO_ERROR,
    MANIFEST,
    SmallSet,
    files_below,
    partial_files,
    start,
)
from share_tests import TASKS, SharedExport, environment, results

from command_tests import run_command_tests
from make_checkpoint import Parallel, make_set
from mounted import COMMAND_SECONDS, Result, Settings, one_line, run, scratch, wait_until

MANIFESTS = ".reshardfs-export.{}-of-{}.jsonl"


class Shares(SmallSet):
    """Four ranks to eight, all in shares."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.made = make_set(self.root, Parallel(tp=4), Parallel(tp=8), layers=2, seed=6)
        self.out = self.root / "out"
        self.whole = self.root / "whole"

    def export_whole(self, *options: str) -> dict[str, str]:
        shutil.rmtree(self.whole, ignore_errors=True)
        result = run("export", self.made.source, self.whole, *self.made.options(), "--checksum", *options)
        self.assertEqual(result.code, DONE, result.stderr)
        return results(self.whole)

    def share(self, index: int, count: int, *options: str, code: int = DONE) -> Result:
        return self.export("--share", f"{index}/{count}", *options, code=code)

    def check_same_as_whole(self, *options: str) -> None:
        self.assertEqual(results(self.out), self.export_whole(*options))
        self.assertEqual(partial_files(self.out), [])

    def test_any_number_of_shares_in_any_order(self) -> None:
        expected = self.export_whole()
        for count in (1, 2, 3, 8, 13):
            with self.subTest(count):
                shutil.rmtree(self.out, ignore_errors=True)
                order = random.sample(range(count), count)
                for number, index in enumerate(order, 1):
                    self.assertFalse((self.out / "SHA256SUMS").exists())
                    said = self.share(index, count).stdout.splitlines()
                    self.assertEqual(len(said), 2)
                    self.assertRegex(said[0], rf"^share {index}/{count}: (no files|ranks? [-0-9,]+, .*)$")
                    self.assertRegex(said[1], rf"^share {index}/{count}: .* written to .*; " + (
                        "all shares are complete, see SHA256SUMS" if number == count else
                        r"share \d+/\d+ is not complete yet") + "$")
                self.assertEqual(results(self.out), expected)

    def test_all_views(self) -> None:
        views = ("--views", "ranks,merged,params,unified,iteration,strategy", "--params", "--format",
                 "ckpt,safetensors")
        for index in (2, 0, 1):
            self.share(index, 3, *views)
        self.check_same_as_whole(*views)

    def test_done_again_changes_nothing(self) -> None:
        for index in range(3):
            self.share(index, 3)
        times = {name: path.stat().st_mtime_ns for name, path in files_below(self.out).items()}
        for index in (1, 0, 2):
            self.assertRegex(self.share(index, 3).stdout, "0 B of 0 files written .* checked; all shares")
            self.assertEqual(times, {name: path.stat().st_mtime_ns
                                     for name, path in files_below(self.out).items()})

    def test_is_a_checkpoint_like_any_other(self) -> None:
        for index in range(4):
            self.share(index, 4)
        self.check_sums(8)
        result = run("verify", self.out, "--src-strategy", self.made.dst_strategy, "--against",
                     self.out / "SHA256SUMS")
        self.assertEqual(result.code, DONE, result.stdout + result.stderr)

    def test_whole_export_goes_on(self) -> None:
        """With what shares of any number have written, complete or not."""
        self.share(0, 2)
        (self.out / "rank_1/checkpoint_1.ckpt").unlink()
        result = self.export("--checksum")
        self.assertIn("of 5 files written", result.stdout)
        self.assertIn("3 files were there already, checked", result.stdout)
        self.check_same_as_whole()
        self.share(1, 2)
        self.share(0, 2)
        self.check_same_as_whole()
        result = self.export("--checksum")
        self.assertIn("8 files were there already, checked", result.stdout)

    def test_goes_on_with_a_whole_export(self) -> None:
        self.export("--ranks", "0-2", "--views", "ranks,strategy", "--checksum")
        files = len(results(self.out)) - 1
        for index in range(2):
            self.share(index, 2)
        # What was there beside the shares is still known.
        self.check_sums(files + 5)
        self.export("--views", "ranks,strategy", "--checksum")
        self.check_same_as_whole("--views", "ranks,strategy")

    def test_a_file_that_was_lost(self) -> None:
        for index in range(4):
            self.share(index, 4)
        (self.out / "rank_3/checkpoint_3.ckpt").unlink()
        (self.out / "SHA256SUMS").unlink()
        self.assertIn("share 1/4 is not complete", self.share(0, 4).stdout)
        self.assertFalse((self.out / "SHA256SUMS").exists())
        self.assertIn("all shares are complete", self.share(1, 4).stdout)
        self.check_same_as_whole()

    def test_another_number_of_shares(self) -> None:
        self.share(0, 4)
        self.refused("in 4 shares", "--share I/4", "--force", options=("--share", "0/2"))
        for index in range(2):
            self.share(index, 2, "--force")
        self.check_same_as_whole()

    def test_another_conversion(self) -> None:
        self.share(0, 4)
        # Whichever share it is, and where there are none.
        for index in (0, 3):
            self.refused("different: crc", "--force", options=("--share", f"{index}/4", "--crc"))
        self.refused("different: crc", "--force", options=("--crc",))
        self.assertFalse((self.out / MANIFESTS.format(3, 4)).exists())
        for index in range(4):
            self.share(index, 4, "--crc", "--force")
        self.check_same_as_whole("--crc")
        self.export("--force")
        self.refused("different: crc", options=("--share", "0/4", "--crc"))
        self.share(0, 4, "--crc", "--force")
        self.assertFalse((self.out / MANIFEST).exists())

    def test_other_files(self) -> None:
        self.share(0, 2)
        for index in range(2):
            self.refused("other files", "--ranks", "--force",
                         options=("--share", f"{index}/2", "--ranks", "0-3"))

    def test_sums_of_something_else(self) -> None:
        self.out.mkdir()
        (self.out / "SHA256SUMS").write_text("mine")
        self.refused("SHA256SUMS", "already exists", "--force", options=("--share", "0/2"))
        self.assertEqual((self.out / "SHA256SUMS").read_text(), "mine")
        self.share(0, 2, "--force")
        # Whoever waits for the sums is not told that all is done.
        self.assertFalse((self.out / "SHA256SUMS").exists())
        self.share(1, 2, "--force")
        self.check_same_as_whole()

    def test_all_at_once(self) -> None:
        """Some end at the same time: the sums are written by at least one of them."""
        expected = self.export_whole()
        for _ in range(10):
            shutil.rmtree(self.out, ignore_errors=True)
            processes = [start("export", self.made.source, self.out, *self.made.options(), "--share",
                               f"{index}/8", "-j1") for index in range(8)]
            for process in processes:
                _, complaint = process.communicate(timeout=COMMAND_SECONDS)
                self.assertEqual((process.returncode, complaint), (DONE, b""))
            self.assertEqual(results(self.out), expected)
            self.assertEqual(partial_files(self.out), [])

    def test_quiet(self) -> None:
        result = self.share(0, 2, "-q")
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def test_links_in_the_place_of_manifests(self) -> None:
        """As with any export, nothing is written through them."""
        victim = self.root / "victim"
        victim.write_text("precious")
        self.out.mkdir()
        for name in (MANIFESTS.format(0, 2), MANIFESTS.format(1, 2), MANIFEST):
            (self.out / name).symlink_to(victim)
            for options in ((), ("--force",)):
                if options and name == MANIFESTS.format(1, 2):
                    continue  # which is another process's then
                self.refused(name, "symbolic link", options=("--share", "0/2", *options))
            (self.out / name).unlink()
            (self.out / MANIFESTS.format(0, 2)).unlink(missing_ok=True)
        self.assertEqual(victim.read_text(), "precious")

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT) if not path.is_dir() else os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def test_locks(self) -> None:
        """One process for each share, and none for all of them meanwhile."""
        self.out.mkdir()
        with self.locked(self.out):
            self.refused("another export", options=("--share", "0/2"))
        with self.locked(self.out / MANIFESTS.format(0, 2)):
            self.refused("another process is writing share 0/2", options=("--share", "0/2"))
            self.share(1, 2)
            # Directories cannot be locked everywhere.
            self.refused("another export is writing here")
            self.refused("another export is writing here", options=("--share", "0/3", "--force"))
        with self.locked(self.out / MANIFEST):
            self.refused("another export is writing here", options=("--share", "0/2"))
        (self.out / MANIFEST).unlink()
        self.share(0, 2)
        self.check_same_as_whole()


class Auto(SmallSet):
    """What the variables of a cluster's tasks stand for; unit tests have the rest."""

    def auto(self, code: int = DONE, **variables: str) -> str:
        words = [Settings.binary, "export", self.made.source, self.out, *self.made.options(),
                 "--share", "auto"]
        done = subprocess.run([str(word) for word in words], env=environment(**variables),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=COMMAND_SECONDS, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else done.stdout

    def test_variables(self) -> None:
        slurm = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
        array = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "1",
                 "SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2",
                 "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "1"}
        for variables, name in (
                (slurm, "SLURM_PROCID"), (array, "SLURM_ARRAY_TASK_ID"),
                ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1"},
                 "OMPI_COMM_WORLD_RANK"),
                ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "PMI_RANK")):
            self.assertIn(f"share 1/2 ({name}): rank 1, ", self.auto(**variables))

    def test_refused(self) -> None:
        self.assertIn("--share I/N", self.auto(BAD_INPUT))
        self.assertIn("srun", self.auto(BAD_INPUT, SLURM_JOB_ID="1", SLURM_PROCID="0",
                                        SLURM_NTASKS="4"))
        self.assertIn("number of tasks", self.auto(BAD_INPUT, PMIX_RANK="1"))
        self.assertFalse(self.out.exists())

    def test_counted_from_0(self) -> None:
        self.refused("no share 2/2", "counted from 0", "1/2", options=("--share", "2/2"))
        for text in ("2", "1/2/3", "1/0", "all"):
            self.refused("--share", options=("--share", text))


class Killed(SharedExport):
    """Processes of 64 ranks' shares, killed while they write."""

    def task(self, index: int) -> list[str]:
        return [word if word != "auto" else f"{index}/{TASKS}" for word in self.export()]

    def started(self, index: int) -> subprocess.Popen[bytes]:
        """One that has begun to write; it may have ended."""
        process = start(*self.task(index)[1:])
        descriptors = Path(f"/proc/{process.pid}/fd")

        def writes() -> bool:
            try:
                return any("partial" in os.readlink(link) for link in descriptors.iterdir())
            except OSError:
                return False

        wait_until(lambda: process.poll() is not None or writes())
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        _, complaint = process.communicate(timeout=COMMAND_SECONDS)
        return process.returncode, complaint.decode()

    def test_each_once(self) -> None:
        processes = [self.started(index) for index in range(TASKS)]
        for process in processes:
            process.kill()
        self.assertIn(-signal.SIGKILL, [self.finish(process)[0] for process in processes])
        self.assertTrue(partial_files(self.out))
        self.assertFalse((self.out / "SHA256SUMS").exists())
        for index in range(TASKS):
            self.assertEqual(self.finish(start(*self.task(index)[1:])), (DONE, ""))
        self.check_complete()

    def test_whole_export_removes_what_they_have_left(self) -> None:
        for index in range(TASKS):
            process = self.started(index)
            process.kill()
            self.finish(process)
        self.assertTrue(partial_files(self.out))
        result = run(*self.words[:2], self.out, *self.words[2:], "--checksum")
        self.assertEqual(result.code, DONE, result.stderr)
        self.check_complete()

    def forget_lock(self, index: int) -> None:
        """As on a file system where one node does not see the locks of another."""
        path = self.out / MANIFESTS.format(index, TASKS)
        copy = self.directory / "copy"
        shutil.copyfile(path, copy)
        copy.rename(path)

    def test_old_task_that_lives_on_beside_the_new_one(self) -> None:
        """Stopped in the midst of a file, and continued when the new one is done."""
        for index in range(TASKS):
            old = self.started(index)
            old.send_signal(signal.SIGSTOP)  # unless it has ended
            self.forget_lock(index)
            try:
                self.assertEqual(self.finish(start(*self.task(index)[1:])), (DONE, ""))
            finally:
                old.send_signal(signal.SIGCONT)
            code, complaint = self.finish(old)
            # Its file is gone, or it had been complete.
            self.assertIn(code, (DONE, IO_ERROR), complaint)
            if code:
                self.assertIn("another process has removed the partial file", complaint)
        self.check_complete()

    def test_old_task_of_another_conversion(self) -> None:
        """It stops before it mixes its files with those of the new one."""
        for _ in range(10):  # until one is stopped in the midst
            shutil.rmtree(self.out, ignore_errors=True)
            old = self.started(1)
            old.send_signal(signal.SIGSTOP)  # unless it has ended
            if old.poll() is None:
                break
        self.forget_lock(1)
        shared = [*self.words[:2], self.out, *self.words[2:], "--crc", "--force"]
        for index in range(TASKS):
            result = run(*shared, "--share", f"{index}/{TASKS}")
            self.assertEqual(result.code, DONE, result.stderr)
        before = results(self.out)
        old.send_signal(signal.SIGCONT)
        code, complaint = self.finish(old)
        # It sees the other conversion, or first that its file has been taken away.
        words = {BAD_INPUT: "another export has begun",
                 IO_ERROR: "another process has removed the partial file"}
        self.assertIn(code, words, complaint)
        self.assertEqual(complaint.count("\n"), 1, complaint)
        self.assertIn(words[code], complaint)
        self.assertEqual(results(self.out), before)
        self.assertEqual(partial_files(self.out), [])

    def test_two_writers_of_each_share(self) -> None:
        """Neither knows of the other: whoever is last leaves the right files."""
        for _ in range(3):
            shutil.rmtree(self.out, ignore_errors=True)
            for index in range(TASKS):
                old = self.started(index)
                self.forget_lock(index)
                new = start(*self.task(index)[1:])
                for process in (old, new):
                    code, complaint = self.finish(process)
                    self.assertTrue(code == DONE or process is old, complaint)
            self.check_complete()


if __name__ == "__main__":
    run_command_tests()
