# SPDX-License-Identifier: Apache-2.0
"""Targets that are sizes, of models whose source states no cuts: the maps of model families do."""

from __future__ import annotations

import json
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import (
    MAP,
    MOE,
    MapTest,
    experts_model,
    hub_rules,
    hub_strategy,
    mcore_of,
    mcore_rules,
    mcore_strategy,
    with_states,
    write_hub,
    write_ranks,
)

import numpy as np
from format_files import Tensors, read_ckpt, read_safetensors, same, write_safetensors
from layouts import Layout
from mounted import run, run_unittests
from strategy_files import Strategy


def expert_strategy(tensors: Tensors, *, tp: int, ep: int, dp: int) -> Strategy:
    """Experts along the first dimension by ep, the rest as mcore_strategy() has it, on [dp/ep, ep, tp]."""
    (plain,) = mcore_strategy(tensors, tp=tp, stages=1).stages
    layouts = {}
    for name, layout in plain.items():
        cuts = layout.tensor_map
        if ".experts." in name:
            cuts = ((1,), ())
        layouts[name] = Layout((dp // ep, ep, tp), cuts)
    return Strategy([layouts])


class Hub(MapTest):
    """A directory as the hub has it, for the ranks of a server."""

    def test_each_rank_has_its_slices(self) -> None:
        source = self.hub_directory()
        for sizes, tp in (("tp=2", 2), ("tp=2,dp=1", 2), ("mp=2", 2), ("tp=1", 1)):
            with self.subTest(sizes):
                out = self.export(f"out-{sizes}", source, "--dst-strategy", sizes)
                self.assert_ranks(out, self.hub, hub_strategy(self.hub, tp))

    def test_data_parallelism_copies(self) -> None:
        out = self.export("out", self.hub_directory(), "--dst-strategy", "tp=2,dp=2")
        (layouts,) = hub_strategy(self.hub, 2).stages
        self.assert_ranks(out, self.hub, Strategy([{
            name: Layout((2, 2), layout.tensor_map) for name, layout in layouts.items()}]))

    def test_the_same_as_by_rules(self) -> None:
        source = self.hub_directory()
        by_rules = run("hash", source, "--dst-strategy", hub_rules(self.root / "tp2.toml", 2))
        by_sizes = run("hash", source, "--dst-strategy", "tp=2")
        self.assertEqual((by_sizes.code, by_sizes.stdout), (0, by_rules.stdout), by_sizes.stderr)

    def test_whole_copies_need_no_family(self) -> None:
        source = self.root / "plain"
        tensors = {"x.w": ("F32", np.arange(32, dtype="<f4").reshape(8, 4))}
        write_safetensors(source / "model.safetensors", tensors)
        out = self.export("out", source, "--dst-strategy", "dp=2")
        self.assert_ranks(out, tensors, Strategy([{"x.w": Layout((2,), ((), ()))}]))

    def test_what_nothing_states_is_refused_by_name(self) -> None:
        self.hub |= {"model.layers.0.adapter.weight": ("BF16", np.zeros((8, 4), "<u2")),
                     "model.scale": ("BF16", np.zeros((1,), "<u2"))}
        source = self.hub_directory()
        self.fails(2, "hash", source, "--dst-strategy", "tp=2", words=(
            "1 parameter", "'model.layers.0.adapter.weight'", "no model map", "rules"))
        result = run("hash", source, "--dst-strategy", "tp=2", "--exclude", "*adapter*")
        self.assertEqual(result.code, 0, result.stderr)

    def test_heads_are_not_cut_in_two(self) -> None:
        self.assertEqual(self.config["num_key_value_heads"], 2)
        self.fails(2, "hash", self.hub_directory(), "--dst-strategy", "tp=4", words=(
            "_proj.weight", "2 heads of keys and values", "4 ranks"))

    def test_without_a_config_heads_are_not_known(self) -> None:
        source = write_hub(self.root / "bare", self.hub)
        result = run("plan", source, "--dst-strategy", "tp=2")
        self.assertEqual(result.code, 0, result.stderr)
        self.assertIn("no config.json tells 'groups', 'heads'", result.stderr)

    def test_a_dimension_that_does_not_divide(self) -> None:
        self.config["vocab_size"] = 42
        self.hub = {name: (dtype, np.resize(array, (42, array.shape[1])) if array.shape[0] == 40 else array)
                    for name, (dtype, array) in self.hub.items()}
        self.fails(2, "hash", self.hub_directory(), "--dst-strategy", "tp=4", "--include", "lm_head*",
                   words=("tp=4 does not divide 42", "2, 3, 6, 7"))

    def test_sizes_that_need_more(self) -> None:
        source = self.hub_directory()
        self.fails(2, "hash", source, "--dst-strategy", "tp=2,ep=2", words=("no parameter", "experts"))
        self.fails(2, "hash", source, "--dst-strategy", "tp=2,dp=2,opt=on", words=("opt",))
        self.fails(2, "hash", source, "--dst-strategy", "dp=3,ep=2", words=("dp=3", "ep=2"))

    def test_renamed(self) -> None:
        names = self.text_file("names.json", json.dumps({"lm_head.weight": "head.w"}))
        out = self.export("out", self.hub_directory(), "--dst-strategy", "tp=2", "--name-map", names)
        (layouts,) = hub_strategy(self.hub, 2).stages
        layouts = {("head.w" if name == "lm_head.weight" else name): layout for name, layout in layouts.items()}
        tensors = {("head.w" if name == "lm_head.weight" else name): tensor for name, tensor in self.hub.items()}
        self.assert_ranks(out, tensors, Strategy([layouts]))


class Sources(MapTest):
    """Ranks whose strategy is lost, with names and a config.json that prove how they were cut."""

    def ranks(self, tp: int, dp: int = 1) -> tuple[Path, Strategy]:
        (layouts,) = hub_strategy(self.hub, tp).stages
        strategy = Strategy([{name: Layout((dp, tp), layout.tensor_map) for name, layout in layouts.items()}])
        return write_ranks(self.root / "ranks", self.hub, strategy), strategy

    def test_shapes_prove_the_cuts(self) -> None:
        source, strategy = self.ranks(2)
        config = ("--model-config", self.config_file())
        out = self.export("out", source, "--src-strategy", "tp=2", *config, views="merged")
        same(self, read_ckpt(out / "merged/checkpoint_merged.ckpt"), self.hub)
        out = self.export("again", source, "--src-strategy", "tp=2", *config, "--dst-strategy", "tp=1,dp=2")
        self.assert_ranks(out, self.hub, Strategy([{
            name: Layout((2,), tuple(() for _ in array.shape)) for name, (_, array) in self.hub.items()}]), ".ckpt")

    def test_replicas_follow_from_the_number_of_ranks(self) -> None:
        source, _ = self.ranks(2, dp=2)
        words = ("--model-config", self.config_file(), "--src-strategy")
        for sizes in ("tp=2", "tp=2,dp=2"):
            out = self.export(f"out-{sizes}", source, *words, sizes, views="merged")
            same(self, read_ckpt(out / "merged/checkpoint_merged.ckpt"), self.hub)
        self.fails(2, "hash", source, *words, "tp=2,dp=1", words=("4 ranks",))
        self.fails(2, "hash", source, *words, "tp=3", words=("4 ranks",))
        self.fails(2, "hash", source, *words, "dp=4", words=("tp is not named",))

    def test_stages(self) -> None:
        """The files say which stage has a parameter."""
        (layouts,) = hub_strategy(self.hub, 2).stages
        first = {name: layout for name, layout in layouts.items() if ".1." not in name and "norm.weight" != name[6:]
                 and not name.startswith("lm_head")}
        last = {name: layout for name, layout in layouts.items() if name not in first}
        source = write_ranks(self.root / "ranks", self.hub, Strategy([first, last]))
        out = self.export("out", source, "--model-config", self.config_file(), "--src-strategy", "tp=2,pp=2",
                          views="merged")
        same(self, read_ckpt(out / "merged/checkpoint_merged.ckpt"), self.hub)

    def test_what_is_not_proven_is_refused(self) -> None:
        source, _ = self.ranks(2)
        guess = "reshardfs strategy guess"
        self.fails(2, "hash", source, "--src-strategy", "tp=2", words=("is not proven", "config.json", guess))
        words = ("--src-strategy", "tp=2", "--model-config")
        self.fails(2, "hash", source, *words, self.config_file(vocab_size=44), words=(
            "'model.embed_tokens.weight'", "slices of [20, 16] are not 2 parts of [44, 16]", guess))
        self.hub["extra.weight"] = ("F32", np.zeros((4, 4), "<f4"))
        other = write_ranks(self.root / "other", self.hub, Strategy([{
            **hub_strategy(self.hub, 2).stages[0], "extra.weight": Layout((2,), ((), ()))}]))
        self.fails(2, "hash", other, *words, self.config_file(), words=("'extra.weight'", "no model map", guess))

    def test_half_a_vocabulary_is_no_padded_quarter(self) -> None:
        """Cut by two, in two copies: by four, two ranks would have padding alone."""
        name = "model.embed_tokens.weight"
        source = write_ranks(self.root / "ranks", {name: self.hub[name]}, Strategy([{
            name: Layout((2, 2), ((0,), ()))}]))
        words = ("--model-config", self.config_file(), "--src-strategy")
        out = self.export("out", source, *words, "tp=2", views="merged")
        same(self, read_ckpt(out / "merged/checkpoint_merged.ckpt"), {name: self.hub[name]})
        self.fails(2, "hash", source, *words, "tp=4", words=("slices of [20, 16] are not 4 parts of [40, 16]",))

    def test_commands_that_look_take_them_too(self) -> None:
        words = (self.ranks(2)[0], "--src-strategy", "tp=2", "--model-config", self.config_file())
        for command in ("verify", "inspect"):
            result = run(command, *words)
            self.assertEqual(result.code, 0, result)


class Distributed(MapTest):
    def test_a_distributed_checkpoint(self) -> None:
        """Of three ranks, which have rows of each tensor."""
        result = run("export", self.hub_directory(), self.root / "dcp", "--views", "dcp", "--dcp-shards", "3")
        self.assertEqual(result.code, 0, result.stderr)
        out = self.export("out", self.root / "dcp/dcp", "--dst-strategy", "tp=2", "--model-config",
                          self.config_file())
        self.assert_ranks(out, self.hub, hub_strategy(self.hub, 2))
        self.fails(2, "hash", self.root / "dcp/dcp", "--dst-strategy", "tp=4", "--model-config",
                   self.config_file(), words=("2 heads of keys and values",))


class ThroughMaps(MapTest):
    def test_to_mindformers(self) -> None:
        source = self.hub_directory()
        out = self.export("out", source, *MAP, "--dst-strategy", "tp=2")
        self.assert_ranks(out, self.mcore, mcore_strategy(self.mcore, stages=1))
        by_rules = run("hash", source, *MAP, "--dst-strategy", mcore_rules(self.root / "tp2.toml", stages=1))
        by_sizes = run("hash", source, *MAP, "--dst-strategy", "tp=2")
        self.assertEqual((by_sizes.code, by_sizes.stdout), (0, by_rules.stdout), by_sizes.stderr)

    def test_back_from_ranks(self) -> None:
        source, *words = self.mcore_ranks()
        out = self.export("out", source, *words, *MAP, "--model-config", self.config_file(), "--dst-strategy", "tp=2")
        self.assert_ranks(out, self.hub, hub_strategy(self.hub, 2), ".ckpt")

    def test_states_are_cut_like_their_weights(self) -> None:
        tensors = with_states(self.mcore)
        source, *words = self.mcore_ranks(tensors)
        out = self.export("out", source, *words, *MAP, "--model-config", self.config_file(), "--dst-strategy", "tp=2")
        want = with_states(self.hub)
        (layouts,) = hub_strategy(self.hub, 2).stages
        self.assert_ranks(out, want, Strategy([{
            name: layouts[name.removeprefix("adam_m.").removeprefix("adam_v.")] for name in want}]), ".ckpt")

    def test_experts(self) -> None:
        hub, config = experts_model(ffn=16, hidden=32)
        want = mcore_of(hub, config)
        source = write_hub(self.root / "moe", hub, config)
        for sizes, cut in (("tp=2,ep=2", {"tp": 2, "ep": 2, "dp": 2}),
                           ("ep=4", {"tp": 1, "ep": 4, "dp": 4}),
                           ("tp=2,ep=2,dp=4", {"tp": 2, "ep": 2, "dp": 4})):
            with self.subTest(sizes):
                out = self.export(f"out-{sizes}", source, *MOE, "--dst-strategy", sizes)
                self.assert_ranks(out, want, expert_strategy(want, **cut))

    def test_gate_above_up_is_not_cut_through(self) -> None:
        """Ranks may have a half of gate and of up each, or of both together: no map states which."""
        words = ("--map", "mindformers-qwen3", "--map-var", "interleaved=0", "--map-var", "contiguous=0")
        self.fails(2, "hash", self.hub_directory(), *words, "--dst-strategy", "tp=2", words=(
            "linear_fc1.weight", "one after another"))

    def test_ranks_of_megatron_get_their_own_rows(self) -> None:
        """The map arranges gate and up for as many ranks as the sizes say."""
        hub, config = self.llama()
        source = write_hub(self.root / "llama", hub, config)
        words = ("--map", "megatron-ranks-llama", "--map-var", "vocab_multiple=8")
        out = self.export("out", source, *words, "--dst-strategy", "tp=2")
        gate, up = (np.split(hub[f"model.layers.0.mlp.{name}_proj.weight"][1], 2) for name in ("gate", "up"))
        for rank in range(2):
            found = read_safetensors(out / f"rank_{rank}/checkpoint_{rank}.safetensors")[0]
            (fc1,) = [array for name, (_, array) in found.items() if name.endswith("layers.0.mlp.linear_fc1.weight")]
            np.testing.assert_array_equal(fc1, np.concatenate([gate[rank], up[rank]]))
        self.fails(2, "hash", source, *words, "--map-var", "tp=4", "--dst-strategy", "tp=2",
                   words=("tp=4", "tp=2"))

    def llama(self) -> tuple[Tensors, dict[str, object]]:
        config = {key: value for key, value in self.config.items() if key != "model_type"} | {"model_type": "llama"}
        return {name: tensor for name, tensor in self.hub.items() if "q_norm" not in name and "k_norm" not in name}, config


class WholeRanks(MapTest):
    def test_a_merged_file_of_mindformers(self) -> None:
        source = write_ranks(self.root / "one", self.mcore, mcore_strategy(self.mcore, tp=1, stages=1))
        names = [name for name in self.mcore if name.endswith(("linear_fc1.weight", "linear_qkv.weight"))]
        self.fails(2, "hash", source, "--dst-strategy", "tp=2", words=("decoder.layers.{0,1}.mlp.linear_fc1.weight", "4 parameters"))
        out = self.export("out", source, "--dst-strategy", "tp=2", "--exclude", "*linear_fc1*", "--exclude",
                          "*linear_qkv*")
        want = {name: tensor for name, tensor in self.mcore.items() if name not in names}
        self.assert_ranks(out, want, mcore_strategy(want, stages=1), ".ckpt")


if __name__ == "__main__":
    run_unittests()
