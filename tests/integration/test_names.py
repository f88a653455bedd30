# SPDX-License-Identifier: Apache-2.0
"""Parameters with names that file systems, terminals and scripts do not like: each is shown, and
every way to look at it agrees, or it is refused with one line; and it hides no other."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import unittest
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import encode_value  # noqa: E402
from command_tests import on_terminal  # noqa: E402
from format_files import Tensors, read_ckpt, read_safetensors, same, write_ckpt, write_safetensors  # noqa: E402
from mounted import COMMAND_SECONDS, mounted, one_line, run, run_unittests, scratch  # noqa: E402

SHOWN = [
    # Parts that have a meaning in a path.
    ".", "..", "../../etc/passwd", "a/../b", "a/./b", "a/..", "/", "//", "///", "/abs/olute", "end//",
    "in//side", "~", "-rf", "*", "?", "[a]",
    # What a terminal, a shell or a list of lines takes for something else.
    "new\nline", "\n", "tab\tx", "\r", "esc\x1b[2J\x1b]0;title\x07", "bell\x07", "del\x7f", "nul\0x",
    "c1\u009b2J", " ", "  lead", "trail  ", "$(reboot)", "`reboot`", "back\\n",
    # Lengths around the limits of a file's name, in bytes and in characters, and of many components.
    "l" * 199, "l" * 200, "l" * 201, "l" * 251, "l" * 252, "l" * 255, "l" * 256, "l" * 1025, "l" * 2900,
    "層" * 85, "層" * 86, "%" * 100, "\x01" * 300, "/".join("d" * 700), "é" + "l" * 197 + "é",
    # Alike to a file system without case or with other forms of a character, or after escaping.
    "Case", "case", "CASE", "e\u0301", "\u00e9", "x%2Fy", "x/y", "x%252Fy", "x%2fy", "%", "%25", "%2E",
    "%2E%2E", "%+", "l" * 198 + "%+", "n", "n.npy", "n.npy/inside", "n.npy.npy", "n%2Enpy/inside",
    "params.json", ".npy",
    # For pages and for readers.
    "</script><script>alert(1)</script>", "<!--", "&lt;", "\"quoted'", "rtl\u202egpj.exe\u202c",
    "\u200fmark", "\u2066isolate\u2069", "line\u2028separator", "\ufeffbom", "\U0001f600", "\ufffd",
    "__proto__", "constructor",
]
CONTROLS = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def model_of(names: list[str]) -> Tensors:
    """Each has a value of its own, so that none can stand for another."""
    return {name: ("F32", np.array([at, at + 0.5], "<f4")) for at, name in enumerate(names)}


def sources(directory: Path, model: Tensors) -> Iterator[Path]:
    for name, write in (("m.ckpt", write_ckpt), ("m.safetensors", write_safetensors)):
        write(directory / name, model)
        yield directory / name


def output_of(*words: str | Path, cwd: Path) -> bytes:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True,
                          timeout=COMMAND_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, b""), (words, done.stderr)
    return done.stdout


def counts(top: Path, copy: Path) -> dict[str, tuple[int, int]]:
    """Files and directories below `top`, as programs that look at all of them count them."""
    found = {}
    directories = files = 0
    for _, inner, here in os.walk(top):
        directories += len(inner)
        files += len(here)
    found["os.walk"] = (files, directories)
    listing = output_of("ls", "-labR", "--quoting-style=escape", ".", cwd=top).decode().splitlines()
    lines = [line for line in listing if re.match(r"[-d]r", line) and not re.search(r" \.\.?$", line)]
    found["ls -labR"] = (sum(line[0] == "-" for line in lines), sum(line[0] == "d" for line in lines))
    stats = output_of("sh", "-c", "find . -mindepth 1 -print0 | xargs -0 stat -c %f", cwd=top).split()
    modes = [int(mode, 16) & 0o170000 for mode in stats]
    found["find | xargs stat"] = (modes.count(0o100000), modes.count(0o040000))
    with tarfile.open(fileobj=io.BytesIO(output_of("tar", "c", ".", cwd=top))) as archive:
        members = [member for member in archive if member.name != "."]
    found["tar"] = (sum(m.isfile() for m in members), sum(m.isdir() for m in members))
    output_of("cp", "-r", top, copy, cwd=top)
    found["cp -r"] = (sum(path.is_file() for path in copy.rglob("*")),
                      sum(path.is_dir() for path in copy.rglob("*")))
    shutil.rmtree(copy)
    return found


class Shown(unittest.TestCase):
    def test_every_way_to_look_agrees(self) -> None:
        model = model_of(SHOWN)
        self.assertEqual(len(model), len(SHOWN))
        with scratch() as directory:
            for source in sources(directory, model):
                with self.subTest(source.name), mounted(source) as mountpoint:
                    self.check(mountpoint / "merged", model, directory / "copy")

    def check(self, merged: Path, model: Tensors, copy: Path) -> None:
        found = counts(merged / "params", copy)
        self.assertEqual(len(set(found.values())), 1, found)
        self.assertEqual(found["os.walk"][0], len(model))
        entries = json.loads((merged / "params.json").read_text())
        self.assertEqual([entry["name"] for entry in entries], list(model))
        self.assertEqual(len({entry["file"] for entry in entries}), len(model))
        for entry in entries:
            # No way out, and nothing that a list of lines would break at.
            parts = entry["file"].split("/")
            self.assertEqual(parts[0], "params", entry)
            self.assertFalse({"", ".", ".."} & set(parts), entry)
            self.assertNotRegex(entry["file"], "[\0-\x1f\x7f-\x9f]")
            self.assertLessEqual(max(len(os.fsencode(part)) for part in parts), 255)
            got = np.load(merged / entry["file"])
            np.testing.assert_array_equal(got, model[entry["name"]][1], entry["name"])
        same(self, read_ckpt(merged / "checkpoint_merged.ckpt"), model)
        same(self, read_safetensors(merged / "checkpoint_merged.safetensors")[0], model)

    def test_each_alone(self) -> None:
        """Nothing about a name may need another beside it."""
        with scratch() as directory:
            for name in ("..", "/", "\n", "nul\0x", "l" * 2900, ".npy", "%+", "a/../b"):
                write_safetensors(directory / "m.safetensors", model_of([name]))
                with self.subTest(name[:20]), mounted(directory / "m.safetensors") as mountpoint:
                    (entry,) = json.loads((mountpoint / "merged/params.json").read_text())
                    self.assertEqual(entry["name"], name)
                    self.assertEqual(np.load(mountpoint / "merged" / entry["file"]).tolist(), [0, 0.5])

    def test_no_file_for_a_path_that_cannot_be_opened(self) -> None:
        """It would fail whoever lists or copies the directory; the parameter is in all else."""
        model = model_of(["good", "l" * 4096, "\x01" * 1100, "last"])
        with scratch() as directory:
            (directory / "mnt").mkdir()
            for source in sources(directory, model):
                result = run("mount", "--check-only", source, directory / "mnt")
                self.assertIn("no NumPy file for ", one_line(result))
                self.assertIn("\\x01", result.stderr)
                self.assertLess(len(result.stderr), 400)
                with self.subTest(source.name), mounted(source) as mountpoint:
                    merged = mountpoint / "merged"
                    found = counts(merged / "params", directory / "copy")
                    self.assertEqual(set(found.values()), {(2, 0)})
                    entries = json.loads((merged / "params.json").read_text())
                    self.assertEqual([entry["name"] for entry in entries], list(model))
                    self.assertEqual([entry["file"] for entry in entries],
                                     ["params/good.npy", None, None, "params/last.npy"])
                    same(self, read_ckpt(merged / "checkpoint_merged.ckpt"), model)
                    same(self, read_safetensors(merged / "checkpoint_merged.safetensors")[0], model)

    def test_the_tree_has_no_other_way_in(self) -> None:
        """A raw name that was escaped is no path, not even beside the escaped one."""
        with scratch() as directory:
            names = ["esc\x1b[2J", "p%q", "x//y", "z/"]
            write_safetensors(directory / "m.safetensors", model_of(names))
            with mounted(directory / "m.safetensors") as mountpoint:
                params = mountpoint / "merged/params"
                for name in names:
                    self.assertFalse(os.path.exists(f"{params}/{name}.npy"), name)
                self.assertFalse((params / "p%25Q.npy").exists())
                self.assertTrue((params / "p%25q.npy").exists())


REFUSED = [
    (b"", "empty name"), (b"bad\xff\xfe", ""), (b"over\xc0\xaflong", ""), (b"cut\xe5\xb1", ""),
    (b"surrogate\xed\xa0\x80", ""), (b"esc\x1b\xff", ""), (b"L" * 4097, "4096"), (b"L" * 100_000, "4096"),
]


class Refused(unittest.TestCase):
    def check(self, source: Path, words: tuple[str, ...]) -> None:
        for command in ("inspect", "plan", "verify"):
            result = run(command, source)
            if command == "verify":  # it tells of damage, and goes on
                self.assertIn(result.code, (1, 2))
                self.assertNotRegex(result.stdout + result.stderr, CONTROLS)
                continue
            line = one_line(result)
            self.assertEqual((result.code, result.stdout), (2, ""), command)
            self.assertNotRegex(line, CONTROLS)
            self.assertLess(len(line), 600)
            for word in (str(source), *words):
                self.assertIn(word, line)

    def test_ckpt(self) -> None:
        with scratch() as directory:
            source = directory / "m.ckpt"
            for name, word in REFUSED:
                with self.subTest(name[:20]):
                    source.write_bytes(encode_value(b"good", (1,), "Float32", b"good")
                                       + encode_value(name, (1,), "Float32", b"evil"))
                    shown = "bad\\xff" if name.startswith(b"bad") else ""
                    self.check(source, ("offset", word, shown))

    def test_safetensors(self) -> None:
        entry = b'{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
        with scratch() as directory:
            source = directory / "m.safetensors"
            for name, word in REFUSED:
                with self.subTest(name[:20]):
                    name = name.replace(b"\x1b", b"\\u001b")
                    text = b'{"good":' + entry % (0, 4) + b',"' + name + b'":' + entry % (4, 8) + b"}"
                    source.write_bytes(struct.pack("<Q", len(text)) + text + b"goodevil")
                    self.check(source, (word,))

    def test_one_of_many_ranks(self) -> None:
        """The file and rank are named, not only the parameter."""
        with scratch() as directory:
            for rank in range(3):
                write_ckpt(directory / f"rank_{rank}/m.ckpt", model_of(["good"]))
            with (directory / "rank_1/m.ckpt").open("ab") as file:
                file.write(encode_value(b"bad\xff", (1,), "Float32", b"evil"))
            line = one_line(run("plan", directory))
            self.assertIn("rank_1/m.ckpt", line)
            self.assertIn("bad\\xff", line)


class Messages(unittest.TestCase):
    """Nothing from a file moves a terminal's cursor, begins a line or turns the text around."""

    def test_listings(self) -> None:
        with scratch() as directory:
            for source in sources(directory, model_of(SHOWN)):
                for words in (("inspect",), ("inspect", "--tree"), ("inspect", "--stats"), ("plan",),
                              ("verify",), ("plan", "-v"), ("plan", "--param", "new\nline")):
                    with self.subTest(source=source.name, words=words):
                        result = run(words[0], source, *words[1:])
                        self.assertIn(result.code, (0, 2), result.stderr)
                        self.assertNotRegex(result.stdout + result.stderr, CONTROLS)
                listing = run("inspect", source, "--list").stdout
                self.assertEqual(sum("Float32" in line for line in listing.splitlines()), len(SHOWN))
                self.assertIn("\\x1b[2J", listing)
                self.assertIn("\\xe2\\x80\\xae", listing)

    def test_terminal(self) -> None:
        """On a terminal colours are allowed, but none that a name brings."""
        with scratch() as directory:
            write_ckpt(directory / "m.ckpt", model_of(SHOWN))
            text = "\n".join(on_terminal("inspect", directory / "m.ckpt", NO_COLOR="1"))
            plain = re.sub("\x1b\\[[0-9;]*m", "", text)
            self.assertNotIn("\x1b", plain)
            self.assertNotRegex(plain.replace("\r", ""), CONTROLS)

    def test_json_is_json(self) -> None:
        with scratch() as directory:
            for source in sources(directory, model_of(SHOWN)):
                result = run("inspect", source, "--json")
                names = [entry["name"] for entry in json.loads(result.stdout)["parameters"]]
                self.assertEqual(names, SHOWN)
                self.assertNotRegex(result.stdout, CONTROLS)

    def test_errors_and_warnings_name_it(self) -> None:
        """Two ranks that differ in a parameter without a layout; and types that differ."""
        evil = "evil\x1b[2J\n\u202ename"
        with scratch() as directory:
            for rank in range(2):
                write_ckpt(directory / f"value/rank_{rank}/m.ckpt",
                           {"good": ("F32", np.zeros(2, "<f4")), evil: ("F32", np.full(2, rank, "<f4"))})
                write_ckpt(directory / f"type/rank_{rank}/m.ckpt",
                           {evil: (("F32", "I32")[rank], np.zeros(2, ("<f4", "<i4")[rank]))})
                write_ckpt(directory / f"twice/rank_{rank}/m.ckpt", {evil: ("F32", np.zeros(2, "<f4"))})
            with (directory / "twice/rank_1/m.ckpt").open("ab") as file:
                file.write((directory / "twice/rank_0/m.ckpt").read_bytes())
            for kind in ("value", "type", "twice"):
                with self.subTest(kind):
                    line = one_line(run("plan", directory / kind))
                    self.assertNotRegex(line, CONTROLS)
                    self.assertIn("evil\\x1b[2J\\n\\xe2\\x80\\xaename", line)
            result = run("diff", directory / "type/rank_0/m.ckpt", directory / "value/rank_1/m.ckpt")
            self.assertEqual(result.code, 1)
            self.assertNotRegex(result.stdout + result.stderr, CONTROLS)
            for words in (("diff", directory / "type/rank_0/m.ckpt", directory / "value/rank_1/m.ckpt"),
                          ("verify", directory / "value"), ("verify", directory / "twice")):
                result = run(*words, "--json")
                self.assertIn("evil", json.dumps(json.loads(result.stdout)), words)
                self.assertNotRegex(result.stdout + result.stderr, CONTROLS)

    def test_log_file(self) -> None:
        """A read that fails is logged by the file's name, which holds the parameter's."""
        evil = ["evil\x1b[2J", "\nreshardfs: error: forged", "\u202eright", "c1\u009b"]
        with scratch() as directory:
            write_ckpt(directory / "m.ckpt", model_of(evil))
            log = directory / "log"
            with mounted(directory / "m.ckpt", "-v", "--log-file", log) as mountpoint:
                entries = json.loads((mountpoint / "merged/params.json").read_text())
                os.truncate(directory / "m.ckpt", 10)
                for entry in entries:
                    with self.assertRaises(OSError):
                        (mountpoint / "merged" / entry["file"]).read_bytes()
            text = log.read_text()
            self.assertNotRegex(text, CONTROLS)
            for word in ("evil%1B[2J.npy", "forged.npy", "\\xe2\\x80\\xaeright.npy", "c1%C2%9B.npy"):
                self.assertIn(word, text)
            for line in text.splitlines():
                self.assertRegex(line, r"^\d{4}-\d\d-\d\dT", "a forged line")


if __name__ == "__main__":
    run_unittests()
