# SPDX-License-Identifier: Apache-2.0
"""What a map requires of a checkpoint: all tensors of the model, tied heads that are tied, and key heads
that the ranks can share."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from format_files import Tensors, write_safetensors
from map_sets import MAP, MOE, MapTest, Words, config_of, golden, read_file, write_hub
from mounted import MountFailed, mounted, one_line, run, run_unittests

RANKS_MAP = ("--map", "megatron-ranks-llama", "--map-var", "vocab_multiple=1")
QKV = "decoder.layers.{}.self_attention.linear_qkv.weight"
# Megatron's names over tensor-parallel ranks.
MEGATRON_RULES = """[devices]
axes = ["tp={tp}"]
[[rule]]
match = ["*word_embeddings.weight", "output_layer.weight", "*linear_qkv.*", "*linear_fc1.weight"]
cut = ["tp"]
[[rule]]
match = ["*linear_proj.weight", "*linear_fc2.weight"]
cut = ["", "tp"]
[[rule]]
match = "*norm.weight"
"""


def renumbered(tensors: Tensors, layers: list[int]) -> Tensors:
    """Layer 0 of a model with the numbers of others."""
    out = {name: tensor for name, tensor in tensors.items() if ".layers." not in name}
    for layer in layers:
        out |= {name.replace(".layers.0.", f".layers.{layer}."): tensor
                for name, tensor in tensors.items() if ".layers.0." in name}
    return out


def without(tensors: Tensors, *parts: str) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if not any(part in name for part in parts)}


class FamilyTest(MapTest):
    def hub_of(self, tensors: Tensors, name: str = "hub", **changes: object) -> Path:
        (self.root / name).mkdir()
        return write_hub(self.root / name, tensors, self.config | changes, shards=1)

    def refused(self, source: Path, *words: str | Path) -> str:
        """A mount says the same as an export, and leaves nothing behind."""
        with self.assertRaises(MountFailed) as failed, mounted(source, *words):
            pass
        told = failed.exception.result
        self.assertEqual(told.code, 2, told.stderr)
        line = one_line(told)
        exported = run("export", source, self.root / "none", "--views", "ranks", *words)
        self.assertEqual((exported.code, one_line(exported)), (2, line))
        return line

    def accepted(self, source: Path, *words: str | Path) -> Tensors:
        out = self.root / f"out-{len(list(self.root.glob('out-*')))}"
        result = run("export", source, out, "--views", "ranks", *words)
        self.assertEqual(result.code, 0, result.stderr)
        (file,) = (out / "rank_0").iterdir()
        return read_file(file)


class Complete(FamilyTest):
    def test_the_config_states_another_number_of_layers(self) -> None:
        source = self.hub_of(self.hub, num_hidden_layers=3)
        line = self.refused(source, *MAP)
        for word in ("'layers' of config.json is 3", "have 2 of {layer}", "layer 2 is missing"):
            self.assertIn(word, line)
        more = self.config_file(num_hidden_layers=1)
        line = self.refused(source, *MAP, "--model-config", more)
        for word in ("'layers' of config.json is 1", "have 2 of {layer}"):
            self.assertIn(word, line)
        check = run("map", "check", MAP[1], "--source", source)
        self.assertEqual(check.code, 1)
        self.assertIn("'layers' of config.json is 3", check.stderr)

    def test_layers_lack(self) -> None:
        """Also where no config.json states how many there are."""
        renames = ("--map", "mindformers-llama")
        hub = golden("llama_legacy", "src")
        source = self.hub_of(renumbered(hub, [0, 2]), num_hidden_layers=3)
        self.assertIn("layer 1 is missing in the source", self.refused(source, *renames))
        (source / "config.json").unlink()
        self.assertIn("layer 1 is missing in the source", self.refused(source, *renames))
        back = self.root / "back.safetensors"
        write_safetensors(back, renumbered(golden("llama_legacy_back", "src"), [1, 2]))
        self.assertIn("layer 0 is missing in the source", self.refused(back, *renames))

    def test_a_tensor_lacks(self) -> None:
        cases = {"model.layers.1.self_attn.o_proj.weight": "(decoder.layers.1.self_attention.linear_proj",
                 "model.layers.0.input_layernorm.weight": "of 2 of {layer}, 0 lacks it",
                 "model.layers.1.self_attn.k_norm.weight": "of 2 of {layer}, 1 lacks it",
                 "model.embed_tokens.weight": "no tensor of the source is for this rule",
                 "model.norm.weight": "no tensor of the source is for this rule",
                 "model.layers.1.mlp.down_proj.weight": "of 2 of {layer}, 1 lacks it"}
        for number, (name, words) in enumerate(cases.items()):
            with self.subTest(name):
                line = self.refused(self.hub_of(without(self.hub, name), f"hub-{number}"), *MAP)
                self.assertIn(name, line)
                self.assertIn(words, line)

    def test_a_tensor_lacks_in_the_other_direction(self) -> None:
        for number, part in enumerate(("1.mlp.linear_fc2", "0.pre_mlp_layernorm", "1.self_attention.linear_qkv")):
            with self.subTest(part):
                source = self.root / f"back-{number}.safetensors"
                write_safetensors(source, without(self.mcore, part))
                line = self.refused(source, *MAP, "--model-config", self.config_file())
                self.assertIn(part, line)
                self.assertIn("missing in the source", line)

    def test_experts_lack(self) -> None:
        self.config = config_of("qwen3_moe_mcore")
        hub = golden("qwen3_moe_mcore", "src")
        source = self.hub_of(without(hub, "1.mlp.experts.2.up_proj"))
        self.assertIn("model.layers.1.mlp.experts.2.up_proj.weight: missing", self.refused(source, *MOE))
        # A layer without its router and experts has no MLP of either kind.
        source = self.hub_of(without(hub, "layers.1.mlp."), "hub-2")
        self.assertIn("layer 1: it has no tensor of 'mlp'", self.refused(source, *MOE))
        for number, stated in enumerate((3, 5)):
            source = self.hub_of(hub, f"more-{number}", num_experts=stated)
            line = self.refused(source, *MOE)
            self.assertIn(f"'experts' of config.json is {stated}", line)
            self.assertIn("have 4 of {expert}", line)

    def test_a_layer_may_be_dense(self) -> None:
        self.config = config_of("qwen3_moe_mcore")
        hub = without(golden("qwen3_moe_mcore", "src"), "layers.0.mlp.")
        hub |= {name: tensor for name, tensor in self.hub.items() if "layers.0.mlp." in name}
        shown = self.accepted(self.hub_of(hub), *MOE)
        self.assertIn("decoder.layers.0.mlp.linear_fc1.weight", shown)
        self.assertIn("decoder.layers.1.mlp.experts.weight1", shown)

    def test_the_family_of_the_names_is_told(self) -> None:
        self.config = config_of("qwen3_moe_mcore")
        line = self.refused(self.hub_of(golden("qwen3_moe_mcore", "src")), *MAP)
        self.assertRegex(line, "did you mean .*--map mindformers-qwen3-moe[ ?]")

    def test_what_is_left_out_need_not_be_there(self) -> None:
        source = self.hub_of(without(self.hub, "layers.1.", "lm_head"))
        line = self.refused(source, *MAP)
        self.assertIn("layer 1 is missing", line)
        shown = self.accepted(source, *MAP, "--include", "decoder.layers.0.*")
        self.assertEqual(set(shown), {name for name in self.mcore if ".layers.0." in name})
        shown = self.accepted(source, *MAP, "--exclude", "decoder.layers.1.*", "--exclude", "output_layer.weight")
        self.assertEqual(set(shown), {name for name in self.mcore
                                      if ".layers.1." not in name and name != "output_layer.weight"})
        one = self.hub_of(without(self.hub, "layers.1.self_attn.o_proj"), "one")
        shown = self.accepted(one, *MAP, "--exclude", "*.linear_proj.weight")
        self.assertEqual(set(shown), {name for name in self.mcore if "linear_proj" not in name})

    def test_states_need_no_weights(self) -> None:
        states = {f"adam_m.{name}": tensor for name, tensor in self.hub.items()}
        shown = self.accepted(self.hub_of(states), *MAP)
        self.assertEqual(set(shown), {f"adam_m.{name}" for name in self.mcore})

    def test_a_share_of_the_ranks_may_be_mounted(self) -> None:
        """A node that has the files of one stage shows what its layers need."""
        source, *words = self.mcore_ranks()
        for rank in (2, 3):
            for file in (source / f"rank_{rank}").iterdir():
                file.unlink()
        result = run("plan", source, *words, *MAP, "--model-config", self.config_file(),
                     "--include", "model.layers.0.*")
        self.assertEqual(result.code, 0, result.stderr)


class Tied(FamilyTest):
    """config.json says that the head is the embedding."""

    def head(self, *, differs: bool) -> Tensors:
        dtype, embedding = self.hub["model.embed_tokens.weight"]
        head = embedding.copy()
        if differs:
            head[17, 3] += 1
        return self.hub | {"lm_head.weight": (dtype, head)}

    def test_a_head_that_is_the_embedding(self) -> None:
        shown = self.accepted(self.hub_of(self.head(differs=False), tie_word_embeddings=True), *MAP)
        self.assertNotIn("output_layer.weight", shown)

    def test_a_head_of_its_own(self) -> None:
        source = self.hub_of(self.head(differs=True), tie_word_embeddings=True)
        line = self.refused(source, *MAP)
        for word in ("lm_head.weight", "differs from 'model.embed_tokens.weight'", "--map-var tied=0"):
            self.assertIn(word, line)
        shown = self.accepted(source, *MAP, "--map-var", "tied=0")
        np.testing.assert_array_equal(shown["output_layer.weight"][1],
                                      self.head(differs=True)["lm_head.weight"][1])
        self.assertNotIn("output_layer.weight", self.accepted(source, *MAP, "--exclude", "lm_head.weight"))
        self.assertEqual(run("verify", source, *MAP).code, 1)
        diff = run("diff", source, source, "--a-map", MAP[1], "--a-map-var", "release=1.7",
                   "--b-map", MAP[1], "--b-map-var", "release=1.7")
        self.assertEqual(diff.code, 2)
        self.assertIn("differs from 'model.embed_tokens.weight'", diff.stderr)

    def test_a_large_head_is_compared_in_samples(self) -> None:
        rng = np.random.default_rng(5)
        big = rng.integers(0, 1 << 16, (4096, 4096), "<u2")
        hub = {"model.embed_tokens.weight": ("BF16", big), "lm_head.weight": ("BF16", big[::-1].copy()),
               "model.norm.weight": ("BF16", big[0])}
        rules = self.text_file("own.toml", """[[map]]
to = "e"
from = "model.embed_tokens.weight"
[[map]]
to = "n"
from = "model.norm.weight"
[[alias]]
side = "from"
name = "lm_head.weight"
of = "model.embed_tokens.weight"
""")
        line = self.refused(self.hub_of(hub), "--map", rules, "--partial")
        self.assertIn("lm_head.weight", line)
        self.assertNotIn("--map-var", line)

    def test_the_other_side_has_one_too(self) -> None:
        """MindFormers' legacy networks write the copy."""
        there = golden("llama_legacy", "expected")
        dtype, array = there["model.tok_embeddings.embedding_weight"]
        config = self.root / "tied.json"
        config.write_text(json.dumps(config_of("llama_legacy") | {"tie_word_embeddings": True}))
        words = ("--map", "mindformers-llama", "--model-config", config)
        for differs in (False, True):
            head = array.copy()
            head[0, 0] += differs
            source = self.root / f"legacy-{differs}.safetensors"
            write_safetensors(source, there | {"lm_head.weight": (dtype, head)})
            if differs:
                self.assertIn("differs from 'model.tok_embeddings", self.refused(source, *words))
            else:
                self.assertNotIn("lm_head.weight", self.accepted(source, *words))


class KeyHeads(FamilyTest):
    """Two key heads for four ranks."""

    def setUp(self) -> None:
        super().setUp()
        self.hub, self.config = golden("megatron_ranks_tp2", "src"), config_of("megatron_ranks_tp2")
        self.source = self.hub_of(self.hub)
        self.rules = self.text_file("tp4.toml", MEGATRON_RULES.format(tp=4))
        self.words: Words = (*RANKS_MAP, "--dst-strategy", self.rules)

    def part(self, name: str, number: int, heads: int, layer: int = 0) -> np.ndarray:
        array = self.hub[f"model.layers.{layer}.self_attn.{name}_proj.weight"][1]
        return np.split(array, heads)[number]

    def exported_ranks(self, out: str, *words: str | Path) -> Path:
        result = run("export", self.source, self.root / out, "--views", "ranks", *self.words, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return self.root / out

    def test_no_rank_gets_query_alone(self) -> None:
        line = self.refused(self.source, *self.words)
        for word in (QKV.format(0), "fewer key heads than ranks", "--map-var kv_repeat=1",
                     "groups is 2", "tp is 4"):
            self.assertIn(word, line)

    def test_key_heads_are_repeated(self) -> None:
        with mounted(self.source, *self.words, "--map-var", "kv_repeat=2") as mountpoint:
            for rank in range(4):
                (file,) = (mountpoint / f"rank_{rank}").iterdir()
                shown = read_file(file)
                for layer in range(2):
                    want = np.concatenate([self.part("q", rank, 4, layer), self.part("k", rank // 2, 2, layer),
                                           self.part("v", rank // 2, 2, layer)])
                    np.testing.assert_array_equal(shown[QKV.format(layer)][1], want)

    def test_copies_come_back_as_one(self) -> None:
        ranks = self.exported_ranks("ranks", "--map-var", "kv_repeat=2")
        back = (*RANKS_MAP, "--src-strategy", self.rules, "--model-config", self.source / "config.json")
        line = self.refused(ranks, *back)
        self.assertIn("kv_repeat", line)
        self.assertIn("linear_qkv", line)
        repeat = (*back, "--map-var", "kv_repeat=2")
        shown = self.accepted(ranks, *repeat)
        self.assertEqual(set(shown), set(self.hub))
        for name, (_, array) in self.hub.items():
            np.testing.assert_array_equal(shown[name][1], array, name)
        self.assertEqual(run("verify", ranks, *repeat).code, 0)
        # The copy of rank 1 has drifted.
        (file,) = (ranks / "rank_1").iterdir()
        tensors = read_file(file)
        dtype, array = tensors[QKV.format(1)]
        array = array.copy()
        array[-1, 0] += 1
        write_safetensors(file, tensors | {QKV.format(1): (dtype, array)})
        line = self.refused(ranks, *repeat)
        for word in (QKV.format(1), "differ from those that they should repeat", "--replicas first"):
            self.assertIn(word, line)
        self.assertEqual(run("verify", ranks, *repeat).code, 1)
        first = run("export", ranks, self.root / "first", "--views", "ranks", *repeat, "--replicas", "first")
        self.assertEqual(first.code, 0, first.stderr)
        self.assertIn(QKV.format(1), first.stderr)
        (file,) = (self.root / "first/rank_0").iterdir()
        name = "model.layers.1.self_attn.v_proj.weight"
        np.testing.assert_array_equal(read_file(file)[name][1], self.hub[name][1])

    def test_rows_may_be_cut_anywhere_if_that_is_said(self) -> None:
        ranks = self.exported_ranks("cut", "--map-var", "kv_repeat=1")
        (file,) = (ranks / "rank_0").iterdir()
        np.testing.assert_array_equal(read_file(file)[QKV.format(0)][1],
                                      np.concatenate([self.part("q", 0, 4), self.part("q", 1, 4)]))

    def test_other_numbers_that_do_not_divide(self) -> None:
        self.rules.write_text(MEGATRON_RULES.format(tp=8))
        self.assertIn("query heads cannot be shared out evenly to the ranks",
                      self.refused(self.source, *self.words))


if __name__ == "__main__":
    run_unittests()
