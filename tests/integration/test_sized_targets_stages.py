# SPDX-License-Identifier: Apache-2.0
"""Sizes with pipeline stages as a target: layers are divided evenly or as --stage-layers says, and maps state
where the other tensors are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

# First, because it finds the modules of tests/data.
from map_sets import (
    MAP,
    MOE,
    MapTest,
    config_of,
    ending,
    experts_model,
    golden,
    hub_strategy,
    mcore_of,
    mcore_rules,
    mcore_strategy,
    vars_of,
    with_states,
    write_hub,
    write_ranks,
)

import numpy as np
from format_files import Tensors, read_ckpt, same
from layouts import Layout
from mounted import run, run_unittests
from strategy_files import Strategy

EMBEDDING, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"

HUB_STAGES = """[devices]
axes = ["tp={tp}"]
stages = {stages}
[[layers]]
match = "model.layers.{{n}}."
split = {split}
[[rule]]
match = "model.embed_tokens.weight"
cut = ["tp"]
stage = {embedding}
[[rule]]
match = "lm_head.weight"
cut = ["tp"]
stage = {last}
optional = true
[[rule]]
match = "model.norm.weight"
stage = {last}
[[rule]]
match = ["*down_proj.weight", "*o_proj.weight"]
cut = ["", "tp"]
[[rule]]
match = "*_proj.weight"
cut = ["tp"]
[[rule]]
match = "*norm.weight"
"""


def dense_model(layers: int, seed: int = 1, *, tied: bool = False) -> tuple[Tensors, dict[str, Any]]:
    """A small Qwen3 as the hub has it: 4 query heads, 2 of keys and values."""
    rng = np.random.default_rng(seed)
    config = config_of("qwen3_mcore") | {
        "hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 16,
        "intermediate_size": 12, "num_hidden_layers": layers, "tie_word_embeddings": tied}
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (16, 8)}
    for layer in range(layers):
        start = f"model.layers.{layer}."
        shapes |= {f"{start}{name}.weight": shape for name, shape in {
            "input_layernorm": (8,), "post_attention_layernorm": (8,), "self_attn.q_norm": (4,),
            "self_attn.k_norm": (4,), "self_attn.q_proj": (16, 8), "self_attn.k_proj": (8, 8),
            "self_attn.v_proj": (8, 8), "self_attn.o_proj": (8, 16), "mlp.gate_proj": (12, 8),
            "mlp.up_proj": (12, 8), "mlp.down_proj": (8, 12)}.items()}
    shapes[NORM] = (8,)
    if not tied:
        shapes[HEAD] = (16, 8)
    return {name: ("BF16", rng.integers(0, 1 << 16, shape, "<u2")) for name, shape in shapes.items()}, config


def layer_of(name: str) -> int | None:
    return int(name.split(".layers.")[1].split(".")[0]) if ".layers." in name else None


def staged(layouts: dict[str, Layout], split: list[int], *, tied: bool = False) -> Strategy:
    """The layouts of one stage, divided by the numbers of layers: a second way to say it."""
    last = len(split) - 1
    stages: list[dict[str, Layout]] = [{} for _ in split]
    first_of = [sum(split[:stage]) for stage in range(len(split))]
    for name, layout in layouts.items():
        layer = layer_of(name)
        if layer is not None:
            where = {next(stage for stage in reversed(range(len(split)))
                          if split[stage] > 0 and first_of[stage] <= layer)}
        elif "embed" in name:
            where = {0, last} if tied else {0}
        else:
            where = {last}
        for stage in where:
            stages[stage][name] = layout
    return Strategy(stages)


def hub_stages(hub: Tensors, tp: int, split: list[int], *, dp: int = 1, tied: bool = False) -> Strategy:
    (layouts,) = hub_strategy(hub, tp).stages
    matrix = tuple(size for size in (dp, tp) if size > 1) or (1,)
    return staged({name: Layout(matrix, layout.tensor_map if tp > 1 else tuple(() for _ in layout.tensor_map))
                   for name, layout in layouts.items()}, split, tied=tied)


class Stages(MapTest):
    def model(self, layers: int, *, tied: bool = False, **config: Any) -> Path:
        self.hub, stated = dense_model(layers, tied=tied)
        self.config = stated | config
        return write_hub(self.root / f"hub-{layers}", self.hub, self.config)

    def rules(self, split: list[int], *, tp: int = 2, embedding: str = "0") -> Path:
        return self.text_file("rules.toml", HUB_STAGES.format(
            tp=tp, stages=len(split), split=split, last=len(split) - 1, embedding=embedding))

    def hashes(self, source: Path, *words: str | Path) -> str:
        result = run("hash", source, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return result.stdout


class Layers(Stages):
    def test_even(self) -> None:
        source = self.model(4)
        for sizes, strategy in (("tp=2,pp=2", hub_stages(self.hub, 2, [2, 2])),
                                ("pp=4", hub_stages(self.hub, 1, [1, 1, 1, 1])),
                                ("tp=2,dp=2,pp=2", hub_stages(self.hub, 2, [2, 2], dp=2))):
            with self.subTest(sizes):
                out = self.export(f"out-{sizes}", source, "--dst-strategy", sizes)
                self.assert_ranks(out, self.hub, strategy)

    def test_the_same_as_by_rules(self) -> None:
        source = self.model(5)
        for split in ([3, 2], [1, 0, 4]):
            sizes = f"tp=2,pp={len(split)}"
            self.assertEqual(
                self.hashes(source, "--dst-strategy", self.rules(split)),
                self.hashes(source, "--dst-strategy", sizes, "--stage-layers", ",".join(map(str, split))))

    def test_uneven_needs_numbers(self) -> None:
        source = self.model(5)
        words = ("hash", source, "--dst-strategy", "tp=2,pp=2")
        self.fails(2, *words, words=("pp=2", "5 layers", "--stage-layers", "3,2"))
        self.fails(2, *words, "--stage-layers", "3,3", words=("sum is 6", "5 layers"))
        self.fails(2, *words, "--stage-layers", "2,2,1", words=("3 numbers", "pp=2"))
        self.fails(2, *words, "--stage-layers", "3,two", words=("'3,two'", "10,9,9,8"))
        self.fails(2, "hash", source, "--dst-strategy", "pp=8", words=("fewer layers than stages",))
        self.fails(2, "hash", source, "--dst-strategy", self.rules([3, 2]), "--stage-layers", "3,2",
                   words=("--stage-layers", "tp=2,pp=4"))

    def test_what_is_left_out_counts_as_a_layer(self) -> None:
        """Else layer 1 would be in the second of two stages."""
        self.model(4)
        source = write_hub(self.root / "bare", self.hub)
        out = self.export("out", source, "--dst-strategy", "pp=2", "--include", "model.layers.[01].*")
        want = {name: tensor for name, tensor in self.hub.items() if name.startswith(("model.layers.0.",
                                                                                     "model.layers.1."))}
        self.assert_ranks(out, want, hub_stages(want, 1, [4, 0]))

    def test_missing_layers(self) -> None:
        source = self.model(4)
        self.hub = {name: tensor for name, tensor in self.hub.items() if ".2." not in name}
        part = write_hub(self.root / "part", self.hub)
        self.fails(2, "hash", part, "--dst-strategy", "pp=2", words=("layer 3", "3 layers", "--model-config"))
        out = self.export("out", part, "--dst-strategy", "pp=2", "--model-config", source, "--partial")
        self.assert_ranks(out, self.hub, hub_stages(self.hub, 1, [2, 2]))
        self.fails(2, "hash", part, "--dst-strategy", "pp=2", "--model-config", self.config_file(num_hidden_layers=3),
                   words=("layer 2", "num_hidden_layers is 3"))

    def test_names_of_megatron_and_of_mindformers(self) -> None:
        """Nobody can tell them apart, and Megatron's stages would need other names."""
        source = write_ranks(self.root / "one", self.mcore, mcore_strategy(self.mcore, tp=1, stages=1))
        self.fails(2, "hash", source, "--dst-strategy", "pp=2", "--model-config", self.config_file(), words=(
            "'decoder.layers.{0,1}.input_layernorm.weight'", "networks differ, says megatron-ranks-llama.toml"))

    def test_two_stacks_of_layers(self) -> None:
        self.model(2)
        self.hub |= {f"vision.{name}": tensor for name, tensor in self.hub.items() if ".layers." in name}
        source = write_hub(self.root / "two", self.hub, self.config)
        self.fails(2, "hash", source, "--dst-strategy", "pp=2", words=("'model.layers.'", "'vision.model.layers.'"))

    def test_unknown_stages_are_told_by_name(self) -> None:
        self.model(2)
        self.hub |= {"model.score.weight": ("BF16", np.zeros((2, 8), "<u2")),
                     "model.layers.0.adapter.weight": ("BF16", np.zeros((8, 4), "<u2"))}
        source = write_hub(self.root / "more", self.hub, self.config)
        words = ("2 parameters", "'model.layers.0.adapter.weight'", "'model.score.weight'")
        self.fails(2, "hash", source, "--dst-strategy", "pp=2", words=("which stage", *words))
        self.fails(2, "hash", source, "--dst-strategy", "tp=2,pp=2", words=("how to cut", *words))
        self.hashes(source, "--dst-strategy", "tp=2,pp=2", "--exclude", "*adapter*", "--exclude", "*score*")

    def test_a_map_states_more(self) -> None:
        """What the map's own rules say of stages counts, also for the names of the hub."""
        self.model(2)
        self.hub["model.score.weight"] = ("BF16", np.arange(16, dtype="<u2").reshape(2, 8))
        source = write_hub(self.root / "more", self.hub, self.config)
        text = """[[block]]
from = "model.layers.{n}."
to = "net.{n}."
STAGE
[[map]]
from = "@{rest:[a-z_.]*}"
to = "@{rest:[a-z_.]*}"
[[map]]
from = "{rest:[a-z_.]*}"
to = "{rest:[a-z_.]*}"
stage = "last"
"""
        text = text.replace("{rest:[a-z_.]*}", "NAME")
        layer_names = sorted({name.split(".", 3)[3] for name in self.hub if ".layers." in name})
        block, rules = text.split("[[map]]")[0], ""
        for name in layer_names:
            rules += f'[[map]]\nfrom = "@{name}"\nto = "@{name}"\n'
        for name, stage in ((EMBEDDING, "first"), (NORM, "last"), (HEAD, "last"), ("model.score.weight", "every")):
            rules += f'[[map]]\nfrom = "{name}"\nto = "x.{name}"\nstage = "{stage}"\n'
        words = ("--dst-strategy", "pp=2", "--map")
        without = self.text_file("without.toml", block.replace("STAGE", "") + rules)
        self.fails(2, "hash", source, *words, without, words=(f"{2 * len(layer_names)} parameters", "'net.{0,1}."))
        stated = self.text_file("map.toml", block.replace("STAGE", 'stage = "{n}"') + rules)
        out = self.export("out", source, *words, stated)
        renamed = {name.replace("model.layers.", "net.") if ".layers." in name else f"x.{name}": tensor
                   for name, tensor in self.hub.items()}
        whole = {name: Layout((1,), tuple(() for _ in array.shape)) for name, (_, array) in renamed.items()}
        self.assert_ranks(out, renamed, Strategy([
            {name: layout for name, layout in whole.items()
             if name.startswith("net.0.") or "embed" in name or "score" in name},
            {name: layout for name, layout in whole.items() if not name.startswith("net.0.") and "embed" not in name}]))

    def test_random_sizes(self) -> None:
        rng = random.Random(7)
        for case in range(24):
            layers, tp, dp = rng.randint(1, 9), rng.choice((1, 2)), rng.choice((1, 1, 2))
            stages = rng.randint(2, 4)
            borders = sorted(rng.randint(0, layers) for _ in range(stages - 1))
            split = [end - begin for begin, end in zip([0, *borders], [*borders, layers], strict=True)]
            tied = rng.random() < 0.3
            with self.subTest(case=case, layers=layers, tp=tp, dp=dp, split=split, tied=tied):
                self.hub, config = dense_model(layers, case, tied=tied)
                source = write_hub(self.root / f"hub-{case}", self.hub, config)
                sizes = f"tp={tp},dp={dp},pp={stages}"
                out = self.export(f"out-{case}", source, "--dst-strategy", sizes, "--stage-layers",
                                  ",".join(map(str, split)))
                self.assert_ranks(out, self.hub, hub_stages(self.hub, tp, split, dp=dp, tied=tied))
                if layers % stages == 0:
                    even = self.export(f"even-{case}", source, "--dst-strategy", sizes)
                    split = [layers // stages] * stages
                    self.assert_ranks(even, self.hub, hub_stages(self.hub, tp, split, dp=dp, tied=tied))
                elif layers > 0:
                    self.fails(2, "hash", source, "--dst-strategy", sizes, words=("does not divide",))


class Tied(Stages):
    def test_the_last_stage_has_the_embedding_too(self) -> None:
        source = self.model(4, tied=True)
        out = self.export("out", source, "--dst-strategy", "tp=2,pp=2")
        self.assert_ranks(out, self.hub, hub_stages(self.hub, 2, [2, 2], tied=True))
        self.assertEqual(self.hashes(source, "--dst-strategy", "tp=2,pp=2"),
                         self.hashes(source, "--dst-strategy", self.rules([2, 2], embedding="[0, 1]")))

    def test_a_head_of_its_own_is_enough(self) -> None:
        source = self.model(4, tie_word_embeddings=True)
        self.assertIn(HEAD, self.hub)
        out = self.export("out", source, "--dst-strategy", "tp=2,pp=2")
        self.assert_ranks(out, self.hub, hub_stages(self.hub, 2, [2, 2]))

    def test_nobody_knows_whether_they_are_tied(self) -> None:
        self.model(4, tied=True)
        bare = write_hub(self.root / "bare", self.hub)
        words = (f"'{EMBEDDING}'", f"'{HEAD}'", "config.json", "tied")
        self.fails(2, "hash", bare, "--dst-strategy", "pp=2", words=words)
        del self.config["tie_word_embeddings"]
        other = write_hub(self.root / "other", self.hub, self.config | {"model_type": "gemma"})
        self.fails(2, "hash", other, "--dst-strategy", "pp=2", words=words)

    def test_a_model_without_a_head(self) -> None:
        source = self.model(4, tied=True, tie_word_embeddings=False)
        out = self.export("out", source, "--dst-strategy", "pp=2")
        self.assert_ranks(out, self.hub, hub_stages(self.hub, 1, [2, 2]))

    def test_mindformers_shares_the_parameter(self) -> None:
        source = self.model(2, tied=True)
        want = mcore_of({**self.hub, HEAD: self.hub[EMBEDDING]}, self.config)
        del want["output_layer.weight"]
        (layouts,) = mcore_strategy(want, stages=1).stages
        out = self.export("out", source, *MAP, "--dst-strategy", "tp=2,pp=2")
        self.assert_ranks(out, want, staged(layouts, [1, 1], tied=True))


class Sources(Stages):
    def test_the_files_say_where_a_parameter_is(self) -> None:
        """What sizes have written, the same sizes read."""
        for tied in (False, True):
            source = self.model(5, tied=tied)
            words = ("--dst-strategy", "tp=2,pp=2", "--stage-layers", "3,2")
            ranks = self.export(f"ranks-{tied}", source, *words)
            out = self.export(f"out-{tied}", ranks, "--src-strategy", "tp=2,pp=2", "--model-config", source,
                              "--format", "ckpt", views="merged")
            same(self, read_ckpt(out / "merged/checkpoint_merged.ckpt"), self.hub)

    def test_a_distributed_checkpoint(self) -> None:
        source = self.model(4)
        result = run("export", source, self.root / "dcp", "--views", "dcp", "--dcp-shards", "3")
        self.assertEqual(result.code, 0, result.stderr)
        out = self.export("out", self.root / "dcp/dcp", "--dst-strategy", "tp=2,pp=2", "--model-config", source)
        self.assert_ranks(out, self.hub, hub_stages(self.hub, 2, [2, 2]))

    def test_a_strategy_of_the_source(self) -> None:
        """Its parameters outside of layers stay in the first and the last stage."""
        self.model(5)
        source = write_ranks(self.root / "ranks", self.hub, hub_stages(self.hub, 2, [3, 2]))
        src = ("--src-strategy", self.rules([3, 2]))
        for split in ([2, 3], [1, 1, 3]):
            out = self.export(f"out-{len(split)}", source, *src, "--dst-strategy", f"tp=1,pp={len(split)}",
                              "--stage-layers", ",".join(map(str, split)))
            self.assert_ranks(out, self.hub, hub_stages(self.hub, 1, split), ".ckpt")
        self.fails(2, "hash", source, *src, "--dst-strategy", "tp=1,pp=3", "--stage-layers", "1,1,1",
                   words=("sum is 3", "5 layers"))


class ThroughMaps(Stages):
    def test_to_mindformers(self) -> None:
        source = self.hub_directory()
        out = self.export("out", source, *MAP, "--dst-strategy", "tp=2,pp=2")
        self.assert_ranks(out, self.mcore, mcore_strategy(self.mcore))
        self.assertEqual(self.hashes(source, *MAP, "--dst-strategy", mcore_rules(self.root / "rules.toml")),
                         self.hashes(source, *MAP, "--dst-strategy", "tp=2,pp=2"))

    def test_back_from_ranks_with_states(self) -> None:
        source, *words = self.mcore_ranks(with_states(self.mcore))
        out = self.export("out", source, *words, *MAP, "--model-config", self.config_file(), "--dst-strategy",
                          "tp=2,pp=2")
        want = with_states(self.hub)
        (layouts,) = hub_strategy(self.hub, 2).stages
        of_states = {name: layouts[name.removeprefix("adam_m.").removeprefix("adam_v.")] for name in want}
        self.assert_ranks(out, want, staged(of_states, [1, 1]), ".ckpt")

    def test_experts(self) -> None:
        hub, config = experts_model(layers=3, ffn=16, hidden=32)
        want = mcore_of(hub, config)
        source = write_hub(self.root / "moe", hub, config)
        layouts = {}
        for name, (_, array) in want.items():
            cut = 0 if ending(name, "embeddings.weight", "output_layer.weight", "qkv.weight") else None
            cut = 1 if ending(name, "linear_proj.weight") else cut
            cuts = tuple((0,) if cut == axis else () for axis in range(array.ndim))
            layouts[name] = Layout((2, 2), ((1,), ()) if ending(name, "weight1", "weight2") else cuts)
        out = self.export("out", source, *MOE, "--dst-strategy", "tp=2,ep=2,pp=2", "--stage-layers", "1,2")
        self.assert_ranks(out, want, staged(layouts, [1, 2]))

    def test_megatron_numbers_layers_in_each_stage(self) -> None:
        self.hub, self.config = dense_model(2)
        source = write_hub(self.root / "hub", self.hub, self.config)
        for name, stating in (("megatron-ranks-llama", "megatron-ranks-llama"), ("megatron-llama", "megatron-llama")):
            words = ("--map", name, "--map-var", "padded_vocab_size=16")
            self.hashes(source, *words, "--dst-strategy", "pp=1")
            self.fails(2, "hash", source, *words, "--dst-strategy", "pp=2", words=(
                "which stage", f"networks differ, says {stating}.toml, line"))

    def test_layers_for_multi_token_prediction(self) -> None:
        case = "deepseek_v3"
        hub, config = golden(case, "src"), config_of(case)
        layers = config["num_hidden_layers"]
        source = write_hub(self.root / "deepseek", hub, config)
        words = ("--dst-strategy", f"pp={layers}")
        self.fails(2, "hash", source, *words, words=(f"'model.layers.{layers}.", "networks differ"))
        out = self.export("out", source, *words, "--exclude", f"model.layers.{layers}.*")
        want = {name: tensor for name, tensor in hub.items() if not name.startswith(f"model.layers.{layers}.")}
        whole = {name: Layout((1,), tuple(() for _ in array.shape)) for name, (_, array) in want.items()}
        self.assert_ranks(out, want, staged(whole, [1] * layers))
        self.fails(2, "hash", source, "--map", "mindformers-deepseek-v3", *vars_of(case), *words, words=(
            "'mtp.layers.0.", "networks differ"))


if __name__ == "__main__":
    run_unittests()
