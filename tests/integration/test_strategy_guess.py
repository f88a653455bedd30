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
        self.assertEqual(stderr, "5 of 5 parameters proven, 0 one of several, 0 open\n")
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

    def write_orders(self) -> str:
        """Four ranks, and one parameter that two axes cut, the minor one first. Its name."""
        name = LAYER + "attention.wq.weight"
        layout = Layout((2, 2), ((0, 1), ()))
        whole = np.arange(8, dtype=np.float32)
        self.tensors = {name: self.tensors[name], "whole": whole}
        write_ranks(self.source, {
            f"rank_{rank}/net-3_7.ckpt": [
                record_of(name, "Float32", np.ascontiguousarray(shard(self.tensors[name], layout, rank))),
                record_of("whole", "Float32", whole)]
            for rank in range(4)})
        return name

    def test_every_reading_is_listed_and_refused_until_one_is_chosen(self) -> None:
        name = self.write_orders()
        stderr = self.guess(1, "--model-config", self.config)
        self.assertIn(f"'{name}': one of 2 layouts: slices of [16, 64], 4 different ones on 4 ranks. Shapes "
                      "do not tell them apart: compare one whole tensor", stderr)
        result = run("plan", self.source, "--src-strategy", self.rules)
        self.assertEqual((result.code, result.stdout), (2, ""))
        for word in ("rules.toml: line ", "undecided", "attention.wq.weight", "in front"):
            self.assertIn(word, one_line(result))
        # Nobody may have decided about the other, which is in several ways, too: leave it out.
        text = self.rules.read_text()
        right = 'cut = [["mp2", "mp1"], ""]'
        before, after = text.split("#" + right)
        start = before.rindex("#[[rule]]")
        self.rules.write_text(before[:start] + before[start:].replace("#", "") + right + after)
        result = run("export", self.source, self.root / "out", "--src-strategy", self.rules,
                     "--views", "merged", "--format", "ckpt", "--exclude", "whole")
        self.assertEqual(result.code, 0, result.stderr)
        data = (self.root / "out/merged/checkpoint_merged.ckpt").read_bytes()
        self.assertTrue((by_name(data)[name].array() == self.tensors[name]).all())

    def test_what_is_left_out_need_not_be_decided(self) -> None:
        name = self.write_orders()
        self.guess(1, "--model-config", self.config)
        self.rules.write_text(self.rules.read_text().replace(
            '[[rule]]\nmatch = "whole"\nundecided = true\n', '[[rule]]\nmatch = "whole"\n'))
        words = ("export", self.source, self.root / "out", "--src-strategy", self.rules,
                 "--views", "merged", "--format", "ckpt")
        self.assertEqual(run(*words).code, 2)
        result = run(*words, "--exclude", "*.wq.weight")
        self.assertEqual(result.code, 0, result.stderr)
        shown = by_name((self.root / "out/merged/checkpoint_merged.ckpt").read_bytes())
        self.assertEqual(list(shown), ["whole"])
        self.assertNotIn(name, shown)
        options = ("--src-strategy", self.rules)
        for words in (("inspect", self.source), ("verify", self.source)):
            self.assertEqual(run(*words, *options).code, 2, words)
            result = run(*words, *options, "--exclude", "*.wq.weight")
            self.assertEqual(result.code, 0, result)
        whole = self.root / "out/merged/checkpoint_merged.ckpt"
        words = ("diff", self.source, whole, "--a-strategy", self.rules)
        self.assertEqual(run(*words).code, 2)
        result = run(*words, "--exclude", "*.wq.weight", "--allow-unmatched")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(run("inspect", self.source, *options, "--why", "whole").code, 0)
        self.assertEqual(run("inspect", self.source, *options, "--why", name).code, 2)
        if problem := fuse_problem():
            self.skipTest(problem)
        with mounted(self.source, "--src-strategy", self.rules, "--views", "merged", "--format",
                     "ckpt", "--exclude", "*.wq.weight") as mountpoint:
            self.assertEqual(list(by_name((mountpoint / "merged/checkpoint_merged.ckpt").read_bytes())),
                             ["whole"])

    def test_norms_of_ones_are_a_question(self) -> None:
        self.tensors[LAYER + "attention_norm.weight"] = np.ones(64, np.float32)
        self.write()
        stderr = self.guess(1)
        self.assertIn("of one value and equal on all 8 ranks", stderr)
        self.assertIn("Its full shape [hidden] settles it, or narrows it down: give the model's config.json with --model-config", stderr)
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
        # Only the matrices together show that a network's code cut them.
        self.assertIn("1 of 5 parameters proven",
                      self.guess(1, "--model-config", self.config))
        self.assertIn("5 of 5 parameters proven",
                      self.guess(0, "--model-config", self.config, "--full"))

    def change_rank_5(self, array: np.ndarray) -> None:
        """Rank 5 holds the elements in the other order."""
        path = self.source / "rank_5/net-3_7.ckpt"
        data = path.read_bytes()
        self.assertEqual(data.count(array.tobytes()), 1)
        path.write_bytes(data.replace(array.tobytes(), array[::-1].tobytes()))

    def test_copies_that_differ_are_open(self) -> None:
        self.write()
        self.change_rank_5(self.tensors[LAYER + "attention_norm.weight"])
        self.assertIn(f"'{LAYER}attention_norm.weight': open: slices of [64], 2 different ones on 8 "
                      "ranks: no layout of the whole [64] explains which ranks hold the same",
                      self.guess(1, "--model-config", self.config))

    def test_values_of_each_ranks_own_are_one_of_the_readings(self) -> None:
        own = np.arange(3, dtype=np.float32)
        self.write({"own": own})
        self.change_rank_5(own)
        # Or eight parts in one of six orders, of which seven happen to be equal.
        self.assertIn("'own': one of 7 layouts: slices of [3], 2 different ones on 8 ranks",
                      self.guess(1, "--model-config", self.config))
        self.assertIn("# values of each rank's own: no rule states them; leave such parameters out",
                      self.rules.read_text())

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
        self.refused(2, "guess", self.source, words=("do not form pipeline stages", "without redundancy"))

    def test_an_error_about_differing_ranks_names_the_command(self) -> None:
        self.write()
        result = run("plan", self.source)
        self.assertEqual(result.code, 2)
        for word in ("the ranks hold slices", "run: reshardfs strategy guess"):
            self.assertIn(word, one_line(result))


class Sample(unittest.TestCase):
    """The product's own sample: eight ranks, tensor parallel 4, the optimizer cuts over the rest."""

    CONFIG = {"vocab_size": 7680, "hidden_size": 512, "intermediate_size": 1408,
              "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8}

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.assertEqual(run("demo", self.root / "sample").code, 0)
        self.source = self.root / "sample/source"
        self.strategy = self.source / "src_strategy.ckpt"
        (self.root / "config.json").write_text(json.dumps(self.CONFIG))

    def guess(self, source: Path) -> tuple[int, str]:
        result = run("strategy", "guess", source, "--model-config", self.root / "config.json", "-O",
                     self.root / "rules.toml")
        return result.code, result.stderr.splitlines()[-1]

    def test_what_is_proven_is_right(self) -> None:
        # Tensor parallelism may have neighbours or every other rank: the optimizer has cut all
        # copies that would show it.
        self.assertEqual(self.guess(self.source),
                         (1, "29 of 119 parameters proven, 90 one of several, 0 open"))
        rules = tomllib.loads((self.root / "rules.toml").read_text())
        layouts = read_strategy(self.strategy).stages[0]
        shapes = {"model.layers.3.ffn_norm.weight": (512,), "adam_v.model.norm_out.weight": (512,)}
        for name, full in shapes.items():
            rule = first_rule(rules, name)
            assert rule is not None
            self.assertNotIn("undecided", rule)
            self.assertEqual(boxes_said(rules, rule, full),
                             [box(full, layouts[name], device) for device in range(8)])
        words = ("diff", self.source, self.source, "--a-strategy", self.root / "rules.toml",
                 "--b-strategy", self.strategy)
        self.assertEqual(run(*words).code, 2)

    def test_one_of_the_listed_readings_is_right(self) -> None:
        self.guess(self.source)
        rules = self.root / "rules.toml"
        text = rules.read_text()
        listed = tomllib.loads(uncommented(text))
        layouts = read_strategy(self.strategy).stages[0]
        for name, full in (("lm_head.weight", (7680, 512)),
                           ("adam_m.model.layers.1.feed_forward.w2.weight", (512, 1408))):
            held = [box(full, layouts[name], device) for device in range(8)]
            right = [rule for rule in listed["rule"] if "undecided" not in rule
                     and first_rule({"rule": [rule]}, name) is not None
                     and boxes_said(listed, rule, full) == held]
            self.assertEqual(len(right), 1, name)

    def test_ranks_of_tensor_parallelism_alone_are_proven(self) -> None:
        saved = self.root / "saved"
        self.assertEqual(run("export", self.source, saved, "--src-strategy", self.strategy,
                             "--dst-strategy", "tp=4").code, 0)
        self.assertEqual(self.guess(saved),
                         (0, "119 of 119 parameters proven, 0 one of several, 0 open"))
        result = run("diff", saved, self.source, "--a-strategy", self.root / "rules.toml",
                     "--b-strategy", self.strategy)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)


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
