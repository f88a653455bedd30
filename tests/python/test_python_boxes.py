# SPDX-License-Identifier: Apache-2.0
"""Boxes of tensors, many at once, into memory of any strides."""

from __future__ import annotations

import os
import pickle
import random
import unittest
from typing import Any

import numpy as np
from format_files import write_safetensors
from mounted import scratch
from python_sets import opened, run_unittests_without_mounts, small_set
from web_server import serving

import reshardfs
from reshardfs import _core

BOXES = 60


def random_box(rng: random.Random, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    begin = [rng.randrange(length + 1) for length in shape]
    return begin, [rng.randrange(low, length + 1) for low, length in zip(begin, shape)]


def slices(begin: list[int], end: list[int]) -> tuple[slice, ...]:
    return tuple(slice(low, high) for low, high in zip(begin, end))


def strided(rng: random.Random, shape: list[int], dtype: np.dtype) -> np.ndarray:
    """A part of a larger array, with its dimensions in any order, and some backwards."""
    order = rng.sample(range(len(shape)), len(shape))
    larger = np.zeros([shape[d] * 2 + 1 for d in order], dtype).transpose(np.argsort(order))
    return larger[(*(slice(1, 1 + 2 * length, 2) if rng.randrange(2) else slice(0, length) for length in shape), ...)][
        (*(slice(None, None, rng.choice([1, -1])) for _ in shape), ...)]


class Boxes(unittest.TestCase):
    def test_each_is_as_of_an_array(self) -> None:
        rng = random.Random(7)
        with small_set("tp=4", "tp=2,pp=2") as made, opened(made) as checkpoint:
            for state in (checkpoint.merged, checkpoint.rank(1)):
                name = rng.choice([name for name in state.arrays() if state[name].ndim == 2])
                whole = state[name].numpy()
                for _ in range(BOXES):
                    begin, end = random_box(rng, whole.shape)
                    box = state[name].box(begin, end)
                    want = whole[slices(begin, end)]
                    self.assertEqual((box.shape, box.name), (want.shape, name))
                    self.assertEqual(bytes(box), want.tobytes())
                    inner = random_box(rng, box.shape)
                    self.assertEqual(bytes(box.box(*inner)), want[slices(*inner)].tobytes())

    def test_pickle_of_a_box_of_a_box(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            whole = next(tensor for tensor in checkpoint.merged.values() if tensor.ndim == 2)
            box = whole.box([1, 2], whole.shape).box([1, 1], [3, 4])
            self.assertEqual(bytes(pickle.loads(pickle.dumps(box))), whole[2:4, 3:6].tobytes())

    def test_forked_process_reads_the_box(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            box = next(tensor for tensor in checkpoint.merged.values() if tensor.ndim == 2).box([1, 1], [3, 4])
            want = bytes(box)
            child = os.fork()
            if child == 0:
                os._exit(0 if bytes(box) == want else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_refused(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            whole = next(tensor for tensor in checkpoint.merged.values() if tensor.ndim == 2)
            high = [length + 1 for length in whole.shape]
            for begin, end in (([0], [1]), ([0, 0], high), ([1, 0], [0, 1]), ([-1, 0], [1, 1])):
                with self.assertRaises(reshardfs.Error) as caught:
                    whole.box(begin, end)
                self.assertEqual(caught.exception.parameter, whole.name)
            with self.assertRaises(reshardfs.WrongType):
                whole.box([0, 0.5], [1, 1])  # type: ignore[list-item]


class ManyAtOnce(unittest.TestCase):
    def test_into_strides(self) -> None:
        rng = random.Random(11)
        with small_set("tp=4", "tp=2,pp=2") as made, opened(made) as checkpoint:
            state = checkpoint.merged
            arrays = state.numpy()
            for threads in (0, 1, 3):
                parts: list[tuple[reshardfs.Tensor, np.ndarray]] = []
                wanted: list[np.ndarray] = []
                for _ in range(BOXES):
                    name = rng.choice(list(arrays))
                    begin, end = random_box(rng, arrays[name].shape)
                    wanted.append(arrays[name][slices(begin, end)])
                    # NumPy exports no buffer of a type that it does not know: its bits go as integers.
                    whole = np.dtype(f"u{arrays[name].dtype.itemsize}")
                    parts.append((state[name].box(begin, end), strided(rng, list(wanted[-1].shape), whole)))
                reads = checkpoint.read_into_all(parts, threads=threads)
                self.assertEqual(reads.bytes, sum(want.nbytes for want in wanted))
                for (tensor, got), want in zip(parts, wanted):
                    self.assertEqual(got.tobytes(), want.tobytes(), tensor)

    def test_tensor_of_several_pieces(self) -> None:
        """More than one thread reads at once."""
        rows, columns = 3000, 1024
        want = np.random.default_rng(3).integers(0, 1 << 30, (rows, columns), dtype=np.int32)
        with scratch() as directory:
            write_safetensors(directory / "model.safetensors", {"w": ("I32", want)})
            with reshardfs.open(directory) as checkpoint:
                larger = np.zeros((rows, columns + 5), np.int32)
                checkpoint.read_into_all([("w", larger[:, 3:columns + 3])])
                self.assertTrue((larger[:, 3:columns + 3] == want).all())
                self.assertFalse(larger[:, :3].any() or larger[:, columns + 3:].any())
                turned = np.zeros((columns, rows), np.int32)
                checkpoint.read_into_all([("x.w", turned.T)], prefix="x.")
                self.assertTrue((turned.T == want).all())

    def test_reads_no_more_than_the_boxes(self) -> None:
        """Of bands of columns, too: by what the engine reads of the file."""
        with scratch() as directory:
            write_safetensors(directory / "model.safetensors", {"w": ("U8", np.zeros((256, 16384), np.uint8))})
            with reshardfs.open(directory) as checkpoint:
                whole = checkpoint.merged["w"]
                for begin, end in (([0, 0], [64, 16384]), ([0, 4096], [256, 8192]), ([5, 1], [200, 4097])):
                    box = whole.box(begin, end)
                    before = _core.source_bytes()
                    checkpoint.read_into_all([(box, bytearray(box.nbytes))])
                    read = _core.source_bytes() - before
                    self.assertTrue(box.nbytes <= read <= 1.15 * box.nbytes, (begin, end, read, box.nbytes))

    def test_boxes_that_touch_are_fetched_together(self) -> None:
        """From a server, where each request waits."""
        arrays = {f"w{number}": np.random.default_rng(number).integers(0, 256, (64, 1000), np.uint8)
                  for number in range(200)}
        with scratch() as directory, serving(directory) as server:
            write_safetensors(directory / "model.safetensors", {name: ("U8", array) for name, array in arrays.items()})
            with reshardfs.open(f"{server.url}/model.safetensors") as checkpoint:
                rows = {name: np.zeros((16, 1000), np.uint8) for name in arrays}
                parts = [(checkpoint.merged[name].box([16, 0], [32, 1000]), array) for name, array in rows.items()]
                before = len(server.requests)
                checkpoint.read_into_all(parts)
                self.assertLess(len(server.requests) - before, 20)
            for name, array in arrays.items():
                self.assertTrue((rows[name] == array[16:32]).all(), name)

    def test_short_pieces_are_reported(self) -> None:
        with scratch() as directory:
            write_safetensors(directory / "model.safetensors", {"w": ("U8", np.zeros((64, 16384), np.uint8))})
            with reshardfs.open(directory) as checkpoint:
                whole = checkpoint.merged["w"]
                for width, short in ((16384, 0), (4096, 0), (4095, 64 * 4095), (1, 64)):
                    box = whole.box([0, 0], [64, width])
                    self.assertEqual(checkpoint.read_into_all([(box, bytearray(box.nbytes))]), (box.nbytes, short))

    def test_refused(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            tensor = next(iter(checkpoint.merged.values()))
            room = bytearray(tensor.nbytes)
            wrong: list[tuple[Any, type[Exception], str]] = [
                ([(tensor, bytearray(1))], reshardfs.Error, tensor.name),
                ([(tensor, bytes(tensor.nbytes))], BufferError, ""),
                ([("absent", room)], reshardfs.UnknownName, "absent"),
                ([(3, room)], reshardfs.WrongType, "int"), ([3], reshardfs.WrongType, "int"),
            ]
            for parts, error, words in wrong:
                with self.assertRaises(error) as caught:
                    checkpoint.read_into_all([(tensor, room), *parts])
                self.assertIn(words, str(caught.exception))
            self.assertFalse(any(room), "something was read")
            with self.assertRaises(reshardfs.UnknownName):
                checkpoint.read_into_all([(tensor.name, room)], prefix="model/")
        with self.assertRaises(reshardfs.Error):
            checkpoint.read_into_all([(tensor, room)])

    def test_changed_source_fails_and_names_the_tensor(self) -> None:
        with scratch() as directory:
            file = directory / "model.safetensors"
            write_safetensors(file, {"w": ("U8", np.ones(4096, np.uint8))})
            with reshardfs.open(directory) as checkpoint:
                file.write_bytes(file.read_bytes()[:-1] + b"\\0")
                with self.assertRaises(reshardfs.Error) as caught:
                    checkpoint.read_into_all([("w", bytearray(4096))])
                self.assertEqual((caught.exception.kind, caught.exception.parameter), ("changed", "w"))

    def test_prefetch(self) -> None:
        """Changes nothing of what is read, and leaves errors to that."""
        with small_set() as made:
            with opened(made) as checkpoint:
                names = checkpoint.merged.arrays()
                checkpoint.prefetch([*checkpoint.merged.values(), names[0]])
                checkpoint.prefetch([f"m.{name}" for name in names], prefix="m.")
                for name in names:
                    self.assertEqual(bytes(checkpoint.merged[name]), checkpoint.merged[name].numpy().tobytes())
                with self.assertRaises(reshardfs.UnknownName):
                    checkpoint.prefetch(["absent"])


if __name__ == "__main__":
    run_unittests_without_mounts()
