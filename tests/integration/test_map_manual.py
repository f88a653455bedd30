# SPDX-License-Identifier: Apache-2.0
"""The examples of reshardfs-map(5) do what it says: its maps, taken from the page as they stand,
against NumPy in both directions, and every message as the page prints it."""

from __future__ import annotations

import json
import re
import unittest
from pathlib import Path

import numpy as np
from format_files import Tensors, read_safetensors, same, write_safetensors
from mounted import mounted, run, run_unittests, scratch

PAGE = Path(__file__).resolve().parents[2] / "man/reshardfs-map.5"
CONFIG = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 8,
          "num_hidden_layers": 2, "tie_word_embeddings": True}
HEADS, GROUPS, HEAD, LAYERS = 4, 2, 2, 2
EXPERTS = 3


def displays(title: str) -> list[str]:
    """What the section or subsection shows literally, without the marks of mdoc."""
    page = PAGE.read_text()
    (body,) = re.findall(rf"^\.S[sh] {re.escape(title)}\n(.*?)(?=^\.S[sh] )", page, re.M | re.S)
    shown = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed$", body, re.M | re.S)
    return [re.sub(r"\\&", "", text).replace("\\e", "\\") for text in shown]


def maps(title: str) -> list[str]:
    return [text for text in displays(title) if text.startswith("[")]


def folded(text: str) -> str:
    return " ".join(text.split())


def listed(text: str) -> dict[str, tuple[int, ...]]:
    """Name to shape, from lines of `inspect`."""
    lines = re.findall(r"^(\S+) +Float32 +\[(.*)\]$", text, re.M)
    return {name: tuple(int(length) for length in shape.split(", ")) for name, shape in lines}


class Values:
    """Every element of a model has a value that no other one has."""

    def __init__(self) -> None:
        self.next = 1

    def of(self, *shape: int) -> tuple[str, np.ndarray]:
        count = int(np.prod(shape))
        array = np.arange(self.next, self.next + count, dtype="<f4").reshape(shape)
        self.next += count
        return "F32", array


def hugging_face() -> Tensors:
    """As the page lists it, with another layer like the first."""
    values, tensors = Values(), {}
    shapes = listed(displays("Look at both sides")[0])
    for layer in range(LAYERS):
        for name, shape in shapes.items():
            other = name.replace(".layers.0.", f".layers.{layer}.")
            if other not in tensors:
                tensors[other] = values.of(*shape)
    return tensors


def gecko(model: Tensors) -> Tensors:
    def of(name: str) -> np.ndarray:
        return model[f"{name}.weight"][1]

    def rows(array: np.ndarray, head: int) -> np.ndarray:
        return array[head * HEAD:(head + 1) * HEAD]

    tensors = {"embed": of("model.embed_tokens"), "head": of("model.embed_tokens"),
               "final_norm": of("model.norm")}
    for layer in range(LAYERS):
        start, block = f"model.layers.{layer}.", f"blocks.{layer}."
        q, k, v = (of(f"{start}self_attn.{name}_proj") for name in "qkv")
        heads = []
        for group in range(GROUPS):
            each = HEADS // GROUPS
            heads += [rows(q, head) for head in range(group * each, (group + 1) * each)]
            heads += [rows(k, group), rows(v, group)]
        tensors[f"{block}norm1"] = of(f"{start}input_layernorm")
        tensors[f"{block}norm2"] = of(f"{start}post_attention_layernorm")
        tensors[f"{block}attn.qkv"] = np.concatenate(heads)
        tensors[f"{block}attn.out"] = of(f"{start}self_attn.o_proj")
        tensors[f"{block}mlp.in"] = np.concatenate([of(f"{start}mlp.{name}_proj")
                                                    for name in ("gate", "up")])
        tensors[f"{block}mlp.out"] = of(f"{start}mlp.down_proj")
    return {f"{name}.weight": ("F32", array) for name, array in tensors.items()}


class MapManual(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.map = self.root / "gecko.toml"

    def write(self, name: str, tensors: Tensors, config: dict[str, object] | None = None) -> Path:
        write_safetensors(self.root / name / "model.safetensors", tensors)
        if config is not None:
            (self.root / name / "config.json").write_text(json.dumps(config))
        return self.root / name

    def assert_shows(self, source: Path, want: Tensors, *options: str | Path) -> None:
        out = self.root / f"out-{len(list(self.root.iterdir()))}"
        result = run("export", source, out, "--views", "ranks", *options)
        self.assertEqual(result.code, 0, result.stderr)
        same(self, read_safetensors(out / "rank_0/checkpoint_0.safetensors")[0], want)
        with mounted(source, "--views", "ranks", *options) as mountpoint:
            file = mountpoint / "rank_0/checkpoint_0.safetensors"
            same(self, read_safetensors(file)[0], want)

    def assert_prints(self, title: str, code: int, *words: str | Path) -> None:
        """The command ends so, and the page has what it prints, up to where the page says "..."."""
        result = run(*words)
        self.assertEqual(result.code, code, result.stderr)
        pieces = [piece for text in displays(title)
                  for piece in re.split(r"^\$ .*$", text, flags=re.M)]
        wanted = [folded(piece) for piece in pieces]
        # The name of a map is printed whole, other paths as they were given.
        output = f"{result.stdout}{result.stderr}".replace(str(self.map), "/data/gecko.toml")
        printed = folded(output.replace(f"{self.root}/", ""))
        patterns = [re.escape(text).replace(re.escape("..."), ".*?") for text in wanted if text]
        self.assertTrue(any(re.fullmatch(pattern, printed) for pattern in patterns), printed)

    def test_the_first_example(self) -> None:
        (text,) = maps("A first example")
        self.map.write_text(text)
        values = Values()
        model = {"model.embed_tokens.weight": values.of(10, 8)}
        lynx = {"tok_embeddings.weight": model["model.embed_tokens.weight"]}
        for layer in range(LAYERS):
            start = f"model.layers.{layer}."
            model[f"{start}self_attn.o_proj.weight"] = values.of(8, 8)
            lynx[f"layers.{layer}.wo.weight"] = model[f"{start}self_attn.o_proj.weight"]
            experts = []
            for expert in range(EXPERTS):
                both = [f"{start}mlp.experts.{expert}.{name}_proj.weight"
                        for name in ("gate", "up")]
                for name in both:
                    model[name] = values.of(6, 8)
                experts.append(np.concatenate([model[name][1] for name in both]))
            lynx[f"layers.{layer}.experts.w13"] = ("F32", np.stack(experts))
        config = {"num_experts": EXPERTS}
        source = self.write("hf", model, config)
        self.assert_shows(source, lynx, "--map", self.map)
        back = self.write("lynx", lynx)
        self.assert_shows(back, model, "--map", self.map, "--model-config", source)

    def test_the_two_sides_are_as_listed(self) -> None:
        _, text = displays("Look at both sides")
        first = {name: array.shape for name, (_, array) in gecko(hugging_face()).items()
                 if "blocks.1." not in name}
        self.assertEqual(listed(text), first)

    def test_a_map_for_another_model(self) -> None:
        model = hugging_face()
        other_side = gecko(model)
        source, target = self.write("hf", model, CONFIG), self.write("gecko", other_side)
        plan = ("plan", source, "--map", self.map)

        (names,) = maps("Step 1: names")
        self.map.write_text(names)
        self.assert_prints("Step 1: names", 2, *plan)

        (draft,) = maps("Step 2: fused tensors")
        _, gate_and_up = draft.split("\n\n")
        self.map.write_text(f"{names}\n{draft}")
        self.assert_prints("Step 2: fused tensors", 2, *plan)
        self.map.write_text(f"{names}\n{draft}".replace('ops = ["concat 0"]\n', ""))
        self.assertIn("several sources have to be joined", run(*plan).stderr)

        title = "Step 3: tensors without a counterpart"
        (drop,) = maps(title)
        self.map.write_text(f"{names}\n{draft}\n{drop}")
        self.assertEqual(run(*plan).code, 0)

        title = "Step 4: the order of the rows"
        out = self.root / "out"
        self.assertEqual(run("export", source, out, "--map", self.map).code, 0)
        self.assert_prints(title, 1, "diff", out, target)
        (by_groups,) = maps(title)
        fused = f"{names}\n{by_groups}\n{gate_and_up}\n{drop}"
        self.map.write_text(fused)
        other = self.root / "other.json"
        other.write_text(json.dumps(CONFIG | {"num_key_value_heads": 3}))
        self.assert_prints(title, 2, *plan, "--model-config", other)
        other.write_text(json.dumps(CONFIG | {"num_attention_heads": 2, "num_key_value_heads": 1}))
        self.assertEqual(run(*plan, "--model-config", other).code, 0)

        title = "Step 5: tied embeddings"
        plan_back = ("plan", target, "--map", self.map)
        self.assert_prints(title, 2, *plan_back, "--model-config", source)
        (tied,) = maps(title)
        self.map.write_text(f"{fused}\n{tied}")
        self.assertEqual(run("export", source, out, "--map", self.map, "--force").code, 0)
        self.assert_prints(title, 0, "diff", out, target)

        title = "Step 6: the inverse"
        self.assert_prints(title, 2, *plan_back)
        self.assert_prints(title, 2, *plan_back, "--model-config", source)
        (with_shapes,) = maps(title)
        self.map.write_text(f"{names}\n{by_groups}\n{with_shapes}\n{drop}\n{tied}")
        back = self.root / "back"
        words = ("--map", self.map, "--model-config", source)
        self.assertEqual(run("export", target, back, *words).code, 0)
        self.assert_prints(title, 0, "diff", back, source, "--exclude", "*.inv_freq")

        kept = {name: tensor for name, tensor in model.items() if "inv_freq" not in name}
        self.assert_shows(source, other_side, *words)
        self.assert_shows(target, kept, *words)
        self.assert_untied(model, other_side)

    def assert_untied(self, model: Tensors, other_side: Tensors) -> None:
        head = Values().of(*model["model.embed_tokens.weight"][1].shape)
        source = self.write("untied", model | {"lm_head.weight": head},
                            CONFIG | {"tie_word_embeddings": False})
        self.assert_shows(source, other_side | {"head.weight": head}, "--map", self.map)


if __name__ == "__main__":
    run_unittests()
