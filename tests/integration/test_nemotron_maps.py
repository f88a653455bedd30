# SPDX-License-Identifier: Apache-2.0
"""Nemotron-H and its HybridModel: random models, with multi-token prediction, against plain Python."""

from __future__ import annotations

import json
import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, write_safetensors  # noqa: E402
from mounted import run, run_unittests, scratch  # noqa: E402

MAP = "megatron-nemotron-h"
GOLDEN = Path(__file__).resolve().parents[1] / "golden_megatron"
# The dimension that tensor parallelism cuts, by the end of a name (HybridModel's modules); others are whole.
CUTS = {"word_embeddings.weight": 0, "output_layer.weight": 0, ".z": 0, ".x": 0, ".B": 0, ".C": 0, ".dt": 0, "A_log": 0,
        ".D": 0, "dt_bias": 0, "mixer.norm.weight": 0, "out_proj.weight": 1, "linear_qkv.weight": 0,
        "linear_proj.weight": 1, "linear_fc1.weight": 0, "linear_fc2.weight": 1}


class Nemotron:
    """A random config.json, and the same tensors under both names."""

    def __init__(self, rng: np.random.Generator, prediction: str) -> None:
        self.rng = rng
        self.lists = False
        self.prediction, self.depths = prediction, int(rng.integers(1, 4))
        self.pattern = "".join(rng.permutation([*"M*-E", *rng.choice([*"M*-E"], rng.integers(0, 4))]))
        self.groups, self.shared, self.d = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 2
        self.inner, self.state, self.heads = 6, int(rng.integers(1, 3)) * 2, 3
        self.experts, self.ffn, self.hidden = int(rng.integers(2, 4)), 3, 4
        self.hf: Tensors = {}
        self.core: Tensors = {}
        for prefix in ("", "exp_avg."):
            self.fill(prefix)

    def config(self) -> dict[str, object]:
        """As the hub has it, or as transformers writes it."""
        config = self.numbers()
        if self.lists:
            types = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
            config["layers_block_type"] = [types[symbol] for symbol in str(config.pop("hybrid_override_pattern"))]
            config["mtp_layers_block_type"] = [types[symbol] for symbol in
                                               str(config.pop("mtp_hybrid_override_pattern")) or "*E"]
        return config

    def numbers(self) -> dict[str, object]:
        return {"model_type": "nemotron_h", "vocab_size": 6, "hidden_size": self.hidden, "head_dim": self.d,
                "num_attention_heads": self.groups * self.shared, "num_key_value_heads": self.groups,
                "hybrid_override_pattern": self.pattern, "mtp_hybrid_override_pattern": self.prediction,
                "num_nextn_predict_layers": self.depths if self.prediction else 0, "mamba_num_heads": self.heads,
                "mamba_head_dim": self.inner // self.heads, "n_groups": 2, "ssm_state_size": self.state // 2,
                "n_routed_experts": self.experts, "moe_intermediate_size": self.ffn, "intermediate_size": self.ffn,
                "moe_shared_expert_intermediate_size": self.ffn, "tie_word_embeddings": False}

    def array(self, *shape: int) -> np.ndarray:
        return self.rng.integers(0, 1 << 16, shape, np.uint16)

    def both(self, prefix: str, hf: str, core: str, array: np.ndarray) -> None:
        self.hf[prefix + hf] = self.core[(prefix and "optimizer.state." + prefix) + core] = ("BF16", array)

    def joined(self, prefix: str, hf: str, core: str, parts: dict[str, np.ndarray]) -> None:
        self.hf[prefix + hf] = ("BF16", np.concatenate(list(parts.values())))
        for end, array in parts.items():
            self.core[(prefix and "optimizer.state." + prefix) + core + end] = ("BF16", array)

    def fill(self, prefix: str) -> None:
        h = self.hidden
        for hf, core, shape in (("backbone.embeddings", "embedding.word_embeddings", (6, h)),
                                ("lm_head", "output_layer", (6, h)), ("backbone.norm_f", "decoder.final_norm", (h,))):
            self.both(prefix, f"{hf}.weight", f"{core}.weight", self.array(*shape))
        for place, symbol in enumerate(self.pattern):
            self.layer(symbol, prefix, f"backbone.layers.{place}.", f"decoder.layers.{place}.")
        place = 0
        for depth in range(self.depths if self.prediction else 0):
            first = place
            for inner, symbol in enumerate(self.prediction):
                self.layer(symbol, prefix, f"mtp.layers.{place}.", f"mtp.layers.{depth}.mtp_model_layer.layers.{inner}.")
                place += 1
            for name, shape in (("eh_proj", (h, 2 * h)), ("enorm", (h,)), ("hnorm", (h,))):
                self.both(prefix, f"mtp.layers.{first}.{name}.weight", f"mtp.layers.{depth}.{name}.weight",
                          self.array(*shape))
            self.both(prefix, f"mtp.layers.{place - 1}.final_layernorm.weight",
                      f"mtp.layers.{depth}.final_layernorm.weight", self.array(h))

    def layer(self, symbol: str, prefix: str, hf: str, core: str) -> None:
        h, f = self.hidden, self.ffn
        norm = {"M": "mixer.in_proj.layer_norm_weight", "*": "self_attention.linear_qkv.layer_norm_weight",
                "-": "mlp.linear_fc1.layer_norm_weight", "E": "pre_mlp_layernorm.weight"}[symbol]
        self.both(prefix, hf + "norm.weight", core + norm, self.array(h))
        if symbol == "M":
            rows = {"z": self.inner, "x": self.inner, "B": self.state, "C": self.state, "dt": self.heads}
            self.joined(prefix, hf + "mixer.in_proj.weight", core + "mixer.in_proj.weight.",
                        {part: self.array(count, h) for part, count in rows.items()})
            for end, shape in (("weight", (1, 2)), ("bias", ())):
                self.joined(prefix, f"{hf}mixer.conv1d.{end}", f"{core}mixer.conv1d.{end}.",
                            {part: self.array(rows[part], *shape) for part in "xBC"})
            for name, shape in (("A_log", (self.heads,)), ("D", (self.heads,)), ("dt_bias", (self.heads,)),
                                ("norm.weight", (self.inner,)), ("out_proj.weight", (h, self.inner))):
                self.both(prefix, f"{hf}mixer.{name}", f"{core}mixer.{name}", self.array(*shape))
        elif symbol == "*":
            heads = self.groups * self.shared
            q, k, v = (self.array(count, self.d, h) for count in (heads, self.groups, self.groups))
            for name, array in (("q", q), ("k", k), ("v", v)):
                self.hf[f"{prefix}{hf}mixer.{name}_proj.weight"] = ("BF16", array.reshape(-1, h))
            rows_of = [part for g in range(self.groups)
                       for part in (*q[g * self.shared:(g + 1) * self.shared], k[g], v[g])]
            name = (prefix and "optimizer.state." + prefix) + core + "self_attention.linear_qkv.weight"
            self.core[name] = ("BF16", np.concatenate(rows_of))
            self.both(prefix, hf + "mixer.o_proj.weight", core + "self_attention.linear_proj.weight",
                      self.array(h, heads * self.d))
        elif symbol == "-":
            self.both(prefix, hf + "mixer.up_proj.weight", core + "mlp.linear_fc1.weight", self.array(f, h))
            self.both(prefix, hf + "mixer.down_proj.weight", core + "mlp.linear_fc2.weight", self.array(h, f))
        else:
            state = (prefix and "optimizer.state." + prefix) + core + "mlp.experts.experts."
            for up, fc, shape in (("up", "linear_fc1", (f, h)), ("down", "linear_fc2", (h, f))):
                stacked = self.array(self.experts, *shape)
                self.core[f"{state}{fc}.weight"] = ("BF16", stacked)
                for expert in range(self.experts):
                    self.hf[f"{prefix}{hf}mixer.experts.{expert}.{up}_proj.weight"] = ("BF16", stacked[expert])
                self.both(prefix, f"{hf}mixer.shared_experts.{up}_proj.weight",
                          f"{core}mlp.shared_experts.{fc}.weight", self.array(*shape))
            self.both(prefix, hf + "mixer.gate.weight", core + "mlp.router.weight", self.array(self.experts, h))
            self.both(prefix, hf + "mixer.gate.e_score_correction_bias", core + "mlp.router.expert_bias",
                      self.array(self.experts))


class NemotronMaps(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def shown(self, source: Tensors, model: Nemotron) -> Tensors:
        write_safetensors(self.root / "source.safetensors", source)
        (self.root / "config.json").write_text(json.dumps(model.config()))
        self.result = run("export", self.root / "source.safetensors", self.root / "out.safetensors", "--force", "--map", MAP,
                          "--model-config", self.root / "config.json", "--map-var", "padded_vocab=6")
        return read_safetensors(self.root / "out.safetensors")[0] if self.result.code == 0 else {}

    def same(self, a: Tensors, b: Tensors) -> None:
        self.assertEqual(sorted(a), sorted(b), self.result.stderr)
        for name, (kind, array) in a.items():
            self.assertEqual((kind, array.shape, array.tobytes()),
                             (b[name][0], b[name][1].shape, b[name][1].tobytes()), name)

    def test_random_models_go_both_ways(self) -> None:
        seed = random.randrange(1 << 30)
        drawn = "".join(random.Random(seed).choices("M*-E", k=random.Random(seed).randint(1, 4)))
        for number, prediction in enumerate(("", "*E", "*-", "*", "*E*E", "M*", "E*", "M", "*E-M*", drawn)):
            with self.subTest(seed=seed + number, prediction=prediction):
                model = Nemotron(np.random.default_rng(seed + number), prediction)
                self.same(self.shown(model.hf, model), model.core)
                self.same(self.shown(model.core, model), model.hf)
                model.lists = True
                self.same(self.shown(model.hf, model), model.core)
                self.same(self.shown(model.core, model), model.hf)

    def test_another_number_of_layers_for_prediction_is_refused(self) -> None:
        for prediction, stated in (("*E", "*E-"), ("*E-", "*E"), ("*E*E", "*E")):
            with self.subTest(prediction):
                model = Nemotron(np.random.default_rng(7), prediction)
                model.prediction = stated
                for source in (model.hf, model.core):
                    self.assertEqual(self.shown(source, model), {})
                    self.assertRegex(self.result.stderr, r"mtp\.layers\.|for multi-token prediction")

    def test_half_a_prediction_is_refused(self) -> None:
        model = Nemotron(np.random.default_rng(8), "*E")
        for source in (model.hf, model.core):
            for name in sorted(name for name in source if name.startswith("mtp.") and "shared_experts" not in name
                               and "expert_bias" not in name and "e_score" not in name):
                with self.subTest(name):
                    self.assertEqual(self.shown({key: value for key, value in source.items() if key != name}, model), {})


class Sizes(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def ranks(self, source: Path, *words: str) -> list[Tensors]:
        """Those of two stages, each of two ranks."""
        out = self.root / "out"
        result = run("export", source, out, "--views", "ranks", "--force", "--map-var", "padded_vocab=64",
                     "--dst-strategy", "tp=2,pp=2", *words)
        self.assertEqual(result.code, 0, result.stderr)
        return [read_safetensors(out / f"rank_{rank}/checkpoint_{rank}.safetensors")[0] for rank in range(4)]

    def test_ranks_have_what_the_modules_of_a_hybrid_model_cut(self) -> None:
        """Of what Megatron-Core saved, and of what the map makes for it."""
        case = GOLDEN / "nemotron-h"
        run("export", case / "torch_dist", self.root / "whole.safetensors")
        whole = read_safetensors(self.root / "whole.safetensors")[0]
        ranks = self.ranks(case / "hf", "--map", MAP)
        for stage, layers in enumerate(((0, 1), (2, 3))):
            ends = ("embedding.",) if stage == 0 else ("output_layer.", "decoder.final_norm.")
            names = [name for name in whole if name.startswith((*(f"decoder.layers.{layer}." for layer in layers), *ends))]
            for part in range(2):
                rank = ranks[2 * stage + part]
                self.assertEqual(sorted(rank), sorted(names))
                for name in names:
                    kind, array = whole[name]
                    cut = next((axis for end, axis in CUTS.items() if name.endswith(end)), None)
                    if name.startswith(("embedding.", "output_layer.")):
                        array = np.concatenate([array[:60], np.zeros_like(array[60:])])  # padding is not zero in Megatron's
                    mine = array if cut is None else np.split(array, 2, cut)[part]
                    self.assertEqual((rank[name][0], rank[name][1].tobytes()), (kind, mine.tobytes()), name)

    def test_gate_above_up_is_not_cut(self) -> None:
        result = run("plan", GOLDEN / "llama-optimizer/gpt", "--map", "megatron-hybrid", "--weights-only",
                     "--dst-strategy", "tp=2")
        self.assertEqual(result.code, 2, result.stdout)
        self.assertIn("'decoder.layers.{1,3}.mlp.linear_fc1.weight' [48, 16] (it holds several matrices",
                      result.stderr)

    def test_stages_hold_layers_of_the_pattern(self) -> None:
        """Four of them, where the GPTModel has two."""
        out = self.root / "out"
        result = run("export", GOLDEN / "llama-optimizer/gpt", out, "--views", "ranks", "--map", "megatron-hybrid",
                     "--weights-only", "--dst-strategy", "pp=2", "--format", "safetensors")
        self.assertEqual(result.code, 0, result.stderr)
        for stage, kinds in enumerate(({"embedding", "layers.0", "layers.1"},
                                       {"layers.2", "layers.3", "final_norm", "output_layer"})):
            names = read_safetensors(out / f"rank_{stage}/checkpoint_{stage}.safetensors")[0]
            self.assertEqual({next(kind for kind in kinds if kind in name) for name in names}, kinds)


if __name__ == "__main__":
    run_unittests()
