# SPDX-License-Identifier: Apache-2.0
"""`strategy guess`: sets whose strategy is taken away, and what it says of others."""

from __future__ import annotations

import json
import shutil
import tomllib
import unittest
from pathlib import Path

# First, because it finds the modules of tests/data.
from random_guess import boxes_said, first_rule, run_sets, stages_said, uncommented
from test_scenarios import Tensors, random_tensors, write_ranks

import numpy as np
from ckpt_format import by_name, record_of
from command_tests import CommandTest, run_command_tests
from golden_cases import Case, load_cases
from layouts import Layout, box, full_shape, shard
from mounted import fuse_problem, mounted, one_line, run, scratch
from strategy_files import Strategy, read_strategy

CONFIG = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 8,
          "intermediate_size": 96, "vocab_size": 512, "num_hidden_layers": 1}
LAYER = "model.layers.0."
ROWS, COLUMNS = ((0,), ()), ((), (0,))
SHAPES = {
    LAYER + "attention.wq.weight": ((64, 64), ROWS),
    LAYER + "attention.wo.weight": ((64, 64), COLUMNS),
    LAYER + "feed_forward.w1.weight": ((96, 64), ROWS),
    LAYER + "feed_forward.w2.weight": ((64, 96), COLUMNS),
    LAYER + "attention_norm.weight": ((64,), ((),)),
}


class Guess(CommandTest):
    """Two rows of four ranks: data parallel 2, tensor parallel 4."""

    command = "strategy"

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "src"
        self.rules = self.root / "rules.toml"
        self.config = self.root / "config.json"
        self.config.write_text(json.dumps(CONFIG))
        self.tensors = random_tensors({name: shape for name, (shape, _) in SHAPES.items()})

    def write(self, others: Tensors | None = None) -> None:
        """The ranks' files; of `others` each rank has the whole."""
        files = {}
        for rank in range(8):
            own = {name: shard(array, Layout((2, 4), SHAPES[name][1]), rank)
                   for name, array in self.tensors.items()}
            files[f"rank_{rank}/net-3_7.ckpt"] = [
                record_of(name, "Float32", np.ascontiguousarray(array))
                for name, array in (own | (others or {})).items()]
        write_ranks(self.source, files)

    def guess(self, code: int, *words: str | Path) -> str:
        """What it prints to standard error; the rules are in self.rules."""
        result = run("strategy", "guess", self.source, "-O", self.rules, "--force", *words)
        self.assertEqual((result.code, result.stdout), (code, ""), result.stderr)
        return result.stderr

    def merged(self) -> Tensors:
        result = run("export", self.source, self.root / "out", "--src-strategy", self.rules,
                     "--views", "merged", "--format", "ckpt", "--force")
        self.assertEqual(result.code, 0, result.stderr)
        data = (self.root / "out/merged/checkpoint_merged.ckpt").read_bytes()
        return {name: record.array() for name, record in by_name(data).items()}

    def test_what_is_proven_serves_the_model(self) -> None:
        self.write()
        stderr = self.guess(0, "--model-config", self.config)
        self.assertEqual(stderr, "5 of 5 parameters proven, 0 likely, 0 open\n")
        text = self.rules.read_text()
        self.assertIn('axes = ["dp=2", "tp=4"]', text)
        self.assertIn("step 3_7: 8 ranks in 1 pipeline stage", " ".join(text.replace("#", "").split()))
        if problem := fuse_problem():
            self.skipTest(problem)
        with mounted(self.source, "--src-strategy", self.rules, "--views", "merged",
                     "--format", "ckpt") as mountpoint:
            shown = by_name((mountpoint / "merged/checkpoint_merged.ckpt").read_bytes())
        for name, array in self.tensors.items():
            self.assertTrue((shown[name].array() == array).all(), name)

    def test_the_configuration_may_be_named_by_its_directory_or_lie_in_the_source(self) -> None:
        self.write()
        self.guess(0, "--model-config", self.root)
        (self.source / "config.json").write_text(self.config.read_text())
        self.guess(0)

    def test_rules_go_to_standard_output_without_a_file(self) -> None:
        self.write()
        result = run("strategy", "guess", self.source, "--model-config", self.config, "--quiet")
        self.assertEqual((result.code, result.stderr), (0, ""))
        self.assertEqual(len(tomllib.loads(result.stdout)["rule"]), 5)

    def test_a_file_is_replaced_with_force_alone(self) -> None:
        self.write()
        self.rules.write_text("mine")
        self.refused(2, "guess", self.source, "--output", self.rules, words=("exists",))
        self.assertEqual(self.rules.read_text(), "mine")

    def test_what_is_likely_is_refused_until_it_is_decided(self) -> None:
        self.write()
        self.assertIn("0 of 5 parameters proven, 5 likely, 0 open", self.guess(1))
        result = run("plan", self.source, "--src-strategy", self.rules)
        self.assertEqual((result.code, result.stdout), (2, ""))
        for word in ("rules.toml: line ", "undecided", "attention.wq.weight", "in front"):
            self.assertIn(word, one_line(result))
        self.rules.write_text(uncommented(self.rules.read_text()))
        for name, array in self.merged().items():
            self.assertTrue((array == self.tensors[name]).all(), name)

    def test_norms_of_ones_are_a_question(self) -> None:
        self.tensors[LAYER + "attention_norm.weight"] = np.ones(64, np.float32)
        self.write()
        stderr = self.guess(1)
        self.assertIn("whole, or 1/4 of [256] along dimension 0? Its full shape [hidden] settles "
                      "it: --model-config with the config.json", stderr)
        self.assertIn("1 open", stderr)
        self.guess(0, "--model-config", self.config)

    def test_all_bytes_find_what_samples_do_not(self) -> None:
        # Two slices of many that differ in one element; everything else has one value.
        name = LAYER + "feed_forward.w2.weight"
        config = CONFIG | {"intermediate_size": 65536}
        self.config.write_text(json.dumps(config))
        self.tensors[name] = np.ones((64, 65536), np.float32)
        for part in range(4):
            self.tensors[name][7, part * 16384 + 4321] = part
        self.tensors[LAYER + "feed_forward.w1.weight"] = random_tensors({"w": (65536, 64)})["w"]
        self.write()
        self.assertIn("4 of 5 parameters proven, 1 likely",
                      self.guess(1, "--model-config", self.config))
        self.assertIn("5 of 5 parameters proven",
                      self.guess(0, "--model-config", self.config, "--full"))

    def test_copies_that_differ_are_open(self) -> None:
        self.write({"own": np.arange(3, dtype=np.float32)})
        path = self.source / "rank_5/net-3_7.ckpt"
        data = path.read_bytes()
        own = np.arange(3, dtype=np.float32).tobytes()
        path.write_bytes(data.replace(own, own[::-1]))
        self.assertIn("'own': slices of [3], 2 different ones on 8 ranks: no layout explains",
                      self.guess(1, "--model-config", self.config))

    def test_another_configuration_proves_nothing(self) -> None:
        self.write()
        self.config.write_text(json.dumps(CONFIG | {"hidden_size": 128}))
        stderr = self.guess(1, "--model-config", self.config)
        self.assertIn("is it that of another model?", stderr)
        self.assertIn("0 of 5 parameters proven", stderr)

    def test_sets_that_cannot_be_guessed_are_refused(self) -> None:
        self.write()
        shutil.rmtree(self.source / "rank_3")
        self.refused(2, "guess", self.source, words=("rank 3 has no file", "bring"))
        self.refused(2, "guess", self.source / "rank_0/net-3_7.ckpt",
                     words=("the file of one rank", "the files of all ranks"))
        self.refused(2, "guess", self.source, "--model-config", self.root / "none.json",
                     words=("none.json",))

    def test_a_set_without_redundancy_is_refused(self) -> None:
        self.write()
        for rank in range(8):
            path = self.source / f"rank_{rank}/net-3_7.ckpt"
            records = by_name(path.read_bytes())
            dropped = sorted(records)[rank // 4]
            kept = [record for name, record in records.items() if name != dropped or rank == 6]
            write_ranks(self.source, {f"rank_{rank}/net-3_7.ckpt": kept})
        self.refused(2, "guess", self.source, words=("no pipeline stages", "without redundancy"))

    def test_an_error_about_differing_ranks_names_the_command(self) -> None:
        self.write()
        result = run("plan", self.source)
        self.assertEqual(result.code, 2)
        for word in ("it differs between rank 0 and rank 1", "reshardfs strategy guess"):
            self.assertIn(word, one_line(result))


def wrongly_proven(case: Case, strategy: Strategy, rules_file: Path) -> tuple[list[str], int]:
    """The parameters that a guess lays out in another way than the strategy does, and how many it
    proves at all."""
    rules = tomllib.loads(rules_file.read_text())
    devices = strategy.devices_per_stage
    wrong = []
    proven = 0
    shapes = {rank: {record.name: record.shape for record in records}
              for rank, records in case.read_source().items()}
    for stage, layouts in enumerate(strategy.stages):
        for name, layout in layouts.items():
            rule = first_rule(rules, name)
            shape = shapes.get(stage * devices, {}).get(name)
            if rule is None or "undecided" in rule or shape is None:
                continue
            proven += 1
            full = full_shape(shape, layout, 0)
            said = boxes_said(rules, rule, full)
            held = [box(full, layout, device) for device in range(devices)]
            if stage not in stages_said(rules, rule, name) or said != held:
                wrong.append(name)
    return wrong, proven


class GoldenSets(unittest.TestCase):
    """Sets of MindSpore, whose strategies are known."""

    def cases(self) -> list[tuple[Case, Strategy]]:
        """Those of which the reference can read the source."""
        return [(case, read_strategy(case.strategy("src"))) for case in load_cases()
                if case.strategy("src") is not None and case.reads_ckpt
                and case.name != "err_corrupt_file"]

    def guess(self, case: Case, root: Path, config: dict[str, int] | None) -> int:
        """The exit code; the rules are rules.toml in `root`."""
        words: list[str | Path] = []
        if config is not None:
            (root / "config.json").write_text(json.dumps(config))
            words = ["--model-config", root / "config.json"]
        return run("strategy", "guess", case.source, "-O", root / "rules.toml", "--force",
                   *case.options, *words).code

    def test_nothing_is_proven_that_is_wrong(self) -> None:
        guessed = 0
        for case, strategy in self.cases():
            for config in (None, self.config_of(case, strategy)):
                with self.subTest(case.name, config=config), scratch() as root:
                    if self.guess(case, root, config) not in (0, 1):
                        continue
                    guessed += 1
                    wrong, _ = wrongly_proven(case, strategy, root / "rules.toml")
                    self.assertEqual(wrong, [])
        self.assertGreater(guessed, 60)

    def config_of(self, case: Case, strategy: Strategy) -> dict[str, int] | None:
        """What the tensors' full shapes make of a configuration."""
        sources = case.read_source()
        shapes: dict[str, tuple[int, ...]] = {}
        for stage, layouts in enumerate(strategy.stages):
            for record in sources.get(stage * strategy.devices_per_stage, ()):
                if record.name in layouts:
                    name = record.name.split(".0.")[-1]
                    shapes[name] = full_shape(record.shape, layouts[record.name], 0)
        try:
            return {"hidden_size": shapes["attention.wq.weight"][1],
                    "num_attention_heads": shapes["attention.wq.weight"][0], "head_dim": 1,
                    "num_key_value_heads": shapes["attention.wk.weight"][0],
                    "intermediate_size": shapes["feed_forward.w1.weight"][0],
                    "vocab_size": shapes["model.tok_embeddings.embedding_weight"][0]}
        except KeyError:
            return None

    def test_most_of_a_dense_set_is_proven(self) -> None:
        names = ("dp2tp2_to_tp4", "tp8_to_tp4", "pp2tp2_to_tp4", "tp_outer_axis")
        for case, strategy in self.cases():
            if case.name not in names:
                continue
            with self.subTest(case.name), scratch() as root:
                self.assertIn(self.guess(case, root, self.config_of(case, strategy)), (0, 1))
                _, proven = wrongly_proven(case, strategy, root / "rules.toml")
                total = sum(len(layouts) for layouts in strategy.stages)
                self.assertGreater(proven, 0.9 * total, (root / "rules.toml").read_text())

    def test_sets_that_record_their_layouts_need_no_guess(self) -> None:
        golden2 = Path(__file__).parents[1] / "golden2/tp4_to_one/src"
        result = run("strategy", "guess", golden2)
        self.assertEqual(result.code, 2)
        self.assertIn("it records its layouts itself: no strategy is needed", one_line(result))


class RandomSets(unittest.TestCase):
    """Without the traps; random_guess.py has them."""

    def test_ordinary_sets_are_proven(self) -> None:
        tally = run_sets(range(1, 16), traps=False)
        self.assertEqual(tally.wrong, [])
        self.assertGreaterEqual(tally.share(), 0.9)


if __name__ == "__main__":
    run_command_tests()
