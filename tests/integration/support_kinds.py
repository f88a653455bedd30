# SPDX-License-Identifier: Apache-2.0
"""The kinds of sources in the table of docs/support.md, one checkpoint of each, with the tensors in it as others than
reshardfs have written them; and the cells of that table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# First, because it finds the modules of tests/data.
from map_sets import config_of, golden, write_hub

import numpy as np
from documents import ROOT
from format_files import Tensors, read_ckpt, read_safetensors, write_safetensors

TESTS = ROOT / "tests"
Words = tuple[str | Path, ...]
# Cuts the rows of the tensors that are named, in two.
RULES = '[devices]\naxes = ["tp=2"]\nunmatched = "replicate"\noptional = true\n[[rule]]\nmatch = {}\ncut = ["tp"]\n'


@dataclass(frozen=True)
class Kind:
    source: Path
    tensors: Tensors
    options: Words = ()
    added: tuple[str, ...] = ()
    """What reshardfs makes of other files of the set."""


def rank_files(_: Path) -> Kind:
    case = TESTS / "golden/tp8_to_full"
    return Kind(case / "src", read_ckpt(case / "dst/rank_0/ckpt_0.ckpt"),
                ("--src-strategy", case / "src_strategy.ckpt"))


def safetensors_rank_files(directory: Path) -> Kind:
    """The model of rank_files() on two ranks, as rules have it."""
    tensors = rank_files(directory).tensors
    cut = [name for name, (_, array) in tensors.items() if array.ndim == 2 and array.shape[0] % 2 == 0]
    for rank in range(2):
        slices = {name: (kind, np.split(array, 2)[rank] if name in cut else array)
                  for name, (kind, array) in tensors.items()}
        (directory / f"ckpt/rank_{rank}").mkdir(parents=True)
        write_safetensors(directory / f"ckpt/rank_{rank}/net-1_1.safetensors", slices)
    rules = directory / "train.toml"
    rules.write_text(RULES.format(json.dumps(cut)))
    return Kind(directory / "ckpt", tensors, ("--src-strategy", rules))


def encrypted(directory: Path) -> Kind:
    case, name = TESTS / "golden/encrypted", "AES-GCM_256.ckpt"
    key = directory / "key.hex"
    key.write_text(json.loads((case / "case.json").read_text())["keys_hex"][name]["key"])
    key.chmod(0o600)
    return Kind(case / "src" / name, read_ckpt(case / "dst/plain.ckpt"), ("--dec-key-file", key))


def checkpoint2(_: Path) -> Kind:
    case = TESTS / "golden2/tp4_to_one"
    return Kind(case / "src", read_safetensors(case / "expected/rank_0.safetensors")[0], added=("global_step",))


def whole(_: Path) -> Kind:
    (file,) = (TESTS / "golden/full_to_tp8/src").rglob("*.ckpt")
    return Kind(file, read_ckpt(file))


def hub(directory: Path) -> Kind:
    tensors = golden("qwen3_mcore", "src")
    made = directory / "hub"
    made.mkdir()
    return Kind(write_hub(made, tensors, config_of("qwen3_mcore")), tensors)


def distributed(case: str) -> Callable[[Path], Kind]:
    def make(_: Path) -> Kind:
        folder = TESTS / "goldendcp" / case
        return Kind(folder / "src", read_safetensors(folder / "expected.safetensors")[0])
    return make


def saved(name: str) -> Callable[[Path], Kind]:
    def make(_: Path) -> Kind:
        case = json.loads((TESTS / "goldentorch" / name / "case.json").read_text())
        folder = TESTS / "goldentorch" / name
        return Kind(folder / case["source"], read_safetensors(folder / "expected.safetensors")[0],
                    tuple(case["options"]))
    return make


def items(_: Path) -> Kind:
    """The model alone, of strided shards."""
    folder = TESTS / "goldentorch/items_fsdptp22_torch_215"
    tensors = read_safetensors(folder / "expected.safetensors")[0]
    return Kind(folder / "src/step_2", {name.removeprefix("model."): tensor for name, tensor in tensors.items()
                                        if name.startswith("model.")}, ("--state-key", "model"))


# By row.
KINDS: dict[str, Callable[[Path], Kind]] = {
    "MindSpore, .ckpt": rank_files,
    "MindSpore, safetensors": safetensors_rank_files,
    "MindSpore, encrypted": encrypted,
    "MindSpore Transformers, Checkpoint 2.0": checkpoint2,
    "one file of whole tensors": whole,
    "a model hub's safetensors": hub,
    "PyTorch, .distcp": distributed("fsdp_tp_2x"),
    "PyTorch, safetensors": distributed("hf_sharded_2x"),
    "Megatron-Core, torch_dist": distributed("mcore_gpt_tp2pp2"),
    "hyper-parallel": distributed("hyper_safetensors_tp2dp2"),
    "torch.save, .pt, .pth, .bin": saved("nested_model_214"),
    "FSDP's ranks, torch.save": saved("fsdp2_w2_26"),
    "torch_checkpointing": items,
    "Megatron-LM's ranks, torch.save": saved("megatron_tp2_pp2"),
    "DeepSpeed, ZeRO 1 to 3 and universal": saved("deepspeed_z2_w3_groups"),
}
PYTHON = "Python"


def supported() -> set[tuple[str, str]]:
    """Row and column of each cell of the table in docs/support.md; they all name tests."""
    rows = [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
            for line in (ROOT / "docs/support.md").read_text().splitlines() if line.startswith("|")]
    return {(row[0], column) for row in rows[2:] for column in rows[0][1:]}
