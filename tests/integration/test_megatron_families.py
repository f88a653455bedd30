# SPDX-License-Identifier: Apache-2.0
"""Families of models and Megatron-Core's torch_dist checkpoints: what the golden cases do not show."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_safetensors  # noqa: E402
from map_sets import GOLDEN, golden  # noqa: E402
from megatron_families import FAMILIES, pack  # noqa: E402
from mounted import Result, run, run_unittests, scratch  # noqa: E402

VOCABULARY = ("--map-var", "vocab_multiple=8")
# Families with experts, and the map of their packed form.
PACKED = {"megatron_qwen3_moe": "packed-experts", "megatron_qwen3_moe_numbered": "packed-experts",
          "megatron_deepseek_v3": "packed-experts", "megatron_glm4_moe": "packed-experts",
          "megatron_mixtral": "packed-experts-mixtral", "megatron_minimax_m2": "packed-experts-mixtral",
          "megatron_minimax_m2_numbered": "packed-experts-mixtral"}


def map_of(case: str) -> str:
    return case.replace("_", "-")


def of_expert(tensors: Tensors, number: int) -> Tensors:
    """What a rank has that has one of the experts."""
    return {name: (dtype, array[number:number + 1] if ".experts." in name else array)
            for name, (dtype, array) in tensors.items()}


class FamilyTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "source.safetensors"

    def export(self, tensors: Tensors, case: str, *words: str) -> Result:
        write_safetensors(self.source, tensors)
        return run("export", self.source, self.root / "out", "--views", "ranks", "--force",
                   "--model-config", GOLDEN / case / "config.json", *words)

    def shown(self, tensors: Tensors, case: str, *words: str) -> Tensors:
        result = self.export(tensors, case, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(self.root / "out/rank_0/checkpoint_0.safetensors")[0]

    def refused(self, tensors: Tensors, case: str, *words: str) -> str:
        result = self.export(tensors, case, *words)
        self.assertEqual(result.code, 2, result.stderr)
        return result.stderr


class Packed(FamilyTest):
    def test_to_megatron_and_back(self) -> None:
        for case, packed_map in PACKED.items():
            with self.subTest(case):
                packed, core = pack(golden(case, "src")), golden(case, "expected")
                same(self, self.shown(packed, case, "--map", packed_map, "--map", map_of(case), *VOCABULARY),
                     core)
                same(self, self.shown(core, case, "--map", map_of(case), "--map", packed_map), packed)

    def test_between_the_forms(self) -> None:
        for case, packed_map in PACKED.items():
            with self.subTest(case):
                hub = golden(case, "src")
                same(self, self.shown(hub, case, "--map", packed_map), pack(hub))
                same(self, self.shown(pack(hub), case, "--map", packed_map), hub)

    def test_the_map_of_the_packed_form_is_named(self) -> None:
        for case, packed_map in PACKED.items():
            with self.subTest(case):
                error = self.refused(pack(golden(case, "src")), case, "--map", map_of(case), *VOCABULARY)
                self.assertIn("no rule uses it", error)
                self.assertRegex(error, rf"did you mean .*--map {packed_map}[ ?]")


class Forms(FamilyTest):
    def test_names_tell_whether_layers_have_numbers(self) -> None:
        """Whichever name the map is given, and whatever a variable states of what is shown."""
        for case, other in (("megatron_qwen3_moe", "megatron_qwen3_moe_numbered"),
                            ("megatron_qwen3_moe_numbered", "megatron_qwen3_moe"),
                            ("megatron_llama_numbered", "megatron_llama"),
                            ("megatron_mixtral", "megatron_mixtral_numbered"),
                            ("megatron_mixtral_numbered", "megatron_mixtral"),
                            ("megatron_minimax_m2", "megatron_minimax_m2_numbered"),
                            ("megatron_minimax_m2_numbered", "megatron_minimax_m2"),
                            ("megatron_gpt_oss", "megatron_gpt_oss_numbered"),
                            ("megatron_gpt_oss_numbered", "megatron_gpt_oss")):
            with self.subTest(case):
                core, hub = golden(case, "expected"), golden(case, "src")
                form = "stacked" if case.endswith("_numbered") else "numbered"
                for words in ((map_of(other),), (map_of(other).removesuffix("-numbered"), "--map-var",
                                                 f"layers={form}")):
                    same(self, self.shown(core, case, "--map", *words), hub)
                # The other way, the variable says it, or a name of the map.
                form = "numbered" if case.endswith("_numbered") else "stacked"
                for words in ((map_of(case),), (map_of(case).removesuffix("-numbered"), "--map-var",
                                                f"layers={form}")):
                    same(self, self.shown(hub, case, "--map", *words, *VOCABULARY), core)

    def test_a_map_of_numbered_layers_alone_has_no_other_form(self) -> None:
        error = self.refused(golden("megatron_glm4_moe", "src"), "megatron_glm4_moe", "--map", "megatron-glm4-moe",
                             "--map-var", "layers=stacked", *VOCABULARY)
        self.assertIn("layers=stacked", error)

    def test_the_text_model_of_kimi_k25_is_that_of_deepseek(self) -> None:
        """As the hub and Megatron-Bridge name it in the model that sees."""
        case = "megatron_deepseek_v3"
        hub, core = golden(case, "src"), golden(case, "expected")
        sees = {f"language_model.{name}": value for name, value in hub.items()}
        inside = {f"language_model.{name}": value for name, value in core.items()}
        eyes = {name: core["decoder.final_layernorm.weight"] for name in ("vision_tower.encoder.final_layernorm.weight",
                                                                          "mm_projector.pre_norm.weight")}
        maps = ("--map", "vision-language", "--map", map_of(case), "--map", "megatron-vision-language")
        rows = ("--map-var", f"padded_vocab={len(core['output_layer.weight'][1])}")
        same(self, self.shown(sees | eyes, case, *maps, *rows), inside)
        back = tuple(word for name in maps[:0:-2] for word in ("--map", name))
        same(self, self.shown(inside | eyes, case, *back, "--map-var", "names=older"), sees)

    def test_a_mixtral_is_no_qwen(self) -> None:
        """It would lack the norms of query and key."""
        error = self.refused(golden("megatron_mixtral", "expected"), "megatron_mixtral",
                             "--map", "megatron-qwen3-moe")
        self.assertIn("no tensor of the source is for this rule", error)

    def test_a_dense_layer_among_numbered_ones(self) -> None:
        """The number of dense layers decides where the second norm is; experts show a wrong one."""
        core = golden("megatron_glm4_moe", "expected")
        error = self.refused(core, "megatron_glm4_moe", "--map", "megatron-glm4-moe",
                             "--map-var", "dense_layers=0")
        self.assertIn("decoder.layers.0.mlp.linear_fc1.layer_norm_weight: no rule uses it", error)

    def test_without_multi_token_prediction(self) -> None:
        for case in ("megatron_deepseek_v3", "megatron_glm4_moe"):
            with self.subTest(case):
                hub = {name: tensor for name, tensor in golden(case, "src").items() if ".layers.2." not in name}
                core = {name: tensor for name, tensor in golden(case, "expected").items()
                        if not name.startswith("mtp.")}
                words = ("--map", map_of(case), "--map-var", "mtp_layers=0")
                same(self, self.shown(core, case, *words), hub)
                same(self, self.shown(hub, case, "--map", map_of(case), *VOCABULARY), core)

    def test_queries_that_are_not_compressed(self) -> None:
        """As in Moonlight, which has the form of DeepSeek-V3."""
        case = "megatron_deepseek_v3"
        hub = {name: tensor for name, tensor in golden(case, "src").items() if ".q_" not in name}
        core = {name: tensor for name, tensor in golden(case, "expected").items() if ".linear_q_" not in name}
        for layer, place in enumerate(("decoder.layers.0.", "decoder.layers.1.",
                                       "mtp.layers.0.transformer_layer.")):
            query = ("BF16", np.arange(20 * 8, dtype="<u2").reshape(20, 8) + layer)
            hub[f"model.layers.{layer}.self_attn.q_proj.weight"] = query
            core[f"{place}self_attention.linear_q_proj.weight"] = query
        same(self, self.shown(hub, case, "--map", map_of(case), *VOCABULARY), core)
        same(self, self.shown(core, case, "--map", map_of(case)), hub)

    def test_states_of_the_optimizer(self) -> None:
        states = ("exp_avg.", "exp_avg_sq.", "param.", "fp32_param.")
        for case in ("megatron_qwen3_moe", "megatron_deepseek_v3"):
            with self.subTest(case):
                core, hub = golden(case, "expected"), golden(case, "src")
                copies = (".embed_tokens.weight", ".shared_head.head.weight")
                core |= {f"optimizer.state.{state}{name}": tensor for name, tensor in core.items()
                         for state in states}
                want = hub | {state + name: tensor for name, tensor in hub.items() for state in states
                              if not (".layers." in name and name.endswith(copies))}
                same(self, self.shown(core, case, "--map", map_of(case)), want)


class Distributed(FamilyTest):
    def test_there_and_back_as_a_distributed_checkpoint(self) -> None:
        """Cut into files anywhere, as no single rank has them."""
        for case in ("megatron_qwen3_moe", "megatron_deepseek_v3", "megatron_gpt_oss"):
            with self.subTest(case):
                config = GOLDEN / case / "config.json"
                saved, back = self.root / case, self.root / f"{case}_back"
                there = run("export", GOLDEN / case / "src.safetensors", saved, "--views", "dcp", "--dcp-shards", "5",
                            "--map", map_of(case), "--model-config", config, *VOCABULARY)
                self.assertEqual(there.code, 0, there.stderr)
                result = run("export", saved / "dcp", back, "--views", "ranks", "--map", map_of(case),
                             "--model-config", config)
                self.assertEqual(result.code, 0, result.stderr)
                same(self, read_safetensors(back / "rank_0/checkpoint_0.safetensors")[0], golden(case, "src"))


class Unknown(FamilyTest):
    def test_the_padding_of_the_vocabulary(self) -> None:
        for make in FAMILIES:
            family = make()
            if not family.name.startswith("megatron"):
                continue
            with self.subTest(family.name):
                error = self.refused(family.hub.tensors, family.name, "--map", family.map)
                self.assertIn("give --map-var vocab_multiple=N", error)

    def test_quantised_weights(self) -> None:
        for case, weight, scale in (
                ("megatron_deepseek_v3", "model.layers.0.mlp.down_proj.weight", "_scale_inv"),
                ("megatron_minimax_m2", "model.layers.0.block_sparse_moe.experts.0.w1.weight", "_scale_inv"),
                ("megatron_gpt_oss", "model.layers.0.mlp.experts.down_proj", "_scales")):
            with self.subTest(case):
                hub = golden(case, "src") | {weight + scale: ("F32", np.ones((1, 1), "<f4").view("<u4"))}
                error = self.refused(hub, case, "--map", map_of(case), *VOCABULARY)
                self.assertIn(f"{weight}{scale}: no rule uses it", error)

    def test_a_transposed_matrix(self) -> None:
        """Of gpt-oss, where it is not square."""
        hub = golden("megatron_gpt_oss", "src")
        name = "model.layers.0.mlp.experts.down_proj"
        hub[name] = ("BF16", np.ascontiguousarray(hub[name][1].transpose(0, 2, 1)))
        error = self.refused(hub, "megatron_gpt_oss", "--map", "megatron-gpt-oss", *VOCABULARY)
        self.assertIn(f"{name}: 'hidden' is 8, the tensor has 6", error)

    def test_an_output_layer_that_is_not_tied(self) -> None:
        """Gemma 3 ties it unless the config.json says no."""
        hub = golden("megatron_gemma3", "src")
        embedding = hub["model.embed_tokens.weight"]
        words = ("--map", "megatron-gemma3", *VOCABULARY)
        tied = self.shown(hub | {"lm_head.weight": embedding}, "megatron_gemma3", *words)
        same(self, tied, golden("megatron_gemma3", "expected"))
        hub["lm_head.weight"] = (embedding[0], embedding[1] + 1)
        self.assertEqual(run("verify", self.written(hub), "--model-config",
                             GOLDEN / "megatron_gemma3/config.json", *words).code, 1)
        self.assertIn("output_layer.weight",
                      self.shown(hub, "megatron_gemma3", *words, "--map-var", "tied=0"))

    def written(self, tensors: Tensors) -> Path:
        write_safetensors(self.source, tensors)
        return self.source


class Sizes(FamilyTest):
    def ranks(self, tensors: Tensors, case: str, sizes: str, *words: str) -> list[Tensors]:
        result = self.export(tensors, case, "--dst-strategy", sizes, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return [read_safetensors(self.root / f"out/rank_{rank}/checkpoint_{rank}.safetensors")[0]
                for rank in range(len(list((self.root / "out").glob("rank_*"))))]

    def test_experts_of_numbered_layers(self) -> None:
        core = golden("megatron_qwen3_moe_numbered", "expected")
        ranks = self.ranks(golden("megatron_qwen3_moe_numbered", "src"), "megatron_qwen3_moe_numbered", "ep=3",
                           "--map", "megatron-qwen3-moe-numbered", *VOCABULARY)
        self.assertEqual(len(ranks), 3)
        for number, rank in enumerate(ranks):
            same(self, rank, of_expert(core, number))

    def test_experts_of_gpt_oss_and_of_the_packed_form(self) -> None:
        for case, tensors in (("megatron_gpt_oss", golden("megatron_gpt_oss", "src")),
                              ("megatron_glm4_moe", pack(golden("megatron_glm4_moe", "src")))):
            with self.subTest(case):
                ranks = self.ranks(tensors, case, "ep=3")
                for number, rank in enumerate(ranks):
                    same(self, rank, of_expert(tensors, number))

    def test_stages_of_numbered_layers(self) -> None:
        ranks = self.ranks(golden("megatron_llama_numbered", "expected"), "megatron_llama_numbered", "pp=2",
                           "--map", "megatron-llama-numbered")
        self.assertEqual([any(".layers.0." in name for name in rank) for rank in ranks], [True, False])
        self.assertEqual([any(".layers.1." in name for name in rank) for rank in ranks], [False, True])

    def test_gate_above_up_is_not_cut(self) -> None:
        """A rank has its part of each, which equal parts of both are not."""
        error = self.refused(golden("megatron_glm4_moe", "src"), "megatron_glm4_moe", "--map", "megatron-glm4-moe",
                             *VOCABULARY, "--dst-strategy", "tp=2")
        self.assertIn("'decoder.layers.0.mlp.linear_fc1.weight' [24, 8]", error)

    def test_a_norm_over_all_heads_is_not_taken_for_that_of_one(self) -> None:
        """Maps of other families state that q_norm has the length of a head. The plan of the type leaves it whole."""
        case = "megatron_minimax_m2"
        tensors = golden(case, "src")
        shown = self.shown(tensors, case, "--dst-strategy", "tp=2", "--exclude", "model.embed_tokens.weight",
                           "--exclude", "lm_head.weight")
        for end in ("q_norm.weight", "k_norm.weight", "q_proj.weight"):
            name = f"model.layers.0.self_attn.{end}"
            rows = len(tensors[name][1]) // (2 if end == "q_proj.weight" else 1)
            np.testing.assert_array_equal(shown[name][1], tensors[name][1][:rows], name)


if __name__ == "__main__":
    run_unittests()
