# SPDX-License-Identifier: Apache-2.0
"""--views iteration: any set shown as Checkpoint 2.0 of MindSpore Transformers, as the original would
have saved it, and taken by a loader that is as strict."""

from __future__ import annotations

import json
import shutil
import sys
import unittest
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from checkpoint2 import Tensors, read_tensors  # noqa: E402
from checkpoint2_loader import load_checkpoint2  # noqa: E402
from format_files import write_ckpt, write_safetensors  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "golden2"
COMMON = "iteration_{:08}/common.json"
W = np.arange(96, dtype="<f4").reshape(12, 8)
NORM = np.arange(4, dtype="<f4")


def case_of(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / name / "case.json").read_text())


def sums(root: Path) -> dict[str, str]:
    return {f"./{path.relative_to(root)}": sha256(path.read_bytes()).hexdigest()
            for path in root.rglob("*") if path.is_file()}


class IterationTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def export(self, source: Path, *words: str | Path, out: str = "out", code: int = 0) -> Any:
        result = run("export", source, self.root / out, "--views", "iteration", *words)
        self.assertEqual(result.code, code, result.stderr)
        return result

    def assert_tensors(self, got: Tensors, want: dict[str, np.ndarray]) -> None:
        self.assertEqual(sorted(got), sorted(want))
        for name, array in want.items():
            self.assertEqual(got[name][1].shape, array.shape, name)
            self.assertEqual(got[name][1].tobytes(), array.tobytes(), name)


class Golden(IterationTest):
    """What the original itself wrote."""

    def test_is_byte_for_byte_the_original(self) -> None:
        cases = sorted(GOLDEN.glob("*/expected_ck2.sha256"))
        self.assertEqual(len(cases), 2)
        for path in cases:
            case = path.parent
            lines = [line.split() for line in path.read_text().splitlines()]
            want = {name: digest for digest, name in lines}
            words = ("--dst-strategy", case / "dst_strategy.json")
            with self.subTest(case=case.name):
                self.export(case / "src", *words, out=case.name)
                self.assertEqual(sums(self.root / case.name / "iteration"), want)
                with mounted(case / "src", *words, "--views", "iteration") as mountpoint:
                    self.assertEqual(sums(mountpoint / "iteration"), want)

    def test_every_set_loads_as_it_was(self) -> None:
        for path in sorted(GOLDEN.glob("*/case.json")):
            case = case_of(path.parent.name)
            if case["must"] == "refuse" or not case["dst_strategy"]:
                continue
            words = ("--dst-strategy", path.parent / case["dst_strategy"])
            with self.subTest(case=case["name"]):
                self.export(path.parent / "src", *words, out=case["name"])
                saved = self.root / case["name"] / "iteration"
                whole = f"{case['name']}-whole"
                result = run("export", path.parent / "src", self.root / whole, "--views", "ranks",
                             "--exclude", "global_step", "--allow-unmatched")
                self.assertEqual(result.code, 0, result.stderr)
                want = {name: array for name, (_, array) in read_tensors(
                    self.root / whole / "rank_0/checkpoint_0.safetensors").items()}
                got = load_checkpoint2(saved, case["dst_ranks"])
                got.pop("global_step", None)
                self.assert_tensors(got, want)


class OfRankFiles(IterationTest):
    """From the format of before, with strategies: two stages of two ranks."""

    def setUp(self) -> None:
        super().setUp()
        self.rows, self.columns = Layout((2,), ((0,), ())), Layout((2,), ((), (0,)))
        self.full = {"w": W, "adam_m.w": W + 1000, "head": W + 2000, "adam_m.head": W + 3000}
        self.source = self.root / "src"
        for rank in range(2):
            tensors = {name: ("F32", shard(array, self.rows, rank))
                       for name, array in self.full.items()}
            tensors["norm"] = ("F32", NORM)
            for name, value in (("global_step", 70), ("epoch_num", 2)):
                tensors[name] = ("I32", np.array([value], "<i4"))
            tensors["loss_scale"] = ("F32", np.array([1024], "<f4"))
            tensors["learning_rate"] = ("F32", np.array([0.5], "<f4"))
            (self.source / f"rank_{rank}").mkdir(parents=True)
            write_ckpt(self.source / f"rank_{rank}/net-2_35.ckpt", tensors)
        write_protobuf(Strategy([dict.fromkeys(self.full, self.rows)]), self.root / "src.ckpt")

    def target(self, *stages: dict[str, Layout]) -> tuple[str | Path, ...]:
        write_protobuf(Strategy(list(stages)), self.root / "dst.ckpt")
        return ("--src-strategy", self.root / "src.ckpt", "--dst-strategy", self.root / "dst.ckpt")

    def two_stages(self) -> tuple[str | Path, ...]:
        return self.target({"w": self.columns, "adam_m.w": self.columns},
                           {"head": self.columns, "adam_m.head": self.columns})

    def kept(self) -> dict[str, np.ndarray]:
        return {"norm": NORM, "learning_rate": np.array([0.5], "<f4")}

    def test_weights_and_states(self) -> None:
        result = self.export(self.source, *self.two_stages())
        saved = self.root / "out/iteration"
        self.assert_tensors(load_checkpoint2(saved, 4), self.full | self.kept())
        step = saved / "iteration_00000070"
        self.assertEqual(sorted(read_tensors(step / "model-0000001-0000004.safetensors")),
                         ["norm", "w"])
        self.assertEqual(sorted(read_tensors(step / "opt-0000003-0000004.safetensors")),
                         ["adam_m.head", "learning_rate"])
        self.assertEqual(json.loads((step / "common.json").read_text()), {
            "epoch_num": 2, "step_num": 70, "global_step": 70, "loss_scale": 1024.0,
            "global_batch_size": None, "consumed_samples": None, "ckpt_status": None})
        self.assertIn("does not state global_batch_size", result.stderr)
        self.assertIn("reads only what metadata.json lists: 'global_step', 'epoch_num'",
                      result.stderr)

    def test_and_back(self) -> None:
        self.export(self.source, *self.two_stages())
        # What has no layout in the set is not in the strategy either, and stays as it is.
        write_protobuf(Strategy([dict.fromkeys(self.full, self.rows)]), self.root / "back.ckpt")
        result = run("export", self.root / "out/iteration", self.root / "back", "--views", "ranks",
                     "--dst-strategy", self.root / "back.ckpt")
        self.assertEqual(result.code, 0, result.stderr)
        for rank in range(2):
            got = read_tensors(self.root / f"back/rank_{rank}/checkpoint_{rank}.safetensors")
            want = {name: shard(array, self.rows, rank) for name, array in self.full.items()}
            self.assert_tensors(got, want | self.kept())

    def test_an_optimizer_cut_is_in_the_map(self) -> None:
        cut = Layout((4, 2), ((0,), ()), opt_size=2)
        self.export(self.source, *self.target(dict.fromkeys(self.full, cut)))
        saved = self.root / "out/iteration"
        self.assert_tensors(load_checkpoint2(saved, 8), self.full | self.kept())
        metadata = json.loads((saved / "iteration_00000070/metadata.json").read_text())
        layout = metadata["state_dict_metadata"]["w"]["layout"]
        self.assertEqual((layout["device_matrix"], layout["tensor_map"]), ([2, 2, 2], [[0, 1], -1]))

    def test_what_a_later_stage_alone_has_gets_a_layout(self) -> None:
        # Rank 0 is asked for what has none.
        words = self.target({"w": self.rows}, {"head": self.rows, "norm": Layout((2,), ((),))})
        self.export(self.source, *words, "--exclude", "adam*", "--unmatched", "replicate")
        self.assert_tensors(load_checkpoint2(self.root / "out/iteration", 4),
                            {"w": W, "head": W + 2000} | self.kept())

    def test_a_state_that_no_strategy_has_follows_its_weight(self) -> None:
        write_protobuf(Strategy([{"w": self.rows, "head": self.rows}]), self.root / "src.ckpt")
        self.export(self.source, *self.target({"w": self.columns, "head": self.columns}))
        self.assert_tensors(load_checkpoint2(self.root / "out/iteration", 2),
                            self.full | self.kept())

    def test_one_device_has_no_metadata(self) -> None:
        self.export(self.source, "--src-strategy", self.root / "src.ckpt")
        step = self.root / "out/iteration/iteration_00000070"
        self.assertEqual(sorted(path.name for path in step.iterdir()),
                         ["common.json", "model-0000000-0000001.safetensors",
                          "opt-0000000-0000001.safetensors"])
        self.assert_tensors(load_checkpoint2(step.parent, 1), self.full | self.kept())

    def test_a_cut_that_cannot_be_stated_is_refused(self) -> None:
        (self.root / "dst.toml").write_text(
            '[devices]\naxes = ["tp=8"]\n[[rule]]\nmatch = "*"\ncut = ["tp"]\nuneven = "balanced"\n')
        words = ("--src-strategy", self.root / "src.ckpt")
        result = self.export(self.source, *words, "--dst-strategy", self.root / "dst.toml", code=2)
        self.assertIn("is not cut into equal parts", one_line(result))
        self.assertIn("parameter '", one_line(result))
        self.assertFalse((self.root / "out").exists() and sums(self.root / "out"))

    def test_other_options_that_do_not_fit(self) -> None:
        result = self.export(self.source, "--src-strategy", self.root / "src.ckpt",
                             "--replicas", "own", code=2)
        self.assertIn("--views iteration has each parameter once", one_line(result))
        words = self.target({"w": self.columns})
        result = self.export(self.source, *words, "--unmatched", "source", code=2)
        self.assertIn("metadata.json cannot state where they lie", one_line(result))

    def test_some_ranks(self) -> None:
        result = self.export(self.source, *self.two_stages(), "--ranks", "0,3")
        self.assertIn("has only the files of --ranks", result.stderr)
        step = self.root / "out/iteration/iteration_00000070"
        self.assertEqual(sorted(path.name[:13] for path in step.glob("*.safetensors")),
                         ["model-0000000", "model-0000003", "opt-0000000-0", "opt-0000003-0"])

    def test_is_shown_where_it_is_asked_for(self) -> None:
        words = self.two_stages()
        with mounted(self.source, *words) as mountpoint:
            self.assertNotIn("iteration", [path.name for path in mountpoint.iterdir()])
        with mounted(self.source, *words, "--views", "ranks,iteration") as mountpoint:
            saved = mountpoint / "iteration"
            self.assert_tensors(load_checkpoint2(saved, 4), self.full | self.kept())
            metadata = saved / "iteration_00000070/metadata.json"
            whole = metadata.read_bytes()
            self.assertEqual(len(whole), metadata.stat().st_size)
            with metadata.open("rb", buffering=0) as file:
                for at in (0, 1, 4095, 5000, len(whole) - 3):
                    file.seek(at)
                    self.assertEqual(file.read(77), whole[at:at + 77])


class OfTheSameFormat(IterationTest):
    """What is carried over."""

    def setUp(self) -> None:
        super().setUp()
        self.name = "dp2tp2_to_tp4"
        self.source = self.root / "src"
        shutil.copytree(GOLDEN / self.name / "src", self.source)
        self.common = self.source / COMMON.format(1)
        self.words = ("--dst-strategy", GOLDEN / self.name / "dst_strategy.json")

    def test_common_json_as_it_is(self) -> None:
        text = '{"step_num": 9, "epoch_num":   1}'
        self.common.write_text(text)
        result = self.export(self.source, *self.words)
        self.assertEqual((self.root / "out/iteration" / COMMON.format(1)).read_text(), text)
        self.assertNotIn("does not tell", result.stderr)

    def test_common_json_that_the_original_cannot_read(self) -> None:
        for text in ('{"step_num": 1, "more": 2}', "[", ""):
            with self.subTest(text=text):
                self.common.write_text(text)
                result = self.export(self.source, *self.words, out=f"out{len(text)}")
                self.assertIn("is not in the form that MindSpore Transformers reads", result.stderr)
                made = self.root / f"out{len(text)}/iteration" / COMMON.format(1)
                self.assertEqual(json.loads(made.read_text())["step_num"], 1)
                load_checkpoint2(self.root / f"out{len(text)}/iteration", 4)

    def test_no_common_json(self) -> None:
        self.common.unlink()
        result = self.export(self.source, *self.words)
        self.assertIn("does not state epoch_num, global_batch_size", result.stderr)
        made = json.loads((self.root / "out/iteration" / COMMON.format(1)).read_text())
        self.assertEqual((made["step_num"], made["global_step"]), (1, 1))

    def test_a_set_of_one_device(self) -> None:
        write_safetensors(self.root / "one/iteration_00000007/model-0000000-0000001.safetensors",
                          {"w": ("F32", W)}, {"format": "ms"})
        (self.root / "dst.toml").write_text(
            '[devices]\naxes = ["a=2", "b=2"]\n[[rule]]\nmatch = "*"\ncut = ["a", "b"]\n')
        self.export(self.root / "one", "--step", "7", "--dst-strategy", self.root / "dst.toml")
        self.assert_tensors(load_checkpoint2(self.root / "out/iteration", 4), {"w": W})


if __name__ == "__main__":
    run_unittests()
