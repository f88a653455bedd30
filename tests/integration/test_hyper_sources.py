# SPDX-License-Identifier: Apache-2.0
"""--views hyper of what other programs saved: through maps, distributed checkpoints, and the Trainer's own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import read_safetensors, write_safetensors  # noqa: E402
from hyper_tests import F4, MOMENTS, TESTS, HyperTest, W, float32  # noqa: E402
from map_sets import GOLDEN, golden, mcore_strategy, vars_of, with_states, write_ranks  # noqa: E402
from mounted import run_unittests  # noqa: E402
from strategy_files import write_protobuf  # noqa: E402
from trainer_loader import TRACKER, as_type, latest_step, load, read_table, resume  # noqa: E402


def map_words(case: str, name: str) -> tuple[str | Path, ...]:
    return ("--map", name, "--model-config", GOLDEN / case / "config.json", *vars_of(case))


class ThroughMaps(HyperTest):
    def test_mindspore_transformers(self) -> None:
        """Ranks of two stages, with moments and the optimizer's counter, to Hugging Face's names."""
        case = "qwen3_mcore"
        hub, tensors = golden(case, "src"), with_states(golden(case, "expected"))
        strategy = mcore_strategy(tensors)
        source = write_ranks(self.root / "ranks", tensors, strategy, ".safetensors")
        for path in source.rglob("*.safetensors"):
            of_rank, metadata = read_safetensors(path)
            write_safetensors(path, of_rank | {"global_step": ("I32", np.array([12], "<i4"))}, metadata)
        write_protobuf(strategy, self.root / "train.ckpt")
        out = self.export(source, "--src-strategy", self.root / "train.ckpt", *map_words(case, "mindformers-qwen3"))
        self.assertNotIn("which models of Hugging Face do not have", self.told)
        states = {name: {key: as_type(kind, array + np.asarray(more, array.dtype), F4) for key, more in MOMENTS.items()}
                  | {"step": np.array(12, F4)} for name, (kind, array) in hub.items()}
        self.assert_resumes(out, float32(hub), states, extra={"global_step": 12, "epoch": 0})

    def test_megatron(self) -> None:
        """One file with the names of torch_dist, with moments and main weights."""
        case = "megatron_llama"
        hub, core = golden(case, "src"), golden(case, "expected")
        tensors = dict(core)
        for number, state in enumerate(("exp_avg", "exp_avg_sq", "param"), 1):
            tensors |= {f"optimizer.state.{state}.{name}": (kind, array + np.asarray(number * 10, array.dtype))
                        for name, (kind, array) in core.items()}
        source = self.root / "iter_0000012.safetensors"
        write_safetensors(source, tensors)
        out = self.export(source, *map_words(case, "megatron-llama"), "--map-var", "trainer_step=12")

        def state(number: int) -> dict[str, np.ndarray]:
            return {name: as_type(kind, array + np.asarray(number * 10, array.dtype), F4)
                    for name, (kind, array) in hub.items()}

        states = {name: {"exp_avg": state(1)[name], "exp_avg_sq": state(2)[name], "step": np.array(12, F4)}
                  for name in hub}
        self.assert_resumes(out, float32(hub), states, main=state(3), extra={"global_step": 12, "epoch": 0})

    def test_names_that_no_module_asks_for(self) -> None:
        tensors = golden("megatron_llama", "expected")
        write_safetensors(self.root / "core.safetensors", tensors)
        out = self.export(self.root / "core.safetensors")
        self.assertIn("which models of Hugging Face do not have: give --map megatron-llama", self.told)
        self.assert_resumes(out, float32(tensors))


class DistributedCheckpoints(HyperTest):
    def test_pytorch(self) -> None:
        """Its names of states become the Trainer's, and "model", the key of the model, stays one."""
        case = TESTS / "goldendcp/fsdp_tp_2x"
        want = read_safetensors(case / "expected.safetensors")[0]
        weights = {name.removeprefix("model."): one for name, one in want.items() if name.startswith("model.")}
        self.assertTrue(weights)
        states: dict[str, dict[str, np.ndarray]] = {}
        for name, (kind, array) in want.items():
            if name.startswith("optim.state."):
                weight, _, key = name.removeprefix("optim.state.").rpartition(".")
                states.setdefault(weight, {})[key] = as_type(kind, array, F4)
        self.assertTrue(states)
        out = self.export(case / "src")
        self.assert_resumes(out, float32(weights), states)

    def test_megatron(self) -> None:
        case = TESTS / "goldendcp/mcore_gpt_tp2pp2"
        want = read_safetensors(case / "expected.safetensors")[0]
        weights = {name: one for name, one in want.items() if not name.startswith("optimizer.")}
        states: dict[str, dict[str, np.ndarray]] = {}
        main = {}
        for name, (kind, array) in want.items():
            for key in ("exp_avg", "exp_avg_sq", "param", "fp32_param"):
                begin = f"optimizer.state.{key}."
                if name.startswith(begin) and key in MOMENTS:
                    states.setdefault(name.removeprefix(begin), {})[key] = as_type(kind, array, F4)
                elif name.startswith(begin):
                    main[name.removeprefix(begin)] = as_type(kind, array, F4)
        out = self.export(case / "src")
        for of in states.values():
            of["step"] = np.array(10, F4)
        self.assertEqual(sorted(main), sorted(states))
        self.assertGreater(len(weights), len(main))
        self.assert_resumes(out, float32(weights), states, main=main, extra={"global_step": 10, "epoch": 0})

    def test_states_that_count_their_own_steps(self) -> None:
        self.export(TESTS / "goldendcp/golden_mesh_4_torch214/src")
        self.assertIn("does not state the step", self.told)
        self.assertNotIn("AdamW treats the moments as new", self.told)

    def test_the_step_of_a_directory(self) -> None:
        case = TESTS / "goldendcp/mcore_gpt_tp2pp2/src"
        for source in (case, case / "iter_0000010"):
            self.assertEqual((self.export(source) / TRACKER).read_text(), "10\n")
    def test_an_epoch_is_no_step(self) -> None:
        for name, text in (("epoch_3", "0\n"), ("checkpoint-3", "3\n")):
            write_safetensors(self.root / f"{name}_run/{name}/model.safetensors", {"w": ("F32", W)}, {"format": "pt"})
            out = self.export(self.root / f"{name}_run", "--step", "3")
            self.assertEqual((out / TRACKER).read_text(), text)


class OfTheTrainer(HyperTest):
    """What the Trainer saved itself is shown as it is."""

    def setUp(self) -> None:
        super().setUp()
        self.case = TESTS / "goldendcp/hyper_keyed_writer_hand"
        self.want = read_safetensors(self.case / "expected.safetensors")[0]

    def test_tensors_and_objects(self) -> None:
        for name in ("hyper_keyed_writer_hand", "hyper_keyed_trainer_fsdp2"):
            case = TESTS / "goldendcp" / name
            want = read_safetensors(case / "expected.safetensors")[0]
            out = self.export(case / "src")
            mine, theirs = (read_table(latest_step(root)) for root in (out, case / "src"))
            added = set(mine.state_dict_metadata) - set(theirs.state_dict_metadata)
            self.assertFalse(set(theirs.state_dict_metadata) - set(mine.state_dict_metadata))
            for path in theirs.planner_data:
                self.assertEqual(mine.planner_data[path], theirs.planner_data[path])
            self.assert_read_again(out, want, *(word for one in added if one.endswith(".step")
                                                for word in ("--exclude", one)))
            for root in (out, case / "src"):
                groups = [{"lr": None}]
                state: dict[str, Any] = {"model": {}, "optimizer": {"param_groups": groups}}
                load(latest_step(root), state, restore_train_state=False)
                self.assertEqual(groups, [{"lr": 1e-3}])

    def test_progress(self) -> None:
        skeletons: dict[str, Any] = {"model": {}}
        got = resume(self.export(self.case / "src"), skeletons)
        self.assertEqual(got["extra_state"], {"global_step": 5, "epoch": 0})
        self.assertNotIn("trainer_epoch", self.told)
        got = resume(self.export(self.case / "src", "--map-var", "trainer_step=6"), {"model": {}})
        self.assertEqual(got["extra_state"], {"global_step": 6, "epoch": 0})

    def test_below_a_key(self) -> None:
        """The names are the model's again."""
        out = self.export(self.case / "src", "--state-key", "model")
        weights = {name.removeprefix("model."): one for name, one in self.want.items() if name.startswith("model.")}
        self.assert_resumes(out, float32(weights), extra={"global_step": 5, "epoch": 0})

    def test_an_unknown_step_is_not_stated_later(self) -> None:
        """The directory of such a step is called so, as it needs a name."""
        write_safetensors(self.root / "m.safetensors", {"w": ("F32", W)})
        again = self.export(self.export(self.root / "m.safetensors"))
        self.assertIn("does not state the step", self.told)
        self.assert_resumes(again, {"w": W})

    def test_an_object_that_is_cut_off(self) -> None:
        shutil.copytree(self.case / "src", self.root / "cut")
        path = self.root / "cut/global_step_5/weights/objects.bytes"
        path.write_bytes(path.read_bytes()[:-1])
        message = self.refused(self.root / "cut")
        self.assertIn("cannot be passed on: its bytes would end at", message)
        self.assertIn("objects.bytes", message)

    def test_without_planner_data(self) -> None:
        """Of a directory of the Trainer, the names tell the nesting."""
        shutil.copytree(self.case / "src", self.root / "bare")
        path = self.root / "bare/global_step_5/.metadata"
        data = path.read_bytes()
        # The dictionary of paths, from its first key on, is emptied where it begins.
        begin = data.index(b"}(", data.index(b"}(") + 2)
        table = read_table(path.parent)
        self.assertTrue(table.planner_data)
        at = begin
        while data[at:at + 1] != b"u" or data[at + 1:at + 3] != b"}(":
            at += 1
        path.write_bytes(data[:begin] + b"N" + data[at + 1:])
        self.assertIsNone(read_table(path.parent).planner_data)
        out = self.export(self.root / "bare")
        self.assertLessEqual(set(table.state_dict_metadata), set(read_table(latest_step(out)).state_dict_metadata))


if __name__ == "__main__":
    run_unittests()
