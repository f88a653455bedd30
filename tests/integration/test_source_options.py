# SPDX-License-Identifier: Apache-2.0
"""Each option of a source is taken by each command that opens one, and all show the same model."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from format_files import Tensors, read_safetensors, same, write_safetensors  # noqa: E402
from mounted import Settings, mounted, run, run_unittests, scratch  # noqa: E402
from torch_archive import Storage, Stored, write_archive  # noqa: E402

FILE = "merged/checkpoint_merged.safetensors"
# What mount takes under the title "Source", and who does without: what a strategy is guessed for has none, and is not
# shown by any; the filters of names are not about the source.
COMMANDS = ("mount", "export", "hash", "cat", "plan", "report", "inspect", "verify", "diff", "map check", "map show",
            "strategy convert", "strategy check", "strategy guess")
WITHOUT = {"strategy guess": {"src-strategy", "src-join", "replicas", "state-prefix", "rename", "drop"},
           "strategy check": {"src-join", "replicas", "state-prefix"}}


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

    yield from ((make.__name__, make) for make in (strategy, state_prefix, join, replicas, pattern, step, state_key,
                                                   dequantize, rename, flags))


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

    def test_all_commands_show_the_same(self) -> None:
        for name, make in cases_below(self.root):
            with self.subTest(name):
                source, whole, options = make()
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


def cases_below(root: Path) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Each in a directory of its own."""
    names = [name for name, _ in made(root)]
    for name in names:
        place = root / name
        place.mkdir()
        yield name, dict(made(place))[name]


if __name__ == "__main__":
    run_unittests()
