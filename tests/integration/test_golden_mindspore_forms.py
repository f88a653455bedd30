# SPDX-License-Identifier: Apache-2.0
"""Files in all forms that save_checkpoint of MindSpore 1.0, 2.0 and 2.10 writes: see tests/golden_mindspore/README.md."""

from __future__ import annotations

import json
import re
import sys
import unittest
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "data"))

from ckpt_format import by_name, encode_value
from format_files import TYPES, read_safetensors
from mounted import Result, one_line, run, run_unittests, scratch

GOLDEN = TESTS / "golden_mindspore"
FORMS = [GOLDEN / name for name in ("forms_210", "forms_200_100")]
KINDS = {mindspore: st for mindspore, st, _, _ in TYPES} | {"Int4": "I8"}


def key_words(directory: Path, name: str) -> list[str | Path]:
    """Of encrypted files: the key is the bytes 1, 2, 3 and so on."""
    found = re.search(r"enc_([A-Z0-9]+-[A-Z]+)_(\d+)", name)
    if found is None:
        return []
    key = directory / "key"
    key.write_bytes(bytes(range(1, int(found[2]) + 1)))
    return ["--dec-key-file", key, "--dec-mode", found[1]]


def shape_of(tensor: dict[str, Any]) -> list[int]:
    """Old versions load the scalar of type Bool with one dimension, which their files do not have."""
    return [] if tensor["dtype"] == "Bool" and tensor["shape"] == [1] else tensor["shape"]


class FormsTest(unittest.TestCase):
    def export(self, source: Path, out: Path, *words: str | Path) -> tuple[Path, Result]:
        result = run("export", source, out / "out", *words, "--views", "ranks")
        self.assertEqual(result.code, 0, result.stderr)
        (file,) = (out / "out").rglob("*_0.*")
        return file, result


class Forms(FormsTest):
    def test_what_its_loader_returns(self) -> None:
        count = 0
        for directory in FORMS:
            for name, tensors in json.loads((directory / "expected.json").read_text()).items():
                arrays = {key: value for key, value in tensors.items() if isinstance(value, dict) and "hex" in value}
                want = {key: (shape_of(value), value["hex"]) for key, value in arrays.items()}
                count += 1
                with self.subTest(name), scratch() as out:
                    words = key_words(out, name)
                    file, _ = self.export(directory / name, out, *words, "--format", "safetensors")
                    found, _ = read_safetensors(file)
                    self.assertEqual({key: (list(array.shape), array.tobytes().hex())
                                      for key, (_, array) in found.items()}, want)
                    self.assertEqual({key: kind for key, (kind, _) in found.items()},
                                     {key: KINDS[value["dtype"]] for key, value in arrays.items()})
                with self.subTest(name), scratch() as out:
                    file, _ = self.export(directory / name, out, *key_words(out, name), "--format", "ckpt")
                    records = by_name(file.read_bytes())
                    texts = {key for key, record in records.items() if record.type == "str"}
                    self.assertEqual({key: record.content.hex() for key, record in records.items() if key not in texts},
                                     {key: text for key, (shape, text) in want.items() if 0 not in shape})
        self.assertEqual(count, 32)

    def test_tensors_without_elements_are_named(self) -> None:
        for name in ("shapes_async.ckpt", "shapes_sf.safetensors"):
            with self.subTest(name), scratch() as out:
                _, result = self.export(GOLDEN / "forms_210" / name, out, "--format", "ckpt")
                self.assertIn("cannot hold tensors without elements: 'zero'", result.stderr)
            with self.subTest(name), scratch() as out:
                _, result = self.export(GOLDEN / "forms_210" / name, out, "--format", "safetensors")
                self.assertNotIn("zero", result.stderr)

    def test_the_name_of_a_key_of_metadata(self) -> None:
        source = GOLDEN / "forms_210/names.ckpt"
        with scratch() as out:
            _, result = self.export(source, out, "--format", "safetensors")
            self.assertIn("a key of their metadata: 'format'; rename it", result.stderr)
        with scratch() as out:
            _, result = self.export(source, out, "--format", "ckpt")
            self.assertEqual(result.stderr.count("warning"), 0, result.stderr)


class Maps(FormsTest):
    """MindSpore 2.0 writes a map three times, each time with one tensor more."""

    FILE = GOLDEN / "map_200/map.ckpt"

    def test_it_alone_is_refused(self) -> None:
        result = run("verify", self.FILE)
        self.assertEqual(result.code, 1)
        self.assertIn("parameter 'table': cannot be shown: MindSpore 2.0 wrote it", result.stdout)
        self.assertIn("has parts that cannot be read", result.stdout)
        self.assertEqual(run("verify", self.FILE, "--exclude", "table").code, 0)
        with scratch() as out:
            result = run("export", self.FILE, out / "out", "--views", "ranks")
            self.assertEqual(result.code, 2)
            self.assertIn("the others are shown with --exclude table", one_line(result))
            file, _ = self.export(self.FILE, out, "--exclude", "table")
            (record,) = by_name(file.read_bytes()).values()
            want = json.loads((self.FILE.parent / "expected.json").read_text())["map.ckpt"]["w"]
            self.assertEqual((record.name, record.content.hex()), ("w", want["hex"]))

    def test_records_that_do_not_grow_are_refused(self) -> None:
        data = self.FILE.read_bytes()
        first, second, third = (data[begin:end] for begin, end in ((0, 0x1c), (0x1c, 0x55), (0x55, 0x9f)))
        rest = data[0x9f:]
        for records in ([first], [first, second], [second, third], [first, third], [first, first, second, third],
                        [first, second, second, third], [third, first]):
            with scratch() as directory:
                file = directory / "map.ckpt"
                file.write_bytes(b"".join(records) + rest)
                result = run("inspect", file)
                self.assertEqual(result.code, 2, [len(record) for record in records])
                self.assertIn("'table'", one_line(result))

    def test_one_record_is_a_map_of_later_versions(self) -> None:
        data = self.FILE.read_bytes()
        with scratch() as directory:
            file = directory / "map.ckpt"
            file.write_bytes(data[0x55:])
            self.assertEqual(run("verify", file).code, 0)


class TrailersOfEncryptedFiles(FormsTest):
    """crc_check with enc_key: a trailer with the number 0 behind the blocks."""

    TRAILER = b"crc_num" + bytes(10)

    def test_the_blocks_are_whole(self) -> None:
        for name in ("enc_AES-GCM_16.ckpt", "enc_AES-CBC_24.ckpt", "enc_SM4-CBC_16.ckpt"):
            with self.subTest(name), scratch() as directory:
                file = directory / "model.ckpt"
                plain = GOLDEN / "forms_210" / name
                file.write_bytes(plain.read_bytes() + self.TRAILER)
                words = key_words(directory, name)
                self.assertEqual(run("verify", file, *words).code, 0)
                with scratch() as one, scratch() as other:
                    self.assertEqual(self.export(file, one, *words)[0].read_bytes(),
                                     self.export(plain, other, *words)[0].read_bytes())

    def test_other_trailers_are_refused(self) -> None:
        plain = (GOLDEN / "forms_210/enc_AES-GCM_16.ckpt").read_bytes()
        for trailer in (self.TRAILER[:-1], self.TRAILER + b"\0", self.TRAILER[:-1] + b"\1", self.TRAILER * 2):
            with scratch() as directory:
                file = directory / "model.ckpt"
                file.write_bytes(plain + trailer)
                result = run("verify", file, *key_words(directory, "enc_AES-GCM_16.ckpt"))
                self.assertEqual(result.code, 1, result.stdout)
                self.assertIn("encrypted block ", result.stdout)


class TypesThatNothingLoads(FormsTest):
    def test_they_are_no_damage(self) -> None:
        """MindSpore saves complex numbers in .ckpt files, and cannot load them."""
        record = encode_value(b"z", (2,), "Complex64", bytes(16))
        with scratch() as directory:
            file = directory / "model.ckpt"
            file.write_bytes((GOLDEN / "forms_210/shapes.ckpt").read_bytes() + record)
            result = run("verify", file)
            self.assertEqual(result.code, 1)
            self.assertIn("'z': cannot be shown: its element type 'Complex64' is not known", result.stdout)
            self.assertNotIn("damaged", result.stdout)
            self.assertEqual(run("verify", file, "--exclude", "z").code, 0)


if __name__ == "__main__":
    run_unittests()
