# SPDX-License-Identifier: Apache-2.0
"""`reshardfs map`, and the commands that look at a checkpoint through model maps: what they say is what
NumPy makes of the same tensors."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tomllib
import unittest
from pathlib import Path
from typing import Any

# First, because it finds the modules of tests/data.
from map_sets import (
    GOLDEN,
    MAP,
    MapTest,
    RELEASE,
    golden,
    hub_rules,
    hub_strategy,
    mcore_of,
    mcore_rules,
    mcore_strategy,
    rank_file,
    rank_tensors,
    read_file,
    vars_of,
    write_ranks,
)

import numpy as np
from command_tests import run_command_tests
from format_files import Tensors, write_ckpt, write_safetensors
from layouts import owner_map
from mounted import COMMAND_SECONDS, Settings, run
from strategy_files import Strategy

A_MAP = ("--a-map", MAP[1], "--a-map-var", "release=1.7")
B_MAP = ("--b-map", MAP[1], "--b-map-var", "release=1.7")
MAPS = Path(__file__).resolve().parents[2] / "config/maps"


def in_whole(tensors: Tensors, strategy: Strategy) -> Tensors:
    """Of each element the lowest rank that has it, as tensors of the same names."""
    out: Tensors = {}
    for name, (_, array) in tensors.items():
        for stage, layouts in enumerate(strategy.stages):
            if name in layouts and name not in out:
                devices = strategy.devices_per_stage
                owners = owner_map(array.shape, layouts[name], dict.fromkeys(range(devices)))
                out[name] = ("I64", owners + stage * devices)
    return out


class CommandThroughMap(MapTest):
    def setUp(self) -> None:
        super().setUp()
        self.source = self.hub_directory()

    def says(self, code: int, *arguments: str | Path) -> str:
        result = run(*arguments)
        self.assertEqual((result.code, result.stderr), (code, ""), result.stdout)
        return result.stdout

    def json(self, code: int, *arguments: str | Path) -> Any:
        return json.loads(self.says(code, *arguments, "--json"))


class List(CommandThroughMap):
    def test_what_is_installed(self) -> None:
        """Each map that is for use alone, with what stands in its file."""
        entries = {entry["name"]: entry for entry in self.json(0, "map", "list")["maps"]}
        files = {path.stem: path.read_text() for path in MAPS.glob("*.toml")}
        alone = {name for name, text in files.items() if "Not for use alone" not in text}
        self.assertEqual(set(entries), alone)
        self.assertEqual(len(alone), len(files) - 8)
        for name, entry in entries.items():
            with self.subTest(name):
                self.assertEqual(Path(entry["file"]).read_text(), files[name])
                first = files[name].splitlines()[1].removeprefix("# ")
                self.assertTrue(entry["about"].startswith(first), entry["about"])
                self.assertNotIn("Not visible in", entry["about"])
                between = name in ("megatron-hybrid", "megatron-vision-language")
                other = "Megatron-Core torch_dist" if between else "Hugging Face"
                other += " vision-language" if name == "vision-language" else ""
                self.assertEqual(entry["from"], other)
                self.assertEqual(entry["to"], self.to_side(name))
                numbered = [f"{name}-numbered (--map-var layers=numbered)"]
                self.assertEqual(entry["names"], numbered if f"{name}-numbered =" in files[name] else [])
                self.assertFalse([name for name in entry["variables"] if re.fullmatch("[A-Z]", name)])
        self.assertLessEqual({"heads", "groups", "head_dim", "interleaved", "contiguous", "tied"},
                             set(entries["mindformers-qwen3"]["variables"]))
        self.assertIn("experts", entries["mindformers-qwen3-moe"]["variables"])
        self.assertNotIn("experts", entries["mindformers-qwen3"]["variables"])

    def to_side(self, name: str) -> str:
        """As the file says, or the first of those that it extends."""
        table = tomllib.loads((MAPS / f"{name}.toml").read_text())
        if "sides" in table:
            return table["sides"]["to"]
        extended = table.get("extends", [])
        for file in [extended] if isinstance(extended, str) else extended:
            if side := self.to_side(file.removesuffix(".toml")):
                return side
        return ""

    def test_text(self) -> None:
        text = self.says(0, "map", "list")
        for entry in self.json(0, "map", "list")["maps"]:
            self.assertRegex(text, rf"(?m)^{entry['name']}$")
            self.assertIn(f"  to:   {entry['to']}\n", text)


class Check(CommandThroughMap):
    def check(self, code: int, *words: str | Path) -> Any:
        result = run("map", "check", *words, "--json")
        self.assertEqual(result.code, code, result.stderr)
        # What a map has problems with, the source may lack: that is a warning.
        self.assertTrue(code == 1 or not result.stderr, result.stderr)
        return json.loads(result.stdout)

    def test_all_is_right(self) -> None:
        found = self.check(0, *MAP[1:], "--source", self.source)
        self.assertEqual((found["direction"], found["shows"]), ("forward", "MindFormers mcore"))
        self.assertEqual((found["problems"], found["unused"], found["dropped"], found["aliases"]),
                         ([], [], [], []))
        self.assertEqual(sorted(found["tensors"]), sorted(self.mcore))
        self.assertEqual(sorted(name for rule in found["rules"] for name in rule["takes"]),
                         sorted(self.hub))
        self.check_places(found)

    def check_places(self, found: Any) -> None:
        """Where a rule stands, a rule stands, whose text fits what it takes."""
        for rule in found["rules"]:
            file, line = rule["rule"].rsplit(":", 1)
            text = "\n".join((MAPS / file).read_text().splitlines()[int(line) - 1:][:4])
            self.assertRegex(text, r"^(\[\[map\]\]|  \[\")")
            for name in rule["takes"]:
                self.assertIn(name.split(".")[-2], text)

    def test_inverse(self) -> None:
        source, *words = self.mcore_ranks()
        found = self.check(0, *MAP[1:], "--source", source, *words, "--model-config", self.source)
        self.assertEqual((found["direction"], found["shows"]), ("inverse", "Hugging Face"))
        self.assertEqual(sorted(found["tensors"]), sorted(self.hub))

    def test_groups(self) -> None:
        """Layers are one line, with the rule that takes them."""
        text = self.says(0, "map", "check", *MAP[1:], "--source", self.source)
        head, shown = text.split("\n\n")
        self.assertRegex(head, r"RULE +TAKES\n")
        self.assertRegex(head, r"(?m)^mindformers-qwen3.toml:\d+ +model\.layers\.\{0,1\}\.self_attn\.v_proj")
        self.assertEqual(len(head.splitlines()) - 1, 14)
        self.assertIn("SHOWN AS MindFormers mcore: 19 TENSORS\n", shown)
        self.assertIn("\ndecoder.layers.{0,1}.mlp.linear_fc{1,2}.weight\n", shown)
        self.assertIn("\ndecoder.layers.{0,1}.self_attention.linear_qkv.weight\n", shown)

    def test_groups_of_operations(self) -> None:
        """Several numbers in a name, ranges, and what is dropped."""
        case = GOLDEN / "operations"
        text = self.says(0, "map", "check", case / "map.toml", "--source", case / "src.safetensors")
        for line in (r"map\.toml:\d+ +grid\.\{0,1\}\.\{0\.\.2\}\.x", r" +grid\.\{0,1\}\.\{0\.\.2\}\.y",
                     r"dropped +junk\.\d", r"third\.\{0\.\.2\}"):
            self.assertRegex(text, rf"(?m)^{line}$")

    def test_aliases(self) -> None:
        case = GOLDEN / "deepseek_v3"
        found = self.check(0, "mindformers-deepseek-v3", *RELEASE, "--map-var", "joined=0", "--source", case / "src.safetensors",
                           "--model-config", case)
        self.assertEqual(sorted(found["aliases"]), ["model.layers.3.embed_tokens.weight",
                                                    "model.layers.3.shared_head.head.weight"])

    def broken(self) -> Path:
        """What is wrong in three ways at once, in two layers."""
        tensors = {name: tensor for name, tensor in self.hub.items() if "layers.1.mlp.up" not in name}
        tensors["model.layers.0.self_attn.sink"] = tensors["model.norm.weight"]
        tensors["model.layers.0.mlp.up_proj.weight"] = ("F32", np.zeros((22, 16), "<f4"))
        write_safetensors(self.root / "broken.safetensors", tensors)
        return self.root / "broken.safetensors"

    def test_all_problems_at_once(self) -> None:
        words = (*MAP[1:], "--source", self.broken(), "--model-config", self.source)
        found = self.check(1, *words)
        expected = {("model.layers.0.self_attn.sink", "no rule uses it"),
                    ("model.layers.1.mlp.up_proj.weight", "missing in the source"),
                    ("model.layers.0.mlp.up_proj.weight", "'F' is 24, the tensor has 22")}
        messages = [problem["message"] for problem in found["problems"]]
        self.assertEqual(len(messages), len(expected), messages)
        for name, text in expected:
            self.assertTrue(any(name in message and text in message for message in messages), messages)
        self.assertEqual(found["unused"], ["model.layers.0.self_attn.sink"])
        for problem in found["problems"]:
            self.assertIn(Path(problem["file"]).name, ("mindformers-qwen3.toml", "mindformers-mcore.toml"))
            self.assertEqual(problem["line"] is None, "sink" in problem["message"])
        # The text has the same, where an export would tell of one.
        result = run("map", "check", *words)
        self.assertEqual(result.code, 1)
        self.assertIn("no rule", result.stdout)
        for message in messages:
            self.assertIn(message, result.stderr)
        self.assertEqual(len(run("plan", self.root / "broken.safetensors", *MAP, "--model-config",
                                 self.source).stderr.splitlines()), 1)

    def test_exit_codes(self) -> None:
        """1 is for what is there and does not fit, 2 for what cannot be looked at."""
        source, *words = self.mcore_ranks()
        cases: list[tuple[int, tuple[str | Path, ...], str]] = [
            (2, (*MAP[1:], "--source", source), "--src-strategy"),
            (1, ("mindformers-mixtral", "--source", self.source), "did you mean"),
            (2, ("mindformers-mixtral9", "--source", self.source), "'mindformers-mixtral'?"),
            (2, ("nothing-like-it", "--source", self.source), "installed are"),
            (2, (*MAP[1:], "--source", self.root / "gone"), "gone"),
            (2, (self.text_file("bad.toml", "bad"), "--source", self.source), "line 1"),
            (2, (*MAP[1:], "--source", self.source, "--map-var", "nope=1"), "no rule uses it"),
            (2, (*MAP[1:], "--source", self.source, "--src-strategy", "gone"), "gone"),
            (2, (), "MAP is missing; write reshardfs map check MAP"),
        ]
        for code, arguments, word in cases:
            with self.subTest(word=word, code=code):
                result = run("map", "check", *arguments)
                self.assertEqual(result.code, code, result.stderr)
                self.assertIn(word, result.stderr)
        self.assertEqual(run("map").code, 2)

    def test_a_map_alone(self) -> None:
        """Without a source the file is checked."""
        text = self.says(0, "map", "check", *MAP[1:])
        self.assertIn("between Hugging Face and MindFormers mcore", text)

    def test_a_wrong_map_alone(self) -> None:
        result = run("map", "check", self.text_file("bad.toml", "[sides]\nform = 1\n"))
        self.assertEqual(result.code, 2)
        self.assertIn("line 2", result.stderr)


def indices(text: str, length: int) -> list[int]:
    """What stands for one dimension: "all", "3-5, 9", "0, 2, 4, ... 46"."""
    if text == "all":
        return list(range(length))
    begins, run_length = [], 1
    parts = text.split(", ")
    for part in parts:
        begin, _, end = part.removeprefix("... ").partition("-")
        run_length = int(end or begin) - int(begin) + 1
        begins.append(int(begin))
    if parts[-1].startswith("..."):
        begins = list(range(begins[0], begins[-1] + 1, begins[1] - begins[0]))
    return [begin + i for begin in begins for i in range(run_length)]


class Show(CommandThroughMap):
    def show(self, name: str, *words: str | Path) -> str:
        return self.says(0, "map", "show", *words, "--param", name)

    def drawn(self, text: str, sources: Tensors) -> np.ndarray:
        """The tensor that the picture describes."""
        lines = text.splitlines()
        shape = json.loads(lines[0][lines[0].index("["):])
        out = np.full(shape, -1.0, "<f4")
        for line in lines[4:]:
            place, origin = re.fullmatch(r"\[(.*?)\] +(.*)", line).groups()
            at = np.ix_(*(indices(part, length) for part, length in
                          zip(place.split(" | "), shape, strict=True)))
            self.assertTrue(np.all(out[at] == -1.0), f"a part twice: {line}")
            if origin.startswith("the value "):
                out[at] = float(origin.split()[-1])
                continue
            name, taken, turned = re.fullmatch(r"(\S+) \[(.*)\](, transposed)?", origin).groups()
            array = sources[name][1]
            part = array[np.ix_(*(indices(text, length) for text, length in
                                  zip(taken.split(" | "), array.shape, strict=True)))]
            out[at] = (part.T if turned else part).reshape(out[at].shape)
        return out

    def check(self, case: str, name: str, lines: int, *more: str) -> str:
        directory = GOLDEN / case
        words = (directory / "map.toml", "--source", directory / "src.safetensors", "--model-config",
                 directory, "--map-direction", "inverse" if case.endswith("_back") else "forward",
                 *vars_of(case), *more)
        if not (directory / "config.json").exists():
            words = tuple(word for word in words if word not in ("--model-config", directory))
        text = self.show(name, *words)
        kind, want = golden(case, "expected")[name]
        self.assertTrue(text.startswith(f"{name}  {'Float32' if kind == 'F32' else kind} ["), text)
        self.assertEqual(len(text.splitlines()) - 4, lines, text)
        np.testing.assert_array_equal(self.drawn(text, golden(case, "src")), want.astype("<f4"), text)
        return text

    def test_interleaved(self) -> None:
        text = self.check("qwen3_mcore", "decoder.layers.1.mlp.linear_fc1.weight", 2)
        self.assertIn("[1, 3, 5, ... 47 | all]  model.layers.1.mlp.up_proj.weight [all | all]", text)
        self.check("qwen3_mcore_back", "model.layers.1.mlp.up_proj.weight", 1)

    def test_in_group_order(self) -> None:
        text = self.check("qwen3_mcore", "decoder.layers.0.self_attention.linear_qkv.weight", 3)
        self.assertIn("[16-23, 48-55 | all]  model.layers.0.self_attn.k_proj.weight", text)
        self.check("qwen3_mcore_back", "model.layers.0.self_attn.q_proj.weight", 1)

    def test_transposed(self) -> None:
        text = self.check("qwen3_moe_mcore", "decoder.layers.1.mlp.experts.weight1", 8)
        self.assertEqual(text.count("transposed"), 8)
        self.check("qwen3_moe_mcore_back", "model.layers.1.mlp.experts.2.up_proj.weight", 1)
        self.check("operations", "high", 1)

    def test_padded(self) -> None:
        text = self.check("megatron_llama", "embedding.word_embeddings.weight", 2)
        self.assertRegex(text, r"\[40-127 \| all\] +the value 0")
        self.check("operations", "padded", 3)

    def test_repeated(self) -> None:
        case = GOLDEN / "operations"
        text = self.show("doubled", case / "map.toml", "--source", case / "src.safetensors")
        self.assertIn("groups_of [all | all], repeated", text)
        self.check("operations_back", "groups_of", 1)

    def test_stacked_and_cut(self) -> None:
        self.check("operations", "grid", 12)
        self.check("operations", "third.1", 1)
        self.check("operations", "low", 1)

    def test_the_rule_and_the_alias(self) -> None:
        source, *words = self.mcore_ranks({name: tensor for name, tensor in self.mcore.items()
                                           if name != "output_layer.weight"})
        tied = self.config_file(tie_word_embeddings=True)
        words = [*MAP[1:], "--source", source, *words, "--model-config", tied]
        self.assertRegex(self.show("model.norm.weight", *words), r"rule of mindformers-mcore\.toml:\d+\n")
        text = self.show("lm_head.weight", *words)
        self.assertRegex(text, r"alias of mindformers-mcore\.toml:\d+\n")
        self.assertIn("embedding.word_embeddings.weight [all | all]", text)

    def test_rows_in_another_order(self) -> None:
        """Even rows, then odd ones: that is not transposed, and what is drawn must tell it."""
        self.assertNotIn("[all | all], transposed", self.show(
            "stepped.even", GOLDEN / "operations/map.toml", "--source",
            GOLDEN / "operations/src.safetensors"))

    def test_refusals(self) -> None:
        words = ("map", "show", *MAP[1:], "--source", self.source)
        self.fails(2, *words, "--param", "model.norm.weight", words=("shows no tensor", "map check"))
        self.fails(2, *words, words=("--param is missing",))
        self.fails(2, *words[:3], "--param", "x", words=("--source is missing",))


class Diff(CommandThroughMap):
    def diff(self, code: int, *words: str | Path) -> dict[str, Any]:
        found = self.json(code, "diff", *words)
        self.assertEqual(found["equal"], code == 0)
        return {entry["name"]: entry for entry in found["parameters"]}

    def test_equal(self) -> None:
        """The same tensors under either side's names, and both through a map."""
        ranks, _, rules = self.mcore_ranks()
        a, b = ("--a-strategy", rules), ("--b-strategy", rules)
        config = ("-model-config", self.source)
        cases: list[tuple[Tensors, tuple[str | Path, ...]]] = [
            (self.mcore, (self.source, ranks, *b, *A_MAP)),
            (self.mcore, (ranks, self.source, *a, *B_MAP)),
            (self.hub, (self.source, ranks, *b, *B_MAP, "--b" + config[0], config[1])),
            (self.hub, (ranks, self.source, *a, *A_MAP, "--a" + config[0], config[1],
                        "--a-map-direction", "inverse")),
            (self.mcore, (self.source, self.source, *A_MAP, *B_MAP)),
        ]
        for want, words in cases:
            with self.subTest(words[2:]):
                found = self.diff(0, *words)
                self.assertEqual({name: entry["elements"] for name, entry in found.items()},
                                 {name: array.size for name, (_, array) in want.items()})

    def test_one_element(self) -> None:
        """In a rank's slice; found where it is in the whole, on the side that is shown."""
        ranks, _, rules = self.mcore_ranks()
        fused, path = "decoder.layers.0.mlp.linear_fc1.weight", rank_file(ranks, 1, ".ckpt")
        tensors = read_file(path)
        array = tensors[fused][1].copy()
        array[5, 3] += 0.5
        tensors[fused] = ("F32", array)
        write_ckpt(path, tensors)
        # Row 5 of the second half of 48 rows is 29, the up of 14.
        before = self.mcore[fused][1][29, 3]
        self.assertEqual(before, self.hub["model.layers.0.mlp.up_proj.weight"][1][14, 3])
        sides = {fused: ([29, 3], A_MAP),
                 "model.layers.0.mlp.up_proj.weight": ([14, 3], (*B_MAP, "--b-model-config",
                                                                 self.source))}
        for name, (index, words) in sides.items():
            found = self.diff(1, self.source, ranks, "--b-strategy", rules, *words)
            self.assertEqual([entry["name"] for entry in found.values() if entry["status"] != "equal"],
                             [name])
            self.assertEqual((found[name]["different"], found[name]["max_absolute"]), (1, 0.5))
            first = found[name]["first"]
            self.assertEqual((first["index"], float(first["a"]), float(first["b"])),
                             (index, before, before + 0.5))

    def test_a_variable_that_no_shape_shows(self) -> None:
        plain = mcore_of(self.hub, self.config, interleaved=False)
        write_safetensors(self.root / "plain.safetensors", plain)
        words = (self.source, self.root / "plain.safetensors", *A_MAP)
        self.diff(0, *words, "--a-map-var", "interleaved=0")
        found = self.diff(1, *words)
        wrong = {name: entry["different"] for name, entry in found.items() if entry["status"] != "equal"}
        self.assertEqual(wrong, {name: int(np.sum(array != self.mcore[name][1]))
                                 for name, (_, array) in plain.items() if "linear_fc1" in name})

    def test_refusals(self) -> None:
        self.fails(2, "diff", self.source, self.source, "--a-map", "nothing", words=("'nothing'",))
        self.fails(2, "diff", self.source, self.source, "--b-map-var", "a=1", words=("needs --map",))
        _, *words = self.mcore_ranks()
        self.fails(2, "diff", self.source, self.root / "ranks", "--b-strategy", words[1], *B_MAP,
                   words=("unknown variable",))


class Inspect(CommandThroughMap):
    def setUp(self) -> None:
        super().setUp()
        ranks, *words = self.mcore_ranks()
        self.words = (ranks, *words, *MAP, "--model-config", self.source)

    def holders(self) -> dict[str, list[int]]:
        """The ranks with any part of what each tensor of the hub is made of."""
        return {name: [2, 3] if ".layers.1." in name or name.startswith(("lm_head", "model.norm"))
                else [0, 1] for name in self.hub}

    def test_list_and_json(self) -> None:
        found = {entry["name"]: entry for entry in self.json(0, "inspect", *self.words)["parameters"]}
        holders = self.holders()
        self.assertEqual(set(found), set(self.hub))
        text = self.says(0, "inspect", *self.words, "--list")
        for name, (_, array) in self.hub.items():
            entry = found[name]
            self.assertEqual((entry["dtype"], entry["shape"], entry["bytes"], entry["ranks"]),
                             ("Float32", list(array.shape), array.nbytes, holders[name]), name)
            shape = re.escape(str(list(array.shape)))
            ranks = ",".join(map(str, holders[name]))
            self.assertRegex(text, rf"(?m)^{re.escape(name)} +Float32 +{shape} +{array.nbytes} +{ranks}$")
        self.assertIn("25 parameters", text)

    def test_selection_by_shown_names(self) -> None:
        found = self.json(0, "inspect", *self.words, "--include", "*q_proj*", "--exclude", "*.1.*")
        self.assertEqual([entry["name"] for entry in found["parameters"]],
                         ["model.layers.0.self_attn.q_proj.weight"])

    def test_tree(self) -> None:
        text = self.says(0, "inspect", *self.words, "--tree")
        self.assertIn("whole parameters, as the map shows them", text)
        self.assertRegex(text, r"(?m)^.*layers\.\{0,1\} ")
        self.assertRegex(text, r"(?m)^.*q_proj\.weight +2 .* Float32 \[32, 16\] +1\.02K +4\.0 KiB")
        self.assertRegex(text, r"(?m)^all +25 .* Float32 +6\.77K")
        self.assertNotIn("linear_qkv", text)

    def test_statistics(self) -> None:
        found = {entry["name"]: entry for entry in
                 self.json(0, "inspect", *self.words, "--stats")["statistics"]}
        self.assertEqual(set(found), set(self.hub))
        for name, (_, array) in self.hub.items():
            entry, wide = found[name], array.astype("f8")
            self.assertEqual((entry["shape"], entry["elements"], entry["min"], entry["max"], entry["zeros"]),
                             (list(array.shape), array.size, wide.min(), wide.max(), int((wide == 0).sum())))
            self.assertAlmostEqual(entry["mean"], wide.mean(), 9)
            self.assertAlmostEqual(entry["std"], wide.std(), 9)
        text = self.says(0, "inspect", *self.words, "--stats", "--include", "lm_head*")
        low, high = (f"{value:g}" for value in (self.hub["lm_head.weight"][1].min(),
                                                self.hub["lm_head.weight"][1].max()))
        self.assertRegex(text, rf"lm_head.weight +Float32 \[40, 16\] +{low} +{high} ")


class Traffic(CommandThroughMap):
    """Every element of a target rank is an element of one source rank."""

    def check_plan(self, owners: Tensors, target: Strategy, *words: str | Path) -> None:
        plan = self.json(0, "plan", *words)
        self.assertEqual([entry["rank"] for entry in plan["ranks"]], list(range(target.rank_count)))
        for entry in plan["ranks"]:
            rank = entry["rank"]
            parts = rank_tensors(owners, target, rank).values()
            counts = np.bincount(np.concatenate([array.reshape(-1) for _, array in parts]))
            want = {source: 4 * int(count) for source, count in enumerate(counts) if count}
            self.assertEqual({source["rank"]: source["bytes"] for source in entry["sources"]}, want, rank)
            self.assertEqual(entry["needed_ranks"], sorted(want))
            text = self.says(0, "plan", *words, "--rank", str(rank))
            self.assertEqual([int(word) for word in text.split()], sorted(want))

    def test_to_ranks_of_a_training(self) -> None:
        strategy = hub_strategy(self.hub, 4)
        source = write_ranks(self.root / "cut", self.hub, strategy)
        owners = mcore_of(in_whole(self.hub, strategy), self.config)
        self.check_plan(owners, mcore_strategy(self.mcore), source, "--src-strategy",
                        hub_rules(self.root / "src.toml", 4), *MAP, "--model-config", self.source,
                        "--dst-strategy", mcore_rules(self.root / "dst.toml"))

    def test_to_ranks_of_a_hub_model(self) -> None:
        """The way back of each element is found from the way there."""
        source, *words = self.mcore_ranks()
        numbers: Tensors = {}
        total = 0
        for name, (_, array) in self.hub.items():
            numbers[name] = ("I64", np.arange(total, total + array.size).reshape(array.shape))
            total += array.size
        owner_of = np.full(total, -1)
        owners = in_whole(self.mcore, mcore_strategy(self.mcore))
        for name, (_, array) in mcore_of(numbers, self.config).items():
            owner_of[array] = owners[name][1]
        back = {name: ("I64", owner_of[array]) for name, (_, array) in numbers.items()}
        self.check_plan(back, hub_strategy(self.hub, 4), source, *words, *MAP, "--model-config",
                        self.source, "--dst-strategy", hub_rules(self.root / "dst.toml", 4))

    def test_report(self) -> None:
        page = self.root / "page.html"
        self.says(0, "report", self.source, *MAP, "--dst-strategy", mcore_rules(self.root / "dst.toml"),
                  "-O", page)
        text = page.read_text()
        for word in (*self.mcore, "is read forward: it shows MindFormers mcore",
                     "<span>--map</span> <span>mindformers-qwen3</span>"):
            self.assertIn(word, text)
        # The picture of a fused tensor names what its parts are made of.
        for part, rows in (("q", "0:16"), ("k", "16:24"), ("v", "24:32")):
            self.assertIn(f"[{rows}, 0:16] target rank 0 \u2190 "
                          f"model.layers.0.self_attn.{part}_proj.weight, source rank 0", text)
        self.assertIn("joined by the map", text)


class StrategyCheck(CommandThroughMap):
    """strategy check --map: a destination's strategy against what the map shows."""

    def check(self, rules: Path, code: int) -> Any:
        result = run("strategy", "check", rules, "--source", self.source, *MAP)
        self.assertEqual(result.code, code, result.stderr)
        return result

    def test_rules_that_fit(self) -> None:
        rules = mcore_rules(self.root / "dst.toml")
        text = self.check(rules, 0).stdout
        self.assertIn(f"MindFormers mcore: {len(self.mcore)} tensors, {len(self.mcore)} of them", text)
        self.assertRegex(text, r"\n\S*linear_qkv\.weight +\d+  ")

    def test_rules_that_do_not_fit(self) -> None:
        rules = self.root / "dst.toml"
        rules.write_text('[devices]\naxes = ["tp=7"]\n[[rule]]\nmatch = "*linear_qkv.weight"\n'
                         'cut = ["tp", ""]\n[[rule]]\nmatch = "*"\n')
        self.assertIn("linear_qkv.weight", self.check(rules, 1).stderr)

    def test_a_map_needs_a_checkpoint(self) -> None:
        result = run("strategy", "check", mcore_rules(self.root / "dst.toml"), *MAP)
        self.assertEqual(result.code, 2)
        self.assertIn("--source", result.stderr)


class Contents(CommandThroughMap):
    def raw(self, *words: str | Path) -> bytes:
        done = subprocess.run([str(Settings.binary), *map(str, words)], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=COMMAND_SECONDS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout

    def test_cat(self) -> None:
        for name, (_, array) in self.mcore.items():
            self.assertEqual(self.raw("cat", self.source, *MAP, "--param", name), array.tobytes(), name)
        fused = "decoder.layers.1.self_attention.linear_qkv.weight"
        data = self.raw("cat", self.source, *MAP, "--param", fused, "--npy", "--cast", "fp32->fp64")
        np.testing.assert_array_equal(np.load(io.BytesIO(data)), self.mcore[fused][1].astype("f8"))
        self.fails(2, "cat", self.source, *MAP, "--param", "model.norm.weight",
                   words=("model.norm.weight", "no array with this name"))

    def test_hash(self) -> None:
        """Of rank files and of hf/, whose companions count."""
        ranks, *words = self.mcore_ranks()
        rules = hub_rules(self.root / "dst.toml", 2)
        words += [*MAP, "--model-config", self.source, "--dst-strategy", rules]
        for views in ("ranks", "hf"):
            out = self.export(f"out-{views}", ranks, *words, views=views)
            want = {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
                    for path in out.glob("*/*")}
            lines = self.says(0, "hash", ranks, *words, "--views", views).splitlines()
            self.assertEqual({name: digest for digest, name in (line.split("  ") for line in lines)}, want)
        self.assertEqual(set(want), {"hf/config.json", "hf/model-00001-of-00001.safetensors",
                                     "hf/model.safetensors.index.json"})
        self.assertEqual(want["hf/config.json"],
                         hashlib.sha256((self.source / "config.json").read_bytes()).hexdigest())
        self.assert_ranks(self.root / "out-ranks", self.hub, hub_strategy(self.hub, 2), ".ckpt")


if __name__ == "__main__":
    run_command_tests()
