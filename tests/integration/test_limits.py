# SPDX-License-Identifier: Apache-2.0
"""Every limit that reshardfs-semantics(7) lists: one more is refused, with the words that stand
there, in little time and memory, however large the file claims to be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import chain, repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import bytes_field, encode_value, varint  # noqa: E402
from command_tests import CommandTest, run_command_tests  # noqa: E402
from mounted import Settings, is_sanitized, scratch  # noqa: E402

MANUAL = Path(__file__).resolve().parents[2] / "man" / "reshardfs-semantics.7"
MOST_SECONDS = 30.0
# Beside the file itself, which is read as a whole where it is a text.
MOST_KIB = 512 << 10
SANITIZED_KIB = 4 << 20
ONE = encode_value(b"w", (1,), "Int8", b"x")


def listed() -> dict[str, str]:
    """What is limited, and the words of its refusal."""
    text = MANUAL.read_text()
    return dict(re.findall(r"^\.It ([^:\n]+): .+\n\.Dq (.+)$", text, re.MULTILINE))


def safetensors(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def layout(matrix: list[int], tensor_map: list, **more: object) -> dict[str, object]:
    return {"dev_matrix": matrix, "tensor_map": tensor_map, "field": 0,
            "opt_weight_shard_step": 1, "opt_weight_shard_size": 0, **more}


def json_strategy(items: dict[str, object]) -> bytes:
    return json.dumps({"parallel_layout_item": items, "parallel_strategy_item": {}}).encode()


def numbers(field: int, *values: int) -> bytes:
    return bytes_field(field, b"".join(b"\x08" + varint(value) for value in values))


def protobuf_strategy(layouts: bytes, *, stage: int | None = None) -> bytes:
    operator = b""
    if stage is not None:
        operator = bytes_field(2, bytes_field(1, b"op") + bytes_field(2, b"\x08" + varint(stage)))
    rest = b"\x28\x00\x30\x00\x38\x00"
    return b"\x08\x01" + operator + bytes_field(3, bytes_field(1, b"w") +
                                                bytes_field(2, layouts + rest))


class Limits(CommandTest):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        self.words = listed()
        (self.root / "one.ckpt").write_bytes(ONE)

    def file(self, name: str, data: Iterable[bytes] | bytes, size: int = 0) -> Path:
        """@param size: the file is made so long, with a hole."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
        if size:
            os.truncate(path, size)
        return path

    def refused_as(self, what: str, *arguments: str | Path) -> str:
        """The program refuses with the words that the manual has for `what`; what it says."""
        words = self.words.pop(what)
        with open(self.root / "said", "w+b") as said:
            process = subprocess.Popen([str(Settings.binary), *map(str, arguments)],
                                       stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = usage.ru_utime + usage.ru_stime
            said.seek(0)
            text = said.read().decode()
        self.assertEqual(process.returncode, 2, f"{what}: {text}")
        self.assertEqual(text.count("\n"), 1, f"{what}: {text}")
        self.assertIn(words, text, what)
        sanitized = is_sanitized(Settings.binary)
        self.assertLess(seconds, MOST_SECONDS * (10 if sanitized else 1), what)
        self.assertLess(usage.ru_maxrss, SANITIZED_KIB if sanitized else MOST_KIB, what)
        return text

    def plan(self, what: str, source: Iterable[bytes] | bytes | None = None,
             *options: str | Path, name: str = "x.ckpt") -> None:
        path = self.root / "one.ckpt" if source is None else self.file(name, source)
        self.refused_as(what, "plan", path, "--rank", "0", *options)

    def strategy(self, what: str, data: Iterable[bytes] | bytes, name: str = "s.json",
                 size: int = 0) -> None:
        self.plan(what, None, "--src-strategy", self.file(name, data, size))

    def test_all_that_are_listed(self) -> None:
        self.ckpt()
        self.safetensors()
        self.maps()
        self.recorded_layouts()
        self.strategies()
        self.json_values()
        self.rules()
        self.model_maps()
        self.ranks()
        self.assertEqual(self.words, {}, "limits that the manual has and no test")

    def map(self, what: str, text: str, *options: str, elements: int = 1) -> None:
        """Of a map that is refused for tensor `w` of so many elements, read forward."""
        rules = self.file("map.toml", text.encode())
        self.plan(what, encode_value(b"w", (elements,), "Int8", b"x" * elements), "--map", rules,
                  "--map-direction", "forward", *options)

    def model_maps(self) -> None:
        def rule(*lines: str, to: str = "v", source: str = '"w"') -> str:
            return f'[[map]]\nto = "{to}"\nfrom = {source}\n' + "".join(f"{line}\n" for line in lines)

        def ops(*operations: str) -> str:
            return "ops = [" + ", ".join(f'"{operation}"' for operation in operations) + "]"

        shape = 'shape = "[N]"'
        self.map("bytes of a file of a model map", "#" * ((1 << 20) + 1))
        for number in range(64):
            self.file(f"base{number}.toml", b"")
        self.map("files of a model map", "extends = [" + ", ".join(f'"base{i}.toml"' for i in range(64)) + "]")
        for number in range(9):
            self.file(f"deep{number}.toml", f'extends = "deep{number + 1}.toml"'.encode())
        self.map("files that extend each other", 'extends = "deep0.toml"')
        blocks = "".join(f'[[block]]\nfrom = "a{i}."\nto = "b{i}."\n' for i in range(400))
        self.map("rules of a model map, counted once for each block",
                 blocks + "".join(rule(to=f"@{i}", source=f'"@{i}"') for i in range(251)))
        self.map("patterns in the from list of a rule", rule(source=str(["w"] * 257)))
        self.map("operations of a rule", rule(shape, ops(*["reshape [-1]"] * 65)))
        self.map("dimensions of a tensor in a rule", rule(shape, ops("reshape [1, 1, 1, 1, 1, 1, 1, 1, 1]")))
        # Eight dimensions, one of them of two axes, and each repeated.
        self.map("axes of a tensor that a rule makes",
                 rule(shape, ops("reshape [2, 2, 2, 2, 2, 2, 2, 4]", "permute [7, 6, 5, 4, 3, 2, 1, 0]",
                                 "reshape [8, 2, 2, 2, 2, 2, 2]", "reshape [2, 4, 2, 2, 2, 2, 2, 2]",
                                 *(f"repeat {d} 2" for d in range(8)))), elements=512)
        # Rows and columns change places, and what begins in the middle of a row is a box for each row.
        self.map("boxes of a tensor that a rule makes",
                 rule(shape, ops("reshape [2, 70000]", "permute [1, 0]", "reshape [-1]", "slice 0 1:"),
                      'rest = "drop"'), elements=140_000)
        self.map("values of a range", rule('range = { i = "65537" }', to="v{i}"))
        captures = "".join(f"{{c{i}}}x" for i in range(17))
        self.map("captures of a pattern", rule(to="v", source=f'"{captures}"'))
        self.map("bytes of a pattern or an expression", rule(source='"' + "w" * 4097 + '"'))
        self.map("tensors that a model map makes",
                 rule('range = { i = "65536", j = "17" }', to="v{i}.{j}"))
        self.file("config.json", b" " * ((16 << 20) + 1))
        self.map("bytes of config.json", rule(), "--model-config", str(self.root / "config.json"))

    def ckpt(self) -> None:
        self.plan("parameters of a .ckpt file", repeat(ONE, 2_000_001))
        self.plan("bytes of a name", encode_value(b"n" * 4097, (1,), "Int8", b"x"))
        self.plan("dimensions of a tensor", encode_value(b"w", (1,) * 17, "Int8", b"x"))
        self.plan("a dimension in .ckpt", encode_value(b"w", (1 << 31,), "Int8", b"x"))
        self.plan("elements and bytes", encode_value(b"w", ((1 << 31) - 1,) * 3, "Int8", b"x"))

    def safetensors(self) -> None:
        def plan(what: str, data: Iterable[bytes] | bytes) -> None:
            self.plan(what, data, name="x.safetensors")

        tensor = b'{"dtype":"I8","shape":[%d],"data_offsets":[0,1]}'
        plan("a dimension in safetensors", safetensors(b'{"w":' + tensor % (1 << 63) + b"}", b"x"))
        plan("bytes of a safetensors header", (100_000_001).to_bytes(8, "little") + b"{")
        header = b'{"__metadata__":{%s"":""}}'
        entry = b'"%07d":"",'
        length = len(header % b"") + 2_000_001 * len(entry % 0)
        entries = (entry % i for i in range(2_000_001))
        before, after = header.split(b"%s")
        plan("entries of a safetensors header",
             chain([length.to_bytes(8, "little"), before], entries, [after]))

    def maps(self) -> None:
        directory = self.root / "hub"
        self.file("hub/model-1.safetensors", b"")
        index = self.file("hub/model.safetensors.index.json", b"{", 100_000_001)
        self.refused_as("bytes of model.safetensors.index.json", "inspect", directory)
        self.file(index.name, chain([b"{"], repeat(b'"":"",', 2_000_001))).rename(index)
        self.refused_as("members of that index or of a file for --name-map", "inspect", directory)
        names = self.file("names.json", b"{", (256 << 20) + 1)
        self.plan("bytes of a file for --name-map", None, "--name-map", names)

    def recorded_layouts(self) -> None:
        step = self.root / "iteration_00000001"
        self.file("iteration_00000001/model-0000000-0000001.safetensors", b"")

        def metadata(what: str, parameters: Iterable[bytes] = (), shards: Iterable[bytes] = (),
                     parameter: str = "'w'") -> None:
            self.file("iteration_00000001/metadata.json",
                      chain([b'{"state_dict_metadata":{'], parameters, [b'},"storage_data":{'],
                            shards, [b"}}"]))
            text = self.refused_as(what, "inspect", step)
            self.assertIn("metadata.json", text)
            self.assertIn(parameter, text)

        def parameter(what: str, *content: Iterable[bytes] | bytes) -> None:
            parts = ([part] if isinstance(part, bytes) else part for part in content)
            metadata(what, chain([b'"w":{'], *parts, [b"}"]))

        def shape(dimensions: int) -> bytes:
            return b'"global_shape":' + json.dumps([1] * dimensions).encode()

        def recorded(what: str, **changes: object) -> None:
            stated = {"device_matrix": [1], "tensor_map": [-1], "interleaved_parallel": False,
                      "alias_name": ["a"], "rank_list": [0]}
            parameter(what, shape(1) + b',"layout":', json.dumps(stated | changes).encode())

        metadata("parameters in metadata.json",
                 (b',"%07d":{"global_shape":[]}'[not i:] % i for i in range(2_000_001)),
                 parameter="'2000000'")
        # It takes a file of more than a gigabyte. A unit test has smaller limits.
        unit_test = MANUAL.parents[1] / "tests/unit/format/iteration_metadata_test.cpp"
        self.assertIn("HasSoManyParametersAndSlicesAtMost", unit_test.read_text())
        self.assertIn("50000000", self.words.pop("slices in metadata.json"))
        recorded("ranks of a layout in metadata.json", rank_list=list(range((1 << 20) + 1)))
        stored = b'{"file_name":"f","storage_rank":%d}'
        metadata("files of a slice in metadata.json", shards=chain(
            [b"\"('w', (0,))\":["], repeat(stored % 0 + b",", 1 << 20), [stored % 0, b"]"]))
        recorded("a rank in metadata.json", rank_list=[1 << 20])
        metadata("bytes of a file name in metadata.json", shards=[
            b"\"('w', (0,))\":[", stored.replace(b'"f"', b'"%s"' % (b"f" * 256)) % 0, b"]"])
        parameter("dimensions of a global_shape", shape(17))
        recorded("entries of a tensor_map", tensor_map=[-1] * 18)
        recorded("axes of a device_matrix", device_matrix=[1] * 65)
        parameter("values of a parameter in metadata.json", b'"x":[', repeat(b"1,", 4_000_000), b"1]")
        text = b'"' + b"x" * (1 << 20) + b'"'
        parameter("bytes of all strings of a parameter in metadata.json", b'"x":[', repeat(text + b",", 128),
                  text, b"]")
        metadata("bytes of a string or a number in metadata.json",
                 chain([b'"w'], repeat(b"w" * (1 << 20), 17), [b'":0']), parameter="")
        parameter("keys of an object in metadata.json",
                  b",".join(b'"%d":0' % i for i in range(65)))
        parameter("nested lists and objects in metadata.json", b'"x":', repeat(b"[", 1_000_000))
        tracker = self.file("steps/latest_checkpointed_iteration.txt", b"1", 4097)
        self.refused_as("bytes of latest_checkpointed_iteration.txt", "inspect", tracker.parent)

    def strategies(self) -> None:
        self.strategy("bytes of a strategy file", b"{", size=(256 << 20) + 1)
        operator = b'"op":{"stage":0,"parallel_strategy":[]}'
        self.strategy("parameters and operators of a strategy file",
                      chain([b'{"parallel_strategy_item":{'], repeat(operator + b",", 2_000_001),
                            [operator, b"}}"]))
        self.strategy("bytes of a parameter in a protobuf strategy",
                      protobuf_strategy(numbers(4, *[1] * (1 << 19))), "s.ckpt")
        self.strategy("devices of a stage", json_strategy({"w": layout([1 << 21], [-1])}))
        self.strategy("ranks of all stages", json_strategy(
            {f"{stage}-w": layout([1 << 19], [-1]) for stage in range(3)}))
        self.strategy("the number of a stage", protobuf_strategy(
            numbers(1, 1) + numbers(2, -1 & (1 << 64) - 1), stage=(1 << 20) + 1), "s.ckpt")
        self.strategy("axes of a device matrix", json_strategy({"w": layout([1] * 33, [-1])}))
        self.strategy("dimensions of a tensor map", json_strategy({"w": layout([1], [-1] * 33)}))
        rows = 1 << 23
        fields = self.file("f.json", json_strategy({"w": layout([1], [-1], field=rows)}))
        self.plan("fields times parts", encode_value(b"w", (rows,), "Int8", bytes(rows)),
                  "--src-strategy", fields)

    def json_values(self) -> None:
        matrix = b"1," * 1_000_001 + b"1"
        self.strategy("values of a parameter in a JSON strategy",
                      b'{"parallel_layout_item":{"w":{"dev_matrix":[' + matrix + b"]}}}")
        keys = {str(number): 1 for number in range(65)}
        self.strategy("keys of an object in a JSON strategy", json_strategy({"w": keys}))
        self.strategy("nested lists in a JSON strategy",
                      b'{"parallel_layout_item":{"w":' + b"[" * 1_000_000)
        self.strategy("nested lists and objects in any other JSON", b'{"x":' + b"[" * 1_000_000)

    def rules(self) -> None:
        def rules(what: str, text: str, size: int = 0) -> None:
            self.strategy(what, text.encode(), "rules.toml", size)

        devices = '[devices]\naxes = ["dp=1"]\n'
        rules("bytes of a file of strategy rules", devices, (1 << 20) + 1)
        rules("parts of a key in TOML", "a" + ".a" * 500_000 + " = 1")
        rules("nested lists in TOML", "a = " + "[" * 500_000)
        rules("stages of strategy rules", devices + "stages = 4097\n")
        rules("layers of strategy rules", devices + '[[layers]]\nmatch = "l.{n}."\nsplit = [65537]\n')
        config = self.file("c.toml", b"#", (1 << 20) + 1)
        self.refused_as("bytes of a file for --config", "mount", "--config", config, "s", "m")

    def ranks(self) -> None:
        self.refused_as("a rank in a file name or in --ranks", "plan", self.root / "one.ckpt",
                        "--ranks", str(1 << 20))
        key = self.file("key", b"k" * 129)
        self.plan("bytes of a key file", None, "--dec-key-file", key)
        self.refused_as("bytes of --src-pattern", "plan", self.root, "--src-pattern",
                        "{rank}" + "*a" * 510)


if __name__ == "__main__":
    run_command_tests()
