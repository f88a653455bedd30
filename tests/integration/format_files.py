# SPDX-License-Identifier: Apache-2.0
"""Writes and reads small models in every format, by hand."""

from __future__ import annotations

import json
import math
import struct
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, decode_checkpoint, encode_checkpoint  # noqa: E402

# MindSpore's name, safetensors', NumPy's for the bytes, NumPy's in a .npy header.
TYPES = [
    ("Bool", "BOOL", "?", "|b1"), ("Int8", "I8", "i1", "|i1"), ("UInt8", "U8", "u1", "|u1"),
    ("Int16", "I16", "<i2", "<i2"), ("UInt16", "U16", "<u2", "<u2"),
    ("Int32", "I32", "<i4", "<i4"), ("UInt32", "U32", "<u4", "<u4"),
    ("Int64", "I64", "<i8", "<i8"), ("UInt64", "U64", "<u8", "<u8"),
    ("Float16", "F16", "<f2", "<f2"), ("BFloat16", "BF16", "<u2", "<V2"),
    ("Float32", "F32", "<f4", "<f4"), ("Float64", "F64", "<f8", "<f8"),
]
SAFETENSORS_TO_NUMPY = {st: numpy for _, st, numpy, _ in TYPES} | {
    "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1", "C64": "<u8"}
ODD_NAMES = ["a/b/c", "with space", "quote\"'`$(x)", "層.0.重み", "x" * 300, "dots..", "per%cent",
             "a//b", "/lead", "trail/", ".hidden", "tab\there", "back\\slash", "w.npy", "w.npy/inside"]

Tensors = dict[str, tuple[str, np.ndarray]]  # name to safetensors type and bytes as an array


def random_array(rng: np.random.Generator, numpy: str, shape: tuple[int, ...]) -> np.ndarray:
    dtype = np.dtype(numpy)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    raw = rng.integers(0, 256, math.prod(shape) * dtype.itemsize, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def full_model(seed: int) -> Tensors:
    """All types, ranks 0 to 8, sizes 0, names that file systems and JSON do not like."""
    rng = np.random.default_rng(seed)
    model: Tensors = {}
    for index, (mindspore, st, numpy, _) in enumerate(TYPES):
        model[f"type.{mindspore}"] = (st, random_array(rng, numpy, (4, 3)))
        shape = tuple(1 + (index + d) % 3 for d in range(index % 9))
        model[f"rank{len(shape)}.{index}"] = (st, random_array(rng, numpy, shape))
    model["scalar"] = ("F32", random_array(rng, "<f4", ()))
    model["one"] = ("F64", random_array(rng, "<f8", (1,)))
    model["nothing"] = ("F32", random_array(rng, "<f4", (0, 5)))
    for name in ODD_NAMES:
        model[name] = ("F32", random_array(rng, "<f4", (2, 2)))
    return model


def write_safetensors(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None,
                      shapes: dict[str, list[int]] | None = None) -> None:
    """Not sorted as the library does it: any order is a valid file.

    shapes: of those of which the arrays are bytes."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": (shapes or {}).get(name, list(array.shape)),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors: Tensors = {}
    at = 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert begin == at, f"a hole before {name}"
        at = end
        array = np.frombuffer(data[8 + length + begin:8 + length + end],
                              SAFETENSORS_TO_NUMPY[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = (entry["dtype"], array)
    assert at == len(data) - 8 - length, "bytes behind the last tensor"
    return tensors, metadata


def write_ckpt(path: Path, tensors: Tensors) -> None:
    names = {st: mindspore for mindspore, st, _, _ in TYPES}
    records = [Record(name, names[st], array.shape, array.tobytes())
               for name, (st, array) in tensors.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_checkpoint(records))


def read_ckpt(path: Path) -> Tensors:
    types = {mindspore: (st, numpy) for mindspore, st, numpy, _ in TYPES}
    return {r.name: (types[r.type][0], np.frombuffer(r.content, types[r.type][1]).reshape(r.shape))
            for r in decode_checkpoint(path.read_bytes())}


def read_params(directory: Path) -> Tensors:
    """What params/ holds, by params.json beside it."""
    by_plain = {mindspore.lower(): (st, numpy) for mindspore, st, numpy, _ in TYPES}
    tensors: Tensors = {}
    for entry in json.loads((directory / "params.json").read_text()):
        st, numpy = by_plain[entry["dtype"]]
        array = np.load(directory / entry["file"], mmap_mode="r" if 0 not in entry["shape"] else None)
        tensors[entry["name"]] = (st, np.asarray(array).view(numpy))
    return tensors


def same(test: unittest.TestCase, got: Tensors, want: Tensors, *, empty: bool = True) -> None:
    wanted = {name for name, (_, array) in want.items() if empty or array.size}
    test.assertEqual(sorted(got), sorted(wanted))
    for name in wanted:
        (got_type, mine), (want_type, theirs) = got[name], want[name]
        test.assertEqual(got_type, want_type, name)
        test.assertEqual(mine.shape, theirs.shape, name)
        test.assertEqual(mine.tobytes(), theirs.tobytes(), name)
