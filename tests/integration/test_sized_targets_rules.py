# SPDX-License-Identifier: Apache-2.0
"""Sizes for models that no map knows, or not all of: the refusal lists what is not known, and rules with
blanks for it can be written and completed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import MAP, MapTest, hub_strategy, mcore_strategy, write_hub

import numpy as np
from format_files import Tensors
from layouts import Layout
from mounted import run, run_unittests
from strategy_files import Strategy

ROOT = Path(__file__).resolve().parents[2]
UP, DOWN, SCORE = "model.layers.{}.adapter.up.weight", "model.layers.{}.adapter.down.weight", "model.score.weight"


def adapted(hub: Tensors) -> Tensors:
    """With tensors that no map knows; those of layer 1 have other values."""
    out = dict(hub)
    for layer in range(2):
        for name, shape in ((UP, (8, 4)), (DOWN, (4, 8))):
            out[name.format(layer)] = ("BF16", np.arange(32, dtype="<u2").reshape(shape) + np.uint16(100 * layer))
    out[SCORE] = ("BF16", np.arange(16, dtype="<u2").reshape(2, 8))
    return out


class Rules(MapTest):
    def setUp(self) -> None:
        super().setUp()
        self.hub = adapted(self.hub)
        self.source = self.hub_directory()
        self.rules = self.root / "rules.toml"

    def write_rules(self, sizes: str, code: int, *words: str | Path) -> str:
        result = run("strategy", "convert", sizes, "--source", self.source, "-O", self.rules, "--force", *words)
        self.assertEqual(result.code, code, result.stderr)
        return result.stderr

    def complete(self, answers: dict[str, list[str]]) -> None:
        """Unmarks the keys that hold in the rules whose `match` has the word, and takes 'undecided' away."""
        text = self.rules.read_text()
        for word, keys in answers.items():
            rule = re.search(rf'^match = "[^"]*{re.escape(word)}[^"]*"\n(#.*\n)*undecided = true\n', text, re.MULTILINE)
            assert rule is not None, word
            done = rule[0].replace("undecided = true\n", "")
            for key in keys:
                self.assertIn(f"#{key}\n", done)
                done = done.replace(f"#{key}\n", f"{key}\n")
            text = text.replace(rule[0], done)
        self.rules.write_text(text)

    def test_the_refusal_lists_them_and_names_the_command(self) -> None:
        line = self.fails(2, "hash", self.source, "--dst-strategy", "tp=2", words=(
            "5 parameters", "'model.layers.{0,1}.adapter.up.weight' [8, 4]", "'model.score.weight' [2, 8]",
            f"run: reshardfs strategy convert tp=2 --source {self.source} -O rules.toml")).stderr
        command = line.split("run: reshardfs ")[1].split()
        command[command.index("rules.toml")] = str(self.rules)
        self.assertEqual(run(*command).code, 1)
        self.assertIn("undecided", self.rules.read_text())

    def test_completed_rules_cut_as_they_say(self) -> None:
        self.assertIn("3 rules to complete", self.write_rules("tp=2", 1))
        self.fails(2, "hash", self.source, "--dst-strategy", self.rules, words=(
            "rules.toml: line", "undecided", "'model.layers.0.adapter.", "2 more rules"))
        self.complete({"up": ['cut = ["tp", ""]'], "down": ['cut = ["", "tp"]'], "score": []})
        out = self.export("out", self.source, "--dst-strategy", self.rules)
        (layouts,) = hub_strategy(self.hub, 2).stages
        for layer in range(2):
            layouts[UP.format(layer)] = Layout((2,), ((0,), ()))
            layouts[DOWN.format(layer)] = Layout((2,), ((), (0,)))
        layouts[SCORE] = Layout((2,), ((), ()))
        self.assert_ranks(out, self.hub, Strategy([layouts]))

    def test_each_blank_is_needed(self) -> None:
        self.write_rules("tp=2", 1)
        self.complete({"up": ['cut = ["tp", ""]'], "score": []})
        self.fails(2, "hash", self.source, "--dst-strategy", self.rules, words=("adapter.down.weight", "undecided"))

    def test_stages(self) -> None:
        self.write_rules("tp=2,pp=2", 1)
        self.complete({"up": ['cut = ["tp", ""]'], "down": [], "score": ["stage = 0"]})
        out = self.export("out", self.source, "--dst-strategy", self.rules)
        (layouts,) = hub_strategy(self.hub, 2).stages
        stages: list[dict[str, Layout]] = [{}, {}]
        for name, layout in layouts.items():
            if "adapter.up" in name:
                layout = Layout((2,), ((0,), ()))
            first = ".layers.0." in name or "embed" in name or name == SCORE
            stages[0 if first else 1][name] = layout
        self.assert_ranks(out, self.hub, Strategy(stages))

    def test_a_family_that_no_map_knows(self) -> None:
        tensors: Tensors = {f"h.{layer}.{name}": ("F32", np.arange(32, dtype="<f4").reshape(8, 4) + layer)
                            for layer in range(4) for name in ("c_attn.w", "c_proj.w")}
        tensors["wte"] = ("F32", np.arange(64, dtype="<f4").reshape(16, 4))
        self.source = write_hub(self.root / "gpt", tensors)
        self.fails(2, "hash", self.source, "--dst-strategy", "tp=2,pp=2", words=("9 parameters", "'h.{0..3}.c_attn.w'"))
        self.write_rules("tp=2,pp=2", 1)
        layers = '#[[layers]]\n#match = "h.{n}."\n#split = [2, 2]\n'
        text = self.rules.read_text()
        self.assertIn(layers, text)
        self.rules.write_text(text.replace(layers, layers.replace("#", "")))
        self.complete({"c_attn": ['cut = ["tp", ""]'], "c_proj": ['cut = ["", "tp"]'], "wte": ["stage = 0"]})
        out = self.export("out", self.source, "--dst-strategy", self.rules)
        stages: list[dict[str, Layout]] = [{"wte": Layout((2,), ((), ()))}, {}]
        for name in tensors:
            if name != "wte":
                stages[int(name.split(".")[1]) // 2][name] = Layout((2,), ((0,), ()) if "attn" in name else ((), (0,)))
        self.assert_ranks(out, tensors, Strategy(stages))

    def test_nothing_to_complete(self) -> None:
        """Through a map that knows them all: the same target in each form of a strategy."""
        self.hub = {name: tensor for name, tensor in self.hub.items() if "adapter" not in name and name != SCORE}
        self.source = write_hub(self.root / "plain", self.hub, self.config)
        self.assertEqual(self.write_rules("tp=2,pp=2", 0, *MAP), "")
        self.assertNotIn("undecided", self.rules.read_text())
        self.assertEqual(tomllib.loads(self.rules.read_text())["devices"]["stages"], 2)
        out = self.export("out", self.source, *MAP, "--dst-strategy", self.rules)
        self.assert_ranks(out, self.mcore, mcore_strategy(self.mcore))
        by_sizes = run("hash", self.source, *MAP, "--dst-strategy", "tp=2,pp=2").stdout
        for name in ("strategy.ckpt", "strategy.json"):
            result = run("strategy", "convert", "tp=2,pp=2", "--source", self.source, *MAP, "-O", self.root / name)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertEqual(run("hash", self.source, *MAP, "--dst-strategy", self.root / name).stdout, by_sizes)

    def test_uneven_layers(self) -> None:
        self.hub = {name: tensor for name, tensor in self.hub.items() if "adapter" not in name and name != SCORE}
        self.source = write_hub(self.root / "plain", self.hub, self.config)
        self.write_rules("pp=2", 0, "--stage-layers", "2,0")
        self.assertEqual(run("hash", self.source, "--dst-strategy", self.rules).stdout,
                         run("hash", self.source, "--dst-strategy", "pp=2", "--stage-layers", "2,0").stdout)

    def test_other_forms_have_no_blanks(self) -> None:
        self.fails(2, "strategy", "convert", "tp=2", "--source", self.source, "-O", self.root / "strategy.ckpt",
                   words=("5 parameters", "-O rules.toml"))
        self.assertFalse((self.root / "strategy.ckpt").exists())
        self.fails(2, "strategy", "convert", "tp=2", "-O", self.rules, words=("--source",))

    def test_a_set_that_records_its_layouts(self) -> None:
        """Sizes are derived from these, and no map is asked."""
        source = ROOT / "tests/golden2/dp2tp2_to_tp4/src"
        result = run("strategy", "convert", "tp=4", "--source", source, "-O", self.rules)
        self.assertEqual((result.code, result.stderr), (0, ""))
        by_rules, by_sizes = (run("hash", source, "--dst-strategy", target) for target in (self.rules, "tp=4"))
        self.assertEqual((by_rules.code, by_rules.stdout), (0, by_sizes.stdout), by_rules.stderr)


if __name__ == "__main__":
    run_unittests()
