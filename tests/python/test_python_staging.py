# SPDX-License-Identifier: Apache-2.0
"""Tensors on their way to a device, which a stand-in takes the place of: it copies as late as it may, so that memory
that is written too early shows, and notes what happens when."""

from __future__ import annotations

import unittest
from collections.abc import Iterable

import numpy as np
from format_files import full_model, write_safetensors
from mounted import scratch
from python_sets import arrays_only, opened, run_unittests_without_mounts, small_set

import reshardfs
from reshardfs import _staging


class LateDevice:
    """Copies from a block when somebody waits for the block, and never before."""

    def __init__(self, tensors: Iterable[reshardfs.Tensor], block_bytes: int, blocks: int) -> None:
        self.tensors = {tensor.name: bytearray(tensor.nbytes) for tensor in tensors}
        self.log: list[tuple[str, int]] = []
        self._memory = [bytearray(block_bytes) for _ in range(blocks)]
        self._begun: list[list[tuple[int, str, int, int]]] = [[] for _ in range(blocks)]

    def memory(self, block: int) -> memoryview:
        self.log.append(("read", block))
        return memoryview(self._memory[block])

    def copy(self, block: int, begin: int, name: str, offset: int, length: int) -> None:
        self._begun[block].append((begin, name, offset, length))

    def copied(self, block: int) -> None:
        self.log.append(("copy", block))

    def wait(self, block: int) -> None:
        self.log.append(("wait", block))
        for begin, name, offset, length in self._begun[block]:
            self.tensors[name][offset:offset + length] = self._memory[block][begin:begin + length]
        self._begun[block].clear()


class Parts(unittest.TestCase):
    def test_they_are_the_tensor_in_order(self) -> None:
        shapes = [(), (1,), (7,), (3, 5), (2, 3, 4), (4, 1, 9), (1, 1, 1), (0, 3), (5, 0)]
        with scratch() as directory:
            model = {f"t{number}": ("F32", np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape))
                     for number, shape in enumerate(shapes)}
            write_safetensors(directory / "m.safetensors", model)
            with reshardfs.open(directory / "m.safetensors") as checkpoint:
                state = checkpoint.rank(0)
                for name, (_, array) in model.items():
                    for most in (1, 4, 8, 12, 20, 48, 1000):
                        with self.subTest(name, most=most):
                            found = b""
                            for part in _staging.parts(state[name], most):
                                self.assertEqual(part.offset, len(found))
                                self.assertLessEqual(part.length, max(most, 4))
                                memory = bytearray(part.length)
                                part.read_into(memoryview(memory))
                                found += memory
                            self.assertEqual(found, array.tobytes())

    def test_they_are_as_large_as_they_may_be(self) -> None:
        with scratch() as directory:
            write_safetensors(directory / "m.safetensors", {"w": ("U8", np.zeros((100, 10), np.uint8))})
            with reshardfs.open(directory / "m.safetensors") as checkpoint:
                lengths = [part.length for part in _staging.parts(checkpoint.rank(0)["w"], 300)]
        self.assertEqual(lengths, [300, 300, 300, 100])


class Transfer(unittest.TestCase):
    def sent(self, state: reshardfs.State, names: Iterable[str], *, block_bytes: int, blocks: int = 2,
             part_bytes: int = 1000) -> LateDevice:
        tensors = [state[name] for name in names]
        device = LateDevice(tensors, block_bytes, blocks)
        _staging.transfer(tensors, device, threads=3, blocks=blocks, block_bytes=block_bytes, part_bytes=part_bytes)
        return device

    def test_every_byte_arrives(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            for rank in checkpoint.ranks:
                records = arrays_only(made.expected(rank))
                for block_bytes, blocks in ((64, 2), (1000, 2), (5000, 3), (1 << 20, 2), (700, 1)):
                    device = self.sent(checkpoint.rank(rank), records, block_bytes=block_bytes, blocks=blocks)
                    for name, record in records.items():
                        self.assertEqual(bytes(device.tensors[name]), record.content, name)

    def test_types_of_all_kinds_arrive(self) -> None:
        with scratch() as directory:
            model = full_model(3)
            write_safetensors(directory / "m.safetensors", model)
            with reshardfs.open(directory / "m.safetensors") as checkpoint:
                device = self.sent(checkpoint.rank(0), model, block_bytes=640)
        for name, (_, array) in model.items():
            self.assertEqual(bytes(device.tensors[name]), array.tobytes(), name)

    def test_a_block_is_read_while_the_one_before_is_copied(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            device = self.sent(checkpoint.merged, checkpoint.merged.arrays(), block_bytes=200)
        reads = [place for place, (what, _) in enumerate(device.log) if what == "read"]
        self.assertGreater(len(reads), 6)
        for number, place in enumerate(reads):
            slot = number % 2
            self.assertEqual(device.log[place], ("read", slot))
            self.assertEqual(device.log[place + 1], ("copy", slot))
            if number >= 2:
                # The block of the same memory has arrived; the other one is on its way.
                self.assertEqual(device.log[place - 1], ("wait", slot))
                self.assertNotIn(("wait", 1 - slot), device.log[reads[number - 1]:place])
        self.assertEqual(sorted(device.log[-2:]), [("wait", 0), ("wait", 1)])

    def test_after_an_error_no_copy_is_left(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            tensors = [checkpoint.merged[name] for name in checkpoint.merged.arrays()]
            device = LateDevice(tensors, 200, 2)
            last = made.source / "rank_3"
            (file,) = last.glob("*.ckpt")
            file.write_bytes(file.read_bytes()[:-100])
            with self.assertRaises(reshardfs.Error) as caught:
                _staging.transfer(tensors, device, threads=2, block_bytes=200, part_bytes=50)
            self.assertIn("rank_3", str(caught.exception))
            waits = {slot: sum(entry == ("wait", slot) for entry in device.log) for slot in (0, 1)}
            copies = {slot: sum(entry == ("copy", slot) for entry in device.log) for slot in (0, 1)}
            self.assertEqual(waits, copies)
            self.assertGreater(sum(copies.values()), 0)


if __name__ == "__main__":
    run_unittests_without_mounts()
