# SPDX-License-Identifier: Apache-2.0
"""Loads Checkpoint 2.0 as strictly as MindSpore Transformers' own loader does, and more so.

Where the original takes what it gets (keys by their position, the first replica of each slice by the
layout), this does the same; where it believes what it reads, this looks: every number in
metadata.json must be what the layouts give, and every file must have just what is listed for it.
Shares nothing with the program, nor with the reader in checkpoint2.py.
"""

from __future__ import annotations

import json
import re
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from checkpoint2 import Tensors, read_tensors

LAYOUT_KEYS = ["device_matrix", "tensor_map", "interleaved_parallel", "alias_name", "rank_list"]
PARAMETER_KEYS = ["properties", "global_shape", "axis_fragmentations", "layout", "chunk"]
PROPERTY_KEYS = ["dtype", "replica_id", "allow_shape_mismatch", "allow_to_save"]
COMMON_KEYS = ["epoch_num", "step_num", "global_step", "loss_scale", "global_batch_size",
               "consumed_samples", "ckpt_status"]
TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "BOOL": "bool_",
         "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16", "I32": "int32",
         "I64": "int64"}


class Rejected(Exception):
    """The original would fail, or load something else."""


def demand(truth: bool, what: str) -> None:
    if not truth:
        raise Rejected(what)


class Mesh:
    """A layout, and the slice number of each place."""

    def __init__(self, stated: dict[str, Any], shape: list[int]) -> None:
        demand(list(stated) == LAYOUT_KEYS, f"layout keys {list(stated)}")
        matrix, entries, interleaved, names, self.ranks = stated.values()
        demand(interleaved is False, "interleaved_parallel")
        demand(names == [chr(97 + i) for i in range(len(matrix))], f"alias_name {names}")
        demand(len(self.ranks) == prod(matrix), "rank_list is not as long as the device matrix")
        first = self.ranks[0]
        demand(self.ranks == list(range(first, first + len(self.ranks))), "rank_list")
        nested = len(shape) == 1 and isinstance(entries[0], list)
        demand(len(entries) == len(shape) + nested, f"a tensor map of {len(entries)} entries")
        axes = [[axis for axis in (entry if isinstance(entry, list) else [entry]) if axis != -1]
                for entry in entries]
        self.parts = [prod(matrix[-1 - axis] for axis in cut) for cut in axes]
        used = {axis for cut in axes for axis in cut}
        demand(len(used) == sum(map(len, axes)), "an axis stands twice")
        self.numbers, self.indices, self.leading = [], [], []
        for place in product(*map(range, matrix)):
            number, index = 0, []
            for cut in axes:
                at = 0
                for axis in cut:
                    at = at * matrix[-1 - axis] + place[-1 - axis]
                    number = number * matrix[-1 - axis] + place[-1 - axis]
                index.append(at)
            self.numbers.append(number)
            self.indices.append(index)
            self.leading.append(all(at == 0 for axis, at in enumerate(reversed(place))
                                    if axis not in used))

    def replica_ids(self) -> list[int]:
        return [self.numbers[:place].count(number) for place, number in enumerate(self.numbers)]


class Step:
    def __init__(self, directory: Path, world: int) -> None:
        self.directory, self.world = directory, world
        text = (directory / "metadata.json").read_text(encoding="utf-8")
        metadata = json.loads(text)
        demand(text == json.dumps(metadata, ensure_ascii=False, indent=4), "not as it is written")
        demand(list(metadata) == ["state_dict_metadata", "storage_data"], "keys of metadata.json")
        self.parameters, self.storage = metadata.values()
        self.listed: dict[str, set[str]] = {}
        self.keys: set[str] = set()
        self.files: dict[str, Tensors] = {}
        for path in directory.glob("*.safetensors"):
            raw = path.read_bytes()
            header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
            demand(header.get("__metadata__", {"format": "ms"}) == {"format": "ms"}, "metadata")
            demand(("__metadata__" in header) == (len(header) > 0), "metadata without tensors")
            self.files[path.name] = read_tensors(path)

    def entries(self, name: str, number: int) -> list[dict[str, Any]]:
        key = repr((name, (number,)))
        demand(key in self.storage, f"no {key}")
        self.keys.add(key)
        entries = self.storage[key]
        ranks = [entry["storage_rank"] for entry in entries]
        demand(ranks == sorted(set(ranks)), f"ranks of {key}")
        for entry in entries:
            demand(list(entry) == ["file_name", "storage_rank", "rank_group"], f"keys of {key}")
            demand(entry["rank_group"] == ranks, f"rank_group of {key}")
            match = re.fullmatch(r"(?:.*-)?(?:model|opt)-(\d{7})-(\d{7})\.safetensors",
                                 entry["file_name"], re.S)
            demand(match is not None and int(match[1]) == entry["storage_rank"]
                   and int(match[2]) == self.world, f"file of {key}")
            self.listed.setdefault(entry["file_name"], set()).add(name)
        return entries

    def slice(self, name: str, number: int, rank: int) -> tuple[str, np.ndarray]:
        """As the original finds it: by the rank, or by a group that has it."""
        entries = self.entries(name, number)
        own = [entry for entry in entries if entry["storage_rank"] == rank]
        entry = (own or [entry for entry in entries if rank in entry["rank_group"]])[0]
        demand(entry["file_name"] in self.files, f"no file {entry['file_name']}")
        return self.files[entry["file_name"]][name]

    def load(self, name: str) -> tuple[str, np.ndarray]:
        stated = self.parameters[name]
        demand(list(stated) == PARAMETER_KEYS, f"keys of {name}")
        properties, shape, fragments, layout, chunks = stated.values()
        demand(list(properties) == PROPERTY_KEYS, f"properties of {name}")
        demand(properties["allow_shape_mismatch"] is False and properties["allow_to_save"] is True,
               f"properties of {name}")
        if layout is None:
            demand(properties["replica_id"] == 0 and fragments == [1] * len(shape)
                   and chunks == [{"global_offset": [0], "local_shape": shape}], f"{name}")
            kind, full = self.slice(name, 0, 0)
            demand(list(full.shape) == shape, f"shape of {name}")
        else:
            kind, full = self.assemble(name, Mesh(layout, shape), stated)
        demand(properties["dtype"] == TYPES[kind], f"type of {name}")
        return kind, full

    def assemble(self, name: str, mesh: Mesh, stated: dict[str, Any]) -> tuple[str, np.ndarray]:
        shape = stated["global_shape"]
        demand(stated["axis_fragmentations"] == mesh.parts, f"axis_fragmentations of {name}")
        demand(stated["properties"]["replica_id"] == mesh.replica_ids(), f"replica_id of {name}")
        local = [size // parts for size, parts in zip(shape, mesh.parts)]
        order = list(dict.fromkeys(mesh.numbers))
        demand(stated["chunk"] == [{"global_offset": [number], "local_shape": local}
                                   for number in order], f"chunk of {name}")
        kind, full, covered = "", None, np.zeros(shape, bool)
        for rank, number, index, leading in zip(mesh.ranks, mesh.numbers, mesh.indices,
                                                mesh.leading):
            dtype, part = self.slice(name, number, rank)
            demand(list(part.shape) == local, f"shape of {name} on rank {rank}")
            if full is None:
                kind, full = dtype, np.zeros(shape, part.dtype)
            box = tuple(slice(at * size, (at + 1) * size) for at, size in zip(index, local))
            demand(leading or full[box].tobytes() == part.tobytes(), f"replicas of {name}")
            full[box] = part
            covered[box] = covered[box] | leading
        demand(full is not None and bool(covered.all()), f"a part of {name} is nowhere")
        return kind, full


def load_checkpoint2(root: Path, world: int) -> Tensors:
    """The whole tensors of the step that the tracker names.

    @raise Rejected
    """
    step = (root / "latest_checkpointed_iteration.txt").read_text()
    demand(step == str(int(step)), f"the tracker has '{step}'")
    directory = root / f"iteration_{int(step):08}"
    common = json.loads((directory / "common.json").read_text())
    demand(set(common) <= set(COMMON_KEYS), f"common.json has {list(common)}")
    if world == 1:
        demand(not (directory / "metadata.json").exists(), "metadata.json of one device")
        out: Tensors = {}
        for path in directory.glob("*.safetensors"):
            for name, tensor in read_tensors(path).items():
                demand(name not in out, f"{name} stands twice")
                out[name] = tensor
        return out
    found = Step(directory, world)
    out = {name: found.load(name) for name in found.parameters}
    demand(found.keys == set(found.storage), "storage_data lists more than there is")
    return out
