# SPDX-License-Identifier: Apache-2.0
"""The functions have the options of the commands, as their stub says."""

from __future__ import annotations

import ast
import inspect
import os
import unittest
from pathlib import Path

import program_help
import python_stub
from mounted import Settings, scratch
from python_sets import ROOT, options_of, run_unittests_without_mounts, small_set
from test_python_forks import BYTES, FILE, OPTIONS, TENSORS, large_source, read_all
from web_server import serving

import reshardfs
from reshardfs import _core
from reshardfs._values import values_of
from reshardfs._words import in_python

STUB = (ROOT / "python/reshardfs/__init__.pyi").read_text()


class Options(unittest.TestCase):
    def test_stub_is_that_of_the_program(self) -> None:
        self.assertEqual(STUB, python_stub.stub(str(Settings.binary)),
                         "write it again: packaging/python_stub.py")

    def test_stub_has_each_function_and_option(self) -> None:
        """By the module and by --help, not by what has written the stub."""
        functions = {node.name: {argument.arg for argument in node.args.kwonlyargs}
                     for node in ast.parse(STUB).body if isinstance(node, ast.FunctionDef)}
        self.assertEqual(set(functions), {name for name in reshardfs.__all__ if name.islower()})
        for name, own in functions.items():
            command, without, _ = python_stub.FUNCTIONS[name]
            found = program_help.read_help(str(Settings.binary), [command]).options
            known = {option.long_name for option in found} - {"help", "verbose", "quiet"} - without
            self.assertEqual(own - {"progress"}, {option.replace("-", "_") for option in known}, name)

    def test_help_has_each_option(self) -> None:
        for name in reshardfs.__all__:
            if not name.islower():
                continue
            shown = set(inspect.signature(getattr(reshardfs, name)).parameters)
            for option in python_stub.options_of(str(Settings.binary), name):
                self.assertIn(option.long_name.replace("-", "_"), shown, name)
            self.assertNotIn("options", shown)

    def test_words_of_python(self) -> None:
        for text, expected in (
                ("--src-strategy FILE; --cast 'x:y'", "src_strategy=FILE; cast='x:y'"),
                ("for such values, --replicas first takes", "for such values, replicas=first takes"),
                ("--exclude leaves parameters out", "exclude= leaves parameters out"),
                ("mount has no option '--src-stratgy'; did you mean '--src-strategy'?",
                 "there is no argument 'src_stratgy'; did you mean 'src_strategy='?"),
                ("add --src-strategy FILE, or run: reshardfs strategy guess ckpt --model-config c.json",
                 "add src_strategy=FILE, or run: reshardfs strategy guess ckpt --model-config c.json"),
                ("'reshardfs export --share 1/2 a b' with --force", "'reshardfs export --share 1/2 a b' with force="),
                ("a--b and -- c", "a--b and -- c")):
            self.assertEqual(in_python(text), expected)

    def test_lists_are_as_the_table_has_them(self) -> None:
        options = {"stage_layers": [3, 2], "ranks": range(2), "include": ["a", "b"], "crc": True, "params": False,
                   "cache_size": 5, "src_strategy": Path("none"), "prefix": "-x", "config": "/c"}
        self.assertEqual(_core.words("mount", [b"-s", b"m"], values_of(options)),
                         [b"mount", b"--stage-layers", b"3,2", b"--ranks", b"0,1", b"--include", b"a", b"--include", b"b",
                          b"--crc", b"--cache-size", b"5B", b"--src-strategy", os.fsencode(Path.cwd() / "none"),
                          b"--prefix=-x", b"--config", b"/c", b"--", b"-s", b"m"])

    def test_sizes_are_numbers_of_bytes(self) -> None:
        with small_set() as made:
            for size, files in ((float(1 << 20), 1), (100, 2)):
                with reshardfs.open(made.source, **options_of(made), views="hub", shard_size=size) as shown:
                    parts = [name for name in shown.files() if name.endswith(".safetensors")]
                self.assertEqual(len(parts) > 1, files > 1, parts)
            with self.assertRaisesRegex(reshardfs.Error, "means 5 bytes"):
                reshardfs.open(made.source, **options_of(made), shard_size="5")

    def test_paths_are_no_words(self) -> None:
        with small_set() as made:
            with self.assertRaisesRegex(reshardfs.Error, "no such file"):
                reshardfs.open(made.source, src_strategy=Path("tp=4"), dst_strategy="tp=2")

    def test_options_without_a_value(self) -> None:
        with self.assertRaisesRegex(reshardfs.Error, "step= needs a value"):
            reshardfs.open("/", step=True)

    def test_open_takes_each_of_its_options(self) -> None:
        """Whatever is wrong with the value, the option is not unknown."""
        with small_set() as made, scratch() as directory:
            for option in python_stub.options_of(str(Settings.binary), "open"):
                name = option.long_name.replace("-", "_")
                value = f"{directory}/no/such" if option.argument else True
                try:
                    reshardfs.open(made.source, **{**options_of(made), name: value}).close()
                except reshardfs.Error as error:
                    self.assertNotIn("no argument", str(error))

    def test_open_refuses_options_that_select_nothing(self) -> None:
        with small_set() as made:
            for name, value in (("exclude", "modle.*"), ("cast", "modle.*:fp32->bf16"), ("state_prefix", "nothing.")):
                options = {**options_of(made), name: value}
                with self.subTest(name):
                    with self.assertRaisesRegex(reshardfs.Error, f"{name}='"):
                        reshardfs.open(made.source, **options)
                    with reshardfs.open(made.source, **options, allow_unmatched=True) as shown:
                        self.assertTrue(len(shown.merged))

    def test_a_cache_is_that_of_its_checkpoint(self) -> None:
        """Another checkpoint of the process, opened without one, reads from the server each time."""
        with large_source() as source, serving(source) as server:
            url = f"{server.url}/{FILE}"
            with reshardfs.open(url, cache_dir=str(source.parent / "cache"), **OPTIONS):
                self.assertTrue(read_all(url))
                before = server.bytes_sent
                self.assertTrue(read_all(url))
                self.assertGreaterEqual(server.bytes_sent - before, TENSORS * BYTES)

    def test_texts_have_no_zeros(self) -> None:
        with self.assertRaisesRegex(ValueError, "null"):
            reshardfs.open("/", cache_dir="a\0b")
        with self.assertRaisesRegex(ValueError, "null"):
            reshardfs.open("/\0")

    def test_open_refuses_those_of_programs(self) -> None:
        for name in ("verbose", "quiet", "log_level", "log_file", "log_format", "config", "foreground", "help", "json"):
            with self.assertRaisesRegex(reshardfs.Error, f"there is no argument '{name}'"):
                reshardfs.open("/", **{name: "x"})
        with self.assertRaisesRegex(reshardfs.Error, "no option 'foreground'"), reshardfs.mount("/", foreground=True):
            pass


if __name__ == "__main__":
    run_unittests_without_mounts()
