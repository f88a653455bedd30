# SPDX-License-Identifier: Apache-2.0
"""The files of a mount as file objects, through fsspec, and what notebooks show."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import random
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from mounted import run
from python_sets import class_context, opened, options_of, run_unittests_without_mounts, small_set

import reshardfs

NAME = "rank_1/checkpoint_1.ckpt"


class Files(unittest.TestCase):
    def test_all_have_the_bytes_that_cat_prints(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            words = [f"--{name.replace('_', '-')}={value}" for name, value in options_of(made).items()]
            hashes = {}
            for line in run("hash", made.source, *words).stdout.splitlines():
                value, name = line.split(maxsplit=1)
                hashes[name.lstrip("*")] = value
            self.assertGreater(len(hashes), 3)
            for name, value in hashes.items():
                with checkpoint.file(name) as file:
                    self.assertEqual(hashlib.sha256(file.read()).hexdigest(), value, name)

    def test_seeks_and_reads_as_files_do(self) -> None:
        with small_set(scale=16) as made, opened(made) as checkpoint:
            with checkpoint.file(NAME) as file:
                like = io.BytesIO(file.read())
                file.seek(0)
                self.assertEqual(len(like.getvalue()), checkpoint.files()[NAME])
                self.assertEqual((file.readable(), file.seekable(), file.writable()), (True, True, False))
                self.assertEqual((file.name, file.mode), (NAME, "rb"))
                rng = random.Random(4)
                size = len(like.getvalue())
                for _ in range(300):
                    whence = rng.randrange(3)
                    offset = rng.randrange(size + 50) - (0, like.tell(), size)[whence]
                    if rng.randrange(2):
                        self.assertEqual(file.seek(offset, whence), like.seek(offset, whence))
                    count = rng.choice([0, 1, 17, 5000, -1])
                    self.assertEqual(file.read(count), like.read(count))
                    self.assertEqual(file.tell(), like.tell())
                with self.assertRaises(ValueError):
                    file.seek(-1)
            with self.assertRaises(ValueError):
                file.read()

    def test_closed_files_refuse_as_others_do(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            path = made.source_files(0)[0]
            for unbuffered in (False, True):
                file, like = checkpoint.file(NAME), path.open("rb", buffering=0 if unbuffered else -1)
                if unbuffered:
                    file = file.detach()
                for each in (file, like):
                    each.close()
                    each.close()
                for name, words in (("tell", ()), ("seek", (0,)), ("read", ()), ("read", (1,)), ("readline", ()),
                                    ("readinto", (bytearray(3),)), ("readlines", ()), ("readable", ()), ("seekable", ()),
                                    ("__enter__", ()), ("__next__", ()), ("readall" if unbuffered else "peek", ()),
                                    ("isatty", ())):
                    with self.subTest(name, unbuffered=unbuffered):
                        with self.assertRaises(ValueError):
                            getattr(like, name)(*words)
                        with self.assertRaises(ValueError):
                            getattr(file, name)(*words)
                with self.assertRaises((ValueError, OSError)):
                    file.fileno()
                self.assertTrue(file.closed)

    def test_arguments_of_wrong_types(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            for file in (checkpoint.file(NAME), checkpoint.file(NAME).detach()):
                for words in ((1.5,), ("1",), (None,), (0, 1.5), (0, None), (0, "0")):
                    with self.subTest(words), self.assertRaises(TypeError):
                        file.seek(*words)
                for words in ((2**70,), (-1,), (0, 7), (-2**70, 1)):
                    with self.subTest(words), self.assertRaises((ValueError, OverflowError)):
                        file.seek(*words)
                file.seek(2**62)
                self.assertEqual((file.read(), file.read(5), file.tell()), (b"", b"", 2**62))
                with self.assertRaises(TypeError):
                    file.readinto(b"cannot be written to")
            self.assertEqual(checkpoint.file(Path(NAME)).read(), checkpoint.file(NAME).read())

    def test_live_files_are_read_as_they_are(self) -> None:
        with small_set() as made, opened(made) as checkpoint, checkpoint.file(".reshardfs/version") as file:
            self.assertIn(reshardfs.__version__.encode(), file.read())


@unittest.skipUnless(importlib.util.find_spec("fsspec"), "python3-fsspec is not installed")
class Fsspec(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        import fsspec
        from reshardfs.fsspec import ReshardFileSystem
        fsspec.register_implementation("reshardfs", ReshardFileSystem, clobber=True)
        cls.made = class_context(cls, small_set())
        cls.checkpoint = class_context(cls, opened(cls.made))
        cls.fs = fsspec.filesystem("reshardfs", source=str(cls.made.source), **options_of(cls.made))

    def content(self, name: str) -> bytes:
        with self.checkpoint.file(name) as file:
            return file.read()

    def test_open_by_url(self) -> None:
        import fsspec
        with fsspec.open(f"reshardfs://{NAME}", source=str(self.made.source), **options_of(self.made)) as file:
            self.assertEqual(file.read(), self.content(NAME))

    def test_lists_and_finds(self) -> None:
        self.assertEqual({entry["name"]: entry["type"] for entry in self.fs.ls("")}["rank_1"], "directory")
        self.assertEqual(self.fs.ls("rank_1", detail=False), [NAME])
        self.assertEqual(set(self.fs.find("")), set(self.checkpoint.files()))
        self.assertEqual(self.fs.glob("rank_*/*.ckpt"), [f"rank_{r}/checkpoint_{r}.ckpt" for r in range(4)])
        self.assertEqual(self.fs.info(NAME), {"name": NAME, "size": len(self.content(NAME)), "type": "file"})
        self.assertEqual((self.fs.isdir("merged"), self.fs.isfile("merged"), self.fs.exists("no")),
                         (True, False, False))

    def test_reads_ranges(self) -> None:
        whole = self.content(NAME)
        self.assertEqual(self.fs.cat(NAME), whole)
        self.assertEqual(self.fs.cat_file(NAME, 10, 30), whole[10:30])
        self.assertEqual(self.fs.cat_file(NAME, -10), whole[-10:])
        with self.fs.open(NAME) as file:
            file.seek(7)
            self.assertEqual(file.read(9), whole[7:16])

    def test_refuses(self) -> None:
        with self.assertRaisesRegex(FileNotFoundError, "no file 'rank_9'"):
            self.fs.ls("rank_9")
        with self.assertRaises(FileNotFoundError):
            self.fs.open("rank_1/no")
        with self.assertRaises(OSError):
            self.fs.open(NAME, "wb")


class Notebooks(unittest.TestCase):
    def test_checkpoint(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            page = checkpoint._repr_html_()
            for words in (str(made.source), "4 ranks", "step 3_100", "lm_head.weight", "<td>3</td>"):
                self.assertIn(words, page)
            ElementTree.fromstring(f"<div>{page}</div>")
            page = checkpoint.rank(1)._repr_html_()
            self.assertIn("rank 1", page)
            ElementTree.fromstring(f"<div>{page}</div>")
        self.assertIn("closed", checkpoint._repr_html_())

    def test_tensor(self) -> None:
        with small_set() as made, opened(made) as checkpoint:
            tensor = checkpoint.merged["lm_head.weight"]
            page = tensor._repr_html_()
            self.assertIn("float64", page)
            ElementTree.fromstring(f"<div>{page}</div>")
            self.assertIn("<svg", page)
            self.assertEqual(checkpoint.picture("lm_head.weight")[-7:].strip()[-6:], "</svg>")
            with self.assertRaisesRegex(reshardfs.Error, "no parameter of this name"):
                checkpoint.picture("no")
        self.assertNotIn("<svg", tensor._repr_html_())


if __name__ == "__main__":
    run_unittests_without_mounts()
