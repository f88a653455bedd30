# SPDX-License-Identifier: Apache-2.0
"""What the tests of model maps share: a Qwen3 model as the hub and as MindFormers' ranks have it, from
golden data or by NumPy, and what it must become."""

from __future__ import annotations

import dataclasses
import json
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import (Tensors, read_ckpt, read_safetensors, same, write_ckpt,  # noqa: E402
                          write_safetensors)
from layouts import Layout, shard  # noqa: E402
from megatron_ranks import Spec  # noqa: E402
from mounted import Result, one_line, run, scratch  # noqa: E402
from strategy_files import Strategy  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldenmap"
RELEASE = ("--map-var", "release=1.7")
MAP = ("--map", "mindformers-qwen3", *RELEASE)
MOE = ("--map", "mindformers-qwen3-moe", *RELEASE)
LAYER = "decoder.layers.{}."
STATES = ("adam_m.", "adam_v.")
Words = tuple[str | Path, ...]

# MindFormers' names over stages with one layer each, as mcore_strategy() has them.
MCORE_RULES = """[devices]
axes = ["dp={dp}", "tp={tp}"]
optional = true
stages = {stages}
[[layers]]
match = "decoder.layers.{{n}}."
split = {split}
[[rule]]
match = "*embedding.word_embeddings.weight"
cut = ["tp"]
stage = 0
[[rule]]
match = "*output_layer.weight"
cut = ["tp"]
stage = {last}
[[rule]]
match = "*decoder.final_layernorm.weight"
stage = {last}
[[rule]]
match = ["*linear_qkv.weight", "*linear_fc1.weight", "*experts.weight1"]
cut = ["tp"]
[[rule]]
match = ["*linear_proj.weight", "*linear_fc2.weight", "*experts.weight2"]
cut = ["", "tp"]
[[rule]]
match = ["*norm.weight", "*router.weight", "global_step"]
"""
# Hugging Face's names on one stage, as hub_strategy() has them.
HUB_RULES = """[devices]
axes = ["tp={tp}"]
optional = true
[[rule]]
match = ["*down_proj.weight", "*o_proj.weight"]
cut = ["", "tp"]
[[rule]]
match = ["*_proj.weight", "lm_head.weight", "model.embed_tokens.weight"]
cut = ["tp"]
[[rule]]
match = ["*norm.weight", "*.mlp.gate.weight"]
"""


def golden(case: str, name: str) -> Tensors:
    return read_safetensors(GOLDEN / case / f"{name}.safetensors")[0]


def config_of(case: str) -> dict[str, Any]:
    return json.loads((GOLDEN / case / "config.json").read_text())


def megatron_spec(case: str, **more: Any) -> Spec:
    """A golden case of a model map, as Megatron's ranks save what it expects."""
    config = config_of(case)
    whole = golden(case, "expected")
    spec = Spec(layers=config["num_hidden_layers"], hidden=config["hidden_size"],
                heads=config["num_attention_heads"], query_groups=config["num_key_value_heads"],
                head_dim=config["head_dim"], ffn=config["intermediate_size"], extra_state=False,
                vocabulary=whole["embedding.word_embeddings.weight"][1].shape[0], processes=True)
    spec.experts = config.get("num_local_experts", config.get("num_experts", 0))
    spec.whole = dict(whole)
    return dataclasses.replace(spec, **more)


def vars_of(case: str) -> Words:
    """What the golden case states beside its config.json."""
    stated = json.loads((GOLDEN / case / "case.json").read_text()).get("vars", {})
    return tuple(word for name, value in stated.items() for word in ("--map-var", f"{name}={value}"))


def write_hub(directory: Path, tensors: Tensors, config: dict[str, Any] | None = None,
              shards: int = 2) -> Path:
    """As a model is downloaded: shards, their index, config.json."""
    names = list(tensors)
    weight_map = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        chosen = names[number::shards]
        write_safetensors(directory / file, {name: tensors[name] for name in chosen}, {"format": "pt"})
        weight_map |= dict.fromkeys(chosen, file)
    total = sum(array.nbytes for _, array in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    if config is not None:
        (directory / "config.json").write_text(json.dumps(config))
    return directory


def ending(name: str, *ends: str) -> bool:
    return name.endswith(ends)


def mcore_strategy(tensors: Tensors, *, tp: int = 2, dp: int = 1, stages: int = 2) -> Strategy:
    """Written apart from MCORE_RULES: the tests compare one with the other."""
    made: list[dict[str, Layout]] = [{} for _ in range(stages)]
    for name, (_, array) in tensors.items():
        cuts: list[tuple[int, ...]] = [() for _ in array.shape]
        if ending(name, "embeddings.weight", "output_layer.weight", "qkv.weight", "fc1.weight", "weight1"):
            cuts[0] = (0,)
        elif ending(name, "linear_proj.weight", "fc2.weight", "weight2"):
            cuts[1] = (0,)
        if ".layers." in name:
            where = [int(name.split(".layers.")[1].split(".")[0]) * stages // 2]
        elif name == "global_step":
            where = list(range(stages))
        else:
            where = [0 if "embedding" in name else stages - 1]
        for stage in where:
            made[stage][name] = Layout((dp, tp), tuple(cuts))
    return Strategy(made)


def mcore_rules(path: Path, *, tp: int = 2, dp: int = 1, stages: int = 2) -> Path:
    split = [2 // stages] * stages
    path.write_text(MCORE_RULES.format(tp=tp, dp=dp, stages=stages, split=split, last=stages - 1))
    return path


def hub_strategy(tensors: Tensors, tp: int) -> Strategy:
    layouts = {}
    for name, (_, array) in tensors.items():
        cuts: list[tuple[int, ...]] = [() for _ in array.shape]
        if ending(name, "down_proj.weight", "o_proj.weight"):
            cuts[1] = (0,)
        elif ending(name, "_proj.weight", "lm_head.weight", "embed_tokens.weight"):
            cuts[0] = (0,)
        layouts[name] = Layout((tp,), tuple(cuts))
    return Strategy([layouts])


def hub_rules(path: Path, tp: int) -> Path:
    path.write_text(HUB_RULES.format(tp=tp))
    return path


def rank_tensors(tensors: Tensors, strategy: Strategy, rank: int) -> Tensors:
    stage, device = divmod(rank, strategy.devices_per_stage)
    return {name: (tensors[name][0], shard(tensors[name][1], layout, device))
            for name, layout in strategy.stages[stage].items()}


def rank_file(directory: Path, rank: int, suffix: str = ".safetensors") -> Path:
    return directory / f"rank_{rank}/checkpoint_{rank}{suffix}"


def write_ranks(directory: Path, tensors: Tensors, strategy: Strategy, suffix: str = ".ckpt") -> Path:
    write = write_ckpt if suffix == ".ckpt" else write_safetensors
    for rank in range(strategy.rank_count):
        write(rank_file(directory, rank, suffix), rank_tensors(tensors, strategy, rank))
    return directory


def read_file(path: Path) -> Tensors:
    return read_ckpt(path) if path.suffix == ".ckpt" else read_safetensors(path)[0]


def with_states(tensors: Tensors) -> Tensors:
    """And moments of each weight, none of which equals another."""
    out = dict(tensors)
    for number, prefix in enumerate(STATES, 1):
        out |= {prefix + name: (dtype, array + np.asarray(number * 1000, array.dtype))
                for name, (dtype, array) in tensors.items()}
    return out


def experts_model(layers: int = 2, experts: int = 4, ffn: int = 192, hidden: int = 512,
                  seed: int = 3) -> tuple[Tensors, dict[str, Any]]:
    """A mixture of experts as the hub has it, large enough to be read in many places; every element has
    random bits."""
    rng = np.random.default_rng(seed)
    config = config_of("qwen3_moe_mcore") | {"hidden_size": hidden, "num_experts": experts,
                                             "num_hidden_layers": layers}
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (40, hidden), "model.norm": (hidden,),
                                          "lm_head": (40, hidden)}
    heads, groups, head = (config[key] for key in
                           ("num_attention_heads", "num_key_value_heads", "head_dim"))
    for layer in range(layers):
        start = f"model.layers.{layer}."
        shapes |= {f"{start}input_layernorm": (hidden,), f"{start}post_attention_layernorm": (hidden,),
                   f"{start}self_attn.q_norm": (head,), f"{start}self_attn.k_norm": (head,),
                   f"{start}self_attn.q_proj": (heads * head, hidden),
                   f"{start}self_attn.k_proj": (groups * head, hidden),
                   f"{start}self_attn.v_proj": (groups * head, hidden),
                   f"{start}self_attn.o_proj": (hidden, heads * head),
                   f"{start}mlp.gate": (experts, hidden)}
        for expert in range(experts):
            shapes |= {f"{start}mlp.experts.{expert}.{name}_proj":
                       (hidden, ffn) if name == "down" else (ffn, hidden)
                       for name in ("gate", "up", "down")}
    return {f"{name}.weight": ("BF16", rng.integers(0, 1 << 16, shape, "<u2"))
            for name, shape in shapes.items()}, config


def mcore_of(hub: Tensors, config: dict[str, Any], *, interleaved: bool = True) -> Tensors:
    """What the installed maps for Qwen3 must make, by NumPy."""
    groups = config["num_key_value_heads"]

    def of(name: str) -> np.ndarray:
        return hub[f"{name}.weight"][1]

    (dtype, embedding), out = hub["model.embed_tokens.weight"], {}
    out["embedding.word_embeddings.weight"] = embedding
    out["decoder.final_layernorm.weight"] = of("model.norm")
    out["output_layer.weight"] = of("lm_head")
    for layer in range(config["num_hidden_layers"]):
        start, to = f"model.layers.{layer}.", LAYER.format(layer)
        out[f"{to}input_layernorm.weight"] = of(f"{start}input_layernorm")
        out[f"{to}pre_mlp_layernorm.weight"] = of(f"{start}post_attention_layernorm")
        for name in "qk":
            out[f"{to}self_attention.{name}_layernorm.weight"] = of(f"{start}self_attn.{name}_norm")
        qkv = [np.split(of(f"{start}self_attn.{name}_proj"), groups) for name in "qkv"]
        out[f"{to}self_attention.linear_qkv.weight"] = np.concatenate(
            [part for group in zip(*qkv, strict=True) for part in group])
        out[f"{to}self_attention.linear_proj.weight"] = of(f"{start}self_attn.o_proj")
        if f"{start}mlp.gate.weight" in hub:
            experts = [[of(f"{start}mlp.experts.{e}.{name}_proj") for e in range(config["num_experts"])]
                       for name in ("gate", "up", "down")]
            out[f"{to}mlp.router.weight"] = of(f"{start}mlp.gate")
            out[f"{to}mlp.experts.weight1"] = np.concatenate(
                [np.concatenate([gate.T, up.T], axis=1) for gate, up in zip(*experts[:2], strict=True)])
            out[f"{to}mlp.experts.weight2"] = np.concatenate([down.T for down in experts[2]])
        else:
            gate, up = of(f"{start}mlp.gate_proj"), of(f"{start}mlp.up_proj")
            pairs = np.stack([gate, up], axis=1).reshape(-1, gate.shape[1])
            out[f"{to}mlp.linear_fc1.weight"] = pairs if interleaved else np.concatenate([gate, up])
            out[f"{to}mlp.linear_fc2.weight"] = of(f"{start}mlp.down_proj")
    return {name: (dtype, np.ascontiguousarray(array)) for name, array in out.items()}


class MapTest(unittest.TestCase):
    """hub: the model of the golden case as Hugging Face has it; mcore: as MindFormers does."""

    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.hub, self.mcore = golden("qwen3_mcore", "src"), golden("qwen3_mcore", "expected")
        self.config = config_of("qwen3_mcore")

    def hub_directory(self) -> Path:
        return write_hub(self.root / "hub", self.hub, self.config)

    def config_file(self, name: str = "model.json", **changes: object) -> Path:
        path = self.root / name
        path.write_text(json.dumps(self.config | changes))
        return path

    def text_file(self, name: str, text: str) -> Path:
        (self.root / name).write_text(text)
        return self.root / name

    def mcore_ranks(self, tensors: Tensors | None = None, **sizes: int) -> Words:
        """Rank files of MindFormers, and the words that name them and their strategy."""
        tensors = self.mcore if tensors is None else tensors
        source = write_ranks(self.root / "ranks", tensors, mcore_strategy(tensors, **sizes))
        return source, "--src-strategy", mcore_rules(self.root / "src.toml", **sizes)

    def export(self, out: str, source: Path, *words: str | Path, views: str = "ranks") -> Path:
        result = run("export", source, self.root / out, "--views", views, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return self.root / out

    def exported(self, out: str, source: Path, *words: str | Path) -> Tensors:
        (file,) = (self.export(out, source, *words) / "rank_0").iterdir()
        return read_file(file)

    def assert_ranks(self, shown: Path, tensors: Tensors, strategy: Strategy,
                     suffix: str = ".safetensors") -> None:
        found = {path.name for path in shown.glob("rank_*")}
        self.assertEqual(found, {f"rank_{rank}" for rank in range(strategy.rank_count)})
        for rank in range(strategy.rank_count):
            with self.subTest(rank=rank):
                same(self, read_file(rank_file(shown, rank, suffix)), rank_tensors(tensors, strategy, rank))

    def fails(self, code: int, *arguments: str | Path, words: tuple[str, ...]) -> Result:
        """Ends so with one line on standard error that has all the words, and nothing else."""
        result = run(*arguments)
        self.assertEqual((result.code, result.stdout), (code, ""), result.stderr)
        line = one_line(result)
        for word in words:
            self.assertIn(word, line)
        return result
