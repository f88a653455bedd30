# SPDX-License-Identifier: Apache-2.0
"""`reshardfs plan --simulate`: its figures against the plan's, against what a mount reads when the
ranks of a node are read through it, and in all the forms that it is shown in."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from command_tests import CommandTest  # noqa: E402
from make_large import make_large  # noqa: E402
from make_checkpoint import GeneratedSet, Parallel, make_set  # noqa: E402
from mounted import mounted, run_unittests, scratch  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
BLOCK = 1 << 20
# Per source, target and number of nodes: cuts along both dimensions, more and fewer ranks. Of these
# sets the columns are narrow: those of a rank are fetched with the others between them.
CHANGES = [
    (Parallel(tp=4), Parallel(tp=8), 2),
    (Parallel(tp=8), Parallel(tp=2), 2),
    (Parallel(tp=2, dp=2), Parallel(tp=2, dp=4), 4),
    (Parallel(tp=4), Parallel(tp=4), 1),
]


class Simulation(CommandTest):
    command = "plan"

    @contextlib.contextmanager
    def set_of(self, source: Parallel, target: Parallel) -> Iterator[GeneratedSet]:
        with scratch() as directory:
            yield make_set(directory, source, target, layers=2)

    def nodes(self, made: GeneratedSet, nodes: int, *more: str) -> list[dict]:
        return json.loads(self.says(0, str(made.source), *map(str, made.options()), "--simulate",
                                    str(nodes), "--json", *more))["nodes"]

    def test_each_rank_fetches_what_the_plan_says(self) -> None:
        for source, target, count in CHANGES:
            with self.subTest(f"{source} {target}"), self.set_of(source, target) as made:
                plan = json.loads(self.says(0, str(made.source), *map(str, made.options()), "--json"))
                read = {entry["rank"]: sum(part["bytes"] for part in entry["sources"])
                        for entry in plan["ranks"]}
                nodes = self.nodes(made, count)
                self.assertEqual([rank for node in nodes for rank in node["ranks"]], sorted(read))
                for node in nodes:
                    # Nothing is cast.
                    self.assertEqual(node["needed_bytes"], sum(read[r] for r in node["ranks"]))
                    if target.tp <= source.tp:
                        self.assertEqual(node["fetched_bytes"], node["needed_bytes"])
                    else:
                        self.assertGreater(node["fetched_bytes"], node["needed_bytes"])

    def test_a_mount_reads_what_the_model_says(self) -> None:
        for source, target, count in CHANGES:
            with self.subTest(f"{source} {target}"), self.set_of(source, target) as made:
                self.check_reads(made.source, [*map(str, made.options())], count)

    def test_a_mount_reads_columns_as_the_model_says(self) -> None:
        # Of 64 KiB and more to a row, so that a rank's columns are not joined.
        with scratch() as directory:
            make_large(directory, dp=1, tp=2, stages=1, parameters=30, dst_dp=1, dst_tp=4,
                       rows=4, columns=1 << 14)
            self.check_reads(directory / "src", ["--src-strategy", str(directory / "src.ckpt"),
                                                 "--dst-strategy", str(directory / "dst.ckpt")], 2)

    def check_reads(self, source: Path, options: list[str], count: int) -> None:
        """The ranks of each node, read through a mount."""
        text = self.says(0, str(source), *options, "--simulate", str(count), "--json")
        with mounted(source, *options) as mountpoint:
            def read_so_far() -> int:
                status = json.loads((mountpoint / ".reshardfs/status.json").read_text())
                return status["activity"]["bytes_read_from_sources"]

            for node in json.loads(text)["nodes"]:
                before = read_so_far()
                for rank in node["ranks"]:
                    for file in (mountpoint / f"rank_{rank}").iterdir():
                        file.read_bytes()
                measured = read_so_far() - before
                self.assertLess(abs(measured / node["fetched_bytes"] - 1), 0.03,
                                f"{measured} bytes, {node}")

    def test_with_a_cache_each_block_is_fetched_once(self) -> None:
        # All ranks of a node: every byte that is needed at all, in blocks; never less than that.
        with self.set_of(Parallel(tp=2), Parallel(tp=2, dp=4)) as made:
            (all_ranks,) = self.nodes(made, 1)
            files = [path.stat().st_size for path in made.source.rglob("*.ckpt")]
            self.assertLessEqual(all_ranks["fetched_bytes_with_cache"], sum(files))
            self.assertLessEqual(all_ranks["cache_bytes"], sum(files))
            # Four ranks read the same.
            once = all_ranks["fetched_bytes"] / 4
            self.assertGreaterEqual(all_ranks["fetched_bytes_with_cache"], once)
            self.assertLess(all_ranks["fetched_bytes_with_cache"], once + BLOCK * 2 * len(files) * 40)
            single = self.nodes(made, 8)
            self.assertEqual({node["cache_bytes"] for node in single[0::2]},
                             {single[0]["cache_bytes"]})

    def test_casts_count_as_needed_and_fetched(self) -> None:
        with self.set_of(Parallel(tp=2), Parallel(tp=2)) as made:
            (plain,) = self.nodes(made, 1)
            (cast,) = self.nodes(made, 1, "--cast", "fp32->bf16")
            self.assertLess(cast["needed_bytes"], plain["needed_bytes"])
            self.assertEqual(cast["fetched_bytes"], plain["fetched_bytes"])

    def test_times_are_bytes_by_bandwidth(self) -> None:
        with self.set_of(Parallel(tp=4), Parallel(tp=8)) as made:
            words = [str(made.source), *map(str, made.options()), "--simulate", "4", "--json"]
            told = json.loads(self.says(0, *words, "--node-bandwidth", "8Mbit/s",
                                        "--store-bandwidth", "2MB"))
            self.assertEqual(told["bytes_per_second"], {"node": 1e6, "store": 2e6})
            for form, key in (("without_cache", "fetched_bytes"),
                              ("with_cache", "fetched_bytes_with_cache")):
                most = max(node[key] for node in told["nodes"]) / 1e6
                everything = sum(node[key] for node in told["nodes"]) / 2e6
                self.assertEqual(told["total"][key], sum(node[key] for node in told["nodes"]))
                times = told["seconds"][form]
                self.assertAlmostEqual(times["node"], most)
                self.assertAlmostEqual(times["store"], everything)
                self.assertEqual(times["at_least"], max(times["node"], times["store"]))
            unknown = json.loads(self.says(0, *words))["seconds"]["with_cache"]
            self.assertEqual(unknown, {"node": None, "store": None, "at_least": None})

    def test_the_table(self) -> None:
        with self.set_of(Parallel(tp=4), Parallel(tp=8)) as made:
            words = [str(made.source), *map(str, made.options())]
            lines = self.says(0, *words, "--simulate", "3").splitlines()
            self.assertEqual(lines[0], "8 target ranks on 3 nodes: node 0 has ranks 0-2, node 2 ranks 6,7")
            self.assertEqual(lines[2].split()[:2], ["EACH", "NEEDS"])
            self.assertIn("For times, give --node-bandwidth and --store-bandwidth.", lines)
            self.assertIn("A second run fetches the same again without a cache", lines[-1])
            text = self.says(0, *words, "--ranks", "0-3", "--simulate", "2", "--node-bandwidth", "1MB")
            self.assertTrue(text.startswith("4 target ranks on 2 nodes: node 0 has ranks 0,1,"))
            self.assertRegex(text, r"(?m)^slowest node +976\.6 KiB/s +[\d.]+ s +[\d.]+ s$")
            self.assertRegex(text, r"(?m)^store +no bandwidth given +- +-$")

    def test_the_picture_has_the_figures(self) -> None:
        with self.set_of(Parallel(tp=4), Parallel(tp=8)) as made:
            words = [str(made.source), *map(str, made.options()), "--simulate", "4"]
            root = ElementTree.fromstring(self.says(0, *words, "--svg", "-"))
            titles = [rect[0].text or "" for rect in root.iter(SVG + "rect") if len(rect)]
            found = {}
            for title in titles:
                node, ranks, what, count = re.fullmatch(
                    r"node (\d+), target ranks? ([\d,-]+): (.+?) [\d.]+ \w+ \((\d+) bytes\)",
                    title).groups()
                found[int(node), what] = int(count)
            for number, node in enumerate(self.nodes(made, 4)):
                self.assertEqual(found[number, "needed"], node["needed_bytes"])
                self.assertEqual(found[number, "fetched without a cache"], node["fetched_bytes"])
                self.assertEqual(found[number, "fetched with a cache on the node"],
                                 node["fetched_bytes_with_cache"])
            width, height = float(root.get("width", 0)), float(root.get("height", 0))
            for rect in root.iter(SVG + "rect"):
                x, y, w, h = (float(rect.get(k, "nan")) for k in ("x", "y", "width", "height"))
                self.assertTrue(0 <= x and x + w <= width + 0.11, rect.attrib)
                self.assertTrue(0 <= y and y + h <= height + 0.11, rect.attrib)

    def test_what_cannot_be(self) -> None:
        with self.set_of(Parallel(tp=2), Parallel(tp=4)) as made:
            words = [str(made.source), *map(str, made.options())]
            for nodes in ("0", "-1", "5"):
                self.refused(2, *words, f"--simulate={nodes}",
                             words=(f"4 target ranks cannot be spread over {nodes} nodes",))
            for text in ("fast", "0GB", "-1GB", "1", "5GX", "nanGB", "infGB", "GB"):
                self.refused(2, *words, "--simulate", "2", f"--node-bandwidth={text}",
                             words=(f"--node-bandwidth does not take '{text}'; write bytes or bits",))
            self.refused(2, *words, "--node-bandwidth", "1GB", words=("--simulate",))
            self.refused(2, *words, "--simulate", "2", "--rank", "0", words=("--rank",))


if __name__ == "__main__":
    run_unittests()
