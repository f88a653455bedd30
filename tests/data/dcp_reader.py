# SPDX-License-Identifier: Apache-2.0
"""Reads directories of torch.distributed.checkpoint without torch: the table with stand-ins for its
classes, the archives with zipfile. Whatever contradicts itself is an error."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# As NumPy has them; what it has not is so many bytes.
TYPES = {"float64": "<f8", "float32": "<f4", "float16": "<f2", "bfloat16": "<V2", "int64": "<i8",
         "int32": "<i4", "int16": "<i2", "int8": "|i1", "uint8": "|u1", "bool": "|b1",
         "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "float8_e4m3fn": "|V1",
         "float8_e5m2": "|V1"}
STORAGES = {"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
            "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
            "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
            "BoolStorage": "bool"}
RELEASES = {"torch.distributed.checkpoint": "2", "torch.distributed._shard.checkpoint": "1.13"}
FIELDS = {"Metadata": ("state_dict_metadata", "planner_data", "storage_data"),
          "TensorStorageMetadata": ("properties", "size", "chunks"),
          "ChunkStorageMetadata": ("offsets", "sizes"), "BytesStorageMetadata": (),
          "MetadataIndex": ("fqn", "offset", "index"),
          "_StorageInfo": ("relative_path", "offset", "length"), "TensorProperties": ("dtype",)}
INDEX_BYTES = 30  # of a local header, before the name

Tensors = dict[str, tuple[str, np.ndarray]]


class Thing:
    """An object of any of torch's classes."""

    kind = ""

    def __init__(self, *values: Any) -> None:
        for name, value in zip(FIELDS[self.kind], values, strict=False):
            setattr(self, name, value)

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple):
            state = {"dtype": state[0]}
        self.__dict__.update(state)

    def _key(self) -> tuple[Any, ...]:
        return (self.fqn, getattr(self, "offset", None))  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and self._key() == other._key()


class Index(Thing):
    kind = "MetadataIndex"


class Size(tuple[int, ...]):
    """torch.Size."""


class TableUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.releases: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch", "Size"):
            return Size
        if module == "torch" and name in TYPES:
            return name
        package = module.rpartition(".")[0]
        if name in FIELDS and package in RELEASES:
            self.releases.add(RELEASES[package])
        elif (module, name) != ("torch.distributed._shard.sharded_tensor.metadata",
                                "TensorProperties"):
            raise pickle.UnpicklingError(f"{module}.{name} in a table")
        return type(name, (Thing,), {"kind": name})


class DataUnpickler(pickle.Unpickler):
    """The data.pkl of an archive, for a tensor in C order."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3"):
            return lambda *arguments: (name, *arguments)
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) == ("torch.storage", "UntypedStorage"):
            return None
        if module == "torch" and name in TYPES:
            return name
        raise pickle.UnpicklingError(f"{module}.{name} in an archive")

    def persistent_load(self, pid: Any) -> Any:
        return pid


def read_archive(item: bytes) -> tuple[str, np.ndarray, int]:
    """The tensor of an archive, and where its data begins in it."""
    with zipfile.ZipFile(io.BytesIO(item)) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if sorted(entries) != ["archive/byteorder", "archive/data.pkl", "archive/data/0",
                               "archive/version"]:
            raise ValueError(f"entries {sorted(entries)}")
        # Their checksums are checked here.
        if (archive.read("archive/byteorder"), archive.read("archive/version")) != (
                b"little", b"3\n"):
            raise ValueError("byte order or version")
        made = DataUnpickler(io.BytesIO(archive.read("archive/data.pkl"))).load()
    entry = entries["archive/data/0"]
    header = item[entry.header_offset:entry.header_offset + INDEX_BYTES]
    names, extra = struct.unpack("<HH", header[-4:])
    begin = entry.header_offset + INDEX_BYTES + names + extra
    data = item[begin:begin + entry.file_size]
    name, storage, first, shape, strides, grad, hooks, *types = made
    _, of_storage, key, _, count = storage
    kind = types[0] if name == "_rebuild_tensor_v3" else of_storage
    width = np.dtype(TYPES[kind]).itemsize
    if count * (width if of_storage else 1) != len(data) or (first, grad, hooks, key) != (
            0, False, OrderedDict(), "0"):
        raise ValueError(f"{made} with {len(data)} bytes")
    array = np.frombuffer(data, TYPES[kind]).reshape(shape)
    want = [int(np.prod([max(size, 1) for size in shape[d + 1:]], dtype=object))
            for d in range(len(shape))]
    if list(strides) != want:
        raise ValueError(f"strides {strides} of {shape}")
    return kind, array, begin


@dataclass
class Checkpoint:
    tensors: Tensors
    objects: dict[str, bytes]
    paths: dict[str, tuple[str | int, ...]]
    release: str
    # By name: the boxes, as (file, offsets, sizes).
    boxes: dict[str, list[tuple[str, tuple[int, ...], tuple[int, ...]]]]


def read_dcp(directory: Path) -> Checkpoint:
    unpickler = TableUnpickler((directory / ".metadata").read_bytes())
    table = unpickler.load()
    (release,) = unpickler.releases
    files = {path.name: path.read_bytes() for path in directory.glob("*.distcp")}
    out = Checkpoint({}, {}, table.planner_data, release, {})
    places = table.storage_data
    seen = 0
    used: dict[str, list[tuple[int, int]]] = {}

    def item_of(index: Any) -> tuple[str, int, bytes]:
        nonlocal seen
        seen += 1
        place = places[index]
        end = place.offset + place.length
        file = files[place.relative_path]
        if end > len(file):
            raise ValueError(f"{index.fqn} ends behind its file")
        used.setdefault(place.relative_path, []).append((place.offset, end))
        return place.relative_path, place.offset, file[place.offset:end]

    for name, what in table.state_dict_metadata.items():
        if what.kind == "BytesStorageMetadata":
            out.objects[name] = item_of(Index(name, None))[2]
            continue
        kind = what.properties.dtype
        full = np.zeros(what.size, TYPES[kind])
        filled = np.zeros(what.size, bool)
        out.boxes[name] = []
        for chunk in what.chunks:
            if not all(isinstance(sizes, Size) for sizes in (what.size, chunk.offsets,
                                                             chunk.sizes)):
                raise ValueError(f"{name}: sizes of another class")
            file, offset, item = item_of(Index(name, chunk.offsets))
            got, array, begin = read_archive(item)
            if (got, array.shape) != (kind, tuple(chunk.sizes)) or (offset + begin) % 64:
                raise ValueError(f"{name}: {got} {array.shape} at {offset} + {begin}")
            box = tuple(slice(at, at + size) for at, size in zip(chunk.offsets, chunk.sizes,
                                                                 strict=True))
            if filled[box].any():
                raise ValueError(f"{name}: boxes overlap")
            full[box], filled[box] = array, True
            out.boxes[name].append((file, tuple(chunk.offsets), tuple(chunk.sizes)))
        if not filled.all():
            raise ValueError(f"{name}: boxes do not cover it")
        out.tensors[name] = (kind, full)
    if seen != len(places):
        raise ValueError(f"{len(places)} places, {seen} used")
    if sorted(used) != sorted(files):
        raise ValueError(f"files {sorted(files)}, used {sorted(used)}")
    for name, ranges in used.items():
        ranges.sort()
        if any(end > begin for (_, end), (begin, _) in zip(ranges, ranges[1:], strict=False)):
            raise ValueError(f"{name}: items overlap")
    return out


def read_dcp_safetensors(directory: Path) -> tuple[Tensors, dict[str, list[Any]]]:
    """The Hugging Face form, and the boxes by name; types as safetensors calls them."""
    pieces: dict[str, list[tuple[str, str, list[int], np.ndarray]]] = {}
    for path in sorted(directory.glob("*.safetensors")):
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:begin])
        metadata = header.pop("__metadata__")
        if (metadata["DCP_VERSION"], metadata["format"]) != ("1.0", "pt"):
            raise ValueError(f"{path}: {metadata}")
        sharding = json.loads(metadata["DCP_SHARDING_INFO"])
        if sharding.keys() != header.keys():
            raise ValueError(f"{path}: {sorted(sharding)}")
        for name, entry in header.items():
            first, end = entry["data_offsets"]
            width = (end - first) // max(int(np.prod(entry["shape"])), 1)
            array = np.frombuffer(data[begin + first:begin + end],
                                  f"|V{width or 1}").reshape(entry["shape"])
            pieces.setdefault(name, []).append(
                (path.name, entry["dtype"], sharding[name]["saved_offsets"], array))
    tensors: Tensors = {}
    boxes: dict[str, list[Any]] = {}
    for name, parts in pieces.items():
        (kind,) = {part[1] for part in parts}
        shape = np.max([np.add(offsets, array.shape) for _, _, offsets, array in parts], axis=0)
        full = np.zeros([int(size) for size in shape], parts[0][3].dtype)
        filled = np.zeros(full.shape, int)
        for _, _, offsets, array in parts:
            box = tuple(slice(at, at + size) for at, size in zip(offsets, array.shape, strict=True))
            full[box] = array
            filled[box] += 1
        if (filled != 1).any():
            raise ValueError(f"{name}: boxes overlap or have holes")
        tensors[name] = (kind, full)
        boxes[name] = [(file, tuple(offsets), array.shape) for file, _, offsets, array in parts]
    return tensors, boxes
