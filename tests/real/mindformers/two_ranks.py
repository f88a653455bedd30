# SPDX-License-Identifier: Apache-2.0
"""One of two processes that save a Checkpoint 2.0: `two_ranks.py OUTPUT SEED`, started by msrun. A compiled graph
on an accelerator would give the layouts; here they are handed in."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker"))

import stand_ins  # before MindFormers
import mindspore as ms
import numpy as np
from mindformers.checkpoint.checkpoint import CommonInfo, save_checkpoint
from mindformers.checkpoint.sharded_tensor import get_sharded_tensor_from_strategy_metadata
from mindformers.core.context.build_context import build_context
from mindspore import communication, nn
from mindspore.parallel.shard import Layout

assert stand_ins
RANKS = 2
AXES = {"decoder.layers.0.mlp.linear_fc1.weight": ("tp", "None"),
        "decoder.layers.0.mlp.linear_fc2.weight": ("None", "tp"),
        "decoder.layers.0.self_attention.linear_qkv.weight": ("tp", "None"),
        "decoder.layers.0.mlp.router.fi_accu": ("None",),
        "decoder.final_layernorm.weight": ("None",)}


def weight_of(name: str) -> str:
    return name.removeprefix("adam_m.").removeprefix("adam_v.")


def random_tensors(seed: int) -> dict[str, np.ndarray]:
    rng, values = random.Random(seed), np.random.default_rng(seed)
    found = {}
    for name, axes in AXES.items():
        shape = [2 * rng.randint(1, 4) for _ in axes]
        for prefix in ("",) if "fi_accu" in name else ("", "adam_m.", "adam_v."):
            found[prefix + name] = values.standard_normal(shape).astype("f4")
    return found


def part(name: str, tensor: np.ndarray, rank: int) -> np.ndarray:
    for dimension, axis in enumerate(AXES[weight_of(name)]):
        if axis == "tp":
            tensor = np.split(tensor, RANKS, dimension)[rank]
    return np.ascontiguousarray(tensor)


class Holder(nn.Cell):
    """Of weights, or of an optimizer's states, and the step."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        super().__init__(auto_prefix=False)
        for number, (name, tensor) in enumerate(tensors.items()):
            setattr(self, f"held{number}", ms.Parameter(ms.Tensor(tensor), name=name))


def holders(tensors: dict[str, np.ndarray], step: int) -> tuple[Holder, Holder]:
    network = Holder({name: tensor for name, tensor in tensors.items() if name == weight_of(name)})
    optimizer = Holder({name: tensor for name, tensor in tensors.items() if name != weight_of(name)})
    optimizer.global_step = ms.Parameter(ms.Tensor(np.array([step], "i4")), name="global_step")
    return network, optimizer


def main() -> None:
    output, seed = sys.argv[1], int(sys.argv[2])
    build_context({"use_legacy": False, "run_mode": "finetune", "use_parallel": False,
                   "context": {"mode": 0, "device_target": "CPU"},
                   "parallel": {"parallel_mode": "STAND_ALONE", "full_batch": True},
                   "parallel_config": {"data_parallel": 1, "model_parallel": 1, "pipeline_stage": 1}})
    communication.init()
    rank = communication.get_rank()
    tensors = random_tensors(seed)
    network, optimizer = holders({name: part(name, tensor, rank) for name, tensor in tensors.items()}, 7)
    layout = Layout((1, RANKS), ("dp", "tp"), rank_list=list(range(RANKS)))
    listed = {name: [layout(*AXES[weight_of(name)]), ms.float32, tensor.shape] for name, tensor in tensors.items()}
    metas = {number: get_sharded_tensor_from_strategy_metadata(listed, number) for number in range(RANKS)}
    said = CommonInfo(epoch_num=1, step_num=7, global_step=7, loss_scale=1.0, global_batch_size=4)
    save_checkpoint(7, network, optimizer, common_info=said, user_prefix="net", save_checkpoint_path=output,
                    sharded_tensor_metas=metas if rank == 0 else None)


if __name__ == "__main__":
    main()
