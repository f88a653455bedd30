# SPDX-License-Identifier: Apache-2.0
"""Small sets of several kinds, as their writers make them, from which files can be taken away."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np
from format_files import Tensors, write_ckpt, write_safetensors

INDEX = "model.safetensors.index.json"
GOLDEN_DCP = Path(__file__).resolve().parents[1] / "goldendcp"


def model(rows: int = 12, columns: int = 4, layers: int = 2) -> Tensors:
    """A small model with names of Hugging Face; all numbers differ."""
    names = {"model.embed_tokens.weight": (rows, columns), "lm_head.weight": (rows, columns)}
    for layer in range(layers):
        names[f"model.layers.{layer}.mlp.up_proj.weight"] = (rows, columns)
        names[f"model.layers.{layer}.input_layernorm.weight"] = (columns,)
    tensors: Tensors = {}
    start = 0
    for name, shape in names.items():
        count = int(np.prod(shape))
        tensors[name] = ("F32", np.arange(start, start + count, dtype="<f4").reshape(shape))
        start += count
    return tensors


def config(rows: int = 12, columns: int = 4) -> dict[str, int]:
    return {"vocab_size": rows, "hidden_size": columns, "intermediate_size": rows,
            "num_hidden_layers": 2}


def write_counted(directory: Path, tensors: Tensors, files: int, *, index: bool = True,
                  stem: str = "model") -> None:
    """Whole tensors in files that count each other, with or without an index."""
    weight_map = {}
    for number in range(files):
        name = f"{stem}-{number + 1:05}-of-{files:05}.safetensors"
        own = {key: value for at, (key, value) in enumerate(tensors.items()) if at % files == number}
        write_safetensors(directory / name, own, {"format": "pt"})
        weight_map |= dict.fromkeys(own, name)
    if index:
        total = sum(array.nbytes for _, array in tensors.values())
        write_index(directory, weight_map, total)


def write_index(directory: Path, weight_map: dict[str, str], total: float | None) -> None:
    metadata = {} if total is None else {"total_size": total}
    (directory / INDEX).write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))


def write_shards(directory: Path, tensors: Tensors, shards: int, files: int = 1) -> None:
    """As HuggingFaceStorageWriter saves what FSDP has cut: rows, as torch.chunk cuts them."""
    for shard in range(shards):
        for number in range(files):
            own: Tensors = {}
            info = {}
            for at, (name, (dtype, array)) in enumerate(tensors.items()):
                if at % files != number:
                    continue
                size = -(-array.shape[0] // shards)
                part = array[shard * size:(shard + 1) * size]
                if not len(part):
                    continue
                own[name] = (dtype, part)
                info[name] = {"saved_offsets": [shard * size] + [0] * (array.ndim - 1)}
            if own:
                write_safetensors(
                    directory / f"shard-{shard + 1:05}-model-{number + 1:05}-of-{files:05}.safetensors",
                    own, {"DCP_SHARDING_INFO": json.dumps(info), "DCP_VERSION": "1.0", "format": "pt"})


def write_ranks(directory: Path, tensors: Tensors, ranks: int) -> None:
    """MindSpore's files of a rank each, with a slice of the rows of every tensor of two dimensions."""
    for rank in range(ranks):
        own = {name: (dtype, np.split(array, ranks)[rank] if array.ndim == 2 else array)
               for name, (dtype, array) in tensors.items()}
        write_ckpt(directory / f"rank_{rank}/net-1_10.ckpt", own)


@dataclass
class Kind:
    """A set, and the options that it is read with."""
    name: str
    directory: Path
    options: list[str] = field(default_factory=list)
    # Whether something beside the files states that they are all.
    stated: bool = True

    def data_files(self) -> list[Path]:
        extensions = {".safetensors", ".ckpt", ".distcp"}
        return sorted(p for p in self.directory.rglob("*") if p.suffix in extensions)


def make_kind(name: str, root: Path, files: int) -> Kind:
    """A set without replicas, so that something is lost with each of its files."""
    directory = root / name
    directory.mkdir()
    tensors = model(rows=4 * files)
    kind = Kind(name, directory)
    if name == "hub":
        write_counted(directory, tensors, files)
    elif name == "hub without total":
        write_counted(directory, tensors, files)
        write_index(directory, json.loads((directory / INDEX).read_text())["weight_map"], None)
    elif name in ("shards", "shards with config"):
        write_shards(directory, tensors, files)
        kind.stated = name != "shards"
        if kind.stated:
            (directory / "config.json").write_text(json.dumps(config(4 * files)))
    elif name == "shards in several files":
        write_shards(directory, tensors, files, files=2)
        (directory / "config.json").write_text(json.dumps(config(4 * files)))
    elif name in ("joined", "joined with config"):
        write_ranks(directory, tensors, files)
        kind.options = ["--src-join", "*embed*", "--src-join", "*lm_head*", "--src-join", "*proj*"]
        kind.stated = name != "joined"
        if kind.stated:
            (directory / "config.json").write_text(json.dumps(config(4 * files)))
    elif name == "strategy":
        write_ranks(directory, tensors, files)
        strategy = root / "strategy.toml"
        strategy.write_text(f'[devices]\naxes = ["tp={files}"]\n[[rule]]\nmatch = "*norm.weight"\n'
                            '[[rule]]\nmatch = "*"\ncut = ["tp", ""]\n')
        kind.options = ["--src-strategy", str(strategy)]
    elif name == "dcp":
        shutil.rmtree(directory)
        shutil.copytree(GOLDEN_DCP / "rows4_113/src", directory)
    else:
        raise ValueError(name)
    return kind


KINDS = ["hub", "hub without total", "shards", "shards with config", "shards in several files", "joined",
         "joined with config", "strategy", "dcp"]
