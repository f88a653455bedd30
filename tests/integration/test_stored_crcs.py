# SPDX-License-Identifier: Apache-2.0
"""The CRC-32 that PyTorch writes, in every kind of set that has archives of torch.save: one bit is flipped."""

from __future__ import annotations

import io
import json
import shutil
import sys
import unittest
import zipfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from command_tests import run_command_tests  # noqa: E402
from mounted import run, scratch  # noqa: E402

TESTS = Path(__file__).resolve().parents[1]
# What PyTorch itself wrote: the set, and the pattern of the files to damage.
SETS = {
    "goldentorch/plain_214": "model.pt",
    "goldentorch/bin_shards_214": "*.bin",
    "goldentorch/consolidated_214": "*.pth",
    "goldentorch/fsdp2_w2_214": "**/model_world_size_*.pt",
    "goldentorch/fsdp_mesh_2x2_26": "**/model_world_size_*.pt",
    "goldentorch/deepspeed_z1_w2": "**/*_optim_states.pt",
    "goldentorch/deepspeed_z3_w4": "**/*_optim_states.pt",
    "goldentorch/deepspeed_universal": "**/fp32.pt",
    "goldentorch/megatron_tp2": "**/model_optim_rng.pt",
    "goldendcp/grid4_113": "*.distcp",
    "goldendcp/golden_mesh_4_torch214": "**/*.distcp",
}


def archives(data: bytes) -> Iterator[tuple[int, zipfile.ZipFile]]:
    """The archives that lie one behind the other in a file, each with its place."""
    begin, end = 0, 0
    while (end := data.find(b"PK\x05\x06", end)) >= 0:
        end += 22
        archive = data[begin:end]
        if zipfile.is_zipfile(io.BytesIO(archive)) and archive.startswith(b"PK\x03\x04"):
            yield begin, zipfile.ZipFile(io.BytesIO(archive))
            begin = end


def flip(path: Path, record: str) -> str:
    """Flips a bit in the middle of the largest of these records; says which."""
    data = bytearray(path.read_bytes())
    place, info = max(((place, info) for place, archive in archives(bytes(data))
                       for info in archive.infolist() if record in info.filename),
                      key=lambda found: found[1].file_size)
    at = place + info.header_offset
    lengths = [int.from_bytes(data[at + n:at + n + 2], "little") for n in (26, 28)]
    data[at + 30 + sum(lengths) + info.file_size // 2] ^= 1
    path.write_bytes(data)
    return info.filename.partition("/")[2]


class StoredCrcs(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())

    def copies(self) -> Iterator[tuple[Path, list[str], str]]:
        for name, pattern in SETS.items():
            case = json.loads((TESTS / name / "case.json").read_text())
            copy = shutil.copytree(TESTS / name / "src", self.root / name)
            with self.subTest(name):
                yield copy, case.get("options", []), pattern

    def test_sound_sets_have_them(self) -> None:
        for source, options, _ in self.copies():
            result = run("verify", source, "--json", *options)
            self.assertEqual(result.code, 0, result.stdout + result.stderr)
            report = json.loads(result.stdout)
            self.assertGreater(report["crc_good"], 0)
            self.assertEqual(report["crc_none"], 0)
            result = run("inspect", source, "--check-crc", *options)
            self.assertEqual(result.code, 0, result.stderr)
            self.assertNotIn("CRC", result.stderr)

    def test_one_bit_is_found(self) -> None:
        for source, options, pattern in self.copies():
            for number, path in enumerate(sorted(source.glob(pattern))):
                sound = path.read_bytes()
                record = flip(path, "/data/")
                result = run("verify", source, "--json", *options)
                self.assertEqual(result.code, 1, result.stdout + result.stderr)
                problem, *others = json.loads(result.stdout)["problems"]
                # DeepSpeed's files have weights twice, which then differ.
                self.assertLessEqual({other["kind"] for other in others}, {"replica"})
                self.assertEqual((problem["kind"], problem["file"]), ("crc", str(path)))
                self.assertIn(f"'{record}'", problem["message"])
                out = self.root / f"out-{number}.safetensors"
                result = run("export", source, out, "--check-crc", *options)
                self.assertEqual(result.code, 2, result.stderr)
                self.assertIn(path.name, result.stderr)
                self.assertFalse(out.exists())
                path.write_bytes(sound)

    def test_objects_beside_tensors(self) -> None:
        """Bytes of a distributed checkpoint that only --views dcp shows."""
        source = Path(shutil.copytree(TESTS / "goldendcp/golden_mesh_4_torch214/src", self.root / "objects"))
        damaged = 0
        for path in sorted(source.rglob("*.distcp")):
            for place, archive in archives(path.read_bytes()):
                if any("/data/" in name for name in archive.namelist()):
                    continue
                data = bytearray(path.read_bytes())
                data[data.index(b"\x80\x02", place) + 2] ^= 1
                path.write_bytes(data)
                damaged += 1
                result = run("verify", source, "--json")
                self.assertEqual(result.code, 1)
                kinds = {problem["kind"] for problem in json.loads(result.stdout)["problems"]}
                self.assertEqual(kinds, {"crc"})
                return
        self.skipTest("no object in the set")

    def test_archives_without_them(self) -> None:
        """torch.serialization.set_crc32_options(False) writes 0."""
        source = TESTS / "goldentorch/without_crc_214/src"
        for path in (source, *source.iterdir()):
            result = run("verify", path)
            self.assertEqual(result.code, 0, result.stdout + result.stderr)
            self.assertIn("; no file has a CRC", result.stdout)
            result = run("inspect", path, "--check-crc")
            self.assertEqual(result.code, 0, result.stderr)
            self.assertIn("no file of the checkpoint has a CRC", result.stderr)

    def test_some_files_without_them(self) -> None:
        source = Path(shutil.copytree(TESTS / "goldentorch/fsdp2_w2_214/src", self.root / "some"))
        path = sorted(source.rglob("model_world_size_*.pt"))[0]
        data = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                at = data.rindex(info.filename.encode()) - 46
                assert data[at:at + 4] == b"PK\x01\x02"
                data[at + 16:at + 20] = bytes(4)
        path.write_bytes(data)
        self.assertIn("CRC good in 1 file, none in 1 file", run("verify", source).stdout)
        said = run("inspect", source, "--check-crc").stderr
        self.assertIn(f"CRC good in 1 file, none in 1 file, such as {path}", said)


if __name__ == "__main__":
    run_command_tests()
