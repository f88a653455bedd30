# SPDX-License-Identifier: Apache-2.0
"""Sets that MindSpore itself wrote: see tests/golden_mindspore/README.md."""

from __future__ import annotations

import json
import random
import shutil
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "data"))

from ckpt_format import by_name
from format_files import Tensors, read_safetensors, same, write_safetensors
from mounted import mounted, run, run_unittests, scratch

GOLDEN = TESTS / "golden_mindspore"
CASES = sorted(path.parent for path in GOLDEN.glob("*/src.ckpt") if (path.parent / "expected.json").exists())
CONVERSIONS = sorted(GOLDEN.glob("real_*"))
RUN = GOLDEN / "run_dir_210"


class GoldenMindspore(unittest.TestCase):
    def test_the_whole_model(self) -> None:
        self.assertTrue(CASES)
        for case in CASES:
            expected = json.loads((case / "expected.json").read_text())
            source = (case / "src", "--src-strategy", case / "src.ckpt")
            with self.subTest(case.name), scratch() as directory:
                result = run("export", source[0], directory / "out", *source[1:], "--views", "merged-safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = (directory / "out").rglob("*.safetensors")
                tensors = read_safetensors(file)[0]
                self.assertEqual({name: list(values.shape) for name, (_, values) in tensors.items()},
                                 {name: tensor["shape"] for name, tensor in expected.items()})
                for name, tensor in expected.items():
                    self.assertEqual(tensors[name][1].tobytes().hex(), tensor["hex"], name)
                for command in ("verify", "plan"):
                    self.assertEqual(run(command, *source).code, 0)

    def test_on_other_ranks_and_back(self) -> None:
        for case in CASES:
            with self.subTest(case.name), scratch() as directory:
                there, back = directory / "there", directory / "back"
                target = case / "dst.ckpt"
                result = run("export", case / "src", there, "--src-strategy", case / "src.ckpt", "--dst-strategy",
                             target, "--unmatched", "replicate", "--format", "safetensors", "--views", "ranks")
                self.assertEqual(result.code, 0, result.stderr)
                result = run("export", there, back, "--src-strategy", target, "--views", "merged-safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = back.rglob("*.safetensors")
                expected = json.loads((case / "expected.json").read_text())
                tensors = read_safetensors(file)[0]
                self.assertEqual({name: values.tobytes().hex() for name, (_, values) in tensors.items()},
                                 {name: tensor["hex"] for name, tensor in expected.items()})

    def test_the_steps_of_one_process(self) -> None:
        expected = json.loads((RUN / "expected.json").read_text())
        for step, options in (("2_4", ()), ("1_4", ("--step", "1_4")),
                              ("2_2", ("--step", "2_2", "--src-pattern", "tr-{step}.ckpt"))):
            with self.subTest(step), scratch() as directory:
                result = run("export", RUN / "run", directory / "out", *options, "--views", "merged-safetensors")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = (directory / "out").rglob("*.safetensors")
                tensors = read_safetensors(file)[0]
                of_file = {name: tensor["hex"] for name, tensor in expected[f"tr-{step}.ckpt"].items()
                           if "hex" in tensor}
                self.assertEqual({name: values.tobytes().hex() for name, (_, values) in tensors.items()}, of_file)

    def test_files_of_two_runs_are_no_steps(self) -> None:
        with scratch() as directory:
            for name in ("tr-1_4.ckpt", "tr_1-2_2.ckpt"):
                shutil.copy(RUN / "run/tr-1_4.ckpt", directory / name)
            result = run("inspect", directory)
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("2 checkpoints here", result.stderr)

    def test_a_pattern_that_names_one_rank_of_several(self) -> None:
        with scratch() as directory:
            for rank in range(2):
                (directory / f"rank_{rank}").mkdir()
                shutil.copy(RUN / "run/tr-1_4.ckpt", directory / f"rank_{rank}")
            for command in ("inspect", "verify", "plan"):
                result = run(command, directory, "--src-pattern", "rank_0/*.ckpt")
                self.assertIn("is one rank's file", result.stdout + result.stderr, command)

    def test_other_files_with_the_names_of_steps(self) -> None:
        with scratch() as directory:
            for step in ("1_4", "2_4"):
                shutil.copy(RUN / f"run/tr-{step}.ckpt", directory / f"tr-{step}.pt")
            self.assertEqual(run("inspect", directory).code, 2)


class Conversions(unittest.TestCase):
    def test_the_bytes_of_its_converter(self) -> None:
        self.assertEqual(len(CONVERSIONS), 6)
        for case in CONVERSIONS:
            files = [path.relative_to(case / "dst") for path in (case / "dst").rglob("*.*")]
            for strategy in ("src.ckpt", "src_strategies"):
                if not (case / strategy).exists():
                    continue
                with self.subTest(case.name, strategy=strategy), scratch() as out:
                    result = run("export", case / "src", out / "out", "--src-strategy", case / strategy,
                                 "--dst-strategy", case / "dst.ckpt", "--format", files[0].suffix[1:],
                                 "--prefix", "checkpoint_", "--views", "ranks")
                    self.assertEqual(result.code, 0, result.stderr)
                    for file in files:
                        self.assertEqual((out / "out" / file).read_bytes(), (case / "dst" / file).read_bytes(), file)


class Strategies(unittest.TestCase):
    """MindSpore reads neither sizes nor rules."""

    CASE = GOLDEN / "real_opt_to_tp"

    def export(self, out: Path, *words: str | Path) -> None:
        result = run("export", self.CASE / "src", out, "--src-strategy", self.CASE / "src.ckpt", *words)
        self.assertEqual(result.code, 0, result.stderr)

    def test_a_made_one_is_written_beside_the_ranks(self) -> None:
        with scratch() as out:
            self.export(out / "sizes", "--dst-strategy", "tp=4,dp=1", "--format", "ckpt")
            made = out / "sizes/strategy/destination.ckpt"
            self.export(out / "file", "--dst-strategy", made, "--format", "ckpt")
            self.assertFalse((out / "file/strategy").exists())
            names = [f"rank_{rank}/checkpoint_{rank}.ckpt" for rank in range(4)]
            for name in names:
                self.assertEqual((out / "file" / name).read_bytes(), (out / "sizes" / name).read_bytes(), name)
            # The export is a source of its own.
            result = run("verify", out / "sizes", "--src-strategy", made)
            self.assertEqual(result.code, 0, result.stdout + result.stderr)
            self.export(out / "safetensors", "--dst-strategy", "tp=4,dp=1", "--format", "safetensors")
            self.assertFalse((out / "safetensors/strategy").exists())

    def test_mounts_show_both(self) -> None:
        with mounted(self.CASE / "src", "--src-strategy", self.CASE / "src.ckpt", "--dst-strategy",
                     self.CASE / "dst.ckpt") as mountpoint, scratch() as out:
            for stem, file in (("source", "src.ckpt"), ("destination", "dst.ckpt")):
                shown = mountpoint / f"strategy/{stem}.ckpt"
                self.assertEqual(len(shown.read_bytes()), shown.stat().st_size)
                texts = [run("strategy", "show", path).stdout for path in (shown, self.CASE / file)]
                self.assertEqual(texts[0], texts[1])
            result = run("export", self.CASE / "src", out / "out", "--src-strategy", mountpoint / "strategy/source.ckpt",
                         "--dst-strategy", mountpoint / "strategy/destination.ckpt", "--format", "ckpt")
            self.assertEqual(result.code, 0, result.stderr)
            for path in (out / "out").rglob("*.ckpt"):
                self.assertEqual(path.read_bytes(), (self.CASE / "dst" / path.relative_to(out / "out")).read_bytes())


class Unified(unittest.TestCase):
    """What unified_safetensors and load_distributed_checkpoint make of a source."""

    CASE = GOLDEN / "unified_210_redundancy"

    def test_parts_map_and_sizes(self) -> None:
        with scratch() as out:
            result = run("export", self.CASE / "src", out / "out", "--src-strategy", self.CASE / "src.ckpt", "--views",
                         "unified")
            self.assertEqual(result.code, 0, result.stderr)
            got, want = out / "out/unified", self.CASE / "unified"
            self.assertEqual({path.name for path in got.iterdir()}, {path.name for path in want.iterdir()})
            self.assertEqual(json.loads((got / "param_name_map.json").read_text()),
                             json.loads((want / "param_name_map.json").read_text()))
            for file in want.glob("*.safetensors"):
                same(self, read_safetensors(got / file.name)[0], read_safetensors(file)[0])

    def test_ranks_of_a_set_without_redundancy(self) -> None:
        with scratch() as out:
            result = run("export", self.CASE / "src", out / "out", "--src-strategy", self.CASE / "src.ckpt",
                         "--dst-strategy", self.CASE / "dst.ckpt", "--format", "safetensors", "--views", "ranks")
            self.assertEqual(result.code, 0, result.stderr)
            for rank in range(2):
                (file,) = (out / f"out/rank_{rank}").iterdir()
                want = read_safetensors(self.CASE / f"dst/rank_{rank}/net.safetensors")[0]
                got = read_safetensors(file)[0]
                same(self, {name: got[name] for name in want}, want)

    def test_sets_that_keep_several_replicas(self) -> None:
        """As remove_redundancy with keep_redundancy leaves them: of each slice, files of some ranks."""
        strategy = self.CASE / "src.ckpt"
        want = [read_safetensors(self.CASE / f"unified/{name}.safetensors")[0] for name in ("part0", "hyper_param")]
        with scratch() as out:
            result = run("export", self.CASE / "src", out / "full", "--src-strategy", strategy, "--dst-strategy",
                         strategy, "--unmatched", "source", "--format", "safetensors", "--views", "ranks")
            self.assertEqual(result.code, 0, result.stderr)
            ranks = [read_safetensors(out / f"full/rank_{rank}/checkpoint_{rank}.safetensors")[0] for rank in range(4)]
            for kept in (1, 2, 3):
                with self.subTest(kept):
                    choose = random.Random(kept)
                    source = out / f"kept{kept}"
                    files: list[Tensors] = [{} for _ in ranks]
                    for name in ranks[0]:
                        replicas: dict[bytes, list[int]] = {}
                        for rank, tensors in enumerate(ranks):
                            replicas.setdefault(tensors[name][1].tobytes(), []).append(rank)
                        for members in replicas.values():
                            some = choose.sample(members, min(kept, len(members))) if name in want[0] else members
                            for rank in some:
                                files[rank][name] = ranks[rank][name]
                    for rank, tensors in enumerate(files):
                        (source / f"rank_{rank}").mkdir(parents=True)
                        write_safetensors(source / f"rank_{rank}/net-2_3.safetensors", tensors,
                                          {"format": "ms", "remove_redundancy": "True"})
                    result = run("export", source, out / f"out{kept}", "--src-strategy", strategy, "--views", "unified")
                    self.assertEqual(result.code, 0, result.stderr)
                    for name, tensors in zip(("part0", "hyper_param"), want):
                        same(self, read_safetensors(out / f"out{kept}/unified/{name}.safetensors")[0], tensors)


class Int4(unittest.TestCase):
    """An Int4 stays one, but for transform_checkpoints."""

    CASE = GOLDEN / "int4_210"
    FILES = GOLDEN / "forms_210"

    def export(self, out: Path, source: Path, *words: str | Path) -> Path:
        result = run("export", source, out / "out", *words)
        self.assertEqual(result.code, 0, result.stderr)
        (file,) = (path for path in (out / "out").rglob("*.*") if path.suffix in (".ckpt", ".safetensors"))
        return file

    def test_the_whole_model_states_it(self) -> None:
        for form in ("ckpt", "safetensors"):
            for views in ("unified", "merged-safetensors"):
                with self.subTest(form, views=views), scratch() as out:
                    file = self.export(out, self.CASE / f"src_{form}", "--src-strategy", self.CASE / "src.ckpt",
                                       "--views", views)
                    got, words = read_safetensors(file)
                    want, stated = read_safetensors(self.CASE / "unified/part0.safetensors")
                    same(self, got, want)
                    self.assertEqual(words, stated)

    def test_a_transformed_one_is_an_int8(self) -> None:
        with scratch() as out:
            file = self.export(out, self.CASE / "src_ckpt", "--src-strategy", self.CASE / "src.ckpt", "--format",
                               "ckpt", "--views", "ranks")
            self.assertEqual(file.read_bytes(), (self.CASE / "dst_ckpt/rank_0/c_0.ckpt").read_bytes())
        with scratch() as out:
            file = self.export(out, self.CASE / "src_safetensors", "--src-strategy", self.CASE / "src.ckpt",
                               "--format", "safetensors", "--views", "ranks")
            self.assertEqual(read_safetensors(file)[1], {"format": "ms"})

    def test_another_format_keeps_it(self) -> None:
        ckpt, safetensors = self.FILES / "sp_int4.ckpt", self.FILES / "sp_int4.safetensors"
        for source in (ckpt, safetensors):
            for views in ("ranks", "merged-ckpt"):
                with scratch() as out:
                    file = self.export(out, source, "--format", "ckpt", "--views", views)
                    self.assertEqual(by_name(file.read_bytes()), by_name(ckpt.read_bytes()))
            for views in ("ranks", "merged-safetensors"):
                with scratch() as out:
                    file = self.export(out, source, "--format", "safetensors", "--views", views)
                    self.assertEqual(read_safetensors(file)[1], read_safetensors(safetensors)[1])
                    same(self, read_safetensors(file)[0], read_safetensors(safetensors)[0])


if __name__ == "__main__":
    run_unittests()
