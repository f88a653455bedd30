# SPDX-License-Identifier: Apache-2.0
"""What a new user wants of a directory, with two commands at most: the first is `reshardfs inspect`, or the one
that comes to mind; the second is one that the first has printed, or one that its help shows. What comes out is
compared with the tensors that the checkpoint was made of, by readers of the tests' own."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# First, because it finds the modules of tests/data.
from support_kinds import KINDS, Kind

import numpy as np
from format_files import read_ckpt, read_safetensors, write_safetensors
from map_sets import config_of, golden
from mounted import Result, fuse_problem, in_shell, is_mounted, mountpoint_guard, run, run_unittests, scratch
from test_support import Arrays, arrays_of, differences

TESTS = Path(__file__).resolve().parents[1]
MOST_COMMANDS = 2
# Said by the user, since nothing near the checkpoint tells: its key, and rules of one's own.
KNOWN = {"MindSpore, safetensors", "MindSpore, encrypted"}


class Task(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = self.enterContext(scratch()).resolve()
        self.commands = 0

    def typed(self, line: str, codes: tuple[int, ...] = (0,)) -> Result:
        """In a shell of that directory, as a user would type it."""
        self.commands += 1
        self.assertLessEqual(self.commands, MOST_COMMANDS, line)
        result = in_shell(line, self.directory)
        self.assertIn(result.code, codes, f"{line}\n{result.stderr}")
        return result

    def printed(self, result: Result, word: str) -> str:
        """The first command below "next:" that has the word."""
        _, _, below = result.stdout.partition("\nnext:\n")
        for line in below.splitlines():
            if f"reshardfs {word} " in line:
                return line.strip()
        self.fail(f"no {word} in:\n{result.stdout}")

    @contextmanager
    def mounted_by(self, line: str) -> Iterator[Path]:
        if problem := fuse_problem():
            self.skipTest(problem)
        found = re.match(r"mkdir -p (\S+) && ", line)
        self.assertIsNotNone(found, line)
        assert found
        mountpoint = self.directory / found[1]
        with mountpoint_guard(mountpoint):
            self.typed(line)
            self.assertTrue(is_mounted(mountpoint))
            yield mountpoint
            self.assertEqual(run("umount", mountpoint).code, 0)

    def make(self, name: str) -> Kind:
        kind = KINDS[name](self.directory)
        place = self.directory / "ckpt"
        if kind.source.parent != self.directory:
            # With what lies beside it: a strategy is found there.
            shutil.copytree(kind.source.parent, self.directory / "job")
            place = self.directory / "job" / kind.source.name
        else:
            place = kind.source
        return Kind(place.relative_to(self.directory), kind.tensors, kind.options, kind.added)

    def options_of(self, name: str, kind: Kind) -> str:
        return shlex.join(map(str, kind.options)) if name in KNOWN else ""

    def check_same(self, got: Arrays, kind: Kind) -> None:
        want = {name: array for name, array in arrays_of(kind.tensors).items() if name not in kind.added}
        got = {name: array for name, array in got.items() if name not in kind.added}
        self.assertEqual(differences(got, want), [])


class Read(Task):
    """Every kind of source: what it is, and then its values, below a mount."""

    def read(self, name: str) -> None:
        kind = self.make(name)
        shown = self.typed(f"reshardfs inspect {shlex.quote(str(kind.source))} {self.options_of(name, kind)}")
        with self.mounted_by(self.printed(shown, "mount")) as mountpoint:
            (file,) = (mountpoint / "merged").glob("checkpoint_merged.safetensors")
            self.check_same(arrays_of(read_safetensors(file)[0]), kind)

    def test_rank_files(self) -> None:
        self.read("MindSpore, .ckpt")

    def test_safetensors_rank_files(self) -> None:
        self.read("MindSpore, safetensors")

    def test_encrypted(self) -> None:
        self.read("MindSpore, encrypted")

    def test_checkpoint2(self) -> None:
        self.read("MindSpore Transformers, Checkpoint 2.0")

    def test_one_file(self) -> None:
        self.read("one file of whole tensors")

    def test_hub(self) -> None:
        self.read("a model hub's safetensors")

    def test_distcp(self) -> None:
        self.read("PyTorch, .distcp")

    def test_torch_safetensors(self) -> None:
        self.read("PyTorch, safetensors")

    def test_torch_dist(self) -> None:
        self.read("Megatron-Core, torch_dist")

    def test_hyper_parallel(self) -> None:
        self.read("hyper-parallel")

    def test_torch_save(self) -> None:
        self.read("torch.save, .pt, .pth, .bin")

    def test_ranks_of_fsdp(self) -> None:
        self.read("FSDP's ranks, torch.save")

    def test_deepspeed(self) -> None:
        self.read("DeepSpeed, ZeRO 1 to 3 and universal")


class Convert(Task):
    def rank_arrays(self, directory: Path) -> list[Arrays]:
        """Of every rank, each in one file."""
        return [arrays_of(read_ckpt(file) if file.suffix == ".ckpt" else read_safetensors(file)[0])
                for rank in range(len(list(directory.glob("rank_*"))))
                for file in (directory / f"rank_{rank}").iterdir()]

    def test_whole_model_in_one_file(self) -> None:
        kind = self.make("PyTorch, .distcp")
        self.typed(f"reshardfs export {kind.source} model.safetensors")
        self.check_same(arrays_of(read_safetensors(self.directory / "model.safetensors")[0]), kind)

    def test_whole_model_of_ranks_in_one_file(self) -> None:
        """The first command leaves the strategy out; its answer has it."""
        kind = self.make("MindSpore, .ckpt")
        refused = self.typed(f"reshardfs export {kind.source} model.ckpt", (2,))
        self.typed(refused.stderr.strip().partition("; run: ")[2])
        self.check_same(arrays_of(read_ckpt(self.directory / "model.ckpt")), kind)

    def test_hub_model_for_two_ranks(self) -> None:
        kind = self.make("a model hub's safetensors")
        self.typed(f"reshardfs export {kind.source} out --dst-strategy tp=2")
        ranks = self.rank_arrays(self.directory / "out")
        self.assertEqual(len(ranks), 2)
        for name, whole in arrays_of(kind.tensors).items():
            parts = [rank[name] for rank in ranks]
            axis = next((axis for axis in range(whole.ndim) if parts[0].shape[axis] != whole.shape[axis]), None)
            joined = parts[0] if axis is None else np.concatenate(parts, axis)
            self.assertEqual(joined.tobytes(), whole.tobytes(), name)

    def test_ranks_as_a_hub_model(self) -> None:
        kind = self.make("Megatron-Core, torch_dist")
        self.typed(f"reshardfs export {kind.source} out --views hf")
        got: Arrays = {}
        for file in sorted((self.directory / "out/hf").glob("*.safetensors")):
            got |= arrays_of(read_safetensors(file)[0])
        states = {name for name in kind.tensors if name.startswith("optimizer.")}
        self.check_same(got, Kind(kind.source, kind.tensors, added=(*kind.added, *states)))

    def test_other_number_of_ranks(self) -> None:
        """With the strategies beside the checkpoint."""
        shutil.copytree(TESTS / "golden/tp8_to_tp4", self.directory / "job")
        shutil.rmtree(self.directory / "job/dst")
        self.typed("reshardfs export job/src out --src-strategy job/src_strategy.ckpt "
                   "--dst-strategy job/dst_strategy.ckpt --format ckpt")
        want = [arrays_of(read_ckpt(next((TESTS / f"golden/tp8_to_tp4/dst/rank_{rank}").iterdir())))
                for rank in range(4)]
        for got, expected in zip(self.rank_arrays(self.directory / "out"), want, strict=True):
            self.assertEqual(differences(got, expected), [])

    def test_one_parameter(self) -> None:
        kind = self.make("a model hub's safetensors")
        name, whole = next((name, array) for name, array in arrays_of(kind.tensors).items() if array.ndim == 2)
        self.typed(f"reshardfs cat {kind.source} --param {name} > values")
        self.assertEqual((self.directory / "values").read_bytes(), whole.tobytes())

    def test_names_of_another_framework(self) -> None:
        """A model of MindFormers for the hub: the map is found by the names."""
        case = "llama_legacy_back"
        (self.directory / "trained").mkdir()
        write_safetensors(self.directory / "trained/model.safetensors", golden(case, "src"))
        (self.directory / "trained/config.json").write_text(json.dumps(config_of(case)))
        self.typed("reshardfs export trained/model.safetensors model.safetensors --map auto")
        got = arrays_of(read_safetensors(self.directory / "model.safetensors")[0])
        self.assertEqual(differences(got, arrays_of(golden(case, "expected"))), [])


class Check(Task):
    def test_whole_checkpoint(self) -> None:
        kind = self.make("PyTorch, .distcp")
        shown = self.typed(f"reshardfs inspect {kind.source}")
        self.typed(self.printed(shown, "verify"))

    def test_damage_is_found(self) -> None:
        kind = self.make("MindSpore, .ckpt")
        damaged = self.directory / kind.source / "rank_3"
        (file,) = damaged.glob("*.ckpt")
        file.write_bytes(file.read_bytes()[:-20])
        refused = self.typed(f"reshardfs verify {kind.source}", (1, 2))
        self.assertIn("rank_3", refused.stdout + refused.stderr)

    def test_two_checkpoints_of_one_model(self) -> None:
        """Before and after a conversion, in different layouts."""
        kind = self.make("MindSpore, .ckpt")
        shutil.copy(next((TESTS / "golden/tp8_to_full/dst/rank_0").iterdir()), self.directory / "whole.ckpt")
        refused = self.typed(f"reshardfs diff {kind.source} whole.ckpt", (2,))
        self.typed(refused.stderr.strip().partition("; run: ")[2])

    def test_ones_own_export(self) -> None:
        """It has its strategy with it, wherever that was."""
        case = TESTS / "golden/pp2tp2_to_tp4"
        run("export", case / "src", self.directory / "out", "--src-strategy", case / "src_strategy.ckpt",
            "--dst-strategy", case / "dst_strategy.ckpt")
        shutil.copytree(case / "src", self.directory / "job/src")
        shutil.copy(case / "src_strategy.ckpt", self.directory / "job")
        refused = self.typed("reshardfs diff job/src out", (2,))
        self.typed(refused.stderr.strip().partition("; run: ")[2])

    def test_ones_own_export_under_a_mount(self) -> None:
        case = TESTS / "golden/full_to_tp8"
        run("export", case / "src", self.directory / "out", "--dst-strategy", case / "dst_strategy.ckpt")
        shown = self.typed("reshardfs inspect out")
        with self.mounted_by(self.printed(shown, "mount")) as mountpoint:
            got = arrays_of(read_safetensors(mountpoint / "merged/checkpoint_merged.safetensors")[0])
            want = arrays_of(read_ckpt(next((case / "src").rglob("*.ckpt"))))
            self.assertEqual(differences(got, want), [])


if __name__ == "__main__":
    run_unittests()
