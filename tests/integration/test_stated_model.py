# SPDX-License-Identifier: Apache-2.0
"""The model's own numbers and its other layers: what lacks is refused where a part would pass for the whole, and
named by the commands that look at what is there."""

from __future__ import annotations

import json
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np
from all_commands import refusals, silent
from format_files import Tensors, read_safetensors, write_safetensors
from meta_sets import whole_model, write_release
from mounted import Result, mounted, run, run_unittests, scratch

LLAMA = {"model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "vocab_size": 32,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "tie_word_embeddings": False}
PARTS = {"self_attn.q_proj": (16, 16), "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16),
         "self_attn.o_proj": (16, 16), "mlp.gate_proj": (24, 16), "mlp.up_proj": (24, 16), "mlp.down_proj": (16, 24),
         "input_layernorm": (16,), "post_attention_layernorm": (16,)}
LEGACY = {"embed_tokens.weight": "tok_embeddings.embedding_weight", "model.norm.": "model.norm_out.",
          "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
          "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2",
          "mlp.up_proj": "feed_forward.w3", "input_layernorm": "attention_norm",
          "post_attention_layernorm": "ffn_norm"}


def tensors(shapes: dict[str, tuple[int, ...]]) -> Tensors:
    return {name: ("F32", np.full(shape, at, "<f4")) for at, (name, shape) in enumerate(shapes.items())}


def llama(layers: tuple[int, ...] = (0, 1, 2, 3), prefix: str = "model.", head: bool = True) -> Tensors:
    shapes: dict[str, tuple[int, ...]] = {f"{prefix}embed_tokens.weight": (32, 16), f"{prefix}norm.weight": (16,)}
    if head:
        shapes["lm_head.weight"] = (32, 16)
    for layer in layers:
        shapes |= {f"{prefix}layers.{layer}.{part}.weight": shape for part, shape in PARTS.items()}
    return tensors(shapes)


class StatedModelTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "set"
        self.place = self.root / "mnt"
        self.place.mkdir()

    def write(self, model: Tensors, config: dict | None = None, *, name: str = "model.safetensors") -> Path:
        shutil.rmtree(self.source, ignore_errors=True)
        write_safetensors(self.source / name, model, {"format": "pt"})
        if config is not None:
            (self.source / "config.json").write_text(json.dumps(config))
        return self.source

    def export(self, *options: str | Path) -> Result:
        return run("export", self.source, self.root / "out", "--force", "--views", "merged-safetensors", *options)

    def refused(self, *words: str, options: tuple[str | Path, ...] = ()) -> None:
        """By what would pass a part for the whole; the others open it, and say the same."""
        for result in (run("plan", self.source, *options), self.export(*options),
                       run("mount", self.source, self.place, "--check-only", *options)):
            self.assertEqual(result.code, 2, result.stdout + result.stderr)
            self.says(result.stderr, *words, "--partial")
        for result in (run("inspect", self.source), run("diff", self.source, self.source),
                       run("cat", self.source, "merged/params.json")):
            self.assertIn(result.code, (0, 2), result.stderr)
            self.says(result.stderr, *words)
        result = run("verify", self.source)
        self.assertEqual(result.code, 1, result.stdout)
        self.says(result.stdout + result.stderr, *words)
        result = self.export("--partial", *options)
        self.assertEqual(result.code, 0, result.stderr)
        self.says(result.stderr, *words)

    def says(self, text: str, *words: str) -> None:
        for word in words:
            self.assertIn(word, text)

    def accepted(self, *options: str | Path) -> None:
        for result in (run("plan", self.source, *options), self.export(*options), run("inspect", self.source),
                       run("verify", self.source)):
            self.assertEqual(result.code, 0, result.stdout + result.stderr)
            self.assertNotIn("warning", result.stderr)


class Layers(StatedModelTest):
    def test_fewer_than_are_stated(self) -> None:
        self.write(llama((0, 1)), LLAMA)
        self.refused("no tensor of layers 2 and 3", "config.json: num_hidden_layers is 4")

    def test_numbers_may_stand_in_text_config(self) -> None:
        self.write(llama((0, 1), "model.language_model."),
                   {"model_type": "gemma3", "text_config": {**LLAMA, "model_type": "gemma3_text"},
                    "vision_config": {"num_hidden_layers": 27}})
        self.refused("no tensor of layers 2 and 3")

    def test_a_gap(self) -> None:
        self.write(llama((0, 1, 3)), LLAMA)
        self.refused("no tensor of layer 2, ")
        # Without numbers, the layers around tell as much, but a model may be so.
        self.write(llama((0, 1, 3)))
        for result in (run("inspect", self.source), run("plan", self.source)):
            self.assertEqual(result.code, 0)
            self.says(result.stderr, "warning", "layer 2 of 'model.layers'")

    def test_one_layer_lacks_what_the_others_have(self) -> None:
        model = llama()
        del model["model.layers.1.mlp.up_proj.weight"]
        self.write(model, LLAMA)
        self.refused("model.layers.1.mlp.up_proj.weight", "layer 0 has such tensors")

    def test_types_without_a_rule_are_warned_of(self) -> None:
        self.write(llama((0, 1)), {**LLAMA, "model_type": "another"})
        for result in (run("plan", self.source), self.export(), run("inspect", self.source), run("verify", self.source)):
            self.assertEqual(result.code, 0, result.stdout + result.stderr)
            self.says(result.stderr, "warning", "layers 2 and 3")

    def test_sound_ones_are_complete(self) -> None:
        vision = tensors({"vision_tower.layers.0.self_attn.q_proj.weight": (4, 4)})
        for model, config in (
                (llama(), LLAMA),
                (llama(prefix=""), LLAMA),                                       # without the head's wrapper
                (llama(head=False), {**LLAMA, "tie_word_embeddings": True}),
                (llama((0, 1, 2, 3, 4)), LLAMA),                                 # a layer for multi-token prediction
                ({**llama(), "mtp.layers.0.norm.weight": ("F32", np.zeros(4, "<f4"))}, LLAMA),
                ({**llama(), **vision}, {**LLAMA, "vision_config": {"num_hidden_layers": 9}}),
                (vision, {"model_type": "gemma3", "text_config": LLAMA}),        # a part of it
                (tensors({"albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight": (4, 4)}),
                 {"model_type": "albert", "num_hidden_layers": 12})):
            with self.subTest(list(model)[:2], config=config):
                self.write(model, config)
                self.accepted()

    def test_what_is_left_out_on_purpose_is_not_missed(self) -> None:
        self.write(llama(), LLAMA)
        out = self.root / "out"
        for option in (("--exclude", "model.layers.[23].*"), ("--include", "model.layers.0.*")):
            result = run("export", self.source, out, "--force", "--views", "hf", *option)
            self.assertEqual(result.code, 0, result.stderr)
            again = run("export", out / "hf", self.root / "again.safetensors", "--force")
            self.assertEqual(again.code, 0, again.stderr)
            self.assertNotIn("warning", again.stderr)
        self.write(llama((0, 1)), LLAMA)
        self.assertEqual(self.export("--include", "model.layers.0.*").code, 0)
        self.assertEqual(self.export("--exclude", "lm_head.*").code, 2)
        result = run("export", self.source, out, "--force", "--views", "hf", "--partial")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual(run("plan", out / "hf").stderr, "")

    def test_what_is_dropped_is_not_missed(self) -> None:
        self.write(llama(), LLAMA)
        for option in ("*layers.1.*", "*layers.3.*", "lm_head.weight", "*layers.2.mlp.up_proj*", "*q_proj*"):
            with self.subTest(option):
                self.assertEqual(refusals(self.source, self.root, "--drop", option), {})
        self.write(llama((0, 1, 3)), LLAMA)
        self.assertEqual(silent(self.source, self.root, "has no tensor of layer 2", "--drop", "*layers.1.*"), {})

    def test_an_export_of_a_part_says_so(self) -> None:
        """What its options left out is not missed; what is missing beyond that, or of another size, is."""
        self.write(llama(), LLAMA)
        part = self.root / "out/hf"
        for option, words in ((("--include", "*layers.0.*"), r"what --include '\*layers.0.\*' of its export has left out"),
                              (("--drop", "*layers.1.*"), r"what --drop '\*layers.1.\*' of its export has left out")):
            run("export", self.source, self.root / "out", "--force", "--views", "hf", *option)
            self.assertEqual(refusals(part, self.root), {})
            for command in ("verify", "inspect", "plan"):
                result = run(command, part)
                self.assertRegex(result.stdout + result.stderr, rf"unknown {words} \(.reshardfs-export.jsonl\)")
                self.assertNotIn("complete, according", result.stdout)
        run("export", self.source, self.root / "out", "--force", "--views", "hf", "--include", "*layers.[012].*")
        shard = next(part.glob("*.safetensors"))
        kept = {name: tensor for name, tensor in read_safetensors(shard)[0].items() if ".layers.1." not in name}
        write_safetensors(shard, kept, {"format": "pt"})
        (part / "model.safetensors.index.json").unlink()
        self.assertEqual(silent(part, self.root, "has no tensor of layer 1, but"), {})
        (part / "config.json").write_text(json.dumps(LLAMA | {"hidden_size": 64}))
        self.assertEqual(silent(part, self.root, r"is \[16\], but config.json states \[64\]|no tensor of layer 1"), {})

    def test_an_adapter_is_no_part(self) -> None:
        name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
        self.write(tensors({name: (2, 16)}), LLAMA, name="adapter_model.safetensors")
        self.assertEqual(run("plan", self.source).code, 0)


class Unread(StatedModelTest):
    """Beside a config.json that cannot be read, nothing is compared: that is said."""

    def test_all_commands_say_it(self) -> None:
        self.write(llama((0, 1)), LLAMA)
        for text, words in (('{"model_type": "llama", "num_hidden_lay', "config.json ends before it is complete"),
                            ("", "config.json ends before it is complete"),
                            ("[]", "config.json cannot be read as the object of a config.json"),
                            ('{"a": }', "config.json cannot be read as the object of a config.json")):
            with self.subTest(text):
                (self.source / "config.json").write_text(text)
                self.assertEqual(silent(self.source, self.root, words + ".*; nothing is compared with it"), {})
                result = run("export", self.source, self.root / "out", "--force", "--views", "hf")
                self.says(result.stderr, "nothing is compared with it")


class Sizes(StatedModelTest):
    def other(self, **more: int) -> Path:
        place = self.root / "other/config.json"
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps({key: value for key, value in {**LLAMA, **more}.items() if value is not None}))
        return place.parent

    def test_the_configuration_of_another_model(self) -> None:
        self.write(llama(), LLAMA)
        for more, word in (({"vocab_size": 64}, "vocab_size 64"), ({"hidden_size": 32}, "hidden_size"),
                           ({"num_attention_heads": 8}, "num_attention_heads"),
                           ({"num_key_value_heads": None}, "no num_key_value_heads"),
                           ({"num_hidden_layers": 6}, "num_hidden_layers")):
            for options in (("--views", "hf"), ("--views", "ranks", "--dst-strategy", "tp=2")):
                with self.subTest(more, options=options):
                    result = run("export", self.source, self.root / "out", "--force", *options,
                                 "--model-config", self.other(**more))
                    self.assertEqual(result.code, 2, result.stdout + result.stderr)
                    self.says(result.stderr, word)

    def test_every_command_compares_the_one_that_is_named(self) -> None:
        self.write(llama(), {**LLAMA, "vocab_size": 64})
        for words in (("inspect", self.source), ("verify", self.source), ("plan", self.source),
                      ("diff", self.source, self.source)):
            with self.subTest(words[0]):
                found = run(*words)
                self.says(found.stdout + found.stderr, "vocab_size 64")
                config = ("--model-config", self.other())
                if words[0] == "diff":
                    config = ("--a-model-config", config[1], "--b-model-config", config[1])
                found = run(*words, *config)
                self.assertEqual((found.code, found.stderr), (0, ""), found.stdout)
                self.assertNotIn("vocab_size", found.stdout)

    def test_one_that_nothing_can_read(self) -> None:
        self.write(llama(), LLAMA)
        result = run("strategy", "check", self.source, "--model-config", self.other())
        self.assertEqual(result.code, 2, result.stdout)
        self.says(result.stderr, "--model-config without --map")

    def test_surplus_rows_are_no_difference(self) -> None:
        self.write(llama(), {**LLAMA, "vocab_size": 30})
        self.accepted()

    def test_through_a_map(self) -> None:
        model = {}
        for name, value in llama().items():
            for theirs, ours in LEGACY.items():
                name = name.replace(theirs, ours)
            model[name] = value
        self.write(model, LLAMA)
        options = ("--views", "hf", "--map", "mindformers-llama")
        self.assertEqual(run("export", self.source, self.root / "out", "--force", *options).code, 0)
        self.assertEqual(set(read_safetensors(next((self.root / "out/hf").glob("*.safetensors")))[0]), set(llama()))
        result = run("export", self.source, self.root / "out", "--force", *options, "--model-config",
                     self.other(vocab_size=64))
        self.assertEqual(result.code, 2)
        self.says(result.stderr, "tok_embeddings", "vocab_size 64")
        # Loaders of config.json's model would not know the names.
        result = run("export", self.source, self.root / "out", "--force", "--views", "hf")
        self.assertEqual(result.code, 2)
        self.says(result.stderr, "--map mindformers-llama")

    def test_params_json_has_them(self) -> None:
        write_release(self.source, whole_model(), 1)
        self.accepted()
        result = self.export("--dst-strategy", "tp=2", "--views", "ranks")
        self.assertNotIn("warning", result.stderr)
        write_release(self.source, whole_model(), 1, n_layers=4)
        self.refused("no tensor of layers 2 and 3", "n_layers is 4")


    def test_the_settings_of_the_training_have_them(self) -> None:
        self.write(llama((0, 1)))
        file = self.root / "run.yaml"

        def found(command: tuple[str | Path, ...], **settings: int) -> Result:
            lines = [f"    {name}: {value}" for name, value in settings.items()]
            file.write_text("\n".join(["model:", "  model_config:", *lines, "runner:", "  epochs: 2"]) + "\n")
            options = ("--a-training-config", file, "--b-training-config", file) if command[0] == "diff" else (
                "--training-config", file)
            return run(*command, *options)

        export = ("export", self.source, self.root / "out", "--force", "--views", "merged-safetensors")
        for command, code in ((("inspect", self.source), 0), (("verify", self.source), 1),
                              (("plan", self.source), 2), (export, 2),
                              (("mount", self.source, self.place, "--check-only"), 2),
                              (("diff", self.source, self.source), 0)):
            with self.subTest(command[0]):
                result = found(command, num_layers=4)
                self.assertEqual(result.code, code, result.stdout + result.stderr)
                self.says(result.stdout + result.stderr, "no tensor of layers 2 and 3",
                          "run.yaml: num_layers is 4")
                result = found(command, num_layers=2, vocab_size=64)
                self.says(result.stdout + result.stderr, "run.yaml states vocab_size 64")
                result = found(command, num_layers=2, hidden_size=16, num_heads=4, vocab_size=32)
                self.assertEqual(result.code, 0, result.stdout + result.stderr)
                self.assertNotIn("warning", result.stderr)
        # What stands there twice with different values is not known.
        file.write_text("a: {num_layers: 4}\nb: {num_layers: 2}\n")
        self.assertEqual(run("plan", self.source, "--training-config", file).code, 2)
        # Nor does it concern a model of which it states nothing.
        for settings in ({"max_steps": 3}, {"num_layers": -4, "vocab_size": 0}):
            result = found(("plan", self.source), **settings)
            self.assertEqual(result.code, 2)
            self.says(result.stderr, "no map asks", "no numbers of the model")


class Mounted(StatedModelTest):
    def test_a_part_is_mounted_if_it_is_asked_for(self) -> None:
        self.write(llama((0, 1)), LLAMA)
        with mounted(self.source, "--partial", "--views", "merged-safetensors") as place:
            shown = read_safetensors(place / "merged/checkpoint_merged.safetensors")[0]
        self.assertEqual(set(shown), set(llama((0, 1))))


if __name__ == "__main__":
    run_unittests()
