# SPDX-License-Identifier: Apache-2.0
"""Cases of torch_files.py: the form from before PyTorch 1.6, and archives with options."""

from __future__ import annotations

import io
import sys

import torch
from torch_case import CannotSave, Case, KINDS, NEW, OLD, STREAM, case, values
from torch_plain import plain_state, tied_state, views_state
from torch_objects import nested_state, objects_state, register_library


@case(OLD, NEW)
def stream_plain(c: Case) -> None:
    c.tell("the stream from before 1.6")
    c.save(plain_state(), **STREAM)


@case(OLD, NEW)
def stream_tied(c: Case) -> None:
    c.tell("the stream from before 1.6: one storage under several names")
    c.save(tied_state(), **STREAM)


@case(OLD, NEW)
def stream_views(c: Case) -> None:
    c.tell("the stream from before 1.6: views")
    c.save(views_state(), **STREAM)


@case(OLD, NEW)
def stream_nested(c: Case) -> None:
    c.tell("the stream from before 1.6: model and optimizer")
    c.save(nested_state(), "checkpoint.pth", **STREAM)


@case(OLD, NEW)
def stream_objects(c: Case) -> None:
    c.tell("the stream from before 1.6: values of all kinds, and a module with its source text")
    register_library()
    c.save(objects_state(), **STREAM)


@case(OLD, NEW)
def stream_dtypes(c: Case) -> None:
    c.tell("the stream from before 1.6: all types that it can hold")
    state = {}
    for number, kind in enumerate(KINDS):
        tensor = values(number, kind, 3, 2)
        try:
            buffer = io.BytesIO()
            torch.save({"x": tensor}, buffer, **STREAM)
            buffer.seek(0)
            torch.load(buffer)  # newer types can be saved so, and not be loaded
        except Exception as error:  # noqa: BLE001: whatever it says
            print(f"{c.name}: no {kind}: {error}", file=sys.stderr)
            continue
        state[f"type.{kind}"] = tensor
    c.save({**state, "empty": values(1, "F32", 0, 3), "complex": torch.view_as_complex(torch.ones(2, 2))},
           **STREAM)


@case(NEW)
def stream_untyped(c: Case) -> None:
    c.tell("the stream from before 1.6 with types that it has no storage class for: PyTorch can write it and "
           "not read it", must="any", note="refusing is right; what is shown is the same")
    state = {"before": values(1, "F32", 3), "u16": values(2, "U16", 5), "f8": values(3, "F8_E4M3", 3),
             "behind": values(4, "F32", 3)}
    c.save(state, **STREAM)


@case(NEW)
def stream_p4(c: Case) -> None:
    c.tell("the stream from before 1.6 with pickles of protocol 4")
    c.save({"a": plain_state(), "tied": tied_state()}, pickle_protocol=4, **STREAM)


@case(NEW)
def stream_bin(c: Case) -> None:
    c.tell("pytorch_model.bin as a stream, as many older models on hubs are", source="src")
    c.save(plain_state(), "pytorch_model.bin", **STREAM)


@case(NEW)
def aligned(c: Case) -> None:
    c.tell("storages aligned to 1024 bytes")
    try:
        from torch.utils.serialization import config
        config.save.storage_alignment = 1024
    except (ImportError, AttributeError) as error:
        raise CannotSave(str(error)) from error
    c.save(values(1, "F32", 5))
    config.save.storage_alignment = 64


@case(NEW)
def without_crc(c: Case) -> None:
    c.tell("records without true checksums")
    torch.serialization.set_crc32_options(False)
    c.save(plain_state())
    torch.serialization.set_crc32_options(True)


@case(NEW)
def from_buffer(c: Case) -> None:
    c.tell("saved to a buffer: the records lie below archive/")
    buffer = io.BytesIO()
    torch.save(plain_state(), buffer)
    c.src.mkdir(parents=True)
    (c.src / "model.pt").write_bytes(buffer.getvalue())
    c.told["source"] = "src/model.pt"
    c.expect(plain_state())


@case(NEW)
def many(c: Case) -> None:
    c.tell("104 tensors: keys of storages with one, two and three digits, memo of more than 256 values")
    c.save({f"layer.{n:03}.w": values(n, "F32", 1 + n % 3) for n in range(104)})
