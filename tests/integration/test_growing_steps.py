# SPDX-License-Identifier: Apache-2.0
"""Steps that are being saved while all steps are mounted, and sets that grow while a mount waits for them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from incomplete_sets import GOLDEN_DCP, INDEX, model, write_counted
from meta_sets import whole_model, write_release
from mounted import Settings, is_mounted, mounted, mountpoint_guard, run, run_unittests, scratch, wait_until

import numpy as np
from format_files import Tensors, write_safetensors
from torch_archive import stored, write_archive

MERGED = "merged/checkpoint_merged.safetensors"
LONG = 60.0


def numbered(step: int) -> Tensors:
    """A model that no other step has."""
    return {name: (kind, array + np.float32(step)) for name, (kind, array) in model().items()}


def one_file(directory: Path, step: int) -> None:
    directory.mkdir(parents=True)
    write_safetensors(directory / "model.safetensors", numbered(step), {"format": "pt"})


def indexed(directory: Path, step: int) -> None:
    directory.mkdir(parents=True)
    write_counted(directory, numbered(step), 3)


def counted(directory: Path, step: int) -> None:
    directory.mkdir(parents=True)
    write_counted(directory, numbered(step), 3, index=False)


def meta(directory: Path, step: int) -> None:
    write_release(directory, {name: array + np.float32(step) for name, array in whole_model().items()}, 2)


def table(directory: Path, step: int) -> None:
    shutil.copytree(GOLDEN_DCP / ("rows4_113" if step % 20 else "grid4_113") / "src", directory)


def one_archive(directory: Path, step: int) -> None:
    directory.mkdir(parents=True)
    write_archive(directory / "pytorch_model.bin",
                  {name: stored(array) for name, (_, array) in numbered(step).items()})


@dataclass(frozen=True)
class Kind:
    """How a job saves a step, and which of its files it has written when it is looked at: some, and one in part."""
    write: Callable[[Path, int], None]
    whole: tuple[str, ...] = ()
    part: str = ""
    name: str = "checkpoint-{}"


KINDS = {
    "a file that grows": Kind(one_file, part="model.safetensors"),
    "an archive that grows": Kind(one_archive, part="pytorch_model.bin"),
    "nothing but a directory": Kind(one_file),
    "an index first": Kind(indexed, (INDEX, "model-00001-of-00003.safetensors")),
    "files that count each other": Kind(counted, ("model-00001-of-00003.safetensors",)),
    "the first of two files": Kind(meta, ("consolidated.00.pth",)),
    "a release without its sizes": Kind(meta, ("consolidated.00.pth", "consolidated.01.pth")),
    "a table first": Kind(table, (".metadata", "__0_0.distcp"), "__1_0.distcp", "step-{}"),
}


def merged(directory: Path) -> bytes:
    """What a set shows by itself."""
    with scratch() as place:
        result = run("export", directory, place / "model.safetensors")
        assert result.code == 0, result.stderr
        return (place / "model.safetensors").read_bytes()


def read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def files_of(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


class Job:
    """Saves steps of one kind into a run's directory, each first elsewhere."""

    def __init__(self, root: Path, kind: Kind) -> None:
        self.root, self.kind, self.run = root, kind, root / "run"
        self.expected: dict[int, bytes] = {}
        self.run.mkdir()

    def place(self, step: int) -> Path:
        return self.run / self.kind.name.format(step)

    def make(self, step: int) -> Path:
        made = self.root / f"made-{step}"
        self.kind.write(made, step)
        self.expected[step] = merged(made)
        return made

    def save(self, step: int) -> None:
        self.make(step).rename(self.place(step))

    def begin(self, step: int) -> None:
        made, place = self.make(step), self.place(step)
        place.mkdir()
        for name in self.kind.whole:
            shutil.copy(made / name, place / name)
        if self.kind.part:
            content = (made / self.kind.part).read_bytes()
            (place / self.kind.part).write_bytes(content[:len(content) // 2])

    def finish(self, step: int) -> None:
        made, place = self.root / f"made-{step}", self.place(step)
        for name in files_of(made):
            shutil.copy(made / name, place / name)


class Steps(unittest.TestCase):
    mountpoint: Path

    def listed(self) -> list[int]:
        return sorted(map(int, os.listdir(self.mountpoint / "steps")))

    def assert_soon(self, condition: Callable[[], bool], message: str) -> None:
        self.assertTrue(wait_until(condition, LONG), message)

    def assert_shown(self, job: Job, step: int) -> None:
        path = self.mountpoint / "steps" / str(step) / MERGED
        self.assert_soon(lambda: read(path) == job.expected[step], f"step {step} is not shown as it is")

    @contextlib.contextmanager
    def job(self, kind: Kind, *options: str | Path) -> Iterator[Job]:
        with scratch() as root:
            job = Job(root, kind)
            job.save(10)
            log = root / "log"
            with mounted(job.run, "--step", "all", "--views", "merged", "--log-file", log, *options) as self.mountpoint:
                self.assert_shown(job, 10)
                yield job

    def test_a_step_is_shown_once_it_is_whole(self) -> None:
        for what, kind in KINDS.items():
            with self.subTest(what), self.job(kind) as job:
                job.begin(40)
                # Who has looked at this one has looked at the newer one, too.
                job.save(20)
                self.assert_soon(lambda: 20 in self.listed(), "step 20")
                self.assertEqual(self.listed(), [10, 20])
                self.assertEqual(os.readlink(self.mountpoint / "latest"), "steps/20")
                job.finish(40)
                self.assert_soon(lambda: os.readlink(self.mountpoint / "latest") == "steps/40", "latest")
                self.assert_shown(job, 40)
                self.assertEqual(self.listed(), [10, 20, 40])

    def test_what_is_there_from_the_start_is_judged_as_well(self) -> None:
        for what, kind in KINDS.items():
            with self.subTest(what), scratch() as root:
                job = Job(root, kind)
                job.begin(10)
                job.save(20)
                log = root / "log"
                with mounted(job.run, "--step", "all", "--views", "merged", "--log-file", log) as self.mountpoint:
                    self.assertEqual(self.listed(), [20])
                    self.assert_shown(job, 20)
                lines = [line for line in log.read_text().splitlines() if "step 10 is not shown" in line]
                self.assertEqual(len(lines), 1 if kind.whole or kind.part else 0, log.read_text())

    def save_again(self, job: Job, how: str) -> None:
        place = job.place(20)
        shutil.rmtree(job.root / "made-20", ignore_errors=True)
        made = job.root / "made-20"
        one_file(made, 77)
        job.expected[20] = merged(made)
        if how == "renamed":
            place.rename(job.root / "old")
            made.rename(place)
        elif how == "deleted":
            shutil.rmtree(place)
            shutil.copytree(made, place)
        else:
            with open(place / "model.safetensors", "r+b") as file:
                file.write((made / "model.safetensors").read_bytes())

    def test_a_step_that_is_saved_again_is_taken_anew(self) -> None:
        for how in ("renamed", "deleted", "in place"):
            for options in ((), ("--direct-io",)):
                with self.subTest(how=how, options=options), self.job(Kind(one_file), *options) as job:
                    job.save(20)
                    self.assert_shown(job, 20)
                    old = job.expected[20]
                    with open(self.mountpoint / "steps/20" / MERGED, "rb", buffering=0) as file:
                        self.save_again(job, how)
                        self.assertNotEqual(job.expected[20], old)
                        self.assert_shown(job, 20)
                        # Who has the old one open gets its bytes, or an error.
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                        with contextlib.suppress(OSError):
                            self.assertEqual(file.read(), old)
                    self.assert_shown(job, 10)
                    self.assertEqual(self.listed(), [10, 20])

    def test_a_step_that_is_cut_short_is_hidden_until_it_is_whole_again(self) -> None:
        with self.job(Kind(one_file)) as job:
            job.save(20)
            self.assert_shown(job, 20)
            file = job.place(20) / "model.safetensors"
            content = file.read_bytes()
            file.write_bytes(content[:-10])
            self.assert_soon(lambda: self.listed() == [10], "step 20 stays")
            self.assertEqual(os.readlink(self.mountpoint / "latest"), "steps/10")
            file.write_bytes(content)
            self.assert_soon(lambda: self.listed() == [10, 20], "step 20 does not come back")
            self.assert_shown(job, 20)


def name_map(directory: Path, step: int) -> None:
    directory.mkdir(parents=True)
    tensors = numbered(step)
    names = {name: f"part{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(names.values()):
        write_safetensors(directory / file, {name: tensors[name] for name in tensors if names[name] == file})
    (directory / "param_name_map.json").write_text(str(names).replace("'", '"'))


class Waiting(unittest.TestCase):
    def test_a_mount_waits_while_its_source_grows(self) -> None:
        kinds = KINDS | {"a map without a byte": Kind(name_map, ("part0.safetensors", "part1.safetensors"),
                                                      "param_name_map.json")}
        for what, kind in kinds.items():
            with self.subTest(what), scratch() as root, contextlib.ExitStack() as stack:
                job = Job(root, kind)
                job.begin(10)
                if what == "a map without a byte":
                    (job.place(10) / kind.part).write_bytes(b"")
                mountpoint = root / "mnt"
                mountpoint.mkdir()
                stack.enter_context(mountpoint_guard(mountpoint))
                said = stack.enter_context(open(root / "said", "w+b"))
                process = subprocess.Popen(
                    [Settings.binary, "mount", job.place(10), mountpoint, "--views", "merged", "--wait-for-source",
                     "5m"], stdin=subprocess.DEVNULL, stdout=said, stderr=said)
                stack.callback(process.wait)
                stack.callback(process.kill)

                def words(file: Path = root / "said") -> str:
                    return file.read_text()

                self.assertTrue(wait_until(lambda: "waiting" in words() or process.poll() is not None, LONG))
                self.assertIsNone(process.poll(), words())
                self.assertFalse(is_mounted(mountpoint))
                job.finish(10)
                self.assertEqual(process.wait(LONG), 0, words())
                self.assertEqual((mountpoint / MERGED).read_bytes(), job.expected[10])
                self.assertEqual(run("umount", mountpoint).code, 0)


if __name__ == "__main__":
    run_unittests()
