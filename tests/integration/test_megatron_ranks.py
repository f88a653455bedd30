# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of Megatron-LM's ranks: what is told of them, their steps, what is refused, and the way from
them to Hugging Face."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, same  # noqa: E402
from map_sets import GOLDEN, golden, megatron_spec  # noqa: E402
from megatron_ranks import Place, Spec, file_of, filled, rank_file, write_set  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402
from torch_archive import ordered, stored, write_archive  # noqa: E402

Saved = dict[str, Any]


def model_of(saved: Saved) -> Saved:
    model: Saved = saved["model"].items
    return model


def arguments_of(saved: Saved) -> Saved:
    state: Saved = saved["args"].state
    return state


class RanksTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.run = self.root / "run"

    def write(self, spec: Spec, alter: Callable[[Saved], None] = lambda saved: None,
              *places: Place) -> Spec:
        """alter: what some of the files say instead."""
        write_set(self.run, spec)
        for place in places:
            saved = file_of(spec, place)
            alter(saved)
            write_archive(self.run / rank_file(spec, place), saved)
        return spec

    def exported(self, source: Path, *words: str | Path) -> Tensors:
        out = self.root / "out.safetensors"
        result = run("export", source, out, "--force", *words)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(out)[0]

    def refused(self, source: Path, *words: str | Path) -> str:
        result = run("export", source, self.root / "refused.safetensors", *words)
        self.assertEqual(result.code, 2, result.stderr)
        return one_line(result)

    def inspected(self, source: Path, *words: str) -> dict[str, Any]:
        result = run("inspect", source, "--json", *words)
        self.assertEqual(result.code, 0, result.stderr)
        return json.loads(result.stdout)


class Whole(RanksTest):
    def test_what_is_told(self) -> None:
        self.write(filled(Spec(2, 2, optimizer=True), 1))
        (self.run / "iter_0000100/mp_rank_01_000/distrib_optim.pt").write_bytes(b"x")
        contents = self.inspected(self.run)
        self.assertEqual(contents["step"], "100")
        told = {item["name"]: item["what"] for item in contents["byte_items"]}
        for name, words in {"args.tensor_model_parallel_size": "2", "args.padded_vocab_size": "16",
                            "args.virtual_pipeline_model_parallel_size": "None",
                            "args": "an object of argparse.Namespace", "optimizer": "not read: only the model is",
                            "rng_state": "not read: only the model is",
                            "*._extra_state": "8 states of modules, which are not weights",
                            "distrib_optim.pt": "the optimizer's states of 1 rank, without parameters' names: "
                                                "not read"}.items():
            self.assertEqual(told.get(name), words, name)
        self.assertNotIn("args.vocab_size", told)
        log = run("inspect", self.run, "--log-level", "info").stderr
        self.assertIn("--ckpt-convert-format torch_dist --ckpt-convert-save", log)
        text = run("inspect", self.run).stdout
        self.assertIn("as Megatron-LM saves them", text)

    def test_a_mount_shows_the_whole_model(self) -> None:
        spec = self.write(filled(Spec(2, 2, virtual=1, kind="F32"), 1))
        with mounted(self.run, "--views", "merged-safetensors") as mount:
            shown = read_safetensors(next((mount / "merged").glob("*.safetensors")))[0]
        same(self, shown, spec.whole)

    def test_a_sound_set_is_verified(self) -> None:
        self.write(filled(Spec(2, 2, untied=False, experts=4, expert=2), 1))
        result = run("verify", self.run)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)

    def test_copies_that_differ_are_found(self) -> None:
        """Of a norm that both tensor-parallel ranks have, and of a tied embedding."""
        spec = filled(Spec(2, 2, untied=False, kind="F32", extra_state=False), 1)
        for name in ("decoder.final_layernorm.weight", "output_layer.weight"):
            def alter(saved: Saved, name: str = name) -> None:
                tensor = model_of(saved)[name]
                data = bytearray(tensor.storage.data)
                data[0] ^= 1
                tensor.storage.data = bytes(data)
            with self.subTest(name):
                self.write(spec, alter, Place(1, 1))
                result = run("verify", self.run)
                self.assertEqual(result.code, 1, result.stdout + result.stderr)

    def test_a_tied_embedding_is_shown_once(self) -> None:
        spec = self.write(filled(Spec(1, 2, untied=False), 1))
        same(self, self.exported(self.run), spec.whole)

    def test_layers_of_prediction_of_one_stage(self) -> None:
        """They count from 0 in the stage that has all of them."""
        name = "mtp.layers.0.eh_proj.weight"
        spec = filled(Spec(2, 2, kind="F32", extra_state=False), 1)
        parts = {}
        for tensor in (0, 1):
            def alter(saved: Saved, tensor: int = tensor) -> None:
                _, array = spec.whole["embedding.word_embeddings.weight"]
                parts[tensor] = array[tensor:tensor + 4]
                model_of(saved)[name] = stored(parts[tensor], "F32")
            saved = file_of(spec, Place(tensor, 1))
            alter(saved)
            write_archive(self.run / rank_file(spec, Place(tensor, 1)), saved)
            write_archive(self.run / rank_file(spec, Place(tensor, 0)), file_of(spec, Place(tensor, 0)))
        (self.run / "latest_checkpointed_iteration.txt").write_text("100")
        shown = self.exported(self.run)[name][1]
        self.assertEqual(shown.tobytes(), parts[0].tobytes() + parts[1].tobytes())

    def test_the_key_of_the_model_may_be_named(self) -> None:
        spec = self.write(filled(Spec(1), 1))
        same(self, self.exported(self.run, "--state-key", "model"), spec.whole)
        self.assertIn("only the key 'model'", self.refused(self.run, "--state-key", "optimizer"))


class Steps(RanksTest):
    def setUp(self) -> None:
        super().setUp()
        self.spec = self.write(filled(Spec(2), 1))
        self.older = self.run / "iter_0000050"
        for place in (Place(0), Place(1)):
            saved = file_of(self.spec, place)
            saved["iteration"] = 50
            write_archive(self.older / Path(rank_file(self.spec, place)).relative_to("iter_0000100"), saved)

    def test_are_chosen(self) -> None:
        contents = self.inspected(self.run)
        self.assertEqual((contents["step"], contents["steps"]), ("100", ["50", "100"]))
        self.assertEqual(self.inspected(self.run, "--step", "50")["step"], "50")
        self.assertEqual(self.inspected(self.older)["step"], "50")
        self.assertIn("there is no directory of step '7'", self.refused(self.run, "--step", "7"))
        self.assertIn("not of step '7'", self.refused(self.older, "--step", "7"))

    def test_are_mounted_together(self) -> None:
        with mounted(self.run, "--views", "merged-safetensors", "--step", "all") as mount:
            found = sorted(path.name for path in (mount / "steps").iterdir())
        self.assertEqual(found, ["100", "50"])

    def test_need_the_file_that_names_the_last_one(self) -> None:
        (self.run / "latest_checkpointed_iteration.txt").unlink()
        self.assertIn("available: 50, 100", self.refused(self.run))
        same(self, self.exported(self.run, "--step", "100"), self.spec.whole)

    def test_release_has_none(self) -> None:
        shutil.rmtree(self.run)
        spec = self.write(filled(Spec(2, release=True), 1))
        same(self, self.exported(self.run), spec.whole)
        same(self, self.exported(self.run / "release"), spec.whole)


class Refusals(RanksTest):
    def expect(self, words: str, spec: Spec, alter: Callable[[Saved], None], *places: Place) -> None:
        with self.subTest(words):
            shutil.rmtree(self.run, ignore_errors=True)
            self.write(filled(spec, 1), alter, *places)
            self.assertIn(words, self.refused(self.run))

    def test_arguments_and_names_must_agree(self) -> None:
        both = Place(0), Place(1)

        def stating(**values: Any) -> Callable[[Saved], None]:
            return lambda saved: arguments_of(saved).update(values)
        self.expect("there is no directory 'mp_rank_02', 'mp_rank_03'", Spec(2),
                    stating(tensor_model_parallel_size=4), *both)
        self.expect("does not fit tensor parallelism of 1", Spec(2), stating(tensor_model_parallel_size=1),
                    *both)
        self.expect("does not fit tensor parallelism of 2, pipeline parallelism of 2", Spec(2),
                    stating(pipeline_model_parallel_size=2), *both)
        self.expect("states no tensor_model_parallel_size", Spec(1),
                    lambda saved: arguments_of(saved).pop("tensor_model_parallel_size"), Place(0))
        self.expect("states no tensor_model_parallel_size", Spec(1), lambda saved: saved.pop("args"), Place(0))
        self.expect("more than 1048576 ranks", Spec(1), stating(tensor_model_parallel_size=1 << 40), Place(0))
        self.expect("states -1 as tensor_model_parallel_size", Spec(1), stating(tensor_model_parallel_size=-1),
                    Place(0))
        self.expect("num_layers 3", Spec(1), stating(num_layers=3), Place(0))
        self.expect("virtual_pipeline_model_parallel_size 2", Spec(1),
                    stating(virtual_pipeline_model_parallel_size=2), Place(0))
        self.expect("gtp_weight_remat_size 2", Spec(1), stating(gtp_weight_remat_size=2), Place(0))
        self.expect("has 2 experts of it, but the arguments state 3", Spec(1, experts=2),
                    stating(num_experts=3), Place(0))
        self.expect("num_experts None", Spec(1, experts=2), stating(num_experts=None), Place(0))
        self.expect("tensor parallelism of 4, but of 2 for experts", Spec(4, experts=2, heads=4, query_groups=4,
                                                                          ffn=8),
                    stating(expert_tensor_parallel_size=2), *(Place(number) for number in range(4)))

    def test_sizes_in_arguments_are_those_of_tensors(self) -> None:
        for tensor in (1, 2):
            places = [Place(rank) for rank in range(tensor)]
            for name, value, words in (("hidden_size", 16, "the arguments state hidden_size 16"),
                                       ("ffn_hidden_size", 12, "the arguments state ffn_hidden_size 12"),
                                       ("num_attention_heads", 8, "heads and query groups in the arguments result in"),
                                       ("num_query_groups", 4, "heads and query groups in the arguments result in"),
                                       ("kv_channels", 4, "heads and query groups in the arguments result in"),
                                       ("padded_vocab_size", 32, "padded_vocab_size")):
                with self.subTest(tensor=tensor, name=name):
                    self.expect(words, Spec(tensor), lambda saved: arguments_of(saved).update({name: value}), *places)

    def test_files_must_be_of_one_save(self) -> None:
        self.expect("of different iterations", Spec(2), lambda saved: saved.update(iteration=99), Place(1))
        self.expect("not of one save: their arguments state seed", Spec(2),
                    lambda saved: arguments_of(saved).update(seed=7), Place(1))
        self.expect("is of iteration 99", Spec(1), lambda saved: saved.update(iteration=99), Place(0))

    def test_a_copy_is_named_where_no_process_tells(self) -> None:
        """A converter saves all files as process 0."""
        spec = filled(Spec(2, 1), 1)
        places = [Place(0, 0), Place(1, 0)]
        self.write(spec, lambda saved: arguments_of(saved).update(rank=0), *places)
        words = "have the same bytes in all tensors"
        first, second = (self.run / rank_file(spec, place) for place in places)
        self.assertNotIn(words, run("plan", self.run).stderr)
        shutil.copyfile(first, second)
        for command in (("plan",), ("inspect",), ("verify",)):
            result = run(*command, self.run)
            self.assertIn(words, result.stdout + result.stderr, command)

    def test_exchanged_directories_are_refused(self) -> None:
        spec = self.write(filled(Spec(2, processes=True), 1))
        first, second = (self.run / rank_file(spec, Place(number)) for number in (0, 1))
        first.rename(self.root / "kept")
        second.rename(first)
        (self.root / "kept").rename(second)
        self.assertIn("directories were exchanged", self.refused(self.run))

    def test_a_tensor_that_cannot_be_put_together_is_named(self) -> None:
        both = Place(0), Place(1)
        norm = "decoder.layers.1.mlp.linear_fc1.layer_norm_weight"

        def renamed(saved: Saved) -> None:
            model_of(saved)["decoder.layers.1.mixer.gate.weight"] = model_of(saved).pop(norm)
        self.expect("decoder.layers.1.mixer.gate.weight", Spec(2), renamed, *both)
        self.expect(norm, Spec(2), lambda saved: model_of(saved).pop(norm), Place(1))
        qkv = "decoder.layers.0.self_attention.linear_qkv.weight"

        def copied(saved: Saved) -> None:
            tensor = model_of(saved)[qkv]
            tensor.storage.data *= 2
            tensor.shape = (2 * tensor.shape[0], tensor.shape[1])
        self.expect("heads and query groups in the arguments result in", Spec(2), copied, *both)
        self.expect("it would be", Spec(2), copied, Place(1))
        self.expect("padded_vocab_size", Spec(2), lambda saved: arguments_of(saved).update(padded_vocab_size=32),
                    *both)
        self.expect("several stages have layers of this name", Spec(1, 2),
                    lambda saved: model_of(saved).update({"encoder.layers.0.x": stored(np.zeros(2, np.float32))}),
                    Place(0, 0), Place(0, 1))

    def test_without_it_the_others_are_shown(self) -> None:
        name = "decoder.layers.0.mixer.gate.weight"
        spec = filled(Spec(2, kind="F32"), 1)
        whole = spec.whole["decoder.final_layernorm.weight"][1]
        self.write(spec, lambda saved: model_of(saved).update({name: stored(whole)}), Place(0), Place(1))
        error = self.refused(self.run)
        self.assertIn("no rule states how tensor-parallel ranks share it", error)
        self.assertIn("--exclude", error)
        same(self, self.exported(self.run, "--exclude", name), spec.whole)

    def test_missing_files_are_named(self) -> None:
        spec = self.write(filled(Spec(2, 2), 1))
        path = self.run / rank_file(spec, Place(1, 1))
        path.rename(path.with_name("distrib_optim.pt"))
        error = self.refused(self.run)
        self.assertIn("mp_rank_01_001", error)
        self.assertIn("only the optimizer's distrib_optim.pt", error)
        shutil.rmtree(path.parent)
        self.assertIn("has 3 of 4 ranks: there is no directory 'mp_rank_01_001'", self.refused(self.run))

    def test_parts_of_a_rank_are_no_source(self) -> None:
        spec = self.write(filled(Spec(2), 1))
        rank = self.run / rank_file(spec, Place(1))
        self.assertIn("is the directory of one rank", self.refused(rank.parent))
        optimizer = rank.with_name("distrib_optim.pt")
        write_archive(optimizer, {0: {("a", "b"): {"param": stored(np.zeros(4, np.float32))}}})
        self.assertIn("has the states of Megatron-LM's distributed optimizer", self.refused(optimizer))

    def test_names_of_before_megatron_core_are_refused(self) -> None:
        def legacy(saved: Saved) -> None:
            tensor = next(iter(model_of(saved).values()))
            saved["model"] = ordered({"language_model": {"encoder": {"layers.0.x.weight": tensor}}})
        self.expect("--loader legacy", Spec(1), legacy, Place(0))


class HuggingFace(RanksTest):
    CASES = {"megatron_llama_numbered": [Spec(), Spec(2), Spec(1, 2), Spec(2, 2)],
             "megatron_qwen3_moe_numbered": [Spec(2), Spec(2, 2)],
             "megatron_mixtral_numbered": [Spec(2, 2), Spec(2, expert=3, expert_tensor=1), Spec(1, expert=3),
                                           Spec(2, grouped=True)],
             "megatron_gpt_oss_numbered": [Spec(2), Spec(1, 2)]}

    def test_a_map_shows_the_model_of_the_hub(self) -> None:
        for case, cuts in self.CASES.items():
            for cut in cuts:
                with self.subTest(case, cut=cut):
                    shutil.rmtree(self.run, ignore_errors=True)
                    self.write(megatron_spec(case, tensor=cut.tensor, pipeline=cut.pipeline, expert=cut.expert,
                                       expert_tensor=cut.expert_tensor, grouped=cut.grouped))
                    shown = self.exported(self.run, "--map", case.replace("_", "-"), "--model-config",
                                          GOLDEN / case / "config.json")
                    same(self, shown, golden(case, "src"))

    def test_the_view_of_the_hub(self) -> None:
        case = "megatron_llama_numbered"
        self.write(megatron_spec(case, tensor=2, pipeline=2))
        with mounted(self.run, "--views", "hf", "--map", case.replace("_", "-"), "--model-config",
                     GOLDEN / case / "config.json") as mount:
            shown: Tensors = {}
            for path in (mount / "hf").glob("*.safetensors"):
                shown |= read_safetensors(path)[0]
        same(self, shown, golden(case, "src"))

    def test_norms_of_the_local_implementation_have_a_map(self) -> None:
        case = "megatron_llama_numbered"
        spec = megatron_spec(case, tensor=2)
        for old, new in (("self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"),
                         ("mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight")):
            spec.whole = {name.replace(old, new): tensor for name, tensor in spec.whole.items()}
        self.write(spec)
        shown = self.exported(self.run, "--map", "megatron-ranks-llama", "--map-var", "tp=1", "--model-config",
                              GOLDEN / case / "config.json")
        same(self, shown, golden(case, "src"))

    def test_sizes_cut_it_as_megatron_does(self) -> None:
        """The families' cuts, from the maps, are those of the ranks."""
        case = "megatron_llama_numbered"
        spec = self.write(megatron_spec(case))
        with mounted(self.run, "--views", "ranks", "--dst-strategy", "tp=2", "--exclude", "*linear_fc1.weight",
                     "--exclude", "*.linear_qkv.*", "--format", "safetensors") as mount:
            for rank in (0, 1):
                shown = read_safetensors(next((mount / f"rank_{rank}").iterdir()))[0]
                ours = file_of(dataclasses.replace(spec, tensor=2), Place(rank))
                for name, (_, array) in shown.items():
                    self.assertEqual(array.tobytes(), model_of(ours)[name].storage.data, name)
                self.assertIn("decoder.layers.0.self_attention.linear_proj.weight", shown)


if __name__ == "__main__":
    run_unittests()
