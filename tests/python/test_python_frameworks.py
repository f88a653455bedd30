# SPDX-License-Identifier: Apache-2.0
"""PyTorch, MindSpore, and programs that are written for safetensors."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
from format_files import full_model, write_safetensors
from mounted import scratch
from python_sets import arrays_only, opened, options_of, run_unittests_without_mounts, small_set

import reshardfs

SECONDS = 120.0
TORCH = unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")
# What reshardfs.mindspore needs of MindSpore.
MINDSPORE = """
import numpy
bfloat16 = "bfloat16"
class Tensor:
    def __init__(self, array, dtype=None):
        self.array, self.dtype = array, dtype or array.dtype.name
    @staticmethod
    def from_numpy(array):
        return Tensor(array)
class Parameter:
    def __init__(self, tensor, name):
        self.tensor, self.name = tensor, name
"""


def raw(tensor: object) -> bytes:
    """The bytes of a tensor of PyTorch."""
    import torch
    assert isinstance(tensor, torch.Tensor)
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""


class Imports(unittest.TestCase):
    def test_the_package_imports_none_of_them(self) -> None:
        code = ("import sys, reshardfs\n"
                "print([name for name in ('numpy', 'torch', 'mindspore', 'fsspec') if name in sys.modules])")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS,
                              check=True)
        self.assertEqual(done.stdout, "[]\n")


@TORCH
class Torch(unittest.TestCase):
    def test_load_gives_the_state_of_a_rank(self) -> None:
        import reshardfs.torch
        with small_set() as made, opened(made) as checkpoint:
            for rank in checkpoint.ranks:
                records = arrays_only(made.expected(rank))
                known = {name for name, record in records.items() if not record.type.startswith("UInt")
                         or record.type == "UInt8"}
                state = reshardfs.torch.load(checkpoint, rank, names=known)
                self.assertEqual(set(state), known)
                for name, tensor in state.items():
                    self.assertEqual(tuple(tensor.shape), tuple(records[name].shape))
                    self.assertEqual(raw(tensor), records[name].content, name)

    def test_load_takes_what_open_takes(self) -> None:
        import reshardfs.torch
        with small_set() as made, opened(made) as checkpoint:
            chosen = {"include": ["*wq.weight", "*wo.weight"]}
            whole = reshardfs.torch.load(made.source, **options_of(made), **chosen)
            want = {name for name in made.merged() if name.endswith(("wq.weight", "wo.weight"))}
            self.assertEqual(set(whole), want)
            again = reshardfs.torch.load(checkpoint.merged, names=want, threads=1, device="cpu")
            for name in want:
                self.assertEqual(raw(whole[name]), raw(again[name]))

    def test_types(self) -> None:
        import torch
        import reshardfs.torch
        with scratch() as directory:
            model = full_model(3)
            write_safetensors(directory / "m.safetensors", model)
            with reshardfs.open(directory / "m.safetensors") as checkpoint:
                state = checkpoint.rank(0)
                for name, (st, array) in model.items():
                    if st in ("U16", "U32", "U64") and not hasattr(torch, "uint16"):
                        with self.assertRaisesRegex(reshardfs.Error, "has no elements of type uint"):
                            reshardfs.torch.tensor(state[name])
                        continue
                    tensor = reshardfs.torch.tensor(state[name])
                    self.assertEqual((tuple(tensor.shape), raw(tensor)), (array.shape, array.tobytes()), name)
                self.assertEqual(reshardfs.torch.tensor(state["type.BFloat16"]).dtype, torch.bfloat16)
                self.assertEqual(reshardfs.torch.tensor(state["type.Bool"]).dtype, torch.bool)

    def test_from_dlpack(self) -> None:
        import torch
        with small_set() as made, opened(made) as checkpoint:
            for name in ("model.layers.0.attention.wo.weight", "lm_head.weight"):
                tensor = torch.from_dlpack(checkpoint.merged[name])
                self.assertEqual(raw(tensor), made.merged()[name].content)

    def test_shares_the_memory_that_was_read_into(self) -> None:
        import reshardfs.torch
        with small_set() as made, opened(made) as checkpoint:
            tensor = reshardfs.torch.load(checkpoint, names=["lm_head.weight"])["lm_head.weight"]
            array = tensor.numpy()
            tensor[0, 0] = 7.0
            self.assertEqual(array[0, 0], 7.0)

    def test_another_device(self) -> None:
        import torch
        import reshardfs.torch
        with small_set() as made, opened(made) as checkpoint:
            name = "lm_head.weight"
            tensor = reshardfs.torch.load(checkpoint, names=[name], device=torch.device("meta"))[name]
            self.assertEqual((tensor.device.type, tuple(tensor.shape)), ("meta", checkpoint.merged[name].shape))


class MindSpore(unittest.TestCase):
    def test_load_gives_parameters(self) -> None:
        """A stand-in, as MindSpore is in no Debian package."""
        with small_set() as made, scratch() as directory:
            (directory / "mindspore.py").write_text(MINDSPORE)
            code = f"""
import sys
sys.path.insert(0, {str(directory)!r})
import numpy
import reshardfs.mindspore
loaded = reshardfs.mindspore.load({str(made.source)!r}, 1, **{options_of(made)!r})
for name, parameter in loaded.items():
    array = parameter.tensor.array
    if parameter.tensor.dtype == "bfloat16":
        array = (array.view("<u4") >> 16).astype("<u2")
    assert parameter.name == name
    sys.stdout.buffer.write(name.encode() + b"\\0" + array.tobytes().hex().encode() + b"\\n")
"""
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=SECONDS, check=False)
            self.assertEqual(done.stderr, b"")
            got = {line.split(b"\0")[0].decode(): bytes.fromhex(line.split(b"\0")[1].decode())
                   for line in done.stdout.splitlines()}
            self.assertEqual(got, {name: record.content for name, record in arrays_only(made.expected(1)).items()})


class SafeOpen(unittest.TestCase):
    def test_numpy(self) -> None:
        from reshardfs.safetensors import safe_open
        with small_set() as made, safe_open(made.source, "np", rank=2, **options_of(made)) as file:
            records = arrays_only(made.expected(2))
            self.assertEqual(set(file.keys()), set(records))
            self.assertEqual(file.metadata(), {"format": "np"})
            for name, record in records.items():
                self.assertEqual(file.get_tensor(name).tobytes(), record.content)
                part = file.get_slice(name)
                self.assertEqual(part.get_shape(), list(record.shape))
                if len(record.shape) > 1:
                    self.assertEqual(part[1:, ::2].tobytes(), np.ascontiguousarray(record.array()[1:, ::2]).tobytes())

    def test_types_are_named_as_in_headers(self) -> None:
        from reshardfs.safetensors import safe_open
        with scratch() as directory:
            model = full_model(4)
            write_safetensors(directory / "m.safetensors", model)
            with safe_open(Path(directory / "m.safetensors")) as file:
                for name, (st, _) in model.items():
                    self.assertEqual(file.get_slice(name).get_dtype(), st)

    @TORCH
    def test_torch(self) -> None:
        import torch
        from reshardfs.safetensors import safe_open
        with small_set() as made, opened(made) as checkpoint, safe_open(checkpoint, framework="pt") as file:
            name = "model.layers.0.attention.wo.weight"
            self.assertEqual(file.metadata(), {"format": "pt"})
            tensor = file.get_tensor(name)
            self.assertEqual((tensor.dtype, raw(tensor)), (torch.bfloat16, made.merged()[name].content))
            part = file.get_slice(name)[2:, 1:5]
            self.assertTrue(torch.equal(part.view(torch.int16), tensor[2:, 1:5].contiguous().view(torch.int16)))
            self.assertFalse(checkpoint.closed)

    def test_refuses(self) -> None:
        from reshardfs.safetensors import safe_open
        with small_set() as made, opened(made) as checkpoint:
            with self.assertRaisesRegex(reshardfs.Error, "no framework 'tf'"):
                safe_open(checkpoint, "tf")
            with safe_open(checkpoint) as file, self.assertRaises(KeyError):
                file.get_tensor("no")


if __name__ == "__main__":
    run_unittests_without_mounts()
