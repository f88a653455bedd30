# SPDX-License-Identifier: Apache-2.0
"""Sets that MindFormers itself wrote: see tests/golden_mindformers/README.md."""

from __future__ import annotations

import fnmatch
import json
import shutil
import sys
import unittest
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_safetensors  # noqa: E402
from mounted import Result, one_line, run, run_unittests, scratch  # noqa: E402

GOLDEN = TESTS / "golden_mindformers"
MODELS = sorted(path.parent for path in GOLDEN.glob("*/mindformers.safetensors"))
PLAN = "decoder.layers.1.mlp.expert_mapping"


def tensors(path: Path) -> Tensors:
    return read_safetensors(path)[0]


def case_of(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / name / "case.json").read_text())


class Case:
    """A model on both sides, and the words that relate them."""

    def __init__(self, name: str) -> None:
        text = case_of(name)
        self.to_words = [f"{key}={value}" for key, value in text.get("to_mindformers", {}).items()]
        self.model = GOLDEN / text.get("same_model", name)
        self.mindformers = GOLDEN / name / "mindformers.safetensors"
        self.hub = self.model / "hugging_face.safetensors"
        self.map = ["--map", text["map"]]
        self.vars = [f"{key}={value}" for key, value in text["vars"].items()]
        self.left_out = text.get("left_out", [])

    def words(self, *more: str) -> list[str]:
        config = self.model / "config.json"
        return [*self.map, *(word for value in (*self.vars, *more) for word in ("--map-var", value)),
                *(["--model-config", str(config)] if config.exists() else [])]

    def trained(self) -> Tensors:
        return tensors(self.mindformers)

    def kept(self) -> Tensors:
        return {name: tensor for name, tensor in self.trained().items()
                if not any(fnmatch.fnmatch(name, glob) for glob in self.left_out)}


class GoldenTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.count = 0

    def written(self, model: Tensors) -> Path:
        self.count += 1
        file = self.root / f"in{self.count}" / "model.safetensors"
        file.parent.mkdir()
        write_safetensors(file, model)
        return file

    def export(self, source: Path, *words: str | Path, views: str) -> Tensors:
        self.count += 1
        out = self.root / f"out{self.count}"
        result = run("export", source, out, *words, "--views", views)
        self.assertEqual(result.code, 0, result.stderr)
        found: Tensors = {}
        for file in out.rglob("*.safetensors"):
            found |= tensors(file)
        return found

    def to_hub(self, source: Path, *words: str | Path) -> Tensors:
        return self.export(source, *words, views="hf")

    def to_mindformers(self, source: Path, *words: str | Path) -> Tensors:
        return self.export(source, *words, views="merged-safetensors")

    def refused(self, source: Path, *words: str | Path, says: tuple[str, ...]) -> Result:
        result = run("export", source, self.root / "refused", *words)
        self.assertEqual(result.code, 2, result.stderr)
        one_line(result)
        for text in says:
            self.assertIn(text, result.stderr)
        return result

    def yaml(self, text: str) -> list[str]:
        self.count += 1
        file = self.root / f"run{self.count}.yaml"
        file.write_text(text)
        return ["--training-config", str(file)]


class BothWays(GoldenTest):
    def test_models(self) -> None:
        self.assertEqual(len(MODELS), 7)
        for path in MODELS:
            with self.subTest(path.name):
                case = Case(path.name)
                same(self, self.to_hub(case.mindformers, *case.words()), tensors(case.hub))
                same(self, self.to_mindformers(case.hub, *case.words(*case.to_words)), case.kept())


class ParametersOfTheTraining(GoldenTest):
    """What networks have and models do not."""

    NAMES = ("mlp.router.fi_accu", "mlp.router.expert_load", "mlp.tokens_per_expert",
             "mlp.router.global_tokens_per_expert", "mlp.router.ga_steps",
             "self_attention.core_attention.max_logits_val", "mlp.expert_load_history",
             "mlp.expert_load_history_cnt", "mlp.experts.num_tokens_per_expert")

    def test_they_are_dropped(self) -> None:
        counters = ("F32", np.zeros(4, "<f4"))
        for name in ("deepseek_v3_split", "qwen3_moe", "deepseek_v4"):
            case = Case(name)
            more = {f"decoder.layers.1.{tensor}": counters for tensor in self.NAMES}
            more |= {"_device_local_loss": counters, "lm_device_local_loss": counters}
            got = self.to_hub(self.written(case.trained() | more), *case.words())
            same(self, got, tensors(case.hub))
        case = Case("llama_qkv_concat")
        got = self.to_hub(self.written(case.trained() | {"_device_local_loss": counters}), *case.words())
        same(self, got, tensors(case.hub))

    def test_other_names_are_refused(self) -> None:
        case = Case("qwen3_moe")
        name = "decoder.layers.1.mlp.router.fi_accumulated"
        self.refused(self.written(case.trained() | {name: ("F32", np.zeros(4, "<f4"))}), *case.words(),
                     says=(name, "no rule uses it"))

    def test_only_an_order_that_changes_nothing_is_dropped(self) -> None:
        for case in (Case("qwen3_moe"), Case("deepseek_v4")):
            model = case.trained()
            kept = self.written(model | {PLAN: ("I32", np.arange(4, dtype="<i4"))})
            same(self, self.to_hub(kept, *case.words()), tensors(case.hub))
            for order in ([1, 0, 2, 3], [0, 1, 2, 2], [0, 1, 3, 2]):
                moved = self.written(model | {PLAN: ("I32", np.array(order, dtype="<i4"))})
                self.refused(moved, *case.words(), says=(PLAN, "another order", "relocation"))
            wrong = self.written(model | {PLAN: ("F32", np.arange(4, dtype="<f4"))})
            self.refused(wrong, *case.words(), says=(PLAN, "no list of integers"))


class Experts(GoldenTest):
    def test_a_checkpoint_shows_its_form(self) -> None:
        """Whatever is stated: the program's converter makes this form for all networks."""
        graph, pynative = Case("qwen3_moe"), Case("qwen3_moe_pynative")
        for case in (graph, pynative):
            for words in (["--map-var", "pynative=0"], ["--map-var", "pynative=1"],
                          self.yaml("context:\n  mode: 1\n"), self.yaml("context:\n  mode: 0\n")):
                same(self, self.to_hub(case.mindformers, *case.words(), *words), tensors(case.hub))

    def test_bias_and_form_are_independent(self) -> None:
        case = Case("deepseek_v3_split")
        model = case.trained()
        weights = {"weight1": (4, 32, 48), "weight2": (4, 24, 32)}
        for deep in (False, True):
            for beside in (False, True):
                other = dict(model)
                for name, shape in weights.items() if deep else ():
                    full = f"decoder.layers.1.mlp.experts.{name}"
                    other[full] = (model[full][0], model[full][1].reshape(shape))
                if beside:
                    bias = other.pop("decoder.layers.1.mlp.router.expert_bias")
                    other["decoder.layers.1.mlp.expert_bias"] = bias
                same(self, self.to_hub(self.written(other), *case.words()), tensors(case.hub))

    def test_the_training_states_the_form_for_it(self) -> None:
        case = Case("qwen3_moe_pynative")
        graph = Case("qwen3_moe").kept()
        for text, want in (("context:\n  mode: 1\n", case.kept()), ("context: {mode: 0}\n", graph),
                           ("profile:\n  mode: 1\n", graph)):
            same(self, self.to_mindformers(case.hub, *case.words(), *self.yaml(text)), want)
        for text in ("context: {mode: PYNATIVE}\n", "context: {mode: 2}\n"):
            self.refused(case.hub, *case.words(), *self.yaml(text), says=("pynative", "context.mode"))

    def test_the_name_of_the_bias(self) -> None:
        case = Case("deepseek_v3_split")
        got = self.to_mindformers(case.hub, *case.words(*case.to_words, "pynative=1"))
        self.assertIn("decoder.layers.1.mlp.expert_bias", got)
        self.assertNotIn("decoder.layers.1.mlp.router.expert_bias", got)
        self.assertEqual(got["decoder.layers.1.mlp.experts.weight1"][1].shape, (4, 32, 48))
        same(self, self.to_hub(self.written(got), *case.words()), tensors(case.hub))


class PyNative(GoldenTest):
    """Its networks obey no setting of layouts."""

    CONTRARY = ("use_interleaved_weight_layout_mlp: False", "use_contiguous_weight_layout_attention: True",
                "mla_qkv_concat: False")

    def test_settings_that_are_stated(self) -> None:
        for name in ("qwen3", "deepseek_v3_joined"):
            case = Case(name)
            words = [*case.map, "--model-config", str(case.model / "config.json")]
            want = self.to_mindformers(case.hub, *words, *self.yaml("context: {mode: 1}\n"))
            for text in self.CONTRARY:
                with self.subTest(name, text=text):
                    contrary = f"context:\n  mode: 1\nmodel:\n  model_config:\n    {text}\n"
                    same(self, self.to_mindformers(case.hub, *words, *self.yaml(contrary)), want)
                    same(self, self.to_mindformers(case.hub, *words, *self.yaml(contrary.replace("mode: 1", "mode: 0")),
                                                   "--map-var", "pynative=1"), want)
        self.assertIn("decoder.layers.0.self_attention.linear_qkv.weight", want)
        same(self, {name: tensor for name, tensor in want.items() if "linear_fc1" in name and "experts" not in name},
             {name: tensor for name, tensor in self.to_mindformers(
                 case.hub, *words, "--map-var", "interleaved=1", "--map-var", "joined=1", "--map-var", "pynative=1").items()
              if "linear_fc1" in name and "experts" not in name})

    def test_a_mode_that_means_nothing(self) -> None:
        case = Case("qwen3")
        words = [*case.map, "--model-config", str(case.model / "config.json")]
        for mode in ("PYNATIVE", "2"):
            text = (f"context:\n  mode: {mode}\nmodel:\n  model_config:\n"
                    "    use_interleaved_weight_layout_mlp: True\n    use_contiguous_weight_layout_attention: False\n")
            self.refused(case.hub, *words, *self.yaml(text), says=("pynative", "context.mode"))

    def test_constants_of_a_network(self) -> None:
        case = Case("deepseek_v4")
        ones = ("F32", np.ones(4, "<f4"))
        more = {f"decoder.layers.0.{name}": ones
                for name in ("self_attention.q_rms_gamma", "attn_hc.rms_weight", "ffn_hc.rms_weight")}
        same(self, self.to_hub(self.written(case.trained() | more), *case.words()), tensors(case.hub))


class JoinedAttention(GoldenTest):
    def setUp(self) -> None:
        super().setUp()
        self.joined, self.split = Case("deepseek_v3_joined"), Case("deepseek_v3_split")

    def test_neither_form_is_taken_for_granted(self) -> None:
        self.refused(self.joined.hub, *self.joined.words(), says=(
            "joined", "linear_q_down_proj", "linear_qkv", "--map-var joined=0 or joined=1", "--training-config",
            "mla_qkv_concat"))

    def test_the_trainings_file_states_it(self) -> None:
        for value, case in ((True, self.joined), (False, self.split)):
            words = self.yaml(f"model:\n  model_config:\n    mla_qkv_concat: {value}\n")
            same(self, self.to_mindformers(case.hub, *case.words(), *words), case.kept())

    def test_names_tell_whatever_is_stated(self) -> None:
        for case in (self.joined, self.split):
            for value in (0, 1):
                same(self, self.to_hub(case.mindformers, *case.words(f"joined={value}")), tensors(case.hub))

    def test_what_is_missing_is_named(self) -> None:
        for case, names in ((self.joined, ("linear_qb", "linear_kvb", "k_layernorm", "linear_qkv", "q_layernorm")),
                            (self.split, ("linear_q_down_proj", "linear_kv_up_proj", "kv_layernorm"))):
            for layers in ((1,), (0, 1)):
                for name in names:
                    gone = {f"decoder.layers.{layer}.self_attention.{name}.weight" for layer in layers}
                    model = {key: tensor for key, tensor in case.trained().items() if key not in gone}
                    self.refused(self.written(model), *case.words(), says=(name,))

    def test_states_of_the_optimizer(self) -> None:
        model, hub = self.joined.trained(), tensors(self.joined.hub)
        states = {f"adam_m.{name}": tensor for name, tensor in self.joined.kept().items()}
        got = self.to_mindformers(self.written(model | states), *self.joined.words())
        same(self, got, hub | {f"adam_m.{name}": tensor for name, tensor in hub.items()})

    def test_one_matrix_for_queries(self) -> None:
        """Models whose q_lora_rank is null."""
        hub = tensors(self.joined.hub)
        rows = np.arange(48 * 32, dtype="<f4").reshape(48, 32)
        for layer in (0, 1):
            start = f"model.layers.{layer}.self_attn."
            for name in ("q_a_proj", "q_b_proj", "q_a_layernorm"):
                del hub[f"{start}{name}.weight"]
            hub[f"{start}q_proj.weight"] = ("F32", rows + layer)
        config = json.loads((self.joined.model / "config.json").read_text()) | {"q_lora_rank": None}
        file = self.root / "config.json"
        file.write_text(json.dumps(config))
        words = ["--map", "mindformers-deepseek-v3", "--map-var", "release=2.1", "--model-config", str(file)]
        source = self.written(hub)
        split = self.to_mindformers(source, *words, "--map-var", "joined=0")
        joined = self.to_mindformers(source, *words, "--map-var", "joined=1")
        start = "decoder.layers.1.self_attention."
        kv = hub["model.layers.1.self_attn.kv_a_proj_with_mqa.weight"][1]
        np.testing.assert_array_equal(split[f"{start}linear_q_proj.weight"][1], rows + 1)
        np.testing.assert_array_equal(joined[f"{start}linear_qkv.weight"][1], np.concatenate([rows + 1, kv]))
        for model in (split, joined):
            self.assertNotIn(f"{start}q_layernorm.weight", model)
            same(self, self.to_hub(self.written(model), *words), hub)


class Releases(GoldenTest):
    """What a training's file proves of the release, whose defaults then hold."""

    def setUp(self) -> None:
        super().setUp()
        self.case = Case("qwen3")
        self.words = [*self.case.map, "--model-config", str(self.case.model / "config.json")]

    def test_keys_of_later_releases(self) -> None:
        for text in ("model:\n  model_config:\n    use_contiguous_weight_layout_attention: False\n",
                     "context:\n  mode: 1\n"):
            got = self.to_mindformers(self.case.hub, *self.words, *self.yaml(text))
            same(self, got, self.case.trained())

    def test_others_prove_nothing(self) -> None:
        for text in ("context:\n  mode: 0\n", "use_legacy: False\npretrained_model_dir: '/m'\n",
                     "context:\n  device:\n    mode: 1\n", "mode: 1\n"):
            self.refused(self.case.hub, *self.words, *self.yaml(text), says=(
                "--map-var contiguous=0 or contiguous=1", "--training-config", "release=N with the release of MindFormers that trains"))

    def test_a_release_that_the_file_contradicts(self) -> None:
        self.refused(self.case.hub, *self.words, "--map-var", "release=1.6",
                     *self.yaml("use_contiguous_weight_layout_attention: False\n"),
                     says=("interleaved", "release=1.6", "1.7 or later"))


class Checkpoint2(GoldenTest):
    def setUp(self) -> None:
        super().setUp()
        self.one = self.root / "one"
        shutil.copytree(GOLDEN / "checkpoint2_one_process" / "checkpoint", self.one)
        self.two = self.root / "two"
        shutil.copytree(GOLDEN / "checkpoint2_two_ranks" / "checkpoint", self.two)
        self.words = ["--map", "mindformers-qwen3-moe", "--map-var", "release=2.1", "--model-config",
                      str(GOLDEN / "checkpoint2_one_process" / "config.json")]

    def test_two_ranks(self) -> None:
        want = tensors(GOLDEN / "checkpoint2_two_ranks" / "expected.safetensors")
        got = self.export(self.two, views="merged-safetensors")
        self.assertEqual(set(got) - set(want), {"global_step"})
        same(self, {name: got[name] for name in want}, want)
        self.assertEqual(run("verify", self.two).code, 0)

    def test_the_bytes_of_both_releases(self) -> None:
        want = (self.two / "iteration_00000007/metadata.json").read_text()
        for release, text in (("2.1", json.dumps(json.loads(want), separators=(",", ":"))), ("2.0", None)):
            with self.subTest(release):
                self.count += 1
                out = self.root / f"out{self.count}"
                words = ["--iteration-release", release] if text else []
                result = run("export", self.two, out, "--dst-strategy", "tp=2", *words, "--views",
                             "iteration")
                self.assertEqual(result.code, 0, result.stderr)
                (file,) = out.rglob("metadata.json")
                found = json.loads(file.read_text())
                self.assertEqual(file.read_text(), json.dumps(found, separators=(",", ":")) if text else
                                 json.dumps(found, indent=4))
                self.assertEqual(found["storage_data"], json.loads(want)["storage_data"])
        self.refused(self.two, "--iteration-release", "2.1", says=("--iteration-release is for the view iteration",))

    def test_steps_of_one_process(self) -> None:
        """The model of each step, and back to the bytes that the network saved."""
        for step, words in (("6", []), ("3", ["--step", "3"])):
            (file,) = (self.one / f"iteration_0000000{step}").glob("*-model-*.safetensors")
            model = {name: tensor for name, tensor in tensors(file).items() if "fi_accu" not in name}
            hub = self.to_hub(self.one, *self.words, *words)
            self.assertTrue(all(name.startswith(("model.", "lm_head.")) for name in hub))
            same(self, self.to_mindformers(self.written(hub), *self.words), model)

    def test_metadata_of_what_files_really_have(self) -> None:
        """Redundancy removed: the metadata of 2.1.0 leaves out what a file lacks, and names that no file has."""
        step = self.two / "iteration_00000007"
        metadata = json.loads((step / "metadata.json").read_text())
        places = metadata["storage_data"]
        copies = {key: files for key, files in places.items() if len(files) > 1}
        self.assertEqual(len(copies), 4)
        for number, (key, files) in enumerate(copies.items()):
            (kept, other) = files if number % 2 else files[::-1]
            places[key] = [kept | {"rank_group": [kept["storage_rank"]]}]
            file = step / other["file_name"]
            left = tensors(file)
            del left[key[2:key.rindex("'")]]
            file.unlink()
            write_safetensors(file, left, {"format": "ms"})
        (step / "metadata.json").unlink()
        (step / "metadata.json").write_text(json.dumps(metadata, separators=(",", ":")))
        self.test_two_ranks()

    def test_what_a_broken_save_leaves(self) -> None:
        for place in (self.two, self.two / "iteration_00000007"):
            (place / "tmpk3x9_a2b").write_text("{")
        self.test_two_ranks()

    def test_weights_without_files_of_the_optimizer(self) -> None:
        for file in (self.two / "iteration_00000007").glob("*-opt-*"):
            file.unlink()
        want = tensors(GOLDEN / "checkpoint2_two_ranks" / "expected.safetensors")
        got = self.export(self.two, "--weights-only", views="merged-safetensors")
        same(self, got, {name: tensor for name, tensor in want.items() if not name.startswith("adam_")})

    def test_an_adapter_says_so(self) -> None:
        text = json.dumps({"format": "mindformers_pynative_lora_adapter_v1", "base_load_path": "/models/base"})
        for place in (self.two, self.two / "iteration_00000007"):
            (place / "mindformers_adapter_config.json").write_text(text)
        for source in (self.two, self.two / "iteration_00000007"):
            result = run("inspect", source)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("a LoRA adapter of '/models/base'", result.stdout + result.stderr)
            for view in ("hf", "hyper"):
                self.refused(source, "--views", view, says=("LoRA adapter of '/models/base'", f"{view}/ is for models"))
            self.export(source, views="merged-safetensors")


if __name__ == "__main__":
    run_unittests()
