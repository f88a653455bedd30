# SPDX-License-Identifier: Apache-2.0
"""Random sets whose strategy is taken away: what `strategy guess` calls proven must be right.

The reference reads the rules itself, and compares boxes of the full tensors, not bytes: of tensors
of ones a wrong layout would give the right bytes.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# First, because it finds the modules of tests/data.
from test_scenarios import write_ranks

import numpy as np
from ckpt_format import by_name, record_of
from layouts import Layout, box, position
from mounted import Result, parse_binary, run, scratch

Shape = tuple[int, ...]
Boxes = dict[tuple[str, int], tuple[slice, ...]]

# By kind of the network: name in a layer, full shape, and how tensor parallelism cuts it.
FAMILIES: dict[str, dict[str, tuple[str, str, str]]] = {
    "legacy": {
        "model.layers.{}.attention_norm.weight": ("H", "", "norm"),
        "model.layers.{}.attention.wq.weight": ("Q H", "0", "weight"),
        "model.layers.{}.attention.wk.weight": ("K H", "0", "key"),
        "model.layers.{}.attention.wv.weight": ("K H", "0", "key"),
        "model.layers.{}.attention.wq.bias": ("Q", "0", "bias"),
        "model.layers.{}.attention.wo.weight": ("H Q", "1", "weight"),
        "model.layers.{}.ffn_norm.weight": ("H", "", "norm"),
        "model.layers.{}.feed_forward.w1.weight": ("F H", "0", "weight"),
        "model.layers.{}.feed_forward.w2.weight": ("H F", "1", "weight"),
        "model.layers.{}.feed_forward.w3.weight": ("F H", "0", "weight"),
    },
    "mcore": {
        "decoder.layers.{}.input_layernorm.weight": ("H", "", "norm"),
        "decoder.layers.{}.self_attention.linear_qkv.weight": ("QKV H", "0", "fused"),
        "decoder.layers.{}.self_attention.q_layernorm.weight": ("D", "", "norm"),
        "decoder.layers.{}.self_attention.k_layernorm.weight": ("D", "", "norm"),
        "decoder.layers.{}.self_attention.linear_proj.weight": ("H Q", "1", "weight"),
        "decoder.layers.{}.pre_mlp_layernorm.weight": ("H", "", "norm"),
        "decoder.layers.{}.mlp.linear_fc1.weight": ("2F H", "0", "weight"),
        "decoder.layers.{}.mlp.linear_fc2.weight": ("H F", "1", "weight"),
    },
    "hub": {
        "model.layers.{}.input_layernorm.weight": ("H", "", "norm"),
        "model.layers.{}.self_attn.q_proj.weight": ("Q H", "0", "weight"),
        "model.layers.{}.self_attn.k_proj.weight": ("K H", "0", "key"),
        "model.layers.{}.self_attn.v_proj.weight": ("K H", "0", "key"),
        "model.layers.{}.self_attn.o_proj.weight": ("H Q", "1", "weight"),
        "model.layers.{}.post_attention_layernorm.weight": ("H", "", "norm"),
        "model.layers.{}.mlp.gate_proj.weight": ("F H", "0", "weight"),
        "model.layers.{}.mlp.up_proj.weight": ("F H", "0", "weight"),
        "model.layers.{}.mlp.down_proj.weight": ("H F", "1", "weight"),
    },
}
ENDS = {
    "legacy": ("model.tok_embeddings.embedding_weight", "model.norm_out.weight", "lm_head.weight"),
    "mcore": ("embedding.word_embeddings.weight", "decoder.final_layernorm.weight",
              "output_layer.weight"),
    "hub": ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"),
}
# What a set has beside an ordinary one. Those after "none" are no trainings that rules can state,
# or are not what the configuration says.
ORDINARY = ("none",) * 12 + ("zero states", "ones", "few keys", "uneven vocabulary", "square")
TRAPS = ("optimizer", "optimizer", "optimizer of states", "swapped ranks", "two dimensions",
         "vocabulary over both", "other configuration", "no configuration", "own values",
         "constant weights", "cut norms", "experts")


@dataclass
class Parameter:
    """One tensor of the model, and how the set has it."""

    full: np.ndarray
    layout: Layout
    stages: list[int]
    uneven: bool = False


@dataclass
class GuessSet:
    """A set of ranks, of which the strategy is known here alone."""

    seed: int
    trap: str
    family: str
    dp: int
    tp: int
    pp: int
    config: dict[str, Any]
    parameters: dict[str, Parameter] = field(default_factory=dict)
    swapped: dict[int, int] = field(default_factory=dict)
    own_values: set[str] = field(default_factory=set)

    @property
    def devices(self) -> int:
        return self.dp * self.tp

    def describe(self) -> str:
        return (f"seed {self.seed}: {self.family} dp={self.dp} tp={self.tp} pp={self.pp}, "
                f"{self.trap}")

    def is_ordinary(self) -> bool:
        return self.trap in ORDINARY

    def box(self, name: str, device: int) -> tuple[slice, ...]:
        """The part of the full tensor that a device of a stage holds."""
        parameter = self.parameters[name]
        device = self.swapped.get(device, device)
        if not parameter.uneven:
            return box(parameter.full.shape, parameter.layout, device)
        part = position(parameter.layout, device)
        parts = parameter.layout.splits
        return tuple(balanced(length, parts[d], part[d])
                     for d, length in enumerate(parameter.full.shape))

    def slice(self, name: str, device: int) -> np.ndarray:
        own = self.parameters[name].full[self.box(name, device)]
        return own + device if name in self.own_values else own


def balanced(length: int, parts: int, part: int) -> slice:
    """The part as numpy.array_split cuts it."""
    size, longer = divmod(length, parts)
    begin = part * size + min(part, longer)
    return slice(begin, begin + size + (part < longer))


def matrix_and_axes(rng: random.Random, dp: int, tp: int) -> tuple[tuple[int, int], int, int]:
    """The device matrix, and the axes of dp and tp, counted from the last."""
    outer = rng.random() < 0.2
    return ((tp, dp), 0, 1) if outer else ((dp, tp), 1, 0)


class Maker:
    """Makes one set from a seed."""

    def __init__(self, seed: int, traps: bool) -> None:
        self.rng = rng = random.Random(seed)
        self.values = np.random.default_rng(seed)
        trap = rng.choice(TRAPS) if traps and rng.random() < 0.5 else rng.choice(ORDINARY)
        pp = rng.choice((1, 1, 1, 2, 3))
        tp = rng.choice((1, 2, 2, 4, 4, 8, 3, 6))
        dp = rng.choice((1, 1, 2, 2, 4, 3))
        if trap == "few keys":
            tp = rng.choice((4, 8))
        if trap in ("swapped ranks", "vocabulary over both", "two dimensions", "experts"):
            tp, dp = 4 if trap == "swapped ranks" else rng.choice((2, 4)), 2
        if trap == "optimizer" and dp == 1:
            dp = 2
        family = rng.choice(("legacy", "hub")) if trap == "few keys" else rng.choice(list(FAMILIES))
        groups = tp * rng.choice((1, 1, 2))
        if trap == "few keys":
            groups = tp // 2
        heads = max(groups, tp) * rng.choice((1, 2))
        head_dim = rng.choice((4, 8))
        if trap == "square":
            heads, groups, head_dim = tp * 2, tp * 2, 4
        hidden = heads * head_dim if rng.random() < 0.7 else 24 * rng.choice((1, 2))
        if trap in ("optimizer", "optimizer of states", "two dimensions", "cut norms", "experts"):
            hidden = 48 * max(1, heads * head_dim // 48)
        ffn = hidden if trap == "square" else 24 * rng.choice((1, 2, 3))
        vocab = 48 * rng.choice((1, 2))
        if trap == "uneven vocabulary":
            vocab += rng.choice((1, 5))
        layers = pp * rng.choice((1, 2))
        self.sizes = {"H": hidden, "Q": heads * head_dim, "K": groups * head_dim, "F": ffn,
                      "D": head_dim, "QKV": (heads + 2 * groups) * head_dim, "2F": 2 * ffn,
                      "V": vocab}
        config = {"hidden_size": hidden, "num_attention_heads": heads, "head_dim": head_dim,
                  "num_key_value_heads": groups, "intermediate_size": ffn, "vocab_size": vocab,
                  "num_hidden_layers": layers}
        if trap == "other configuration":
            changed = rng.choice(("hidden_size", "intermediate_size", "num_attention_heads",
                                  "num_hidden_layers"))
            config[changed] *= rng.choice((2, 4))
        self.matrix, self.dp_axis, self.tp_axis = matrix_and_axes(rng, dp, tp)
        self.made = GuessSet(seed, trap, family, dp, tp, pp, config)
        self.layers = layers
        self.states = rng.random() < 0.4 or "states" in trap
        self.ones = trap == "ones" or rng.random() < 0.3
        self.zero_bias = rng.random() < 0.5
        self.optimizer = -1 if "optimizer" in trap and rng.random() < 0.7 else (
            dp if "optimizer" in trap else 0)
        self.cut_vocabulary = rng.random() < 0.7 or trap == "uneven vocabulary"
        self.pairs = rng.random() < 0.5
        self.cut_head = rng.random() < 0.7

    def make(self) -> GuessSet:
        embedding, norm, head = ENDS[self.made.family]
        self.add(embedding, "V H", "0" if self.cut_vocabulary else "", "embedding", [0])
        for layer in range(self.layers):
            stage = layer * self.made.pp // self.layers
            for name, (shape, cut, kind) in FAMILIES[self.made.family].items():
                self.add(name.format(layer), shape, cut, kind, [stage])
            if self.made.trap == "experts":
                self.add(f"model.layers.{layer}.feed_forward.ffn.w1.weight", "4 F H", "e", "weight",
                         [stage])
        last = self.made.pp - 1
        self.add(norm, "H", "", "norm", [last])
        if self.rng.random() < 0.2 and last > 0:
            self.made.parameters[embedding].stages = [0, last]
        else:
            self.add(head, "V H", "0" if self.cut_head else "", "embedding", [last])
        self.made.parameters["global_step"] = Parameter(
            np.array([7], np.int32), Layout(self.matrix, ((),)), list(range(self.made.pp)))
        if self.made.trap == "swapped ranks":
            # Of ranks that hold different slices, and of enough that no other layout has copies
            # at these places: a set whose ranks are all different does not show it.
            a = self.rng.randrange(8)
            b = self.rng.choice([rank for rank in range(8)
                                 if self.column_of(rank) != self.column_of(a)])
            self.made.swapped = {a: b, b: a}
        if self.made.trap == "own values" and self.made.devices > 1:
            self.made.own_values = {norm}
        if self.made.trap == "experts":
            self.made.config["num_experts"] = 4
        return self.made

    def column_of(self, device: int) -> int:
        """A device's place along the axis of tensor parallelism."""
        return device // 2 if self.tp_axis else device % 4

    def shape_of(self, text: str) -> Shape:
        return tuple(self.sizes[part] if part in self.sizes else int(part)
                     for part in text.split())

    def map_of(self, cut: str, kind: str, dimensions: int) -> tuple[tuple[int, ...], ...]:
        """The tensor map."""
        trap = self.made.trap
        axes: list[tuple[int, ...]] = [()] * dimensions
        if cut == "e":
            axes[0] = (self.dp_axis,)
            axes[1] = (self.tp_axis,)
        elif cut:
            axes[int(cut)] = (self.tp_axis,)
        if trap == "two dimensions" and kind == "weight" and cut == "1":
            axes[0] = (self.dp_axis,)
        if trap == "vocabulary over both" and kind == "embedding":
            axes[0] = self.rng.choice(((self.dp_axis, self.tp_axis), (self.tp_axis, self.dp_axis)))
        if trap == "cut norms" and kind == "norm" and dimensions == 1:
            axes[0] = (self.tp_axis,)
        return tuple(axes)

    def layout_of(self, text: str, cut: str, kind: str, optimizer: int) -> Layout:
        shape = self.shape_of(text)
        layout = Layout(self.matrix, self.map_of(cut, kind, len(shape)))
        if self.made.trap == "few keys" and kind == "key":
            # Half as many heads as ranks: pairs of neighbours, or of halves, hold the same.
            at = 1 - self.tp_axis
            half = self.made.tp // 2
            sizes = list(self.matrix)
            sizes[at:at + 1] = [half, 2] if self.pairs else [2, half]
            from_right = 2 - (at if self.pairs else at + 1)
            layout = Layout(tuple(sizes), ((from_right,),) + ((),) * (len(shape) - 1))
        if optimizer == 0 or any(length % part for length, part in zip(shape, layout.splits)):
            return layout
        holders = layout.device_count // int(np.prod(layout.splits))
        size = holders if optimizer == -1 else optimizer
        rows = shape[0] // layout.splits[0]
        # MindSpore leaves small ones out, and those that it cannot divide.
        if size <= 1 or holders % size or rows % size or (kind == "norm" and self.zero_bias):
            return layout
        return Layout(layout.device_matrix, layout.tensor_map, size)

    def values_of(self, shape: Shape, kind: str) -> np.ndarray:
        if (kind == "norm" and self.ones) or self.made.trap == "constant weights":
            return np.ones(shape, np.float32)
        if kind == "bias" and self.zero_bias:
            return np.zeros(shape, np.float32)
        return self.values.standard_normal(shape, np.float32)

    def add(self, name: str, text: str, cut: str, kind: str, stages: list[int]) -> None:
        shape = self.shape_of(text)
        optimizer = self.optimizer if self.made.trap == "optimizer" else 0
        layout = self.layout_of(text, cut, kind, optimizer)
        uneven = False
        if any(length % part for length, part in zip(shape, layout.splits)):
            if any(length < part for length, part in zip(shape, layout.splits)):
                layout = Layout(self.matrix, ((),) * len(shape))
            uneven = any(length % part for length, part in zip(shape, layout.splits))
        self.made.parameters[name] = Parameter(self.values_of(shape, kind), layout, stages, uneven)
        if not self.states or kind == "embedding":
            return
        for state in ("adam_m.", "adam_v."):
            own = layout
            if self.made.trap == "optimizer of states":
                own = self.layout_of(text, cut, kind, self.optimizer)
            zero = self.made.trap == "zero states"
            values = np.zeros(shape, np.float32) if zero else self.values_of(shape, "state")
            self.made.parameters[state + name] = Parameter(values, own, stages, uneven)


def write_set(made: GuessSet, root: Path) -> None:
    """The ranks' files, and the configuration."""
    files = {}
    for rank in range(made.pp * made.devices):
        stage, device = divmod(rank, made.devices)
        files[f"rank_{rank}/net-1_1.ckpt"] = [
            record_of(name, {"f": "Float32", "i": "Int32"}[parameter.full.dtype.kind],
                      np.ascontiguousarray(made.slice(name, device)))
            for name, parameter in made.parameters.items() if stage in parameter.stages
        ]
    write_ranks(root / "src", files)
    (root / "config.json").write_text(json.dumps(made.config))


# --- what the rules say ------------------------------------------------------------------------


def first_rule(rules: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The rule that takes the parameter."""
    for rule in rules.get("rule", ()):
        globs = [rule["match"]] if isinstance(rule["match"], str) else rule["match"]
        if any(fnmatch.fnmatchcase(name, glob) for glob in globs):
            return rule
    return None


def stages_said(rules: dict[str, Any], rule: dict[str, Any], name: str) -> list[int]:
    """Where the rules put a parameter."""
    if "stage" in rule:
        return [rule["stage"]] if isinstance(rule["stage"], int) else sorted(rule["stage"])
    stages = rules["devices"].get("stages", 1)
    for placement in rules.get("layers", ()):
        before, after = placement["match"].split("{n}")
        at = name.find(before)
        digits = name[at + len(before):].split(after)[0] if at >= 0 else ""
        if not digits.isdigit():
            continue
        if "split" in placement:
            ends = np.cumsum(placement["split"])
            return [int(np.searchsorted(ends, int(digits), side="right"))]
        return [s for s, own in enumerate(placement["stages"]) if int(digits) in own]
    return list(range(stages))


def boxes_said(rules: dict[str, Any], rule: dict[str, Any], full: Shape) -> list[tuple[slice, ...]]:
    """The part of the full tensor that each device holds by a rule."""
    names = [axis.split("=")[0] for axis in rules["devices"]["axes"]]
    sizes = tuple(int(axis.split("=")[1]) for axis in rules["devices"]["axes"])
    cut = [[entry] if isinstance(entry, str) and entry else list(entry)
           for entry in rule.get("cut", [])]
    cut += [[]] * (len(full) - len(cut))
    tensor_map = tuple(tuple(len(names) - 1 - names.index(name) for name in axes) for axes in cut)
    layout = Layout(sizes, tensor_map, {"all": -1}.get(rule.get("optimizer"),
                                                      rule.get("optimizer", 0)))
    out = []
    for device in range(layout.device_count):
        if "uneven" not in rule:
            out.append(box(full, layout, device))
            continue
        part = position(layout, device)
        ranges = []
        for d, length in enumerate(full):
            said = rule["uneven"] if isinstance(rule["uneven"], str) else rule["uneven"][d]
            if isinstance(said, list):
                begin = sum(said[:part[d]])
                ranges.append(slice(begin, begin + said[part[d]]))
            else:
                ranges.append(balanced(length, layout.splits[d], part[d]))
        out.append(tuple(ranges))
    return out


def is_right(made: GuessSet, rules: dict[str, Any], rule: dict[str, Any], name: str) -> bool:
    """Whether a rule gives every rank of a parameter the part that it holds."""
    parameter = made.parameters[name]
    if stages_said(rules, rule, name) != parameter.stages:
        return False
    try:
        said = boxes_said(rules, rule, parameter.full.shape)
    except (ValueError, IndexError):
        return False
    return said == [made.box(name, device) for device in range(made.devices)]


def uncommented(text: str) -> str:
    """The rules with all that was commented out."""
    return "\n".join(line[1:] if line.startswith("#") and not line.startswith("# ") else line
                     for line in text.splitlines())


def comment_of(text: str, name: str) -> str:
    """The words in front of the rule that takes a parameter, those of its candidates included."""
    words: list[str] = []
    block: list[str] = []
    for line in [*text.splitlines(), "", "[[rule]]"]:
        if not line:
            rule = tomllib.loads("\n".join(one for one in block if not one.startswith("#"))
                                 .replace("[devices]", "[ignored]"))
            if first_rule(rule, name) is not None:
                return " ".join(words)
            words, block = [], []
        elif line.startswith("# "):
            words.append(line[2:])
        else:
            block.append(line)
    return " ".join(words)


@dataclass
class Tally:
    """What came of the sets."""

    sets: int = 0
    parameters: int = 0
    proven: int = 0
    one_of: int = 0
    eligible: int = 0
    eligible_proven: int = 0
    complete: int = 0
    wrong: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)

    def share(self) -> float:
        return self.eligible_proven / max(1, self.eligible)


def differs(made: GuessSet, name: str) -> bool:
    """Whether a parameter is cut, and its slices show it."""
    slices = [made.slice(name, device) for device in range(made.devices)]
    cut = {str(made.box(name, device)) for device in range(made.devices)}
    return len(cut) > 1 and any(one.shape != slices[0].shape or (one != slices[0]).any()
                                for one in slices)


def compare_bytes(made: GuessSet, root: Path) -> None:
    """Everything is proven: what the rules make of the set is the model."""
    result = run("export", root / "src", root / "out", "--src-strategy", root / "rules.toml",
                 "--views", "merged", "--format", "ckpt", "--force")
    assert result.code == 0, made.describe() + "\n" + result.stderr
    merged = by_name((root / "out/merged/checkpoint_merged.ckpt").read_bytes())
    for name, parameter in made.parameters.items():
        same = np.array_equal(merged[name].array(), parameter.full)
        assert same, f"{made.describe()}: {name} {merged[name].shape} {parameter.full.shape}"


def require_refused(made: GuessSet, root: Path) -> None:
    """What is undecided is not mounted, and the rules that are commented out can be read."""
    result = run("plan", root / "src", "--src-strategy", root / "rules.toml")
    assert result.code == 2 and "undecided" in result.stderr, made.describe() + result.stderr
    text = (root / "rules.toml").read_text()
    tomllib.loads(uncommented(text))
    (root / "all.toml").write_text(uncommented(text))
    result = run("strategy", "check", root / "all.toml", "--source", root / "src")
    # Not every question has candidates, and they may not be right, but they are rules.
    is_read = result.code in (0, 1) or "undecided" in result.stderr
    assert is_read, made.describe() + result.stderr


def guess(made: GuessSet, root: Path) -> Result:
    """Runs the command."""
    words: list[str | Path] = ["strategy", "guess", root / "src", "-O", root / "rules.toml",
                               "--force"]
    if made.trap != "no configuration":
        words += ["--model-config", root / "config.json"]
    return run(*words)


def judge(made: GuessSet, root: Path, tally: Tally) -> None:
    """Guesses one set, and compares."""
    write_set(made, root)
    tally.sets += 1
    result = guess(made, root)
    if made.pp * made.devices == 1:
        assert result.code == 2, result.stderr
        return
    assert result.code in (0, 1), made.describe() + "\n" + result.stderr
    text = (root / "rules.toml").read_text()
    rules, listed = tomllib.loads(text), tomllib.loads(uncommented(text))
    undecided = 0
    for name in made.parameters:
        rule = first_rule(rules, name)
        assert rule is not None, f"{made.describe()}: no rule for {name}"
        tally.parameters += 1
        is_proven = "undecided" not in rule
        undecided += not is_proven
        eligible = made.is_ordinary() and differs(made, name)
        tally.eligible += eligible
        tally.eligible_proven += eligible and is_proven
        if eligible and not is_proven:
            tally.left[f"{made.trap}: {made.family} dp={made.dp} tp={made.tp}"] += 1
        if is_proven:
            tally.proven += 1
            if name in made.own_values or not is_right(made, rules, rule, name):
                tally.wrong.append(f"{made.describe()}: {name}: {rule}")
            continue
        candidates = [one for one in listed["rule"] if "undecided" not in one
                      and first_rule({"rule": [one]}, name) is not None]
        words = comment_of(text, name)
        if not words.startswith("one of "):
            assert words.startswith("open: ") and not candidates, made.describe() + words
            continue
        tally.one_of += 1
        # Not if the ranks hold no parts, or not of what the configuration describes, or if some of
        # the readings need another device matrix.
        lists_all = "values of each rank's own" not in words and "needs other axes" not in words
        is_model = made.trap not in ("swapped ranks", "other configuration")
        if lists_all and is_model and name not in made.own_values:
            if not any(is_right(made, listed, one, name) for one in candidates):
                tally.wrong.append(f"{made.describe()}: {name}: not listed: {words}")
    assert result.code == (1 if undecided else 0), made.describe()
    if undecided:
        require_refused(made, root)
    else:
        tally.complete += 1
        compare_bytes(made, root)


def run_sets(seeds: Iterable[int], traps: bool = True) -> Tally:
    """Makes and judges a set for each seed."""
    tally = Tally()
    for seed in seeds:
        with scratch() as root:
            judge(Maker(seed, traps).make(), root, tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parse_binary(parser)
    tally = run_sets(range(arguments.seed, arguments.seed + arguments.sets))
    print(f"{tally.sets} sets, {tally.complete} decided entirely; {tally.proven} of "
          f"{tally.parameters} parameters proven; {tally.eligible_proven} of {tally.eligible} "
          f"({tally.share():.1%}) that are cut in ordinary sets; {tally.one_of} one of several")
    for text, count in tally.left.most_common(15):
        print(f"  not proven: {count} of {text}")
    for line in tally.wrong:
        print("WRONG: " + line)
    return 1 if tally.wrong or tally.share() < 0.95 else 0


if __name__ == "__main__":
    sys.exit(main())
