# SPDX-License-Identifier: Apache-2.0
"""--views vllm: a file for each tensor-parallel rank, loaded as vLLM's sharded_state loader does, into what its
modules have. Both are written here from vllm-project/vllm of August 2026 (sharded_state_loader.py, linear.py,
vocab_parallel_embedding.py, attention.py); vLLM itself is not here."""

from __future__ import annotations

import json
import os
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_safetensors  # noqa: E402
from mounted import mounted, one_line, run, run_unittests, scratch  # noqa: E402

HIDDEN, FFN, LAYERS, VOCAB, PADDED = 16, 24, 2, 40, 64
HEADS, GROUPS, DIM = 8, 2, 4
MAP = ("--map", "vllm-llama")
OLD_MAP = ("--map", "vllm-llama-no-scales")
SCALES = ("_q_scale", "_k_scale", "_v_scale", "_prob_scale")
KINDS = ("llama", "qwen2", "qwen3", "biased", "tied")
BFLOAT = "BF16"
# How vLLM's ranks cut tensors, as docs/model-maps.md has it.
RULES = """[devices]
axes = ["tp={ranks}"]
[[rule]]
match = ["*.qkv_proj.*", "*.gate_up_proj.weight", "*embed_tokens.weight", "lm_head.weight"]
cut = ["tp"]
optional = true
[[rule]]
match = ["*.o_proj.weight", "*.down_proj.weight"]
cut = ["", "tp"]
[[rule]]
match = "*"
"""


def config_of(kind: str) -> dict[str, Any]:
    return {"architectures": ["LlamaForCausalLM"], "model_type": "qwen3" if kind == "qwen3" else "llama",
            "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "head_dim": DIM,
            "vocab_size": VOCAB, "tie_word_embeddings": kind == "tied", "torch_dtype": "bfloat16"}


def hub_of(kind: str) -> Tensors:
    """No two elements are equal."""
    tensors: Tensors = {}
    following = 1

    def add(name: str, *shape: int) -> None:
        nonlocal following
        count = int(np.prod(shape))
        tensors[name] = (BFLOAT, np.arange(following, following + count, dtype="<u2").reshape(shape))
        following += count

    add("model.embed_tokens.weight", VOCAB, HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, rows in (("q", HEADS * DIM), ("k", GROUPS * DIM), ("v", GROUPS * DIM)):
            add(f"{at}self_attn.{name}_proj.weight", rows, HIDDEN)
            if kind in ("qwen2", "biased"):
                add(f"{at}self_attn.{name}_proj.bias", rows)
            if kind == "qwen3" and name != "v":
                add(f"{at}self_attn.{name}_norm.weight", DIM)
        add(f"{at}self_attn.o_proj.weight", HIDDEN, HEADS * DIM)
        if kind == "biased":
            add(f"{at}self_attn.o_proj.bias", HIDDEN)
        add(f"{at}mlp.gate_proj.weight", FFN, HIDDEN)
        add(f"{at}mlp.up_proj.weight", FFN, HIDDEN)
        add(f"{at}mlp.down_proj.weight", HIDDEN, FFN)
        add(f"{at}input_layernorm.weight", HIDDEN)
        add(f"{at}post_attention_layernorm.weight", HIDDEN)
    add("model.norm.weight", HIDDEN)
    if kind != "tied":
        add("lm_head.weight", VOCAB, HIDDEN)
    return tensors


def modules_of(hub: Tensors, kind: str, rank: int, ranks: int, scales: bool = True) -> Tensors:
    """The state_dict of one rank, of which of two names for one tensor the first of the alphabet is left."""
    out: Tensors = {}

    def rows(name: str, part: int, parts: int) -> np.ndarray[Any, Any]:
        array = hub[name][1]
        count = array.shape[0] // parts
        assert count * parts == array.shape[0]
        return array[part * count:(part + 1) * count]

    def columns(name: str) -> np.ndarray[Any, Any]:
        array = hub[name][1]
        count = array.shape[1] // ranks
        assert count * ranks == array.shape[1]
        return array[:, rank * count:(rank + 1) * count]

    def vocabulary(name: str) -> np.ndarray[Any, Any]:
        count = PADDED // ranks
        out = np.zeros((count, HIDDEN), "<u2")
        for row in range(count):
            token = rank * count + row
            if token < VOCAB:
                out[row] = hub[name][1][token]
        return out

    # Ranks that share a key head are neighbours.
    group, groups = (rank, ranks) if ranks <= GROUPS else (rank // (ranks // GROUPS), GROUPS)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for leaf in ("weight", "bias"):
            names = [f"{at}self_attn.{name}_proj.{leaf}" for name in "qkv"]
            if names[0] in hub:
                fused = [rows(names[0], rank, ranks), rows(names[1], group, groups), rows(names[2], group, groups)]
                out[f"{at}self_attn.qkv_proj.{leaf}"] = (BFLOAT, np.concatenate(fused))
        out[f"{at}self_attn.o_proj.weight"] = (BFLOAT, columns(f"{at}self_attn.o_proj.weight"))
        pair = [rows(f"{at}mlp.{name}_proj.weight", rank, ranks) for name in ("gate", "up")]
        out[f"{at}mlp.gate_up_proj.weight"] = (BFLOAT, np.concatenate(pair))
        out[f"{at}mlp.down_proj.weight"] = (BFLOAT, columns(f"{at}mlp.down_proj.weight"))
        for name in ("self_attn.o_proj.bias", "self_attn.q_norm.weight", "self_attn.k_norm.weight",
                     "input_layernorm.weight", "post_attention_layernorm.weight"):
            if at + name in hub:
                out[at + name] = hub[at + name]
        if scales:
            out |= {f"{at}self_attn.attn.{scale}": ("F32", np.array(1, "<f4")) for scale in SCALES}
    out["model.norm.weight"] = hub["model.norm.weight"]
    if kind == "tied":
        out["lm_head.weight"] = (BFLOAT, vocabulary("model.embed_tokens.weight"))
    else:
        out["model.embed_tokens.weight"] = (BFLOAT, vocabulary("model.embed_tokens.weight"))
        out["lm_head.weight"] = (BFLOAT, vocabulary("lm_head.weight"))
    return out


def loaded(directory: Path, rank: int, state: Tensors) -> Tensors:
    """As the loader fills the parameters of a model, which have other values before."""
    filled = {name: (kind, np.full_like(array, 7)) for name, (kind, array) in state.items()}
    missing = dict(filled)
    paths = sorted(directory.glob(f"model-rank-{rank}-part-*.safetensors"))
    assert paths, f"no file of rank {rank}"
    for path in paths:
        tensors, metadata = read_safetensors(path)
        assert metadata["format"] == "pt", metadata
        for name, (kind, array) in tensors.items():
            wanted, parameter = missing.pop(name)  # an unknown name is a KeyError
            assert kind == wanted, (name, kind)
            for dimension, length in enumerate(array.shape):
                if length < parameter.shape[dimension]:
                    parameter = parameter.take(range(length), dimension)
            assert array.shape == parameter.shape, (name, array.shape, parameter.shape)
            parameter[...] = array
    assert not missing, f"missing keys {sorted(missing)}"
    return filled


class VllmTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.exports = 0

    def hub(self, kind: str, tensors: Tensors | None = None, **config: Any) -> Path:
        """A directory as a model is downloaded."""
        directory = self.root / kind
        directory.mkdir(exist_ok=True)
        write_safetensors(directory / "model.safetensors", hub_of(kind) if tensors is None else tensors,
                          {"format": "pt"})
        (directory / "config.json").write_text(json.dumps(config_of(kind) | config))
        (directory / "tokenizer.json").write_text("{}")
        return directory

    def export(self, source: Path, *words: str | Path, views: str = "vllm") -> Path:
        self.exports += 1
        out = self.root / f"out{self.exports}"
        result = run("export", source, out, "--views", views, *words)
        self.assertEqual(result.code, 0, result.stderr)
        self.told = result.stderr
        return out / views

    def refused(self, source: Path, *words: str | Path) -> str:
        result = run("export", source, self.root / "refused", "--views", "vllm", *words)
        self.assertEqual(result.code, 2, result.stderr)
        self.assertFalse((self.root / "refused").exists())
        return one_line(result)

    def assert_loads(self, directory: Path, kind: str, ranks: int, scales: bool = True) -> None:
        hub = hub_of(kind)
        for rank in range(ranks):
            state = modules_of(hub, kind, rank, ranks, scales)
            same(self, loaded(directory, rank, state), state)
        self.assertFalse(list(directory.glob(f"model-rank-{ranks}-*")))


class Loads(VllmTest):
    def test_each_model_for_any_number_of_ranks(self) -> None:
        for kind in KINDS:
            source = self.hub(kind)
            for ranks in (1, 2, 4, 8):  # more than there are key heads, too
                with self.subTest(kind=kind, ranks=ranks):
                    words = () if ranks == 1 else ("--dst-strategy", f"tp={ranks}")
                    saved = self.export(source, *MAP, *words)
                    self.assert_loads(saved, kind, ranks)
                    for name in ("config.json", "tokenizer.json"):
                        self.assertEqual((saved / name).read_bytes(), (source / name).read_bytes())
                    self.assertFalse((saved / "model.safetensors").exists())
                    self.assertEqual(self.told.count("warning"), 0, self.told)

    def test_versions_without_scales(self) -> None:
        saved = self.export(self.hub("qwen3"), *OLD_MAP, "--dst-strategy", "tp=2")
        self.assert_loads(saved, "qwen3", 2, scales=False)
        self.assertEqual(sorted(path.name for path in saved.glob("*.safetensors")),
                         [f"model-rank-{rank}-part-0.safetensors" for rank in range(2)])

    def test_a_mount_and_an_export_are_equal(self) -> None:
        source = self.hub("qwen2")
        saved = self.export(source, *MAP, "--dst-strategy", "tp=4")
        with mounted(source, "--views", "vllm", *MAP, "--dst-strategy", "tp=4") as place:
            self.assertEqual(sorted(os.listdir(place)), ["vllm"])
            self.assertEqual(sorted(os.listdir(place / "vllm")), sorted(os.listdir(saved)))
            for path in saved.iterdir():
                self.assertEqual((place / "vllm" / path.name).read_bytes(), path.read_bytes(), path)
            self.assert_loads(place / "vllm", "qwen2", 4)

    def test_from_a_cut_source(self) -> None:
        """Of the ranks of a training, which hold parts of Hugging Face's tensors."""
        source = self.hub("llama")
        cut = self.export(source, "--dst-strategy", "tp=2", views="ranks").parent
        saved = self.export(cut, "--src-strategy", "tp=2", *MAP, "--model-config", source, "--dst-strategy", "tp=4")
        self.assert_loads(saved, "llama", 4)

    def test_some_ranks(self) -> None:
        saved = self.export(self.hub("llama"), *MAP, "--dst-strategy", "tp=4", "--ranks", "2")
        state = modules_of(hub_of("llama"), "llama", 2, 4)
        same(self, loaded(saved, 2, state), state)
        self.assertEqual(len(list(saved.glob("*.safetensors"))), 2)

    def test_another_value_is_noticed(self) -> None:
        """So that the tests above can fail."""
        saved = self.export(self.hub("llama"), *MAP)
        state = modules_of(hub_of("llama"), "llama", 0, 1)
        kind, array = state["model.norm.weight"]
        with self.assertRaises(AssertionError):
            same(self, loaded(saved, 0, state), state | {"model.norm.weight": (kind, array + 1)})
        with self.assertRaises(KeyError):
            loaded(saved, 0, {name: tensor for name, tensor in state.items() if "norm" not in name})
        with self.assertRaisesRegex(AssertionError, "missing keys"):
            loaded(saved, 0, state | {"model.odd": (kind, array)})


class Back(VllmTest):
    def cut_by(self, ranks: int) -> tuple[str | Path, ...]:
        if ranks == 1:  # the same names, whole
            return "--map-var", "tp=1"
        rules = self.root / f"rules{ranks}.toml"
        rules.write_text(RULES.format(ranks=ranks))
        return "--src-strategy", rules

    def test_it_is_a_source(self) -> None:
        """As vLLM itself saves it."""
        for kind in KINDS:
            hub = hub_of(kind)
            for ranks in (1, 2, 4):
                with self.subTest(kind=kind, ranks=ranks):
                    directory = self.root / f"saved-{kind}-{ranks}"
                    directory.mkdir()
                    (directory / "config.json").write_text(json.dumps(config_of(kind)))
                    for rank in range(ranks):
                        state = modules_of(hub, kind, rank, ranks)
                        names = list(state)
                        for part in range(2):
                            write_safetensors(directory / f"model-rank-{rank}-part-{part}.safetensors",
                                              {name: state[name] for name in names[part::2]})
                    back = self.export(directory, *self.cut_by(ranks), *MAP, views="hf")
                    got: Tensors = {}
                    for path in back.glob("*.safetensors"):
                        got |= read_safetensors(path)[0]
                    same(self, got, hub)

    def test_there_and_back(self) -> None:
        for kind in KINDS:
            with self.subTest(kind=kind):
                saved = self.export(self.hub(kind), *MAP, "--dst-strategy", "tp=4")
                back = self.export(saved, *self.cut_by(4), *MAP, views="ranks").parent
                same(self, read_safetensors(back / "rank_0/checkpoint_0.safetensors")[0], hub_of(kind))


class Refused(VllmTest):
    def test_without_a_map(self) -> None:
        error = self.refused(self.hub("llama"))
        self.assertIn("--views vllm needs a map that shows vLLM, but there is no map", error)
        self.assertRegex(error, r"--map vllm-llama \(or vllm-llama-no-scales\)")

    def test_another_map(self) -> None:
        error = self.refused(self.hub("llama"), "--map", "megatron-llama", "--map-var", "vocab_multiple=64")
        self.assertIn("but the last one shows Megatron-Core torch_dist", error)

    def test_experts(self) -> None:
        tensors = {name: tensor for name, tensor in hub_of("llama").items() if ".mlp." not in name}
        for layer in range(LAYERS):
            at = f"model.layers.{layer}.mlp."
            tensors[f"{at}gate.weight"] = (BFLOAT, np.zeros((2, HIDDEN), "<u2"))
            for expert in range(2):
                for name, shape in (("gate", (FFN, HIDDEN)), ("up", (FFN, HIDDEN)), ("down", (HIDDEN, FFN))):
                    tensors[f"{at}experts.{expert}.{name}_proj.weight"] = (BFLOAT, np.zeros(shape, "<u2"))
        error = self.refused(self.hub("llama", tensors), *MAP)
        self.assertRegex(error, r"experts.*no rule uses it|gate.*no rule uses it")

    def test_eight_bits(self) -> None:
        tensors = {name: ("F8_E4M3", np.zeros(array.shape, "u1")) if "proj" in name else (kind, array)
                   for name, (kind, array) in hub_of("llama").items()}
        error = self.refused(self.hub("llama", tensors), *MAP)
        self.assertIn("--views vllm is for weights in bfloat16, float16 and float32", error)
        scaled = hub_of("llama") | {"model.layers.0.mlp.up_proj.weight_scale_inv": ("F32", np.ones((1, 1), "<f4"))}
        self.assertIn("weight_scale_inv", self.refused(self.hub("llama", scaled), *MAP))

    def test_a_quantized_config(self) -> None:
        error = self.refused(self.hub("llama", quantization_config={"quant_method": "fp8"}), *MAP)
        self.assertIn("quantization_config", error)
        self.assertIn("config.json", error)

    def test_numbers_of_ranks(self) -> None:
        source = self.hub("llama")
        for words, told in ((("--dst-strategy", "tp=16"), "heads"),
                            (("--dst-strategy", "tp=3"), "3 ranks"),
                            (("--dst-strategy", "tp=2,pp=2"), "pipeline stages"),
                            (("--dst-strategy", "tp=2,dp=2"), "vLLM needs"),
                            (("--dst-strategy", "tp=2", "--map-var", "tp=4"), "--map-var tp=4"),
                            (("--map-var", "tp=2",), "--map-var tp=2")):
            with self.subTest(words=words):
                self.assertIn(told, self.refused(source, *MAP, *words))

    def test_another_cut(self) -> None:
        rules = self.root / "rules.toml"
        rules.write_text('[devices]\naxes = ["tp=2"]\n[[rule]]\nmatch = "*.down_proj.weight"\ncut = ["tp"]\n'
                         '[[rule]]\nmatch = "*"\n')
        error = self.refused(self.hub("llama"), *MAP, "--dst-strategy", rules, "--map-var", "tp=2")
        self.assertIn("vLLM needs", error)

    def test_other_names(self) -> None:
        names = self.root / "names.json"
        names.write_text(json.dumps({"model.norm.weight": "norm"}))
        self.assertIn("--name-map", self.refused(self.hub("llama"), *MAP, "--name-map", names))


if __name__ == "__main__":
    run_unittests()
