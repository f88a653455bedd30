# SPDX-License-Identifier: Apache-2.0
"""Writes tables of distributed checkpoints (.metadata) of any size, with a few lines of its own:
protocol 4, with the memo, classes and states that torch 2.x and Megatron-Core pickle."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path

META = "torch.distributed.checkpoint.metadata"
FILES = "torch.distributed.checkpoint.filesystem"
PLANNER = "torch.distributed.checkpoint.planner"


class Pickle:
    """Appends the opcodes of values; what is made once is then taken from the memo."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x04")
        self.memo: dict[object, bytes] = {}

    def shared(self, key: object, make: Callable[[], None]) -> None:
        known = self.memo.get(key)
        if known is not None:
            self.out += known
            return
        make()
        number = len(self.memo)
        self.out += b"\x94"
        self.memo[key] = b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)

    def text(self, value: str) -> None:
        data = value.encode()
        self.shared(value, lambda: self.out.extend(b"\x8c" + bytes([len(data)]) + data))

    def glob(self, module: str, name: str) -> None:
        def make() -> None:
            self.text(module)
            self.text(name)
            self.out.extend(b"\x93")
        self.shared((module, name), make)

    def number(self, value: int) -> None:
        if value < 0 or value >= 1 << 31:
            self.out += b"\x8a\x08" + struct.pack("<q", value)
        elif value < 256:
            self.out += b"K" + bytes([value])
        else:
            self.out += b"J" + struct.pack("<i", value)

    def size(self, values: Iterable[int]) -> None:
        self.glob("torch", "Size")
        self.out += b"("
        for value in values:
            self.number(value)
        self.out += b"t\x85R"

    def instance(self, module: str, name: str, **fields: Callable[[], None]) -> None:
        self.glob(module, name)
        self.out += b")\x81}("
        for field, write in fields.items():
            self.text(field)
            write()
        self.out += b"ub"

    def none(self) -> None:
        self.out += b"N"


class Table:
    """Tensors [2 * chunks, 4] of float32, each cut into chunks of two rows."""

    def __init__(self, tensors: int, chunks: int, files: int, item_bytes: int = 1 << 10) -> None:
        self.tensors, self.chunks, self.files = tensors, chunks, files
        self.height, self.width = 2, 4
        self.item_bytes = item_bytes
        self.pickle = Pickle()

    def name(self, tensor: int) -> str:
        return f"model.layers.{tensor}.weight"

    def place(self, tensor: int, chunk: int) -> tuple[str, int]:
        number = tensor * self.chunks + chunk
        return f"__{number % self.files}_0.distcp", number // self.files * self.item_bytes

    def offsets(self, chunk: int) -> tuple[int, int]:
        return chunk * self.height, 0

    def index(self, tensor: int, chunk: int) -> None:
        p = self.pickle
        p.instance(META, "MetadataIndex", fqn=lambda: p.text(self.name(tensor)),
                   offset=lambda: p.size(self.offsets(chunk)), index=lambda: p.number(chunk))

    def chunk(self, chunk: int) -> None:
        p = self.pickle
        p.instance(META, "ChunkStorageMetadata", offsets=lambda: p.size(self.offsets(chunk)),
                   sizes=lambda: p.size((self.height, self.width)))

    def properties(self) -> None:
        p = self.pickle
        p.glob(META, "TensorProperties")
        p.out += b")\x81("
        p.glob("torch", "float32")
        p.glob("torch.serialization", "_get_layout")
        p.text("torch.strided")
        p.out += b"\x85R\x89"
        p.glob(META, "_MEM_FORMAT_ENCODING")
        p.number(0)
        p.out += b"\x85R\x89tb"

    def full(self) -> None:
        self.pickle.size((self.chunks * self.height, self.width))

    def each(self, visit: Callable[[int, int], None]) -> None:
        for tensor in range(self.tensors):
            for chunk in range(self.chunks):
                visit(tensor, chunk)

    def listed(self) -> None:
        p = self.pickle
        p.out += b"}("
        for tensor in range(self.tensors):
            p.text(self.name(tensor))

            def chunks() -> None:
                p.out.extend(b"](")
                for chunk in range(self.chunks):
                    self.chunk(chunk)
                p.out.extend(b"e")
            p.instance(META, "TensorStorageMetadata", properties=self.properties, size=self.full,
                       chunks=chunks)
        p.out += b"u"

    def places(self) -> None:
        p = self.pickle
        p.out += b"}("

        def visit(tensor: int, chunk: int) -> None:
            file, offset = self.place(tensor, chunk)
            self.index(tensor, chunk)
            p.instance(FILES, "_StorageInfo", relative_path=lambda: p.text(file),
                       offset=lambda: p.number(offset), length=lambda: p.number(self.item_bytes))
        self.each(visit)
        p.out += b"u"

    def plans(self) -> None:
        """What Megatron-Core adds: the plan of each rank, larger than all else."""
        p = self.pickle
        p.out += b"]("

        def item(tensor: int, chunk: int) -> None:
            p.instance(PLANNER, "WriteItem", index=lambda: self.index(tensor, chunk),
                       type=lambda: self.kind(), bytes_io_data=p.none,
                       tensor_data=lambda: p.instance(
                           PLANNER, "TensorWriteData", chunk=lambda: self.chunk(chunk),
                           properties=self.properties, size=self.full))
        p.glob(PLANNER, "SavePlan")
        p.out += b")\x81}("
        p.text("items")
        p.out += b"]("
        self.each(item)
        p.out += b"eub"
        p.out += b"e"

    def kind(self) -> None:
        p = self.pickle
        p.glob(PLANNER, "WriteItemType")
        p.number(2)
        p.out += b"\x85R"

    def write(self, directory: Path, with_plans: bool = False) -> int:
        """Also makes the files, which are holes. Returns the bytes of the table."""
        p = self.pickle
        fields = {"state_dict_metadata": self.listed, "planner_data": p.none,
                  "storage_data": self.places}
        if with_plans:
            fields["all_local_plans"] = self.plans
        p.instance(META, "Metadata", **fields)
        p.out += b"."
        (directory / ".metadata").write_bytes(p.out)
        most = (self.tensors * self.chunks + self.files - 1) // self.files * self.item_bytes
        for number in range(self.files):
            with (directory / f"__{number}_0.distcp").open("wb") as file:
                file.truncate(most)
        return len(p.out)
