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
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mounted import Settings, is_sanitized, mounted, processes_of, run, run_unittests, scratch

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


def archive(values: list[float], shape: tuple[int, ...], padding: int = 0) -> bytes:
    """A tensor as torch.save writes it."""
    pickle = Pickle()
    pickle.glob("torch._utils", "_rebuild_tensor_v2")
    pickle.out += b"(("
    pickle.text("storage")
    pickle.glob("torch", "FloatStorage")
    pickle.text("0")
    # The name of the device, of which nobody needs anything.
    if padding:
        pickle.out += b"]" + (b"(" + b"N" * 1000 + b"e") * (padding // 1002)
    else:
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
    return zipped(bytes(pickle.out), struct.pack(f"<{len(values)}f", *values))


def zipped(pickle: bytes, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data.pkl", pickle)
        file.writestr("archive/data/0", data)
        file.writestr("archive/version", "3\n")
    return out.getvalue()


class HyperPickle(Pickle):
    """With the classes of a framework that finds tensors in files by their names."""

    def instance(self, module: str, name: str, **fields: Callable[[], None]) -> None:
        super().instance("hyper_parallel.core.checkpoint." + module.rpartition(".")[2], name, **fields)


class HyperTable(Table):
    def __init__(self, tensors: int, files: int) -> None:
        super().__init__(tensors=tensors, chunks=1, files=files, item_bytes=-1)
        self.pickle = HyperPickle()

    def place(self, tensor: int, chunk: int) -> tuple[str, int]:
        return super().place(tensor, chunk)[0], 0

    def properties(self) -> None:
        self.pickle.instance("metadata", "TensorProperties", dtype=lambda: self.pickle.text("torch.float32"))

    def write_table(self, directory: Path) -> None:
        p = self.pickle
        p.instance("metadata", "Metadata", state_dict_metadata=self.listed, storage_data=self.places)
        (directory / ".metadata").write_bytes(bytes(p.out) + b".")


def dictionary(names: Iterable[str]) -> bytes:
    """Tensors [2, 4] as torch.save writes them; all have the same storage."""
    pickle = Pickle()

    def storage() -> None:
        pickle.out.extend(b"(")
        pickle.text("storage")
        pickle.glob("torch", "FloatStorage")
        pickle.text("0")
        pickle.text("cpu")
        pickle.number(8)
        pickle.out.extend(b"tQ")

    def sizes(numbers: tuple[int, int]) -> None:
        pickle.number(numbers[0])
        pickle.number(numbers[1])
        pickle.out.extend(b"\x86")

    def hooks() -> None:
        pickle.glob("collections", "OrderedDict")
        pickle.out.extend(b")R")

    pickle.out += b"}("
    for name in names:
        # Not kept in the memo: no name is there twice.
        data = name.encode()
        pickle.out += b"\x8c" + bytes([len(data)]) + data
        pickle.glob("torch._utils", "_rebuild_tensor_v2")
        pickle.out += b"("
        pickle.shared(("shared", "storage"), storage)
        pickle.number(0)
        pickle.shared(("shared", "size"), lambda: sizes((2, 4)))
        pickle.shared(("shared", "stride"), lambda: sizes((4, 1)))
        pickle.out += b"\x89"
        pickle.shared(("shared", "hooks"), hooks)
        pickle.out += b"tR"
    return zipped(bytes(pickle.out) + b"u.", struct.pack("<8f", *range(8)))


class DcpSizes(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def assert_cheap(self, cost: Cost, seconds: float, most: int) -> None:
        if is_sanitized(Settings.binary):  # which has costs of its own
            return
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

    def test_an_archive_under_many_names_is_read_once(self) -> None:
        tensors = 8
        names = [HyperTable(tensors, 1).name(number) for number in range(tensors)]
        content = dictionary([*names, *(f"unused.{number}" for number in range(400_000))])
        self.assertGreater(len(content), 8 << 20)
        usual_seconds = USUAL_SECONDS + len(content) * SECONDS_A_BYTE
        usual_bytes = USUAL_BYTES + len(content) * BYTES_A_BYTE
        costs = []
        for files in (1, tensors):
            source = self.root / f"of{files}"
            source.mkdir()
            HyperTable(tensors, files).write_table(source)
            (source / "__0_0.distcp").write_bytes(content)
            for number in range(1, files):
                if number % 2:
                    os.link(source / "__0_0.distcp", source / f"__{number}_0.distcp")
                else:
                    (source / f"__{number}_0.distcp").symlink_to("__0_0.distcp")
            out = self.root / f"out{files}"
            cost = cost_of("export", source, out, "--views", "merged", "--format", "safetensors",
                           directory=self.root)
            self.assertEqual(cost.code, 0, cost.stderr)
            self.assertTrue((out / "merged/checkpoint_merged.safetensors").read_bytes()
                            .endswith(struct.pack("<8f", *range(8)) * tensors))
            self.assert_cheap(cost, usual_seconds, usual_bytes)
            costs.append(cost)
        one, many = costs
        self.assertLess(many.seconds, 1.5 * one.seconds + 0.3)
        self.assertLess(many.bytes, one.bytes + (32 << 20))

    def test_many_readers_share_one_reading_of_an_archive(self) -> None:
        content = dictionary([HyperTable(8, 1).name(number) for number in range(8)]
                             + [f"unused.{number}" for number in range(250_000)])
        HyperTable(8, 1).write_table(self.root)
        (self.root / "__0_0.distcp").write_bytes(content)
        with mounted(self.root, "--views", "params", "--dst-strategy", "none") as mountpoint:
            paths = sorted((mountpoint / "merged/params").rglob("*.npy"))
            self.assertEqual(len(paths), 8)
            with ThreadPoolExecutor(16) as pool:
                found = list(pool.map(Path.read_bytes, paths * 2))
            for data in found:
                self.assertEqual(data[-32:], struct.pack("<8f", *range(8)))
            for pid in processes_of(mountpoint):
                status = Path(f"/proc/{pid}/status").read_text()
                peak = int(status.split("VmHWM:")[1].split()[0]) << 10
                if not is_sanitized(Settings.binary):
                    self.assertLess(peak, USUAL_BYTES + len(content) * BYTES_A_BYTE)

    def test_the_archive_of_one_tensor_has_a_short_pickle(self) -> None:
        values = [float(number) for number in range(8)]
        item = archive(values, (2, 4), padding=4 << 20)
        table = Table(tensors=8, chunks=1, files=1, item_bytes=len(item))
        table.place = lambda tensor, chunk: ("__0_0.distcp", 0)  # type: ignore[method-assign]
        source = self.root / "source"
        source.mkdir()
        table.write(source)
        (source / "__0_0.distcp").write_bytes(item)
        cost = cost_of("export", source, self.root / "out", directory=self.root)
        self.assertEqual(cost.code, 2, cost.stderr)
        self.assertIn("'data.pkl' has", cost.stderr)
        self.assert_cheap(cost, HOSTILE_SECONDS, HOSTILE_BYTES)

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
