# SPDX-License-Identifier: Apache-2.0
"""Ranks that should hold the same and do not: data parallel training with batch normalisation, whose
statistics are each rank's own, and strategies of other checkpoints."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import unittest
from collections.abc import Iterator
from pathlib import Path

# First, because it finds the modules of tests/data.
from test_scenarios import ROWS, Tensors, layouts, random_tensors, write_ranks

import numpy as np
from ckpt_format import by_name, record_of
from faulty_source import KEEPS_NOTHING, FaultFs, faulty, run_unittests_with_faults
from mounted import Result, errno_name, mounted, one_line, run, scratch
from strategy_files import Strategy, write_protobuf

RANKS = 8
OWN = ("bn1.moving_mean", "bn1.moving_variance")
EIGHT = '[devices]\naxes = ["dp=8"]\n\n[[rule]]\nmatch = "*"\n'


class DataParallel(unittest.TestCase):
    """As LuoJiaNet's guide saves a resnet50: ckpt_<rank>/, everything on every rank."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.shared = random_tensors({"conv1.weight": (64, 3, 7, 7), "bn1.gamma": (64,),
                                      "fc.weight": (100, 64)})
        self.own = [random_tensors(dict.fromkeys(OWN, (64,)), 10 + rank) for rank in range(RANKS)]
        self.source = write_ranks(self.root / "src", {
            f"ckpt_{rank}/resnet-1_20.ckpt": [record_of(name, "Float32", array) for name, array
                                              in (self.shared | self.own[rank]).items()]
            for rank in range(RANKS)})
        (self.root / "dp8.toml").write_text(EIGHT)
        self.dp8 = ("--dst-strategy", self.root / "dp8.toml")

    def read(self, path: Path) -> Tensors:
        return {name: record.array() for name, record in by_name(path.read_bytes()).items()}

    def assert_tensors(self, path: Path, expected: Tensors) -> None:
        found = self.read(path)
        self.assertEqual(set(found), set(expected))
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, name)

    def run_on(self, command: str, *words: str | Path) -> Result:
        return run(command, self.source, *words)

    def refused(self, code: int, *arguments: str | Path, words: tuple[str, ...]) -> None:
        result = self.run_on(*arguments)
        self.assertEqual((result.code, result.stdout), (code, ""), result.stderr)
        for word in words:
            self.assertIn(word, one_line(result))

    def test_the_refusal_names_both_readings(self) -> None:
        self.refused(2, "hash", words=(
            "bn1.moving_mean", "rank 0 and rank 1", "its own values", "a slice",
            "1 more parameter", "--replicas first", "--replicas own", "--src-strategy", "--exclude"))
        self.refused(2, "hash", "--replicas", "same", words=("bn1.moving_mean",))
        self.refused(2, "hash", "--src-strategy", self.root / "dp8.toml", words=(
            "bn1.moving_mean", "the strategy belongs to another checkpoint, or replicas have "
            "drifted; 'reshardfs verify' compares all of them", "--replicas first"))

    def test_what_is_left_out_is_not_compared(self) -> None:
        for words in (("--exclude", "*moving*"), ("--include", "conv*", "--include", "fc*")):
            with mounted(self.source, *words) as mountpoint:
                found = self.read(mountpoint / "merged/checkpoint_merged.ckpt")
                np.testing.assert_array_equal(found["fc.weight"], self.shared["fc.weight"])
                self.assertFalse(set(found) & set(OWN))

    def test_first(self) -> None:
        expected = self.shared | self.own[0]
        for words in ((), self.dp8, ("--src-strategy", self.root / "dp8.toml", *self.dp8)):
            with mounted(self.source, "--replicas", "first", *words) as mountpoint:
                self.assert_tensors(mountpoint / "merged/checkpoint_merged.ckpt", expected)
                for rank in (0, 7) if words else (0,):
                    self.assert_tensors(
                        mountpoint / f"rank_{rank}/checkpoint_{rank}.ckpt", expected)
        result = self.run_on("hash", "--replicas", "first")
        self.assertEqual(result.code, 0)
        self.assertIn("2 parameters (bn1.moving_mean, bn1.moving_variance)", one_line(result))
        result = self.run_on("hash", "--replicas", "first", "--exclude", "*moving*")
        self.assertEqual((result.code, result.stderr), (0, ""))

    def test_own(self) -> None:
        for strategy in ((), ("--src-strategy", self.root / "dp8.toml")):
            with mounted(self.source, *self.dp8, *strategy, "--replicas", "own") as mountpoint:
                self.assertFalse((mountpoint / "merged").exists())
                self.assertFalse((mountpoint / "unified").exists())
                for rank in range(RANKS):
                    self.assert_tensors(mountpoint / f"rank_{rank}/checkpoint_{rank}.ckpt",
                                        self.shared | self.own[rank])
        result = self.run_on("plan", *self.dp8, "--replicas", "own", "--rank", "5")
        self.assertEqual(result.stdout.split(), ["5"])

    def test_own_is_refused_where_there_is_none(self) -> None:
        own = ("--replicas", "own")
        self.refused(2, "hash", *own, words=("8", "1", "--replicas own"))
        (self.root / "dp4.toml").write_text(EIGHT.replace("8", "4"))
        self.refused(2, "hash", *own, "--dst-strategy", self.root / "dp4.toml", words=("8", "4"))
        for view in ("merged", "unified", "params"):
            self.refused(2, "hash", *own, *self.dp8, "--views", view, words=(view, "own"))
        (self.source / "ckpt_3/resnet-1_20.ckpt").unlink()
        self.refused(2, "hash", *own, *self.dp8, words=("rank 3",))
        result = self.run_on("hash", *own, *self.dp8, "--ranks", "0-2,4-7")
        self.assertEqual(result.code, 0, result.stderr)

    def test_own_needs_slices_as_they_are(self) -> None:
        """What is cut anew has no rank of its own; that is wrong only where ranks differ."""
        (self.root / "tp.toml").write_text(
            '[devices]\naxes = ["tp=8"]\n\n[[rule]]\nmatch = "*moving*"\ncut = ["tp"]\n')
        self.refused(2, "hash", "--replicas", "own", "--dst-strategy", self.root / "tp.toml",
                     words=("bn1.moving_mean", "target rank 0"))
        text = (self.root / "tp.toml").read_text().replace("*moving*", "bn1.gamma")
        (self.root / "tp.toml").write_text(text)
        with mounted(self.source, "--replicas", "own", "--dst-strategy",
                     self.root / "tp.toml") as mountpoint:
            expected = self.shared | self.own[2] | {"bn1.gamma": self.shared["bn1.gamma"][16:24]}
            self.assert_tensors(mountpoint / "rank_2/checkpoint_2.ckpt", expected)

    def test_statistics_that_a_strategy_does_not_list(self) -> None:
        src = Strategy([layouts((RANKS,), {"fc.weight": ((), ()), "bn1.gamma": ((),),
                                           "conv1.weight": ((), (), (), ())})])
        write_protobuf(src, self.root / "src.ckpt")
        strategies = ("--src-strategy", self.root / "src.ckpt", "--dst-strategy",
                      self.root / "src.ckpt")
        self.refused(2, "hash", *strategies, words=(
            "moving_mean", "moving_variance", "its own values", "a slice", "--replicas first",
            "--replicas own", "--exclude"))
        with mounted(self.source, *strategies, "--replicas", "own") as mountpoint:
            for rank in (0, 6):
                self.assert_tensors(mountpoint / f"rank_{rank}/checkpoint_{rank}.ckpt",
                                    self.shared | self.own[rank])
        with mounted(self.source, *strategies, "--replicas", "first") as mountpoint:
            self.assert_tensors(mountpoint / "rank_6/checkpoint_6.ckpt",
                                self.shared | self.own[0])

    def test_verify(self) -> None:
        result = self.run_on("verify")
        self.assertEqual(result.code, 1)
        for replicas in ("first", "own"):
            result = self.run_on("verify", "--replicas", replicas, "--json")
            self.assertEqual(result.code, 0, result.stdout)
            self.assertEqual(json.loads(result.stdout)["differing_replicas"], list(OWN))
            result = self.run_on("verify", "--replicas", replicas)
            self.assertIn(f"replicas differ in 2 parameters, as --replicas {replicas}", result.stdout)

    def test_diff(self) -> None:
        # By themselves: that another rank's lies beside it is warned of.
        first, second = self.root / "first.ckpt", self.root / "second.ckpt"
        for rank, file in enumerate((first, second)):
            shutil.copy(self.source / f"ckpt_{rank}/resnet-1_20.ckpt", file)
        self.refused(2, "diff", first, words=("bn1.moving_mean", "--a-replicas"))
        result = run("diff", self.source, first, "--a-replicas", "first")
        self.assertEqual(result.code, 0, result.stdout)
        self.assertIn("bn1.moving_mean, bn1.moving_variance", one_line(result))
        result = run("diff", self.source, second, "--a-replicas", "first")
        self.assertEqual(result.code, 1)
        result = run("diff", first, self.source, "--exclude", "*moving*")
        self.assertEqual((result.code, result.stderr), (0, ""))
        out = self.root / "out"
        self.assertEqual(self.run_on("export", out, *self.dp8, "--replicas", "own").code, 0)
        both = ("--a-replicas", "own", "--b-replicas", "own")
        result = run("diff", self.source, out, *both)
        self.assertEqual(result.code, 0, result.stdout)
        (out / "rank_3/checkpoint_3.ckpt").write_bytes(
            (out / "rank_4/checkpoint_4.ckpt").read_bytes())
        result = run("diff", self.source, out, *both)
        self.assertEqual(result.code, 1, result.stdout)
        self.assertIn("bn1.moving_mean (rank 3)", result.stdout)

    @contextlib.contextmanager
    def failing(self, rank: int, *words: str | Path) -> Iterator[Path]:
        """A mount of which one source rank's file fails."""
        with faulty(FaultFs.program, self.source) as source:
            with mounted(source.path, *words, *KEEPS_NOTHING, "--direct-io", "--log-file",
                         self.root / "log") as mountpoint:
                source.set(f"ckpt_{rank}/* error={errno.EIO}")
                source.forget_pages()
                yield mountpoint

    def test_nothing_stands_in_for_what_differs(self) -> None:
        strategies = ("--src-strategy", self.root / "dp8.toml", *self.dp8)
        with self.failing(0, *strategies, "--replicas", "first", "--params") as mountpoint:
            params = mountpoint / "rank_2/params"
            with self.assertRaises(OSError) as caught:
                (params / "bn1.moving_mean.npy").read_bytes()
            self.assertEqual(errno_name(caught.exception), "EIO")
            np.testing.assert_array_equal(np.load(params / "bn1.gamma.npy"),
                                          self.shared["bn1.gamma"])
        with self.failing(2, *strategies, "--replicas", "own") as mountpoint:
            with self.assertRaises(OSError):
                (mountpoint / "rank_2/checkpoint_2.ckpt").read_bytes()
            self.assert_tensors(mountpoint / "rank_3/checkpoint_3.ckpt",
                                self.shared | self.own[3])


class Drifted(unittest.TestCase):
    """Two by four ranks: what the strategy calls replicas is compared in samples."""

    MAPS = {f"layer.{i}.w": ROWS for i in range(40)}

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.strategy = Strategy([layouts((2, 4), self.MAPS)])
        write_protobuf(self.strategy, self.root / "src.ckpt")
        self.tensors = random_tensors(dict.fromkeys(self.MAPS, (64, 1024)))

    def write(self, change: dict[int, Tensors] | None = None) -> None:
        write_ranks(self.root / "src", {
            f"rank_{rank}/net-1_1.ckpt": [
                record_of(name, "Float32", (change or {}).get(rank, {}).get(
                    name, full[16 * (rank % 4):16 * (rank % 4) + 16]))
                for name, full in self.tensors.items()
            ] for rank in range(8)})

    def hash(self, *words: str | Path) -> Result:
        return run("hash", self.root / "src", "--src-strategy", self.root / "src.ckpt", *words)

    def test_equal_ones_pass(self) -> None:
        self.write()
        result = self.hash()
        self.assertEqual((result.code, result.stderr), (0, ""))

    def test_the_strategy_of_another_checkpoint(self) -> None:
        """Cut by all 8, but the strategy says 4."""
        for name in self.tensors:
            self.tensors[name] = self.tensors[name][:32]
        write_ranks(self.root / "src", {
            f"rank_{rank}/net-1_1.ckpt": [
                record_of(name, "Float32", np.ascontiguousarray(full[4 * rank:4 * rank + 4]))
                for name, full in self.tensors.items()] for rank in range(8)})
        result = self.hash()
        self.assertEqual((result.code, result.stdout), (2, ""))
        for word in ("layer.", "differs between rank", "another checkpoint", "reshardfs verify"):
            self.assertIn(word, one_line(result))
        self.assertEqual(self.hash("--replicas", "first").code, 0)

    def test_one_rank_of_another_step(self) -> None:
        other = random_tensors(dict.fromkeys(self.MAPS, (16, 1024)), 5)
        self.write({6: other})
        result = self.hash()
        self.assertEqual(result.code, 2)
        self.assertIn("rank 2 and rank 6", one_line(result))
        # It stands in for rank 2 alone, so only who reads rank 2 would notice.
        (self.root / "tp4.toml").write_text(
            '[devices]\naxes = ["tp=4"]\n\n[[rule]]\nmatch = "*"\ncut = ["tp"]\n')
        target = ("--dst-strategy", self.root / "tp4.toml", "--views", "ranks")
        self.assertEqual(self.hash(*target, "--ranks", "0,1,3").code, 0)
        self.assertEqual(self.hash(*target, "--ranks", "2").code, 2)

    def test_each_ranks_own_slices(self) -> None:
        """Cut as before, with one rank of each pair of replicas from another step."""
        other = random_tensors(dict.fromkeys(self.MAPS, (16, 1024)), 5)
        self.write({6: other})
        options = ("--src-strategy", self.root / "src.ckpt", "--dst-strategy",
                   self.root / "src.ckpt", "--replicas", "own")
        result = run("export", self.root / "src", self.root / "out", *options)
        self.assertEqual(result.code, 0, result.stderr)
        for rank in range(8):
            source = by_name((self.root / f"src/rank_{rank}/net-1_1.ckpt").read_bytes())
            found = by_name((self.root / f"out/rank_{rank}/checkpoint_{rank}.ckpt").read_bytes())
            self.assertEqual(found, source, rank)
        result = run("plan", self.root / "src", *options, "--rank", "6")
        self.assertEqual(result.stdout.split(), ["6"])
        sides = [word for side in "ab" for word in (
            f"--{side}-strategy", self.root / "src.ckpt", f"--{side}-replicas", "own")]
        diff = ("diff", self.root / "src", self.root / "out", *sides)
        self.assertEqual(run(*diff).code, 0)
        (self.root / "out/rank_6/checkpoint_6.ckpt").write_bytes(
            (self.root / "out/rank_2/checkpoint_2.ckpt").read_bytes())
        result = run(*diff)
        self.assertEqual(result.code, 1)
        self.assertIn("different: layer.0.w (rank 6)", result.stdout)
        (self.root / "tp8.toml").write_text(
            '[devices]\naxes = ["tp=8"]\n\n[[rule]]\nmatch = "*"\ncut = ["tp"]\n')
        result = run("hash", self.root / "src", "--src-strategy", self.root / "src.ckpt",
                     "--dst-strategy", self.root / "tp8.toml", "--replicas", "own")
        self.assertEqual(result.code, 2)
        self.assertIn("target rank", one_line(result))

    def test_a_single_parameter_is_left_out(self) -> None:
        self.write({4: {"layer.7.w": np.zeros((16, 1024), "<f4")}})
        self.assertEqual(self.hash().code, 2)
        self.assertEqual(self.hash("--exclude", "layer.7.*").code, 0)

    def test_plan_refuses_what_a_mount_refuses(self) -> None:
        self.write({4: {"layer.7.w": np.zeros((16, 1024), "<f4")}})
        plan = ["plan", self.root / "src", "--src-strategy", self.root / "src.ckpt"]
        result = run(*plan)
        self.assertEqual(result.code, 2)
        self.assertIn("layer.7.w", one_line(result))
        self.assertEqual(run(*plan, "--replicas", "first").code, 0)

    def test_a_missing_rank_leaves_less_to_compare(self) -> None:
        self.write()
        (self.root / "src/rank_5/net-1_1.ckpt").unlink()
        (self.root / "src/rank_5").rmdir()
        self.assertEqual(self.hash().code, 0)


if __name__ == "__main__":
    run_unittests_with_faults()
