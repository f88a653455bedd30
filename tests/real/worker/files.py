# SPDX-License-Identifier: Apache-2.0
"""Reads .ckpt and safetensors files without MindSpore and without reshardfs: {name: Entry}, in the file's order."""

import collections
import json

# type: MindSpore's name of it; content: the bytes; of a "str", the text in UTF-32.
Entry = collections.namedtuple("Entry", "type shape content")

SAFETENSORS_TYPES = {
    "BOOL": "Bool", "I8": "Int8", "U8": "UInt8", "I16": "Int16", "U16": "UInt16", "I32": "Int32", "U32": "UInt32",
    "I64": "Int64", "U64": "UInt64", "F16": "Float16", "BF16": "BFloat16", "F32": "Float32", "F64": "Float64",
    "C64": "Complex64",
}


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data):
    """(number, value) of each field of a message: an int, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        elif key & 7 == 2:
            length, at = _varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            raise AssertionError("field of wire type %d" % (key & 7))
        yield key >> 3, value


def read_ckpt(data):
    if data[-17:-10] == b"crc_num":
        data = data[:-17]
    entries = {}
    for _, record in _fields(data):
        name, tensor = (value for _, value in _fields(record))
        shape, kind, content = [], None, b""
        for number, value in _fields(tensor):
            if number == 1:
                shape.append(value)
            elif number == 2:
                kind = value.decode()
            else:
                content = value
        # Old files write a scalar's shape as [0].
        if shape == [0] and content and kind != "str":
            shape = []
        entry = Entry(kind, tuple(shape), content)
        assert name.decode() not in entries, "%s is twice in the file" % name.decode()
        entries[name.decode()] = entry
    return entries


def read_safetensors(data):
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length].decode())
    metadata = header.pop("__metadata__", {})
    entries = {}
    for name, tensor in header.items():
        start, end = tensor["data_offsets"]
        kind = metadata[name] if metadata.get(name) == "Int4" else SAFETENSORS_TYPES[tensor["dtype"]]
        entries[name] = Entry(kind, tuple(tensor["shape"]), data[8 + length + start:8 + length + end])
    return entries


def read(path):
    data = path.read_bytes()
    return read_ckpt(data) if path.suffix == ".ckpt" else read_safetensors(data)


def assert_equal(found, expected, where):
    """The same names, types, shapes and bytes, in any order."""
    assert set(found) == set(expected), "%s: has %s more and %s less" % (
        where, sorted(set(found) - set(expected))[:5], sorted(set(expected) - set(found))[:5])
    for name, entry in expected.items():
        other = found[name]
        assert (other.type, other.shape) == (entry.type, entry.shape), "%s: %s is %s %s, not %s %s" % (
            where, name, other.type, other.shape, entry.type, entry.shape)
        assert other.content == entry.content, "%s: %s has other bytes" % (where, name)


def same_bytes(one, other):
    return one.read_bytes() == other.read_bytes()
