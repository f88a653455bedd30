# SPDX-License-Identifier: Apache-2.0
"""The jobs that reshardfs exists for, end to end on a real mount with random values."""

from __future__ import annotations

import json
import sys
import unittest
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import Record, by_name, encode_checkpoint, record_of  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from mounted import mounted, rank_files, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf, write_stages  # noqa: E402

Tensors = dict[str, np.ndarray]
ROWS, COLUMNS, WHOLE = ((0,), ()), ((), (0,)), ((),)


def random_tensors(shapes: Mapping[str, tuple[int, ...]], seed: int = 1) -> Tensors:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}


def layouts(matrix: tuple[int, ...], maps: Mapping[str, tuple], opt: int = 0) -> dict[str, Layout]:
    return {name: Layout(matrix, map_, opt) for name, map_ in maps.items()}


def slices(tensors: Tensors, strategy: Strategy, rank: int, others: Tensors) -> list[Record]:
    """The file of a rank: its slices, then what no strategy lays out."""
    stage, local = divmod(rank, strategy.devices_per_stage)
    records = [
        record_of(name, "Float32", np.ascontiguousarray(shard(tensors[name], layout, local)))
        for name, layout in strategy.stages[stage].items()
    ]
    return records + [record_of(name, "Float32", array) for name, array in others.items()]


def write_ranks(root: Path, files: Mapping[str, list[Record]]) -> Path:
    for path, records in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(encode_checkpoint(records))
    return root


class Scenario(unittest.TestCase):
    maxDiff = 400

    def assert_file(self, path: Path, expected: list[Record]) -> None:
        found = by_name(path.read_bytes())
        self.assertEqual(sorted(found), sorted(record.name for record in expected))
        for record in expected:
            self.assertEqual(found[record.name], record, record.name)

    def assert_merged(self, mountpoint: Path, tensors: Tensors, prefix: str = "checkpoint_") -> None:
        self.assert_file(
            mountpoint / "merged" / f"{prefix}merged.ckpt",
            [record_of(name, "Float32", array) for name, array in tensors.items()],
        )

    def check(self, tensors: Tensors, src: Strategy, dst: Strategy, others: Tensors) -> None:
        """Every target rank and the merged file, by MindSpore's own strategy files."""
        with scratch() as root:
            write_ranks(root, {
                f"src/rank_{rank}/net-1_1.ckpt": slices(tensors, src, rank, others)
                for rank in range(src.rank_count)
            })
            write_protobuf(src, root / "src.ckpt")
            write_protobuf(dst, root / "dst.ckpt")
            with mounted(root / "src", "--src-strategy", root / "src.ckpt",
                         "--dst-strategy", root / "dst.ckpt") as mountpoint:
                files = rank_files(mountpoint)
                self.assertEqual(len(files), dst.rank_count)
                for rank, path in files.items():
                    self.assert_file(path, slices(tensors, dst, rank, others))
                self.assert_merged(mountpoint, tensors | others)


class MindSporeStrategies(Scenario):
    MAPS = {"embedding": ROWS, "w1": ROWS, "w2": COLUMNS, "norm": WHOLE,
            "adam_m.w1": ROWS, "adam_m.w2": COLUMNS}
    OTHERS = {"global_step": np.array([7], "<f4"), "learning_rate": np.array(0.5, "<f4")}

    def tensors(self, multiple: int) -> Tensors:
        return random_tensors({
            "embedding": (2 * multiple, 3), "w1": (multiple, 5), "w2": (4, multiple),
            "norm": (multiple,), "adam_m.w1": (multiple, 5), "adam_m.w2": (4, multiple),
        })

    def test_64_devices_to_one(self) -> None:
        src = Strategy([layouts((64,), self.MAPS)])
        self.check(self.tensors(64), src, Strategy([layouts((1,), self.MAPS)]), self.OTHERS)

    def test_64_devices_to_56(self) -> None:
        self.check(self.tensors(448), Strategy([layouts((64,), self.MAPS)]),
                   Strategy([layouts((56,), self.MAPS)]), self.OTHERS)

    def test_64_as_8_by_8_to_56_as_7_by_8(self) -> None:
        src = Strategy([layouts((8, 8), self.MAPS, opt=2)])
        self.check(self.tensors(112), src, Strategy([layouts((7, 8), self.MAPS)]), self.OTHERS)

    def test_numbers_without_a_common_factor(self) -> None:
        for source, target in ((8, 6), (6, 8), (5, 3)):
            with self.subTest(source=source, target=target):
                self.check(self.tensors(source * target), Strategy([layouts((source,), self.MAPS)]),
                           Strategy([layouts((target,), self.MAPS)]), self.OTHERS)

    def test_8_with_optimizer_parallel_to_4(self) -> None:
        maps = {name: map_ for name, map_ in self.MAPS.items() if name != "adam_m.w2"}
        tensors = self.tensors(32)
        del tensors["adam_m.w2"]
        tensors["w2"] = tensors["w2"].repeat(2, axis=0)
        self.check(tensors, Strategy([layouts((2, 4), maps, opt=-1)]),
                   Strategy([layouts((4,), maps)]), self.OTHERS)

    def test_pipeline_of_2_by_4_to_4(self) -> None:
        first = {"embedding": ROWS, "w1": ROWS, "adam_m.w1": ROWS}
        last = {"w2": COLUMNS, "norm": WHOLE, "adam_m.w2": COLUMNS}
        src = Strategy([layouts((4,), first), layouts((4,), last)])
        self.check(self.tensors(16), src, Strategy([layouts((4,), self.MAPS)]), self.OTHERS)

    def test_4_interleaved_stages_to_3_with_a_shared_embedding(self) -> None:
        shapes = {f"layer.{i}": (12, 2) for i in range(12)} | {"embedding": (24, 2)}
        tensors = random_tensors(shapes)

        def stages(count: int) -> Strategy:
            maps = [{f"layer.{i}": ROWS for i in range(12) if i % count == s} for s in range(count)]
            for stage in (0, count - 1):
                maps[stage]["embedding"] = ROWS
            return Strategy([layouts((2,), each) for each in maps])

        self.check(tensors, stages(4), stages(3), self.OTHERS)

    def test_pipeline_alone(self) -> None:
        src = Strategy([layouts((1,), {"w1": ((), ())}), layouts((1,), {"w2": ((), ())})])
        tensors = {name: self.tensors(16)[name] for name in ("w1", "w2")}
        self.check(tensors, src, Strategy([layouts((2,), {"w1": ROWS, "w2": COLUMNS})]),
                   self.OTHERS)

    def test_stage_files_that_hold_trainable_parameters_alone(self) -> None:
        """Sharded moments that no strategy knows follow their weights."""
        maps = {"w1": ROWS, "w2": COLUMNS}
        tensors = {n: self.tensors(24)[n] for n in ("w1", "w2", "adam_m.w1", "adam_m.w2")}
        full = maps | {f"adam_m.{name}": map_ for name, map_ in maps.items()}
        src, dst = Strategy([layouts((4,), full)]), Strategy([layouts((3,), full)])
        with scratch() as root:
            write_ranks(root, {f"src/rank_{rank}/net-1_1.ckpt": slices(tensors, src, rank, {})
                               for rank in range(4)})
            write_protobuf(Strategy([layouts((4,), maps)]), root / "src.ckpt")
            write_stages(Strategy([layouts((3,), maps)]), root / "dst")
            options = ["--src-strategy", root / "src.ckpt", "--dst-strategy", root / "dst"]
            with mounted(root / "src", *options) as mountpoint:
                for rank, path in rank_files(mountpoint).items():
                    self.assert_file(path, slices(tensors, dst, rank, {}))
            result = run("plan", root / "src", *options)
            self.assertIn("cut like their weights", result.stdout)
            self.assertIn("adam_m.w1", result.stdout)
            result = run("strategy", "check", root / "src.ckpt", "--source", root / "src")
            self.assertIn("adam_m.w2, follows its weight w2", result.stdout)


class WithoutAWhole(Scenario):
    def test_rank_files_are_shown_although_nothing_can_be_merged(self) -> None:
        """A parameter that only the target knows is dropped; what it is as a whole is not known."""
        tensors = random_tensors({"w": (6, 2)})
        maps = {"w": ROWS}
        src, dst = Strategy([layouts((2,), maps)]), Strategy([layouts((3,), maps)])
        with scratch() as root:
            write_ranks(root, {
                f"src/rank_{r}/a-1_1.ckpt": slices(
                    tensors, src, r, random_tensors({"extra": (3, 2)}, seed=r))
                for r in range(2)})
            write_protobuf(src, root / "src.ckpt")
            write_protobuf(Strategy([layouts((3,), maps | {"extra": ROWS})]), root / "dst.ckpt")
            with mounted(root / "src", "--src-strategy", root / "src.ckpt",
                         "--dst-strategy", root / "dst.ckpt") as mountpoint:
                for rank, path in rank_files(mountpoint).items():
                    self.assert_file(path, slices(tensors, dst, rank, {}))
                self.assertFalse((mountpoint / "merged").exists())


class HandWritten(Scenario):
    def hybrid(self, root: Path) -> Tensors:
        """The programming guide's set: 4 nodes with 2 rows each, others the same everywhere."""
        tensors = random_tensors({"weight": (8, 8), "moments.weight": (8, 8)})
        others = {"learning_rate": np.array([0.1], "<f4"), "momentum": np.array([0.9], "<f4")}
        write_ranks(root, {
            f"src/node{node}/CKP_1-4_32.ckpt": [
                *(record_of(n, "Float32", t[2 * node:2 * node + 2]) for n, t in tensors.items()),
                *(record_of(n, "Float32", t) for n, t in others.items()),
            ]
            for node in range(4)
        })
        (root / "two.toml").write_text(
            '[devices]\naxes = ["device=2"]\n\n[[rule]]\nmatch = "*weight"\ncut = ["device"]\n'
        )
        return tensors | others

    def test_hybrid_parallel_without_a_strategy(self) -> None:
        with scratch() as root:
            tensors = self.hybrid(root)
            with mounted(root / "src", "--src-join", "*weight",
                         "--dst-strategy", root / "two.toml") as mountpoint:
                self.assert_merged(mountpoint, tensors)
                for rank, path in rank_files(mountpoint).items():
                    rows = slice(4 * rank, 4 * rank + 4)
                    self.assert_file(path, [
                        record_of(n, "Float32", t[rows] if n.endswith("weight") else t)
                        for n, t in tensors.items()])

    def test_hybrid_parallel_refuses_slices_that_were_not_named(self) -> None:
        with scratch() as root:
            self.hybrid(root)
            result = run("inspect", root / "src")
            self.assertEqual(result.code, 0, result.stderr)
            mountpoint = root / "mnt"
            mountpoint.mkdir()
            result = run("mount", root / "src", mountpoint)
            self.assertEqual(result.code, 2)
            self.assertIn("the ranks hold slices", result.stderr)
            self.assertIn("--src-strategy", result.stderr)

    def test_rows_cut_unevenly(self) -> None:
        """Manual slices of 5, 3, 2 rows, shown balanced over 4."""
        full = random_tensors({"table": (10, 3)})["table"]
        with scratch() as root:
            write_ranks(root, {
                f"src/rank_{rank}/net.ckpt": [record_of("table", "Float32", rows)]
                for rank, rows in enumerate((full[:5], full[5:8], full[8:]))})
            (root / "src.toml").write_text(
                '[devices]\naxes = ["d=3"]\n\n[[rule]]\nmatch = "table"\ncut = ["d"]\n'
                "uneven = [[5, 3, 2]]\n")
            (root / "dst.toml").write_text(
                '[devices]\naxes = ["d=4"]\n\n[[rule]]\nmatch = "table"\ncut = ["d"]\n'
                'uneven = "balanced"\n')
            for options in (["--src-strategy", root / "src.toml"], ["--src-join", "table"]):
                with mounted(root / "src", *options,
                             "--dst-strategy", root / "dst.toml") as mountpoint:
                    for rank, path in rank_files(mountpoint).items():
                        self.assert_file(path, [
                            record_of("table", "Float32", np.array_split(full, 4)[rank])])

    def test_target_sizes_are_derived(self) -> None:
        maps = {"w1": ROWS, "w2": COLUMNS, "norm": WHOLE}
        tensors = random_tensors({"w1": (24, 2), "w2": (3, 24), "norm": (24,)})
        src, dst = Strategy([layouts((4,), maps)]), Strategy([layouts((6,), maps)])
        with scratch() as root:
            write_ranks(root, {f"src/rank_{r}/a-1_1.ckpt": slices(tensors, src, r, {})
                               for r in range(4)})
            write_protobuf(src, root / "src.ckpt")
            with mounted(root / "src", "--src-strategy", root / "src.ckpt",
                         "--dst-strategy", "tp=6") as mountpoint:
                for rank, path in rank_files(mountpoint).items():
                    self.assert_file(path, slices(tensors, dst, rank, {}))

    def test_rules_keep_what_no_strategy_lays_out(self) -> None:
        tensors = random_tensors({"w": (6, 2)})
        others = {"learning_rate": np.array([0.1], "<f4")}
        src = Strategy([layouts((2,), {"w": ROWS})])
        with scratch() as root:
            write_ranks(root, {f"src/rank_{r}/a-1_1.ckpt": slices(tensors, src, r, others)
                               for r in range(2)})
            write_protobuf(src, root / "src.ckpt")
            (root / "dst.toml").write_text(
                '[devices]\naxes = ["d=3"]\n\n[[rule]]\nmatch = "w"\ncut = ["d"]\n')
            with mounted(root / "src", "--src-strategy", root / "src.ckpt",
                         "--dst-strategy", root / "dst.toml") as mountpoint:
                dst = Strategy([layouts((3,), {"w": ROWS})])
                for rank, path in rank_files(mountpoint).items():
                    self.assert_file(path, slices(tensors, dst, rank, others))

    def test_rules_of_the_source_do_not_take_what_the_target_does_not_know(self) -> None:
        """Rules lay out every parameter; those that they do not cut are kept all the same."""
        tensors = random_tensors({"w": (6, 3)})
        others = {"learning_rate": np.array([0.1], "<f4")}
        src, dst = Strategy([layouts((2,), {"w": ROWS})]), Strategy([layouts((3,), {"w": COLUMNS})])
        with scratch() as root:
            write_ranks(root, {f"src/rank_{r}/a-1_1.ckpt": slices(tensors, src, r, others)
                               for r in range(2)})
            (root / "src.toml").write_text(
                '[devices]\naxes = ["d=2"]\n\n[[rule]]\nmatch = "w"\ncut = ["d"]\n')
            write_protobuf(dst, root / "dst.ckpt")
            with mounted(root / "src", "--src-strategy", root / "src.toml",
                         "--dst-strategy", root / "dst.ckpt") as mountpoint:
                for rank, path in rank_files(mountpoint).items():
                    self.assert_file(path, slices(tensors, dst, rank, others))

    def test_a_raw_slice_of_a_missing_rank_is_refused(self) -> None:
        """Replicas stand in for the cut parameters, but no rank for another's own slice."""
        tensors = random_tensors({"w": (4, 2)})
        src, dst = Strategy([layouts((2, 2), {"w": ROWS})]), Strategy([layouts((4,), {"w": ROWS})])
        with scratch() as root:
            write_ranks(root, {
                f"src/rank_{r}/a-1_1.ckpt": slices(tensors, src, r, {"own": np.array([r], "<f4")})
                for r in (0, 1)})
            write_protobuf(src, root / "src.ckpt")
            write_protobuf(dst, root / "dst.ckpt")
            options = ("--src-strategy", root / "src.ckpt", "--dst-strategy", root / "dst.ckpt",
                       "--unmatched", "source")
            result = run("plan", root / "src", *options)
            self.assertEqual(result.code, 2)
            for word in ("'own'", "source rank 2", "--exclude"):
                self.assertIn(word, result.stderr)
            self.assertEqual(run("plan", root / "src", *options, "--ranks", "0,1").code, 0)
            self.assertEqual(run("plan", root / "src", *options, "--exclude", "own").code, 0)

    def test_names_are_mapped(self) -> None:
        tensors = random_tensors({"old.w": (4, 2), "kept": (3,)})
        with scratch() as root:
            write_ranks(root, {"src/rank_0/a.ckpt": [record_of(n, "Float32", t)
                                                     for n, t in tensors.items()]})
            (root / "names.json").write_text(json.dumps({"old.w": "new.w"}))
            write_protobuf(Strategy([layouts((2,), {"new.w": ROWS})]), root / "dst.ckpt")
            with mounted(root / "src", "--dst-strategy", root / "dst.ckpt",
                         "--name-map", root / "names.json") as mountpoint:
                self.assert_file(rank_files(mountpoint)[1], [
                    record_of("new.w", "Float32", tensors["old.w"][2:]),
                    record_of("kept", "Float32", tensors["kept"])])


class OtherSources(Scenario):
    def test_data_parallel_without_strategies(self) -> None:
        tensors = random_tensors({"w": (4, 4), "step": (1,)})
        records = [record_of(name, "Float32", array) for name, array in tensors.items()]
        for pattern in ("rank_{}/net-1_1.ckpt", "ckpt_{}/auto_parallel-10_1875.ckpt",
                        "net_rank_{}-1_1.ckpt"):
            with self.subTest(pattern=pattern), scratch() as root:
                write_ranks(root / "src", {pattern.format(r): records for r in range(3)})
                with mounted(root / "src") as mountpoint:
                    self.assert_file(rank_files(mountpoint)[0], records)
                    self.assert_merged(mountpoint, tensors)

    def test_distributed_inference(self) -> None:
        """A predict layout cuts what training replicated, and replicates what it cut."""
        tensors = random_tensors({"fc1": (8, 6), "fc2": (6, 8)})
        src = Strategy([layouts((2, 2), {"fc1": ROWS, "fc2": ((), ())}, opt=2)])
        dst = Strategy([layouts((2,), {"fc1": COLUMNS, "fc2": ROWS})])
        self.check(tensors, src, dst, {})

    def test_one_file(self) -> None:
        tensors = random_tensors({"w": (4, 4)})
        with scratch() as root:
            write_ranks(root, {"model.ckpt": [record_of("w", "Float32", tensors["w"])]})
            write_protobuf(Strategy([layouts((4,), {"w": ROWS})]), root / "dst.ckpt")
            with mounted(root / "model.ckpt", "--dst-strategy", root / "dst.ckpt") as mountpoint:
                self.assert_file(rank_files(mountpoint)[3],
                                 [record_of("w", "Float32", tensors["w"][3:])])


if __name__ == "__main__":
    run_unittests()
