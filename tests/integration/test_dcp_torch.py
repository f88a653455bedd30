# SPDX-License-Identifier: Apache-2.0
"""Distributed checkpoints between reshardfs and torch 1.13 itself, both ways.

torch is judge of all values. Skipped where there is no such torch (python3-torch of Debian 12).
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from cached_programs import cached_python  # noqa: E402
from dcp_reader import read_dcp  # noqa: E402
from format_files import random_array, read_safetensors, write_safetensors  # noqa: E402
from layouts import Layout  # noqa: E402
from mounted import SKIP, mounted, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

try:
    from torch_113 import checkpoint, torch
except ImportError as error:
    torch = None  # type: ignore[assignment]
    REASON = f"python3-torch 1.13 is needed: {error}"

RANKS = Path(__file__).resolve().parents[1] / "data/torch_ranks.py"
# Bits of a type that NumPy has; what torch calls the type.
KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<i2", "I64": "<i8", "I32": "<i4",
         "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
PATIENCE = 120.0

Tensors = dict[str, tuple[str, np.ndarray]]


def tensor_of(kind: str, array: np.ndarray) -> Any:
    tensor = torch.from_numpy(array.copy())
    return tensor.view(torch.bfloat16) if kind == "BF16" else tensor


def bits_of(tensor: Any) -> bytes:
    tensor = tensor.contiguous()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy().tobytes()


def model(seed: int) -> Tensors:
    rng = np.random.default_rng(seed)
    tensors: Tensors = {f"type.{kind}": (kind, random_array(rng, bits, (12, 6)))
                        for kind, bits in KINDS.items()}
    tensors |= {"scalar": ("F32", random_array(rng, "<f4", ())),
                "nothing": ("F32", random_array(rng, "<f4", (0, 5))),
                "one": ("I64", random_array(rng, "<i8", (1,))),
                "層.0.重み": ("F32", random_array(rng, "<f4", (300, 40)))}
    return tensors


class TorchTest(unittest.TestCase):
    def setUp(self) -> None:
        self.root = self.enterContext(scratch())
        warnings.simplefilter("ignore")

    def export(self, source: Path, *words: str | Path, views: str = "dcp", out: str = "out") -> Path:
        result = run("export", source, self.root / out, "--views", views, *words)
        self.assertEqual(result.code, 0, result.stderr)
        return self.root / out / views

    def load(self, directory: Path, want: Tensors) -> None:
        """torch loads it, and finds these tensors."""
        wanted = {name: tensor_of(kind, array) for name, (kind, array) in want.items()}
        state = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
        checkpoint.load_state_dict(state, checkpoint.FileSystemReader(str(directory)), no_dist=True)
        for name, tensor in wanted.items():
            self.assertEqual((state[name].dtype, state[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertEqual(bits_of(state[name]), bits_of(tensor), name)

    def on_ranks(self, action: str, world: int, directory: Path, tensors: Path) -> None:
        meeting = self.root / f"meeting-{action}-{directory.name}-{world}"
        environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        processes = [subprocess.Popen([sys.executable, "-B", RANKS, action, str(rank), str(world),
                                       meeting, directory, tensors], env=environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                     for rank in range(world)]
        try:
            for process in processes:
                text, _ = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 0, text.decode(errors="replace"))
        finally:
            for process in processes:
                process.kill()
                process.wait()


class Out(TorchTest):
    """What torch loads of the view."""

    def setUp(self) -> None:
        super().setUp()
        self.model = model(1)
        self.source = self.root / "m.safetensors"
        write_safetensors(self.source, self.model)
        layouts = {name: Layout((2, 2), ((1,), (0,))) for name, (_, array) in self.model.items()
                   if array.shape in ((12, 6), (300, 40))}
        write_protobuf(Strategy([layouts]), self.root / "dst.ckpt")
        self.targets: list[tuple[str | Path, ...]] = [
            ("--dcp-release", "1.13"),
            ("--dcp-release", "1.13", "--dcp-shards", "3"),
            ("--dcp-release", "1.13", "--dst-strategy", self.root / "dst.ckpt")]

    def test_torch_loads_every_tensor(self) -> None:
        for number, words in enumerate(self.targets):
            with self.subTest(words=words):
                self.load(self.export(self.source, *words, out=f"out{number}"), self.model)
                with mounted(self.source, "--views", "dcp", *words) as mountpoint:
                    self.load(mountpoint / "dcp", self.model)

    def test_several_processes_load_their_rows(self) -> None:
        arrays = self.root / "arrays.npz"
        np.savez(arrays, **{name: array for name, (kind, array) in self.model.items()
                            if kind != "BF16" and kind != "BOOL" and array.size})
        with mounted(self.source, "--views", "dcp", *self.targets[2]) as mountpoint:
            for world in (2, 3):
                self.on_ranks("load", world, mountpoint / "dcp", arrays)

    def test_torch_opens_each_archive(self) -> None:
        saved = self.export(self.source, *self.targets[2])
        with open(saved / ".metadata", "rb") as file:
            import pickle
            table = pickle.load(file)
        found = 0
        for index, place in table.storage_data.items():
            data = (saved / place.relative_path).read_bytes()
            item = torch.load(io.BytesIO(data[place.offset:place.offset + place.length]))
            kind, full = self.model[index.fqn]
            box = tuple(slice(at, at + size) for at, size in zip(index.offset, item.shape, strict=True))
            self.assertEqual(bits_of(item), full[box].tobytes(), index.fqn)
            self.assertEqual(item.dtype, tensor_of(kind, full).dtype)
            self.assertFalse(item.requires_grad)
            found += 1
        self.assertGreater(found, 4 * 10)

    def test_torch_notices_another_value(self) -> None:
        """So that the tests above can fail."""
        saved = self.export(self.source, *self.targets[0])
        with self.assertRaises(AssertionError):
            self.load(saved, self.model | {"scalar": ("F32", np.array(8.5, "<f4"))})


class Back(TorchTest):
    """What torch saved comes out as it went in."""

    def assert_round_trip(self, saved: Path, want: Tensors) -> None:
        whole = self.export(saved, "--dst-strategy", "none", views="ranks", out="whole").parent
        got, _ = read_safetensors(whole / "rank_0/checkpoint_0.safetensors")
        self.assertEqual(sorted(got), sorted(want))
        for name, (kind, array) in want.items():
            self.assertEqual((got[name][0], got[name][1].shape), (kind, array.shape), name)
            self.assertEqual(got[name][1].tobytes(), array.tobytes(), name)
        again = self.export(saved, "--dst-strategy", "none", "--dcp-release", "1.13", "--dcp-shards", "2",
                            out="again")
        self.load(again, want)

    def test_of_one_process(self) -> None:
        tensors = model(2)
        objects = {"step": 7, "betas": (0.9, 0.95), "note": "層", "groups": [{"lr": 1e-3}]}
        state = {name: tensor_of(kind, array) for name, (kind, array) in tensors.items()}
        # As torch stores it: not in C order.
        state["type.F32"] = state["type.F32"].t().contiguous().t()
        saved = self.root / "saved"
        for single in (False, True):
            with self.subTest(single_file_per_rank=single):
                checkpoint.save_state_dict(
                    state | objects,
                    checkpoint.FileSystemWriter(str(saved / str(single)),
                                                single_file_per_rank=single), no_dist=True)
                self.assert_round_trip(saved / str(single), tensors)
                again = read_dcp(self.root / "again/dcp").objects
                self.assertEqual({name: torch.load(io.BytesIO(data)) for name, data in again.items()},
                                 objects)
                # As a program loads them.
                loaded: dict[str, Any] = dict.fromkeys(objects, 0)
                checkpoint.load_state_dict(
                    loaded, checkpoint.FileSystemReader(str(self.root / "again/dcp")), no_dist=True)
                self.assertEqual(loaded, objects)
            subprocess.run(["rm", "-r", self.root / "again", self.root / "whole"], check=True)

    def test_of_several_processes(self) -> None:
        tensors = {name: (kind, array) for name, (kind, array) in model(3).items()
                   if kind != "BF16" and kind != "BOOL" and array.size}
        arrays = self.root / "arrays.npz"
        np.savez(arrays, **{name: array for name, (_, array) in tensors.items()})
        saved = self.root / "saved"
        self.on_ranks("save", 3, saved, arrays)
        self.assertGreater(len({path.name.split("_")[2] for path in saved.glob("*.distcp")}), 1)
        self.assert_round_trip(saved, tensors)
        # And for other processes.
        self.on_ranks("load", 2, self.root / "again/dcp", arrays)


def main() -> None:
    if torch is None:
        other = cached_python("torch-1.13.1")
        if other and other != [sys.executable]:
            os.execv(other[0], [*other, "-B", *sys.argv])
        print(json.dumps({"skipped": REASON}))
        raise SystemExit(SKIP)
    run_unittests()


if __name__ == "__main__":
    main()
