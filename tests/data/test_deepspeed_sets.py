# SPDX-License-Identifier: Apache-2.0
"""A plain reader of what deepspeed_sets.py writes, which joins as DeepSpeed's own script does, gets the
reference back."""

from __future__ import annotations

import collections
import functools
import io
import pickle
import re
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np  # noqa: E402
from deepspeed_sets import (MOMENTS, Tensors, elements, random_set, up, write_set,  # noqa: E402
                            write_universal)

SETS = 200
TYPES = {"FloatStorage": ("F32", "<f4"), "HalfStorage": ("F16", "<f2"), "BFloat16Storage": ("BF16", "<u2"),
         "LongStorage": ("I64", "<i8"), "BoolStorage": ("BOOL", "?"), "ByteStorage": ("U8", "u1")}


class Opaque:
    """What stands for the objects of classes that are not there."""

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


class Tensor:
    def __init__(self, kind: str, array: np.ndarray) -> None:
        self.kind, self.array = kind, array


class Dictionary(collections.OrderedDict):  # type: ignore[type-arg]
    pass


def rebuilt(storage: tuple[str, np.ndarray], offset: int, shape: tuple[int, ...], stride: tuple[int, ...],
            *_: Any) -> Tensor:
    kind, flat = storage
    strides = [step * flat.itemsize for step in stride]
    return Tensor(kind, np.lib.stride_tricks.as_strided(flat[offset:], shape, strides).copy())


class Reader(pickle.Unpickler):
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.prefix = archive.namelist()[0].partition("/")[0]
        super().__init__(io.BytesIO(archive.read(f"{self.prefix}/data.pkl")))

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch._utils":
            return rebuilt
        if module == "torch":
            return tuple if name == "Size" else name
        return {"OrderedDict": Dictionary, "set": set}.get(name, Opaque)

    def persistent_load(self, pid: Any) -> tuple[str, np.ndarray]:
        word, storage, key, _device, count = pid
        kind, dtype = TYPES[storage]
        flat = np.frombuffer(self.archive.read(f"{self.prefix}/data/{key}"), dtype)
        if word != "storage" or flat.size != count:
            raise ValueError(f"storage {key} has {flat.size} elements and not {count}")
        return kind, flat


def read(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        return Reader(archive).load()


def by_rank(directory: Path, end: str) -> list[Any]:
    files = sorted(directory.glob(f"*{end}"), key=lambda path: [int(n) for n in re.findall(r"\d+",
                                                                                           path.name)])
    return [read(path) for path in files]


def joined_groups(vectors: list[list[np.ndarray]], shapes: list[dict[str, tuple[int, ...]]], world: int,
                  aligned: list[list[int]] | None = None) -> dict[str, np.ndarray]:
    """Stages 1 and 2. vectors: of each rank, of each group; aligned: elements behind each parameter."""
    out = {}
    for number, group in enumerate(shapes):
        flat = np.concatenate([vector[number] for vector in vectors])
        offset = 0
        for (name, shape), behind in zip(group.items(), aligned[number] if aligned else [0] * len(group)):
            out[name] = flat[offset:offset + elements(shape)].reshape(shape)
            offset += elements(shape) + behind
        if up(offset, 2 * world) != up(flat.size, 2 * world):
            raise ValueError(f"group {number}: {offset} of {flat.size} elements")
    return out


def joined_pieces(vectors: list[list[np.ndarray]], shapes: list[dict[str, tuple[int, ...]]], world: int
                  ) -> dict[str, np.ndarray]:
    """Stage 3."""
    flats = [np.concatenate(vector) for vector in vectors]
    out, offset = {}, 0
    for name, shape in ((name, shape) for group in shapes for name, shape in group.items()):
        length = -(-elements(shape) // world)
        whole = np.concatenate([flat[offset:offset + length] for flat in flats])
        out[name] = whole[:elements(shape)].reshape(shape)
        offset += length
    if any(flat.size != offset for flat in flats):
        raise ValueError(f"{offset} elements are used of {[flat.size for flat in flats]}")
    return out


def read_set(directory: Path) -> Tensors:
    optim, model = by_rank(directory, "_optim_states.pt"), by_rank(directory, "_model_states.pt")
    states = [state["optimizer_state_dict"] for state in optim]
    third = states[0]["zero_stage"] == 3
    count = states[0]["partition_count"]
    world = max(count) if isinstance(count, list) else count
    if len(states) != world or len(model) != (world if third else 1):
        raise ValueError(f"{len(states)} and {len(model)} files of {world} ranks")
    aligned = states[0].get("param_alignment_paddings")
    join = joined_pieces if third else functools.partial(joined_groups, aligned=aligned)
    vectors = [[tensor.array
                for tensor in state["fp32_flat_groups" if third else "single_partition_of_fp32_groups"]]
               for state in states]
    first = model[0]
    out: Tensors = {name: ("F32", array) for name, array in join(vectors, first["param_shapes"],
                                                                 world).items()}
    bases = [state["optimizer_state_dict" if third else "base_optimizer_state"] for state in states]
    inner = [dict(enumerate(base)) if isinstance(base, list) else base["state"] for base in bases]
    for kind in MOMENTS if inner[0] else ():
        vectors = [[state[number][kind].array for number in sorted(state)] for state in inner]
        out |= {f"{kind}.{name}": ("F32", array) for name,
                array in join(vectors, first["param_shapes"], world).items()}
    for name, shape in (first["frozen_param_shapes"] or {}).items():
        parts = [state["frozen_param_fragments"][name] for state in model]
        flat = np.concatenate([part.array.reshape(-1) for part in parts])[:elements(shape)]
        out[name] = (parts[0].kind, flat.reshape(shape))
    for name in first["buffer_names"]:
        out[name] = (first["module"][name].kind, first["module"][name].array)
    return out | {alias: out[name] for alias, name in first["shared_params"].items()}


class DeepSpeedSets(unittest.TestCase):
    def same(self, got: Tensors, want: Tensors) -> None:
        self.assertEqual(got.keys(), want.keys())
        for name, (kind, array) in want.items():
            self.assertEqual(got[name][0], kind, name)
            self.assertEqual(got[name][1].shape, array.shape, name)
            self.assertEqual(got[name][1].tobytes(), array.tobytes(), name)

    def test_random_sets(self) -> None:
        stages = set()
        for seed in range(SETS):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as place:
                spec = random_set(seed)
                stages.add((spec.stage, len(spec.groups), spec.sub_groups is not None))
                write_set(Path(place), spec)
                if spec.latest:
                    self.assertEqual((Path(place) / "latest").read_text(), spec.tag)
                self.same(read_set(Path(place) / spec.tag), spec.reference())
        self.assertGreater(len(stages), 10)

    def test_universal(self) -> None:
        spec = random_set(3)
        with tempfile.TemporaryDirectory() as place:
            write_universal(Path(place), spec)
            zero = Path(place) / f"{spec.tag}_universal" / "zero"
            for name, array in spec.weights.items():
                got = read(zero / name / "fp32.pt")["param"]
                self.assertEqual((got.array.shape, got.array.tobytes()), (array.shape, array.tobytes()), name)

    def test_same_seed_same_set(self) -> None:
        one, other = random_set(7), random_set(7)
        self.same(one.reference(), other.reference())


if __name__ == "__main__":
    unittest.main()
