# SPDX-License-Identifier: Apache-2.0
"""Models of many families: the form of their files and that of transformers in memory, and where tp cuts them.
tests/real/hub/families.py asks transformers itself; here NumPy does."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_safetensors  # noqa: E402
from map_sets import GOLDEN, golden  # noqa: E402
from mounted import Result, run, run_unittests, scratch  # noqa: E402

EXPERTS = 3
LAYER = "layers.0."


def counting(*shape: int, start: int = 0) -> tuple[str, np.ndarray]:
    return "F32", np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def experts(prefix: str, words: tuple[str, str, str]) -> tuple[Tensors, Tensors]:
    """One by one, and packed by loops over indices."""
    gate, up, down = words
    files: Tensors = {}
    joined = np.empty((EXPERTS, 8, 6), np.float32)
    rest = np.empty((EXPERTS, 6, 4), np.float32)
    for expert in range(EXPERTS):
        for place, word in enumerate((gate, up)):
            files[f"{prefix}.{expert}.{word}.weight"] = counting(4, 6, start=1000 * expert + 100 * place)
            for row in range(4):
                joined[expert, 4 * place + row] = files[f"{prefix}.{expert}.{word}.weight"][1][row]
        files[f"{prefix}.{expert}.{down}.weight"] = counting(6, 4, start=1000 * expert + 500)
        rest[expert] = files[f"{prefix}.{expert}.{down}.weight"][1]
    return files, {"gate_up_proj": ("F32", joined), "down_proj": ("F32", rest)}


def model(model_type: str, packed: bool) -> tuple[Tensors, dict[str, Any]]:
    """A layer of a family, with something that only this family has."""
    config: dict[str, Any] = {"model_type": model_type, "num_hidden_layers": 1, "num_attention_heads": 2,
                              "num_key_value_heads": 2, "head_dim": 4, "hidden_size": 6}
    sizes = {"num_experts": EXPERTS}
    prefix, own, words, place = "model.", "model.", ("gate_proj", "up_proj", "down_proj"), "mlp.experts"
    more: dict[str, tuple[str, tuple[str, np.ndarray]]] = {}  # the name in memory, by that in files
    if model_type == "qwen3_5_moe":
        prefix = own = "model.language_model."
        config = {"model_type": model_type, "text_config": {**config, **sizes, "model_type": "qwen3_5_moe_text"}}
        more = {f"{prefix}{LAYER}linear_attn.in_proj_qkv.weight":
                (f"{own}{LAYER}linear_attn.in_proj_qkv.weight", counting(8, 6)),
                "model.visual.blocks.0.norm1.weight": ("model.visual.blocks.0.norm1.weight", counting(6))}
    elif model_type == "exaone_moe":
        config |= sizes
        more = {f"model.{LAYER}mlp.e_score_correction_bias":
                (f"model.{LAYER}mlp.gate.e_score_correction_bias", counting(EXPERTS))}
    elif model_type == "ernie4_5_moe":
        config |= {"moe_num_experts": EXPERTS}
        more = {f"model.{LAYER}mlp.moe_statics.e_score_correction_bias":
                (f"model.{LAYER}mlp.gate.moe_statics.e_score_correction_bias", counting(1, EXPERTS))}
    elif model_type == "deepseek_v4":
        config |= sizes
        prefix, words, place = "", ("w1", "w3", "w2"), "ffn.experts"
        more = {f"{LAYER}attn.wq_a.weight": (f"model.{LAYER}self_attn.q_a_proj.weight", counting(4, 6)),
                "head.weight": ("lm_head.weight", counting(8, 6)),
                "embed.weight": ("model.embed_tokens.weight", counting(8, 6))}
    elif model_type == "kimi_linear":
        config |= sizes
        words, place = ("w1", "w3", "w2"), "block_sparse_moe.experts"
        more = {f"model.{LAYER}self_attn.A_log": (f"model.{LAYER}self_attn.forget_gate.A_log", counting(1, 1, 2, 1)),
                f"model.{LAYER}block_sparse_moe.gate.weight": (f"model.{LAYER}mlp.gate.weight", counting(EXPERTS, 6))}
    else:
        config |= sizes
    one_by_one, joined = experts(f"{prefix}{LAYER}{place}", words)
    files = {**one_by_one, **{name: tensor for name, (_, tensor) in more.items()}}
    memory = {**{f"{own}{LAYER}mlp.experts.{name}": tensor for name, tensor in joined.items()},
              **dict(more.values())}
    if model_type == "kimi_linear":
        parts = [counting(2, 1, 3, start=7 * number) for number in range(3)]
        files |= {f"model.{LAYER}self_attn.{letter}_conv1d.weight": part for letter, part in zip("qkv", parts)}
        memory[f"model.{LAYER}self_attn.conv1d.weight"] = "F32", np.concatenate([array for _, array in parts])
    return memory if packed else files, config


class FamilyTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.source = self.root / "model"
        self.source.mkdir()

    def write(self, tensors: Tensors, config: dict[str, Any] | None) -> None:
        write_safetensors(self.source / "model.safetensors", tensors)
        (self.source / "config.json").unlink(missing_ok=True)
        if config is not None:
            (self.source / "config.json").write_text(json.dumps(config))

    def export(self, *words: str) -> Result:
        return run("export", self.source, self.root / "out", "--views", "ranks", "--force", *words)

    def shown(self, *words: str) -> Tensors:
        result = self.export(*words)
        self.assertEqual(result.code, 0, result.stderr)
        return read_safetensors(self.root / "out/rank_0/checkpoint_0.safetensors")[0]

    def refused(self, *words: str) -> str:
        result = self.export(*words)
        self.assertEqual((result.code, result.stdout), (2, ""), result.stderr)
        return result.stderr


class Forms(FamilyTest):
    FAMILIES = ("qwen3_moe", "qwen3_5_moe", "exaone_moe", "ernie4_5_moe", "deepseek_v4", "kimi_linear",
                "deepseek_v32")

    def test_both_forms(self) -> None:
        for family in self.FAMILIES:
            with self.subTest(family):
                files, config = model(family, packed=False)
                memory, _ = model(family, packed=True)
                self.write(files, config)
                same(self, self.shown("--map", "packed-experts"), memory)
                self.write(memory, config)
                same(self, self.shown("--map", "packed-experts"), files)
                same(self, self.shown("--map", "auto"), files)

    def test_a_saved_deepseek_v4_is_read_too(self) -> None:
        """transformers writes its own prefix."""
        files, config = model("deepseek_v4", packed=False)
        renamed = {f"model.{name}" if name.startswith("layers.") else name: tensor for name, tensor in files.items()}
        self.write(renamed, config)
        same(self, self.shown("--map", "packed-experts"), model("deepseek_v4", packed=True)[0])

    def test_what_no_rule_knows_of_experts_is_refused(self) -> None:
        files, config = model("qwen3_moe", packed=False)
        for name in (f"model.{LAYER}mlp.experts.0.gate_proj.bias", f"model.{LAYER}mlp.experts.3.gate_proj.weight",
                     f"model.{LAYER}self_attn.q_proj.weight_scale_inv", f"model.{LAYER}mlp.experts.gate_up_proj"):
            with self.subTest(name):
                self.write({**files, name: counting(4)}, config)
                self.assertIn(f"{name}: no rule uses it",
                              self.refused("--map", "packed-experts", "--map-direction", "forward"))


class Types(FamilyTest):
    def test_a_map_for_other_types_is_refused_with_the_one_for_this(self) -> None:
        memory, config = model("qwen3_moe", packed=True)
        self.write(memory, config)
        text = self.refused("--map", "packed-experts-mixtral")
        self.assertIn("--map packed-experts-mixtral is not for model_type 'qwen3_moe'; for this one, give --map "
                      "packed-experts; to use it nevertheless, state the type of its names: --map-var "
                      "model_type=NAME, one of 'minimax', 'minimax_m2', 'mixtral'", text)
        shown = self.shown("--map", "packed-experts-mixtral", "--map-var", "model_type=mixtral")
        self.assertIn(f"model.{LAYER}block_sparse_moe.experts.0.w1.weight", shown)

    def test_a_type_that_no_map_has(self) -> None:
        memory, config = model("qwen3_moe", packed=True)
        for change in ({"model_type": "new_moe"}, {"model_type": "seeing", "text_config": {"model_type": "qwen3_moe"}}):
            with self.subTest(change):
                self.write(memory, {**config, **change})
                self.assertIn("is not for model_type", self.refused("--map", "packed-experts"))
                self.assertNotIn("packed-experts", self.refused("--map", "auto"))

    def test_without_a_type(self) -> None:
        memory, _ = model("qwen3_moe", packed=True)
        self.write(memory, None)
        self.assertIn("give --model-config, or --map-var model_type=NAME", self.refused("--map", "packed-experts"))
        shown = self.shown("--map", "packed-experts", "--map-var", "model_type=qwen3_moe", "--map-var", "experts=3")
        same(self, shown, model("qwen3_moe", packed=False)[0])

    def test_a_stated_type_without_an_effect(self) -> None:
        memory, config = model("qwen3_moe", packed=True)
        self.write(memory, config)
        self.assertIn("--map-var model_type=: it names no type",
                      self.refused("--map", "packed-experts", "--map-var", "model_type="))
        own = self.root / "own.toml"
        own.write_text("[rest]\nkeep = true\n")
        self.assertIn("--map-var model_type=qwen3_moe: no map states the types that it is for; leave it out",
                      self.refused("--map", own, "--map-var", "model_type=qwen3_moe"))

    def test_a_warning_where_no_map_is_for_the_type(self) -> None:
        case = GOLDEN / "llama_legacy"
        config = json.loads((case / "config.json").read_text())
        self.write(golden("llama_legacy", "src"), {**config, "model_type": "granite"})
        result = self.export("--map", "mindformers-llama")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("--map mindformers-llama is not for model_type 'granite'", result.stderr)


class Cuts(FamilyTest):
    def parts(self, tensors: Tensors, config: dict[str, Any], sizes: str, ranks: int) -> list[Tensors]:
        self.write(tensors, config)
        result = self.export("--dst-strategy", sizes)
        self.assertEqual(result.code, 0, result.stderr)
        return [read_safetensors(self.root / f"out/rank_{rank}/checkpoint_{rank}.safetensors")[0]
                for rank in range(ranks)]

    def qwen3_5(self) -> tuple[Tensors, dict[str, Any]]:
        tensors = {"lm_head.weight": counting(8, 6), "model.language_model.norm.weight": counting(6),
                   "model.language_model.embed_tokens.weight": counting(8, 6)}
        for layer in range(2):
            place = f"model.language_model.layers.{layer}."
            tensors |= {f"{place}linear_attn.in_proj_qkv.weight": counting(12, 6),
                        f"{place}linear_attn.A_log": counting(2),
                        f"{place}mlp.down_proj.weight": counting(6, 4)}
        return tensors, {"model_type": "qwen3_5", "tie_word_embeddings": False,
                         "text_config": {"model_type": "qwen3_5_text", "num_hidden_layers": 2}}

    def test_cuts_of_the_plan(self) -> None:
        tensors, config = self.qwen3_5()
        vision = "model.visual.blocks.0.mlp.down_proj.weight"
        parts = self.parts({**tensors, vision: counting(6, 4)}, config, "tp=2", 2)
        place = "model.language_model.layers.0."
        for rank, part in enumerate(parts):
            rows = slice(6 * rank, 6 * rank + 6)
            np.testing.assert_array_equal(part[f"{place}linear_attn.in_proj_qkv.weight"][1],
                                          tensors[f"{place}linear_attn.in_proj_qkv.weight"][1][rows])
            np.testing.assert_array_equal(part[f"{place}linear_attn.A_log"][1], [0, 1])
            np.testing.assert_array_equal(part[f"{place}mlp.down_proj.weight"][1],
                                          counting(6, 4)[1][:, 2 * rank:2 * rank + 2])
            # What sees is whole, whatever its names end with.
            np.testing.assert_array_equal(part[vision][1], counting(6, 4)[1])

    def test_plans_of_vllm_cut_between_heads(self) -> None:
        fused = "transformer.h.0.self_attention.query_key_value.weight"
        tensors = {"transformer.word_embeddings.weight": counting(8, 6), "transformer.ln_f.weight": counting(6),
                   "transformer.h.0.ln_attn.bias": counting(6), fused: counting(24, 6),
                   "transformer.h.0.self_attention.dense.weight": counting(6, 12)}
        config = {"model_type": "falcon", "num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": True,
                  "multi_query": True, "tie_word_embeddings": True, "num_hidden_layers": 1}
        for rank, part in enumerate(self.parts(tensors, config, "tp=2", 2)):
            np.testing.assert_array_equal(part[fused][1], tensors[fused][1][12 * rank:12 * rank + 12])
        self.write(tensors, config)
        self.assertIn("has 2 heads of keys and values, which 4 ranks cannot share equally",
                      self.refused("--dst-strategy", "tp=4"))
        self.write(tensors, {**config, "new_decoder_architecture": False})
        self.assertIn("has 1 heads of keys and values, which 2 ranks cannot share equally",
                      self.refused("--dst-strategy", "tp=2"))
        del config["multi_query"]
        self.write(tensors, config)
        self.assertIn("the number of its heads of keys and values", self.refused("--dst-strategy", "tp=2"))

    def test_stages(self) -> None:
        parts = self.parts(*self.qwen3_5(), "tp=1,pp=2", 2)
        for rank, part in enumerate(parts):
            names = {f"model.language_model.layers.{rank}.{end}"
                     for end in ("linear_attn.in_proj_qkv.weight", "linear_attn.A_log", "mlp.down_proj.weight")}
            ends = {"model.language_model.embed_tokens.weight"} if rank == 0 else \
                {"model.language_model.norm.weight", "lm_head.weight"}
            self.assertEqual(part.keys(), names | ends)

    def test_a_tied_embedding_has_both_ends(self) -> None:
        tensors, config = self.qwen3_5()
        del tensors["lm_head.weight"]
        parts = self.parts(tensors, {**config, "tie_word_embeddings": True}, "tp=1,pp=2", 2)
        for part in parts:
            self.assertIn("model.language_model.embed_tokens.weight", part)
        del config["tie_word_embeddings"]
        self.write(tensors, config)
        self.assertIn("no config.json tells whether the head is tied to it", self.refused("--dst-strategy", "tp=1,pp=2"))

    def test_other_names_are_not_cut_by_it(self) -> None:
        """Names of vLLM: its fused rows are arranged for a number of ranks."""
        tensors, config = self.qwen3_5()
        config = {"model_type": "llama"}
        tensors["model.language_model.layers.0.self_attn.qkv_proj.weight"] = counting(12, 6)
        self.write(tensors, config)
        self.assertIn("qkv_proj", self.refused("--dst-strategy", "tp=2"))

    def test_without_an_embedding_nothing_is_known(self) -> None:
        tensors, config = self.qwen3_5()
        del tensors["model.language_model.embed_tokens.weight"]
        self.write(tensors, config)
        self.assertIn("does not say how to cut", self.refused("--dst-strategy", "tp=2"))


if __name__ == "__main__":
    run_unittests()
