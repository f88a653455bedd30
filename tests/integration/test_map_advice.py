# SPDX-License-Identifier: Apache-2.0
"""What a map says where it does not fit, and what the installed maps leave out."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from checkpoint2 import read_tensors  # noqa: E402
from format_files import write_safetensors  # noqa: E402
from mounted import Result, run, run_unittests, scratch  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldenmap"
MAPS = Path(__file__).resolve().parents[2] / "config/maps"


class Advice(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def plan(self, case: str, *words: str | Path) -> Result:
        return run("plan", GOLDEN / case / "src.safetensors", "--model-config",
                   GOLDEN / case / "config.json", *words)

    def test_another_installed_map_is_suggested(self) -> None:
        """Names of legacy MindFormers: a map of the mcore networks takes next to none of them."""
        result = self.plan("llama_legacy_back", "--map", "mindformers-qwen3")
        self.assertEqual(result.code, 2)
        self.assertIn("did you mean --map mindformers-llama", result.stderr)

    def test_a_source_without_a_known_name_is_told(self) -> None:
        source = self.root / "set.safetensors"
        write_safetensors(source, {"strange": ("F32", np.zeros(2, "<f4"))})
        result = run("plan", source, "--map", "mindformers-qwen3")
        self.assertEqual(result.code, 2)
        self.assertIn("no rule of the map takes a tensor of the source", result.stderr)
        self.assertNotIn("did you mean", result.stderr)

    def test_the_other_direction_is_suggested(self) -> None:
        result = self.plan("qwen3_mcore_back", "--map", "mindformers-qwen3", "--map-direction", "forward")
        self.assertEqual(result.code, 2)
        self.assertIn("read inverse, its rules take 19 of 19 tensors: --map-direction inverse",
                      result.stderr)

    def test_auto_is_the_map_that_takes_all_names(self) -> None:
        for case, name in (("llama_legacy_back", "mindformers-llama"),
                           ("qwen2_qkv_concat_back", "mindformers-llama-qkv-concat")):
            with self.subTest(case):
                source = GOLDEN / case / "src.safetensors"
                words = ("--model-config", GOLDEN / case / "config.json")
                by_name = run("hash", source, *words, "--map", name)
                by_auto = run("hash", source, *words, "--map", "auto")
                self.assertEqual((by_auto.code, by_auto.stdout), (0, by_name.stdout), by_auto.stderr)
                self.assertEqual(by_name.code, 0, by_name.stderr)

    def test_auto_does_not_choose_among_several(self) -> None:
        """A hub model can be shown to several frameworks."""
        result = self.plan("llama_legacy", "--map", "auto")
        self.assertEqual((result.code, result.stdout), (2, ""))
        for word in ("several installed maps", "mindformers-llama (shows MindFormers legacy)",
                     "megatron-llama (shows Megatron-Core torch_dist)",
                     "name the one for the program that saved the source, or that reads the result"):
            self.assertIn(word, result.stderr)
        # Its config.json has model_type llama.
        for word in ("gemma", "packed-experts", "mixtral", "qwen"):
            self.assertNotIn(word, result.stderr)
        # MindFormers and Megatron name tensors alike. A map that others extend stands for them.
        result = self.plan("qwen3_mcore_back", "--map", "auto")
        self.assertEqual(result.code, 2)
        self.assertIn("megatron-ranks-llama (shows Hugging Face), mindformers-qwen3 (shows Hugging Face);",
                      result.stderr)

    def test_auto_is_the_map_of_the_program_that_saved_the_source(self) -> None:
        """Ranks of Megatron-Core have the same names, and rows in another order."""
        source = self.root / "ranks"
        case = GOLDEN / "qwen3_mcore_back"
        words = ("--model-config", case / "config.json")
        made = run("export", case / "src.safetensors", source, "--format", "ckpt", "--views", "ranks")
        self.assertEqual(made.code, 0, made.stderr)
        by_name = run("plan", source, *words, "--map", "mindformers-qwen3", "--map-var", "release=2.1")
        by_auto = run("plan", source, *words, "--map", "auto", "--map-var", "release=2.1")
        self.assertEqual((by_name.code, by_auto.code, by_auto.stdout), (0, 0, by_name.stdout), by_auto.stderr)
        self.assertIn("megatron-ranks-llama", run("plan", case / "src.safetensors", *words, "--map", "auto").stderr)

    def test_auto_is_the_map_that_shows_what_is_asked_for(self) -> None:
        words = ("--format", "ckpt", "--map-var", "release=2.1")
        by_name = self.plan("qwen3_moe_mcore", "--map", "mindformers-qwen3-moe", *words)
        by_auto = self.plan("qwen3_moe_mcore", "--map", "auto", *words)
        self.assertEqual((by_name.code, by_auto.code), (0, 0), by_auto.stderr)
        self.assertEqual(by_auto.stdout, by_name.stdout)
        words = ("--views", "megatron", "--map-var", "vocab_multiple=8")
        by_name = self.plan("qwen3_moe_mcore", "--map", "megatron-qwen3-moe", *words)
        by_auto = self.plan("qwen3_moe_mcore", "--map", "auto", *words)
        self.assertEqual((by_name.code, by_auto.code, by_auto.stdout), (0, 0, by_name.stdout), by_auto.stderr)

    def test_auto_is_the_map_whose_side_a_view_needs(self) -> None:
        """Ranks of Megatron-LM are no distributed checkpoint, and vLLM without scales is an older one."""
        for case in ("llama_legacy", "qwen2_legacy", "qwen3_mcore"):
            for view, name, *words in (("megatron", "megatron-llama", "--map-var", "vocab_multiple=8"), ("vllm", "vllm-llama")):
                with self.subTest(case, view=view):
                    by_name = self.plan(case, "--map", name, "--views", view, *words)
                    by_auto = self.plan(case, "--map", "auto", "--views", view, *words)
                    self.assertEqual((by_name.code, by_auto.code, by_auto.stdout), (0, 0, by_name.stdout), by_auto.stderr)

    def test_auto_keeps_names_that_are_asked_for(self) -> None:
        for case in ("llama_legacy", "deepseek_v3", "mixtral_legacy"):
            for view in ("hf", "dcp-hf"):
                source = (GOLDEN / case / "src.safetensors", "--model-config", GOLDEN / case / "config.json")
                result = run("export", *source, self.root / case / view, "--views", view, "--map", "auto")
                self.assertEqual(result.code, 0, result.stderr)
            (shown,) = (self.root / case / "hf").rglob("*.safetensors")
            self.assertEqual(read_tensors(shown).keys(), read_tensors(source[0]).keys())
        # With another view, a map is needed.
        self.assertEqual(self.plan("llama_legacy", "--map", "auto", "--views", "hf", "--views", "dcp").code, 0)

    def test_auto_knows_second_names_of_tensors(self) -> None:
        """Releases have the embedding and the head twice, where they predict several tokens."""
        for case, name in (("megatron_deepseek_v3", "megatron-deepseek-v3"), ("megatron_glm4_moe", "megatron-glm4-moe")):
            words = ("--views", "megatron", "--map-var", "vocab_multiple=8")
            by_name = self.plan(case, "--map", name, *words)
            by_auto = self.plan(case, "--map", "auto", *words)
            self.assertEqual((by_name.code, by_auto.code, by_auto.stdout), (0, 0, by_name.stdout), by_auto.stderr)

    def test_auto_is_a_map_of_mindspore_for_its_strategy(self) -> None:
        strategy = self.root / "train.ckpt"
        strategy.write_bytes(b"")
        result = self.plan("qwen3_moe_mcore", "--map", "auto", "--map-var", "release=2.1", "--dst-strategy", strategy)
        self.assertNotIn("--map auto", result.stderr)
        self.assertIn("train.ckpt", result.stderr)
        result = self.plan("llama_legacy", "--map", "auto", "--dst-strategy", strategy)
        self.assertIn("several installed maps take all names of the source: mindformers-llama (shows MindFormers legacy), "
                      "mindformers-llama-qkv-concat (shows MindFormers legacy);", result.stderr)

    def test_auto_takes_no_map_of_another_type(self) -> None:
        config = json.loads((GOLDEN / "llama_legacy/config.json").read_text()) | {"model_type": "gpt_oss"}
        (self.root / "config.json").write_text(json.dumps(config))
        result = run("plan", GOLDEN / "llama_legacy/src.safetensors", "--model-config", self.root, "--map", "auto")
        self.assertEqual(result.code, 2)
        self.assertIn("no installed map for model_type 'gpt_oss' takes the names of the source, but maps for others "
                      "do: ", result.stderr)
        # A type that no map knows says nothing.
        (self.root / "config.json").write_text(json.dumps(config | {"model_type": "granite"}))
        result = run("plan", GOLDEN / "llama_legacy/src.safetensors", "--model-config", self.root, "--map", "auto")
        self.assertIn("several installed maps", result.stderr)

    def test_auto_takes_no_map_that_is_not_confirmed(self) -> None:
        source = self.root / "gemma.safetensors"
        names = ("embedding.word_embeddings.weight", "decoder.final_layernorm.weight", "decoder.layers.0.layer_scalar",
                 "decoder.layers.0.self_attention_global.q_layernorm.weight")
        write_safetensors(source, {name: ("F32", np.ones(4, "<f4")) for name in names})
        (self.root / "config.json").write_text('{"model_type": "gemma4_text"}')
        result = run("plan", source, "--model-config", self.root, "--map", "auto")
        self.assertEqual(result.code, 2, result.stdout)
        self.assertIn("--map auto does not choose megatron-gemma4, the map for these names: it was never tested with a "
                      "checkpoint of Megatron-Core torch_dist; to use it all the same, name it: --map megatron-gemma4; "
                      "'reshardfs map list' says what it was compared with", result.stderr)

    def test_auto_takes_no_map_that_shows_something_else_than_asked_for(self) -> None:
        result = self.plan("megatron_gemma3", "--map", "auto", "--format", "ckpt", "--map-var", "vocab_multiple=8")
        self.assertEqual(result.code, 2)
        self.assertIn("no installed map that takes the names of the source shows 'MindFormers', which --views or "
                      "--format asks for: megatron-gemma3 (shows Megatron-Core torch_dist)", result.stderr)

    def test_no_map_puts_a_text_model_into_one_that_sees(self) -> None:
        for case, name in (("megatron_deepseek_v3", "megatron-llama"), ("megatron_deepseek_v3_back", "megatron-gemma3")):
            result = self.plan(case, "--map", name, "--map-var", "padded_vocab=24")
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("did you mean", result.stderr)
            self.assertNotIn("vision-language", result.stderr)

    def test_auto_never_packs_experts(self) -> None:
        for case in ("deepseek_v3", "qwen3_moe_mcore", "mixtral_legacy"):
            for words in ((), ("--views", "dcp"), ("--views", "vllm")):
                with self.subTest(case, words=words):
                    result = self.plan(case, "--map", "auto", *words)
                    self.assertEqual(result.code, 2, result.stdout)
                    self.assertNotIn("packed", result.stderr)

    def test_every_installed_map_states_its_types(self) -> None:
        between = ("megatron-hybrid", "megatron-vision-language", "vision-language")  # which are for any model
        names = [path.stem for path in MAPS.glob("*.toml")
                 if path.stem not in between and "Not for use alone" not in path.read_text()]
        self.assertGreater(len(names), 20)
        for name in names:
            with self.subTest(name):
                self.assertRegex((MAPS / f"{name}.toml").read_text(), r'(?m)^types = \["')

    def test_auto_names_what_the_nearest_map_does_not_take(self) -> None:
        source = self.root / "set.safetensors"
        write_safetensors(source, {"strange": ("F32", np.zeros(2, "<f4")), "lm_head.weight": (
            "F32", np.zeros((2, 2), "<f4"))})
        for command in ("hash", "verify", "plan"):
            result = run(command, source, "--map", "auto")
            self.assertEqual(result.code, 2, result.stdout)
            self.assertIn("takes 1 of 2 tensors, but not 'strange'", result.stderr)
        result = run("diff", source, source, "--a-map", "auto")
        self.assertEqual(result.code, 2)
        self.assertIn("not 'strange'", result.stderr)

    def test_auto_is_for_every_command_that_shows_tensors(self) -> None:
        source = GOLDEN / "llama_legacy_back/src.safetensors"
        words = ("--map", "auto", "--model-config", GOLDEN / "llama_legacy_back/config.json")
        for command in (("inspect", source), ("plan", source), ("verify", source)):
            result = run(*command, *words)
            self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("embed_tokens.weight", run("inspect", source, *words).stdout)
        rules = self.root / "rules.toml"
        rules.write_text('[devices]\naxes = ["tp=2"]\n\n[[rule]]\nmatch = "*"\n')
        result = run("strategy", "check", rules, "--source", source, *words)
        self.assertEqual(result.code, 0, result.stderr)

    def test_auto_stands_for_one_map(self) -> None:
        result = self.plan("llama_legacy", "--map", "auto", "--map", "mindformers-llama")
        self.assertEqual(result.code, 2)
        self.assertIn("--map auto stands for one map", result.stderr)

    def test_whoever_writes_a_map_gets_no_suggestion(self) -> None:
        own = self.root / "own.toml"
        own.write_text('[[map]]\nto = "y"\nfrom = "nothing.like.it"\n')
        result = self.plan("qwen3_mcore_back", "--map", own)
        self.assertEqual(result.code, 2)
        self.assertNotIn("did you mean", result.stderr)

    def test_the_way_to_give_a_variable_is_told(self) -> None:
        result = run("plan", GOLDEN / "qwen3_mcore_back/src.safetensors", "--map", "mindformers-qwen3")
        self.assertIn("unknown variable 'heads'; --model-config or --map-var can give it", result.stderr)

    def test_the_other_rule_is_named_with_its_file(self) -> None:
        (self.root / "base.toml").write_text('[[map]]\nto = "y"\nfrom = "x"\n')
        own = self.root / "own.toml"
        own.write_text('extends = "base.toml"\n[[map]]\nto = "{p:y|z}"\nfrom = "{p:y|z}"\n')
        source = self.root / "set.safetensors"
        array = ("F32", np.zeros(2, "<f4"))
        write_safetensors(source, {"x": array, "y": array})
        result = run("plan", source, "--map", own, "--map-direction", "forward")
        self.assertIn("two rules make it, the other one in line 1 of " + str(self.root / "base.toml"),
                      result.stderr)

    def test_scalars_of_the_training_are_left_out(self) -> None:
        """What every checkpoint of a training has must not keep its weights from being shown."""
        source = self.root / "set.safetensors"
        tensors = read_tensors(GOLDEN / "qwen3_mcore_back/src.safetensors")
        scalars = {name: ("I32", np.array([7], "<i4")) for name in ("global_step", "epoch_num")}
        write_safetensors(source, dict(tensors) | scalars)
        result = run("export", source, self.root / "out", "--map", "mindformers-qwen3",
                     "--map-var", "release=1.7",
                     "--model-config", GOLDEN / "qwen3_mcore_back/config.json")
        self.assertEqual(result.code, 0, result.stderr)
        shown = read_tensors(self.root / "out/rank_0/checkpoint_0.safetensors")
        self.assertEqual(sorted(shown),
                         sorted(read_tensors(GOLDEN / "qwen3_mcore_back/expected.safetensors")))


if __name__ == "__main__":
    run_unittests()
