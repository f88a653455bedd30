# SPDX-License-Identifier: Apache-2.0
"""Reads and writes MindSpore .ckpt files, byte by byte and without protobuf.

Independent of reshardfs on purpose: tests compare the two. Everything is held in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

RECORD_CONTENT_LIMIT = 512 << 20
TRAILER_MARK = b"crc_num"
TRAILER_BYTES = 17

# bfloat16 has no NumPy type: it is carried as uint16, bit for bit. Int4 is held as one int8 an
# element.
NUMPY_TYPES: dict[str, np.dtype] = {
    "Bool": np.dtype(np.uint8),
    "Int4": np.dtype(np.int8),
    "Int8": np.dtype(np.int8),
    "UInt8": np.dtype(np.uint8),
    "Int16": np.dtype("<i2"),
    "UInt16": np.dtype("<u2"),
    "Int32": np.dtype("<i4"),
    "UInt32": np.dtype("<u4"),
    "Int64": np.dtype("<i8"),
    "UInt64": np.dtype("<u8"),
    "Float16": np.dtype("<f2"),
    "BFloat16": np.dtype("<u2"),
    "Float32": np.dtype("<f4"),
    "Float64": np.dtype("<f8"),
}


@dataclass(frozen=True)
class Record:
    """One parameter. Of a "str" record only the content counts; its shape is ()."""

    name: str
    type: str
    shape: tuple[int, ...]
    content: bytes

    def array(self) -> np.ndarray:
        return np.frombuffer(self.content, NUMPY_TYPES[self.type]).reshape(self.shape)


def record_of(name: str, type_name: str, array: np.ndarray) -> Record:
    return Record(name, type_name, tuple(array.shape), array.tobytes())


def destination_record(name: str, type_name: str, array: np.ndarray) -> Record:
    """Like record_of(), but as a conversion writes it: Int4 becomes Int8, as it is held anyway."""
    return record_of(name, "Int8" if type_name == "Int4" else type_name, array)


def string_record(name: str, text: str) -> Record:
    return Record(name, "str", (), text.encode("utf-32-le") or bytes(4))


# --- writing -----------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def encode_value(name: bytes, dims: Iterable[int], type_name: str, content: bytes) -> bytes:
    """One whole record; takes anything, so that tests can write what must be refused."""
    tensor = b"".join(b"\x08" + varint(dim) for dim in dims)
    tensor += bytes_field(2, type_name.encode()) + bytes_field(3, content)
    return bytes_field(1, bytes_field(1, name) + bytes_field(2, tensor))


def encode_record(record: Record, limit: int = RECORD_CONTENT_LIMIT) -> bytes:
    dims = (0,) if record.type == "str" else record.shape
    parts = [record.content[at : at + limit] for at in range(0, len(record.content), limit)]
    return b"".join(encode_value(record.name.encode(), dims, record.type, part) for part in parts)


def encode_checkpoint(
    records: Iterable[Record], *, limit: int = RECORD_CONTENT_LIMIT, trailer: bool = False
) -> bytes:
    data = b"".join(encode_record(record, limit) for record in records)
    if trailer:
        data += TRAILER_MARK + zlib.crc32(data).to_bytes(10, "big")
    return data


# --- reading -----------------------------------------------------------------------------------


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if key & 7 == 0:
            value, at = _read_varint(data, at)
            yield key >> 3, value
        elif key & 7 == 2:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise ValueError(f"field {key >> 3} leaves its message")
            yield key >> 3, data[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {key & 7} does not occur in checkpoints")


def _decode_value(value: memoryview) -> Record:
    name = type_name = ""
    dims: list[int] = []
    content = b""
    for number, field in _fields(value):
        if number == 1:
            name = bytes(field).decode()
        elif number == 2:
            for part, inner in _fields(field):
                if part == 1 and isinstance(inner, int):
                    dims.append(inner)
                elif part == 2:
                    type_name = bytes(inner).decode()
                elif part == 3:
                    content = bytes(inner)
    # Older writers gave scalars one dimension of 0.
    shape = () if dims == [0] else tuple(dims)
    return Record(name, type_name, shape, content)


def _normalized(record: Record) -> Record:
    """Old writers stored bfloat16 as float32: the upper two bytes of each element count."""
    if record.type != "BFloat16":
        return record
    wanted = 2 * int(np.prod(record.shape, dtype=np.int64))
    if len(record.content) != 2 * wanted:
        return record
    return replace(record, content=np.frombuffer(record.content, "<u2")[1::2].tobytes())


def decode_checkpoint(data: bytes) -> list[Record]:
    """The parameters in file order, those written in several records joined."""
    if len(data) >= TRAILER_BYTES and data[-TRAILER_BYTES:].startswith(TRAILER_MARK):
        data = data[:-TRAILER_BYTES]
    records: list[Record] = []
    for _, value in _fields(memoryview(data)):
        record = _decode_value(value)
        if records and records[-1].name == record.name:
            record = replace(record, content=records.pop().content + record.content)
        records.append(record)
    return [_normalized(record) for record in records]


def by_name(data: bytes) -> dict[str, Record]:
    """The same for those who do not care about the order."""
    return {record.name: record for record in decode_checkpoint(data)}
