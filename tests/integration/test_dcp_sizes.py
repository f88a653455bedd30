# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints of PyTorch: what large and hostile ones cost, and what opening them touches."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import unittest
import zipfile
from dataclasses import dataclass
from pathlib import Path

from mounted import Settings, mounted, run, run_unittests, scratch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from dcp_table import Pickle, Table  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "goldendcp"
HOSTILE_SECONDS = 1.0
HOSTILE_BYTES = 256 << 20
# Of a table: what opening it may take for each of its bytes.
SECONDS_A_BYTE = 5 / 200e6
BYTES_A_BYTE = 8
USUAL_SECONDS = 1.0
USUAL_BYTES = 64 << 20


@dataclass
class Cost:
    code: int
    seconds: float  # of the processor: those of the clock depend on what else is running
    bytes: int
    stderr: str


def cost_of(*arguments: str | Path, directory: Path) -> Cost:
    with (directory / "stderr").open("w+b") as err:
        child = subprocess.Popen([str(Settings.binary), *map(str, arguments)],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                                 env={**os.environ, **Settings.environment})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        return Cost(child.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10,
                    err.read().decode(errors="replace"))


def archive(values: list[float], shape: tuple[int, ...]) -> bytes:
    """A tensor as torch.save writes it."""
    pickle = Pickle()
    pickle.glob("torch._utils", "_rebuild_tensor_v2")
    pickle.out += b"(("
    pickle.text("storage")
    pickle.glob("torch", "FloatStorage")
    pickle.text("0")
    pickle.text("cpu")
    pickle.number(len(values))
    pickle.out += b"tQ"
    pickle.number(0)
    for numbers in (shape, tuple(shape[at + 1] for at in range(len(shape) - 1)) + (1,)):
        pickle.out += b"("
        for number in numbers:
            pickle.number(number)
        pickle.out += b"t"
    pickle.out += b"\x89"
    pickle.glob("collections", "OrderedDict")
    pickle.out += b")RtR."
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data.pkl", bytes(pickle.out))
        file.writestr("archive/data/0", struct.pack(f"<{len(values)}f", *values))
        file.writestr("archive/version", "3\n")
    return out.getvalue()


class DcpSizes(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def assert_cheap(self, cost: Cost, seconds: float, most: int) -> None:
        self.assertLess(cost.seconds, seconds, cost.stderr)
        self.assertLess(cost.bytes, most, cost.stderr)

    def test_a_large_table_is_read_in_proportion(self) -> None:
        size = Table(tensors=40, chunks=1000, files=8).write(self.root, with_plans=True)
        self.assertGreater(size, 8 << 20)
        cost = cost_of("plan", self.root, "--dst-strategy", "none", "--rank", "0",
                       directory=self.root)
        self.assertEqual(cost.code, 0, cost.stderr)
        self.assert_cheap(cost, USUAL_SECONDS + size * SECONDS_A_BYTE,
                          USUAL_BYTES + size * BYTES_A_BYTE)

    def test_of_many_archives_that_which_is_needed_is_read(self) -> None:
        values = [float(number) for number in range(8)]
        item = archive(values, (2, 4))
        table = Table(tensors=3000, chunks=1, files=60, item_bytes=len(item))
        table.write(self.root)
        file, offset = table.place(7, 0)
        with (self.root / file).open("r+b") as out:
            out.seek(offset)
            out.write(item)
        # All others are zeros, which no archive begins with.
        with mounted(self.root, "--views", "params", "--dst-strategy", "none") as mountpoint:
            found = (mountpoint / f"merged/params/{table.name(7)}.npy").read_bytes()
            self.assertEqual(found[-32:], struct.pack("<8f", *values))
            with self.assertRaises(OSError):
                (mountpoint / f"merged/params/{table.name(8)}.npy").read_bytes()
        result = run("verify", self.root)
        self.assertEqual(result.code, 1, result.stdout)
        self.assertIn("2999 problems", result.stdout + result.stderr)

    def test_of_few_archives_all_are_looked_at(self) -> None:
        Table(tensors=20, chunks=1, files=2).write(self.root)
        cost = cost_of("plan", self.root, "--dst-strategy", "none", "--rank", "0",
                       directory=self.root)
        self.assertEqual(cost.code, 2)
        self.assertIn("20 tensors cannot be shown", cost.stderr)

    def test_what_is_hostile_costs_little(self) -> None:
        cases = sorted(GOLDEN.glob("hostile/*/src"))
        self.assertGreater(len(cases), 50)
        for source in cases:
            with self.subTest(case=source.parent.name):
                cost = cost_of("export", source, self.root / "out", directory=self.root)
                self.assertIn(cost.code, (2, 3), cost.stderr)
                self.assert_cheap(cost, HOSTILE_SECONDS, HOSTILE_BYTES)

    def test_one_dictionary_under_many_names_costs_little(self) -> None:
        pickle = Pickle()

        def empty() -> None:
            pickle.out.extend(b"}")

        def shared() -> None:
            pickle.out.extend(b"}(")
            for number in range(50_000):
                pickle.number(number)
                pickle.number(0)
            pickle.out.extend(b"u")

        def named() -> None:
            pickle.out.extend(b"}(")
            for number in range(20_000):
                pickle.text(f"{number}")
                pickle.shared("dictionary", shared)
            pickle.out.extend(b"u")

        pickle.instance("megatron.core.dist_checkpointing.strategies.torch", "MCoreMetadata",
                        state_dict_metadata=empty, storage_data=empty, mcore_data=named)
        (self.root / ".metadata").write_bytes(bytes(pickle.out) + b".")
        cost = cost_of("export", self.root, self.root / "out", directory=self.root)
        self.assertEqual(cost.code, 2, cost.stderr)
        self.assertIn("mcore_data lists more than it can have", cost.stderr)
        self.assert_cheap(cost, HOSTILE_SECONDS, HOSTILE_BYTES)

    def test_floods_of_opcodes_cost_little(self) -> None:
        for number, flood in enumerate((b"N", b"]", b"}", b"(t", b"](Ne", b"]\x94", b"N\x94",
                                        b"K\x01" + b"h\x00" * 8)):
            source = self.root / f"flood{number}"
            source.mkdir()
            (source / ".metadata").write_bytes(
                b"\x80\x04]\x94" + flood * (10_000_000 // len(flood)))
            cost = cost_of("export", source, self.root / "out", directory=self.root)
            self.assertEqual(cost.code, 2, cost.stderr)
            self.assert_cheap(cost, HOSTILE_SECONDS, HOSTILE_BYTES)

    def test_hostile_metadata_of_shards_costs_little(self) -> None:
        for number, info in enumerate(('{"w": {"x": ' + "[" * 10_000_000,
                                       "[" * 10_000_000, '{"w": {"saved_offsets": [' + "0," * 5_000_000)):
            source = self.root / f"shards{number}"
            source.mkdir()
            header = json.dumps({"__metadata__": {"DCP_SHARDING_INFO": info},
                                 "w": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}}).encode()
            (source / "shard-00001-model-00001-of-00001.safetensors").write_bytes(
                len(header).to_bytes(8, "little") + header + b"w")
            cost = cost_of("export", source, self.root / "out", directory=self.root)
            self.assertEqual(cost.code, 2, cost.stderr)
            self.assertIn("DCP_SHARDING_INFO", cost.stderr)
            self.assert_cheap(cost, HOSTILE_SECONDS, HOSTILE_BYTES)


if __name__ == "__main__":
    run_unittests()
