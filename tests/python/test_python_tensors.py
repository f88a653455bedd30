# SPDX-License-Identifier: Apache-2.0
"""Tensors as NumPy has them: any index, any layout, every element type."""

from __future__ import annotations

import ctypes
import inspect
import os
import pickle
import random
import unittest
from collections.abc import KeysView, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from format_files import TYPES, full_model, random_array, write_safetensors
from mounted import scratch
from python_sets import arrays_only, check_tensors, class_context, opened, options_of, run_unittests_without_mounts, small_set

import reshardfs
from reshardfs.safetensors import safe_open
from web_server import serving

# Source and target; each divides the model's dimensions.
PAIRS = [("tp=4", "tp=2,pp=2"), ("tp=2,dp=2,opt=-1", "tp=4"), ("tp=2,dp=4,opt=2,experts=0", "tp=1"),
         ("tp=2,pp=2", "tp=4,dp=2,opt=-1"), ("tp=1", "tp=2,dp=2,nested=1"), ("tp=4,dp=1,experts=0", "dp=4,opt=4,experts=0"),
         ("tp=8", "tp=1,pp=2"), ("dp=4,opt=-1", "tp=2,dp=2,experts=0")]
INDEXES = 40


def raw(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def random_index(rng: random.Random, shape: tuple[int, ...]) -> Any:
    """An index of integers, slices and '...' that NumPy takes."""
    parts: list[Any] = []
    for length in shape:
        kind = rng.randrange(5)
        if kind == 0 and length:
            parts.append(rng.randrange(-length, length))
        elif kind == 1:
            parts.append(slice(None))
        else:
            ends = [rng.choice([None, rng.randrange(-length - 2, length + 3)]) for _ in range(2)]
            parts.append(slice(*ends, rng.choice([None, 1, 2, 3, -1, -2])))
    cut = rng.randrange(len(parts) + 1)
    if rng.randrange(3) == 0:
        dropped = rng.randrange(len(parts) + 1 - cut)
        parts[cut:cut + dropped] = [...]
    elif rng.randrange(3) == 0:
        parts = parts[:cut]
    return parts[0] if len(parts) == 1 and rng.randrange(2) else tuple(parts)


class Layouts(unittest.TestCase):
    def test_ranks_and_merged_of_random_sets(self) -> None:
        for seed, (src, dst) in enumerate(PAIRS):
            with self.subTest(src=src, dst=dst), small_set(src, dst, seed=seed) as made, opened(made) as checkpoint:
                self.assertEqual(checkpoint.ranks, list(range(made.dst.rank_count)))
                for rank in checkpoint.ranks:
                    check_tensors(self, checkpoint.rank(rank), made.expected(rank))
                check_tensors(self, checkpoint.merged, made.merged())

    def test_any_index_is_as_of_an_array(self) -> None:
        for seed, (src, dst) in enumerate(PAIRS):
            rng = random.Random(seed)
            with small_set(src, dst, seed=seed) as made, opened(made) as checkpoint:
                for rank in checkpoint.ranks:
                    state = checkpoint.rank(rank)
                    for name, record in arrays_only(made.expected(rank)).items():
                        array, tensor = record.array(), state[name]
                        for _ in range(INDEXES if array.ndim > 1 else 4):
                            index = random_index(rng, array.shape)
                            with self.subTest(seed=seed, rank=rank, name=name, index=index):
                                got, want = tensor[index], array[index]
                                self.assertEqual(got.shape, want.shape)
                                self.assertEqual(raw(got), raw(want))

    def test_cast(self) -> None:
        with small_set() as made, opened(made, cast="fp32->fp16") as checkpoint:
            name = "model.tok_embeddings.embedding_weight"
            with np.errstate(over="ignore", invalid="ignore"):
                want = made.merged()[name].array().astype("<f2")
            got = checkpoint.merged[name]
            self.assertEqual(got.dtype, "float16")
            finite = np.isfinite(want)
            np.testing.assert_array_equal(got.numpy()[finite], want[finite])
            np.testing.assert_array_equal(got[1:3, ::2][finite[1:3, ::2]], want[1:3, ::2][finite[1:3, ::2]])


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        directory = class_context(cls, scratch())
        rng = np.random.default_rng(1)
        cls.model = full_model(2) | {"f8.a": ("F8_E4M3", random_array(rng, "u1", (3, 5))),
                                     "f8.b": ("F8_E5M2", random_array(rng, "u1", (2,))),
                                     "f8.c": ("F8_E8M0", random_array(rng, "u1", (5,)))}
        cls.packed = {"f4": ("F4", [2, 4], 4), "f6": ("F6_E3M2", [2, 4], 6), "c64": ("C64", [3], 24)}
        cls.model |= {name: (st, random_array(rng, "u1", (size,))) for name, (st, _, size) in cls.packed.items()}
        write_safetensors(directory / "m.safetensors", cls.model,
                          shapes={name: shape for name, (_, shape, _) in cls.packed.items()})
        cls.checkpoint = class_context(cls, reshardfs.open(directory / "m.safetensors"))
        cls.state = cls.checkpoint.rank(0)

    def test_names_types_shapes_and_bytes(self) -> None:
        plain = {st: mindspore.lower() for mindspore, st, _, _ in TYPES}
        plain |= {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu"}
        self.assertEqual(set(self.state), set(self.model))
        for name, (st, array) in self.model.items():
            if name in self.packed:
                continue
            tensor = self.state[name]
            self.assertEqual((tensor.name, tensor.dtype, tensor.shape, tensor.nbytes),
                             (name, plain[st], array.shape, array.nbytes))
            self.assertEqual((tensor.ndim, tensor.size), (array.ndim, array.size))
            self.assertEqual(bytes(tensor), array.tobytes())

    def test_arrays(self) -> None:
        by_type = {st: descr for _, st, _, descr in TYPES}
        model = {name: self.model[name] for name in self.model if name not in self.packed}
        all_of_it = self.state.numpy(model)
        for name, (st, array) in model.items():
            for got in (self.state[name].numpy(), np.asarray(self.state[name]), all_of_it[name]):
                self.assertEqual(got.shape, array.shape)
                self.assertEqual(got.tobytes(), array.tobytes(), name)
                if st in by_type and not st.startswith("BF"):
                    self.assertEqual(got.dtype.str, by_type[st])
                self.assertTrue(got.flags.writeable)

    def test_array_of_another_type(self) -> None:
        got = np.asarray(self.state["type.UInt8"], dtype=np.float64)
        np.testing.assert_array_equal(got, self.model["type.UInt8"][1])

    def test_dlpack(self) -> None:
        for name in ("type.Float32", "type.Int64", "type.UInt8", "scalar", "nothing"):
            got = np.from_dlpack(self.state[name])
            self.assertEqual((got.shape, got.tobytes()),
                             (self.model[name][1].shape, self.model[name][1].tobytes()))
        self.assertEqual(self.state["type.BFloat16"].__dlpack_device__(), (1, 0))

    def test_dlpack_of_bfloat16_without_another_library(self) -> None:
        """The structure that another library gets; the capsule goes away untaken."""
        capsule = self.state["type.BFloat16"].__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        fields = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                  ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                  ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]
        array = type("Array", (ctypes.Structure,), {"_fields_": fields}).from_address(pointer(capsule, b"dltensor"))
        shape = [array.shape[d] for d in range(array.ndim)]
        self.assertEqual((array.code, array.bits, array.lanes, shape), (4, 16, 1, [4, 3]))
        self.assertEqual([array.strides[d] for d in range(2)], [3, 1])
        self.assertEqual(ctypes.string_at(array.data, 24), self.model["type.BFloat16"][1].tobytes())

    def test_dlpack_refuses_what_it_has_no_type_for(self) -> None:
        for name in ("f8.a", "f4", "f8.c"):
            with self.assertRaisesRegex(BufferError, "no elements of type"):
                self.state[name].__dlpack__()

    def test_dlpack_arguments_of_the_array_api(self) -> None:
        tensor = self.state["type.Float32"]
        names = {"dltensor": ({}, {"max_version": None}, {"max_version": (0, 8)}, {"copy": True}, {"copy": None},
                              {"dl_device": (1, 0)}, {"stream": None}, {"copy": np.bool_(True)}),
                 "dltensor_versioned": ({"max_version": (1, 0)}, {"max_version": (1, 1), "copy": True},
                                        {"max_version": (2, 0), "dl_device": (1, 0), "copy": None})}
        for name, cases in names.items():
            for words in cases:
                self.assertIn(f'"{name}"', repr(tensor.__dlpack__(**words)), words)
        for words in ({"copy": False}, {"copy": np.bool_(False)}, {"dl_device": (2, 0)}, {"dl_device": (1, 1)},
                      {"copy": False, "max_version": (1, 0)}, {"dl_device": (2, 0), "copy": True}):
            with self.subTest(words), self.assertRaises(BufferError) as caught:
                tensor.__dlpack__(**words)
            self.assertIsInstance(caught.exception, reshardfs.Error)
            self.assertIn("parameter 'type.Float32'", str(caught.exception))
        with self.assertRaisesRegex(ValueError, "stream is None, not 1"):
            tensor.__dlpack__(stream=1)
        for words in ({"copy": 1}, {"copy": "no"}, {"dl_device": 1}, {"dl_device": (1,)}, {"dl_device": ("cpu", 0)},
                      {"max_version": 1}, {"max_version": (1, 0, 0)}, {"max_version": "10"}, {"max_version": (1.0, 0)},
                      {"nothing": 1}):
            with self.subTest(words), self.assertRaises(TypeError):
                tensor.__dlpack__(**words)

    def test_versioned_dlpack(self) -> None:
        """Flags say that it is a copy, which may be written to."""
        tensor = self.state["c64"]
        capsule = tensor.__dlpack__(max_version=(1, 0))
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        fields = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                  ("end", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p),
                  ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                  ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64))]
        array = type("Array", (ctypes.Structure,),
                     {"_fields_": fields}).from_address(pointer(capsule, b"dltensor_versioned"))
        self.assertEqual((array.major, array.minor, array.flags), (1, 0, 2))
        self.assertEqual((list(array.device), array.code, array.bits, array.ndim, array.shape[0]), ([1, 0], 5, 64, 1, 3))
        self.assertEqual(ctypes.string_at(array.data, 24), self.model["c64"][1].tobytes())

    def test_types_that_numpy_lacks(self) -> None:
        for name, plain, size in (("f4", "float4_e2m1fn", 4), ("f6", "float6_e3m2fn", 6)):
            tensor = self.state[name]
            self.assertEqual((tensor.dtype, tensor.shape, tensor.nbytes), (plain, (2, 4), size))
            self.assertEqual(bytes(tensor), self.model[name][1].tobytes())
            for call in (tensor.numpy, lambda: tensor[0], lambda: np.asarray(tensor),  # noqa: B023
                         lambda: self.state.numpy([tensor.name])):  # noqa: B023
                with self.assertRaisesRegex(reshardfs.Error, f"parameter '{name}': NumPy has no elements"):
                    call()
        self.assertEqual(self.state["f8.c"].numpy().tobytes(), self.model["f8.c"][1].tobytes())
        self.assertEqual(self.state["c64"].numpy().dtype, np.dtype("<c8"))
        self.assertEqual(self.state["c64"][1:].tobytes(), self.model["c64"][1][8:].tobytes())

    def test_read_into(self) -> None:
        want = self.model["type.Float64"][1]
        for buffer in (bytearray(want.nbytes), np.zeros(want.shape), memoryview(bytearray(want.nbytes + 3))):
            self.assertEqual(self.state["type.Float64"].read_into(buffer), want.nbytes)
            self.assertEqual(bytes(memoryview(buffer).cast("B")[:want.nbytes]), want.tobytes())
        free = bytearray(want.nbytes)
        self.state["type.Float64"].read_into(free)
        free.clear()  # nobody holds it any more
        for wrong in (b"bytes" * 100, np.zeros((99, 99))[:, ::2]):
            with self.assertRaises((BufferError, ValueError)):
                self.state["type.Float64"].read_into(wrong)
        with self.assertRaisesRegex(reshardfs.Error, "the buffer has 5 of 96 bytes"):
            self.state["type.Float64"].read_into(bytearray(5))


class Servers(unittest.TestCase):
    def test_reads_from_a_server_of_the_same_process(self) -> None:
        """It answers only if the interpreter is free meanwhile."""
        with small_set() as made, serving(made.directory) as server:
            options = {"src_strategy": f"{server.url}/src_strategy.ckpt", "dst_strategy": str(made.dst_strategy)}
            with reshardfs.open(f"{server.url}/src", **options) as checkpoint:
                check_tensors(self, checkpoint.rank(1), made.expected(1))
                tensor, array = checkpoint.merged["lm_head.weight"], made.merged()["lm_head.weight"].array()
                self.assertEqual(raw(tensor[1:, 2:5]), raw(array[1:, 2:5]))
                child = os.fork()
                if child == 0:
                    os._exit(0 if raw(tensor[1:, 2:5]) == raw(array[1:, 2:5]) else 1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
            with self.assertRaises(reshardfs.Error) as caught:
                reshardfs.open(f"{server.url}/nothing")
            self.assertEqual(caught.exception.kind, "missing")


class States(unittest.TestCase):
    def test_is_a_mapping(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            state = checkpoint.rank(1)
            self.assertIsInstance(state, Mapping)
            self.assertEqual(len(state), len(made.expected(1)))
            self.assertIn("lm_head.weight", checkpoint.merged)
            self.assertNotIn("no.such", state)
            self.assertNotIn(3, state)
            self.assertIsNone(state.get("no.such"))
            self.assertEqual([tensor.name for tensor in state.values()], list(state))
            self.assertEqual(state.nbytes, sum(tensor.nbytes for tensor in state.values()))

    def test_keys_by_globs(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            state = checkpoint.merged
            self.assertEqual(list(state.keys()), list(state))
            chosen = [name for name in state if name.startswith("model.layers.0.") or name == "lm_head.weight"]
            keys = state.keys("model.layers.0.*", "lm_head.weight")
            self.assertIsInstance(keys, KeysView)
            self.assertEqual(list(keys), chosen)
            self.assertEqual(keys & {"lm_head.weight"}, {"lm_head.weight"})
            with opened(made, include=["model.layers.[!1].*"]) as included:
                self.assertEqual(list(state.keys("model.layers.[!1].*")), list(included.merged))
            self.assertEqual(list(state.keys("no.such", "\udc80\ud800")), [])
            self.assertEqual(set(dict(state)), set(state))
            with self.assertRaisesRegex(TypeError, "is text"):
                state.keys(3)  # type: ignore[arg-type]

    def test_metadata_of_headers(self) -> None:
        with scratch() as directory:
            words = {"format": "pt", "author": "α", "lm_head.weight": "tied"}
            write_safetensors(directory / "model.safetensors", full_model(1), words)
            with reshardfs.open(directory) as checkpoint:
                own = {name: text for name, text in words.items() if name != "format"}
                self.assertEqual((checkpoint.metadata(), checkpoint.merged.metadata()), (own, own))
                self.assertEqual(safe_open(checkpoint).metadata(), {**own, "format": "np"})
        with small_set() as made, opened(made) as checkpoint:
            self.assertEqual(checkpoint.metadata(), {})

    def test_no_whole_model(self) -> None:
        with small_set() as made, opened(made, views="ranks") as checkpoint:
            # Whoever looks at all attributes meets no error.
            for value in (checkpoint, checkpoint.merged, checkpoint.rank(0), next(iter(checkpoint.rank(0).values()))):
                self.assertTrue(dict(inspect.getmembers(value)))
            self.assertIsInstance(checkpoint.merged, reshardfs.State)
            why = "the whole model is not among views="
            for shown in (repr(checkpoint.merged), checkpoint.merged._repr_html_()):
                self.assertIn(why, shown)
            for use in (lambda: checkpoint.merged["lm_head.weight"], lambda: len(checkpoint.merged),
                        lambda: list(checkpoint.merged), checkpoint.merged.numpy, lambda: "x" in checkpoint.merged):
                with self.assertRaisesRegex(reshardfs.Error, why):
                    use()

    def test_texts_are_bytes(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            name = checkpoint.merged["run_name"]
            self.assertFalse(name.is_array)
            self.assertEqual(bytes(name).decode("utf-32-le").rstrip("\0"), "llama α 模型")
            self.assertEqual(name.numpy().dtype, np.uint8)
            self.assertNotIn("run_name", checkpoint.merged.numpy())
            self.assertEqual(checkpoint.merged.numpy(["run_name"])["run_name"].tobytes(), bytes(name))

    def test_only_what_is_asked_for(self) -> None:
        with small_set() as made, opened(made, include=["*wq.weight", "lm_*"], ranks=[1, 3]) as checkpoint:
            self.assertEqual(checkpoint.ranks, [1, 3])
            self.assertEqual(set(checkpoint.rank(3)), {name for name in made.expected(3)
                                                       if name.endswith("wq.weight") or name.startswith("lm_")})

    def test_facts(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            self.assertEqual((checkpoint.step, checkpoint.steps), ("3_100", ["3_100"]))
            self.assertEqual(checkpoint.warnings, [])
            self.assertIsInstance(checkpoint.notes, list)
            self.assertIn("4 ranks", repr(checkpoint))
            with opened(made, ranks=[1]) as one:
                self.assertIn(": 1 rank>", repr(one))
            self.assertIn("rank 0", repr(checkpoint.rank(0)))
            tensor = checkpoint.merged["lm_head.weight"]
            self.assertRegex(repr(tensor), r"'lm_head.weight' float64 \[\d+, \d+\]")
            self.assertEqual(len(tensor), tensor.shape[0])

    def test_pickle_opens_again(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            with pickle.loads(pickle.dumps(checkpoint)) as again:
                self.assertEqual(bytes(again.rank(0)["run_name"]), bytes(checkpoint.rank(0)["run_name"]))

    def test_paths_and_values_of_options(self) -> None:
        with small_set() as made:
            options = {key: Path(value) for key, value in options_of(made).items()}
            with reshardfs.open(Path(made.source), **options, ranks=range(2), step="latest", cast=None,
                                check_crc=False, align=64) as checkpoint:
                self.assertEqual(checkpoint.ranks, [0, 1])


if __name__ == "__main__":
    run_unittests_without_mounts()
