# SPDX-License-Identifier: Apache-2.0
"""Maps of models with gated delta nets, and constants that maps add: random models against plain Python."""

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

HYBRID = "megatron-hybrid"


def rounded(values: np.ndarray) -> np.ndarray:
    """float32 as the bits of BFloat16, to nearest even."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def plus(array: np.ndarray, kind: str, constant: float) -> np.ndarray:
    """Whatever the map adds, as PyTorch does it."""
    if kind == "BF16":
        with np.errstate(invalid="ignore"):
            return rounded(widened(array) + np.float32(constant))
    if kind == "F16":
        return (array.astype(np.float32) + np.float32(constant)).astype(np.float16)
    return array + array.dtype.type(constant)


def shown_in(directory: Path) -> Tensors:
    return {name: value for file in directory.rglob("*.safetensors") for name, value in
            read_safetensors(file)[0].items()}


class DeltaModel:
    """A model of Hugging Face and its GPTModel, with the numbers of heads of a random config.json."""

    def __init__(self, rng: np.random.Generator, released: str) -> None:
        self.rng = rng
        self.released = released
        self.kind = str(rng.choice(["BF16", "F32"]))
        self.keys, self.ratio = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        self.dk, self.dv = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        self.groups, self.shared, self.d = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 2
        self.hidden, self.ffn, self.experts = 4, 3, int(rng.integers(2, 4))
        count = int(rng.integers(1, 5))
        # Each kind once at least, in an order that no interval states.
        self.layers = [str(kind) for kind in rng.permutation(["G", "*", *rng.choice(["G", "*"], count)])]
        mlp = "-" if released == "dense" else "E"
        self.pattern = "".join(kind + mlp for kind in self.layers)
        self.predicts = released != "moe" and bool(rng.integers(2))
        self.hf: Tensors = {}
        self.gpt: Tensors = {}
        # The map of packed experts knows no float32 weights of an optimizer.
        for state in ("", "exp_avg.") if released == "moe" else ("", "exp_avg.", "param."):
            self.fill(state, state and "optimizer.state." + state)

    def config(self) -> dict[str, object]:
        return {"model_type": {"next": "qwen3_next", "dense": "qwen3_5_text", "moe": "qwen3_5_moe_text"}[self.released],
                "num_hidden_layers": len(self.layers), "hidden_size": self.hidden, "vocab_size": 6,
                "num_attention_heads": self.groups * self.shared, "num_key_value_heads": self.groups,
                "head_dim": self.d, "linear_num_key_heads": self.keys,
                "linear_num_value_heads": self.keys * self.ratio, "linear_key_head_dim": self.dk,
                "linear_value_head_dim": self.dv, "num_experts": self.experts, "intermediate_size": self.ffn,
                "moe_intermediate_size": self.ffn, "shared_expert_intermediate_size": self.ffn,
                "tie_word_embeddings": False}

    def array(self, *shape: int) -> np.ndarray:
        if self.kind == "BF16":
            return self.rng.integers(0, 1 << 16, shape, np.uint16)
        return self.rng.integers(0, 1 << 32, shape, np.uint32).view(np.float32)

    def both(self, prefix: str, state: str, hf: str, gpt: str, array: np.ndarray) -> None:
        self.hf[prefix + hf] = self.gpt[state + gpt] = (self.kind, array)

    def fill(self, prefix: str, state: str) -> None:
        h = self.hidden
        for hf, gpt in (("model.embed_tokens", "embedding.word_embeddings"), ("lm_head", "output_layer")):
            self.both(prefix, state, f"{hf}.weight", f"{gpt}.weight", self.array(6, h))
        self.both(prefix, state, "model.norm.weight", "decoder.final_layernorm.weight", self.array(h))
        for number, kind in enumerate(self.layers):
            hf, gpt = f"model.layers.{number}.", f"decoder.layers.{number}."
            (self.delta if kind == "G" else self.attention)(prefix, state, hf, gpt)
            (self.dense if self.released == "dense" else self.moe)(prefix, state, hf, gpt)
        if self.predicts:
            self.prediction(prefix, state)

    def prediction(self, prefix: str, state: str) -> None:
        """One layer for the token after the next one: with attention, whatever the others are."""
        h = self.hidden
        for hf, gpt, shape in (("fc", "eh_proj", (h, 2 * h)), ("pre_fc_norm_embedding", "enorm", (h,)),
                               ("pre_fc_norm_hidden", "hnorm", (h,)), ("norm", "final_layernorm", (h,))):
            self.both(prefix, state, f"mtp.{hf}.weight", f"mtp.layers.0.{gpt}.weight", self.array(*shape))
        names = (prefix, state, "mtp.layers.0.", "mtp.layers.0.transformer_layer.")
        self.attention(*names)
        (self.dense if self.released == "dense" else self.moe)(*names)

    def attention(self, prefix: str, state: str, hf: str, gpt: str) -> None:
        h, d, heads = self.hidden, self.d, self.groups * self.shared
        q, k, v = self.array(heads, 2 * d, h), self.array(self.groups, d, h), self.array(self.groups, d, h)
        for name, array in (("q", q), ("k", k), ("v", v)):
            self.hf[f"{prefix}{hf}self_attn.{name}_proj.weight"] = (self.kind, array.reshape(-1, h))
        rows = []
        for group in range(self.groups):
            mine = range(group * self.shared, (group + 1) * self.shared)
            rows += [q[head, :d] for head in mine] + [q[head, d:] for head in mine] + [k[group], v[group]]
        self.gpt[f"{state}{gpt}self_attention.linear_qkv.weight"] = (self.kind, np.concatenate(rows))
        self.both(prefix, state, f"{hf}input_layernorm.weight", f"{gpt}self_attention.linear_qkv.layer_norm_weight",
                  self.array(h))
        for name in "qk":
            self.both(prefix, state, f"{hf}self_attn.{name}_norm.weight",
                      f"{gpt}self_attention.{name}_layernorm.weight", self.array(d))
        self.both(prefix, state, f"{hf}self_attn.o_proj.weight", f"{gpt}self_attention.linear_proj.weight",
                  self.array(h, heads * d))

    def delta(self, prefix: str, state: str, hf: str, gpt: str) -> None:
        h, keys, ratio = self.hidden, self.keys, self.ratio
        widths = {"query": self.dk, "key": self.dk, "value": ratio * self.dv, "z": ratio * self.dv}
        parts = {name: self.array(keys, width, h) for name, width in widths.items()}
        beta, alpha = self.array(keys, ratio, h), self.array(keys, ratio, h)
        linear = prefix + hf + "linear_attn."
        if self.released == "next":
            stored = {"qkvz": np.concatenate(list(parts.values()), 1), "ba": np.concatenate([beta, alpha], 1)}
        else:
            joined = [parts[name].reshape(-1, h) for name in ("query", "key", "value")]
            stored = {"qkv": np.concatenate(joined), "z": parts["z"], "b": beta, "a": alpha}
        for name, array in stored.items():
            self.hf[f"{linear}in_proj_{name}.weight"] = (self.kind, array.reshape(-1, h))
        attention = state + gpt + "self_attention."
        for name, array in {**parts, "beta": beta, "alpha": alpha}.items():
            self.gpt[f"{attention}in_proj.weight.{name}"] = (self.kind, array.reshape(-1, h))
        rows = [self.array(keys * widths[name], 1, 3) for name in ("query", "key", "value")]
        self.hf[linear + "conv1d.weight"] = (self.kind, np.concatenate(rows))
        for name, array in zip(("query", "key", "value"), rows, strict=True):
            self.gpt[f"{attention}conv1d.weight.{name}"] = (self.kind, array)
        mine, theirs = hf + "linear_attn.", gpt + "self_attention."
        for name in ("A_log", "dt_bias"):
            self.both(prefix, state, mine + name, theirs + name, self.array(keys * ratio))
        self.both(prefix, state, mine + "out_proj.weight", theirs + "out_proj.weight",
                  self.array(h, keys * ratio * self.dv))
        self.both(prefix, state, f"{hf}input_layernorm.weight", f"{gpt}self_attention.in_proj.layer_norm_weight",
                  self.array(h))
        # Numbers of which the difference to 1 is exact, so that they come back.
        norm = np.float32(1) + self.rng.integers(-64, 64, self.dv).astype(np.float32) / 128
        ours = rounded(norm) if self.kind == "BF16" else norm
        moved = ours if prefix == "exp_avg." else plus(ours, self.kind, -1)
        self.hf[linear + "norm.weight"] = (self.kind, ours)
        self.gpt[attention + "out_norm.weight"] = (self.kind, moved)

    def dense(self, prefix: str, state: str, hf: str, gpt: str) -> None:
        gate, up = self.array(self.ffn, self.hidden), self.array(self.ffn, self.hidden)
        self.hf[f"{prefix}{hf}mlp.gate_proj.weight"] = (self.kind, gate)
        self.hf[f"{prefix}{hf}mlp.up_proj.weight"] = (self.kind, up)
        self.gpt[f"{state}{gpt}mlp.linear_fc1.weight"] = (self.kind, np.concatenate([gate, up]))
        self.both(prefix, state, f"{hf}mlp.down_proj.weight", f"{gpt}mlp.linear_fc2.weight",
                  self.array(self.hidden, self.ffn))
        self.both(prefix, state, f"{hf}post_attention_layernorm.weight", f"{gpt}mlp.linear_fc1.layer_norm_weight",
                  self.array(self.hidden))

    def moe(self, prefix: str, state: str, hf: str, gpt: str) -> None:
        h, f = self.hidden, self.ffn
        first, second = self.array(self.experts, 2 * f, h), self.array(self.experts, h, f)
        for name, array in (("1", first), ("2", second)):
            self.gpt[f"{state}{gpt}mlp.experts.experts.linear_fc{name}.weight"] = (self.kind, array)
        if self.released == "moe":
            self.hf[f"{prefix}{hf}mlp.experts.gate_up_proj"] = (self.kind, first)
            self.hf[f"{prefix}{hf}mlp.experts.down_proj"] = (self.kind, second)
        else:
            for expert in range(self.experts):
                for name, array in (("gate", first[expert, :f]), ("up", first[expert, f:]), ("down", second[expert])):
                    self.hf[f"{prefix}{hf}mlp.experts.{expert}.{name}_proj.weight"] = (self.kind, array)
        gate, up = self.array(f, h), self.array(f, h)
        self.hf[f"{prefix}{hf}mlp.shared_expert.gate_proj.weight"] = (self.kind, gate)
        self.hf[f"{prefix}{hf}mlp.shared_expert.up_proj.weight"] = (self.kind, up)
        self.gpt[f"{state}{gpt}mlp.shared_experts.linear_fc1.weight"] = (self.kind, np.concatenate([gate, up]))
        for mine, theirs, shape in (("shared_expert.down_proj.weight", "shared_experts.linear_fc2.weight", (h, f)),
                                    ("shared_expert_gate.weight", "shared_experts.gate_weight", (1, h)),
                                    ("gate.weight", "router.weight", (self.experts, h))):
            self.both(prefix, state, f"{hf}mlp.{mine}", f"{gpt}mlp.{theirs}", self.array(*shape))
        self.both(prefix, state, f"{hf}post_attention_layernorm.weight", f"{gpt}pre_mlp_layernorm.weight",
                  self.array(h))

    def hybrid(self) -> Tensors:
        """Of the GPTModel: the attention of layer i is layer 2i, and its MLP the next."""
        out: Tensors = {}
        for name, value in self.gpt.items():
            begin, found, rest = name.partition(".transformer_layer.")
            if found:
                half = int(rest.startswith(("mlp.", "pre_mlp_layernorm.")))
                out[f"{begin}.mtp_model_layer.layers.{half}.{rest}"] = value
                continue
            state, found, rest = name.partition("decoder.")
            if rest.startswith("layers."):
                _, number, end = rest.split(".", 2)
                place = 2 * int(number) + end.startswith(("mlp.", "pre_mlp_layernorm."))
                rest = f"layers.{place}.{end}"
            is_mtp = rest == "" and "mtp." in name
            out[name if is_mtp else state + found + rest.replace("final_layernorm", "final_norm")] = value
        return out


def newer_name(name: str) -> str:
    return "model.language_model." + name.removeprefix("model.") if name.startswith("model.") else name


def older_name(name: str) -> str:
    return name if name.startswith("mtp.") else f"language_model.{name}"


class DeltaMaps(unittest.TestCase):
    def shown(self, source: Tensors, root: Path, *options: str) -> Tensors:
        write_safetensors(root / "source/model.safetensors", source)
        result = run("export", root / "source", root / "out", "--views", "merged", "--force", *options)
        self.assertEqual(result.code, 0, result.stderr)
        return shown_in(root / "out/merged")

    def same(self, a: Tensors, b: Tensors) -> None:
        self.assertEqual(sorted(a), sorted(b))
        for name, (kind, array) in a.items():
            self.assertEqual((kind, array.shape, array.tobytes()),
                             (b[name][0], b[name][1].shape, b[name][1].tobytes()), name)

    def test_random_models_are_their_gpt_and_hybrid_models(self) -> None:
        seed = random.randrange(1 << 30)
        for number in range(12):
            released = ("next", "dense", "moe")[number % 3]
            with self.subTest(seed=seed + number, released=released), scratch() as root:
                model = DeltaModel(np.random.default_rng(seed + number), released)
                (root / "config.json").write_text(json.dumps(model.config()))
                name = "megatron-qwen3-next" if released == "next" else "megatron-qwen35"
                config = ("--model-config", str(root / "config.json"))
                packed = ("--map", "packed-experts") if released == "moe" else ()
                there = (*config, "--map-var", "padded_vocab=6", *packed, "--map", name)
                self.same(self.shown(model.hf, root, *there), model.gpt)
                self.same(self.shown(model.hf, root, *there, "--map", HYBRID), model.hybrid())
                back = (*config, "--map", name, *packed)
                self.same(self.shown(model.gpt, root, *back), model.hf)
                self.same(self.shown(model.hybrid(), root, "--map", HYBRID, *back), model.hf)

    def test_models_that_see_are_their_text_models(self) -> None:
        seed = random.randrange(1 << 30)
        for number, older in enumerate((False, True, False, True)):
            with self.subTest(seed=seed + number, older=older), scratch() as root:
                model = DeltaModel(np.random.default_rng(seed + number), "dense")
                text = {name: value for name, value in model.hf.items() if not name.startswith(("exp_avg.", "param."))}
                core = {name: value for name, value in model.gpt.items() if not name.startswith("optimizer.")}
                config = {"model_type": "qwen3_5", "text_config": model.config()}
                (root / "config.json").write_text(json.dumps(config))
                there = ("--model-config", str(root / "config.json"), "--map-var", "padded_vocab=6")
                sees = {older_name(name) if older else newer_name(name): value for name, value in text.items()}
                tower = "vision_tower.x" if older else "model.visual.blocks.0.attn.qkv.weight"
                both = sees | {tower: (model.kind, model.array(2, 3))}
                maps = ("--map", "vision-language", "--map", "megatron-qwen35")
                names = ("--map-var", f"names={'older' if older else 'newer'}")
                self.same(self.shown(both, root, *there, *maps), core)
                inside = {f"language_model.{name}": value for name, value in core.items()}
                self.same(self.shown(both, root, *there, *maps, "--map", "megatron-vision-language"), inside)
                back = ("--map", "megatron-qwen35", "--map", "vision-language", *there[:2], *names)
                self.same(self.shown(core, root, *back), sees)
                sight = {"vision_model.merger.linear_fc1.weight": (model.kind, model.array(2, 3))}
                self.same(self.shown(inside | sight, root, "--map", "megatron-vision-language", *back), sees)

    def test_half_a_prediction_is_refused(self) -> None:
        model = next(model for model in (DeltaModel(np.random.default_rng(seed), "next") for seed in range(9))
                     if model.predicts)
        for source in (model.hf, model.gpt):
            for name in (name for name in source if name.startswith("mtp.")):
                with self.subTest(name), scratch() as root:
                    (root / "config.json").write_text(json.dumps(model.config()))
                    half = {key: value for key, value in source.items() if key != name}
                    write_safetensors(root / "source.safetensors", half)
                    result = run("plan", root / "source.safetensors", "--map", "megatron-qwen3-next", "--model-config",
                                 root / "config.json", "--map-var", "padded_vocab=6")
                    self.assertEqual(result.code, 2, result.stdout)


ONE = """
[[map]]
to = "{c:*}.b"
from = "{c:*}.a"
ops = ["add CONSTANT"]
"""


class Constants(unittest.TestCase):
    def write(self, root: Path, *constants: str) -> list[str]:
        options = []
        for number, constant in enumerate(constants):
            text = ONE.replace("CONSTANT", constant)
            if number % 2:  # the other way round
                text = text.replace('.b"', '.c"').replace('.a"', '.b"')
            (root / f"{number}.toml").write_text(text)
            options += ["--map", str(root / f"{number}.toml")]
        return options

    def values(self, kind: str, count: int) -> np.ndarray:
        rng = np.random.default_rng(count)
        if kind == "BF16":
            return np.arange(1 << 16, dtype=np.uint16)[:count]
        if kind == "F16":
            return rng.normal(size=count).astype(np.float16)
        return rng.normal(size=count).astype(np.float32 if kind == "F32" else np.float64)

    def test_each_type_is_rounded_once(self) -> None:
        for kind, count in (("BF16", 1 << 16), ("F16", 40001), ("F32", 40001), ("F64", 20001)):
            with self.subTest(kind), scratch() as root:
                array = self.values(kind, count)
                write_safetensors(root / "source/model.safetensors", {"x.a": (kind, array)})
                result = run("export", root / "source", root / "out", "--views", "merged", *self.write(root, "-1"))
                self.assertEqual(result.code, 0, result.stderr)
                shown = shown_in(root / "out/merged")
                expected = plus(array, kind, -1)
                if kind == "BF16":  # which NaN it is, is not compared
                    is_nan = np.isnan(widened(array))
                    self.assertTrue(np.isnan(widened(shown["x.b"][1].view(np.uint16))[is_nan]).all())
                    self.assertEqual(shown["x.b"][1].view(np.uint16)[~is_nan].tobytes(), expected[~is_nan].tobytes())
                else:
                    self.assertEqual(shown["x.b"][1].tobytes(), expected.tobytes())

    def test_every_surface_shows_the_sum(self) -> None:
        with scratch() as root:
            array = np.array([0.5, 1.0, 1.25, 300.0], np.float32)
            write_safetensors(root / "source/model.safetensors", {"x.a": ("F32", array)})
            options = self.write(root, "-1")
            result = run("inspect", root / "source", "--stats", *options)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("299", result.stdout)
            # No bytes of the file are these elements.
            result = run("inspect", root / "source", "--why", "x.b", *options)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("computed when it is read", result.stdout)
            self.assertNotIn("offset", result.stdout)
            # Two maps, each of which rounds; then a cast, and halves for two ranks.
            write_safetensors(root / "sums/model.safetensors", {"x.c": ("F32", (array - np.float32(1)) + np.float32(3))})
            chain = self.write(root, "-1", "3")
            options = [word if word != "--map" else "--a-map" for word in chain]
            result = run("diff", root / "source", root / "sums", *options)
            self.assertEqual(result.code, 0, result.stdout + result.stderr)
            self.assertIn("1 equal", result.stdout)
            for views in ("hf", "merged-torch", "dcp", "merged"):
                with self.subTest(views):
                    result = run("export", root / "source", root / views, "--views", views, *chain)
                    self.assertEqual(result.code, 0, result.stderr)
                    result = run("diff", root / views / views.partition("-")[0], root / "sums")
                    self.assertEqual(result.code, 0, result.stdout + result.stderr)
            result = run("export", root / "source", root / "bf16", "--views", "merged", "--cast", "fp32->bf16", *chain)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertEqual(shown_in(root / "bf16/merged")["x.c"][1].tobytes(),
                             rounded((array - np.float32(1)) + np.float32(3)).tobytes())
            back = [word for pair in zip(chain[::2], chain[1::2], strict=True) for word in pair]
            result = run("export", root / "sums", root / "back", "--views", "merged", *back[2:], *back[:2])
            self.assertEqual(result.code, 0, result.stderr)
            result = run("diff", root / "back/merged", root / "source")
            self.assertEqual(result.code, 0, result.stdout + result.stderr)

    def test_what_cannot_be_added_is_refused(self) -> None:
        def refusal(root: Path, tensors: Tensors, *options: str) -> str:
            write_safetensors(root / "source/model.safetensors", tensors)
            result = run("export", root / "source", root / "out", *options)
            self.assertEqual(result.code, 2, result.stdout)
            return result.stderr

        ones = ("F32", np.ones(3, np.float32))
        with scratch() as root:
            self.assertIn("not possible for Int32",
                          refusal(root, {"x.a": ("I32", np.ones(3, np.int32))}, *self.write(root, "1")))
            for constant in ("0.5", "x", "", "257", "1 2"):
                self.assertIn("expected add 1", refusal(root, {"x.a": ones}, *self.write(root, constant)))
            text = ONE.replace("CONSTANT", "1").replace("[[map]]", '[states]\n"s." = "t."\n[[map]]', 1)
            (root / "states.toml").write_text(text.replace("{c:*}", "w"))
            self.assertIn("nothing states whether states 's.*' get it",
                          refusal(root, {"w.a": ones, "s.w.a": ones}, "--map", str(root / "states.toml")))
            for other in ("pad 0 4", "cast fp32->bf16"):
                (root / "both.toml").write_text(ONE.replace("add CONSTANT", f'add 1", "{other}'))
                self.assertIn(f"both 'add' and '{other.split()[0]}'",
                              refusal(root, {"x.a": ones}, "--map", str(root / "both.toml")))


if __name__ == "__main__":
    run_unittests()
