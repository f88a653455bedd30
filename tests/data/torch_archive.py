# SPDX-License-Identifier: Apache-2.0
"""Writes files as torch.save does, without PyTorch: the pickle opcode by opcode, the zip archive, and the
stream from before 1.6. What no pickler would write can be asked for, too."""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

STORAGES = {"F64": "DoubleStorage", "F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage",
            "I64": "LongStorage", "I32": "IntStorage", "I16": "ShortStorage", "I8": "CharStorage",
            "U8": "ByteStorage", "BOOL": "BoolStorage", "C64": "ComplexFloatStorage"}
UNTYPED = {"U16": "uint16", "U32": "uint32", "U64": "uint64", "F8_E4M3": "float8_e4m3fn",
           "F8_E5M2": "float8_e5m2"}
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
         "U16": 2, "U32": 4, "U64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8}
ALIGNMENT = 64
MAGIC = 0x1950a86a20f9469cfc6c
STREAM_VERSION = 1001


@dataclass(frozen=True)
class Global:
    module: str
    name: str


@dataclass(eq=False)
class Call:
    """What a callee makes of arguments: by REDUCE, or by NEWOBJ as of a class."""
    callee: Any
    args: tuple[Any, ...] = ()
    state: Any = None
    items: dict[Any, Any] | None = None
    new: bool = False
    built: bool = False  # BUILD though the state is None


@dataclass(frozen=True)
class Raw:
    """Opcodes as they are; they leave one value on the stack."""
    opcodes: bytes


@dataclass(eq=False)
class Storage:
    kind: str
    data: bytes
    said: int | None = None  # another number of elements than there are
    key: str | None = None

    @property
    def elements(self) -> int:
        return len(self.data) // SIZES[self.kind] if self.said is None else self.said


@dataclass(eq=False)
class Stored:
    """A tensor over a storage."""
    storage: Storage
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    offset: int = 0
    grad: bool = False
    metadata: dict[str, Any] | None = None


def rows_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of C order, as PyTorch has them."""
    stride = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        stride[axis] = stride[axis + 1] * max(shape[axis + 1], 1)
    return tuple(stride)


def stored(array: np.ndarray, kind: str = "F32") -> Stored:
    """A tensor that has a storage of its own."""
    return Stored(Storage(kind, np.ascontiguousarray(array).tobytes()), array.shape)


def parameter(tensor: Stored) -> Call:
    return Call(Global("torch._utils", "_rebuild_parameter"), (tensor, True, ordered({})))


def ordered(items: dict[Any, Any], attributes: dict[str, Any] | None = None) -> Call:
    return Call(Global("collections", "OrderedDict"), (), attributes, items or None)


def size(shape: tuple[int, ...]) -> Call:
    return Call(Global("torch", "Size"), (tuple(shape),))


@dataclass
class Pickle:
    """One pickle of protocol 2, and the storages that it names."""
    stream: bool = False  # persistent names of six entries
    out: bytearray = field(default_factory=lambda: bytearray(b"\x80\x02"))
    storages: dict[str, Storage] = field(default_factory=dict)
    memo: dict[Any, int] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    count: int = 0

    def put(self, key: Any = None) -> None:
        if key is not None:
            self.memo[key] = self.count
        number = self.count
        self.out += b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)
        self.count += 1

    def got(self, key: Any) -> bool:
        number = self.memo.get(key)
        if number is None:
            return False
        self.out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)
        return True

    def finished(self, value: Any) -> bytes:
        self.add(value)
        return bytes(self.out + b".")

    def add(self, value: Any) -> None:
        if value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            self.add_int(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            if not self.got(("str", value)):
                text = value.encode("utf-8", "surrogatepass")
                self.out += b"X" + struct.pack("<I", len(text)) + text
                self.put(("str", value))
        elif isinstance(value, Raw):
            self.out += value.opcodes
        elif isinstance(value, Global):
            if not self.got(value):
                self.out += f"c{value.module}\n{value.name}\n".encode()
                self.put(value)
        elif isinstance(value, Stored):
            self.add_tensor(value)
        elif value == () and isinstance(value, tuple):
            self.out += b")"
        elif not self.got(id(value)):
            self.kept.append(value)
            self.add_container(value)

    def add_int(self, value: int) -> None:
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -2**31 <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.out += b"\x8a" + bytes([len(data)]) + data

    def add_container(self, value: Any) -> None:
        if isinstance(value, tuple):
            if len(value) > 3:
                self.out += b"("
            for element in value:
                self.add(element)
            self.out += b"t" if len(value) > 3 else bytes([0x84 + len(value)])
            self.put(id(value))
        elif isinstance(value, list):
            self.out += b"]"
            self.put(id(value))
            if value:
                self.out += b"("
                for element in value:
                    self.add(element)
                self.out += b"e"
        elif isinstance(value, dict):
            self.out += b"}"
            self.put(id(value))
            self.add_items(value)
        elif isinstance(value, Call):
            self.add(value.callee)
            self.add(value.args)
            self.out += b"\x81" if value.new else b"R"
            self.put(id(value))
            self.add_items(value.items or {})
            if value.state is not None or value.built:
                self.add(value.state)
                self.out += b"b"
        else:
            raise TypeError(f"no opcodes for {type(value).__name__}")

    def add_items(self, items: dict[Any, Any]) -> None:
        if not items:
            return
        self.out += b"("
        for key, element in items.items():
            self.add(key)
            self.add(element)
        self.out += b"u"

    def add_tensor(self, tensor: Stored) -> None:
        storage = tensor.storage
        if storage.key is None or self.storages.get(storage.key) is not storage:
            storage.key = str(len(self.storages) if not self.stream else 94_000_000 + 64 * len(self.storages))
            self.storages[storage.key] = storage
        untyped = storage.kind in UNTYPED
        kind = Global("torch.storage", "UntypedStorage") if untyped else Global("torch",
                                                                                STORAGES[storage.kind])
        number = len(storage.data) if untyped and storage.said is None else storage.elements
        name: tuple[Any, ...] = ("storage", kind, storage.key, "cpu", number)
        if self.stream:
            name += (None,)
        self.add(Global("torch._utils", "_rebuild_tensor_v3" if untyped else "_rebuild_tensor_v2"))
        self.out += b"("
        self.add(name)
        self.out += b"Q"
        stride = rows_of(tensor.shape) if tensor.stride is None else tensor.stride
        for argument in (tensor.offset, tensor.shape, stride, tensor.grad, ordered({})):
            self.add(argument)
        if untyped:
            self.add(Global("torch", UNTYPED[storage.kind]))
        if tensor.metadata is not None:
            self.add(tensor.metadata)
        self.out += b"tR"
        self.put()


def write_members(path: Path, members: list[tuple[str, bytes]], *, method: int = zipfile.ZIP_STORED) -> None:
    """A zip archive whose records begin at multiples of 64 bytes, as PyTorch's do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = method
            assert archive.fp is not None
            begin = archive.fp.tell() + 30 + len(name.encode()) + 4
            padding = -begin % ALIGNMENT
            entry.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
            archive.writestr(entry, data)


def members_of(value: Any, prefix: str) -> list[tuple[str, bytes]]:
    pickle = Pickle()
    members = [(f"{prefix}/data.pkl", pickle.finished(value)), (f"{prefix}/byteorder", b"little")]
    members += [(f"{prefix}/data/{key}", storage.data) for key, storage in pickle.storages.items()]
    return members + [(f"{prefix}/version", b"3\n")]


def write_archive(path: Path, value: Any) -> None:
    """As torch.save(value, path)."""
    write_members(path, members_of(value, path.stem))


def write_stream(path: Path, value: Any) -> None:
    """The same, as before 1.6."""
    pickle = Pickle(stream=True)
    body = pickle.finished(value)
    keys = sorted(pickle.storages)
    sizes = {"short": 2, "int": 4, "long": 4}
    about = {"protocol_version": STREAM_VERSION, "little_endian": True, "type_sizes": sizes}
    out = io.BytesIO()
    for head in (MAGIC, STREAM_VERSION, about):
        out.write(Pickle().finished(head))
    out.write(body)
    out.write(Pickle().finished(keys))
    for key in keys:
        storage = pickle.storages[key]
        out.write(struct.pack("<q", storage.elements) + storage.data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(out.getvalue())
