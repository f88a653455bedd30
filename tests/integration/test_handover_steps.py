# SPDX-License-Identifier: Apache-2.0
"""Mounts of all steps that pass from one process to another."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, encode_checkpoint  # noqa: E402
from faulty_source import forget_pages  # noqa: E402
from handover_place import FILE, Place, place, run_handover_tests, unmounted_at_end  # noqa: E402
from mounted import run, wait_until  # noqa: E402


def data_of(step: int) -> bytes:
    return encode_checkpoint([Record("w", "UInt8", (1 << 20,), bytes([step % 251]) * (1 << 20))])


class Steps:
    def __init__(self, made: Place) -> None:
        self.place = made
        self.source = made.directory / "job"
        (self.source / "rank_0").mkdir(parents=True)
        self.steps = made.mountpoint / "steps"

    def save(self, step: int) -> None:
        new = self.source / "rank_0/new"
        new.write_bytes(data_of(step))
        new.rename(self.source / f"rank_0/m-1_{step}.ckpt")

    def delete(self, step: int) -> None:
        (self.source / f"rank_0/m-1_{step}.ckpt").unlink()

    def file(self, step: int) -> Path:
        return self.steps / f"1_{step}" / FILE

    def names(self) -> list[str]:
        return sorted(os.listdir(self.steps))

    def shows(self, *steps: int) -> bool:
        return wait_until(lambda: self.names() == sorted(f"1_{step}" for step in steps))

    def kill(self) -> None:
        before = self.place.pid()
        os.kill(before, signal.SIGKILL)
        assert wait_until(lambda: self.place.pid() != before)

    def kept_open(self, source: Path) -> bool:
        """By the process of the mount."""
        for link in Path(f"/proc/{self.place.pid()}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(link) == str(source):
                    return True
        return False


@contextlib.contextmanager
def all_steps(*options: str, steps: tuple[int, ...] = (10, 20)) -> Iterator[Steps]:
    with place() as made:
        job = Steps(made)
        for step in steps:
            job.save(step)
        result = made.run("mount", job.source, made.mountpoint, "--step", "all", "--log-file",
                          made.log_file, *options)
        assert result.code == 0, result.stderr
        with unmounted_at_end(made):
            yield job


class AllSteps(unittest.TestCase):
    def change(self, job: Steps, way: str) -> None:
        if way == "reload":
            job.place.reload()
        else:
            job.kill()

    def test_go_on_with_files_and_directories_that_are_open(self) -> None:
        for way in ("reload", "kill"):
            with self.subTest(way=way), all_steps("--supervise") as job:
                inode = job.file(10).stat().st_ino
                with open(job.file(10), "rb", buffering=0) as file, os.scandir(job.file(20).parent) as names:
                    for step in (30, 40):
                        self.change(job, way)
                        forget_pages(job.file(10))
                        self.assertEqual(os.pread(file.fileno(), 1 << 21, 0), data_of(10))
                        self.assertEqual(job.file(10).stat().st_ino, inode)
                        job.save(step)
                        self.assertTrue(wait_until(lambda: f"1_{step}" in job.names()))
                        self.assertEqual(job.file(step).read_bytes(), data_of(step))
                    self.assertEqual({entry.name for entry in names}, {Path(FILE).name})
                self.assertEqual(os.readlink(job.place.mountpoint / "latest"), "steps/1_40")
                self.assertEqual(job.file(20).read_bytes(), data_of(20))

    def test_a_step_that_is_gone_and_open(self) -> None:
        with all_steps("--supervise") as job:
            with open(job.file(10), "rb", buffering=0) as file:
                self.assertEqual(os.pread(file.fileno(), 10, 0), data_of(10)[:10])
                job.delete(10)
                self.assertTrue(job.shows(20))
                told = job.place.reload(code=3)
                self.assertIn("step 1_10", told)
                self.assertIn("close them first", told)
                forget_pages(job.place.mountpoint)
                self.assertEqual(os.pread(file.fileno(), 1 << 21, 0), data_of(10))
                # Its source cannot be opened again: a crash loses it, and nothing else.
                job.kill()
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                with self.assertRaises(OSError):
                    os.pread(file.fileno(), 1 << 21, 0)
                self.assertEqual(job.file(20).read_bytes(), data_of(20))
            job.place.reload()
            self.assertTrue(job.shows(20))

    def test_a_step_that_is_hidden_is_dropped_with_its_last_file(self) -> None:
        with all_steps("--supervise") as job:
            link, kept = job.source / "rank_0/m-1_5.ckpt", job.place.directory / "kept.ckpt"
            kept.write_bytes(data_of(5))
            link.symlink_to(kept)
            self.assertTrue(job.shows(5, 10, 20))
            with open(job.file(5), "rb", buffering=0) as file:
                link.unlink()
                self.assertTrue(job.shows(10, 20))
                link.symlink_to(kept)
                self.assertTrue(job.shows(5, 10, 20))
                self.assertNotEqual(job.file(5).stat().st_ino, os.fstat(file.fileno()).st_ino)
                for way in ("reload", "kill", "reload"):
                    self.change(job, way)
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    self.assertEqual(os.pread(file.fileno(), 1 << 21, 0), data_of(5))
                    self.assertEqual(job.file(5).read_bytes(), data_of(5))
                link.unlink()
                self.assertTrue(job.shows(10, 20))
                self.assertEqual(job.kept_open(kept), True)
            self.assertTrue(wait_until(lambda: not job.kept_open(kept)), "its source stays open")

    def test_a_step_that_is_replaced_meanwhile_is_another_one(self) -> None:
        with all_steps("--supervise") as job:
            inode = job.file(10).stat().st_ino
            job.delete(10)
            job.save(30)
            shutil.copy(job.source / "rank_0/m-1_30.ckpt", job.source / "rank_0/m-1_10.ckpt")
            job.kill()
            self.assertTrue(wait_until(lambda: job.names() == ["1_10", "1_20", "1_30"]))
            # Until the new process has looked into it, names lead to what is there no more.
            self.assertTrue(wait_until(lambda: self.is_now(job.file(10), data_of(30))))
            self.assertNotEqual(job.file(10).stat().st_ino, inode)

    def is_now(self, path: Path, data: bytes) -> bool:
        try:
            self.assertEqual(path.read_bytes(), data)
        except OSError as error:
            self.assertEqual(error.errno, errno.ESTALE)
            return False
        return True

    def test_a_listing_of_steps_goes_on_after_an_upgrade(self) -> None:
        # More than one request's worth.
        steps = tuple(range(1, 400))
        with all_steps(steps=steps) as job:
            self.assertTrue(job.shows(*steps))
            with os.scandir(job.steps) as entries:
                seen = [next(entries).name]
                job.delete(399)
                job.place.reload()
                seen += [entry.name for entry in entries]
            self.assertEqual(sorted(seen), sorted(f"1_{step}" for step in steps))
            self.assertTrue(job.shows(*steps[:-1]))

    def test_other_contents_are_refused(self) -> None:
        with all_steps() as job:
            config = job.place.directory / "config.toml"
            config.write_text(f'[mount.m]\nsource = "{job.source}"\nmountpoint = "{job.place.directory / "m2"}"\n'
                              'step = "all"\n')
            (job.place.directory / "m2").mkdir()
            self.assertEqual(job.place.run("mount", "--config", config, "m").code, 0)
            try:
                config.write_text(config.read_text() + 'cast = ["w=float16"]\nformat = ["safetensors"]\n')
                for options in ([], ["--replace"]):
                    result = run("reload", job.place.directory / "m2", *options)
                    self.assertEqual(result.code, 3)
                    self.assertIn("unmount, and mount again", result.stderr)
            finally:
                self.assertEqual(run("umount", job.place.directory / "m2").code, 0)

    def test_permissions(self) -> None:
        with place() as made:
            job = Steps(made)
            job.save(10)
            config = made.directory / "config.toml"
            text = f'[mount.m]\nsource = "{job.source}"\nmountpoint = "{made.mountpoint}"\nstep = "all"\n'
            config.write_text(text)
            self.assertEqual(made.run("mount", "--config", config, "m").code, 0)
            self.assertEqual(job.file(10).stat().st_mode & 0o777, 0o444)
            config.write_text(text + 'file-mode = "0400"\nuid = 5\n')
            made.reload()
            for path in (job.file(10), made.mountpoint / ".reshardfs/status.json"):
                self.assertEqual((path.stat().st_mode & 0o777, path.stat().st_uid), (0o400, 5))
            self.assertEqual(job.steps.stat().st_uid, 5)
            self.assertEqual(run("umount", made.mountpoint).code, 0)


if __name__ == "__main__":
    run_handover_tests()
