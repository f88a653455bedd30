# SPDX-License-Identifier: Apache-2.0
"""--views hyper: a model, and ranks of MindSpore, as a directory of HyperParallel's Trainer."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, write_ckpt, write_safetensors  # noqa: E402
from hyper_tests import F4, STEPLESS, HyperTest, W, float32, moments_of, skeleton, trainer_names  # noqa: E402
from layouts import Layout, shard  # noqa: E402
from map_sets import config_of, golden, write_hub  # noqa: E402
from mounted import mounted, one_line, run, run_unittests  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402
from trainer_loader import (TRACKER, LoadError, MetadataIndex, as_type, latest_step, read_table,  # noqa: E402
                            resume)


def bits(number: int) -> np.ndarray:
    """A model's weight in bfloat16."""
    return np.random.default_rng(number).integers(0, 1 << 15, (6, 4), "<u2")


class Hub(HyperTest):
    def setUp(self) -> None:
        super().setUp()
        self.tensors = golden("qwen3_mcore", "src")
        (self.root / "hub").mkdir()
        self.hub = write_hub(self.root / "hub", self.tensors, config_of("qwen3_mcore"))

    def test_a_run_starts(self) -> None:
        out = self.export(self.hub)
        self.assertIn(STEPLESS, self.told)
        self.assertIn("trainer_step=N", self.told)
        self.assertEqual({str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()},
                         {TRACKER, "global_step_0/.metadata", "global_step_0/model-00001-of-00001.safetensors"})
        self.assertEqual((out / TRACKER).read_text(), "0\n")
        self.assert_resumes(out, float32(self.tensors))
        self.assert_read_again(out, {f"model.{name}": one for name, one in self.tensors.items()})
        self.assert_read_again(out, self.tensors, "--state-key", "model")

    def test_the_table(self) -> None:
        table = read_table(self.export(self.hub) / "global_step_0", has_torch=False)
        self.assertEqual(table.version, "1.0")
        self.assertEqual(list(table.state_dict_metadata), list(table.planner_data))
        for name, entry in table.state_dict_metadata.items():
            kind, array = self.tensors[name.removeprefix("model.")]
            self.assertEqual(table.planner_data[name], ("model", name.removeprefix("model.")))
            self.assertEqual((entry.size, entry.properties.requires_grad, entry.properties.memory_format),
                             (array.shape, False, None))
            self.assertEqual(entry.properties.dtype, {"BF16": "torch.bfloat16", "F32": "torch.float32"}[kind])
            self.assertEqual([(chunk.offsets, chunk.sizes) for chunk in entry.chunks],
                             [((0,) * array.ndim, array.shape)])
            info = table.storage_data[MetadataIndex(name, (0,) * array.ndim, 0)]
            self.assertEqual((info.offset, info.length, info.tensor_key), (0, -1, name))

    def test_files_of_moderate_size(self) -> None:
        out = self.export(self.hub, "--shard-size", "5kB")
        files = sorted(out.glob("global_step_0/model-*.safetensors"))
        self.assertGreater(len(files), 3)
        largest = max(array.nbytes for _, array in self.tensors.values())
        for path in files:
            of_file = read_safetensors(path)[0]
            total = sum(array.nbytes for _, array in of_file.values())
            self.assertTrue(total <= 5_000 or len(of_file) == 1, path.name)
            self.assertLessEqual(total, max(largest, 5_000))
        self.assertEqual([path.name for path in files],
                         [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))])
        self.assert_resumes(out, float32(self.tensors))

    def test_a_mount_has_the_same_bytes(self) -> None:
        words = ("--map-var", "trainer_step=7", "--map-var", "trainer_epoch=1", "--shard-size", "20kB")
        out = self.export(self.hub, *words)
        chooser = random.Random(5)
        with mounted(self.hub, "--views", "hyper", *words) as mountpoint:
            shown = mountpoint / "hyper"
            self.assertEqual({path.relative_to(shown) for path in shown.rglob("*")},
                             {path.relative_to(out) for path in out.rglob("*")})
            self.assert_resumes(shown, float32(self.tensors), extra={"global_step": 7, "epoch": 1})
            for path in out.rglob("*"):
                if not path.is_file():
                    continue
                whole = path.read_bytes()
                mine = shown / path.relative_to(out)
                self.assertEqual(mine.stat().st_size, len(whole), path.name)
                with mine.open("rb", buffering=0) as file:
                    for _ in range(20):
                        at = chooser.randrange(len(whole))
                        file.seek(at)
                        self.assertEqual(file.read(77), whole[at:at + 77], path.name)
        with mounted(self.hub) as mountpoint:
            self.assertNotIn("hyper", [path.name for path in mountpoint.iterdir()])

    def test_what_the_user_states(self) -> None:
        out = self.export(self.hub, "--map-var", "trainer_step=70000", "--map-var", "trainer_epoch=3")
        self.assertNotIn("Trainer", self.told)
        self.assertEqual((out / TRACKER).read_text(), "70000\n")
        self.assert_resumes(out, float32(self.tensors), extra={"global_step": 70000, "epoch": 3})
        self.assertIn("needs a step", self.refused(self.hub, "--map-var", "trainer_epoch=3"))
        self.assertIn("needs a step", self.refused(self.hub, "--map-var", "trainer_param_groups=3"))
        self.assertIn("at least 0", self.refused(self.hub, "--map-var", "trainer_step=-1"))
        self.assertIn("expected NAME=NUMBER", self.refused(self.hub, "--map-var", "trainer_step=x"))
        for number in ("0", "100000"):
            self.assertIn("from 1 to 10000", self.refused(self.hub, "--map-var", "trainer_step=1", "--map-var",
                                                          f"trainer_param_groups={number}"))
        self.assertIn("--weights-only leaves out",
                      self.refused(self.hub, "--map-var", "trainer_step=1", "--weights-only"))
        self.assertIn("--map-var needs --map", self.refused(self.hub, "--map-var", "trainer_steps=1"))
        result = run("export", self.hub, self.root / "idle", "--views", "hub", "--map-var", "trainer_step=1")
        self.assertIn("--map-var trainer_step is for the view hyper", one_line(result))

    def test_both_names_of_a_tied_output(self) -> None:
        del self.tensors["lm_head.weight"]
        for stated in (True, False):
            hub = self.root / f"tied{stated}"
            hub.mkdir()
            write_hub(hub, self.tensors, config_of("qwen3_mcore") | {"tie_word_embeddings": stated})
            out = self.export(hub)
            weights = float32(self.tensors)
            if stated:
                weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
                table = read_table(out / "global_step_0")
                infos = [table.storage_data[MetadataIndex(f"model.{name}", (0, 0), 0)]
                         for name in ("lm_head.weight", "model.embed_tokens.weight")]
                self.assertEqual(infos[0], infos[1])
                both = self.tensors | {"lm_head.weight": self.tensors["model.embed_tokens.weight"]}
                self.assert_read_again(out, both, "--state-key", "model")
            else:
                self.assertNotIn("model.lm_head.weight", read_table(out / "global_step_0").state_dict_metadata)
            self.assert_resumes(out, weights)

    def test_a_name_that_the_run_asks_for_and_another_shape_are_missed(self) -> None:
        """Of the loader: what it compares can be wrong."""
        out = self.export(self.hub)
        weights = float32(self.tensors)
        with self.assertRaisesRegex(LoadError, "Missing key"):
            resume(out, skeleton(weights | {"more.weight": W}), restore_train_state=False)
        name = next(iter(weights))
        with self.assertRaisesRegex(LoadError, "Size mismatch"):
            resume(out, skeleton(weights | {name: W}), restore_train_state=False)

    def test_types(self) -> None:
        rng = np.random.default_rng(1)
        kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
                 "I8": "i1", "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "?",
                 "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1", "C64": "<u8"}
        tensors: Tensors = {kind: (kind, rng.integers(0, 2, (3, 5)).astype(numpy)) for kind, numpy in kinds.items()}
        tensors |= {"scalar": ("F32", np.array(2.5, "<f4")), "none": ("F32", np.zeros((0, 4), "<f4"))}
        write_safetensors(self.root / "m.safetensors", tensors)
        out = self.export(self.root / "m.safetensors")
        self.assert_read_again(out, {f"model.{name}": one for name, one in tensors.items()})
        entries = read_table(out / "global_step_0").state_dict_metadata
        self.assertEqual(entries["model.F8_E4M3"].properties.dtype, "torch.float8_e4m3fn")
        self.assertEqual((entries["model.scalar"].size, entries["model.none"].size), ((), (0, 4)))
        self.assertEqual(entries["model.C64"].properties.dtype, "torch.complex64")
        for kind, size, shape in (("F6_E2M3", 3, [1, 4]), ("F4", 2, [2, 2])):
            write_safetensors(self.root / "bad.safetensors", {"odd": (kind, np.zeros(size, "u1"))},
                              shapes={"odd": shape})
            message = self.refused(self.root / "bad.safetensors")
            self.assertIn("a type that hyper/ cannot hold", message)
            self.assertIn("'odd'", message)

    def test_bad_sources(self) -> None:
        write_safetensors(self.root / "states.safetensors", {"adam_m.w": ("F32", W), "adam_v.w": ("F32", W)})
        self.assertIn("is a weight, which hyper/ needs", self.refused(self.root / "states.safetensors"))
        write_safetensors(self.root / "two.safetensors",
                          {"w": ("F32", W), "adam_m.w": ("F32", W), "exp_avg.w": ("F32", W)})
        message = self.refused(self.root / "two.safetensors")
        self.assertIn("would be called 'optimizer.state.w.exp_avg'", message)
        write_safetensors(self.root / "short.safetensors", {"w": ("F32", W)})
        data = (self.root / "short.safetensors").read_bytes()
        (self.root / "short.safetensors").write_bytes(data[:-1])
        self.assertIn("short.safetensors", self.refused(self.root / "short.safetensors"))
        write_safetensors(self.root / "long.safetensors", {"n" * 5000: ("F32", W)})
        self.refused(self.root / "long.safetensors")
        self.refused(self.hub, "--replicas", "own")


class MindSpore(HyperTest):
    """Ranks with slices of weights and moments, and counters."""

    def setUp(self) -> None:
        super().setUp()
        self.rows = Layout((2,), ((0,), ()))
        self.weights = {"w": W, "head": W + 4096}
        full = dict(self.weights)
        for prefix, more in (("adam_m.", 1000), ("adam_v.", 2000)):
            full |= {prefix + name: array + F4.type(more) for name, array in self.weights.items()}
        self.counters: Tensors = {"global_step": ("I32", np.array([70], "<i4")),
                                  "epoch_num": ("I32", np.array([2], "<i4")),
                                  "learning_rate": ("F32", np.array([0.5], "<f4"))}
        self.source = self.root / "src"
        self.full = full
        self.write()
        write_protobuf(Strategy([dict.fromkeys(full, self.rows)]), self.root / "src.ckpt")
        self.words = ("--src-strategy", self.root / "src.ckpt")

    def write(self) -> None:
        for rank in range(2):
            tensors: Tensors = {name: ("F32", shard(array, self.rows, rank)) for name, array in self.full.items()}
            (self.source / f"rank_{rank}").mkdir(parents=True, exist_ok=True)
            write_ckpt(self.source / f"rank_{rank}/net-2_35.ckpt", tensors | self.counters)

    def test_a_run_goes_on(self) -> None:
        out = self.export(self.source, *self.words)
        self.assertIn("does not state the epoch", self.told)
        self.assertIn("left out of hyper/, because the Trainer has no such states: 'epoch_num', 'learning_rate'",
                      self.told)
        self.assertEqual((out / TRACKER).read_text(), "70\n")
        self.assert_resumes(out, self.weights, moments_of(self.weights, 70), extra={"global_step": 70, "epoch": 0})
        self.assert_read_again(out, trainer_names({name: ("F32", array) for name, array in self.weights.items()}, 70))

    def test_a_moment_has_the_shape_of_its_weight(self) -> None:
        source = self.root / "one/model.safetensors"
        write_safetensors(source, {"a": ("F32", np.zeros((4, 3), "<f4")), "adam_m.a": ("F32", np.zeros((2, 3), "<f4"))})
        out = self.export(source.parent, "--map-var", "trainer_step=3")
        self.assertIn("left out of hyper/: 'adam_m.a' is [2, 3], but its weight 'a' is [4, 3]", self.told)
        self.assertNotIn("optimizer.state.a.exp_avg", read_table(latest_step(out)).state_dict_metadata)

    def test_in_a_mount_with_an_epoch(self) -> None:
        words = (*self.words, "--views", "hyper", "--map-var", "trainer_epoch=1")
        with mounted(self.source, *words) as mountpoint:
            self.assert_resumes(mountpoint / "hyper", self.weights, moments_of(self.weights, 70),
                                extra={"global_step": 70, "epoch": 1})

    def test_paths_in_the_run(self) -> None:
        table = read_table(latest_step(self.export(self.source, *self.words)))
        for name, path in (("model.w", ("model", "w")),
                           ("optimizer.state.w.exp_avg", ("optimizer", "state", "w", "exp_avg")),
                           ("optimizer.state.w.step", ("optimizer", "state", "w", "step")),
                           ("extra_state.global_step", ("extra_state", "global_step"))):
            self.assertEqual(table.planner_data[name], path)

    def test_weights_apart_from_states(self) -> None:
        step = latest_step(self.export(self.source, *self.words))
        self.assertEqual(sorted(read_safetensors(step / "model-00001-of-00001.safetensors")[0]),
                         ["model.head", "model.w"])
        states = read_safetensors(step / "optimizer-00001-of-00001.safetensors")[0]
        self.assertEqual(len(states), 4)
        self.assertTrue(all(kind == "F32" for kind, _ in states.values()))

    def test_steps_by_group(self) -> None:
        out = self.export(self.source, *self.words, "--map-var", "trainer_param_groups=2")
        names = read_table(latest_step(out)).state_dict_metadata
        self.assertFalse([name for name in names if name.startswith("optimizer.state.") and name.endswith(".step")])
        got = resume(out, skeleton(self.weights, moments_of(self.weights), groups=2))
        self.assertEqual(got["optimizer"]["param_groups"], [{"lr": 0.5, "step": 70}] * 2)
        self.assertEqual(read_table(latest_step(out)).planner_data["optimizer.param_groups.1.step"],
                         ("optimizer", "param_groups", 1, "step"))

    def test_a_stated_step_wins(self) -> None:
        out = self.export(self.source, *self.words, "--map-var", "trainer_step=9")
        self.assert_resumes(out, self.weights, moments_of(self.weights, 9), extra={"global_step": 9, "epoch": 0})

    def test_a_step_in_an_epoch_is_no_step(self) -> None:
        """The files are of 2_35: 35 steps in epoch 2."""
        self.counters = {}
        self.write()
        out = self.export(self.source, *self.words)
        self.assertIn("does not state the step", self.told)
        self.assertIn("AdamW treats the moments as new", self.told)
        self.assertEqual((out / TRACKER).read_text(), "0\n")
        names = read_table(latest_step(out)).state_dict_metadata
        self.assertFalse([name for name in names if name.endswith("step") or name.startswith("extra_state")])
        self.assert_resumes(out, self.weights, moments_of(self.weights))

    def test_counters_of_other_kinds(self) -> None:
        for kind, value, step in (("I64", np.array([5], "<i8"), 5), ("F32", np.array(6, "<f4"), 6),
                                  ("F64", np.array([7.5]), None), ("I32", np.array([-1], "<i4"), None),
                                  ("I32", np.array([1, 2], "<i4"), None)):
            with self.subTest(value=value):
                self.counters = {"step_num": (kind, value)}
                self.write()
                out = self.export(self.source, *self.words)
                extra = None if step is None else {"global_step": step, "epoch": 0}
                self.assert_resumes(out, self.weights, moments_of(self.weights, step), extra=extra)

    def test_weights_only(self) -> None:
        out = self.export(self.source, *self.words, "--weights-only")
        self.assertIn(f"hyper/ has weights alone: start the Trainer with {STEPLESS}", self.told)
        self.assertEqual((out / TRACKER).read_text(), "70\n")
        self.assert_resumes(out, self.weights)
        self.assertEqual(sorted(read_table(latest_step(out)).state_dict_metadata), ["model.head", "model.w"])

    def test_weights_without_moments_have_no_step(self) -> None:
        out = self.export(self.source, *self.words, "--exclude", "adam*.head")
        names = read_table(latest_step(out)).state_dict_metadata
        self.assertIn("optimizer.state.w.step", names)
        self.assertNotIn("optimizer.state.head.step", names)

    def test_states_without_a_weight_are_left_out(self) -> None:
        out = self.export(self.source, *self.words, "--exclude", "head")
        self.assertIn("'adam_m.head', 'adam_v.head'", self.told)
        self.assert_resumes(out, {"w": W}, moments_of({"w": W}, 70), extra={"global_step": 70, "epoch": 0})

    def test_casts_are_of_weights(self) -> None:
        out = self.export(self.source, *self.words, "--cast", "fp32->fp16")
        got = read_safetensors(latest_step(out) / "model-00001-of-00001.safetensors")[0]
        self.assertEqual({kind for kind, _ in got.values()}, {"F16"})
        self.assert_resumes(out, {name: array.astype("<f2") for name, array in self.weights.items()},
                            moments_of(self.weights, 70), extra={"global_step": 70, "epoch": 0})

    def test_any_target_strategy_shows_the_same(self) -> None:
        write_protobuf(Strategy([dict.fromkeys(self.full, Layout((4,), ((0,), ())))]), self.root / "dst.ckpt")
        one, four = (self.export(self.source, *self.words, *more) for more in
                     ((), ("--dst-strategy", self.root / "dst.ckpt")))
        for path in one.rglob("*"):
            if path.is_file():
                self.assertEqual((four / path.relative_to(one)).read_bytes(), path.read_bytes(), path.name)


class MainWeights(HyperTest):
    """In float32, as training with 16 bits keeps them."""

    def setUp(self) -> None:
        super().setUp()
        self.weights: Tensors = {name: ("BF16", bits(i)) for i, name in enumerate(("a", "b"))}
        self.main = {name: array + F4.type(2.0 ** -12) for name, array in float32(self.weights).items()}
        self.prefix = "optimizer.state.fp32_param."

    def source(self, *without: str) -> Path:
        path = self.root / "m.safetensors"
        write_safetensors(path, self.weights | {self.prefix + name: ("F32", array) for name, array in self.main.items()
                                                if name not in without})
        return path

    def test_all(self) -> None:
        self.assert_resumes(self.export(self.source()), float32(self.weights), main=self.main)

    def test_or_none(self) -> None:
        out = self.export(self.source("b"))
        self.assertIn("all or none, and the source has none of 'b'", self.told)
        self.assert_resumes(out, float32(self.weights))
        self.assertFalse([name for name in read_table(latest_step(out)).state_dict_metadata if "fp32" in name])

    def test_moments_of_8_bits_are_no_numbers_of_their_own(self) -> None:
        path = self.root / "m.safetensors"
        write_safetensors(path, {"a": ("BF16", bits(0)), "exp_avg.a": ("U8", bits(1).astype("u1")),
                                 "exp_avg_sq.a": ("F8_E4M3", bits(2).astype("u1"))})
        names = read_table(latest_step(self.export(path))).state_dict_metadata
        self.assertIn("'exp_avg.a', 'exp_avg_sq.a'", self.told)
        self.assertEqual(list(names), ["model.a"])

    def test_moments_of_16_bits_become_float32(self) -> None:
        path = self.root / "m.safetensors"
        write_safetensors(path, {"a": ("BF16", bits(0)), "exp_avg.a": ("BF16", bits(1)),
                                 "exp_avg_sq.a": ("F16", bits(2).view("<f2") * 0 + np.float16(0.5))})
        states = {"a": {"exp_avg": as_type("BF16", bits(1), F4), "exp_avg_sq": np.full((6, 4), 0.5, F4)}}
        out = self.export(path)
        self.assert_resumes(out, {"a": as_type("BF16", bits(0), F4)}, states)
        self.assert_read_again(out, {"model.a": ("BF16", bits(0)),
                                     "optimizer.state.a.exp_avg": ("F32", states["a"]["exp_avg"]),
                                     "optimizer.state.a.exp_avg_sq": ("F32", states["a"]["exp_avg_sq"])})


if __name__ == "__main__":
    run_unittests()
