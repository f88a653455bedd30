# SPDX-License-Identifier: Apache-2.0
"""A plain reader of what megatron_ranks.py writes, which joins as Megatron-LM's converter does, gets the
reference back."""

from __future__ import annotations

import re
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np  # noqa: E402
from deepspeed_sets import Tensors  # noqa: E402
from megatron_ranks import random_set, write_set  # noqa: E402
from test_deepspeed_sets import Tensor, read  # noqa: E402

SETS = 150
MODEL = re.compile(r"model(\d*)")
LAYER = re.compile(r"decoder\.layers\.(\d+)\.")
LOCAL_EXPERT = re.compile(r"\.experts\.local_experts\.(\d+)\.(.*)$")
GROUPED_EXPERT = re.compile(r"\.experts\.(linear_fc[12]\.(?:weight|bias))(\d+)$")


def numbers_of(directory: Path, args: dict[str, Any]) -> tuple[int, int, int]:
    """Tensor rank, stage and expert rank."""
    tensor, *others = (int(number) for number in directory.name.removeprefix("mp_rank_").split("_"))
    stage = others.pop(0) if args["pipeline_model_parallel_size"] > 1 else 0
    expert = others.pop(0) if args["expert_model_parallel_size"] > 1 else 0
    if others:
        raise ValueError(directory.name)
    return tensor, stage, expert


def joined(name: str, parts: list[np.ndarray], gated: bool) -> np.ndarray:
    """Of the tensor-parallel ranks, in their order."""
    if "norm" in name or "router" in name or name.endswith(("linear_proj.bias", "linear_fc2.bias")):
        return parts[0]
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return np.concatenate(parts, axis=1)
    if ".linear_fc1." in name and gated:
        gates, rest = zip(*(np.split(part, 2) for part in parts))
        return np.concatenate([*gates, *rest])
    return np.concatenate(parts)


def read_set(directory: Path) -> Tensors:
    files = {}
    for path in sorted(directory.glob("mp_rank_*")):
        saved = read(path / "model_optim_rng.pt")
        args = saved["args"].state
        files[numbers_of(path, args)] = saved
    keys = sorted((int(found[1] or 0), key) for key in saved if (found := MODEL.fullmatch(key)))
    experts = (args["num_experts"] or 0) // args["expert_model_parallel_size"]
    out: dict[str, Any] = {}
    first_layer = 0
    for _, key in keys:
        for stage in range(args["pipeline_model_parallel_size"]):
            there = {place: saved[key] for place, saved in files.items() if place[1] == stage}
            layers = 0
            for name in next(iter(there.values())):
                if name.endswith("_extra_state"):
                    continue
                if found := LAYER.match(name):
                    layers = max(layers, int(found[1]) + 1)
                whole = re.sub(LAYER, lambda found: f"decoder.layers.{int(found[1]) + first_layer}.", name)
                if found := LOCAL_EXPERT.search(whole):
                    number, rest = int(found[1]), found[2]
                elif found := GROUPED_EXPERT.search(whole):
                    number, rest = int(found[2]), found[1]
                else:
                    by_rank = {place[0]: there[place][name] for place in sorted(there)}
                    tensors = [by_rank[rank] for rank in sorted(by_rank)]
                    tied = whole == "output_layer.weight" and not args["untie_embeddings_and_output_weights"]
                    if not tied:
                        out[whole] = (tensors[0].kind, joined(whole, [tensor.array for tensor in tensors],
                                                              args["swiglu"]))
                    continue
                stacked = whole[:found.start()] + ".experts.experts." + rest
                for expert in range(args["expert_model_parallel_size"]):
                    by_rank = {place[0]: there[place][name] for place in sorted(there) if place[2] == expert}
                    tensors = [by_rank[rank] for rank in sorted(by_rank)]
                    if args["expert_tensor_parallel_size"] != args["tensor_model_parallel_size"]:
                        tensors = tensors[:1]
                    one = joined(stacked, [tensor.array for tensor in tensors], args["swiglu"])
                    out.setdefault(stacked, (tensors[0].kind, {}))[1][expert * experts + number] = one
            first_layer += layers
    return {name: (kind, np.stack([array[number] for number in sorted(array)]) if isinstance(array, dict)
                   else array) for name, (kind, array) in out.items()}


class MegatronRanks(unittest.TestCase):
    def test_random_sets(self) -> None:
        kinds = set()
        for seed in range(SETS):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as place:
                spec = random_set(seed)
                kinds.add((spec.tensor > 1, spec.pipeline > 1, spec.virtual > 1, spec.expert > 1,
                           spec.expert_tensor, spec.grouped))
                write_set(Path(place), spec)
                (step,) = [path for path in Path(place).iterdir() if path.is_dir()]
                got = read_set(step)
                self.assertEqual(got.keys(), spec.whole.keys())
                for name, (kind, array) in spec.whole.items():
                    self.assertEqual((got[name][0], got[name][1].shape), (kind, array.shape), name)
                    self.assertEqual(got[name][1].tobytes(), array.tobytes(), name)
        self.assertGreater(len(kinds), 15)

    def test_same_seed_same_set(self) -> None:
        one, other = random_set(7), random_set(7)
        self.assertEqual([(name, kind, array.tobytes()) for name, (kind, array) in one.whole.items()],
                         [(name, kind, array.tobytes()) for name, (kind, array) in other.whole.items()])

    def test_a_tensor_is_read_as_it_was_written(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            write_set(Path(place), random_set(1))
            saved = read(next(Path(place).rglob("model_optim_rng.pt")))
            self.assertIsInstance(next(value for key, value in saved.items() if MODEL.fullmatch(key)), dict)
            self.assertTrue(any(isinstance(value, Tensor) for key, model in saved.items() if MODEL.fullmatch(key)
                                for value in model.values()))


if __name__ == "__main__":
    unittest.main()
