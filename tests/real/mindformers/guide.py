# SPDX-License-Identifier: Apache-2.0
"""docs/mindformers.md, command by command, beside directories with the names that it uses."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

import checkpoint2
import files
import hub
import mindspore as ms
import networks
import numpy as np
import truth
from checkpoint2 import RULES, Run
from files import Entry
from networks import Training
from product import reshardfs, unmount

GUIDE = Path(__file__).resolve().parents[3] / "docs/mindformers.md"
# What needs packages that this environment does not have.
OTHER_PROGRAMS = ("python3", "vllm")
CUTS = {"linear_qkv.weight": 0, "linear_fc1.weight": 0, "linear_proj.weight": 1, "linear_fc2.weight": 1}
RANKS = 2


def commands() -> list[list[str]]:
    found, inside = [], False
    lines = iter(GUIDE.read_text().splitlines())
    for line in lines:
        if line.startswith("```"):
            inside = line in ("```sh", "```bash")
        elif inside and line.strip() and not line.startswith("#"):
            while line.endswith("\\"):
                line = line[:-1] + next(lines)
            found.append(shlex.split(line))
        elif line.startswith("- `reshardfs "):
            found.append(shlex.split(line.split("`")[1]))
    return found


def part(name: str, entry: np.ndarray, rank: int) -> np.ndarray:
    for end, dimension in CUTS.items():
        if name.endswith(end):
            return np.ascontiguousarray(np.split(entry, RANKS, dimension)[rank])
    return entry


class Place:
    """The directories, and what is in them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.training = Training(root, hub.random_model("qwen3", seed, tie_word_embeddings=False), seed)
        self.training.hub.rename(root / "Qwen3-8B")
        self.training.hub = root / "Qwen3-8B"
        text = self.training.yaml.read_text().replace(str(root / "hub"), str(self.training.hub))
        for setting, name in networks.KEYS.items():  # a training states its layouts, or the release
            if networks.applies(setting, "qwen3") and name not in text:
                text = text.replace("  model_config:\n",
                                    f"  model_config:\n    {name}: {str(getattr(self.training.settings, setting))}\n")
        self.training.yaml.write_text(text)
        run = Run(self.training)
        run.step(0)
        self.weights = truth.parameters(self.training.model, self.training.settings)
        self.tensors = {name: parameter.asnumpy() for cell in (run.network, run.optimizer)
                        for name, parameter in cell.parameters_dict().items()}
        for rank in range(RANKS):
            (root / f"ckpt/rank_{rank}").mkdir(parents=True)
            held = [{"name": name, "data": ms.Tensor(part(name, tensor, rank))}
                    for name, tensor in self.tensors.items()]
            ms.save_checkpoint(held, str(root / f"ckpt/rank_{rank}/net-1_1.safetensors"), format="safetensors")
        (root / "rules.toml").write_text(RULES)
        ms.save_checkpoint([{"name": name, "data": ms.Tensor(tensor)} for name, tensor in self.tensors.items()],
                           str(root / "whole.safetensors"), format="safetensors")
        for name in ("train.ckpt", "serve.ckpt"):
            reshardfs("strategy", "convert", root / "rules.toml", "--source", root / "whole.safetensors", "-O",
                      root / name)

    def check(self, mountpoint: Path, words: list[str]) -> None:
        """What a mount of the guide shows."""
        if words[2] == "Qwen3-8B":
            expected = networks.entries(self.weights)
        else:
            expected = networks.entries(self.tensors)
        if "iteration" in words:
            run = Run(self.training)
            with_states = words[2] == "ckpt"
            run.load(mountpoint / "iteration", optimizer=with_states)
            found = {**run.weights(), **(run.states() if with_states else {})}
            files.assert_equal({name: found[name] for name in expected}, expected, "the iteration, loaded")
        elif "--cast" in words:
            found = {}
            for path in (mountpoint / "hf").glob("*.safetensors"):
                found.update(files.read(path))
            rounded = {name: Entry("BFloat16", entry.shape, bfloat16(entry.content))
                       for name, entry in networks.entries(self.training.model.with_aliases()).items()}
            files.assert_equal(found, rounded, "hf/")
            assert (mountpoint / "hf/config.json").exists(), "hf/ has no config.json"
        else:
            for rank in range(RANKS):
                (path,) = (mountpoint / f"rank_{rank}").glob("*.safetensors")
                loaded = ms.load_checkpoint(str(path), format="safetensors")
                found = {name: networks.entry(parameter) for name, parameter in loaded.items()}
                want = {name: part(name, tensor, rank) for name, tensor in self.weights.items()}
                files.assert_equal(found, networks.entries(want), f"rank {rank}, loaded")


def bfloat16(content: bytes) -> bytes:
    """Rounded to the nearest, ties to even, as all programs round."""
    bits = np.frombuffer(content, "<u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


@contextlib.contextmanager
def in_directory(root: Path) -> Iterator[None]:
    with contextlib.chdir(root):
        yield


def played(directory: Path, seed: int) -> dict[str, int]:
    place = Place(directory, seed)
    checkpoint2.saved_by_two(directory, directory / "output", seed)
    counts = {"commands of the guide": 0}
    for words in commands():
        if words[0] in OTHER_PROGRAMS:
            continue
        assert words[0] == "reshardfs", f"the guide has a command that this does not know: {words}"
        words = [word.replace("/mnt/", f"{directory}/mnt-") for word in words]
        with in_directory(directory):
            if words[1] != "mount":
                reshardfs(*words[1:])
            else:
                mountpoint = Path(words[3])
                mountpoint.mkdir(exist_ok=True)
                reshardfs(*words[1:])
                try:
                    place.check(mountpoint, words)
                finally:
                    unmount(mountpoint)
        counts["commands of the guide"] += 1
    assert counts["commands of the guide"] >= 6, counts
    tensors = checkpoint2.members.random_tensors(seed)
    expected = networks.entries(tensors | {"global_step": np.array([7], "i4")})
    reshardfs("export", directory / "output/iteration_00000007", directory / "joined.safetensors")
    files.assert_equal(files.read(directory / "joined.safetensors"), expected, "the run, joined")
    shown = reshardfs("strategy", "show", directory / "train.json", "--json")
    for name in tensors:
        assert f'"{name}"' in shown, f"{name} is not in train.json"
    return counts
