# SPDX-License-Identifier: Apache-2.0
"""Makes tests/goldendcp/mcore_optimizer_2025: a set as Megatron-Core saved it until the end of 2025 with
its distributed optimizer (fully_sharded_model_space).

The states of the optimizer are stored in another shape than they have, in which each data-parallel rank
has a run of elements of each block; MCoreMetadata records the shapes. Made by the rules of
megatron/core/dist_checkpointing/strategies/resharding.py, not by that program; the archives are torch's.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from dcp_table import FILES, META, Pickle  # noqa: E402
from format_files import Tensors, write_safetensors  # noqa: E402

TARGET = Path(__file__).resolve().parents[1] / "goldendcp/mcore_optimizer_2025"
MCORE = "megatron.core.dist_checkpointing.strategies.torch"
STEP = "iter_0000040"
STATE = "exp_avg"


@dataclass(frozen=True)
class Parameter:
    name: str
    shape: tuple[int, ...]
    fragments: tuple[int, ...]
    cuts: tuple[int, ...]  # where the data-parallel ranks' runs of a block meet


PARAMETERS = (
    Parameter("embedding.word_embeddings.weight", (10, 6), (2, 1), (11, 29)),
    Parameter("decoder.layers.mlp.linear_fc1.weight", (2, 8, 6), (2, 2, 1), (1, 6, 7)),
    Parameter("decoder.layers.mlp.linear_fc2.weight", (2, 6, 8), (2, 1, 2), (3, 14, 20)),
    Parameter("decoder.layers.mlp.experts.experts.linear_fc1.weight", (2, 2, 3, 4), (2, 1, 1, 2), (5,)),
    Parameter("decoder.layers.self_attention.q_layernorm.weight", (2, 6), (2, 1), (4,)),
)
WHOLE = Parameter("decoder.final_layernorm.weight", (6,), (1,), ())


class Saved:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pickle = Pickle()
        self.files: dict[str, bytearray] = {}
        self.boxes: list[tuple[str, tuple[int, ...], tuple[int, ...], str, int, int]] = []
        self.tensors: dict[str, tuple[int, ...]] = {}
        self.original: dict[str, tuple[int, ...]] = {}

    def add(self, name: str, rank: int, offsets: tuple[int, ...], values: np.ndarray) -> None:
        buffer = io.BytesIO()
        torch.save(torch.from_numpy(np.ascontiguousarray(values)), buffer)
        file = f"__{rank}_0.distcp"
        data = self.files.setdefault(file, bytearray())
        self.boxes.append((name, offsets, values.shape, file, len(data), buffer.tell()))
        data += buffer.getvalue()

    def add_blocks(self, name: str, parameter: Parameter, values: np.ndarray) -> None:
        blocks = [size // parts for size, parts in zip(parameter.shape, parameter.fragments)]
        cut = values.reshape([n for pair in zip(parameter.fragments, blocks) for n in pair])
        order = [*range(0, cut.ndim, 2), *range(1, cut.ndim, 2)]
        stored = cut.transpose(order).reshape(*parameter.fragments, math.prod(blocks))
        self.tensors[name] = stored.shape
        self.original[name] = parameter.shape
        runs = list(itertools.pairwise((0, *parameter.cuts, stored.shape[-1])))
        for number, block in enumerate(np.ndindex(*parameter.fragments)):
            for rank, (first, last) in enumerate(runs):
                one = (slice(at, at + 1) for at in block)
                self.add(name, (number + rank) % 4, (*block, first), stored[(*one, slice(first, last))])

    def add_slices(self, name: str, parameter: Parameter, values: np.ndarray) -> None:
        self.tensors[name] = values.shape
        blocks = [size // parts for size, parts in zip(parameter.shape, parameter.fragments)]
        for number, block in enumerate(np.ndindex(*parameter.fragments)):
            offsets = tuple(at * size for at, size in zip(block, blocks))
            self.add(name, number % 4, offsets,
                     values[tuple(slice(at, at + size) for at, size in zip(offsets, blocks))])

    def listed(self) -> None:
        p = self.pickle
        p.out += b"}("
        for name, shape in self.tensors.items():
            p.text(name)

            def properties() -> None:
                p.instance(META, "TensorProperties", dtype=lambda: p.glob("torch", "float32"))

            def chunks(name: str = name) -> None:
                p.out.extend(b"](")
                for box in self.boxes:
                    if box[0] == name:
                        p.instance(META, "ChunkStorageMetadata", offsets=partial(p.size, box[1]),
                                   sizes=partial(p.size, box[2]))
                p.out.extend(b"e")
            p.instance(META, "TensorStorageMetadata", properties=properties,
                       size=partial(p.size, shape), chunks=chunks)
        p.out += b"u"

    def places(self) -> None:
        p = self.pickle
        p.out += b"}("
        for name, offsets, _, file, offset, length in self.boxes:
            p.instance(META, "MetadataIndex", fqn=partial(p.text, name),
                       offset=partial(p.size, offsets), index=p.none)
            p.instance(FILES, "_StorageInfo", relative_path=partial(p.text, file),
                       offset=partial(p.number, offset),
                       length=partial(p.number, length))
        p.out += b"u"

    def mcore_data(self) -> None:
        p = self.pickle
        p.out += b"}("
        for name, shape in self.original.items():
            p.text(name)
            p.out += b"}"
            p.text("nd_reformulated_orig_global_shape")
            p.out += b"("
            for size in shape:
                p.number(size)
            p.out += b"ts"
        p.out += b"u"

    def write(self) -> None:
        fields: dict[str, Callable[[], None]] = {
            "state_dict_metadata": self.listed, "planner_data": self.pickle.none,
            "storage_data": self.places, "mcore_data": self.mcore_data}
        self.pickle.instance(MCORE, "MCoreMetadata", **fields)
        self.directory.mkdir(parents=True)
        (self.directory / ".metadata").write_bytes(bytes(self.pickle.out) + b".")
        for file, data in self.files.items():
            (self.directory / file).write_bytes(data)
        (self.directory / "metadata.json").write_text(json.dumps(
            {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch",
             "common_backend_version": 1}))


def main() -> None:
    shutil.rmtree(TARGET, ignore_errors=True)
    saved = Saved(TARGET / "src" / STEP)
    expected: Tensors = {}
    for parameter in (*PARAMETERS, WHOLE):
        for name in (parameter.name, f"optimizer.state.{STATE}.{parameter.name}"):
            first = len(expected) * 4096
            values = np.arange(first, first + math.prod(parameter.shape), dtype=np.float32)
            values = values.reshape(parameter.shape)
            expected[name] = ("F32", values)
            if name != parameter.name and parameter is not WHOLE:
                saved.add_blocks(name, parameter, values)
            else:
                saved.add_slices(name, parameter, values)
    saved.write()
    (TARGET / "src/latest_checkpointed_iteration.txt").write_text("40")
    write_safetensors(TARGET / "expected.safetensors", dict(sorted(expected.items())))
    (TARGET / "case.json").write_text(json.dumps({
        "name": TARGET.name,
        "what": "states of a distributed optimizer stored as rows of blocks, which ranks cut anywhere",
        "written_by": "tests/data/make_mcore_2025_golden.py", "must": "same"}, indent=1) + "\n")


if __name__ == "__main__":
    main()
