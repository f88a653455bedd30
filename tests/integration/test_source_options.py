# SPDX-License-Identifier: Apache-2.0
"""Each option of a source is taken by each command that opens one, and all show the same model."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from all_commands import COMMANDS as COMMANDS_OF_SETS  # noqa: E402
from all_commands import ask, refusals, silent  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_ckpt, write_safetensors  # noqa: E402
from mounted import Settings, mounted, run, run_unittests, scratch  # noqa: E402
from torch_archive import Storage, Stored, write_archive  # noqa: E402

FILE = "merged/checkpoint_merged.safetensors"
# What mount takes under the title "Source", and who does without: what a strategy is guessed for has none, and is not
# shown by any; the filters of names are not about the source.
COMMANDS = ("mount", "export", "hash", "cat", "plan", "report", "inspect", "verify", "diff", "map check", "map show",
            "strategy convert", "strategy check", "strategy guess")
WITHOUT = {"strategy guess": {"src-strategy", "src-join", "replicas", "state-prefix", "rename", "drop"},
           "strategy check": {"src-join", "replicas", "state-prefix"}}


# Options without a case here, and the test that shows their effect in all commands.
ELSEWHERE = {"dec-key-file": "test_support.py", "dec-mode": "test_support.py", "quantize": "test_nvfp4.py"}
REPEATABLE = {"src-join", "rename", "drop", "state-prefix"}
IN_PYTHON = """
import json, sys
import reshardfs
with reshardfs.open(sys.argv[1], **json.loads(sys.argv[2])) as source:
    print(json.dumps({name: list(source.merged[name].shape) for name in source.merged}))
"""


def pairs_of(options: list[str]) -> Iterator[tuple[str, str | None]]:
    """Each option without its dashes, and its value."""
    for at, word in enumerate(options):
        if word.startswith("--"):
            more = options[at + 1:at + 2]
            yield word[2:], None if not more or more[0].startswith("--") else more[0]


def options_of(command: str, title: str = "Source") -> set[str]:
    """Those that the help lists below a title; all of them without a title."""
    text = run(*command.split(), "--help").stdout
    if title:
        text = re.split(r"^\S", text.split(f"\n{title}:\n", 1)[1], maxsplit=1, flags=re.M)[0]
    return set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", text, flags=re.M))


class Table(unittest.TestCase):
    def test_each_command_has_each_option(self) -> None:
        known = options_of("mount")
        self.assertLessEqual({"src-strategy", "step", "rename", "drop", "dequantize", "no-symlinks"}, known)
        for command in COMMANDS:
            with self.subTest(command=command):
                own = options_of(command, "")
                wanted = known - WITHOUT.get(command, set())
                if command == "diff":
                    own |= {name.removeprefix("a-") for name in own} | {"src-" + name.removeprefix("a-") for name in own}
                self.assertEqual(wanted - own, set())


Case = tuple[Path, Tensors, list[str]]


def ranks(root: Path, whole: Tensors, count: int) -> Path:
    """Each rank has rows of what has two dimensions."""
    for rank in range(count):
        write_safetensors(root / f"rank_{rank}/net.safetensors", {
            name: (kind, np.split(array, count)[rank] if array.ndim == 2 else array)
            for name, (kind, array) in whole.items()})
    return root


def made(root: Path) -> Iterator[tuple[str, Callable[[], Case]]]:
    """A source, what it is, and the options by which it is that."""
    def tensor(seed: int, *shape: int) -> tuple[str, np.ndarray]:
        return "F32", np.random.default_rng(seed).integers(1, 1 << 20, shape).astype("<f4").view("<u4")

    whole = {"model.a.weight": tensor(1, 4, 2), "norm": tensor(2, 3)}

    def rules(text: str) -> Path:
        path = root / "rules.toml"
        path.write_text('[devices]\naxes = ["tp=2"]\n' + text)
        return path

    def strategy() -> Case:
        path = rules('[[rule]]\nmatch = "model.*"\ncut = ["tp", ""]\n[[rule]]\nmatch = "norm"\n')
        return ranks(root, whole, 2), whole, ["--src-strategy", str(path)]

    def state_prefix() -> Case:
        path = rules('[[rule]]\nmatch = "w"\ncut = ["tp", ""]\n')
        both = {"w": tensor(3, 4, 2), "mom.w": tensor(4, 4, 2)}
        return ranks(root, both, 2), both, ["--src-strategy", str(path), "--state-prefix", "mom."]

    def join() -> Case:
        one = {"w": tensor(5, 4, 2)}
        return ranks(root, one, 2), one, ["--src-join", "w"]

    def replicas() -> Case:
        for rank in range(2):
            write_safetensors(root / f"rank_{rank}/net.safetensors", {"w": tensor(10 + rank, 4, 2)})
        path = root / "rules.toml"
        path.write_text('[devices]\naxes = ["dp=2"]\n[[rule]]\nmatch = "*"\n')
        return root, {"w": tensor(10, 4, 2)}, ["--src-strategy", str(path), "--replicas", "first"]

    def pattern() -> Case:
        for name, seed in (("a", 6), ("b", 7)):
            write_safetensors(root / f"rank_0/{name}.safetensors", {"w": tensor(seed, 4, 2)})
        return root, {"w": tensor(7, 4, 2)}, ["--src-pattern", "rank_{rank}/b.safetensors"]

    def step() -> Case:
        for number in (500, 1000):
            write_safetensors(root / f"checkpoint-{number}/model.safetensors", {"w": tensor(number, 4, 2)})
        return root, {"w": tensor(500, 4, 2)}, ["--step", "500"]

    def state_key() -> Case:
        path = root / "m.pt"
        stored = {name: Stored(Storage(kind, array.tobytes()), array.shape) for name, (kind, array) in whole.items()}
        write_archive(path, {"model": stored, "ema": stored})
        return path, whole, ["--state-key", "model"]

    def dequantize() -> Case:
        write_safetensors(root / "model.safetensors", {
            "l.weight": ("F8_E4M3", np.full((16, 16), 0x38, "u1")),
            "l.weight_scale_inv": ("F32", np.full((2, 2), 0.5, "<f4").view("<u4"))})
        conf = root.parent / f"{root.name}-conf"
        conf.mkdir()
        (conf / "config.json").write_text(json.dumps({"quantization_config": {
            "quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [8, 8]}}))
        shown = {"l.weight": ("BF16", np.full((16, 16), 0x3F00, "<u2"))}
        return root, shown, ["--dequantize", "--model-config", str(conf)]

    def rename() -> Case:
        write_safetensors(root / "model.safetensors", {"model.a._orig_mod.weight": whole["model.a.weight"],
                                                       "norm": whole["norm"], "old": tensor(8, 2)})
        shown = {"lm.layers.a.weight": whole["model.a.weight"], "norm": whole["norm"]}
        return root, shown, ["--rename", "model.*=lm.layers.*", "--drop", "old"]

    def flags() -> Case:
        write_safetensors(root / "model.safetensors", whole)
        return root / "model.safetensors", whole, ["--no-symlinks", "--check-crc"]

    def sizes() -> Case:
        """A model map knows the names, and the shapes in config.json prove the cuts."""
        shapes = {"tok_embeddings.embedding_weight": (16, 8), "norm_out.weight": (8,)}
        parts = {"attention_norm": (8,), "ffn_norm": (8,), "attention.wq": (8, 8), "attention.wk": (4, 8),
                 "attention.wv": (4, 8), "attention.wo": (8, 8), "feed_forward.w1": (12, 8),
                 "feed_forward.w3": (12, 8), "feed_forward.w2": (8, 12)}
        shapes |= {f"layers.0.{name}.weight": shape for name, shape in parts.items()}
        model = {f"model.{name}": tensor(20 + at, *shape) for at, (name, shape) in enumerate(shapes.items())}
        model["lm_head.weight"] = tensor(40, 16, 8)
        for rank in range(2):
            write_safetensors(root / f"rank_{rank}/net.safetensors", {
                name: (kind, array if array.ndim == 1
                       else np.split(array, 2, 1 if re.search("wo|w2", name) else 0)[rank])
                for name, (kind, array) in model.items()})
        (root / "config.json").write_text(json.dumps({
            "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "vocab_size": 16, "head_dim": 2,
            "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False}))
        return root, model, ["--src-strategy", "tp=2"]

    def prefix() -> Case:
        for name, seed in (("a", 6), ("b", 7)):
            for rank in range(2):
                write_ckpt(root / f"rank_{rank}/{name}-1_10.ckpt", {"w": tensor(seed, 4, 2)})
        return root, {"w": tensor(7, 4, 2)}, ["--src-prefix", "b"]

    yield from ((make.__name__, make) for make in (strategy, state_prefix, join, replicas, pattern, step, state_key,
                                                   dequantize, rename, flags, sizes, prefix))


class Effects(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def done(self, *words: str | Path, codes: tuple[int, ...] = (0,)) -> str:
        result = run(*words)
        self.assertIn(result.code, codes, result)
        return result.stdout

    def checked(self, source: Path, whole: Tensors, options: list[str], is_joined: bool) -> None:
        want = self.root / "want.safetensors"
        write_safetensors(want, whole)
        out = self.root / "out.safetensors"
        self.done("export", source, out, *options)
        same(self, read_safetensors(out)[0], whole)
        printed = subprocess.run([Settings.binary, "cat", source, FILE, *options], check=True, stdout=subprocess.PIPE)
        sums = self.done("hash", source, FILE, *options)
        self.assertIn(hashlib.sha256(printed.stdout).hexdigest(), sums)
        with mounted(source, *options, "--views", "merged-safetensors") as place:
            self.assertEqual((place / FILE).read_bytes(), printed.stdout)
        listed = json.loads(self.done("inspect", source, "--json", *options))["parameters"]
        self.assertEqual({item["name"]: item.get("full_shape", item["shape"]) for item in listed},
                         {name: list(array.shape) for name, (_, array) in whole.items()})
        ranks = json.loads(self.done("plan", source, "--json", *options))["ranks"]
        self.assertGreater(sum(item["bytes"] for item in ranks[0]["sources"]), 0)
        page = self.root / "page.html"
        self.done("report", source, "-O", page, *options)
        for name in whole:
            self.assertIn(name, page.read_text())
        # That the joined ranks are all, nothing can state.
        said = self.done("verify", source, *options, codes=(0, 1) if is_joined else (0,))
        self.assertIn(f" {len(whole)} parameter", said)
        shared = {"--no-symlinks", "--check-crc"}
        of_a = [re.sub("^--(src-)?", "--a-", word) if word.startswith("--") and word not in shared else word
                for word in options]
        self.done("diff", source, want, *of_a)
        rules = self.root / "each.toml"
        rules.write_text("".join(f'[[map]]\nfrom = "{name}"\nto = "x.{name}"\n' for name in whole))
        made_names = json.loads(self.done("map", "check", rules, "--source", source, "--json", *options))["tensors"]
        self.assertEqual(sorted(made_names), sorted("x." + name for name in whole))

    def shown_in_python(self, source: Path, whole: Tensors, options: list[str]) -> None:
        """By the words of the command line: names with '_', flags as truth, repeatable ones as lists."""
        words: dict[str, object] = {}
        for option, value in pairs_of(options):
            name = option.replace("-", "_")
            if value is None:
                words[name] = True
            else:
                words[name] = [*words.get(name, []), value] if option in REPEATABLE else value  # type: ignore[misc]
        python = Path(Settings.binary).parents[1] / "python"
        if not any(python.glob("reshardfs/_core*")):
            return
        answer = subprocess.run([sys.executable, "-B", "-c", IN_PYTHON, source, json.dumps(words)],
                                env={**os.environ, "PYTHONPATH": str(python),
                                     "PATH": f"{Path(Settings.binary).parent}:{os.environ['PATH']}"}, stdout=subprocess.PIPE, check=True)
        self.assertEqual(json.loads(answer.stdout), {name: list(array.shape) for name, (_, array) in whole.items()})

    def test_each_option_of_the_table_has_a_case(self) -> None:
        tried = {option for _, make in cases_below(self.root) for option, _ in pairs_of(make()[2])}
        known = options_of("mount")
        self.assertEqual(known - tried - set(ELSEWHERE), set())
        self.assertLessEqual(set(ELSEWHERE), known - tried)

    def test_all_commands_show_the_same(self) -> None:
        for name, make in cases_below(self.root):
            with self.subTest(name):
                source, whole, options = make()
                self.shown_in_python(source, whole, options)
                for left in ("out.safetensors", "page.html"):
                    (self.root / left).unlink(missing_ok=True)
                self.checked(source, whole, options, is_joined=name == "join")

    def test_a_rename_that_takes_nothing_is_refused(self) -> None:
        source = self.root / "model.safetensors"
        write_safetensors(source, {"a": ("F32", np.ones(2, "<u4"))})
        for words in (("--rename", "x.*=y.*"), ("--drop", "x")):
            for command in ("plan", "verify", "inspect"):
                with self.subTest(command=command, words=words):
                    result = run(command, source, *words)
                    self.assertEqual(result.code, 2, result)
                    self.assertIn(f"{shlex.join(words)} matches no tensor", result.stderr)


    def test_two_tensors_of_one_name_are_refused_by_all(self) -> None:
        source = self.root / "model.safetensors"
        write_safetensors(source, {name: ("F32", np.ones(2, "<u4")) for name in ("a", "b", "c")})
        words = "'a' and 'b' would both be called '[ab]'"
        for options in (("--rename", "b=a"), ("--rename", "a=b")):
            self.assertEqual(silent(source, self.root, words, *options), {})
            for command in COMMANDS_OF_SETS:
                self.assertEqual(ask(command, source, self.root, *options).code, 2, command)
        self.assertEqual(refusals(source, self.root, "--rename", "b=a", "--drop", "a"), {})


def cases_below(root: Path) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Each in a directory of its own."""
    names = [name for name, _ in made(root)]
    for name in names:
        place = root / name
        place.mkdir()
        yield name, dict(made(place))[name]


if __name__ == "__main__":
    run_unittests()
