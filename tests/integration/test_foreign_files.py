# SPDX-License-Identifier: Apache-2.0
"""Files of other programs, and what is no file of a checkpoint: as a source, in the directory of a rank
and in that of a model, each is called what it is, with advice that fits its framework."""

from __future__ import annotations

import io
import pickle
import shutil
import sys
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from mounted import one_line, run, run_unittests, scratch  # noqa: E402

GOOD = encode_checkpoint([record_of("w", "Float32", np.ones((2, 4), "<f4"))])


def torch_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
        archive.writestr("archive/version", "3")
    return out.getvalue()


def numpy_file(*, several: bool) -> bytes:
    out = io.BytesIO()
    np.savez(out, w=np.ones(3)) if several else np.save(out, np.ones(3))
    return out.getvalue()


NUMPY = ("NumPy", "safetensors.numpy")
# Name, content, words that the line has, whether a program keeps a model in such files.
KINDS: list[tuple[str, bytes, tuple[str, ...], bool]] = [
    ("model.pt", torch_zip(), ("has no tensor, but a dictionary",), False),
    ("pytorch_model.bin", torch_zip(), ("has no tensor, but a dictionary",), False),
    ("lightning.ckpt", torch_zip(), ("has no tensor, but a dictionary",), False),
    ("old.pth", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(99), ("the pickle is refused",), False),
    ("weights.pkl", pickle.dumps({"w": list(range(99))}), ("a Python pickle", "any code"), True),
    ("arrays.npz", numpy_file(several=True), ("an .npz archive of NumPy", *NUMPY), True),
    ("array.npy", numpy_file(several=False), ("a NumPy array", *NUMPY), True),
    ("model.gguf", b"GGUF\x03\0\0\0" + bytes(range(256)), ("a GGUF file", "llama.cpp"), True),
    ("model.onnx", b"\x08\x07\x12\x07pytorch\x1a\x032.0:\x80\x01" + b"x" * 200, ("an ONNX model",), True),
    ("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(99), ("an HDF5 file", "Keras"), True),
    ("flax_model.msgpack", b"\x81\xa6params\x82\xa5dense\xc7" + b"\xff" * 99, ("msgpack", "safetensors.flax"), True),
    ("pointer.safetensors", b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n",
     ("a pointer of Git LFS", "git lfs pull"), False),
    ("._model.safetensors", b"\0\x05\x16\x07\0\x02\0\0Mac OS X        " + bytes(99), ("macOS", "delete it"), False),
    ("empty.safetensors", b"", ("empty", "copy it again"), False),
    ("empty.ckpt", b"", ("empty", "copy it again"), False),
    ("cut.ckpt", GOOD[:-5], ("parameter 'w'", "damaged or not complete"), False),
    ("noise.dat", bytes([0x9f, 3, 200, 17] * 50), ("is no checkpoint file", "9f 03 c8 11"), False),
]


class ForeignFiles(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())

    def line(self, *words: str | Path) -> str:
        result = run(*words)
        self.assertEqual(result.code, 2, result)
        line = one_line(result)
        for parser in ("wire type", "more than 64 bits", "header of", "field number"):
            self.assertNotIn(parser, line)
        return line

    def test_as_a_source(self) -> None:
        for name, data, says, _ in KINDS:
            path = self.directory / name
            path.write_bytes(data)
            for command in (["inspect", path], ["export", path, self.directory / "out"]):
                with self.subTest(name, command=command[0]):
                    line = self.line(*command)
                    for word in (name, *says):
                        self.assertIn(word, line)

    def test_in_place_of_a_rank(self) -> None:
        """With the name of a checkpoint file."""
        for name, data, says, _ in KINDS:
            root = self.directory / "ranks"
            shutil.rmtree(root, ignore_errors=True)
            for rank, content in enumerate((GOOD, data)):
                (root / f"rank_{rank}").mkdir(parents=True)
                (root / f"rank_{rank}/net.ckpt").write_bytes(content)
            with self.subTest(name):
                line = self.line("inspect", root)
                for word in ("rank_1/net.ckpt", *says):
                    self.assertIn(word, line)

    def test_in_the_directory_of_a_model(self) -> None:
        for name, data, says, is_model in KINDS:
            if not is_model or name.endswith(".ckpt"):
                continue
            for below in ("hub", "ranks/rank_0"):
                root = self.directory / below
                shutil.rmtree(root, ignore_errors=True)
                root.mkdir(parents=True)
                (root / name).write_bytes(data)
                with self.subTest(name, below=below):
                    line = self.line("inspect", self.directory / below.split("/")[0])
                    self.assertIn(name, line)
                    self.assertNotIn("MindSpore", line)
                    self.assertTrue("torch.save" in line or says[0] in line, line)

    def test_a_sound_file_is_not_damaged(self) -> None:
        """verify does not know it: that is no finding about it."""
        for name, data, says, is_model in KINDS:
            if not is_model:
                continue
            path = self.directory / name
            path.write_bytes(data)
            with self.subTest(name):
                result = run("verify", path)
                self.assertEqual((result.code, result.stdout), (2, ""), result)
                line = one_line(result)
                self.assertIn(says[0], line)
                self.assertNotIn("damaged", line)

    def test_a_directory_of_orbax(self) -> None:
        (self.directory / "step_1").mkdir()
        (self.directory / "step_1/_METADATA").write_text("{}")
        line = self.line("inspect", self.directory / "step_1")
        for word in ("Orbax", "safetensors.flax"):
            self.assertIn(word, line)


if __name__ == "__main__":
    run_unittests()
