# SPDX-License-Identifier: Apache-2.0
"""What was asked for by name is there, or the command fails and says why; and no command succeeds
that has shown nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unittest
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of, string_record  # noqa: E402
from format_files import write_safetensors  # noqa: E402
from mounted import is_mounted, mounted, mountpoint_guard, one_line, run, run_unittests, scratch  # noqa: E402

GOLDEN2 = Path(__file__).resolve().parents[1] / "golden2"
OF_WHOLE = ("merged", "merged-ckpt", "merged-safetensors", "hub", "params", "hf", "unified")
ALL = ("ranks", *OF_WHOLE, "iteration", "dcp", "dcp-hf")
RULES = '[devices]\naxes = ["tp=2"]\n[[rule]]\nmatch = "w"\ncut = ["tp", ""]\n[[rule]]\nmatch = "n"\n'


class AbsentViews(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())
        self.out = self.directory / "out"
        self.mountpoint = self.directory / "mnt"
        self.mountpoint.mkdir()
        self.enterContext(mountpoint_guard(self.mountpoint))

    def refused(self, *words: str | Path, says: Sequence[str]) -> str:
        result = run(*words)
        self.assertEqual(result.code, 2, result)
        line = one_line(result)
        for word in says:
            self.assertIn(word, line)
        self.assertEqual(result.stdout, "")
        self.assertFalse(is_mounted(self.mountpoint))
        self.assertFalse(self.out.exists() and any(self.out.rglob("*.ckpt")))
        return line

    def refused_everywhere(self, source: Path, *options: str | Path, says: Sequence[str]) -> None:
        for words in (["export", source, self.out], ["hash", source], ["mount", source, self.mountpoint]):
            with self.subTest(words[0], options=options):
                self.refused(*words, *options, says=says)


class LackingRank(AbsentViews):
    """Two ranks share the rows; the second one's file is not there."""

    def setUp(self) -> None:
        super().setUp()
        self.source = self.directory / "src"
        (self.source / "rank_0").mkdir(parents=True)
        (self.source / "rank_0/net.ckpt").write_bytes(encode_checkpoint(
            [record_of("w", "Float32", np.ones((2, 4), "<f4")),
             record_of("n", "Float32", np.ones(4, "<f4"))]))
        self.rules = self.directory / "rules.toml"
        self.rules.write_text(RULES)
        self.options = ("--src-strategy", self.rules)
        self.says = ("source rank 1 is missing", ": w;")

    def test_every_view(self) -> None:
        for view in ALL:
            self.refused_everywhere(self.source, *self.options, "--views", view, says=self.says)

    def test_beside_another_that_can_be_shown(self) -> None:
        """The target's rank 0 needs what is there alone."""
        for view in OF_WHOLE:
            self.refused("export", self.source, self.out, *self.options, "--dst-strategy", self.rules,
                         "--ranks", "0", "--views", f"ranks,{view}", says=self.says)

    def test_the_default_leaves_it_out(self) -> None:
        options = (*self.options, "--dst-strategy", self.rules, "--ranks", "0")
        with mounted(self.source, *options) as mountpoint:
            self.assertEqual(sorted(name for name in os.listdir(mountpoint)), ["rank_0", "strategy"])
        result = run("export", self.source, self.out, *options)
        self.assertEqual(result.code, 0, result)

    def test_a_file_of_it(self) -> None:
        options = (*self.options, "--dst-strategy", self.rules, "--ranks", "0")
        for path in ("merged/checkpoint_merged.ckpt", "merged/params/w.npy", "unified/part0.safetensors",
                     "merged"):
            for command in ("hash", "cat"):
                with self.subTest(command, path=path):
                    result = run(command, self.source, path, *options)
                    self.assertEqual((result.code, result.stdout), (2, ""), result)
                    last = result.stderr.splitlines()[-1]
                    self.assertIn(path, last)
                    self.assertIn("source rank 1 is missing", last)

    def test_a_parameter(self) -> None:
        self.refused("cat", self.source, "--param", "w", *self.options, says=self.says)

    def test_own_values_have_no_whole(self) -> None:
        self.refused("cat", self.source, "--param", "w", *self.options, "--dst-strategy", self.rules,
                     "--replicas", "own", says=["--replicas own"])


class LackingFileOfCheckpoint2(AbsentViews):
    def test_every_view(self) -> None:
        source = self.directory / "src"
        shutil.copytree(GOLDEN2 / "tp4_to_one/src", source)
        for kind in ("model", "opt"):
            (source / f"iteration_00000001/{kind}-0000003-0000004.safetensors").unlink()
        for view in ALL:
            with self.subTest(view):
                self.refused_everywhere(source, "--views", view, says=[])


class NothingForAView(AbsentViews):
    def write(self, names: Sequence[str]) -> Path:
        source = self.directory / "model.safetensors"
        write_safetensors(source, {name: ("F32", np.ones((2, 2), "<f4")) for name in names})
        return source

    def test_states_alone(self) -> None:
        source = self.write(["adam_m.w", "global_step"])
        self.refused_everywhere(source, "--views", "hf", says=["weight", "--views hub"])
        self.refused_everywhere(source, "--weights-only", says=["no parameter"])

    def test_texts_alone(self) -> None:
        source = self.directory / "rank_0.ckpt"
        source.write_bytes(encode_checkpoint([string_record("note", "text")]))
        for view in ("hub", "hf", "unified", "dcp", "dcp-hf"):
            with self.subTest(view):
                self.refused_everywhere(source, "--views", view, says=[])

    def test_filters_that_leave_nothing(self) -> None:
        source = self.write(["w", "adam_m.w"])
        self.refused_everywhere(source, "--exclude", "*", says=["no parameter", "--exclude"])
        self.refused_everywhere(source, "--include", "adam*", "--weights-only", says=["no parameter"])
        self.refused_everywhere(source, "--include", "x*", says=["--include"])

    def test_the_hub_without_a_map(self) -> None:
        """Under the names that there are."""
        source = self.write(["w", "adam_m.w"])
        result = run("export", source, self.out, "--views", "hf")
        self.assertEqual(result.code, 0, result)
        index = json.loads((self.out / "hf/model.safetensors.index.json").read_text())
        self.assertEqual(list(index["weight_map"]), ["w"])


if __name__ == "__main__":
    run_unittests()
