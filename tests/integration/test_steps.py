# SPDX-License-Identifier: Apache-2.0
"""A mount of all steps of a set: which are shown, their bytes, and how they come and go."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from all_commands import ask, silent  # noqa: E402
from ckpt_format import by_name  # noqa: E402
from format_files import write_safetensors  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from mounted import (  # noqa: E402
    command,
    mounted,
    mountpoint_guard,
    one_line,
    processes_of,
    rank_files,
    run,
    run_unittests,
    scratch,
    wait_until,
)

SRC, DST = Parallel(tp=4), Parallel(tp=2)


@contextlib.contextmanager
def generated(*steps: str, seed: int = 0) -> Iterator[GeneratedSet]:
    with scratch() as directory:
        yield make_set(directory, SRC, DST, seed=seed, layers=1, steps=steps)


def contents(top: Path) -> dict[str, bytes]:
    files = (path for path in sorted(top.rglob("*")) if path.is_file())
    return {str(path.relative_to(top)): path.read_bytes() for path in files}


def of_one_step(made: GeneratedSet, step: str) -> dict[str, bytes]:
    with mounted(made.source, *made.options(), "--step", step) as mountpoint:
        return contents(mountpoint)


def move_to(source: Path, file: Path) -> None:
    """Puts a rank's file into another set, in one go."""
    target = source / file.parent.name / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    file.rename(target)


def steps_in(mountpoint: Path) -> list[str]:
    return sorted(os.listdir(mountpoint / "steps"))


def open_sources(mountpoint: Path, source: Path) -> list[str]:
    """The source files that the daemon has open."""
    (pid,) = processes_of(mountpoint)
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(fd)
            if target.startswith(f"{source}/"):
                found.append(target)
    return sorted(found)


class Steps(unittest.TestCase):
    def assert_soon(self, condition, message: str) -> None:
        self.assertTrue(wait_until(condition), message)

    def test_each_step_is_what_a_mount_of_it_alone_shows(self) -> None:
        with generated("9_50", "10_50") as made:
            expected = {step: of_one_step(made, step) for step in ("9_50", "10_50")}
            self.assertNotEqual(expected["9_50"], expected["10_50"])
            with mounted(made.source, *made.options(), "--step", "all") as mountpoint:
                self.assertEqual(sorted(os.listdir(mountpoint)), ["latest", "steps"])
                self.assertEqual(steps_in(mountpoint), ["10_50", "9_50"])
                self.assertEqual(sorted(os.listdir(mountpoint / ".reshardfs")),
                                 ["metrics", "ready", "status.json", "version"])
                status = json.loads((mountpoint / ".reshardfs/status.json").read_text())
                self.assertEqual((status["step"], status["source"]), ("all", str(made.source)))
                metrics = (mountpoint / ".reshardfs/metrics").read_text()
                self.assertIn("reshardfs_", metrics)
                status = json.loads((mountpoint / "steps/9_50/.reshardfs/status.json").read_text())
                self.assertEqual(status["step"], "9_50")
                for step, files in expected.items():
                    self.assertEqual(contents(mountpoint / "steps" / step), files, step)
                # Names sort the other way round; the newest is by number.
                self.assertEqual(os.readlink(mountpoint / "latest"), "steps/10_50")
                self.assertEqual(contents(mountpoint / "latest"), expected["10_50"])
                latest = rank_files(mountpoint / "latest")
                for rank, path in latest.items():
                    self.assertEqual(by_name(path.read_bytes()), made.expected(rank))

    def test_programs_follow_the_link_and_walk_the_tree(self) -> None:
        with generated("1_1", "1_2") as made, mounted(
            made.source, *made.options(), "--step", "all"
        ) as mountpoint:
            found = command("find", mountpoint, "-type", "f", "-name", "*_?.ckpt").splitlines()
            self.assertEqual(len(found), 2 * DST.rank_count)
            expected = of_one_step(made, "1_2")["rank_0/checkpoint_0.ckpt"]
            summed = command("md5sum", f"{mountpoint}/latest/rank_0/checkpoint_0.ckpt").split()[0]
            copy = made.directory / "copy"
            command("cp", "-r", f"{mountpoint}/latest/", copy)
            self.assertEqual((copy / "rank_0/checkpoint_0.ckpt").read_bytes(), expected)
            self.assertEqual(
                command("md5sum", copy / "rank_0/checkpoint_0.ckpt").split()[0], summed)
            # Programs that copy what is newer must see which step is.
            self.assertNotEqual(
                (mountpoint / "steps/1_1/rank_0").stat().st_mtime_ns,
                (mountpoint / "steps/1_2/rank_0").stat().st_mtime_ns)

    def test_a_step_appears_when_it_is_complete(self) -> None:
        with generated("1_1", "1_2") as made, generated("1_3", seed=7) as third, mounted(
            made.source, *made.options(), "--step", "all"
        ) as mountpoint:
            present = mountpoint / "steps/1_1/rank_0/checkpoint_0.ckpt"
            inode = present.stat().st_ino
            for rank in range(SRC.rank_count):
                (file,) = third.source_files(rank)
                target = made.source / f"rank_{rank}" / file.name
                temporary = target.with_name(target.name + ".tmp")
                shutil.copy(file, temporary)
                time.sleep(1.2)
                self.assertEqual(steps_in(mountpoint), ["1_1", "1_2"], f"{temporary} is written")
                self.assertFalse((mountpoint / "steps/1_3").exists())
                self.assertEqual(os.readlink(mountpoint / "latest"), "steps/1_2")
                temporary.rename(target)
            self.assert_soon(lambda: os.readlink(mountpoint / "latest") == "steps/1_3", "the link")
            self.assertEqual(steps_in(mountpoint), ["1_1", "1_2", "1_3"])
            self.assert_soon((mountpoint / "steps/1_3").exists, "the kernel remembers an absence")
            self.assertEqual(contents(mountpoint / "latest"), of_one_step(third, "1_3"))
            self.assertEqual(present.stat().st_ino, inode)

    def test_the_first_step_appears_when_all_ranks_of_the_strategy_have_it(self) -> None:
        """Nothing but the strategy says how many ranks there will be."""
        with generated("1_1") as made, scratch() as root:
            source = root / "src"
            first, *others = (made.source_files(rank)[0] for rank in range(SRC.rank_count))
            move_to(source, first)
            log = root / "log"
            with mounted(source, *made.options(), "--step", "all", "-v", "--log-file",
                         log) as mountpoint:
                for file in others:
                    time.sleep(1.2)
                    self.assertEqual(os.listdir(mountpoint / "steps"), [], f"{file} is missing")
                    self.assertFalse((mountpoint / "latest").is_symlink())
                    move_to(source, file)
                self.assert_soon(lambda: steps_in(mountpoint) == ["1_1"], "the step")
                for rank, path in rank_files(mountpoint / "latest").items():
                    self.assertEqual(by_name(path.read_bytes()), made.expected(rank))
            told = log.read_text().splitlines()
            self.assertEqual(sum("no step can be shown yet" in line for line in told), 1, told)
            # Once for each set of ranks that is too small, not with every look.
            found = [re.search(r"step 1_1 is not shown yet, because (ranks? \S+) ", line)
                     for line in told]
            self.assertEqual([match[1] for match in found if match],
                             ["ranks 1-3", "ranks 2,3", "rank 3"])

    def test_a_source_of_one_node_has_all_that_its_ranks_need(self) -> None:
        """Two of four ranks are here, and suffice for one of the two that are wanted."""
        with generated("1_1", "1_2") as made, scratch() as root:
            source = root / "src"
            for rank in (0, 1):
                for file in made.source_files(rank):
                    move_to(source, file)
            options = [*made.options(), "--step", "all"]
            with mounted(source, *options, "--ranks", "0") as mountpoint:
                self.assertEqual(steps_in(mountpoint), ["1_1", "1_2"])
                path = mountpoint / "latest/rank_0/checkpoint_0.ckpt"
                self.assertEqual(by_name(path.read_bytes()), made.expected(0))
            with mounted(source, *options) as mountpoint:
                self.assertEqual(os.listdir(mountpoint / "steps"), [])

    def test_replicas_stand_in_for_ranks_that_are_not_there(self) -> None:
        with scratch() as root:
            made = make_set(root, Parallel(dp=2, tp=2), DST, layers=1, steps=("1_1",))
            for rank in (1, 2):
                shutil.rmtree(made.source / f"rank_{rank}")
            with mounted(made.source, *made.options(), "--step", "all") as mountpoint:
                for rank, path in rank_files(mountpoint / "steps/1_1").items():
                    self.assertEqual(by_name(path.read_bytes()), made.expected(rank))

    def test_rules_say_how_many_ranks_there_are(self) -> None:
        with generated("1_1") as made, scratch() as root:
            source = root / "src"
            for rank in (0, 1):
                move_to(source, made.source_files(rank)[0])
            (root / "four.toml").write_text(
                '[devices]\naxes = ["d=2"]\nstages = 2\n\n[[rule]]\nmatch = "*"\ncut = ["d"]\n'
                "stage = 1\n")
            with mounted(source, "--step", "all") as mountpoint:
                self.assertEqual(steps_in(mountpoint), ["1_1"], "no strategy, no number")
            with mounted(source, "--step", "all", "--src-strategy", root / "four.toml",
                         "--log-file", root / "log") as mountpoint:
                # Rank 0 and 1 are of stage 0, and every parameter is in stage 1.
                self.assertEqual(steps_in(mountpoint), [])
                self.assertRegex((root / "log").read_text(),
                                 "no step can be shown yet: step 1_1: .*another pipeline stage")
            (root / "four.toml").write_text(
                '[devices]\naxes = ["d=4"]\n\n[[rule]]\nmatch = "*.wq.weight"\ncut = ["d"]\n'
                '\n[[rule]]\nmatch = "*"\n')
            with mounted(source, "--step", "all", "--src-strategy",
                         root / "four.toml") as mountpoint:
                self.assertEqual(os.listdir(mountpoint / "steps"), [])

    def test_an_open_file_of_a_deleted_step_stays_readable(self) -> None:
        with generated("1_1", "1_2") as made:
            expected = of_one_step(made, "1_1")["rank_1/checkpoint_1.ckpt"]
            with mounted(
                made.source, *made.options(), "--step", "all", "--direct-io"
            ) as mountpoint:
                with (mountpoint / "steps/1_1/rank_1/checkpoint_1.ckpt").open("rb") as file:
                    for rank in range(SRC.rank_count):
                        next((made.source / f"rank_{rank}").glob("*-1_1.ckpt")).unlink()
                    self.assert_soon(lambda: steps_in(mountpoint) == ["1_2"], "the step stays")
                    self.assertEqual(file.read(), expected)
                    self.assertNotEqual(open_sources(mountpoint, made.source), [])
                # With the last open file the source's space is given back.
                self.assert_soon(lambda: not open_sources(mountpoint, made.source), "files open")
                self.assert_soon(lambda: not (mountpoint / "steps/1_1").exists(), "a name stays")

    def test_a_step_that_was_deleted_gives_its_space_back(self) -> None:
        with generated("1_1", "1_2") as made, mounted(
            made.source, *made.options(), "--step", "all"
        ) as mountpoint:
            contents(mountpoint / "steps/1_1")
            self.assertEqual(len(open_sources(mountpoint, made.source)), SRC.rank_count)
            for rank in range(SRC.rank_count):
                next((made.source / f"rank_{rank}").glob("*-1_1.ckpt")).unlink()
            self.assert_soon(lambda: steps_in(mountpoint) == ["1_2"], "the step stays")
            self.assert_soon(lambda: not open_sources(mountpoint, made.source), "files stay open")

    def test_inodes_are_the_same_in_every_mount(self) -> None:
        def inodes(mountpoint: Path) -> dict[str, int]:
            return {str(path.relative_to(mountpoint)): path.lstat().st_ino
                    for path in mountpoint.rglob("*")}

        with generated("1_1", "1_2") as made:
            found = []
            for _ in range(2):
                with mounted(made.source, *made.options(), "--step", "all") as mountpoint:
                    found.append(inodes(mountpoint))
            self.assertEqual(found[0], found[1])
            self.assertEqual(len(set(found[0].values())), len(found[0]))

    def test_only_steps_that_are_looked_into_are_opened(self) -> None:
        names = tuple(f"1_{number}" for number in range(1, 51))
        with generated(*names) as made, scratch() as directory:
            mountpoint = directory / "mnt"
            mountpoint.mkdir()
            with mountpoint_guard(mountpoint):
                result = run("mount", made.source, mountpoint, *made.options(), "--step", "all")
                self.assertEqual(result.code, 0, result.stderr)
                self.assertEqual(len(steps_in(mountpoint)), 50)
                self.assertEqual(len(command("ls", "-l", mountpoint / "steps").splitlines()), 51)
                self.assertEqual(open_sources(mountpoint, made.source), [])
                rank_files(mountpoint / "steps/1_7")
                rank_files(mountpoint / "latest")
                opened = {Path(path).stem for path in open_sources(mountpoint, made.source)}
                self.assertEqual(opened, {"model-1_7", "model-1_50"})
                self.assertEqual(run("umount", mountpoint).code, 0)

    def test_a_damaged_step_is_not_shown_and_named_once(self) -> None:
        with generated("1_1", "1_2") as made, scratch() as directory:
            damaged = next((made.source / "rank_1").glob("*-1_1.ckpt"))
            damaged.write_bytes(damaged.read_bytes()[:-5])
            log = directory / "log"
            with mounted(
                made.source, *made.options(), "--step", "all", "--log-file", log
            ) as mountpoint:
                for _ in range(3):
                    self.assertEqual(steps_in(mountpoint), ["1_2"])
                self.assertEqual(contents(mountpoint / "steps/1_2"), of_one_step(made, "1_2"))
            told = [line for line in log.read_text().splitlines() if "step 1_1" in line]
            self.assertEqual(len(told), 1, told)
            self.assertIn(str(damaged), told[0])


class Trackers(unittest.TestCase):
    """verl writes the file of Megatron-LM that names the last step, beside its own directories."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.run = self.root / "run"
        for step in (10, 20):
            write_safetensors(self.run / f"global_step_{step}/actor/model.safetensors",
                              {"w": ("F32", np.full(2, step, "<f4"))})

    def tracked(self, text: str) -> None:
        (self.run / "latest_checkpointed_iteration.txt").write_text(text)

    def test_the_step_that_it_names_is_the_last(self) -> None:
        self.tracked("0000010\n")
        result = run("inspect", self.run, "-v")
        self.assertIn("step 10 (steps found: 10, 20)", result.stdout)
        result = run("plan", self.run, "-v")
        self.assertIn("newer than the step that latest_checkpointed_iteration.txt names, and perhaps not complete: 20",
                      result.stderr)
        self.assertIn("(steps found: 10, 20)", run("inspect", self.run, "--step", "20").stdout)

    def test_one_that_is_not_there_is_refused(self) -> None:
        for text, words in (("30", "names step '30', but that directory does not exist; available: 10, 20"),
                            ("", "should name the last step, but has ''")):
            self.tracked(text)
            self.assertEqual(silent(self.run, self.root, words), {})
            self.assertEqual(ask("plan", self.run, self.root).code, 2)
            self.assertEqual(ask("plan", self.run, self.root, "--step", "20").code, 0)


class Refusals(unittest.TestCase):
    def refused(self, made: GeneratedSet, *options: str | Path) -> str:
        with scratch() as mountpoint, mountpoint_guard(mountpoint):
            result = run("mount", made.source, mountpoint, "--step", "all", *options)
            self.assertEqual(result.code, 2, result.stderr)
            return one_line(result)

    def test_names_without_steps(self) -> None:
        with generated("1_1") as made:
            for path in made.source.rglob("*.ckpt"):
                path.rename(path.with_name("model.ckpt"))
            self.assertIn("carry no steps", self.refused(made, *made.options()))

    def test_a_strategy_that_is_not_there(self) -> None:
        with generated("1_1") as made:
            missing = made.directory / "missing.ckpt"
            self.assertIn("missing.ckpt", self.refused(made, "--src-strategy", missing))

    def test_only_a_mount_has_all_steps(self) -> None:
        with generated("1_1", "1_2") as made:
            for command_line in (["plan", made.source, *made.options()], ["inspect", made.source]):
                result = run(*command_line, "--step", "all")
                self.assertEqual(result.code, 2)
                for words in ("'--step all' is for 'reshardfs mount' alone", "1_1, 1_2, or latest"):
                    self.assertIn(words, one_line(result))


if __name__ == "__main__":
    run_unittests()
