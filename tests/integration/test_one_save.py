# SPDX-License-Identifier: Apache-2.0
"""Files of two saves are no checkpoint, whatever kind of set they are in: what files state of their save must be
the same, and every command refuses what contradicts."""

from __future__ import annotations

import shutil
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import deepspeed_sets as zero  # noqa: E402
import megatron_ranks as megatron  # noqa: E402
import numpy as np  # noqa: E402
from all_commands import ask, refusals, silent  # noqa: E402
from format_files import Tensors, read_safetensors, same  # noqa: E402
from mounted import run_unittests, scratch  # noqa: E402
from torch_archive import Call, Global, ordered, size, stored, write_archive  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldendcp"
Saved = dict[str, Any]
Alter = Callable[[Saved], object]
GROUPS = [{"embed.weight": (12, 4), "norm.weight": (4,)}, {"layers.0.w": (6, 5), "layers.0.b": (7,)}]


def spec_of(stage: int, world: int = 2) -> zero.Spec:
    rng = np.random.default_rng(1)
    arrays = {name: zero.weights(rng, shape) for group in GROUPS for name, shape in group.items()}
    return zero.Spec(world, stage, GROUPS, arrays, {kind: {name: array * 2 for name, array in arrays.items()}
                                                    for kind in zero.MOMENTS})


def torch_states(saved: Saved) -> Saved:
    states = saved["optimizer_state_dict"]
    return states.get("base_optimizer_state") or states["optimizer_state_dict"]


def of_step(step: Any) -> Alter:
    return lambda saved: [state.update(step=step) for state in torch_states(saved)["state"].values()]


def stating(**values: Any) -> Alter:
    return lambda saved: saved.update(values)


class OneSaveTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.run = self.root / "run"

    def assert_refused(self, words: str, source: Path | None = None) -> None:
        self.assertEqual(silent(source or self.run, self.root, words), {})
        self.assertNotEqual(ask("export", source or self.run, self.root).code, 0)

    def assert_named(self, words: str, source: Path, want: Tensors) -> None:
        self.assertEqual(silent(source, self.root, words), {})
        self.assertEqual(ask("export", source, self.root).code, 0)
        same(self, read_safetensors(self.root / "asked.safetensors")[0], want)

    def assert_sound(self, want: Tensors) -> None:
        self.assertEqual(refusals(self.run, self.root), {})
        same(self, read_safetensors(self.root / "asked.safetensors")[0], want)


class Zero(OneSaveTest):
    """A file of the optimizer's states, or of the model's, that says something else."""
    # Stage, file, what it states, and words of the refusal.
    CASES: tuple[tuple[int, str, Alter, str], ...] = (
        (1, "optimizer", of_step(stored(np.float32(500).reshape(()))), "the step of group 0 is 10 .* 500"),
        (2, "optimizer", of_step(500), "the step of group 0 is 10 .* 500"),
        (3, "optimizer", of_step(stored(np.float32(500).reshape(()))), "the step of group 0 is 10 .* 500"),
        (2, "optimizer", stating(ds_version="0.19.8"), "ds_version is 0.16.2 .* 0.19.8"),
        (2, "optimizer", lambda saved: saved["optimizer_state_dict"].update(zero_stage=1), "zero_stage is 2 .* 1"),
        (1, "model", stating(dp_world_size=3), "dp_world_size 3"),
        (2, "model", stating(global_steps=7), "after step 10, .* global_steps 7"),
        (2, "model", stating(ds_version="0.19.8"), "ds_version"),
        (3, "model", stating(global_steps=500), "global_steps is 10 .* 500"),
        (3, "model", stating(skipped_steps=1), "skipped_steps is 0 .* 1"),
        (3, "model", stating(global_samples=9), "global_samples is 20 .* 9"),
    )

    def test_what_files_state_is_compared(self) -> None:
        for stage, kind, alter, words in self.CASES:
            with self.subTest(stage=stage, kind=kind, words=words):
                shutil.rmtree(self.run, ignore_errors=True)
                spec = spec_of(stage)
                zero.write_set(self.run, spec)
                place = self.run / spec.tag
                rank = 1 if kind == "optimizer" or stage == 3 else 0
                saved = (zero.optim_states if kind == "optimizer" else zero.model_states)(spec, rank)
                alter(saved)
                name = f"zero_pp_rank_{rank}_" if kind == "optimizer" or stage == 3 else ""
                end = "optim_states.pt" if kind == "optimizer" else "model_states.pt"
                write_archive(place / f"{name}mp_rank_00_{end}", saved)
                self.assert_refused(words)

    def test_sound_sets_are_taken(self) -> None:
        for stage in (1, 2, 3):
            with self.subTest(stage):
                shutil.rmtree(self.run, ignore_errors=True)
                spec = spec_of(stage)
                zero.write_set(self.run, spec)
                self.assert_sound(spec.reference())

    def test_the_directory_has_the_name_of_the_step(self) -> None:
        for stage in (1, 3):
            with self.subTest(stage):
                shutil.rmtree(self.run, ignore_errors=True)
                zero.write_set(self.run, spec_of(stage))
                (self.run / "global_step10").rename(self.run / "global_step20")
                (self.run / "latest").write_text("global_step20")
                # Trainers may count steps of their own.
                words = "states global_steps 10, but its directory is named 'global_step20'"
                for source in (self.run, self.run / "global_step20"):
                    self.assert_named(words, source, spec_of(stage).reference())
                (self.run / "global_step20").rename(self.run / "kept")
                (self.run / "latest").write_text("kept")
                self.assert_sound(spec_of(stage).reference())

    def test_an_optimizer_may_have_made_fewer_steps(self) -> None:
        """It skips steps that overflow, and may have been started anew."""
        spec = spec_of(2)
        spec.tag = "global_step12"
        zero.write_set(self.run, spec)
        saved = zero.model_states(spec, 0) | {"global_steps": 12, "skipped_steps": 2}
        write_archive(self.run / spec.tag / "mp_rank_00_model_states.pt", saved)
        self.assert_sound(spec.reference())

    def test_a_file_that_was_saved_under_another_name_is_named(self) -> None:
        """Of stage 3 no file states its rank, but PyTorch names the folder in it after the file."""
        spec = spec_of(3)
        zero.write_set(self.run, spec)
        names = [self.run / spec.tag / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1)]
        both = [name.read_bytes() for name in names]
        for name, data in zip(names, reversed(both)):
            name.write_bytes(data)
        words = "'zero_pp_rank_0_mp_rank_00_optim_states.pt' as 'zero_pp_rank_1_mp_rank_00_optim_states'"
        self.assertEqual(silent(self.run, self.root, "saved under other names: .*" + words), {})

    def test_without_zero_the_model_is_read(self) -> None:
        arrays = spec_of(1).weights
        place = self.run / "global_step2"
        place.mkdir(parents=True)
        (self.run / "latest").write_text("global_step2")
        saved: Saved = {"module": ordered({name: stored(array) for name, array in arrays.items()}),
                        "buffer_names": [], "optimizer": {"state": {}}, "param_shapes": None,
                        "frozen_param_shapes": None, "shared_params": {}, "global_steps": 2, "dp_world_size": 2,
                        "mp_world_size": 1, "ds_version": zero.VERSION}
        write_archive(place / "mp_rank_00_model_states.pt", saved)
        self.assert_sound({name: ("F32", array) for name, array in arrays.items()})
        saved["param_shapes"] = [ordered({name: size(array.shape) for name, array in arrays.items()})]
        write_archive(place / "mp_rank_00_model_states.pt", saved)
        self.assert_refused("has no file of optimizer states")


class Universal(OneSaveTest):
    def setUp(self) -> None:
        super().setUp()
        self.spec = spec_of(1)
        zero.write_universal(self.run, self.spec)
        self.place = self.run / "global_step10_universal"

    def file(self, parameter: str, state: str) -> Path:
        return self.place / "zero" / parameter / f"{state}.pt"

    def assert_all_refuse(self, words: str) -> None:
        for source in (self.run, self.place):
            self.assert_refused(words, source)

    def test_a_sound_one_is_taken(self) -> None:
        self.assert_sound(self.spec.reference())

    def test_a_shape_is_that_of_the_model(self) -> None:
        shutil.copy(self.file("embed.weight", "fp32"), self.file("norm.weight", "fp32"))
        self.assert_all_refuse(r"norm.weight.*\[12, 4\], but mp_rank_00_model_states.pt states \[4\]")

    def test_a_state_has_the_shape_of_its_parameter(self) -> None:
        shutil.copy(self.file("embed.weight", "exp_avg"), self.file("norm.weight", "exp_avg"))
        self.assert_all_refuse(r"norm.weight.*\[12, 4\].*has the shape \[4\] in fp32.pt")

    def test_rows_that_fill_up_a_vocabulary_may_be_cut_off(self) -> None:
        states = zero.model_states(self.spec, 0)
        states["param_shapes"][0].items["embed.weight"] = size((16, 4))
        write_archive(self.place / "mp_rank_00_model_states.pt", states)
        self.assert_sound(self.spec.reference())
        states["param_shapes"][0].items["embed.weight"] = size((8, 4))
        write_archive(self.place / "mp_rank_00_model_states.pt", states)
        self.assert_all_refuse(r"embed.weight.*states \[8, 4\]")

    def test_all_parameters_are_of_one_step(self) -> None:
        write_archive(self.file("norm.weight", "step"), stored(np.float32(500).reshape(())))
        self.assert_all_refuse("the step of the optimizer is 10 .* 500")
        for parameter in self.spec.weights:
            write_archive(self.file(parameter, "step"), 500)
        self.assert_all_refuse("after step 500, .* global_steps 10")

    def test_a_conversion_that_was_interrupted_is_refused(self) -> None:
        (self.place / "mp_rank_00_model_states.pt").unlink()
        self.assert_all_refuse("has no file of model states.*interrupted")

    def test_stages_of_a_pipeline_list_their_own_parameters(self) -> None:
        states = zero.model_states(self.spec, 0) | {"checkpoint_parallel_dimensions": {"pp_degree": 2, "tp_degree": 1}}
        groups = states["param_shapes"]
        for stage in (0, 1):
            states["param_shapes"] = [groups[stage]]
            write_archive(self.place / f"mp_rank_{stage:02}_model_states.pt", states)
        self.assert_sound(self.spec.reference())
        shutil.rmtree(self.place / "zero" / "layers.0.b")
        self.assert_all_refuse("layers.0.b.*mp_rank_01_model_states.pt lists it")

    def test_the_directory_has_the_name_of_the_step(self) -> None:
        self.place = self.place.rename(self.run / "global_step20_universal")
        (self.run / "latest_universal").write_text(self.place.name)
        self.assert_named("states global_steps 10, but its directory is named 'global_step20_universal'", self.run,
                          self.spec.reference())

    def test_files_of_model_states_are_of_one_save(self) -> None:
        states = zero.model_states(self.spec, 0) | {"global_steps": 11}
        write_archive(self.place / "mp_rank_01_model_states.pt", states)
        self.assert_all_refuse("global_steps is 10 .* 11")


class Megatron(OneSaveTest):
    def exchange(self, spec: megatron.Spec, one: megatron.Place, other: megatron.Place) -> None:
        paths = [self.run / megatron.rank_file(spec, place) for place in (one, other)]
        both = [path.read_bytes() for path in paths]
        for path, data in zip(paths, reversed(both)):
            path.write_bytes(data)

    def test_exchanged_ranks_of_any_kind_are_refused(self) -> None:
        cases = ((megatron.Spec(2, processes=True), (0, 0, 0), (1, 0, 0)),
                 (megatron.Spec(1, 2, processes=True), (0, 0, 0), (0, 1, 0)),
                 (megatron.Spec(1, expert=2, experts=4, processes=True), (0, 0, 0), (0, 0, 1)),
                 (megatron.Spec(2, 2, expert=2, experts=4, processes=True), (1, 1, 0), (1, 1, 1)))
        for number, (spec, one, other) in enumerate(cases):
            with self.subTest(number):
                shutil.rmtree(self.run, ignore_errors=True)
                megatron.write_set(self.run, megatron.filled(spec, 1))
                self.assertEqual(refusals(self.run, self.root), {})
                self.exchange(spec, megatron.Place(*one), megatron.Place(*other))
                self.assert_refused("directories were exchanged")

    def test_a_copy_of_another_rank_is_refused(self) -> None:
        spec = megatron.Spec(4, heads=4, query_groups=4, ffn=8, processes=True)
        megatron.write_set(self.run, megatron.filled(spec, 1))
        files = [self.run / megatron.rank_file(spec, megatron.Place(rank)) for rank in (1, 3)]
        shutil.copy(*files)
        self.assert_refused("both saved by process 1")

    def test_a_tensor_of_two_stages_must_be_stated(self) -> None:
        spec = megatron.filled(megatron.Spec(1, 2), 1)
        megatron.write_set(self.run, spec)
        place = megatron.Place(0, 1)
        saved = megatron.file_of(spec, place)
        kind, array = spec.whole[megatron.EMBEDDING]
        saved["model"].items[megatron.EMBEDDING] = stored(array, kind)
        write_archive(self.run / megatron.rank_file(spec, place), saved)
        self.assertEqual(silent(self.run, self.root, "two pipeline stages, and no argument states"), {})


class TorchDist(OneSaveTest):
    """Of Megatron-Core: common.pt states the arguments of the training, and the iteration."""
    SOUND: Saved = {"num_layers": 4, "hidden_size": 8, "num_attention_heads": 4, "num_query_groups": 4,
                    "group_query_attention": False, "kv_channels": 2, "ffn_hidden_size": 12, "padded_vocab_size": 32}
    CASES = (({"num_layers": 6}, "has 4 layers of the decoder, but the arguments state num_layers 6"),
             ({"hidden_size": 16}, r"is \[32, 8\], but the arguments state hidden_size 16; so do"),
             ({"ffn_hidden_size": 6}, "the arguments state ffn_hidden_size 6"),
             ({"num_attention_heads": 8}, "heads and query groups in the arguments result in 48"),
             ({"hybrid_layer_pattern": "M*M*M*", "num_layers": 6},
              r"the hybrid layer pattern 'M\*M\*M\*' is stated, but the names are those of a GPT model"),
             ({"padded_vocab_size": 64}, "has 32 rows, but the arguments state a vocabulary of 64"))

    def setUp(self) -> None:
        super().setUp()
        shutil.copytree(GOLDEN / "mcore_gpt_tp2pp2/src/iter_0000010", self.run / "iter_0000010")
        (self.run / "latest_checkpointed_iteration.txt").write_text("10")

    def write(self, iteration: int = 10, **values: Any) -> None:
        arguments = Call(Global("argparse", "Namespace"), (), self.SOUND | values, new=True)
        write_archive(self.run / "iter_0000010/common.pt", {"args": arguments, "iteration": iteration})

    def test_arguments_must_fit(self) -> None:
        self.assertEqual(refusals(self.run, self.root), {})
        self.write()
        self.assertEqual(refusals(self.run, self.root), {})
        for values, words in self.CASES:
            with self.subTest(words):
                self.write(**values)
                self.assert_refused(words)

    def test_the_iteration_must_be_that_of_the_directory(self) -> None:
        self.write(200)
        for source in (self.run, self.run / "iter_0000010"):
            self.assert_refused("common.pt: is of iteration 200 by its content, but of iteration 10 by the name", source)

    def test_the_object_in_the_files_states_it_too(self) -> None:
        """As newer releases of Megatron-Core save it, without a common.pt."""
        shutil.rmtree(self.run)
        shutil.copytree(GOLDEN / "mcore_buckets_stages/src/iter_0000007", self.run / "iter_0000007")
        self.assertEqual(refusals(self.run / "iter_0000007", self.root), {})
        (self.run / "iter_0000007").rename(self.run / "iter_0000009")
        self.assert_refused("is of iteration 7 by its content, but of iteration 9 by the name",
                            self.run / "iter_0000009")

    def test_what_cannot_be_read_is_said(self) -> None:
        (self.run / "iter_0000010/common.pt").write_bytes(b"PK\3\4 cut off")
        self.assertEqual(refusals(self.run, self.root), {})
        self.assertIn("arguments cannot be read, so nothing is compared with them",
                      ask("plan", self.run, self.root, "-v").stderr)

    def test_files_that_the_table_does_not_name(self) -> None:
        shutil.copy(self.run / "iter_0000010/__1_0.distcp", self.run / "iter_0000010/__8_0.distcp")
        (self.run / "iter_0000010/__9_0.distcp").touch()
        words = "not read, because .metadata does not name them: '__8_0.distcp'$"
        self.assertEqual(silent(self.run, self.root, f"(?m){words}"), {})


class Fsdp(OneSaveTest):
    def test_a_renamed_file_is_named_and_a_copy_refused(self) -> None:
        """Tensors that are whole on each rank do not state whose file it is."""
        tensors = {"w": stored(np.arange(8, dtype="<f4").reshape(4, 2))}
        self.run.mkdir()
        for rank in (0, 1):
            write_archive(self.run / f"model_world_size_2_rank_{rank}.pt", ordered(tensors))
        self.assertEqual(refusals(self.run, self.root), {})
        first, second = (self.run / f"model_world_size_2_rank_{rank}.pt" for rank in (0, 1))
        data = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(data)
        self.assertEqual(silent(self.run, self.root, "'model_world_size_2_rank_1.pt' as 'model_world_size_2_rank_0'"),
                         {})
        first.write_bytes(data)
        self.assert_refused("rank_1.pt' and '.*rank_0.pt' were both saved as 'model_world_size_2_rank_0'")


if __name__ == "__main__":
    run_unittests()
