# SPDX-License-Identifier: Apache-2.0
"""`reshardfs plan --svg`: the pictures are XML that loads nothing, and their figures are the
plan's."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from command_tests import CommandTest, run_command_tests  # noqa: E402
from layouts import Layout  # noqa: E402
from make_large import make_large  # noqa: E402
from mounted import run, scratch  # noqa: E402
from picture_sets import HOSTILE, rows, small_set, write_set  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
CELL = re.compile(r"target ranks? ([\d,-]+) from source ranks? ([\d,-]+): (.*)")


def ranks_of(text: str) -> list[int]:
    ranks = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def bytes_of(text: str) -> int:
    exact = re.search(r"\((\d+) bytes\)", text)
    return int(exact.group(1) if exact else text.removesuffix(" B"))


class PictureTest(CommandTest):
    command = "plan"

    def picture(self, *arguments: str) -> ElementTree.Element:
        text = self.says(0, *arguments, "--svg", "-")
        root = ElementTree.fromstring(text)
        self.assertEqual(root.tag, SVG + "svg")
        # Nothing of it comes from elsewhere, and nothing runs.
        self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?:|url\(|@import")
        self.assertEqual({e.tag for e in root.iter()} - {SVG + t for t in
                         ("svg", "title", "style", "g", "rect", "text")}, set())
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        for rect in root.iter(SVG + "rect"):
            # A copy that loses its style sheet must not be black.
            self.assertIsNotNone(rect.get("fill"), rect.attrib)
            x, y, w, h = (float(rect.get(k, "nan")) for k in ("x", "y", "width", "height"))
            self.assertTrue(0 <= x and 0 <= y and 0 <= w and 0 <= h, rect.attrib)
            self.assertTrue(x + w <= width + 0.11 and y + h <= height + 0.11, rect.attrib)
        return root

    def titles(self, root: ElementTree.Element) -> list[str]:
        return [rect[0].text or "" for rect in root.iter(SVG + "rect") if len(rect)]

    def cells(self, root: ElementTree.Element) -> dict[tuple[str, str], int]:
        found = (CELL.fullmatch(title) for title in self.titles(root))
        return {(m.group(1), m.group(2)): bytes_of(m.group(3)) for m in found if m}


class TrafficPicture(PictureTest):
    def equals_the_plan(self, arguments: list[str]) -> dict[tuple[str, str], int]:
        cells = self.cells(self.picture(*arguments))
        plan = json.loads(self.says(0, *arguments, "--json"))
        expected: Counter[tuple[str, str]] = Counter()
        row_of = {rank: row for row, _ in cells for rank in ranks_of(row)}
        column_of = {rank: column for _, column in cells for rank in ranks_of(column)}
        for entry in plan["ranks"]:
            for source in entry["sources"]:
                expected[row_of[entry["rank"]], column_of[source["rank"]]] += source["bytes"]
        self.assertEqual(cells, dict(expected))
        return cells

    def test_the_figures_are_those_of_the_plan(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            cells = self.equals_the_plan(arguments)
            self.assertEqual(len(cells), 4 * 8, "wq takes something from every rank")
            self.equals_the_plan([*arguments, "--ranks", "1-2"])

    def test_parts_of_one_tensor_that_a_map_makes_are_told_apart(self) -> None:
        with scratch() as root:
            arguments = write_set(root, {"w": ((4, 4), rows(2), rows(2))})
            (root / "map.toml").write_text(
                "".join(f'[[map]]\nto = "{name}"\nfrom = "w"\nshape = "[4, 4]"\n'
                        f'ops = ["split 0 2 {part}"]\n' for part, name in enumerate("ab")))
            cells = self.equals_the_plan([*arguments[:3], "--dst-strategy", "none", "--map",
                                          str(root / "map.toml")])
            self.assertEqual(sorted(cells.values()), [32, 32])

    def test_many_ranks_are_drawn_in_groups(self) -> None:
        with scratch() as root:
            make_large(root, dp=64, tp=8, stages=1, parameters=30, dst_dp=32, dst_tp=4)
            arguments = [str(root / "src"), "--src-strategy", str(root / "src.ckpt"),
                         "--dst-strategy", str(root / "dst.ckpt")]
            cells = self.equals_the_plan(arguments)
            self.assertLessEqual(len(cells), 64 * 64)
            self.assertIn("504-511", {column for _, column in cells})
            text = self.says(0, *arguments, "--svg", "-")
            self.assertLess(len(text), 1 << 20)

    def test_one_rank(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            cells = self.cells(self.picture(*arguments, "--rank", "3"))
            plan = json.loads(self.says(0, *arguments, "--rank", "3", "--json"))
            self.assertEqual(cells, {("3", str(s["rank"])): s["bytes"] for s in plan["sources"]})


class ParameterPicture(PictureTest):
    def regions(self, arguments: list[str], name: str) -> set[str]:
        return {t for t in self.titles(self.picture(*arguments, "--param", name)) if "\u2190" in t}

    def test_each_part_names_both_ranks(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            self.assertEqual(
                self.regions(arguments, "model.wq"),
                {f"[{8 * s}:{8 * s + 8}, {8 * d}:{8 * d + 8}] target rank {d} \u2190 "
                 f"source rank {s}" for s in range(8) for d in range(4)})
            self.assertEqual(self.regions(arguments, "model.norm"),
                             {"[0:64] target ranks 0-3 \u2190 source rank 0"})

    def test_only_shown_ranks_are_named(self) -> None:
        with scratch() as root:
            found = self.regions([*small_set(root), "--ranks", "2"], "model.wo")
            self.assertIn("[0:128, 16:20] target rank 2 \u2190 source rank 4", found)
            self.assertIn("[0:128, 0:4] no shown rank \u2190 source rank 0", found)

    def test_more_than_two_dimensions(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            text = self.says(0, *arguments, "--param", "model.experts", "--svg", "-")
            self.assertIn("Dimension 0 runs down, dimension 2 across; no other is cut.", text)
            self.assertIn("[4:5, :, 8:16] target rank 3 \u2190 source rank 4",
                          self.regions(arguments, "model.experts"))

    def test_dimensions_that_are_not_drawn_are_named(self) -> None:
        with scratch() as root:
            cube = Layout((2, 2, 2), ((0,), (1,), (2,)))
            arguments = write_set(root, {"w": ((4, 4, 4), cube, cube)})
            text = self.says(0, *arguments, "--param", "w", "--svg", "-")
            self.assertIn("at index 0 of dimension 2, also cut.", text)
            self.assertEqual(len(self.regions(arguments, "w")), 4)

    def test_more_ranks_than_hues_have_a_ramp_and_numbers(self) -> None:
        with scratch() as root:
            arguments = write_set(root, {"w": ((32, 8), rows(32), rows(8))})
            picture = self.picture(*arguments, "--param", "w")
            fills = {rect[0].text: rect.get("fill") for rect in picture.iter(SVG + "rect")
                     if len(rect) and "\u2190" in (rect[0].text or "")}
            self.assertEqual(len(fills), 32)
            self.assertEqual(len(set(fills.values())), 32, "two ranks have one color")
            texts = [text.text for text in picture.iter(SVG + "text")]
            for rank in range(32):
                self.assertEqual(texts.count(f"from {rank}"), 1)
            legend = {rect[0].text for rect in picture.iter(SVG + "rect") if len(rect)}
            self.assertLessEqual({f"source rank {rank}" for rank in range(32)}, legend)

    def test_hostile_names(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            for name in HOSTILE:
                with self.subTest(name=name):
                    self.picture(*arguments, "--param", name)

    def test_a_parameter_that_is_not_there(self) -> None:
        with scratch() as root:
            for name, hint in (("model.w", "did you mean 'model.wq'?"), ("none", "inspect")):
                self.refused(2, *small_set(root), "--svg", "-", "--param", name,
                             words=(f"'{name}'", "no parameter of this name", hint))


class WhereItGoes(PictureTest):
    def test_a_file(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            picture = root / "traffic.svg"
            self.assertEqual(self.says(0, *arguments, "--svg", str(picture)), "")
            first = picture.read_text()
            self.assertEqual(first, self.says(0, *arguments, "--svg", "-"))
            self.refused(2, *arguments, "--svg", str(picture), words=("traffic.svg", "--force"))
            self.says(0, *arguments, "--svg", str(picture), "--force")
            self.assertEqual(sorted(p.name for p in root.iterdir()),
                             ["ckpt", "dst.ckpt", "src.ckpt", "traffic.svg"])

    def test_what_does_not_go_together(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            self.refused(2, *arguments, "--svg", "-", "--json", words=("--svg", "--json"))
            self.refused(2, *arguments, "--param", "model.wq", words=("--param", "--svg"))

    def test_an_error_leaves_no_file(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            result = run("plan", *arguments, "--svg", str(root / "x.svg"), "--param", "nothing")
            self.assertEqual(result.code, 2)
            self.assertEqual(list(root.glob("x.svg*")), [])


class Replicas(PictureTest):
    def test_the_lowest_replica_is_drawn(self) -> None:
        with scratch() as root:
            replicated = Layout((2, 2), ((0,), ()))
            arguments = write_set(root, {"w": ((8, 8), replicated, rows(1))})
            cells = self.cells(self.picture(*arguments))
            self.assertEqual(cells, {("0", "0"): 128, ("0", "1"): 128})


if __name__ == "__main__":
    run_command_tests()
