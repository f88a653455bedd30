# SPDX-License-Identifier: Apache-2.0
"""Wrong mount points, options and commands: exit code 2 (3 for the operating system's errors), one
line that says what is wrong, nothing left behind."""

from __future__ import annotations

import re
from pathlib import Path

# First, because it finds the modules of tests/data.
from refusals import WEIGHT, Refusals, Word

from ckpt_format import by_name
from make_checkpoint import destination_records
from mounted import (
    is_mounted,
    mounted,
    processes_of,
    rank_files,
    run,
    run_unittests,
)
from strategy_files import read_strategy, write_protobuf


class BadMountpoint(Refusals):
    def at(self, mountpoint: Path, *words: Word, extra: tuple[str, ...] = ()) -> None:
        arguments = ["mount", self.made.source, mountpoint, *self.strategies(), *extra]
        self.refused_words(arguments, *words)
        self.assertFalse(is_mounted(mountpoint))
        self.assertEqual(processes_of(mountpoint), [])

    def test_missing(self) -> None:
        self.at(self.made.directory / "nowhere", "nowhere")

    def test_no_directory(self) -> None:
        path = self.made.directory / "file"
        path.touch()
        self.at(path, str(path), "directory")

    def test_not_empty(self) -> None:
        (self.mountpoint / "content").touch()
        self.at(self.mountpoint, str(self.mountpoint), "--nonempty")
        words = ["mount", self.made.source, self.mountpoint, *self.strategies(), "--nonempty"]
        result = run(*words)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(sorted(rank_files(self.mountpoint)), [0, 1])
        self.assertEqual(run("umount", self.mountpoint).code, 0)
        self.assertTrue((self.mountpoint / "content").exists())

    def test_inside_the_source(self) -> None:
        inside = self.made.source / "mnt"
        inside.mkdir()
        self.at(inside, str(inside))

    def test_the_source_itself(self) -> None:
        self.at(self.made.source, str(self.made.source), extra=("--nonempty",))

    def test_source_inside_the_mount_point(self) -> None:
        self.at(self.made.directory, str(self.made.directory), extra=("--nonempty",))

    def test_through_a_symbolic_link(self) -> None:
        inside = self.made.source / "mnt"
        inside.mkdir()
        link = self.made.directory / "link"
        link.symlink_to(inside)
        self.at(link, (str(link), str(inside)))
        self.assertFalse(is_mounted(inside))

    def test_dead_mount(self) -> None:
        """What a killed daemon has left must be unmounted first; any hint must be right."""
        with self.dead_mount() as dead:
            for mountpoint in (dead, dead / "rank_0"):
                with self.subTest(mountpoint.relative_to(dead.parent)):
                    words = ["mount", self.made.source, mountpoint, *self.strategies()]
                    line = self.refused_words(words, str(mountpoint))
                    for path in re.findall(r"(?:umount|fusermount3 -u) (/\S+)", line):
                        self.assertEqual(path, str(dead), "this would not unmount it")

    def test_source_inside_a_mount_of_itself(self) -> None:
        """A daemon that reads what it serves itself cannot even be killed."""
        with mounted(self.made.source, *self.strategies()) as live:
            words = ["mount", live, live, "--src-strategy", self.made.dst_strategy]
            self.refused_words(words, str(live))
            words = ["mount", self.made.source, live / "rank_0", *self.strategies()]
            self.refused_words(words, "rank_0")
            self.assertEqual(len(processes_of(live)), 1)
            self.assertEqual(by_name(rank_files(live)[0].read_bytes()), self.made.expected(0))

    def test_view_of_a_view(self) -> None:
        """A mount is a source like any other, as long as it lies elsewhere."""
        with mounted(self.made.source, *self.strategies()) as first:
            back = self.strategies(src=self.made.dst_strategy, dst=self.made.src_strategy)
            with mounted(first, *back) as second:
                for rank, path in rank_files(second).items():
                    records = destination_records(self.made.model, self.SRC, rank)
                    self.assertEqual(by_name(path.read_bytes()), {r.name: r for r in records})


class BadCommandLine(Refusals):
    """The message names the option, the value or the command."""

    def with_options(self, *options: str, words: tuple[Word, ...] = ()) -> None:
        self.refused(*words, options=[*self.strategies(), *options])

    def test_unknown_option(self) -> None:
        self.with_options("--no-such-option", words=("--no-such-option",))

    def test_unknown_command(self) -> None:
        self.refused_words(["mout", self.made.source, self.mountpoint], "mout")

    def test_no_command(self) -> None:
        self.refused_words([])

    def test_missing_arguments(self) -> None:
        self.refused_words(["mount"])
        self.refused_words(["mount", self.made.source])

    def test_too_many_arguments(self) -> None:
        self.refused_words(["mount", self.made.source, self.mountpoint, "surplus"], "surplus")

    def test_option_without_its_value(self) -> None:
        self.refused("--src-strategy", options=["--src-strategy"])

    def test_missing_source(self) -> None:
        source = self.made.directory / "nothing"
        self.refused_words(["mount", source, self.mountpoint, *self.strategies()], str(source))

    def test_bad_rank_lists(self) -> None:
        huge = "9" * 20
        for ranks in ("x", "0-", "-1", "1-0", "0,,1", "0-1-2", "0;1", huge, "1.5", "0x1"):
            with self.subTest(ranks):
                self.with_options(f"--ranks={ranks}", words=(("--ranks", f"'{ranks}'"),))

    def test_rank_outside(self) -> None:
        self.with_options("--ranks", "0-1,7", words=("7",))
        plan = ["plan", self.made.source, *self.strategies(), "--rank"]
        self.refused_words([*plan, "2"], "2")
        self.refused_words([*plan, "-1"], "--rank", "-1 is not a rank")
        self.refused_words([*plan, "x"], "x")

    def test_bad_values(self) -> None:
        for option, value in (
            ("--unmatched", "sometimes"),
            ("--step", "abc"),
            ("--src-pattern", "no_rank/*.ckpt"),
        ):
            with self.subTest(option):
                self.with_options(option, value, words=((option, value),))

    def test_bad_prefix(self) -> None:
        for prefix in ("a/b", "../x", "x\ny", "p" * 300):
            with self.subTest(prefix):
                self.with_options("--prefix", prefix)

    def test_include_that_leaves_nothing(self) -> None:
        self.with_options("--include", "no.such.name", words=(("--include", "no.such.name"),))

    def test_unmount_what_is_not_mounted(self) -> None:
        for path in (self.mountpoint, Path("/proc"), self.made.directory / "nowhere"):
            with self.subTest(path):
                self.refused_words(["umount", path], str(path))

    def test_unmatched_error(self) -> None:
        path = self.made.directory / "less.ckpt"
        strategy = read_strategy(self.made.dst_strategy)
        del strategy.stages[0][WEIGHT]
        write_protobuf(strategy, path)
        self.refused(WEIGHT, options=[*self.strategies(dst=path), "--unmatched", "error"])


class InputOutputErrors(Refusals):
    """The only failures with exit code 3."""

    def test_source_on_a_dead_mount(self) -> None:
        with self.dead_mount() as dead:
            words = ["mount", dead, self.mountpoint, "--src-strategy", self.made.dst_strategy]
            self.refused_words(words, str(dead), code=3)

    def test_strategy_on_a_dead_mount(self) -> None:
        with self.dead_mount() as dead:
            self.refused(str(dead), options=self.strategies(src=dead / "strategy.ckpt"), code=3)


if __name__ == "__main__":
    run_unittests()
