# SPDX-License-Identifier: Apache-2.0
"""Several runs, models and breakpoints in one directory: never mixed, and the user's choice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import by_name  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from mounted import (  # noqa: E402
    mounted,
    mountpoint_guard,
    one_line,
    rank_files,
    run,
    run_unittests,
    scratch,
    wait_until,
)
from web_server import serving  # noqa: E402

SRC, DST = Parallel(tp=2), Parallel(tp=1)
HOUR = 3600


@contextlib.contextmanager
def two_runs(steps: tuple[str, ...] = ("1_1",)) -> Iterator[tuple[GeneratedSet, GeneratedSet]]:
    """Of the same model with other values. The first one's directory gets the files of both."""
    with scratch() as directory:
        (directory / "a").mkdir()
        (directory / "b").mkdir()
        first = make_set(directory / "a", SRC, DST, seed=1, layers=1, steps=steps)
        second = make_set(directory / "b", SRC, DST, seed=2, layers=1, steps=steps)
        yield first, second


def add_run(to: Path, made: GeneratedSet, prefix: str, ranks: tuple[int, ...] = (0, 1)) -> None:
    for rank in ranks:
        for file in made.source_files(rank):
            name = prefix.replace("{rank}", str(rank)) + file.name[len("model"):]
            target = to / f"rank_{rank}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)


class Series(unittest.TestCase):
    def assert_shows(self, mountpoint: Path, made: GeneratedSet) -> None:
        (path,) = rank_files(mountpoint).values()
        self.assertEqual(by_name(path.read_bytes()), made.expected(0))

    def refused(self, *words: str | Path, says: tuple[str, ...] = (), code: int = 2) -> str:
        result = run(*words)
        self.assertEqual(result.code, code, result.stderr)
        line = one_line(result) if words[0] != "inspect" else result.stderr
        for word in says:
            self.assertIn(word, line)
        return line

    def test_every_command_asks_which(self) -> None:
        with two_runs() as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net")
            add_run(source, second, "net_1")
            says = ("2 runs or models", "--src-prefix net (step 1_1 of 2",
                    "--src-prefix net_1 (step 1_1 of 2", "on ranks 0,1")
            target = first.directory / "mnt"
            target.mkdir()
            with mountpoint_guard(target):
                self.refused("mount", source, target, *first.options(), says=says)
                self.refused("mount", source, target, *first.options(), "--step", "all", says=says)
            out = first.directory / "out"
            options = first.options()
            self.refused("export", source, out, *options, says=says)
            self.assertFalse(out.exists() and any(out.iterdir()))
            self.refused("plan", source, *options, says=says)
            self.refused("report", source, *options, "-O", first.directory / "r.html", says=says)
            self.refused("hash", source, *options, says=says)
            self.refused("cat", source, "rank_0/checkpoint_0.ckpt", *options, says=says)
            self.refused("inspect", source, says=says)
            self.refused("verify", source, "--src-strategy", first.src_strategy, says=says)
            self.refused("strategy", "guess", source, says=says)
            of_diff = tuple(word.replace("--src-prefix", "--b-prefix") for word in says)
            self.refused("diff", first.source, source, "--a-strategy", first.src_strategy,
                         "--b-strategy", first.src_strategy, says=of_diff)

    def test_the_chosen_one_is_shown(self) -> None:
        with two_runs() as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net")
            add_run(source, second, "net_1")
            for prefix, made in (("net", first), ("net_1", second)):
                with self.subTest(prefix=prefix):
                    chosen = ("--src-prefix", prefix)
                    with mounted(source, *made.options(), *chosen) as mountpoint:
                        self.assert_shows(mountpoint, made)
                    out = first.directory / f"out-{prefix}"
                    self.assertEqual(run("export", source, out, *made.options(), *chosen).code, 0)
                    self.assert_shows(out, made)
                    result = run("verify", source, "--src-strategy", made.src_strategy, *chosen)
                    self.assertEqual(result.code, 0, result.stdout + result.stderr)
                    result = run("diff", made.source, source, "--a-strategy", made.src_strategy,
                                 "--b-strategy", made.src_strategy, "--b-prefix", prefix)
                    self.assertEqual(result.code, 0, result.stdout + result.stderr)
            result = run("inspect", source, "--src-prefix", "net_2")
            self.assertEqual(result.code, 2)
            self.assertIn("available: ", result.stderr)

    def test_what_is_suggested_works(self) -> None:
        with two_runs() as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net rank_{rank}")
            add_run(source, second, "net rank_{rank}_1")
            line = self.refused("plan", source, *first.options())
            self.assertIn("--src-prefix 'net rank_{rank}_1'", line)
            result = run("plan", source, *first.options(), "--src-prefix", "net rank_{rank}_1")
            self.assertEqual(result.code, 0, result.stderr)

    def test_halves_of_two_runs_are_no_set(self) -> None:
        """The case that passed for a good set: each rank has one file of the step."""
        with two_runs() as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net", ranks=(0,))
            add_run(source, second, "net_1", ranks=(1,))
            strategy = ("--src-strategy", first.src_strategy)
            self.refused("verify", source, *strategy, says=("--src-prefix net (", "on rank 0"))
            result = run("verify", source, *strategy, "--src-prefix", "net_1")
            self.assertEqual(result.code, 1, result.stdout + result.stderr)
            self.assertIn("rank 0", result.stdout)
            self.refused("plan", source, *first.options(), "--src-prefix", "net",
                         says=("rank 1",))

    def test_inspect_lists_them(self) -> None:
        with two_runs(("1_1", "1_2")) as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net")
            add_run(source, second, "net_1", ranks=(1,))
            breakpoint_file = source / "rank_0/net-2_1_breakpoint.ckpt"
            shutil.copy(source / "rank_0/net-1_1.ckpt", breakpoint_file)
            os.utime(breakpoint_file, (0, 1_000_000_000))
            result = run("inspect", source)
            self.assertEqual(result.code, 2)
            lines = [line.split() for line in result.stdout.splitlines()]
            self.assertIn(["net_1", "1_1,", "1_2", lines[1][3] if lines[1][0] == "net_1" else
                           lines[2][3], "1"], lines)
            self.assertIn(["net_breakpoint", "2_1", "2001-09-09T01:46:40Z", "0"], lines)
            listed = json.loads(run("inspect", source, "--json").stdout)["series"]
            self.assertEqual({series["prefix"]: (series["steps"], series["ranks"],
                                                 series["breakpoint"]) for series in listed},
                             {"net": (["1_1", "1_2"], [0, 1], False),
                              "net_1": (["1_1", "1_2"], [1], False),
                              "net_breakpoint": (["2_1"], [0], True)})

    def test_a_breakpoint_is_named(self) -> None:
        with two_runs() as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net")
            for rank in (0, 1):
                (file,) = second.source_files(rank)
                shutil.copy(file, source / f"rank_{rank}/net-1_3_breakpoint.ckpt")
            for command in (("inspect", source), ("plan", source, *first.options()),
                            ("verify", source, "--src-strategy", first.src_strategy)):
                result = run(*command)
                self.assertEqual(result.code, 0, result.stderr)
                self.assertIn("net-1_3_breakpoint.ckpt", result.stdout + result.stderr)
                self.assertIn("--src-prefix net_breakpoint", result.stdout + result.stderr)
            with mounted(source, *first.options()) as mountpoint:
                self.assert_shows(mountpoint, first)
            with mounted(source, *first.options(), "--src-prefix", "net_breakpoint") as mountpoint:
                self.assert_shows(mountpoint, second)

    def test_a_mount_of_all_steps_keeps_to_its_run(self) -> None:
        with two_runs(("1_1", "1_2")) as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net")
            later = first.directory / "later"
            add_run(later, second, "net_1")
            for file in list(source.rglob("*-1_2.ckpt")):
                target = later / "net" / file.parent.name
                target.mkdir(parents=True, exist_ok=True)
                file.rename(target / file.name)
            with mounted(source, *first.options(), "--step", "all") as mountpoint:
                self.assertEqual(os.listdir(mountpoint / "steps"), ["1_1"])
                for file in list(later.glob("rank_*/*")):
                    file.rename(source / file.parent.name / file.name)
                for file in list((later / "net").glob("rank_*/*")):
                    file.rename(source / file.parent.name / file.name)
                self.assertTrue(wait_until(
                    lambda: sorted(os.listdir(mountpoint / "steps")) == ["1_1", "1_2"]))
                self.assertTrue(wait_until((mountpoint / "steps/1_2").exists))
                self.assert_shows(mountpoint / "steps/1_2", first)
                result = run("reload", mountpoint)
                self.assertEqual(result.code, 0, result.stderr)
                self.assert_shows(mountpoint / "latest", first)
            with mounted(source, *first.options(), "--step", "all", "--src-prefix",
                         "net_1") as mountpoint:
                self.assert_shows(mountpoint / "latest", second)

    def test_a_mount_reloads_with_its_run(self) -> None:
        with two_runs() as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net")
            with mounted(source, *first.options()) as mountpoint:
                add_run(source, second, "net_1")
                result = run("reload", mountpoint)
                self.assertEqual(result.code, 0, result.stderr)
                self.assert_shows(mountpoint, first)

    def test_from_a_server(self) -> None:
        with two_runs() as (first, second):
            source = first.directory / "both"
            add_run(source, first, "net")
            add_run(source, second, "net_1")
            with serving(first.directory) as server:
                url = f"{server.url}/both"
                self.refused("plan", url, *first.options(),
                             says=("--src-prefix net (step 1_1", "--src-prefix net_1 (step 1_1"))
                with mounted(url, *first.options(), "--src-prefix", "net_1") as mountpoint:
                    self.assert_shows(mountpoint, second)

    def test_a_prefix_for_what_has_none(self) -> None:
        with two_runs() as (first, _):
            (file,) = first.source_files(0)
            self.refused("inspect", file, "--src-prefix", "model", says=("one file", "leave it out"))
            out = first.directory / "dcp"
            result = run("export", first.source, out, *first.options(), "--views", "dcp")
            self.assertEqual(result.code, 0, result.stderr)
            self.refused("inspect", out / "dcp", "--src-prefix", "model", says=("leave it out",))

    def test_random_directories(self) -> None:
        """Each series that inspect lists has exactly the files of one run."""
        rng = random.Random(34)
        with two_runs() as (first, _):
            (some,) = first.source_files(0)
            for number in range(12):
                source = first.directory / f"random{number}"
                truth: dict[str, set[int]] = {}
                for rank in range(3):
                    for run_number in range(3):
                        if rng.random() < 0.4:
                            continue
                        name = "net" + (f"_{run_number}" if run_number else "")
                        target = source / f"rank_{rank}" / f"{name}-1_1.ckpt"
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy(some, target)
                        truth.setdefault(name, set()).add(rank)
                if not truth:
                    continue
                result = run("inspect", source, "--json")
                if len(truth) == 1:
                    self.assertEqual(result.code, 0, result.stderr)
                    continue
                self.assertEqual(result.code, 2, (truth, result.stderr))
                listed = json.loads(result.stdout)["series"]
                self.assertEqual({series["prefix"]: set(series["ranks"]) for series in listed},
                                 truth)
                for name, ranks in truth.items():
                    shown = json.loads(
                        run("inspect", source, "--json", "--src-prefix", name).stdout)
                    self.assertEqual({file["rank"] for file in shown["files"]}, ranks)
                    for file in shown["files"]:
                        self.assertTrue(file["path"].endswith(f"/{name}-1_1.ckpt"), file)


class Age(unittest.TestCase):
    @contextlib.contextmanager
    def exported(self, view: str) -> Iterator[Path]:
        # A set of one device has no table.
        with scratch() as directory:
            made = make_set(directory, SRC, SRC, seed=1, layers=1, steps=("1_1",))
            out = directory / "out"
            result = run("export", made.source, out, *made.options(), "--views", view)
            self.assertEqual(result.code, 0, result.stderr)
            yield out

    def warned(self, source: Path) -> str:
        found = [run(*command, source) for command in (("inspect",), ("verify",))]
        for result in found:
            self.assertEqual(result.code, 0, result.stderr)
        warnings = ["is newer than" in result.stdout + result.stderr for result in found]
        self.assertEqual(warnings[0], warnings[1], found)
        return found[0].stderr if warnings[0] else ""

    def test_data_newer_than_the_table_is_named(self) -> None:
        with self.exported("dcp") as out:
            source = out / "dcp"
            data = sorted(source.glob("*.distcp"))
            table = source / ".metadata"
            os.utime(table, (HOUR, 10 * HOUR))
            for file in data:
                os.utime(file, (HOUR, 10 * HOUR - 5))
            self.assertEqual(self.warned(source), "")
            os.utime(data[-1], (HOUR, 10 * HOUR + 30))
            self.assertEqual(self.warned(source), "", "as a copy makes it")
            os.utime(data[-1], (HOUR, 11 * HOUR))
            line = self.warned(source)
            self.assertIn(data[-1].name, line)
            self.assertIn(".metadata", line)

    def test_of_checkpoint_2(self) -> None:
        with self.exported("iteration") as out:
            (step,) = out.rglob("iteration_*")
            for file in out.rglob("*"):
                os.utime(file, (HOUR, 10 * HOUR))
            tracker = step.parent / "latest_checkpointed_iteration.txt"
            self.assertEqual(self.warned(step.parent), "")
            (data, *_) = sorted(step.glob("*.safetensors"))
            os.utime(data, (HOUR, 11 * HOUR))
            self.assertIn(data.name, self.warned(step))
            for file in step.iterdir():
                os.utime(file, (HOUR, 11 * HOUR))
            self.assertEqual(self.warned(step), "")
            self.assertTrue(tracker.exists())
            self.assertIn(tracker.name, self.warned(step.parent))


if __name__ == "__main__":
    run_unittests()
