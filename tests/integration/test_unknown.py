# SPDX-License-Identifier: Apache-2.0
"""Sources whose rules miss a parameter: nothing is taken for whole that could be a slice."""

from __future__ import annotations

import unittest
from pathlib import Path

# First, because it finds the modules of tests/data.
from test_scenarios import Tensors, random_tensors, write_ranks

import numpy as np
from ckpt_format import by_name, record_of
from command_tests import run_command_tests
from mounted import Result, one_line, run, scratch

RULE = '\n[[rule]]\nmatch = {}\n'
CUT = 'cut = ["tp", ""]\n'


def rules(*lines: str, devices: str = 'axes = ["tp=2"]\n') -> str:
    return f"[devices]\n{devices}" + "".join(lines)


class Unknown(unittest.TestCase):
    """Two ranks with rows of `w`, which a rule takes, and other parameters, which none does."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.w = random_tensors({"w": (8, 6)})["w"]
        self.rules = rules(RULE.format('"w"') + CUT)

    def write(self, *ranks: Tensors) -> None:
        half = len(self.w) // 2
        files = {
            f"rank_{rank}/net-1_1.ckpt": [
                record_of(name, "Float32", array) for name, array in
                ({"w": self.w[half * (rank % 2):half * (rank % 2 + 1)]} | others).items()
            ] for rank, others in enumerate(ranks)
        }
        write_ranks(self.root / "src", files)

    def run_on(self, command: str, *words: str | Path) -> Result:
        (self.root / "src.toml").write_text(self.rules)
        return run(command, self.root / "src", *words, "--src-strategy", self.root / "src.toml")

    def refused(self, *words: str) -> str:
        """By what shows a conversion, by diff, and by `strategy check`."""
        for command in (("hash",), ("plan",), ("export", self.root / "out")):
            result = self.run_on(*command)
            self.assertEqual((result.code, result.stdout), (2, ""), result.stderr)
            for word in words:
                self.assertIn(word, one_line(result), command)
        result = run("diff", self.root / "src", self.root / "src",
                     "--a-strategy", self.root / "src.toml")
        self.assertEqual((result.code, result.stdout), (2, ""), result.stderr)
        check = run("strategy", "check", self.root / "src.toml", "--source", self.root / "src")
        self.assertEqual(check.code, 1, check.stderr)
        for word in words:
            self.assertIn(word, one_line(check))
        return check.stderr

    def shown(self, *words: str | Path, warning: str | None = None) -> dict[str, np.ndarray]:
        """The whole model, with one warning or none."""
        result = self.run_on("export", self.root / "out", "--views", "merged", "--format", "ckpt",
                             "--force", *words)
        self.assertEqual(result.code, 0, result.stderr)
        if warning is None:
            self.assertEqual(result.stderr, "")
        else:
            self.assertIn(warning, one_line(result))
        data = (self.root / "out/merged/checkpoint_merged.ckpt").read_bytes()
        return {name: record.array() for name, record in by_name(data).items()}

    def checked(self) -> str:
        (self.root / "src.toml").write_text(self.rules)
        result = run("strategy", "check", self.root / "src.toml", "--source", self.root / "src")
        self.assertEqual((result.code, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def test_slices_that_differ_are_refused_with_the_rule_to_write(self) -> None:
        head = random_tensors({"lm_head.weight": (6, 4)})["lm_head.weight"]
        self.write({"lm_head.weight": head[:3]}, {"lm_head.weight": head[3:]})
        self.refused("src.toml", "'lm_head.weight' [3, 4]", "differ between the ranks",
                     '[[rule]] match = "lm_head.weight", cut = ["tp", ""]')
        self.rules += RULE.format('"lm_head.weight"') + CUT
        np.testing.assert_array_equal(self.shown()["lm_head.weight"], head)

    def test_an_error_names_several(self) -> None:
        a, b = random_tensors({"a": (4,)})["a"], random_tensors({"b": (4,)}, 2)["b"]
        layers = {f"layers.{i}.b": i + b for i in range(7)}
        self.write({"a": a[:2]} | {n: v[:2] for n, v in layers.items()},
                   {"a": a[2:]} | {n: v[2:] for n, v in layers.items()})
        self.refused("'a' [2], 'layers.0.b' [2], ", "'layers.6.b' [2], whose slices", '["a", "layers.*.b"]',
                     'cut = ["tp"]')

    def test_differing_shapes_are_slices(self) -> None:
        uneven = random_tensors({"u": (5,)})["u"]
        self.write({"u": uneven[:3]}, {"u": uneven[3:]})
        self.refused("'u'", "differ between the ranks")

    def test_a_scalar_that_differs_is_no_slice(self) -> None:
        self.write({"seed": np.array(1, "<f4")}, {"seed": np.array(2, "<f4")})
        self.refused("'seed' []", "values differ between the ranks", '[[rule]] match = "seed"',
                     "--replicas", "--exclude")
        self.rules += RULE.format('"seed"')
        self.assertEqual(self.shown("--replicas", "first", warning="seed")["seed"], 1)

    def test_equal_ones_are_whole_and_one_line_says_so(self) -> None:
        norm = random_tensors({"n": (6,)})["n"]
        others = {"norm.weight": norm, "global_step": np.array([7], "<f4"),
                  "scale": np.array(2, "<f4")}
        self.write(others, others)
        line = ("no rule of {} matches 'norm.weight', 'global_step', 'scale'; all ranks hold equal bytes, and they "
                "are taken as whole; to confirm, add [[rule]] match = [")
        found = self.shown(warning=line.format(self.root / "src.toml"))
        for name, array in others.items():
            np.testing.assert_array_equal(found[name], array)
        self.assertIn("'norm.weight', 'global_step', 'scale'; all ranks hold equal bytes", self.checked())
        self.rules += RULE.format('["norm.weight", "global_step", "scale"]')
        self.shown()
        self.assertNotIn("all ranks hold equal bytes", self.checked())

    def test_a_target_that_is_rules_cuts_them_all_the_same(self) -> None:
        norm = random_tensors({"n": (6,)})["n"]
        self.write({"norm": norm}, {"norm": norm})
        (self.root / "dst.toml").write_text(
            rules(RULE.format('"*"') + 'cut = ["tp"]\n', devices='axes = ["tp=2"]\n'))
        result = self.run_on("export", self.root / "out", "--dst-strategy", self.root / "dst.toml")
        self.assertEqual(result.code, 0, result.stderr)
        for rank in range(2):
            data = (self.root / f"out/rank_{rank}/checkpoint_{rank}.ckpt").read_bytes()
            np.testing.assert_array_equal(by_name(data)["norm"].array(),
                                          norm[3 * rank:3 * rank + 3])

    def test_one_value_throughout_could_be_either(self) -> None:
        for name, array in (("norm.weight", np.ones(4, "<f4")), ("m", np.zeros((2, 3), "<f4"))):
            with self.subTest(name):
                self.write({name: array}, {name: array})
                self.refused(f"'{name}'", "all have one value", f'[[rule]] match = "{name}"',
                             'unmatched = "replicate"')
        before = self.rules
        self.rules = before + RULE.format('"m"')
        np.testing.assert_array_equal(self.shown()["m"], array)
        self.rules = before + RULE.format('"m"') + CUT
        self.assertEqual(self.shown()["m"].shape, (4, 3))
        self.rules = before.replace("[devices]\n", '[devices]\nunmatched = "replicate"\n')
        self.assertEqual(self.shown()["m"].shape, (2, 3))
        self.rules = before.replace("[devices]\n", '[devices]\nunmatched = "unknown"\n')
        self.run_on("plan")
        self.refused("'m'")

    def test_a_single_rank_tells_nothing(self) -> None:
        self.write({"n": self.w[0]}, {})
        self.refused("'n' [6]", "a single rank")
        self.write({"epoch": np.array([3], "<f4")}, {})
        self.assertEqual(self.shown(warning="'epoch'")["epoch"], [3])

    def test_what_is_left_out_is_not_looked_at(self) -> None:
        head = random_tensors({"h": (6, 4)})["h"]
        self.write({"h": head[:3]}, {"h": head[3:]})
        self.assertEqual(set(self.shown("--exclude", "h")), {"w"})
        self.assertEqual(set(self.shown("--include", "w")), {"w"})

    def test_states_follow_their_weights(self) -> None:
        """Zeros, too: their weight says how they are cut."""
        moment = random_tensors({"m": (8, 6)}, 2)["m"]
        zeros = np.zeros((4, 6), "<f4")
        norm = {"norm": self.w[0], "moments.norm": np.zeros(6, "<f4")}
        self.write({"adam_m.w": moment[:4], "adam_v.w": zeros} | norm,
                   {"adam_m.w": moment[4:], "adam_v.w": zeros} | norm)
        found = self.shown(warning="matches 'norm'; all ranks")
        np.testing.assert_array_equal(found["adam_m.w"], moment)
        self.assertEqual(found["adam_v.w"].shape, (8, 6))
        self.assertEqual(found["moments.norm"].shape, (6,))

    def test_stages_are_compared_each_in_itself(self) -> None:
        self.rules = rules(RULE.format('"w"') + CUT, devices='axes = ["tp=2"]\nstages = 2\n')
        one, two = ({"n": self.w[i]} for i in range(2))
        self.write(one, one, two, two)
        np.testing.assert_array_equal(self.shown(warning="'n'")["n"], self.w[0])
        self.write(one, one, two, one)
        self.refused("'n' [6]", "differ between the ranks")

    def test_a_stage_of_one_device_has_wholes_alone(self) -> None:
        self.rules = rules(devices='axes = ["tp=1"]\nstages = 2\n')
        self.write({"norm": np.ones(4, "<f4")}, {"late": np.ones(4, "<f4")})
        self.assertEqual(set(self.shown()), {"w", "norm", "late"})

    def test_rules_without_a_rule(self) -> None:
        self.rules = rules()
        self.write({}, {})
        self.refused("'w' [4, 6]")
        write_ranks(self.root / "src", {
            f"rank_{rank}/net-1_1.ckpt": [record_of("w", "Float32", self.w)] for rank in range(2)})
        np.testing.assert_array_equal(self.shown(warning="'w'")["w"], self.w)

    def test_verify_calls_them_each_ranks_own(self) -> None:
        head = random_tensors({"h": (6, 4)})["h"]
        self.write({"h": head[:3]}, {"h": head[3:]})
        result = self.run_on("verify", "--json")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn('"h"', result.stdout)


if __name__ == "__main__":
    run_command_tests()
