# SPDX-License-Identifier: Apache-2.0
"""`reshardfs strategy show` on a terminal: no line is wider, and nothing is lost that fits. Where
the output is no terminal every row is one line, whole."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from command_tests import on_terminal  # noqa: E402
from golden_cases import GOLDEN  # noqa: E402
from layouts import Layout  # noqa: E402
from mounted import run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, read_strategy, write_protobuf  # noqa: E402

LONG = "model.decoder.layers.{}.mixture_of_experts.expert_{}.feed_forward.projection.weight"


def large() -> Strategy:
    """4 stages of 64 devices with long names and nested maps."""
    matrix = (2, 2, 2, 2, 4)
    maps = ((((4, 3, 2), (1, 0))), ((1, 0), ()), ((4, 1), (3, 0), ()), ((2,), (), (), (0,)))
    return Strategy([
        {LONG.format(16 * stage + layer, number): Layout(matrix, maps[number], -1 if number else 0)
         for layer in range(3) for number in range(4)} | {f"short.{stage}": Layout(matrix, ((),))}
        for stage in range(4)])


class Show(unittest.TestCase):
    def assert_narrow(self, lines: list[str], columns: int) -> None:
        for line in lines:
            self.assertLessEqual(len(line), columns, line)

    def test_golden_strategies(self) -> None:
        paths = sorted(path for path in GOLDEN.glob("*/*_strategy.*") if path.suffix != ".txt")
        self.assertGreater(len(paths), 80)
        for path in paths:
            with self.subTest(path.relative_to(GOLDEN)):
                lines = on_terminal("strategy", "show", path)
                self.assert_narrow(lines, 80)
                text = run("strategy", "show", path).stdout
                self.assertEqual(sorted(" ".join(lines).split()), sorted(text.split()),
                                 "something was lost, and nothing had to be")
        for path in (path for path in paths if path.suffix == ".ckpt"):
            strategy = read_strategy(path)
            name = max(strategy.stages[-1], key=lambda n: len(strategy.stages[-1][n].tensor_map))
            with self.subTest(path.relative_to(GOLDEN), name=name):
                self.assert_narrow(on_terminal("strategy", "show", path, "--param", name), 80)

    def test_long_names_and_nested_maps(self) -> None:
        strategy = large()
        with scratch() as root:
            path = root / "large.ckpt"
            write_protobuf(strategy, path)
            for columns in (80, 60, 120, 40):
                with self.subTest(columns=columns):
                    lines = on_terminal("strategy", "show", path, columns=columns)
                    self.assert_narrow(lines, columns)
                    self.assertEqual(sum("short." in line for line in lines), 4)
            lines = on_terminal("strategy", "show", path)
            # Its begin and its end; 73 of 81 columns are left of it.
            shown = [line for line in lines if "..." in line]
            self.assertEqual(len(shown), 4 * 12, lines)
            for line in shown:
                self.assertRegex(line, r"model\.decoder\.layers\.\d+\..*\.\.\..*\.weight$")
            row = lines[lines.index(shown[0]) + 1]
            self.assertIn("[2, 2, 2, 2, 4]", row)
            self.assertIn("[[4, 3, 2], [1, 0]]", row)
            for name in (LONG.format(0, 0), LONG.format(1, 2), "short.0"):
                for columns in (80, 40):
                    lines = on_terminal("strategy", "show", path, "--param", name, columns=columns)
                    self.assert_narrow(lines[:1] if columns == 40 else lines, columns)
                    self.assertIn("part", "".join(lines))

    def test_many_ranks_of_one_part(self) -> None:
        """1024 devices, of which every other one has the same."""
        with scratch() as root:
            path = root / "wide.ckpt"
            write_protobuf(Strategy([{"w": Layout((512, 2), ((0,), (), ()))}]), path)
            lines = on_terminal("strategy", "show", path, "--param", "w")
            self.assert_narrow(lines, 80)
            ranks = "".join(line.strip() for line in lines).split("ranks ")[-1]
            self.assertEqual(ranks, ",".join(map(str, range(1, 1024, 2))))

    def test_no_terminal_gets_whole_lines(self) -> None:
        with scratch() as root:
            path = root / "large.ckpt"
            write_protobuf(large(), path)
            lines = run("strategy", "show", path).stdout.splitlines()
            rows = [line.split("  ") for line in lines if "layers." in line or "short." in line]
            self.assertEqual(len(rows), 4 * 13)
            self.assertIn(LONG.format(50, 3), [word for row in rows for word in row])

    def test_the_variable_wins(self) -> None:
        with scratch() as root:
            path = root / "large.ckpt"
            write_protobuf(large(), path)
            wide = on_terminal("strategy", "show", path, COLUMNS="200")
            self.assertGreater(max(map(len, wide)), 120)
            self.assert_narrow(on_terminal("strategy", "show", path, columns=200, COLUMNS="70"), 70)
            for nonsense in ("", "x", "0"):
                lines = on_terminal("strategy", "show", path, columns=100, COLUMNS=nonsense)
                self.assert_narrow(lines, 100)


if __name__ == "__main__":
    run_unittests()
